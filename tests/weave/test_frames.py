"""What code sees that looks at the frame which calls it, while its caller is woven: globals that say where they are."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest

from aspecthook import weave


def looked() -> dict[str, Any]:
    """Return the globals of the frame that calls this."""
    return sys._getframe(1).f_globals


class Made:
    def where(self) -> dict[str, Any]:
        return sys._getframe(1).f_globals

    @property
    def here(self) -> dict[str, Any]:
        return sys._getframe(1).f_globals


HOOKS: dict[str, Any] = {
    "pre": lambda: None,
    "proceed": lambda proceed: proceed(),
    "when": lambda proceed: proceed(),
    "always": lambda: None,
}


def one_yield() -> Iterator[None]:
    yield


def kinds(name: str) -> dict[str, Any]:
    if name == "one yield":
        return {"around": one_yield}
    if name == "when":
        return {"around": HOOKS["proceed"], "when": lambda: True}
    if name == "two":
        return {"around": [HOOKS["proceed"], one_yield], "post": lambda: None}
    return {"around" if name == "proceed" else name: HOOKS[name]}


@pytest.mark.parametrize("name", ["pre", "proceed", "one yield", "when", "two", "always"])
def test_the_frame_that_calls_a_woven_function_has_the_globals_of_that_function(name: str) -> None:
    # Layers ran with empty globals: `f_globals["__name__"]` raised KeyError, as in pydantic's TypeAdapter.
    with weave(looked, **kinds(name)):
        assert looked() is globals()


@pytest.mark.parametrize("name", ["pre", "proceed", "one yield", "two"])
def test_the_frame_that_calls_a_mounted_closure_or_a_method_has_their_globals(name: str) -> None:
    depth = 1

    def closure() -> dict[str, Any]:
        return sys._getframe(depth).f_globals

    with weave(closure, **kinds(name)):
        assert closure() is globals()
    made = Made()
    with weave(f"{__name__}:Made.where, {__name__}:Made.here", **kinds(name)):
        assert made.where() is made.here is globals()
    with weave(made.where, **kinds(name)):
        assert made.where() is globals()


# C functions


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kind", ["pre=lambda: None", "around=lambda proceed: proceed()", "always=lambda: None"])
def test_a_woven_c_function_can_import(kind: str) -> None:
    # `time.strptime` imports `_strptime` at its first call, with the globals of the frame that calls it: those of
    # our function, which had no builtins. It raised KeyError: '__builtins__'. pandas' to_json did the same.
    program = f"""
import time
from aspecthook import weave
with weave("time:strptime", {kind}):
    print(time.strptime("2024", "%Y").tm_year)
"""
    assert run(program).split() == ["2024"]


pair = functools.partial(namedtuple, "Pair", "a b")
look = functools.partial(looked)
Pair: Any = None


@pytest.mark.parametrize("kind", ["pre", "proceed", "two"])
def test_callee_of_a_woven_c_function_sees_the_module_that_has_it(kind: str) -> None:
    # What has no Python code has no frame: without us its caller is seen, and most often that is the module which
    # has it. A named tuple that is made through a woven partial took no module, or ours, and could not be pickled.
    global Pair
    with weave(f"{__name__}:pair", **kinds(kind)):
        Pair = pair()
    assert Pair.__module__ == __name__
    assert pickle.loads(pickle.dumps(Pair(1, 2))) == Pair(1, 2)
    with weave(f"{__name__}:look", **kinds(kind)):
        seen = look()
    assert seen["__name__"] == __name__
    assert "__builtins__" in seen
