"""Candidates: the hooks that a `OracleMachine` may add, and the options that may be drawn for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from keyword import iskeyword
from typing import Any, Unpack, cast, final

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.kinds import RESERVED, Kind
from aspecthook._core.law.options import Options
from aspecthook._core.mount.point import MountPoint
from aspecthook.testing import Candidate as Given
from tests.oracle.law import kinds_of

# An argument that no target has.
NOBODYS = "an_argument_of_nobody"
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


class Candidate(Given):
    """A hook that an `OracleMachine` may add; options that it leaves open may be drawn for it."""

    __slots__ = ("_drawn", "of", "origin")

    def __init__(
        self, kind: Kind, function: Callable[..., Any], /, *types: type[BaseException], **options: Unpack[Options]
    ) -> None:
        super().__init__(kind, function, *types, **options)
        self.origin: Candidate = self  # what this one is a variant of
        self.of: str | None = None  # "class": it is added to the class of the instance
        self._drawn: frozenset[str] = frozenset()

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


def variants(others: list[Candidate]) -> list[Options]:
    """Return options that place a hook among these: first none, then one of them, then two."""
    names = list(dict.fromkeys(one.name for one in others))
    found: list[Options] = [{}, {"priority": "very_high"}, {"priority": "VERY_LOW"}]
    found += [Options(before=name) for name in names]
    found += [Options(after=name) for name in names]
    found += [Options(before=name, after=other) for name, other in pairwise([*names, *names[:1]])]
    found += [Options(priority=90, before=name) for name in names]
    found += [Options(after=one.function) for one in others]
    found += [Options(before=list(pair)) for pair in pairwise(names)]
    return found


def conditions(kind: Kind, style: str) -> list[Options]:
    """Return the conditions that may be drawn for a hook: each, and each two that go together."""
    single: list[Options] = [
        {"once": True},
        {"times": 2},
        {"every": 2},
        {"reentrant": False},
        {"when": odd},
        {"when": never},
    ]
    if style == "coroutine" or (style == "async generator" and kind != "around"):
        single.append({"when": later_odd})
    if kind != "around":  # what one raises cannot be distinguished from what the target raised through it
        single.append({"isolate": True})
    pairs = [cast("Options", {**one, **other}) for one, other in combinations(single, 2)]
    return [*single, *(pair for pair in pairs if len(pair) == 2 and not {"once", "times"} <= pair.keys())]


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
    if signature.style in ("coroutine", "async generator"):
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
    space: dict[str, Any] = {"note": lambda: ran.note(f"{kind} {name}")}
    exec(f"def {name}({asks}): note()", space)
    return Candidate(kind, space[name], name=name)
