"""Carriers: Python functions that call something without Python code, for hooks to be put into.

The invariant: the original is called exactly as the caller has called the proxy, unless a hook replaced an argument. C
functions may distinguish an argument that is left out from its documented default, and warn of one that is given by
position; caches distinguish positions from names. So a carrier is a wrapper: it takes whatever it is called with, and
shows the parameters of the original, for which hooks ask by name.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType

from aspecthook._core.compile.show import file_name
from aspecthook._core.law.signature import Style
from aspecthook._hints import Any

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def carrier(
    original: Callable[..., Any], signature: inspect.Signature | None, label: str, style: Style
) -> FunctionType:
    """Return a function that calls the original with what it is called with, and shows these parameters."""
    module, _, path = label.partition(":")
    # A C function looks at these globals, as it has no frame of its own: an import needs `__builtins__`, a new class
    # takes its `__module__` from `__name__`. Without a proxy they are those of the caller: mostly of the same module.
    space = {"__builtins__": vars(builtins), "__name__": module, "__tracebackhide__": True}
    name = path.rpartition(".")[2]
    parameters = [] if signature is None else list(signature.parameters.values())
    names = tuple([one.name for one in parameters if one.kind is one.POSITIONAL_ONLY and one.default is one.empty])
    # Calls can pass positional-only arguments in one way alone: a carrier with the same parameters changes nothing.
    exact = style == "function" and 0 < len(names) == len(parameters) and "original" not in names
    code = _code(style, len(names) if exact else None)
    if exact:
        code = code.replace(co_varnames=names)
    code = code.replace(co_name=name, co_qualname=path, co_filename=file_name(label))
    made = FunctionType(code, space, name, None, (CellType(original),))
    made.__qualname__, made.__module__, made.__doc__ = path, module, getattr(original, "__doc__", None)
    if signature is not None:
        setattr(made, "__signature__", signature)
    return made


@lru_cache
def _code(style: Style, count: int | None) -> CodeType:
    """Return the code of a carrier that takes anything, or so many arguments by position."""
    names = ", ".join([f"_{place}" for place in range(count or 0)])
    takes, call = ("*args, **kwargs",) * 2 if count is None else (f"{names}, /", names)
    lead = {"coroutine": "await ", "generator": "yield from "}.get(style, "")
    a = "async " * (style == "coroutine")
    source = f"def outer(original):\n {a}def call({takes}): return ({lead}original({call}))"
    code = compile(source, "<aspecthook>", "exec", dont_inherit=True)
    while inner := [one for one in code.co_consts if isinstance(one, CodeType)]:
        code = inner[0]
    return code


def bind(descriptor: object, instance: object, owner: type[Any] | None) -> Any:
    """Return what a member of a class is when it is taken from an instance or the class."""
    get = getattr(type(descriptor), "__get__", None)
    return descriptor if get is None else get(descriptor, instance, owner)


def inspected_style(original: Any) -> Style:
    """Return the style of a callable as `inspect` has it, by which a cache around a coroutine function is a function.

    It returns one coroutine to many callers, and awaits none.
    """
    if inspect.iscoroutinefunction(original):
        return "coroutine"
    if inspect.isasyncgenfunction(original):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(original) else "function"
