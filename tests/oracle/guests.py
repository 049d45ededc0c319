"""Guests: hooks of the kit's own for one call of a machine, which fail, answer, call again, add or remove hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, final

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Options
from aspecthook._core.mount.point import MountPoint
from tests.oracle.candidates import NOBODYS
from tests.oracle.law import kinds_of

GUEST = "guest that "  # how the names of these hooks begin


class PlannedError(Exception):
    """What a hook raises that fails as planned."""


class PlannedStop(BaseException):
    """What a hook raises that stops the whole call, as an interrupt does.

    It is no `KeyboardInterrupt`: asyncio raises those out of the event loop, past whoever awaits the task, and pytest
    ends the run.
    """


@final
class Mark:
    """What a guest answers: an object that nothing else makes or changes."""

    def __repr__(self) -> str:
        return "<a mark>"


MARK = Mark()
AGAIN, ADDS, REMOVES = "again", "adds", "removes"
# The same with `reentrant=False`: it does not run again while it runs, and runs again once it has failed.
GUARDED = " guarded"
_ANY = ("fails", "stops", AGAIN)
_GUARDED = ("fails" + GUARDED, AGAIN + GUARDED)
# With one yield, and what needs `proceed`.
_YIELDING = ("fails late", "replaces", "swallows", "yields twice", "never yields")
_PROCEEDING = ("skips", "twice", "changes", "misproceeds", "mistakes")
_SIMPLE = (*_ANY, "fails alone", *_GUARDED, "mistakes", ADDS, REMOVES)
_ACTIONS: dict[Kind, tuple[str, ...]] = {
    "pre": (*_SIMPLE, "changes", "returns", "returns None", "misnames"),
    "around": (*_ANY, *_GUARDED, *_PROCEEDING, *_YIELDING),
    "exception": (*_SIMPLE, "handles", "returns None"),
    "post": (*_SIMPLE, "replaces", "returns None"),
    "always": (*_SIMPLE, "answers"),
    "item": (*_ANY, "replaces"),
    "on": _ANY,
}
# An answer that law 1 refuses.
_MISTAKES: dict[Kind, object] = {"pre": MARK, "post": Args(), "exception": MARK, "always": Return(MARK)}
_PLACES = {"first": 0, "": 50, "last": 100}


class Guest(NamedTuple):
    """A hook that is there for one call: its kind, what it does, and whether it is the first or the last to run."""

    kind: Kind
    does: str
    place: str = ""

    @property
    def options(self) -> Options:
        """What it is added with."""
        named = Options(name=f"{GUEST}{self.does}", priority=_PLACES[self.place])
        if self.does.endswith(GUARDED):
            named["reentrant"] = False
        return {**named, "isolate": True} if self.does == "fails alone" else named

    @property
    def calls(self) -> int:
        """How many calls it is there for: one that has failed is to run again."""
        return 2 if self.does == "fails" + GUARDED else 1


def guests_of(mount: MountPoint) -> list[Guest]:
    """Return all guests that a call of this mount point may have, the simplest first."""
    signature = mount.site().signature
    streams = "generator" in signature.style
    return [
        Guest(kind, action, place)
        for place in ("", "first", "last")
        for kind in kinds_of(signature)
        for action in _ACTIONS[kind]
        if not (streams and action.startswith(AGAIN))
    ]


def function_of(guest: Guest, *, style: str, changes: dict[str, object], act: Callable[[], Any]) -> Callable[..., Any]:
    """Make the function of a guest, which changes these arguments or acts if it is one that does."""
    does = guest.does.removesuffix(GUARDED)
    waits = style == "coroutine"
    if guest.kind == "around":
        return _around(does, changes, act, waits=waits)
    if does in (AGAIN, ADDS, REMOVES):
        return _acting_later(act) if waits else act
    answers: dict[str, Callable[[], object]] = {
        "fails": _fail,
        "fails alone": _fail,
        "stops": _stop,
        "changes": lambda: Args(**_taken(changes)),
        "returns": lambda: Return(MARK),
        "returns None": lambda: Return(None),
        "replaces": lambda: MARK,
        "handles": lambda: Return(MARK),
        "answers": lambda: MARK,
        "mistakes": lambda: _MISTAKES[guest.kind],
        "misnames": lambda: Args(**{NOBODYS: 1}),
    }
    if style in ("coroutine", "async generator"):
        return _answering_later(answers[does], guest.place)
    return answers[does]


class Later:
    """An awaitable that is no coroutine, which a sync hook of an async function may answer."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer

    def __await__(self) -> Generator[Any, Any, object]:
        yield from asyncio.sleep(0).__await__()
        return self.answer()


def _answering_later(answer: Callable[[], object], place: str) -> Callable[[], object]:
    """Make hooks of an async function: sync ones at first, async ones at last, others answer an awaitable."""

    async def later() -> object:
        return answer()

    def awaitable() -> object:
        return Later(answer)

    return {"first": answer, "last": later}.get(place, awaitable)


def _taken(changes: dict[str, object]) -> dict[str, object]:
    """Return the changes, which are made once: a target that calls itself until its arguments say so must end."""
    taken = dict(changes)
    changes.clear()
    return taken


def _fail() -> None:
    raise PlannedError("planned")


def _stop() -> None:
    raise PlannedStop("planned")


def _acting_later(act: Callable[[], Any]) -> Callable[[], Any]:
    async def acting() -> None:
        made = act()
        if made is not None:
            await made

    return acting


def _around(does: str, changes: dict[str, object], act: Callable[[], Any], *, waits: bool) -> Callable[..., Any]:
    if does == "misproceeds":
        changes = {NOBODYS: 1}
    if waits and (does == AGAIN or does in _PROCEEDING):
        return _proceeding_later(does, changes, act)
    return _proceeding(does, changes) if does in _PROCEEDING else _watching(does, act)


def _watching(does: str, act: Callable[[], Any]) -> Callable[..., Any]:
    def watching() -> Generator[None, Any, object]:  # with one yield, it serves targets of every style
        if does == "fails":
            _fail()
        if does == "stops":
            _stop()
        if does == AGAIN:
            act()
        if does == "never yields":
            return MARK
        try:
            yield
        except Exception:
            if does != "swallows":
                raise
        if does == "yields twice":
            yield
        if does == "fails late":
            _fail()
        return MARK if does == "replaces" else None

    return watching


def _proceeding(does: str, changes: dict[str, object]) -> Callable[..., Any]:
    def proceeding(proceed: Callable[..., Any]) -> object:
        if does == "skips":
            return MARK
        if does == "twice":
            proceed()
        result = proceed(**_taken(changes))
        return Args() if does == "mistakes" else result

    return proceeding


def _proceeding_later(does: str, changes: dict[str, object], act: Callable[[], Any]) -> Callable[..., Any]:
    async def proceeding(proceed: Callable[..., Any]) -> object:
        if does == AGAIN:
            await _acting_later(act)()
        if does == "skips":
            return MARK
        if does == "twice":
            await proceed()
        result = await proceed(**_taken(changes))
        return Args() if does == "mistakes" else result

    return proceeding
