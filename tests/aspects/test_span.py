"""Spans, collected by the SDK of OpenTelemetry."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack

import pytest
from hypothesis import given
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aspecthook import weave
from aspecthook.aspects import span
from tests.aspects.conftest import Targets
from tests.record import programs


class Spans:
    """A tracer, and the spans that have ended."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = provider.get_tracer("tests")

    @property
    def ended(self) -> tuple[ReadableSpan, ...]:
        return self._kept.get_finished_spans()


@pytest.fixture
def spans() -> Spans:
    return Spans()


def test_a_call_is_a_span_with_the_place_of_the_function(style: str, spans: Spans) -> None:
    targets = Targets()
    target, call = targets.all[style]
    code = target.__code__
    with weave(target, aspect=span(kind="client", tracer=spans.tracer)):
        call(1)
    [one] = spans.ended
    assert one.name.endswith(target.__name__) and one.kind is trace.SpanKind.CLIENT and one.attributes is not None
    assert one.attributes["code.function.name"] == one.name.replace(":", ".")
    assert one.attributes["code.file.path"] == code.co_filename
    assert one.attributes["code.line.number"] == code.co_firstlineno
    assert one.status.is_unset
    assert one.attributes["thread.name"] == "MainThread" and "aspecthook.result" not in one.attributes


def test_a_failed_call_has_the_exception_as_an_event(style: str, spans: Spans) -> None:
    target, call = Targets(lambda n: 1 // n).all[style]
    with weave(target, aspect=span("division", tracer=spans.tracer)), pytest.raises(ZeroDivisionError):
        call(0)
    [one] = spans.ended
    assert one.name == "division" and one.status.status_code is trace.StatusCode.ERROR
    [event] = one.events
    assert event.name == "exception" and event.attributes is not None
    assert event.attributes["exception.type"] == "ZeroDivisionError"
    assert one.attributes and one.attributes["error.type"] == "ZeroDivisionError"


def test_the_span_of_a_generator_is_current_only_while_it_makes_an_item(spans: Spans) -> None:
    def current() -> bool:
        return trace.get_current_span() is not trace.INVALID_SPAN

    inside: list[bool] = []
    outside: list[bool] = []

    def rows() -> Generator[int]:
        for n in range(2):
            inside.append(current())
            yield n

    async def pages() -> AsyncGenerator[int]:
        for n in range(2):
            await asyncio.sleep(0)
            inside.append(current())
            yield n

    async def take() -> None:
        outside.extend([current() async for _ in pages()])
        outside.append(current())

    with weave(rows, aspect=span(tracer=spans.tracer)), weave(pages, aspect=span(tracer=spans.tracer)):
        outside.extend(current() for _ in rows())
        outside.append(current())
        asyncio.run(take())
        part = rows()
        next(part)
        part.close()
    assert inside == [True] * 5 and outside == [False] * 6 and len(spans.ended) == 3


@pytest.mark.parametrize("arguments", [True, False])
def test_arguments_are_attributes_and_secrets_are_nowhere(spans: Spans, arguments: bool) -> None:
    def login(user: str, token: str, n: int, items: list[int]) -> None:
        raise PermissionError(f"{token} is wrong")

    aspect = span(arguments=arguments, redact="token", tracer=spans.tracer)
    with weave(login, aspect=aspect), pytest.raises(PermissionError):
        login("ann", "hunter22", 3, [1, 2])
    [one] = spans.ended
    assert one.attributes is not None
    shown = {name: value for name, value in one.attributes.items() if "arguments" in name}
    texts = {"user": "'ann'", "token": "<redacted>", "n": "3", "items": "[1, 2]"}
    assert shown == {f"aspecthook.arguments.{name}": text for name, text in texts.items() if arguments}
    assert "hunter22" not in one.to_json() and "<redacted> is wrong" in one.to_json()


@given(program=programs.programs())
def test_the_tree_of_spans_is_that_of_the_calls(program: programs.Node) -> None:
    if programs.INHERITS and programs.in_threads(program):
        return
    spans = Spans()
    with ExitStack() as stack:
        for target in programs.TARGETS:
            stack.enter_context(weave(target, aspect=span(arguments=True, tracer=spans.tracer)))
        programs.start(program)
        assert trace.get_current_span() is trace.INVALID_SPAN
    below: defaultdict[int | None, list[ReadableSpan]] = defaultdict(list)
    for one in spans.ended:
        below[one.parent and one.parent.span_id].append(one)

    def tree(one: ReadableSpan) -> programs.Expected:
        assert one.attributes is not None and one.context is not None
        match = re.search(r"number=(\d+)", str(one.attributes["aspecthook.arguments.node"]))
        inner = tuple(map(tree, below[one.context.span_id]))
        fails = one.status.status_code is trace.StatusCode.ERROR
        return programs.Expected(int(match[1]) if match else -1, one.name.partition(":")[2], fails, inner)

    assert programs.ordered([*map(tree, below[None])]) == programs.ordered(programs.expected(program))
