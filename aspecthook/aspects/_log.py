"""Logs of calls."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, final

from aspecthook._core.law.call import Call, Site
from aspecthook._values import Redact, Redaction, shown_time

from ._aspect import AnyHook, Aspect
from ._logging import AnyLogger, is_enabled, level_number, logger_for, traceback_of, write
from ._turns import observed

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
        settings = _Settings(site, to, success, failure, begin, arguments, result, redaction)
        return observed(site, partial(_Entry, settings))

    return Aspect("log", make, logger=logger, level=level, error_level=error_level, redact=redact)


class _Settings(NamedTuple):
    """What the entries of one mount point have in common."""

    site: Site
    to: AnyLogger
    success: int
    failure: int
    begin: bool
    arguments: bool
    result: bool
    redaction: Redaction


@final
class _Entry:
    """The entry of one call."""

    def __init__(self, settings: _Settings, call: Call) -> None:
        self._settings = settings
        self._call = call
        self._arguments: dict[str, str] | None = None
        enabled = is_enabled(settings.to, settings.success)
        # Now, as the call may change them; and what is redacted here is masked in what others log.
        if settings.redaction.active or (enabled and settings.arguments):
            self._look()
        if enabled and settings.begin:
            self._write(settings.success, "begins", "call begins", {})
        self._start = perf_counter()

    def __enter__(self) -> None:
        """Nothing is set up for a turn."""

    def __exit__(self, *_: object) -> None:
        """Nor is anything left."""

    def end(self, result: Any, exc: BaseException | None) -> None:
        """Write the entry."""
        settings, seconds = self._settings, perf_counter() - self._start
        level = settings.success if exc is None else settings.failure
        if not is_enabled(settings.to, level):
            return
        fields: dict[str, Any] = {"duration": seconds}
        if exc is not None:
            fields["error"] = settings.redaction.shortener.text(exc)
            error = settings.redaction.masked(traceback_of(exc))
            self._write(level, f"raised {fields['error']} in {shown_time(seconds)}", "call failed", fields, error)
        elif settings.result:
            redaction = settings.redaction
            fields["result"] = redaction.shortener.text(redaction.redacted("result", result))
            self._write(level, f"-> {fields['result']} in {shown_time(seconds)}", "call", fields)
        else:
            self._write(level, f"in {shown_time(seconds)}", "call", fields)

    def _look(self) -> dict[str, str]:
        """Return the arguments as texts."""
        if self._arguments is None:
            redaction = self._settings.redaction
            given = redaction.arguments(self._call.arguments, self._settings.site.signature.extra)
            self._arguments = {name: redaction.shortener.text(value) for name, value in given.items()}
        return self._arguments

    def _write(self, level: int, outcome: str, event: str, fields: dict[str, Any], error: str | None = None) -> None:
        settings = self._settings
        arguments = self._look() if settings.arguments else {}
        label = settings.site.label
        shown = [f"{name}={text}" for name, text in arguments.items() if name not in ("self", "cls")]
        text = f"{label}({', '.join(shown) if settings.arguments else '…'}) {outcome}"
        common = {"function": label} | ({"arguments": arguments} if settings.arguments else {})
        write(settings.to, level, settings.site, text, event, common | fields, error)
