"""Spans and metrics, by the API of OpenTelemetry."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, final

from aspecthook._core.law.call import Call, Site
from aspecthook._errors import HookOptionError, brief, nearest
from aspecthook._values import Redact, Redaction

from ._aspect import AnyHook, Aspect, needed
from ._logging import traceback_of
from ._turns import Stopwatch, observed

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Attributes: TypeAlias = Mapping[str, "str | bool | int | float"]

# The bounds that the semantic conventions of OpenTelemetry recommend for durations in seconds.
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


def span(
    name: str | None = None,
    *,
    arguments: bool = False,
    redact: Redact = None,
    attributes: Attributes | None = None,
    kind: str = "internal",
    tracer: Any = None,
) -> Aspect:
    """Make a span of each call; by the API of [OpenTelemetry](https://opentelemetry.io), so that any SDK collects them.

    The span is the current one while the function runs; for a generator, only while it makes an item. An exception is
    recorded on it. It has the attributes ``code.function.name`` and, for a function in Python, ``code.file.path`` and
    ``code.line.number``.

    Args:
        name: Its name; None: that of the mount point, such as ``"shop:price"``.
        arguments: Whether arguments are attributes, as ``argument.item``. Values are shortened.
        redact: Whose values are shown as ``<redacted>``; as for `log`.
        attributes: More attributes, the same for all calls.
        kind: ``"internal"``, ``"server"``, ``"client"``, ``"producer"`` or ``"consumer"``.
        tracer: A tracer; None: that of the global provider.

    Raises:
        HookOptionError: A setting has a value that it cannot have.

    Example:
        >>> from aspecthook import weave
        >>> from opentelemetry import trace
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> def price(item):
        ...     return dict(trace.get_current_span().attributes)["argument.item"]
        >>> tracer = TracerProvider().get_tracer("shop")
        >>> with weave(price, aspect=span(arguments=True, redact="*token*", tracer=tracer)):
        ...     price("tea")
        'tea'
    """
    trace = needed("opentelemetry.trace", "span")
    context = needed("opentelemetry.context", "span")
    kinds = {one.name.lower(): one for one in trace.SpanKind}
    if kind not in kinds:
        raise HookOptionError(
            f"span: kind={brief(kind)}; give one of {', '.join(kinds)}{nearest(str(kind), list(kinds))}"
        )
    redaction = Redaction(redact)

    def value_of(value: Any) -> Any:
        if type(value) in (bool, int, float):
            return value
        return redaction.masked(value[:1000]) if type(value) is str else redaction.shortener.text(value)

    def make(site: Site) -> AnyHook:
        start = (tracer or trace.get_tracer("aspecthook")).start_span
        common = {**_location(site), **(attributes or {})}

        def begin(call: Call) -> _Span:
            shown: dict[str, Any] = {}
            if arguments or redaction.active:  # what is redacted here is masked in what others show
                given = redaction.arguments(call.arguments, site.signature.extra)
                shown = {f"argument.{one}": value_of(value) for one, value in given.items()} if arguments else {}
            made = start(name or site.label, kind=kinds[kind], attributes=common | shown)
            return _Span(made, trace, context, redaction)

        return observed(site, begin)

    return Aspect("span", make, name=name, arguments=arguments, redact=redact, kind=kind)


@final
class _Span:
    """The span of one call, which is the current one in each of its turns."""

    # Any: a span, and the modules of OpenTelemetry's API, which need not be installed.
    def __init__(self, span: Any, trace: Any, context: Any, redaction: Redaction) -> None:
        self._span, self._trace, self._context, self._redaction = span, trace, context, redaction

    def __enter__(self) -> None:
        self._token = self._context.attach(self._trace.set_span_in_context(self._span))

    def __exit__(self, *_: object) -> None:
        self._context.detach(self._token)

    def end(self, _: Any, exc: BaseException | None) -> None:
        """End the span, with an event for the exception if there is one."""
        if isinstance(exc, Exception):
            message = self._redaction.shortener.message(exc)
            event = {
                "exception.type": f"{type(exc).__module__}.{type(exc).__qualname__}",
                "exception.message": message,
                "exception.stacktrace": self._redaction.masked(traceback_of(exc)),
            }
            self._span.add_event("exception", event)
            failed = self._trace.Status(self._trace.StatusCode.ERROR, f"{type(exc).__name__}: {message}")
            self._span.set_status(failed)
        self._span.end()


def metrics(
    name: str = "function",
    *,
    attributes: Attributes | None = None,
    meter: Any = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Aspect:
    """Measure calls; by the API of [OpenTelemetry](https://opentelemetry.io), so that any SDK collects them.

    The instruments are a histogram, ``function.duration`` in seconds, whose count is the number of calls, and
    ``function.active``, how many run. Their attributes are ``code.function.name`` and, of calls that failed,
    ``error.type``.

    Args:
        name: The first part of the names of the instruments.
        attributes: More attributes, the same for all calls.
        meter: A meter; None: that of the global provider.
        clock: What tells the time, in seconds.

    Example:
        >>> from aspecthook import weave
        >>> def price(item):
        ...     return 3.5
        >>> with weave(price, aspect=metrics("shop", attributes={"region": "eu"})):
        ...     price("tea")
        3.5
    """
    library = needed("opentelemetry.metrics", "metrics")
    own = meter or library.get_meter("aspecthook")
    duration = own.create_histogram(
        f"{name}.duration", "s", "How long calls take.", explicit_bucket_boundaries_advisory=_BOUNDS
    )
    active = own.create_up_down_counter(f"{name}.active", "{call}", "How many calls run.")

    def make(site: Site) -> AnyHook:
        common = {"code.function.name": _location(site)["code.function.name"], **(attributes or {})}

        def begin(_: Call) -> Stopwatch:
            active.add(1, common)
            return Stopwatch(clock, end)

        def end(seconds: float, exc: BaseException | None) -> None:
            active.add(-1, common)
            error = {} if exc is None else {"error.type": type(exc).__qualname__}
            duration.record(seconds, common | error)

        return observed(site, begin)

    return Aspect("metrics", make, name=name)


def _location(site: Site) -> dict[str, Any]:
    """Return where a function is, as the semantic conventions of OpenTelemetry have it."""
    name = {"code.function.name": site.label.replace(":", ".")}
    place = site.definition()
    return name if place is None else {**name, "code.file.path": place[0], "code.line.number": place[1]}
