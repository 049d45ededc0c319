"""Carriers: Python functions with the parameters of something that has no Python code, for hooks to be put into.

The invariant: the original is called exactly as the caller has called the proxy, unless a hook replaced an argument.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from inspect import Parameter
from types import CodeType, FunctionType
from typing import Any, Literal, NamedTuple, TypeAlias, final

from aspecthook._core.compile.show import file_name
from aspecthook._core.law.signature import is_plain

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Style: TypeAlias = Literal["function", "async", "generator", "async generator"]

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_FORMS: dict[Any, str] = {
    Parameter.KEYWORD_ONLY: "{0}={0}",
    Parameter.VAR_POSITIONAL: "*{0}",
    Parameter.VAR_KEYWORD: "**{0}",
}
_SOURCES = {
    "async": "async def carrier{}: return await {}({})",
    "generator": "def carrier{}: return (yield from {}({}))",
}
_ABSENT: Any = object()


class Carrier(NamedTuple):
    """The function that carries the hooks, what a proxy calls, and what the chain calls in the end."""

    function: FunctionType
    enter: Callable[..., Any]
    forward: Callable[..., Any]


def carrier(original: Callable[..., Any], signature: inspect.Signature | None, label: str, style: str) -> Carrier:
    """Return a function with these parameters that calls the original with what it was called with."""
    if signature is None or not all(is_plain(one) for one in signature.parameters):
        rest = (Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD))
        signature = inspect.Signature(rest)
    parameters = list(signature.parameters.values())
    word = "forward"
    while word in signature.parameters:
        word += "_"
    module, _, path = label.partition(":")
    # A called C function looks at these globals, as it has no frame of its own: an import in C code needs
    # `__builtins__`, and a class that is made takes its `__module__` from `__name__`. Without a proxy they would be
    # those of the caller, who is unknown here; most calls come from the module that has the function.
    space: dict[str, Any] = {"__builtins__": vars(builtins), "__name__": module, "__tracebackhide__": True}
    code = _code(parameters, label, path, style, word)
    made = FunctionType(code, space, path.rpartition(".")[2])
    made.__qualname__, made.__module__, made.__doc__ = path, module, getattr(original, "__doc__", None)
    defaulted = [one for one in parameters if one.default is not one.empty]
    made.__defaults__ = tuple([one.default for one in defaulted if one.kind in _POSITIONAL]) or None
    made.__kwdefaults__ = {one.name: one.default for one in defaulted if one.kind is one.KEYWORD_ONLY} or None
    if all(one.default is one.empty and one.kind not in _NAMED for one in parameters):
        space[word] = original
        return Carrier(made, made, original)
    forward = Forward(original, parameters)
    space[word] = called = forward.function(space)
    # The call of a coroutine or a generator runs later, and maybe in another context.
    return Carrier(made, forward.entering(made) if style == "function" else made, called)


def _code(parameters: list[Parameter], label: str, path: str, style: str, word: str) -> CodeType:
    """Return the code of a function with these parameters that passes them on to what its globals call `word`."""
    bare = [one.replace(annotation=Parameter.empty, default=Parameter.empty) for one in parameters]
    passed = ", ".join(_FORMS.get(one.kind, "{0}").format(one.name) for one in parameters)
    source = _SOURCES.get(style, "def carrier{}: return {}({})").format(inspect.Signature(bare), word, passed)
    code = compile(source, file_name(label), "exec")
    body = next(one for one in code.co_consts if isinstance(one, CodeType))
    return body.replace(co_name=path.rpartition(".")[2], co_qualname=path)


def style_of(original: Any) -> Style:
    """Return what a call of a callable makes."""
    if inspect.iscoroutinefunction(original):
        return "async"
    if inspect.isasyncgenfunction(original):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(original) else "function"


# The call of a proxy that runs in this context: of which original, and the arguments as the caller gave them.
_given: ContextVar[tuple[Forward, tuple[Any, ...], dict[str, Any]] | None] = ContextVar(
    "aspecthook_given", default=None
)


@final
class Forward:
    """Calls an original as the caller has called its proxy.

    C functions may distinguish an argument that is left out from its documented default, and warn of one that is given
    by position; caches distinguish positions from names. Once a hook has replaced an argument, defaults are left out
    and arguments are passed by name where possible.
    """

    __slots__ = ("count", "defaults", "names", "original", "positional", "usual")

    def __init__(self, original: Callable[..., Any], parameters: list[Parameter]) -> None:
        self.original = original
        self.positional = [one for one in parameters if one.kind in _POSITIONAL]
        self.names = [one.name for one in self.positional]
        self.usual = [one.default for one in self.positional]
        self.count = len(self.names)
        self.defaults = {one.name: one.default for one in parameters if one.default is not one.empty}

    def function(self, space: dict[str, Any]) -> Callable[..., Any]:
        """Return the function that the carrier calls, with these globals."""
        # The original is called in here: a frame of ours between the two would show it other globals.
        current, original, count = _given.get, self.original, self.count

        def forward(*args: Any, **kwargs: Any) -> Any:
            given = current()
            if given is not None and given[0] is self:
                raw, named = given[1], given[2]
                if len(args) == max(count, len(raw)) and self.is_same(raw, named, args, kwargs):
                    return original(*raw, **named)
            lead, rest = self.arguments(args, kwargs)
            return original(*lead, **rest)

        return FunctionType(forward.__code__, space, "forward", None, forward.__closure__)

    def entering(self, made: FunctionType) -> Callable[..., Any]:
        """Return a function that notes how it is called, and calls the carrier."""

        def enter(*args: Any, **kwargs: Any) -> Any:
            token = _given.set((self, args, kwargs))
            try:
                return made(*args, **kwargs)
            finally:
                _given.reset(token)

        return enter

    def is_same(self, raw: tuple[Any, ...], named: dict[str, Any], args: tuple[Any, ...], kwargs: Any) -> bool:
        """Whether the arguments are those of the caller, so that no hook has replaced one."""
        # Loops, as this is most of what a call through a proxy costs; and by identity, as hooks replace objects.
        place = 0
        for value in raw:
            if value is not args[place]:
                return False
            place += 1
        names, usual = self.names, self.usual
        while place < self.count:
            if args[place] is not named.get(names[place], usual[place]):
                return False
            place += 1
        defaults = self.defaults
        for name, value in kwargs.items():  # noqa: SIM110  # as above
            if value is not named.get(name, defaults.get(name, _ABSENT)):
                return False
        return True

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return arguments without those that are defaults, by name where possible."""
        values = dict(zip(self.names, args, strict=False))
        kept = {name: value for name, value in kwargs.items() if value is not self.defaults.get(name, _ABSENT)}
        if len(args) > self.count:
            return args, kept
        lead = [one for one in self.positional if one.default is one.empty or one.kind is one.POSITIONAL_ONLY]
        while lead and values[lead[-1].name] is lead[-1].default:
            lead.pop()
        loose = {
            one.name: values[one.name]
            for one in self.positional[len(lead) :]
            if one.default is one.empty or values[one.name] is not one.default
        }
        return [values[one.name] for one in lead], {**loose, **kept}
