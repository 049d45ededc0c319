"""Sending a recording to a collector of OpenTelemetry, as spans. The program itself needs no OpenTelemetry for it."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, set_span_in_context

from aspecthook.record import RecordedCall, Tape
from aspecthook.record.otel import begin_span, end_span

_AT_ONCE = 512  # spans in one request


def send(tape: Tape, url: str, service: str) -> bool:
    """Send the calls of a tape to a collector. Return whether it has taken them all.

    Args:
        tape: What was recorded.
        url: Where the collector listens, as in ``OTEL_EXPORTER_OTLP_ENDPOINT``: ``http://localhost:4318``.
        service: The name of the service that the spans are of.
    """
    made = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(SimpleSpanProcessor(made))
    tracer = provider.get_tracer("aspecthook")
    spans: dict[RecordedCall, Span] = {}
    for call in tape:  # parents begin before their children
        outer = spans.get(call.parent) if call.parent is not None else None
        begin = int((tape.started + call.begin) * 1e9)
        span = spans[call] = begin_span(tracer, call, set_span_in_context(outer) if outer else None, begin)
        span.set_attribute("process.pid", call.process)
        end_span(span, call, begin + int((call.duration or 0.0) * 1e9))
    finished = made.get_finished_spans()
    exporter = OTLPSpanExporter(f"{url.rstrip('/')}/v1/traces")
    parts = [finished[place : place + _AT_ONCE] for place in range(0, len(finished), _AT_ONCE)]
    taken = all(exporter.export(part) is SpanExportResult.SUCCESS for part in parts)
    exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no annotations
    return taken
