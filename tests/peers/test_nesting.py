"""wrapt's wrappers and contextlib.ExitStack against their documentation: the last added is the outermost."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import wrapt
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, rule

from .refute import PeerMachine, holds


class WraptMachine(PeerMachine):
    """Wrappers are put around a function and taken off again, in any order; the model is a list."""

    members = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[int] = []
        self.target = SimpleNamespace(spot=lambda: None)
        self.original = self.target.spot
        self.handles: dict[int, Any] = {}

    @rule(target=members)
    def wrap(self) -> int:
        number = max(self.handles, default=0) + 1

        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            self.ran.append(number)
            return wrapped(*args, **kwargs)

        self.handles[number] = wrapt.wrap_function_wrapper(self.target, "spot", wrapper)
        return number

    @rule(number=consumes(members))
    def unwrap(self, number: int) -> None:
        """One beneath others is taken out of their middle."""
        handle = self.handles.pop(number)
        wrapt.unwrap_object(self.target, "spot", handle)
        with pytest.raises(wrapt.WrapperNotFoundError):
            wrapt.unwrap_object(self.target, "spot", handle)
        assert self.handles or self.target.spot is self.original

    @rule()
    def call(self) -> None:
        self.ran.clear()
        self.target.spot()
        assert self.ran == sorted(self.handles, reverse=True)


unwraps = pytest.mark.skipif(not hasattr(wrapt, "unwrap_object"), reason="this wrapt cannot take a wrapper off")
TestWraptMachine = unwraps(holds(WraptMachine))


def passing(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


@unwraps
def test_wrapt_refuses_to_take_out_a_wrapper_that_a_plain_decorator_lies_on() -> None:
    target = SimpleNamespace(spot=lambda: 1)
    handle = wrapt.wrap_function_wrapper(target, "spot", passing)
    beneath = target.spot
    target.spot = functools.wraps(beneath)(lambda: beneath())
    with pytest.raises(wrapt.WrapperNotOutermostError):
        wrapt.unwrap_object(target, "spot", handle)


def test_wrapt_does_not_reach_a_name_that_was_copied_before() -> None:
    ran: list[str] = []
    target = SimpleNamespace(spot=lambda: ran.append("spot"))
    copied = target.spot
    wrapt.wrap_function_wrapper(target, "spot", lambda *given: ran.append("wrapper"))
    copied()
    assert ran == ["spot"]


class Boom(Exception):
    """What a callback raises; its argument says which."""


class ExitStackMachine(PeerMachine):
    """Callbacks are pushed, moved to another stack and run; the model is a list."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[tuple[int, int | None]] = []
        self.stack = ExitStack()
        self.pushed: list[tuple[int, str]] = []
        self.next = 0

    @rule(does=st.sampled_from(["look", "raise", "swallow"]))
    def push(self, does: str) -> None:
        self.next += 1
        self.stack.push(self.exit(self.next, does))
        self.pushed.append((self.next, does))

    def exit(self, number: int, does: str) -> Callable[..., bool]:
        def leave(kind: Any, error: BaseException | None, trace: Any) -> bool:
            self.ran.append((number, error and error.args[0]))
            if does == "raise":
                raise Boom(number)
            return does == "swallow"

        return leave

    @rule()
    def move_to_another_stack(self) -> None:
        """pop_all runs nothing, and leaves the old stack empty."""
        old, self.stack = self.stack, self.stack.pop_all()
        self.ran.clear()
        old.close()
        assert self.ran == []

    @rule()
    def close(self) -> None:
        """The last pushed runs first, each is given what is in flight, and a second close does nothing."""
        flying: int | None = None
        expected = []
        for number, does in reversed(self.pushed):
            expected.append((number, flying))
            flying = number if does == "raise" else None if does == "swallow" else flying
        self.ran.clear()
        self.pushed.clear()
        with pytest.raises(Boom) if flying else nullcontext() as caught:
            self.stack.close()
        assert caught is None or caught.value.args == (flying,)
        self.stack.close()
        assert self.ran == expected


TestExitStackMachine = holds(ExitStackMachine)


def test_atexit_runs_the_last_registered_first_and_unregisters_every_equal_one() -> None:
    code = (
        "import atexit\n"
        "def again(): print('again')\n"
        "for text in 'abc': atexit.register(print, text); atexit.register(again)\n"
        "atexit.unregister(again)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["c", "b", "a"]
