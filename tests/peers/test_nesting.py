"""wrapt, aspectlib and contextlib.ExitStack against their documentation: the last added is the outermost."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import aspectlib
import pytest
import wrapt
from hypothesis import strategies as st
from hypothesis.stateful import rule

from .beside import Boom, Layers, peer_test, story_of
from .refute import PeerMachine, holds


class Wrapt(Layers):
    """Wrappers are put around a function and taken off again, in any order."""

    def start(self) -> None:
        self.owner = SimpleNamespace(spot=self.spot)
        self.original = self.owner.spot
        self.wrappers = 0

    def join(self, name: str) -> Any:
        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            return self.layer(name, wrapped)

        self.wrappers += 1
        return wrapt.wrap_function_wrapper(self.owner, "spot", wrapper)

    def leave(self, joined: Any) -> None:
        """One beneath others is taken out of their middle."""
        wrapt.unwrap_object(self.owner, "spot", joined)
        with pytest.raises(wrapt.WrapperNotFoundError):
            wrapt.unwrap_object(self.owner, "spot", joined)
        self.wrappers -= 1
        assert self.wrappers or self.owner.spot is self.original

    def act(self) -> Any:
        return self.owner.spot()

    def documented(self, names: list[str]) -> Any:
        return self.nested(reversed(names))


unwraps = pytest.mark.skipif(not hasattr(wrapt, "unwrap_object"), reason="this wrapt cannot take a wrapper off")
TestWrapt = unwraps(peer_test(Wrapt))


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


class Aspectlib(Layers):
    """Aspects are woven and rolled back, in any order: a rollback puts back what the weaving has found."""

    def start(self) -> None:
        self.owner = ModuleType("peer_spot")
        vars(self.owner)["spot"] = self.original = self.function()
        sys.modules["peer_spot"] = self.owner
        self.layers: tuple[str, ...] = ()

    def teardown(self) -> None:
        super().teardown()
        sys.modules.pop("peer_spot", None)

    def function(self) -> Callable[[], str]:
        def spot() -> str:
            return self.spot()

        spot.__module__, spot.__qualname__ = "peer_spot", "spot"
        return spot

    def join(self, name: str) -> Any:
        @aspectlib.Aspect
        def aspect() -> Any:
            self.ran.append(f"{name} begins")
            if name == "answers":
                yield aspectlib.Return(name)
            if name == "raises":
                raise Boom(name)
            try:
                yield aspectlib.Proceed
            except Boom as error:
                self.ran.append(f"{name} sees {error}")
                if name == "recovers":
                    yield aspectlib.Return(name)
                raise
            self.ran.append(f"{name} ends")
            if name == "fails":
                raise Boom(name)

        found, self.layers = self.layers, (name, *self.layers)
        return found, aspectlib.weave("peer_spot.spot", aspect)

    def leave(self, joined: Any) -> None:
        self.layers, woven = joined
        woven.rollback()
        assert self.layers or vars(self.owner)["spot"] is self.original

    def act(self) -> Any:
        with warnings.catch_warnings():  # since Python 3.12, of a way to throw into generators that aspectlib uses
            warnings.filterwarnings("ignore", "the .type, exc, tb. signature of throw", DeprecationWarning)
            return vars(self.owner)["spot"]()

    def documented(self, names: list[str]) -> Any:
        return self.nested(self.layers)


class AspectlibRollingBack(Aspectlib):
    """Rollback: rolls back the patches and changes that this weaving has done, and no others."""

    def documented(self, names: list[str]) -> Any:
        return self.nested(reversed(names))


TestAspectlib = peer_test(Aspectlib)


def test_a_rollback_of_aspectlib_takes_later_aspects_off_too() -> None:
    steps = ["state.add('pre a')", "state.add('pre answers')", "state.remove('pre a')"]
    assert story_of(AspectlibRollingBack).splitlines()[:-2] == steps


def test_a_rollback_of_aspectlib_puts_aspects_back_that_were_rolled_back_before() -> None:
    state = Aspectlib()
    state.add("pre a")
    state.add("pre recovers")
    state.remove("pre a")
    state.remove("pre recovers")
    assert state.result(state.act) == ["a begins", "spot", "a ends", "gives spot"]


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
