"""What a hook can answer: `Args` replaces arguments, `Return` sets the outcome; and how an answer is read.

The invariant: an answer that the hook's kind may not give is never ignored. It raises `HookAnswerError`, which says
what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aspecthook._errors import HookAnswerError, article, described, literal, nearest, plural, printable
from aspecthook._hints import Any, ClassVar, Generic, TypeAlias, TypeVar, cast, final

from .call import Site
from .callables import code_of, name_of, who_is
from .kinds import RESERVED, RULES, Kind

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

T_co = TypeVar("T_co", covariant=True)

Values: TypeAlias = tuple[object, ...]


@final
class Args(dict[str, Any]):  # C code makes a dict in half the time that a class with an `__init__` takes
    """The answer of a pre hook that replaces arguments of the call, by name.

    The arguments that are not named stay as they are; everything that runs later in the call sees the new ones.

    Example:
        >>> Args(qty=1)
        Args(qty=1)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Args({', '.join(f'{name}={value!r}' for name, value in self.items())})"


@final
class Return(Generic[T_co]):
    """The answer that sets the outcome of the call, even to None.

    From a pre hook, this is the result and the target does not run. From an exception hook, the exception is handled
    and the caller gets this value. From a post hook, this is the new result.

    Example:
        >>> Return(0.0)
        Return(0.0)
    """

    __slots__ = ("value",)

    value: T_co

    def __init__(self, value: T_co) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Return({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return bool(self.value == cast("Return[object]", other).value) if type(other) is Return else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]


# How answers are read.


def wrong(site: Site, kind: Kind, function: object, answer: object) -> HookAnswerError:
    """Build the error for an answer that this kind of hook may not give."""
    hint = ""
    if kind == "pre":
        hint = f"; to replace an argument write Args({meant_argument(site, kind, function)}={literal(answer)})"
    elif kind == "on":
        hint = "; to replace arguments, use a pre hook on the event"
    elif kind == "exception":
        hint = "; to give the caller this value write Return(...)"
    return HookAnswerError(
        f"{hook_at(site, kind, function)} answered {described(answer)}; {article(kind)} {kind} hook may "
        f"answer {RULES[kind].may}{hint}"
    )


def meant_argument(site: Site, kind: Kind, function: object) -> str:
    """Return the name of the argument that a hook probably means: the one that it asks for, or else the last."""
    # By its code: a hook that has just run for the last time is already removed, and `site.who` does not find it.
    code, offered = code_of(function), site.offers()
    own = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    asked = [name for name in own if name in offered and name not in ("self", "cls")]
    asked = [name for name in asked if kind not in RESERVED.get(name, ())]
    return asked[0] if len(asked) == 1 else (offered or ("name",))[-1]


def unnamed_values(site: Site, function: object, values: Sequence[object]) -> HookAnswerError:
    """Return the error for values without names that `proceed` is called with."""
    names = [name for name in site.signature.names[: site.signature.positional] if name not in ("self", "cls")]
    if len(values) == 1 or len(values) > len(names):
        names = [meant_argument(site, "around", function)]
    pairs = ", ".join(f"{name}={literal(value)}" for name, value in zip(names, values, strict=False))
    return HookAnswerError(
        f"{hook_at(site, 'around', function)} calls proceed with {plural(len(values), 'value')} without a "
        f"name; proceed takes names: proceed({pairs})"
    )


def hook_at(site: Site, kind: str, function: object) -> str:
    """Return the beginning of a message: the mount point, and which of its hooks the function is."""
    return f"{site.label}: {site.who(kind, function) or who_is(kind, name_of(function), function)}"


def revise(site: Site, kind: Kind, function: object, changes: dict[str, object], values: Values) -> list[object]:
    """Return the arguments, some of them replaced by name.

    Raises:
        HookAnswerError: The target has no parameter of that name, and no ``**kwargs`` to take it.
    """
    index, regular = site.signature.index, site.signature.regular
    revised = [*values]
    for name in changes:  # noqa: PLC0206  # `items()` takes half as long again
        if name in index and index[name] < regular:
            revised[index[name]] = changes[name]
        else:
            _replace_extra(site, kind, function, name, changes[name], revised)
    return revised


def _replace_extra(site: Site, kind: Kind, function: object, name: str, value: object, revised: list[object]) -> None:
    """Replace what is not one of the ordinary parameters: ``*args``, ``**kwargs``, and what is in them.

    Raises:
        HookAnswerError: The target has no place for it.
    """
    signature, shown = site.signature, site.shown()
    place, problem = signature.index.get(name), ""
    if shown is not None and name in shown.names:
        if not shown.replace(name, value, revised):
            problem = f"replaces the argument {name!r}, which this call has no place for; "
            problem += "replace `args` or `kwargs` as a whole"
    elif place is not None and place == signature.varargs:
        if isinstance(value, (tuple, list)):
            revised[place] = tuple(cast("Iterable[object]", value))
        else:
            problem = f"replaces *{name} by {described(value)}; give a tuple"
    elif place is not None:
        extra = cast("dict[object, object]", value)  # if it is one
        if isinstance(value, dict) and all(isinstance(key, str) for key in extra):
            revised[place] = extra.copy()
        else:
            problem = f"replaces **{name} by {described(extra)}; give a dict of names"
    elif signature.varkw is not None and isinstance(cast("object", name), str):
        revised[signature.varkw] = {**cast("dict[str, object]", revised[signature.varkw]), name: value}
    else:
        names = list(site.offers())
        offered = printable(", ".join(names)) or "no arguments"
        problem = f"replaces the argument {name!r}, but {site.label} takes {offered}{nearest(str(name), names)}"
    if problem:
        raise HookAnswerError(f"{hook_at(site, kind, function)} {problem}")


# What a hook answers may be anything. It is declared as what is looked for, since `typing.cast` would be a call.
Answer: TypeAlias = "Args | Return[Any] | None"


def settled(site: Site, kind: Kind, function: object, answer: Answer) -> Any:
    """Return the value of an answer that is itself a result, where the kind may answer one, or a `Return` of one."""
    if type(answer) is Return:
        return answer.value
    if type(answer) is Args or "value" not in RULES[kind].answers:
        raise wrong(site, kind, function, answer)
    return answer
