"""Streams as a trace notes them: what was asked of a generator, and what it yielded, returned or raised.

The invariant: all that happens to a stream is noted in the order in which it happens, so code that repeats it in
that order does the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from aspecthook._core.law.streams import start

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

NEXT, SEND, THROW, CLOSE = "next", "send", "throw", "close"


@final
@dataclass(eq=False, slots=True)
class Resumption:
    """One time that a stream was resumed: how, with what, and what came of it."""

    how: str  # what was asked of it
    value: object  # what was sent or thrown
    _steps: Sequence[object]  # those of the call
    source: object = None  # the stream, if `proceed` has given it to an around hook; else it is the hook's own
    at: int = field(init=False)  # how many steps had begun before
    until: int = field(init=False)  # how many had begun when something came of it
    came: str = field(init=False, default="")  # "item", "end" or "raised"
    answer: object = field(init=False, default=None)  # the item, or at the end what was returned
    raised: BaseException | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.at = self.until = len(self._steps)

    def give(self, came: str, answer: object = None, raised: BaseException | None = None) -> None:
        """Record what came of it."""
        self.came, self.answer, self.raised = came, answer, raised
        self.until = len(self._steps)


Note = Callable[[str, object], Resumption]
Fail = Callable[[BaseException], None]
# Any: streams take and yield anything.
Stream = Generator[Any, Any, Any]
AsyncStream = AsyncGenerator[Any, Any]


def _ignore(_error: BaseException) -> None:
    """Record nothing: whoever reads the stream does."""


def _thrown(error: Any) -> tuple[str, BaseException | None]:
    return (CLOSE, None) if isinstance(error, GeneratorExit) else (THROW, error)


def _end(resumed: Resumption, fail: Fail, error: BaseException) -> None:
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        resumed.give("end", getattr(error, "value", None))
    else:
        resumed.give("raised", None, error)
        fail(error)


@final
class NotedStream(Stream):
    """A generator passed on, with a note of each time that it is resumed.

    It is closed by ``throw(GeneratorExit)``, which does what `close` does and shows what came of it.
    """

    def __init__(self, made: Stream, note: Note, fail: Fail = _ignore) -> None:
        self._made, self._note, self._fail = made, note, fail
        self._has_ended = False

    def send(self, value: Any) -> Any:
        """Resume the stream."""
        return self._resume(NEXT if value is None else SEND, value, self._made.send, value)

    # Any: the three arguments of before Python 3.12 too.
    def throw(self, error: Any, *_: Any) -> Any:
        """Throw an exception into the stream."""
        error = error() if isinstance(error, type) else error
        return self._resume(*_thrown(error), self._made.throw, error)

    def _resume(self, how: str, value: object, resume: Callable[[Any], Any], given: Any) -> Any:
        if self._has_ended:
            return resume(given)
        resumed = self._note(how, value)
        try:
            item = resume(given)
        except BaseException as caught:
            self._has_ended = True
            _end(resumed, self._fail, caught)
            raise
        resumed.give("item", item)
        return item


@final
class NotedAsyncStream(AsyncStream):
    """An async generator passed on in the same way; it is opened when it is first resumed."""

    def __init__(self, opened: Callable[[], tuple[AsyncStream, Note, Fail]]) -> None:
        self._opened = opened
        self._made: AsyncStream | None = None
        self._has_ended = False

    def asend(self, value: Any) -> Any:
        """Resume the stream."""
        if self._made is None:
            self._made, self._note, self._fail = self._opened()
            return self._resume(self._note(NEXT, None), start(self._made))
        if self._has_ended:
            return self._made.asend(value)
        return self._resume(self._note(NEXT if value is None else SEND, value), self._made.asend(value))

    def athrow(self, error: Any, *_: Any) -> Any:
        """Throw an exception into the stream."""
        error = error() if isinstance(error, type) else error
        if self._made is None or self._has_ended:
            return self._refuse(error)
        return self._resume(self._note(*_thrown(error)), self._made.athrow(error))

    async def _refuse(self, error: BaseException) -> None:
        raise error

    async def _resume(self, resumed: Resumption, step: Awaitable[Any]) -> Any:
        try:
            item = await step
            if resumed.how == CLOSE and getattr(self._made, "ag_frame", self) is None:  # it had been closed before
                raise GeneratorExit
        except BaseException as caught:
            self._has_ended = True
            _end(resumed, self._fail, caught)
            raise
        resumed.give("item", item)
        return item


def noted(made: Any, note: Note, fail: Fail = _ignore) -> Any:
    """Return a stream that records each time that it is resumed; anything that is no stream as it is."""
    if is_stream(made):
        return NotedStream(made, note, fail)
    return NotedAsyncStream(lambda: (made, note, fail)) if is_astream(made) else made


def is_stream(made: object) -> bool:
    """Whether this is a generator, or has all that one has."""
    return all(hasattr(type(made), name) for name in ("__next__", "send", "throw", "close"))


def is_astream(made: object) -> bool:
    """Whether this is an async generator, or has all that one has."""
    return all(hasattr(type(made), name) for name in ("asend", "athrow", "aclose"))
