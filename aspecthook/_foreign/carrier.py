"""Carriers: Python functions with the parameters of something that has no Python code, for hooks to be put into.

The invariant: the original is called exactly as the caller has called the proxy, unless a hook replaced an argument.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from inspect import Parameter
from operator import is_
from types import CellType, CodeType, FunctionType

from aspecthook._core.compile.show import file_name
from aspecthook._core.law.signature import Style, is_plain
from aspecthook._errors import unblamed
from aspecthook._hints import Any, NamedTuple, final

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_FORMS: dict[Any, str] = {
    Parameter.KEYWORD_ONLY: "{0}={0}",
    Parameter.VAR_POSITIONAL: "*{0}",
    Parameter.VAR_KEYWORD: "**{0}",
}
_SOURCES = {
    "coroutine": "async def carrier{}: return await {}({})",
    "generator": "def carrier{}: return (yield from {}({}))",
}
_REST = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_ABSENT: Any = object()


class Carrier(NamedTuple):
    """The function that carries the hooks, what a proxy calls, and what the chain calls in the end."""

    function: FunctionType
    enter: Callable[..., Any]
    forward: Callable[..., Any]


def carrier(original: Callable[..., Any], signature: inspect.Signature | None, label: str, style: Style) -> Carrier:
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
    space = _hidden(__name__=module)
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
    space[word] = called = forward.function(space, label)
    # The call of a coroutine or a generator runs later, and maybe in another context.
    return Carrier(made, forward.entering(made, label) if style == "function" else made, called)


def _hidden(**names: Any) -> dict[str, Any]:
    """Return globals for functions that pytest leaves out of tracebacks."""
    return {"__builtins__": vars(builtins), "__tracebackhide__": True, **names}


def _code(parameters: list[Parameter], label: str, path: str, style: str, word: str) -> CodeType:
    """Return the code of a function with these parameters that passes them on to what its globals call `word`."""
    source = _SOURCES.get(style, "def carrier{}: return {}({})").format(_bare(parameters), word, _passed(parameters))
    return _compiled(source, label).replace(co_name=path.rpartition(".")[2], co_qualname=path)


def _compiled(source: str, label: str) -> CodeType:
    """Return the code of the innermost function in a source."""
    return _innermost(source).replace(co_filename=file_name(label))


@lru_cache
def _innermost(source: str) -> CodeType:
    code = compile(source, "<aspecthook>", "exec")
    while inner := [one for one in code.co_consts if isinstance(one, CodeType)]:
        code = inner[0]
    return code


def _bare(parameters: list[Parameter]) -> inspect.Signature:
    """Return the signature without defaults and annotations, which may be any objects."""
    return inspect.Signature([one.replace(annotation=Parameter.empty, default=Parameter.empty) for one in parameters])


def _passed(parameters: list[Parameter]) -> str:
    """Return the arguments of a call that passes these parameters on."""
    return ", ".join(_FORMS.get(one.kind, "{0}").format(one.name) for one in parameters)


def inspected_style(original: Any) -> Style:
    """Return the style of a callable as `inspect` has it, by which a cache around a coroutine function is a function.

    It returns one coroutine to many callers, and awaits none.
    """
    if inspect.iscoroutinefunction(original):
        return "coroutine"
    if inspect.isasyncgenfunction(original):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(original) else "function"


# The call of a proxy that runs in this context, unless the original is called in the usual way: what calls the
# original, the arguments as the caller gave them, and the values of all parameters.
_given: ContextVar[tuple[Forward, tuple[Any, ...], dict[str, Any], tuple[Any, ...]] | None] = ContextVar(
    "aspecthook_given", default=None
)


@final
class Forward:
    """Calls an original as the caller has called its proxy.

    C functions may distinguish an argument that is left out from its documented default, and warn of one that is given
    by position; caches distinguish positions from names. Once a hook has replaced an argument, defaults are left out
    and arguments are passed by name where possible. Most callers pass their arguments in that very way themselves, so
    of most calls nothing needs to be noted.
    """

    __slots__ = ("count", "defaults", "original", "parameters", "positional")

    def __init__(self, original: Callable[..., Any], parameters: list[Parameter]) -> None:
        self.original = original
        self.parameters = parameters
        self.positional = [one for one in parameters if one.kind in _POSITIONAL]
        self.count = len(self.positional)
        self.defaults = {one.name: one.default for one in parameters if one.default is not one.empty}

    @unblamed
    def function(self, space: dict[str, Any], label: str) -> Callable[..., Any]:
        """Return the function that the carrier calls, with these globals."""
        original = self.original

        def replaced(*args: Any, **kwargs: Any) -> Any:
            lead, rest = self.arguments(args, kwargs)
            return original(*lead, **rest)

        word = "_"
        while any(one.name.startswith(word) for one in self.parameters):
            word += "_"
        # Only those that the carrier passes by name keep their names, so that most functions share their source.
        parameters = [
            one if one.kind is one.KEYWORD_ONLY else one.replace(name=f"{word}{place}")
            for place, one in enumerate(self.parameters)
        ]
        # The original is called in these: a frame of ours between the two would show it other globals.
        free = {
            f"{word}alike": _are_alike,
            f"{word}given": _given.get,
            f"{word}original": original,
            f"{word}replaced": FunctionType(replaced.__code__, space, "forward", None, replaced.__closure__),
            f"{word}self": self,
            **{f"{word}usual_{one.name}": one.default for one in parameters if one.default is not one.empty},
        }
        code = _compiled(_forwarding(parameters, list(free), word), label)
        return FunctionType(code, space, "forward", None, tuple([CellType(free[name]) for name in code.co_freevars]))

    @unblamed
    def entering(self, made: FunctionType, label: str) -> Callable[..., Any]:
        """Return a function that calls the carrier, and notes how it is called itself if that is not the usual way."""
        note, forget = _given.set, _given.reset
        source = f"def values{_bare(self.parameters)}: return {' '.join([f'{one.name},' for one in self.parameters])}"
        values = FunctionType(_compiled(source, label), _hidden(), made.__name__, made.__defaults__)
        values.__kwdefaults__, values.__qualname__ = made.__kwdefaults__, made.__qualname__

        def noted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            while args and args[-1] is _ABSENT:
                args = args[:-1]
            token = note((self, args, kwargs, values(*args, **kwargs)))
            try:
                return made(*args, **kwargs)
            finally:
                forget(token)

        # Most calls pass arguments by place alone, so these have parameters of their own. Those with the name of the
        # carrier's would be found by name too, and it could not be told how they were passed.
        lead = [one for one in self.positional if one.default is one.empty or one.kind is one.POSITIONAL_ONLY]
        least = sum(one.default is one.empty for one in lead)
        names = [f"_{place}" for place in range(len(lead))]
        first = ["not args", "not kwargs", *[f"{name} is not absent" for name in names[:least][-1:]], "given() is None"]
        lines = [
            f"def enter({', '.join([*names, *(['/'] if names else []), '*args', '**kwargs'])}):",
            f" if {' and '.join(first)}:",
        ]
        for count in range(least, len(names) + 1):
            tests = [f"{names[count]} is absent"] if count < len(names) else []
            if count > least:
                tests.append(f"absent is not {names[count - 1]} is not usual[{count - 1}]")
            lines.append(f"  if {' and '.join(tests) or True}: return made({', '.join(names[:count])})")
        lines.append(f" return noted(({' '.join([f'{name},' for name in names])} *args,), kwargs)")
        usual = [one.default for one in lead]
        space = _hidden(absent=_ABSENT, given=_given.get, made=made, noted=noted, usual=usual)
        return FunctionType(_compiled("\n".join(lines), label), space, "enter", (_ABSENT,) * len(names))

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return arguments without those that are defaults, by name where possible."""
        values = dict(zip([one.name for one in self.positional], args, strict=False))
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


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two tuples, or two dicts, have the very same contents."""
    if isinstance(one, dict):
        one, other = (*one, *one.values()), (*other, *other.values())
    return len(one) == len(other) and all(map(is_, one, other))


def _forwarding(parameters: list[Parameter], free: list[str], word: str) -> str:
    """Return the source of the function that the carrier calls. Our names in it begin with `word`; some are `free`."""
    options = [one for one in parameters if one.default is not one.empty]
    by_place = [one for one in options if one.kind is one.POSITIONAL_ONLY]
    passed = [one for one in parameters if one not in options or one in by_place]
    usual = [f"{one.name} is {word}usual_{one.name}" for one in options if one not in by_place]
    if any(one.kind in _POSITIONAL for one in options):  # none of them can be left out in front of others
        usual += [f"not {one.name}" for one in parameters if one.kind is one.VAR_POSITIONAL]
    lines = [f"{word}call = {word}given()", f"if {' and '.join([f'{word}call is None', *usual])}:"]
    for one in reversed(by_place):  # the last ones are left out, up to one that is not its default
        lines.append(f" if {one.name} is not {word}usual_{one.name}: return {word}original({_passed(passed)})")
        passed.remove(one)
    same = [
        f"{word}alike({one.name}, {word}was_{one.name})" if one.kind in _REST else f"{one.name} is {word}was_{one.name}"
        for one in parameters
    ]
    lines += [
        f" return {word}original({_passed(passed)})",
        f"if {word}call is not None and {word}call[0] is {word}self:",
        f" {' '.join([f'{word}was_{one.name},' for one in parameters])} = {word}call[3]",
        f" if {' and '.join(same)}: return {word}original(*{word}call[1], **{word}call[2])",
        f"return {word}replaced({_passed(parameters)})",
    ]
    head = f"def outer({', '.join(free)}):\n def forward{_bare(parameters)}:\n  "
    return head + "\n  ".join(lines)
