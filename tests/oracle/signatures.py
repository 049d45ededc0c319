"""Signatures as data: drawn, written as text, read back from it, and made into functions.

The invariant: no text but plain parameter names becomes source. Defaults are read as literals, and enter the function
as objects.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from functools import lru_cache
from inspect import Parameter
from itertools import count
from keyword import iskeyword
from string import ascii_lowercase
from types import CodeType, FunctionType
from typing import Any, ClassVar, Literal, TypeAlias, cast

from hypothesis import strategies as st

from aspecthook._core.law.answers import Args, Return

How: TypeAlias = Literal["positional only", "positional", "*", "keyword", "**"]

# Any: the type of these constants is private to `inspect`. In the order in which a signature has them.
_KINDS: dict[How, Any] = {
    "positional only": Parameter.POSITIONAL_ONLY,
    "positional": Parameter.POSITIONAL_OR_KEYWORD,
    "*": Parameter.VAR_POSITIONAL,
    "keyword": Parameter.KEYWORD_ONLY,
    "**": Parameter.VAR_KEYWORD,
}
# What is drawn shrinks to the first.
HOWS: tuple[How, ...] = ("positional", "positional only", "keyword", "*", "**")
_STARS = {"*": "rest", "**": "extra"}


# Data that can be pasted


def paste(value: object) -> str:
    """Write a value as code; its own `repr`, but for classes."""
    if isinstance(value, type):
        return value.__qualname__
    if type(value) is tuple:
        row = [paste(one) for one in cast("tuple[object, ...]", value)]
        return f"({', '.join(row)}{',' * (len(row) == 1)})"
    return repr(value)


def _key(value: object) -> object:
    """Return what two values are compared by."""
    if isinstance(value, BaseException):
        return type(value), _key(value.args)
    if isinstance(value, Args):
        return Args, _key(value.changes)
    if isinstance(value, Return):
        return Return, _key(cast("Return[object]", value).value)
    if isinstance(value, (tuple, list)):
        return isinstance(value, tuple), [_key(one) for one in cast("Iterable[object]", value)]
    if isinstance(value, dict):
        return {name: _key(one) for name, one in cast("dict[object, object]", value).items()}
    return type(value), value  # 1 is not True here


class Pasted:
    """A dataclass whose `repr` is the shortest call that makes an equal one.

    Exceptions, which Python compares by identity, are equal here if their types and their ``args`` are.
    """

    def _values(self) -> list[tuple[Field[object], object]]:
        made = cast("tuple[Field[object], ...]", fields(cast("Any", self)))
        return [(field, getattr(self, field.name)) for field in made if field.init]

    def __repr__(self) -> str:
        parts: list[str] = []
        for field, value in self._values():
            if field.default is MISSING and field.default_factory is MISSING:
                parts.append(paste(value))
            elif _key(value) != _key(_default(field)):
                parts.append(f"{field.name}={paste(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"

    # Any: Hypothesis' printer, which would show a dataclass with all its fields.
    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pasted) or type(other) is not type(self):
            return NotImplemented
        theirs = other._values()
        return all(_key(mine) == _key(their) for (_, mine), (_, their) in zip(self._values(), theirs, strict=True))

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]


def _default(field: Field[object]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


# Signatures


class _Signature(inspect.Signature):
    """A signature whose `repr` is code."""

    def __repr__(self) -> str:
        return f"signature({str(self)!r})"


@lru_cache(1000)
def signature(text: str) -> inspect.Signature:
    """Read a signature from its text.

    Args:
        text: What stands between the name of a function and the colon; defaults are literals.

    Raises:
        ValueError: It is not the text of a signature, or has annotations or other defaults.

    Example:
        >>> signature("(a, /, b=1, *rest)")
        signature('(a, /, b=1, *rest)')
        >>> signature("(a, /, b=1, *rest)").parameters["b"].default
        1
    """
    try:
        (found,) = ast.parse(f"def f{text}: ...").body
        if not isinstance(found, ast.FunctionDef) or ast.unparse(found.body[0]) != "..." or len(found.body) > 1:
            raise ValueError("there is more than that")
        args = found.args
        for one in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg):
            if one is not None and one.annotation is not None:
                raise ValueError(f"{one.arg!r} is annotated")
        for default in (*args.defaults, *args.kw_defaults):
            if default is not None:
                ast.literal_eval(default)
        space: dict[str, Any] = {}
        exec(f"def f({ast.unparse(args)}): ...", space)
        return _Signature(list(inspect.signature(space["f"]).parameters.values()))
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{text!r} is no signature such as '(a, /, b=1, *rest)': {error}") from None


@st.composite
def signatures(
    draw: st.DrawFn,
    *,
    min_size: int = 0,
    max_size: int = 5,
    kinds: Iterable[How] = HOWS,
    defaults: st.SearchStrategy[object] | None = None,
) -> inspect.Signature:
    """Draw any legal signature; it shrinks to ``signature('()')``.

    The parameters are called ``a``, ``b``, ``c`` and so on, ``*rest`` and ``**extra``.

    Args:
        draw: Given by Hypothesis.
        min_size: The least number of parameters; ``*rest`` and ``**extra`` count as one each.
        max_size: The greatest number of parameters, at most 26.
        kinds: Which parameters there may be: ``"positional"``, ``"positional only"``, ``"keyword"``, ``"*"``, ``"**"``.
        defaults: What defaults are drawn from: literals; ints from 0 to 9 unless given.

    Example:
        >>> from hypothesis import find
        >>> find(signatures(), lambda drawn: len(drawn.parameters) == 2)
        signature('(a, b)')
    """
    hows: list[How] = []
    for _ in range(draw(st.integers(min_size, max_size))):
        free: list[How] = [one for one in HOWS if one in set(kinds) and not (one in _STARS and one in hows)]
        if free:
            hows.append(draw(st.sampled_from(free)))
    hows.sort(key=list(_KINDS).index)
    values = st.integers(0, 9) if defaults is None else defaults
    required = sum(how in ("positional only", "positional") for how in hows)
    required -= draw(st.integers(0, required))
    names = iter(ascii_lowercase)
    found: list[Parameter] = []
    for place, how in enumerate(hows):
        has_default = draw(st.booleans()) if how == "keyword" else place >= required and how not in _STARS
        default = draw(values) if has_default else Parameter.empty
        found.append(Parameter(_STARS.get(how) or next(names), _KINDS[how], default=default))
    return _Signature(found)


@st.composite
def arguments(
    draw: st.DrawFn, signature: inspect.Signature, values: st.SearchStrategy[object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Draw arguments that fit a signature."""
    parameters = list(signature.parameters.values())
    args: list[object] = []
    kwargs: dict[str, object] = {}
    by_position = True
    for one in parameters:
        if one.kind is Parameter.VAR_POSITIONAL:
            args += draw(st.lists(values, max_size=2 * by_position))
        elif one.kind is Parameter.VAR_KEYWORD:
            kwargs |= draw(st.dictionaries(st.sampled_from(_extra_names(parameters, len(args))), values, max_size=2))
        elif one.default is not Parameter.empty and not draw(st.booleans()):
            by_position = False  # left out, as all that follow by position are
        elif one.kind is Parameter.POSITIONAL_ONLY:
            args += [draw(values)] if by_position else []
        elif one.kind is Parameter.KEYWORD_ONLY or not by_position or draw(st.booleans()):
            by_position = by_position and one.kind is Parameter.KEYWORD_ONLY
            kwargs[one.name] = draw(values)
        else:
            args.append(draw(values))
    return tuple(args), kwargs


def _extra_names(parameters: list[Parameter], given: int) -> list[str]:
    """Return names that ``**extra`` may take, which may be those of positional-only parameters.

    Only of those that are given: `inspect.Signature.bind` refuses the name of one that keeps its default.
    """
    own = [one.name for one in parameters[:given] if one.kind is Parameter.POSITIONAL_ONLY]
    taken = {one.name for one in parameters}
    return [*(name for name in ("x", "y", "x_", "y_") if name not in taken), *own]


# Functions

# By style; hooks and targets write their own async generators.
BODIES = {
    "function": "def: return ACT(GIVEN)",
    "method": "def: return ACT(GIVEN)",
    "coroutine": "async def: return await ACT(GIVEN)",
    "generator": "def: return (yield from ACT(GIVEN))",
}


def define(name: str, signature: inspect.Signature, body: str, act: object, *, method: bool = False) -> FunctionType:
    """Make a function of a signature; as a method, ``self`` is its first parameter.

    The body is ``def`` or ``async def``, a colon, and what it does. In it ``ACT`` is `act`, and ``GIVEN`` a dict of the
    arguments by name.
    """
    parameters = list(signature.parameters.values())
    written = name if name.isascii() and name.isidentifier() and not iskeyword(name) else "hook"
    taken = {*signature.parameters, written, "self"}
    alias = next(free for number in count() if (free := f"act_{number}") not in taken)
    lead, _, rest = body.partition(":")
    given = ", ".join(f"{one!r}: {one}" for one in signature.parameters)
    rest = rest.replace("ACT", alias).replace("GIVEN", f"{{{given}}}")
    space: dict[str, Any] = {"__name__": "aspecthook.testing", alias: act}
    exec(_code(f"{lead} {written}{_header(parameters, method)}:{rest}"), space)
    function: FunctionType = space[written]
    function.__name__ = function.__qualname__ = name
    _give_defaults(function, parameters)
    return function


@lru_cache(1000)
def _code(text: str) -> CodeType:
    """Compile a function; what is drawn once is made many times."""
    return compile(text, "<aspecthook.testing>", "exec")


def _header(parameters: list[Parameter], method: bool) -> str:
    """Write the parameters, every default as 0: the true ones are put into the function as they are."""
    plain = [
        Parameter(one.name, one.kind, default=one.default if one.default is Parameter.empty else 0)
        for one in parameters
    ]
    shown = str(inspect.Signature(plain))
    return f"(self, {shown[1:]}" if method else shown


def _give_defaults(function: FunctionType, parameters: list[Parameter]) -> None:
    defaults = [one for one in parameters if one.default is not Parameter.empty]
    by_position = [one.default for one in defaults if one.kind is not Parameter.KEYWORD_ONLY]
    by_name = {one.name: one.default for one in defaults if one.kind is Parameter.KEYWORD_ONLY}
    function.__defaults__ = tuple(by_position) or None
    function.__kwdefaults__ = by_name  # an empty one reads as none
