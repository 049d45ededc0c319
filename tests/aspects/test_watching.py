"""Watchers (tapes, and the aspects that log, measure and trace) do not watch what they do themselves to show a call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aspecthook import Weaving, weave
from aspecthook.aspects import log, span, timed
from aspecthook.record import RecordedCall, Tape, record


class EndlessError(BaseException):
    """What a watcher is stopped by that watches itself."""


class Page:
    """A class whose `repr` calls two of its properties, as those of `email` do."""

    @property
    def title(self) -> str:
        return "tea"

    @property
    def author(self) -> str:
        return "ann"

    def print(self, copies: int) -> Page:
        if not copies:
            raise ValueError(self)
        return self

    def copies(self) -> Any:
        yield self
        yield self

    async def send(self) -> None:
        """Return nothing: `asyncio` makes a text of what is returned."""

    def __repr__(self) -> str:
        Shown.number += 1
        if Shown.number > 100:
            raise EndlessError
        return f"<{self.title} by {self.author}>"

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class Shown:
    """How many texts have been made."""

    number = 0


class Kept:
    """A handler of a logger, and a sink; both make a text of what they keep."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, call: RecordedCall) -> None:
        self.texts.append(str(call))

    def close(self) -> None: ...


def use(page: Page) -> None:
    page.print(1)
    try:
        page.print(0)
    except ValueError:
        pass
    list(page.copies())
    asyncio.run(page.send())


USED = 4  # the calls that `use` makes


# Each watches all of `Page`, and returns how to count the calls it has seen.


def _logs() -> tuple[Weaving, Callable[[], int]]:
    logger, texts = logging.Logger("pages"), list[str]()
    handler = logging.StreamHandler()
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    return weave(Page, aspect=log(logger)), lambda: len(texts)


def _makes_spans() -> tuple[Weaving, Callable[[], int]]:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    aspect = span(arguments=True, tracer=provider.get_tracer("tests"))
    return weave(Page, aspect=aspect), lambda: len(kept.get_finished_spans())


def _times() -> tuple[Weaving, Callable[[], int]]:
    timings = timed()
    return weave(Page, aspect=timings), lambda: sum(row.calls for row in timings.table())


def _keeps() -> tuple[Tape, Callable[[], int]]:
    tape = record(Page)
    return tape, lambda: (str(tape), tape.functions(), len(tape))[2]


def _streams() -> tuple[Tape, Callable[[], int]]:
    kept = Kept()
    return record(Page, to=kept), lambda: len(kept.texts)


WATCHERS: list[Callable[[], tuple[Any, Callable[[], int]]]] = [
    _logs,
    _makes_spans,
    _times,
    _keeps,
    _streams,
]


@pytest.mark.parametrize("second", WATCHERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("first", WATCHERS, ids=lambda one: one.__name__)
def test_what_a_watcher_does_to_show_a_call_is_seen_by_no_watcher(first: Any, second: Any) -> None:
    """The entry of a call was made of a `repr` whose calls had entries, made of a `repr` whose calls had entries."""
    Shown.number = 0
    with ExitStack() as stack:
        counts: list[Callable[[], int]] = []
        for watch in (first, second):
            watcher, count = watch()
            stack.enter_context(watcher)
            counts.append(count)
        use(Page())
        assert repr(Page()) == "<tea by ann>"  # the program's own, of which both properties are seen
        assert [count() for count in counts] == [USED + 2, USED + 2]


class Ends(type):
    """A class of classes whose `repr` raises what it is told to."""

    error: BaseException

    def __repr__(cls) -> str:
        raise cls.error


def shown_by_all(error: BaseException) -> list[int]:
    """Call a function with a class that raises an error when it is shown, under each watcher that shows values."""

    def work(kind: type) -> type:
        ran.append(kind)
        return kind

    kind, ran = Ends("Kind", (), {"error": error}), list[type]()
    logger = logging.Logger("kinds")
    logger.addHandler(logging.NullHandler())
    kept, counts = Kept(), list[int]()
    for watcher in (lambda: weave(work, aspect=log(logger)), lambda: record(work, to=kept), lambda: record(work)):
        with watcher() as watched:
            assert work(kind) is kind
            str(watched) if isinstance(watched, Tape) else None
        counts.append(len(ran))
    assert f"repr raised {type(error).__name__}" in kept.texts[0]
    return counts


@pytest.mark.parametrize("error", [EndlessError(), GeneratorExit(), asyncio.CancelledError(), pytest.fail.Exception()])
def test_what_a_repr_raises_does_not_end_the_program_that_is_watched(error: BaseException) -> None:
    """A `repr` of a metaclass that raised a BaseException ended a traced program."""
    assert shown_by_all(error) == [1, 2, 3]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_ctrl_c_and_sigterm_end_a_program_also_while_a_text_is_made(error: BaseException) -> None:
    """Their handlers run wherever the program is; a text that kept what they raise would make it run on for ever."""
    with pytest.raises(type(error)) as caught:
        shown_by_all(error)
    assert caught.value is error
