"""The original of a hooked function: a copy of the function as it was, which a call runs inside of all hooks."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import CodeType, FunctionType

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@lru_cache(256)
def _maker(free: int, defaults: int) -> tuple[CodeType, int]:
    """Return code that makes a function, and where among its constants the code of that function belongs."""
    names = ", ".join(f"free_{number}" for number in range(free))
    given = [f"default_{number}" for number in range(defaults)]
    head = f"copy({', '.join(f'{name}={name}' for name in given)})"
    inner = f"  def {head}:\n   {names or 0}\n  return copy\n"
    text = f"def outer({names}):\n def make({', '.join(given)}):\n{inner} return make\n"
    outer = next(one for one in compile(text, "<aspecthook>", "exec").co_consts if isinstance(one, CodeType))
    make = next(one for one in outer.co_consts if isinstance(one, CodeType))
    return make, next(place for place, one in enumerate(make.co_consts) if isinstance(one, CodeType))


def copy_of(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a copy of a function as it was before it was hooked; `inspect` finds it as ``__wrapped__``.

    It is made as a `def` does: from 3.13 on callers specialise only such functions. Nor do they if its defaults are set
    later. These are passed, and are no constants: without the GIL CPython puts an equal object in the place of a
    constant, even in a tuple of somebody else's.
    """
    defaults = function.__defaults__ or ()
    maker, place = _maker(len(code.co_freevars), len(defaults))
    consts = (*maker.co_consts[:place], code, *maker.co_consts[place + 1 :])
    maker = maker.replace(co_consts=consts, co_freevars=code.co_freevars)
    copy: FunctionType = FunctionType(maker, function.__globals__, "make", None, function.__closure__)(*defaults)
    return copy_description(copy, function)


def copy_description(copy: FunctionType, function: FunctionType) -> FunctionType:
    """Copy the attributes of a function that describe it; return the copy."""
    copy.__name__ = function.__name__
    if list(map(id, function.__defaults__ or ())) != list(map(id, copy.__defaults__ or ())):
        copy.__defaults__ = function.__defaults__
    if function.__kwdefaults__ is not None:
        copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    # From 3.14 on annotations are evaluated when they are first read, which must not happen here.
    if sys.version_info >= (3, 14) and function.__annotate__ is not None:
        copy.__annotate__ = function.__annotate__
    else:
        copy.__annotations__ = function.__annotations__
    if sys.version_info >= (3, 12):
        copy.__type_params__ = function.__type_params__
    return copy
