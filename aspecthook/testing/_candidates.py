"""Candidates: the hooks that a `HookMachine` may add, and the options that may be drawn for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from inspect import getattr_static
from itertools import pairwise
from typing import Any, Unpack, cast, final

from aspecthook._core.law.callables import name_of
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Options
from aspecthook._errors import HookTypeError
from aspecthook.weave._aspects import MARKS

from ._shortened import shortened

CONDITIONS = frozenset({"when", "once", "times", "every", "reentrant", "isolate"})


def never() -> bool:
    """A `when` that is never true."""
    return False


def odd(call: Any) -> bool:
    """A `when` that is true if an argument is an odd number."""
    return any(isinstance(value, int) and value % 2 for value in call.arguments.values())


async def later_odd(call: Any) -> bool:
    """A `when` that is awaited."""
    return odd(call)


@final
class Candidate:
    """A hook that a `HookMachine` may add: its kind, the function, for exceptions the types, and options.

    Example:
        >>> def auth(): ...
        >>> Candidate("pre", auth, before="audit")
        pre auth, before='audit'
    """

    __slots__ = ("_drawn", "function", "kind", "of", "options", "origin", "types")

    def __init__(
        self, kind: Kind, function: Callable[..., Any], /, *types: type[BaseException], **options: Unpack[Options]
    ) -> None:
        self.kind: Kind = kind
        self.function = function
        self.types = types
        self.options = options
        self.origin = self  # what this one is a variant of
        self.of: str | None = None  # "class": it is added to the class of the instance
        self._drawn: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name of the hook: its ``name=``, or that of the function."""
        return self.options.get("name") or name_of(self.function)

    def leaves_open(self, option: str) -> bool:
        """Whether an option, or any of the ``"conditions"``, may be drawn for this candidate."""
        if option == "conditions":
            return not self.options.keys() & CONDITIONS
        return option not in self.options or option in self._drawn

    def varied(self, options: Options) -> Candidate:
        """Return the same hook with more options, which are drawn."""
        made = Candidate(self.kind, self.function, *self.types, **cast("Options", {**self.options, **options}))
        made.origin, made.of = self.origin, self.of
        made._drawn = self._drawn | options.keys()
        return made

    def on(self, of: str | None) -> Candidate:
        """Return the same hook for the class of the instance, or for the instance."""
        made = self.varied({})
        made.of = of
        return made

    @property
    def drawn(self) -> dict[str, object]:
        """The options that are not its own."""
        return {name: value for name, value in self.options.items() if name in self._drawn}

    def __repr__(self) -> str:
        shown = [f"{name}={shortened(value)}" for name, value in self.options.items() if name != "name"]
        return ", ".join([f"{self.kind} {self.name}", *shown])


def read(given: Iterable[Any]) -> Iterator[Candidate]:
    """Read candidates: each is one, or a function with the marks of some."""
    for one in given:
        if isinstance(one, Candidate):
            yield one
            continue
        marks = getattr(one, MARKS, ())
        if not marks:
            raise HookTypeError(
                f"{shortened(one)} is not a candidate; use Candidate(kind, function), or mark the function with "
                "`aspecthook.pre` or another kind"
            )
        for mark in marks:
            yield Candidate(mark.kind, one, *mark.types, **mark.options)


def variants(others: list[Candidate]) -> list[Options]:
    """Return options that place a hook among these: first none, then one of them, then two."""
    names = list(dict.fromkeys(one.name for one in others))
    found: list[Options] = [{}, {"priority": 10}, {"priority": 90}]
    found += [Options(before=name) for name in names]
    found += [Options(after=name) for name in names]
    found += [Options(before=name, after=other) for name, other in pairwise([*names, *names[:1]])]
    found += [Options(priority=90, before=name) for name in names]
    found += [Options(after=one.function) for one in others]
    found += [Options(before=list(pair)) for pair in pairwise(names)]
    return found


def conditions(kind: Kind) -> list[Options]:
    """Return the conditions that may be drawn for a hook."""
    found: list[Options] = [
        {"once": True},
        {"times": 2},
        {"every": 2},
        {"reentrant": False},
        {"when": odd},
        {"when": never},
        {"when": odd, "every": 2},
        {"times": 2, "every": 2},
        {"times": 2, "reentrant": False},
    ]
    # What an around hook raises cannot be distinguished from what the target raised through it.
    return found if kind == "around" else [*found, {"isolate": True}]


@cache
def marked_names(owner: type[Any]) -> list[str]:
    """Return the names of the methods of a class that are marked as hooks, in the order of the source."""
    names = dict.fromkeys(name for cls in reversed(owner.__mro__) for name in vars(cls))
    return [name for name in names if getattr(getattr_static(owner, name), MARKS, ())]
