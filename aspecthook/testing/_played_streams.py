"""Streams that do again what the stream of a hook or of a target has done, as a replay asks them to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

from aspecthook._core.law.answers import Args, Return
from aspecthook._errors import HookAnswerError

from ._streams import CLOSE, DROP, NEXT, SEND, THROW, Resumption, is_own, is_stream

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


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

    def come_to_its_yield(self) -> None:
        """Do what comes before the one `yield`."""

    def go_on(self, how: str, value: object) -> Any:
        """Continue after the one `yield`, and return what the hook answers then."""


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


def asked_of(event: Resumption) -> tuple[str, object]:
    """Return how to resume a stream: ``throw(GeneratorExit)`` in place of `close`, which hides what comes of it."""
    return (THROW, GeneratorExit()) if event.how == CLOSE else (event.how, event.value)


def outcome_of(resumed: Callable[[], object], event: Resumption) -> tuple[str, object, BaseException | None]:
    """Resume a stream, and return what comes of it as a `Resumption` records it."""
    try:
        answer = resumed()
    except StopIteration as stop:
        return "end", stop.value, None
    except StopAsyncIteration:
        return "end", None, None
    except BaseException as error:
        return "raised", None, error
    return "end" if event.how in (CLOSE, DROP) else "item", answer, None


def lazily(holds: Callable[[], bool], make: Callable[[], Any], proceed: Callable[[], Any]) -> Generator[Any, Any, Any]:
    """Decide as a stream begins whether it is this one or what is inside of it."""
    made: Any = make() if holds() else proceed()
    return (yield from cast("Generator[Any, Any, Any]", made)) if is_stream(made) else made


async def alazily(
    holds: Callable[[], bool], make: Callable[[], Any], proceed: Callable[[], Any]
) -> AsyncGenerator[Any, Any]:
    made = make() if holds() else proceed()
    step = made.asend(None)
    while True:
        try:
            item = await step
        except StopAsyncIteration:
            return
        try:
            step = made.asend((yield item))
        except BaseException as error:
            step = made.athrow(error)


def within(
    opened: Callable[[], AbstractContextManager[Player]], source: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Run a stream at the one `yield` of a hook."""
    with opened() as part:
        part.come_to_its_yield()
        try:
            result = yield from source
        except BaseException as error:
            answer = part.go_on(THROW, error)
            if answer is None:
                raise
            return answer
        answer = part.go_on(SEND, result)
        return Return(result) if answer is None else answer


async def awithin(opened: Callable[[], AbstractContextManager[Player]], source: Any) -> AsyncGenerator[Any, Any]:
    with opened() as part:
        part.come_to_its_yield()
        try:
            step = source.asend(None)
            while True:
                try:
                    item = await step
                except StopAsyncIteration:
                    break
                try:
                    step = source.asend((yield item))
                except GeneratorExit:
                    await source.aclose()
                    raise
                except BaseException as error:
                    step = source.athrow(error)
        except BaseException as error:
            answer = part.go_on(THROW, error)
            if type(answer) is Args:
                raise HookAnswerError("it has answered Args") from None
            if answer is None:
                raise
        else:
            if type(part.go_on(SEND, None)) is Args:
                raise HookAnswerError("it has answered Args")
