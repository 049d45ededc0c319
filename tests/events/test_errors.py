"""Exceptions of subscribers: raised or isolated."""

from __future__ import annotations

import pytest

from aspecthook import hooks
from tests.events.samples import fails, made


def test_isolate_logs_and_counts_failures(caplog: pytest.LogCaptureFixture) -> None:
    said = made(errors="isolate")
    said.on(fails(ValueError("one")), name="bad")
    said.on(lambda: "good")
    said.on(fails(KeyError("strict")), isolate=False, when=lambda: strict, name="strict")
    strict = False
    assert said() == ["good"] and hooks(said)["bad"].failures == 1
    assert "on hook 'bad'" in caplog.text
    strict = True
    with pytest.raises(KeyError):
        said()
