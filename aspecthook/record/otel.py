"""OpenTelemetry: spans of recorded calls. Needs `opentelemetry-api`, and the program an SDK.

The invariant: while a call runs, and only then, its span is the current one of its context. So spans that a library
makes meanwhile are its children, and those that the caller of a generator makes between two turns are not.
"""

from __future__ import annotations

from contextvars import Token
from typing import final

from aspecthook._lazy import NamesTheLibrary

from ._calls import RecordedCall

with NamesTheLibrary(__name__):
    from opentelemetry import context, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

__all__ = ["Spans"]

_NAME = "aspecthook"


@final
class Spans:
    """A sink that makes a span of each recorded call.

    A span has the name of the function and its place in the source, the thread, the arguments, and the result or the
    error; what is redacted is in none of them. Its parent is the current span.

    Args:
        tracer_provider: Where spans go; the global provider if not given.

    Example:
        >>> import shlex
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        >>> from aspecthook.record import record
        >>> exporter, provider = InMemorySpanExporter(), TracerProvider()
        >>> provider.add_span_processor(SimpleSpanProcessor(exporter))
        >>> with record("shlex:quote", to=Spans(provider)):
        ...     word = shlex.quote("my file")
        >>> (span,) = exporter.get_finished_spans()
        >>> span.name, span.attributes["aspecthook.arguments.s"]
        ('shlex:quote', "'my file'")
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._spans: dict[RecordedCall, Span] = {}
        self._tokens: dict[RecordedCall, Token[Context]] = {}

    def begin(self, call: RecordedCall) -> None:
        """Start the span of a call."""
        parent = None
        if call.parent is not None and not trace.get_current_span().get_span_context().is_valid:
            # A thread that was started without the context of its starter.
            outer = self._spans.get(call.parent)
            parent = None if outer is None else trace.set_span_in_context(outer)
        self._spans[call] = begin_span(self._tracer, call, parent)

    def enter(self, call: RecordedCall) -> None:
        """Make the span of a call the current one."""
        span = self._spans.get(call)
        if span is not None:
            self._tokens[call] = context.attach(trace.set_span_in_context(span))

    def leave(self, call: RecordedCall) -> None:
        """Make the span current again that was so before."""
        token = self._tokens.pop(call, None)
        if token is not None:
            context.detach(token)

    def write(self, call: RecordedCall) -> None:
        """End the span of a call."""
        span = self._spans.pop(call, None)
        if span is None:  # in the child of a fork: it is the parent's
            return
        end_span(span, call)

    def forked(self) -> None:
        """Leave the spans that the parent of a fork has begun to the parent."""
        self._spans.clear()

    def close(self) -> None:
        """Make no more spans."""


def begin_span(
    tracer: Tracer,
    call: RecordedCall,
    parent: Context | None = None,
    *,
    name: str | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Span:
    """Return the span of a call with its place, by the names of the semantic conventions, and its arguments.

    Args:
        tracer: What makes the span.
        call: The call.
        parent: The context of the span around it; None: the current one.
        name: Its name; None: that of the function.
        kind: What part of a distributed call it is.
    """
    function = call.function
    found = {
        "code.function.name": call.label.replace(":", ".", 1),
        "code.file.path": function.file,
        "code.line.number": function.line,
        "thread.name": call.thread,
    }
    attributes = {name: value for name, value in found.items() if value is not None}
    span = tracer.start_span(name or call.label, parent, kind, attributes)
    if span.is_recording():
        span.set_attributes({f"aspecthook.arguments.{name}": text for name, text in call.shown_arguments().items()})
    return span


def end_span(span: Span, call: RecordedCall) -> None:
    """End the span of a call, with its result or its error."""
    error = call.shown_error()
    if error is not None:
        kind, message = error
        span.add_event("exception", {"exception.type": kind, "exception.message": message})
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR, f"{kind}: {message}"))
    elif call.ended and call.has_values and span.is_recording():
        span.set_attribute("aspecthook.result", call.shown_result())
    span.end()
