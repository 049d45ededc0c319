"""Streams as a trace notes them: what was asked of a generator, and what it yielded, returned or raised.

The invariant: all that happens to a stream is noted in the order in which it happens, so code that repeats it in
that order does the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from typing import Any, final

from aspecthook._core.law.streams import start

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

NEXT, SEND, THROW, CLOSE, DROP, CANCEL = "next", "send", "throw", "close", "drop", "cancel"


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
        """Record what came of it."""
        self.came, self.answer, self.raised = came, answer, raised
        self.until = len(self._steps)


Note = Callable[[str, object], Resumption]
Fail = Callable[[BaseException], None]


# Any: streams take and yield anything.
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
        except BaseException as caught:  # also where it is closed: `throw` does what `close` does, and shows what came
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
    """Return a stream that records each time that it is resumed; anything that is no stream as it is."""
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


def is_own(event: object) -> bool:
    """Whether this was asked of the stream itself."""
    return isinstance(event, Resumption) and event.source is None


def resume(stream: Any, how: str, value: Any) -> Any:
    """Resume a generator, and return its next item."""
    if how == THROW:
        return stream.throw(value)
    return stream.close() if how in (CLOSE, DROP) else stream.send(value)


def aresume(stream: Any, how: str, value: Any) -> Awaitable[Any]:
    """Resume an async generator, and return an awaitable of its next item."""
    made: Awaitable[Any]
    if how == THROW:
        made = stream.athrow(value)
    elif how in (CLOSE, DROP):
        made = stream.aclose()
    else:
        made = stream.asend(value)
    return made


# Any: a coroutine of anything, which waits for nothing.
def completed(made: Awaitable[Any]) -> Any:
    """Run what waits for nothing outside of itself, without an event loop."""
    try:
        made.__await__().send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("what is played again waits for something")
