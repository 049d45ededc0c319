"""Carriers: Python functions with the parameters of something that has no Python code, for hooks to be put into.

The invariant: the original is called just as the caller called it, unless a hook has replaced an argument.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Any, Literal, NamedTuple

from aspecthook._core.compile.show import file_name
from aspecthook._core.law.signature import is_plain

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_FORMS: dict[Any, str] = {
    inspect.Parameter.KEYWORD_ONLY: "{0}={0}",
    inspect.Parameter.VAR_POSITIONAL: "*{0}",
    inspect.Parameter.VAR_KEYWORD: "**{0}",
}
_ABSENT: Any = object()


class Carrier(NamedTuple):
    """The function that hooks are put into, what a proxy calls, and what the chain calls in the end."""

    function: FunctionType
    enter: Callable[..., Any]
    forward: Callable[..., Any]


def carrier(original: Callable[..., Any], signature: inspect.Signature | None, label: str, style: str) -> Carrier:
    """Make a function with these parameters that calls the original with what it was given."""
    names = list(signature.parameters) if signature is not None else []
    if signature is None or not all(is_plain(one) for one in names):
        signature = inspect.Signature(
            [
                inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
            ]
        )
    parameters = list(signature.parameters.values())
    forward = "forward"
    while forward in names:
        forward += "_"
    bare = [one.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty) for one in parameters]
    head = str(inspect.Signature(bare))
    lead = {"async": "return await", "generator": "return (yield from"}.get(style, "return")
    keyword = "async " if style == "async" else ""
    end = ")" if style == "generator" else ""
    source = f"{keyword}def carrier{head}: {lead} {forward}({_passed(parameters)}){end}"
    code = compile(source, file_name(label), "exec")
    body = next(one for one in code.co_consts if isinstance(one, CodeType))
    module, _, path = label.partition(":")
    name = path.rpartition(".")[2]
    # What is called looks at these globals, as it has no frame of its own: an import in C code needs `__builtins__`,
    # and a class that is made takes its `__module__` from `__name__`. Without us these would be those of the caller,
    # whom nobody can know here; what has no Python code is called in the module that has it more than anywhere else.
    space: dict[str, Any] = {"__builtins__": vars(builtins), "__name__": module, "__tracebackhide__": True}
    called, mine = _forwarder(original, parameters, space)
    space[forward] = called
    made = FunctionType(body.replace(co_name=name, co_qualname=path), space, name)
    made.__qualname__ = path
    defaults = [one.default for one in parameters if one.kind in _POSITIONAL and one.default is not one.empty]
    made.__defaults__ = tuple(defaults) or None
    made.__kwdefaults__ = {
        one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is not one.empty
    } or None
    made.__module__ = module
    made.__doc__ = getattr(original, "__doc__", None)
    # The call of a coroutine or a generator runs later, and maybe elsewhere.
    noted = mine is not None and style == "function"
    return Carrier(made, _entering(made, mine) if noted else made, called)


def style_of(original: Any) -> Literal["function", "async", "generator", "async generator"]:
    """Say what a call of a callable gives."""
    if inspect.iscoroutinefunction(original):
        return "async"
    if inspect.isasyncgenfunction(original):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(original) else "function"


def _passed(parameters: list[inspect.Parameter]) -> str:
    return ", ".join(_FORMS.get(one.kind, "{0}").format(one.name) for one in parameters)


# The call of a proxy that is under way here: whose it is, and the arguments as the caller gave them.
_given: ContextVar[tuple[object, tuple[Any, ...], dict[str, Any]] | None] = ContextVar("aspecthook_given", default=None)


def _forwarder(
    original: Callable[..., Any], parameters: list[inspect.Parameter], space: dict[str, Any]
) -> tuple[Callable[..., Any], object | None]:
    """Give what calls the original just as the caller called it, and by what such calls are told from others.

    C functions may tell an argument that is not given from its documented default, warn of one that is given by
    position, and caches tell the two apart. Once a hook has replaced an argument, defaults are left out and what may be
    named is named.
    """
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    if all(one.default is one.empty and one.kind not in _NAMED for one in parameters):
        return original, None
    names = [one.name for one in positional]
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    mine = object()

    under_way, absent = _given.get, _ABSENT
    count = len(names)
    usual = [one.default for one in positional]

    def is_same(raw: tuple[Any, ...], named: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        # Loops, since this is most of what a call through a proxy costs; and by identity, as hooks replace objects.
        place = 0
        for value in raw:
            if value is not args[place]:
                return False
            place += 1
        while place < count:
            if args[place] is not named.get(names[place], usual[place]):
                return False
            place += 1
        for name, value in kwargs.items():  # noqa: SIM110  # as above
            if value is not named.get(name, defaults.get(name, _ABSENT)):
                return False
        return True

    def forward(*args: Any, **kwargs: Any) -> Any:
        given = under_way()
        if given is not None and given[0] is mine:
            raw, named = given[1], given[2]
            if len(args) == max(count, len(raw)) and is_same(raw, named, args, kwargs):
                return original(*raw, **named)
        values = dict(zip(names, args, strict=False))
        kept = {name: value for name, value in kwargs.items() if value is not defaults.get(name, absent)}
        if len(args) > count:
            return original(*args, **kept)
        lead = [one for one in positional if one.default is one.empty or one.kind is one.POSITIONAL_ONLY]
        while lead and values[lead[-1].name] is lead[-1].default:
            lead.pop()
        loose = {
            one.name: values[one.name]
            for one in positional[len(lead) :]
            if one.default is one.empty or values[one.name] is not one.default
        }
        return original(*[values[one.name] for one in lead], **loose, **kept)

    return FunctionType(forward.__code__, space, "forward", None, forward.__closure__), mine


def _entering(made: FunctionType, mine: object) -> Callable[..., Any]:
    """Give a function that notes how it is called, and calls the carrier."""

    def enter(*args: Any, **kwargs: Any) -> Any:
        token = _given.set((mine, args, kwargs))
        try:
            return made(*args, **kwargs)
        finally:
            _given.reset(token)

    return enter
