"""The kit's own hooks, which any target can carry: they note that they run, answer, and ask in every way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from keyword import iskeyword
from typing import Any, cast, final

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.kinds import RESERVED, Kind, kinds_of
from aspecthook._core.law.options import Options
from aspecthook._core.mount.point import MountPoint

from ._candidates import Candidate, later_odd, odd
from ._refusals import NOBODYS
from ._signatures import define, signature


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


def small_hooks(mount: MountPoint, ran: Ran) -> list[Candidate]:
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
    """Make hooks that answer something, for the target that a `HookMachine` has by itself: ``(a, b=1)``, numbers."""

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

    return Candidate(kind, define(name, signature(f"({asks})"), "def: return ACT(GIVEN)", note), name=name)
