"""Streams of which each step is made by a function: in a context, in a span, again after a failure, in limited time.

The invariant: a step is given to the function as something to call, and what comes of it is what the function lets out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aspecthook._core.law.streams import start
from aspecthook._errors import unblamed
from aspecthook._hints import Any, Self, TypeAlias, final

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Any: streams of anything. It is given a step and its arguments; that of an async stream is async, and awaits what the
# step returns.
Turn: TypeAlias = Callable[..., Any]
End: TypeAlias = Callable[[Any, BaseException | None], None]


def _ignore(result: Any, exc: BaseException | None) -> None:
    """Do nothing at the end."""


class _Stepped:
    """A stream, the function that makes its steps, and what is called once it has ended."""

    __slots__ = ("_end", "_turn", "source")

    def __init__(self, source: Any, turn: Turn, end: End = _ignore) -> None:
        self.source = source
        self._turn = turn
        self._end = end

    def _finish(self, result: Any, exc: BaseException | None) -> None:
        end, self._end = self._end, _ignore  # whoever runs a stream that has failed closes it as well
        end(result, exc)


@final
class Steps(_Stepped):
    """A generator, or another iterator, which can only go on and lacks what the other methods need."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    @unblamed
    def __next__(self) -> Any:
        return self._step(next, self.source)

    @unblamed
    def send(self, value: Any) -> Any:
        """Send a value to the generator."""
        send = getattr(self.source, "send", None)
        return next(self) if send is None else self._step(send, value)

    @unblamed
    def throw(self, exc: BaseException) -> Any:
        """Raise an exception in the generator."""
        throw = getattr(self.source, "throw", None)
        if throw is None:
            raise exc
        return self._step(throw, exc)

    @unblamed
    def close(self) -> None:
        """Close the generator."""
        close = getattr(self.source, "close", None)
        if close is not None:
            self._step(close)
        self._finish(None, None)

    @unblamed
    def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        try:
            return self._turn(step, *args)
        except StopIteration as stop:
            self._finish(stop.value, None)
            raise
        except BaseException as exc:
            self._finish(None, exc)
            raise


@final
class AsyncSteps(_Stepped):
    """The same for an async generator."""

    __slots__ = ("_begun",)

    def __init__(self, source: Any, turn: Turn, end: End = _ignore) -> None:
        super().__init__(source, turn, end)
        self._begun = False

    def asend(self, value: Any) -> Awaitable[Any]:
        """Send a value to the generator."""
        if self._begun:
            return self._step(self.source.asend, value)
        self._begun = True
        return self._step(start, self.source)

    def athrow(self, exc: BaseException) -> Awaitable[Any]:
        """Raise an exception in the generator."""
        return self._step(lambda: self.source.athrow(exc))  # there may be no generator yet

    async def aclose(self) -> None:
        """Close the generator."""
        if self.source is not None:
            await self._step(self.source.aclose)
        self._finish(None, None)

    @unblamed
    async def _step(self, step: Callable[..., Any], *args: Any) -> Any:
        try:
            return await self._turn(step, *args)
        except StopAsyncIteration:
            self._finish(None, None)
            raise
        except BaseException as exc:
            self._finish(None, exc)
            raise
