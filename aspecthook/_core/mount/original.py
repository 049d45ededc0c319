"""The original of a hooked function: a copy of the function as it was, which a call runs inside of all hooks."""

from __future__ import annotations

import sys
from types import CodeType, FunctionType

from aspecthook._hints import Any

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# By the number of free variables, and whether there are defaults.
_makers: dict[tuple[int, bool], CodeType] = {}


def _maker(code: CodeType, defaults: tuple[Any, ...] | None) -> CodeType:
    """Return code that makes a function as a `def` does: from 3.13 on callers specialise only such functions.

    Nor do they if its defaults are set later.
    """
    key = free, has_defaults = len(code.co_freevars), defaults is not None
    made = _makers.get(key)
    if made is None:
        names = ", ".join(f"free_{number}" for number in range(free))
        head = f"copy({'default=0' if has_defaults else ''})"
        text = f"def outer({names}):\n def make():\n  def {head}:\n   {names or 0}\n  return copy\n return make\n"
        outer = next(one for one in compile(text, "<aspecthook>", "exec").co_consts if isinstance(one, CodeType))
        made = _makers[key] = next(one for one in outer.co_consts if isinstance(one, CodeType))
    consts = [code if isinstance(one, CodeType) else defaults if one == (0,) else one for one in made.co_consts]
    return made.replace(co_consts=tuple(consts), co_freevars=code.co_freevars)


def copy_of(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a copy of a function as it was before it was hooked; `inspect` finds it as ``__wrapped__``."""
    maker = _maker(code, function.__defaults__)
    copy: FunctionType = FunctionType(maker, function.__globals__, "make", None, function.__closure__)()
    return copy_description(copy, function)


def copy_description(copy: FunctionType, function: FunctionType) -> FunctionType:
    """Copy the attributes of a function that describe it; return the copy."""
    copy.__name__ = function.__name__
    if function.__defaults__ is not copy.__defaults__:
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
