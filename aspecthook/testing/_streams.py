"""Streams, as a trace notes them and as a replay plays them again: what was asked of a generator, and what it gave.

The invariant: all that happens to a stream is noted in the order in which it happens. So whoever does it again, in that
order, does the same.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, cast, final

from aspecthook._core.law.streams import start

from ._guests import MARK, PlannedError

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

NEXT, SEND, THROW, CLOSE, DROP, CANCEL = "next", "send", "throw", "close", "drop", "cancel"


# How a call may be made by its caller; what is read is then read to its end.
_READINGS = ("next send", "next throw", "next close", "close", "next next send", "next next throw", "next next close")
_DRIVES = {
    "generator": (*_READINGS, "next drop", "at once"),
    "async generator": (*_READINGS, "cancel", "next cancel", "at once"),
    "coroutine": ("cancel", "wait cancel", "at once"),
}
AT_ONCE = "at once"
DRIVES = ("send", "throw", "close", "drop", "cancel", AT_ONCE)


def drives_of(style: str, allowed: Sequence[str]) -> list[str]:
    """Give the ways in which a call may be made, the simplest first."""
    return [one for one in _DRIVES.get(style, ()) if one in allowed or one.split()[-1] in allowed]


@final
class Resumption:
    """One time that a stream was resumed: how, with what, and what came of it.

    Attributes:
        how: What was asked of the stream: ``"next"``, ``"send"``, ``"throw"``, ``"close"`` and so on.
        value: What was sent or thrown.
        source: The stream, if it is one that an around hook was given by `proceed`; else it is the hook's own.
        at: How many steps of the call had begun before.
        until: How many had begun when something came of it.
        came: ``"item"``, ``"end"`` or ``"raised"``; empty before.
        answer: The item, or at the end what was returned.
        raised: The exception.
    """

    __slots__ = ("_steps", "answer", "at", "came", "how", "raised", "source", "until", "value")

    def __init__(self, how: str, value: object, steps: Sequence[object], source: object = None) -> None:
        self.how = how
        self.value = value
        self.source = source
        self._steps = steps
        self.at = self.until = len(steps)
        self.came = ""
        self.answer: object = None
        self.raised: BaseException | None = None

    def give(self, came: str, answer: object = None, raised: BaseException | None = None) -> None:
        """Note what came of it."""
        self.came, self.answer, self.raised = came, answer, raised
        self.until = len(self._steps)


Note = Callable[[str, object], Resumption]
Fail = Callable[[BaseException], None]


# Any: streams take and give anything.
def noted(made: Generator[Any, Any, Any], note: Note) -> Generator[Any, Any, Any]:
    """Pass a stream on, and note each time that it is resumed."""
    resumed = note(NEXT, None)
    sent: Any = None
    thrown: BaseException | None = None
    while True:
        try:
            if thrown is None:
                item = made.send(sent)
            else:
                error, thrown = thrown, None
                item = made.throw(error)
        except StopIteration as stop:
            resumed.give("end", stop.value)
            return stop.value
        except BaseException as caught:
            resumed.give("raised", None, caught)
            raise
        finally:
            error = None  # type: ignore[assignment]  # else the frame and its exception keep each other alive
        resumed.give("item", item)
        try:
            sent = yield item
            resumed = note(NEXT if sent is None else SEND, sent)
        except BaseException as caught:  # also where it is closed: `throw` does what `close` does, and tells what came
            thrown = caught
            resumed = _noted_throw(note, caught)


def _noted_throw(note: Note, error: BaseException) -> Resumption:
    return note(CLOSE, None) if isinstance(error, GeneratorExit) else note(THROW, error)


async def anoted(opened: Callable[[], tuple[AsyncGenerator[Any, Any], Note, Fail]]) -> AsyncGenerator[Any, Any]:
    """Pass an async stream on, and note each time that it is resumed, and what it raised at last."""
    made, note, fail = opened()
    resumed = note(NEXT, None)
    step: Awaitable[Any] | None = start(made)
    while True:
        assert step is not None
        try:
            item = await step
        except StopAsyncIteration:
            resumed.give("end")
            return
        except BaseException as caught:
            resumed.give("raised", None, caught)
            fail(caught)
            raise
        finally:
            step = None  # it holds what was thrown
        if resumed.how == CLOSE and getattr(made, "ag_frame", made) is None:  # it had been closed before
            resumed.give("raised", None, GeneratorExit())
            raise GeneratorExit
        resumed.give("item", item)
        try:
            sent = yield item
            resumed = note(NEXT if sent is None else SEND, sent)
            step = made.asend(sent)
        except BaseException as caught:
            resumed = _noted_throw(note, caught)
            step = made.athrow(caught)


def noting_stream(made: Any, note: Note, fail: Fail = lambda _: None) -> Any:
    """Note each time that a stream is resumed, of whichever sort it is; give back anything else as it is."""
    if is_stream(made):
        return _noted_to_its_end(made, note, fail)
    return anoted(lambda: (made, note, fail)) if is_astream(made) else made


def _noted_to_its_end(made: Generator[Any, Any, Any], note: Note, fail: Fail) -> Generator[Any, Any, Any]:
    try:
        return (yield from noted(made, note))
    except BaseException as error:
        fail(error)
        raise


def is_stream(made: object) -> bool:
    """Whether this is a generator, or has all that one has."""
    return all(hasattr(type(made), name) for name in ("__next__", "send", "throw", "close"))


def is_astream(made: object) -> bool:
    """Whether this is an async generator, or has all that one has."""
    return all(hasattr(type(made), name) for name in ("asend", "athrow", "aclose"))


def is_iterator(made: object) -> bool:
    """Whether this is an iterator of any other sort."""
    known = is_stream(made) or is_astream(made)
    return not known and (hasattr(type(made), "__next__") or hasattr(type(made), "__aiter__"))


# Playing again


class Player(Protocol):
    """What a stream that is played again asks of the replay it is a part of."""

    @property
    def is_over(self) -> bool:
        """Whether the call has been played, so that nothing is compared any more."""
        ...

    @property
    def events(self) -> list[Any]:
        """What the stream did, and what was asked of it."""
        ...

    def receive(self, event: Resumption | None, how: str, value: object) -> None:
        """Check that the stream is resumed as it was."""

    def act(self, event: Any) -> Any:
        """Do what the hook did: proceed, or resume a stream that it was given by `proceed`."""

    async def aact(self, event: Any) -> Any:
        """Do it where it is awaited."""

    def end(self, last: Resumption) -> Any:
        """Return what the stream returned, or raise what it raised."""


def played(opened: Callable[[], AbstractContextManager[Player]]) -> Generator[Any, Any, Any]:
    """Do again what a generator has done."""
    with opened() as player:
        last = _first(player)
        for event in _following(player.events, last):
            if event is not None and not is_own(event):
                player.act(event)
                continue
            try:
                sent = yield last.answer
            except BaseException as error:
                if player.is_over:
                    raise
                player.receive(event, CLOSE if isinstance(error, GeneratorExit) else THROW, error)
            else:
                player.receive(event, NEXT if sent is None else SEND, sent)
            last = cast("Resumption", event)
        return player.end(last)


async def aplayed(opened: Callable[[], AbstractContextManager[Player]]) -> AsyncGenerator[Any, Any]:
    """Do again what an async generator has done."""
    with opened() as player:
        last = _first(player)
        for event in _following(player.events, last):
            if event is not None and not is_own(event):
                await player.aact(event)
                continue
            try:
                sent = yield last.answer
            except BaseException as error:
                if player.is_over:
                    raise
                player.receive(event, CLOSE if isinstance(error, GeneratorExit) else THROW, error)
            else:
                player.receive(event, NEXT if sent is None else SEND, sent)
            last = cast("Resumption", event)
        player.end(last)


def _first(player: Player) -> Resumption:
    first = next(iter(player.events), None)
    player.receive(first, NEXT, None)
    return cast("Resumption", first)


def _following(events: Sequence[Any], last: Resumption) -> Iterator[Any]:
    for event in events[1:]:
        yield event
        last = event if is_own(event) else last
    if last.came == "item":
        yield None  # it was never resumed after that


def is_own(event: object) -> bool:
    """Whether this was asked of the stream itself."""
    return isinstance(event, Resumption) and event.source is None


def resume(stream: Any, how: str, value: Any) -> Any:
    """Resume a generator; give its next item."""
    if how == THROW:
        return stream.throw(value)
    return stream.close() if how in (CLOSE, DROP) else stream.send(value)


def aresume(stream: Any, how: str, value: Any) -> Awaitable[Any]:
    """Resume an async generator; give an awaitable of its next item."""
    made: Awaitable[Any]
    if how == THROW:
        made = stream.athrow(value)
    elif how in (CLOSE, DROP):
        made = stream.aclose()
    else:
        made = stream.asend(value)
    return made


# Any: a coroutine that waits for nothing, of whatever it gives.
def completed(made: Awaitable[Any]) -> Any:
    """Run what waits for nothing outside of itself, without an event loop."""
    try:
        made.__await__().send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("what is played again waits for something")


# Reading a stream as its users do


def reading(stream: Any, drive: Sequence[str], note: Note) -> Generator[None]:
    """Read a generator as `drive` says, and then to its end; halt after each time that it was resumed.

    Raises:
        BaseException: What comes out of the stream.
    """
    for how in _ways(drive):
        value = _value(how)
        resumed = note(how, value)
        try:
            if how == DROP:
                with _unraisable() as raised:
                    stream = None
                    if sys.implementation.name != "cpython":  # there generators end when they are collected
                        gc.collect()
                if raised:
                    raise raised[0]
                answer = None
            else:
                answer = resume(stream, how, value)
        except StopIteration as stop:
            resumed.give("end", stop.value)
            return
        except BaseException as error:
            resumed.give("raised", None, error)
            raise
        resumed.give("end" if how in (CLOSE, DROP) else "item", answer)
        if how in (CLOSE, DROP):
            return
        yield


async def areading(stream: Any, drive: Sequence[str], note: Note) -> AsyncGenerator[None]:
    """Read an async generator as `reading` does; a step that is cancelled is one of a task of its own."""
    for how in _ways(drive):
        value = _value(how)
        resumed = note(how, value)
        try:
            if how == CANCEL:
                answer = await _cancelled(stream.asend(None))
            else:
                answer = await aresume(stream, how, value)
        except StopAsyncIteration:
            resumed.give("end")
            return
        except BaseException as error:
            resumed.give("raised", None, error)
            raise
        resumed.give("end" if how in (CLOSE, DROP) else "item", answer)
        if how in (CLOSE, DROP):
            return
        yield


def _value(how: str) -> Any:
    if how == THROW:
        return PlannedError("thrown")
    return MARK if how == SEND else None


def _ways(drive: Sequence[str]) -> Iterator[str]:
    yield from drive
    while True:
        yield NEXT


@contextmanager
def _unraisable() -> Generator[list[BaseException]]:
    """Take what Python cannot raise: what comes out of a generator that is dropped."""
    raised: list[BaseException] = []
    before = sys.unraisablehook

    def take(what: Any) -> None:
        if what.exc_value is not None:
            raised.append(what.exc_value)

    sys.unraisablehook = take
    try:
        yield raised
    finally:
        sys.unraisablehook = before


# Any: an awaitable of whatever it gives.
async def _cancelled(awaitable: Awaitable[Any]) -> Any:
    """Await something, and cancel it where it first waits; another event loop than asyncio's waits for it to end."""
    return await cancelled_after(lambda: awaitable, 1)


async def cancelled_after(call: Callable[[], Awaitable[Any]], turns: int) -> Any:
    """Await something in a task that is cancelled after some turns of the event loop, if it still waits then."""
    came: list[Any] = []
    raised: list[BaseException] = []

    async def settled() -> None:
        try:
            came.append(await call())
        except BaseException as error:  # as it is: a task may make another of it
            raised.append(error)

    if not _is_asyncio():
        return await call()
    task = asyncio.ensure_future(settled())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if raised:
        raise raised[0]
    return came[0]


def _is_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
