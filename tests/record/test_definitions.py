"""Where a recorded function is written: in the file and the line of its author, whatever decorators have made of it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math

import pytest

from aspecthook import weave
from aspecthook.record import record


def decorator(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)

    return inner


class Decorated:
    @functools.lru_cache  # noqa: B019
    def cached(self): ...

    @contextlib.contextmanager
    def managed(self):
        yield

    @decorator
    @decorator
    def wrapped(self): ...


@pytest.mark.parametrize("name", ["cached", "managed", "wrapped"])
@pytest.mark.parametrize("inner", [False, True])
def test_a_call_is_attributed_to_the_function_that_its_author_has_decorated(name, inner):
    """Calls of `lru_cache` functions were of our generated code, and those of `contextmanager` of contextlib."""
    member = vars(Decorated)[name]
    written = inspect.unwrap(member)
    with contextlib.ExitStack() as stack:
        if inner:  # the code that the function has then is ours
            stack.enter_context(weave(written, pre=lambda: None))
        tape = stack.enter_context(record(f"{__name__}:Decorated.{name}"))
        getattr(Decorated(), name)()
        (call,) = tape
    assert (call.function.file, call.function.line) == (__file__, written.__code__.co_firstlineno)


def test_a_c_function_is_in_no_file():
    with record("math:sqrt") as tape:
        math.sqrt(4)
    assert (tape.last.function.file, tape.last.function.line) == (None, None)
