"""Candidates: the hooks that a `OracleMachine` may add, and the options that may be drawn for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from inspect import getattr_static
from itertools import pairwise
from keyword import iskeyword
from typing import Any, Unpack, cast, final

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.callables import name_of
from aspecthook._core.law.kinds import RESERVED, Kind, kinds_of
from aspecthook._core.law.options import Options
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookTypeError
from aspecthook._values import shortened
from aspecthook.weave._aspects import MARKS
from tests.oracle.refusals import NOBODYS
from tests.oracle.signatures import BODIES, define, signature

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
    """A hook that a `OracleMachine` may add: its kind, the function, for exceptions the types, and options.

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
        self.function: Callable[..., Any] = function
        self.types: tuple[type[BaseException], ...] = types
        self.options: Options = options
        self.origin: Candidate = self  # what this one is a variant of
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


# The kit's own hooks, which any target can carry: they note that they run, answer, and ask in every way.


@final
class Ran(threading.local):
    """Which of the kit's own hooks have run in this thread; all machines of a class share the hooks, and this."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def note(self, name: str) -> None:
        """Record that a hook runs."""
        self._names.append(name)

    def take(self) -> list[str]:
        """Return what was noted since this was last called."""
        names, self._names = self._names, []
        return names


def silent_hooks(mount: MountPoint, ran: Ran) -> list[Candidate]:
    """Make hooks that any target can carry; they only note that they have run."""
    signature = mount.site().signature
    own: dict[str, Options] = {
        "a": {},
        "b": {"before": "a"},
        "c": {"priority": 10},
        "once": {"once": True},
        "second": {"every": 2},
        "odd": {"when": odd},
        "alone": {"reentrant": False},
    }
    if signature.style == "coroutine":
        own["later"] = {"when": later_odd}
    return [
        Candidate(kind, _noting(ran, kind, name, signature.style), **cast("Options", {**options, "name": name}))
        for kind in kinds_of(signature)
        for name, options in own.items()
    ]


def _noting(ran: Ran, kind: str, name: str, style: str) -> Callable[..., Any]:
    def note() -> None:
        ran.note(f"{kind} {name}")

    def around(proceed: Any) -> Any:
        note()
        return proceed()

    async def awaiting(proceed: Any) -> Any:
        note()
        return await proceed()

    async def noting() -> None:
        note()

    if kind != "around":
        is_async = style in ("coroutine", "async generator")
        return noting if is_async and name in ("b", "second") else note
    return awaiting if style == "coroutine" else around


def answering_hooks(ran: Ran) -> list[Candidate]:
    """Make hooks that answer something, for the target that a `OracleMachine` has by itself: ``(a, b=1)``, numbers."""

    def noted(kind: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        # Each asks for what its kind has, by way of the call.
        def hook(call: Any) -> Any:
            ran.note(f"{kind} {answer.__name__}")
            return answer(call)

        return hook

    def more(call: Any) -> Args:
        return Args(b=call.arguments["b"] + 1)

    def skip(call: Any) -> Return[int] | None:
        return Return(0) if call.arguments["a"] == 2 else None

    def double(call: Any) -> int:
        return cast("int", call.result * 2)

    def mend(call: Any) -> Return[int] | None:
        return Return(-1) if call.arguments["b"] else None

    def twice(proceed: Any, a: int) -> Any:
        ran.note("around twice")
        return proceed() + proceed(b=a)

    def seen() -> Any:
        ran.note("around seen")
        yield

    kinds: dict[Callable[..., Any], Kind] = {more: "pre", skip: "pre", double: "post", mend: "exception"}
    found = [Candidate(kind, noted(kind, one), name=one.__name__) for one, kind in kinds.items()]
    return [*found, Candidate("around", twice), Candidate("around", seen)]


def asking_hooks(mount: MountPoint, ran: Ran) -> list[Candidate]:
    """Return hooks that note that they have run, and ask for the arguments of the target by name, and for more."""
    kinds = kinds_of(mount.site().signature)
    return [_asking(kind, name, asks, ran) for kind, name, asks in _ways(mount) if kind in kinds]


def _ways(mount: MountPoint) -> Iterator[tuple[Kind, str, str]]:
    found = mount.site().signature
    names = [name for name in found.names[: found.regular] if name.isidentifier() and not iskeyword(name)]
    names = [name for name in names if name not in RESERVED]
    first, last = names[:1], names[1:][-1:]
    yield "pre", "named", ", ".join(names)
    yield "pre", "unnamed", "arguments, other=None, /"
    yield "pre", "open", ", ".join([*first, "**more"])
    yield "exception", "rest", "exc, *args, **kwargs"
    yield "post", "apart", ", ".join([*first, f"{NOBODYS}=None", *(f"{name}=None" for name in last)])
    yield "always", "keywords", ", ".join(["*", *reversed(names), "result", "exc"])


def _asking(kind: Kind, name: str, asks: str, ran: Ran) -> Candidate:
    def note(_given: dict[str, object]) -> None:
        ran.note(f"{kind} {name}")

    return Candidate(kind, define(name, signature(f"({asks})"), BODIES["function"], note), name=name)
