"""Law 1 as a property: compiled calls and interpreted calls cannot be told apart."""

from __future__ import annotations

import logging
import sys

import pytest
from hypothesis import given

from aspecthook._core.compile import link as _compile
from aspecthook._core.compile import text as _writer
from aspecthook._core.mount import point as _mount

from .worlds import STYLES, Scenario, Spec, World, scenarios


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
    monkeypatch.setattr(_mount, "watch_module", lambda *_: sys.modules[__name__] if permanent else None)
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


def known(
    style: str, *specs: Spec, target: str = "value", event: dict[str, str] | None = None, **more: bool
) -> Scenario:
    """Return a scenario of two calls with one argument."""
    drive = ["next", "send x", "next", "next"]
    return Scenario(style, "a", ["a"], [target], 2, [*specs], [1], {}, drive, 2, event=event, **more)


ONE_YIELD = {"function": ["yield"], "generator": ["yield"], "coroutine": ["yield", "ayield"]}
ONE_YIELD["async generator"] = ONE_YIELD["coroutine"]
RARE = {
    "isolated hook that replaces a name that is not there": [
        known(style, Spec("pre", [], ["args zzz"], options=options), Spec("pre", ["a"], ["args a"]))
        for style in STYLES
        for options in ({"isolate": True}, {})
    ],
    "one-yield hook when the call fails": [
        known(style, Spec("around", ["a"], [how, answer], flavour, options=options), target="raise mishap")
        for style, flavours in ONE_YIELD.items()
        for flavour in flavours
        for how in ("catch", "proceed", "twice", "never")
        for answer in ("none", "value")
        for options in ({}, {"reentrant": False})
    ],
    "one-yield hook when the call succeeds": [
        known(style, Spec("around", ["a"], [how, "value"], flavour, options={"reentrant": False}))
        for style, flavours in ONE_YIELD.items()
        for flavour in flavours
        for how in ("proceed", "twice", "never")
    ],
    "item hooks that answer": [
        known(
            style, *[Spec("item", ["item"], [act, "none"]) for act in ("none", "value", "return none", "args a")][:many]
        )
        for style in ("generator", "async generator")
        for many in (1, 2, 3, 4)
    ],
    "event whose body fails": [
        known(style, Spec("on", ["a"], [act]), target="raise mishap", event={"first": True, "errors": errors})
        for style in ("function", "coroutine")
        for act in ("none", "value", "raise key")
        for errors in ("raise", "group")
    ],
    "event whose subscriber fails": [
        known(style, *[Spec("on", ["a"], [act]) for act in ("value", "raise key", "value")], event=event, stub=True)
        for style in ("function", "coroutine")
        for event in ({}, {"errors": "group"}, {"fold": "a"}, {"fold": "a", "errors": "group"}, {"errors": "isolate"})
    ],
}


@pytest.mark.parametrize("case", RARE)
def test_compiled_and_interpreted_calls_agree_on_what_is_seldom_drawn(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("aspecthook"), "disabled", True)
    for scenario in RARE[case]:
        compiled, interpreted = World(scenario), World(scenario)
        assert compiled.run(compiled.mounted()) == interpreted.run(interpreted.interpreted()), scenario
