"""Fixtures of the tests of events."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from aspecthook import hooks
from aspecthook.events import _audits
from tests.events.programs import EVENTS, globals_now, same
from tests.events.samples import arrived, cleaned, found, rang
from tests.garbage import no_collector


@pytest.fixture
def no_gc() -> Iterator[None]:
    with no_collector():
        yield


@pytest.fixture
def no_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("aspecthook"), "disabled", True)


@pytest.fixture(autouse=True)
def _cleared() -> Iterator[None]:
    yield
    for one in (rang, found, cleaned, arrived):
        hooks(one).clear()


@pytest.fixture
def no_trace() -> Iterator[None]:
    """Check that a test leaves the interpreter as it was, and a dispatcher of audit events that is silent."""
    before = globals_now()
    yield
    listening = [event.__name__ for event in EVENTS if len(hooks(event))]
    assert listening == []
    assert same(globals_now(), before)
    assert not _audits._table
    assert _audits._hook is None or _audits._hook.__code__ is _audits._silent.__code__
