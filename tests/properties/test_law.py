"""Law 1 as a property: compiled calls and interpreted calls cannot be told apart."""

from __future__ import annotations

import logging
import sys

import pytest
from hypothesis import given

from aspecthook._core.compile import link as _compile
from aspecthook._core.compile import text as _writer
from aspecthook._core.mount import point as _mount

from .worlds import STYLES, Scenario, World, scenarios


@pytest.mark.parametrize("permanent", [True, False], ids=["strong", "weak"])
@pytest.mark.parametrize("loop_from", [_writer.LOOP_FROM, 2], ids=["unrolled", "loops"])
@pytest.mark.parametrize(
    ("style", "events"),
    [*((style, False) for style in STYLES), ("function", True), ("coroutine", True)],
    ids=[*STYLES, "event", "async event"],
)
def test_compiled_and_interpreted_calls_agree(
    style: str, events: bool, loop_from: int, permanent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mount, "module_of", lambda function: sys.modules[__name__] if permanent else None)
    monkeypatch.setattr(_writer, "LOOP_FROM", loop_from)
    monkeypatch.setattr(_compile, "_templates", {})
    monkeypatch.setattr(logging.getLogger("aspecthook"), "disabled", True)

    @given(scenarios((style,), events=events))
    def agree(scenario: Scenario) -> None:
        compiled, interpreted = World(scenario), World(scenario)
        seen = compiled.run(compiled.mounted())
        expected = interpreted.run(interpreted.interpreted())
        assert seen == expected

    agree()
