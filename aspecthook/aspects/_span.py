"""Spans, by the API of OpenTelemetry."""

from __future__ import annotations

from functools import partial
from threading import current_thread
from typing import Any

from aspecthook._core.law.call import Call, Site
from aspecthook._errors import HookOptionError, brief, nearest
from aspecthook._values import Redact, Redaction
from aspecthook.weave._steps import End

from ._aspect import AnyHook, Aspect, needed
from ._turns import TurnContext, observed

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def span(
    name: str | None = None,
    *,
    arguments: bool = False,
    redact: Redact = None,
    kind: str = "internal",
    tracer: Any = None,
) -> Aspect:
    """Create a span for each call, with the API of [OpenTelemetry](https://opentelemetry.io); any SDK collects it.

    The span is the current one while the function runs; for a generator, only while it produces an item. Its attributes
    name the function's place and the thread, by the semantic conventions; if the call fails, so does its status.

    Args:
        name: The name of the span; None: the name of the mount point, such as ``"shop:price"``.
        arguments: Whether arguments and the result are attributes, as ``aspecthook.arguments.item``. Values are
            shortened.
        redact: The values to show as ``<redacted>``, as for `log`.
        kind: ``"internal"``, ``"server"``, ``"client"``, ``"producer"`` or ``"consumer"``.
        tracer: A tracer; None: the tracer of the global provider.

    Raises:
        HookOptionError: A setting has an invalid value.

    Example:
        >>> from aspecthook import weave
        >>> from opentelemetry import trace
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> def price(item):
        ...     return dict(trace.get_current_span().attributes)["aspecthook.arguments.item"]
        >>> tracer = TracerProvider().get_tracer("shop")
        >>> with weave(price, aspect=span(arguments=True, redact="*token*", tracer=tracer)):
        ...     price("tea")
        "'tea'"
    """
    trace = needed("opentelemetry.trace", "span")
    kinds = {one.name.lower(): one for one in trace.SpanKind}
    if kind not in kinds:
        raise HookOptionError(
            f"span: kind={brief(kind)}; give one of {', '.join(kinds)}{nearest(str(kind), list(kinds))}"
        )
    redaction = Redaction(redact)

    def make(site: Site) -> AnyHook:
        known: dict[str, Any] = {"code.function.name": site.label.replace(":", ".", 1)}
        if (place := site.definition()) is not None:
            known |= {"code.file.path": place[0], "code.line.number": place[1]}
        own = tracer or trace.get_tracer("aspecthook")

        def begin(call: Call) -> tuple[TurnContext, End]:
            about = known | {"thread.name": current_thread().name}
            made = own.start_span(name or site.label, kind=kinds[kind], attributes=about)
            if arguments and made.is_recording():
                shown = redaction.shown(call.arguments, site.signature.extra)
                made.set_attributes({f"aspecthook.arguments.{key}": text for key, text in shown.items()})
            elif redaction.active:  # what is redacted here is masked in the messages of exceptions
                redaction.arguments(call.arguments, site.signature.extra)

            def end(result: Any, exc: BaseException | None) -> None:
                if exc is not None:
                    kind, message = redaction.shown_error(exc)
                    made.add_event("exception", {"exception.type": kind, "exception.message": message})
                    made.set_attribute("error.type", kind)
                    made.set_status(trace.StatusCode.ERROR, f"{kind}: {message}")
                elif arguments and made.is_recording():
                    made.set_attribute("aspecthook.result", redaction.shown_result(result))
                made.end()

            # It is the current one in each turn; what comes of the call is noted at the end.
            return partial(trace.use_span, made, False, False, False), end

        return observed(site, begin)

    return Aspect("span", make, name=name, arguments=arguments, redact=redact, kind=kind)
