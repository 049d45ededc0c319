"""Spans of recorded calls, with OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import os
import re
from collections import defaultdict

import pytest
from hypothesis import given

from aspecthook.record import record

from . import programs
from .programs import Expected, expected, ordered, start
from .test_tree import INHERITS, TARGETS, in_threads

pytest.importorskip("opentelemetry.sdk.trace")
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from aspecthook.record.otel import Spans


class Kept:
    """A provider of tracers whose spans are kept; `library` is the tracer of a library that makes its own."""

    def __init__(self, **options) -> None:
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.library = self.provider.get_tracer("library")

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def __getitem__(self, name):
        (span,) = [span for span in self.spans if span.name.endswith(name)]
        return span

    def above(self, name: str) -> list[str]:
        """Return the names of a span and of the spans around it, innermost first."""
        spans = {span.context.span_id: span for span in self.spans}
        span, found = self[name], []
        while span is not None:
            found.append(span.name.rpartition(".")[2])
            span = None if span.parent is None else spans[span.parent.span_id]
        return found


@pytest.fixture
def kept(caplog):
    """The spans; nothing is left of them in the context, and the SDK has complained about nothing."""
    yield Kept()
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert [entry.message for entry in caplog.records if entry.name.startswith("opentelemetry")] == []


def price(item: str, token: str = "") -> float:
    if item == "milk":
        raise KeyError(item)
    return 3.5


def checkout(items: list[str]) -> float:
    return sum(price(item) for item in items)


@given(program=programs.programs())
def test_the_tree_of_spans_is_that_of_the_calls(program):
    if INHERITS and in_threads(program):
        return
    kept = Kept()
    with record(*TARGETS, to=Spans(kept.provider)):
        start(program)
        assert trace.get_current_span() is trace.INVALID_SPAN
    below = defaultdict(list)
    for span in kept.spans:
        below[span.parent and span.parent.span_id].append(span)

    def tree(span) -> Expected:
        number = int(re.search(r"number=(\d+)", span.attributes["aspecthook.arguments.node"])[1])
        inner = tuple(tree(one) for one in below[span.context.span_id])
        return Expected(number, span.name.partition(":")[2], span.status.status_code is StatusCode.ERROR, inner)

    assert ordered([tree(span) for span in below[None]]) == ordered(expected(program))


def test_a_span_says_where_the_function_is_and_what_came_of_it(kept):
    with record(checkout, price, to=Spans(kept.provider)):
        checkout(["tea"])
    span = kept[":price"]
    assert span.name == f"{__name__}:price"
    assert dict(span.attributes) == {
        "code.function.name": f"{__name__}.price",
        "code.file.path": __file__,
        "code.line.number": price.__code__.co_firstlineno,
        "thread.name": "MainThread",
        "aspecthook.arguments.item": "'tea'",
        "aspecthook.arguments.token": "''",
        "aspecthook.result": "3.5",
    }
    assert span.status.status_code is StatusCode.UNSET
    outer = kept[":checkout"]
    assert outer.start_time <= span.start_time <= span.end_time <= outer.end_time


def test_an_error_is_the_status_of_its_span(kept):
    with record(checkout, price, to=Spans(kept.provider)), pytest.raises(KeyError):
        checkout(["milk"])
    for name in (":price", ":checkout"):
        span = kept[name]
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "KeyError: 'milk'"
        assert span.attributes["error.type"] == "KeyError"
        (event,) = span.events
        assert dict(event.attributes) == {"exception.type": "KeyError", "exception.message": "'milk'"}


def test_what_is_redacted_is_in_no_span(kept):
    def login(token: str) -> str:
        if token.endswith("!"):
            raise ValueError(f"no user has {token}")
        return token

    with record(login, redact="token", to=Spans(kept.provider)):
        login("hunter2hunter2")
        with pytest.raises(ValueError, match="no user has"):
            login("hunter2hunter2!")
    text = "\n".join(span.to_json() for span in kept.spans)
    assert len(kept.spans) == 2
    assert "hunter2" not in text
    assert "<redacted>" in text


def test_spans_of_a_library_are_children_of_the_call_that_makes_them(kept):
    def query(name: str) -> None:
        with kept.library.start_as_current_span(f"query.{name}"):
            load(name)

    def load(name: str) -> None:
        with kept.library.start_as_current_span(f"load.{name}"):
            pass

    def function() -> None:
        query("of function")

    def generator():
        query("first turn")
        yield 1
        query("second turn")

    async def coroutine() -> None:
        await asyncio.sleep(0)
        query("of coroutine")

    async def stream():
        await asyncio.sleep(0)
        query("of stream")
        yield 1

    async def main() -> None:
        await asyncio.gather(coroutine(), asyncio.to_thread(query, "in a thread of the pool"))
        async for _ in stream():
            query("between the turns of stream")

    with record(function, generator, coroutine, stream, main, load, to=Spans(kept.provider)):
        function()
        for _ in generator():
            query("between the turns")
        asyncio.run(main())

    def around(name: str) -> list[str]:
        found = kept.above(f"load.{name}")
        assert found[:3] == [name, "load", name]
        return found[3:]

    assert around("of function") == ["function"]
    assert around("first turn") == ["generator"]
    assert around("second turn") == ["generator"]
    assert around("between the turns") == []
    assert around("of coroutine") == ["coroutine", "main"]
    assert around("in a thread of the pool") == ["main"]
    assert around("of stream") == ["stream", "main"]
    assert around("between the turns of stream") == ["main"]


def test_calls_are_children_of_the_span_that_the_program_has_made(kept):
    with record(checkout, price, to=Spans(kept.provider)), kept.library.start_as_current_span("request"):
        checkout(["tea"])
    assert kept.above(":price") == ["test_otel:price", "test_otel:checkout", "request"]


def test_a_recording_that_stops_inside_a_call_leaves_no_span_in_the_context(kept):
    def outer() -> None:
        tape.stop()
        seen.append(trace.get_current_span().get_span_context().is_valid)

    seen: list[bool] = []

    tape = record(outer, to=Spans(kept.provider))
    outer()
    assert trace.get_current_span() is trace.INVALID_SPAN
    outer()
    assert len(kept.spans) == 1
    assert seen == [True, False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_ends_no_span_of_its_parent(tmp_path):
    kept = Kept()

    def parent() -> int:
        child = os.fork()
        if not child:
            price("tea")
        return child

    with record(parent, price, to=Spans(kept.provider)):
        child = parent()
        if not child:
            (tmp_path / "child").write_text(
                repr([(span.name.rpartition(":")[2], bool(span.parent)) for span in kept.spans])
            )
            os._exit(0)
        os.waitpid(child, 0)
    assert (tmp_path / "child").read_text() == "[('price', True)]"
    assert [span.name.rpartition(".")[2] for span in kept.spans] == ["parent"]
