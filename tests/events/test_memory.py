"""What an event keeps alive: not its arguments, nor its subscribers, nor itself."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from aspecthook import Return
from tests.events.samples import Listener, amade, failing, made


async def passed_on_later(proceed: Callable[[], Any]) -> Any:
    return await proceed()


@pytest.mark.usefixtures("no_gc", "no_logging")
@pytest.mark.parametrize("other", ["", "exception", "handled", "around", "always", "call", "interrupt"])
@pytest.mark.parametrize("make", [made, amade])
@pytest.mark.parametrize("errors", ["raise", "isolate"])
@pytest.mark.parametrize("gives", [{}, {"first": True}, {"fold": "n"}])
def test_failing_event_frees_its_argument(
    gives: dict[str, Any], errors: str, make: Callable[..., Any], other: str
) -> None:
    said = make(errors=errors, **gives)
    said.on(failing)
    said.on(lambda: None)
    add: dict[str, Callable[[], Any]] = {
        "exception": lambda: said.exception(lambda exc: None),
        "handled": lambda: said.exception(lambda exc: Return(1)),
        "around": lambda: said.around(passed_on_later if make is amade else lambda proceed: proceed()),
        "always": lambda: said.always(lambda exc, result: None),
        "call": lambda: said.post(lambda call: None),
        "interrupt": lambda: said.on(interrupted),
    }

    def interrupted() -> None:
        raise KeyboardInterrupt

    if other:
        add[other]()
    argument: Any = Listener()
    ref = weakref.ref(argument)
    try:
        answer = said(argument)
        if make is amade:
            answer.send(None)
    except (Exception, KeyboardInterrupt):
        pass
    answer = argument = None
    assert ref() is None
