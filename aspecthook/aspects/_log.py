"""Logs of calls."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from time import perf_counter
from typing import Any

from aspecthook._core.law.call import Call, Site
from aspecthook._values import Redact, Redaction, shown_time

from ._aspect import AnyHook, Aspect
from ._logging import AnyLogger, is_enabled, level_number, logger_for, traceback_of, write
from ._turns import End, Turn, observed

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def log(
    logger: AnyLogger = None,
    *,
    level: str | int = "INFO",
    error_level: str | int = "ERROR",
    begin: bool = False,
    arguments: bool = True,
    result: bool = True,
    redact: Redact = None,
) -> Aspect:
    """Log each call when it ends: its arguments, its result or its exception, and how long it took.

    An entry has the file and the line of the caller, as if it were logged there. Values are shortened. To a logger of
    [structlog](https://www.structlog.org) an entry is an event with fields: ``function``, ``arguments``, ``result``,
    ``duration`` in seconds, and ``pathname``, ``lineno`` and ``func_name`` of the caller.

    Args:
        logger: A logger of `logging` or structlog; the name of one of `logging`; what makes one of a name, such as
            `structlog.get_logger` or ``"structlog:get_logger"``. None: `logging`'s, of the function's module.
        level: The level of calls that succeed.
        error_level: The level of calls that fail.
        begin: Whether the begin of a call is logged too.
        arguments: Whether arguments are shown.
        result: Whether results are shown.
        redact: Whose values are shown as ``<redacted>``: names of arguments, keys and fields, which may be globs such
            as ``*token*``, or a predicate on name and value. Their texts are masked in results and tracebacks too.

    Raises:
        HookOptionError: A setting has a value that it cannot have.

    Example:
        >>> import logging, sys
        >>> from aspecthook import weave
        >>> def login(user, password):
        ...     return True
        >>> logger = logging.Logger("shop")
        >>> logger.addHandler(logging.StreamHandler(sys.stdout))
        >>> with weave(login, aspect=log(logger, redact="password")):
        ...     welcome = login("ann", "hunter22")
        aspecthook...login(user='ann', password=<redacted>) -> True in ...
    """
    success = level_number("log", "level", level)
    failure = level_number("log", "error_level", error_level)
    redaction = Redaction(redact)

    def make(site: Site) -> AnyHook:
        to = logger_for("log", logger, site)

        def log_it(level: int, shown: dict[str, str], outcome: str, event: str, more: Mapping[str, Any]) -> None:
            listed = [f"{name}={text}" for name, text in shown.items() if name not in ("self", "cls")]
            text = f"{site.label}({', '.join(listed) if arguments else '…'}) {outcome}"
            given = {"arguments": shown} if arguments else {}
            write(to, level, site, text, event, {"function": site.label, **given, **more})

        def start(call: Call) -> tuple[Turn, End]:
            enabled = is_enabled(to, success)
            shown: dict[str, str] = {}
            # Now, as the call may change them; and what is redacted here is masked in what others log.
            if redaction.active or (enabled and arguments):
                shown = _shown(call, site, redaction)
            if enabled and begin:
                log_it(success, shown, "begins", "call begins", {})
            begun = perf_counter()

            def end(value: Any, exc: BaseException | None) -> None:
                fields: dict[str, Any] = {"duration": perf_counter() - begun}
                took = shown_time(fields["duration"])
                if exc is not None and is_enabled(to, failure):
                    error = redaction.shortener.text(exc)
                    fields |= {"error": error, "exception": redaction.masked(traceback_of(exc))}
                    given = shown or (_shown(call, site, redaction) if arguments else shown)
                    log_it(failure, given, f"raised {error} in {took}", "call failed", fields)
                elif exc is None and is_enabled(to, success):
                    text = redaction.shortener.text(redaction.redacted("result", value)) if result else ""
                    fields |= {"result": text} if result else {}
                    log_it(success, shown, f"-> {text} in {took}" if result else f"in {took}", "call", fields)

            return nullcontext, end

        return observed(site, start)

    return Aspect("log", make, logger=logger, level=level, error_level=error_level, redact=redact)


def _shown(call: Call, site: Site, redaction: Redaction) -> dict[str, str]:
    """Return the arguments as texts."""
    given = redaction.arguments(call.arguments, site.signature.extra)
    return {name: redaction.shortener.text(value) for name, value in given.items()}
