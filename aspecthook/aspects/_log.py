"""Logs of calls, whose entries name the caller's own file and line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from time import perf_counter
from traceback import format_exception
from typing import Any, TypeAlias

from aspecthook._core.law.call import Call, Site
from aspecthook._errors import HookOptionError, HookTypeError, brief, is_inner_frame, nearest
from aspecthook._values import Redact, Redaction, shown_time
from aspecthook.weave._steps import End

from ._aspect import AnyHook, Aspect, caller, named
from ._turns import TurnContext, observed

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Any: a logger of logging, of structlog or of another library with the same methods; or what makes one of a name.
AnyLogger: TypeAlias = Any


def log(
    logger: AnyLogger = None,
    *,
    level: str | int = "INFO",
    error_level: str | int = "ERROR",
    arguments: bool = True,
    result: bool = True,
    redact: Redact = None,
) -> Aspect:
    """Log each call when it ends: its arguments, its result or exception, and the time that it took.

    An entry has the file and the line of the caller. Values are shortened. With a logger of
    [structlog](https://www.structlog.org) an entry is an event with the fields ``function``, ``arguments``, ``result``,
    ``duration`` in seconds, and ``pathname``, ``lineno`` and ``func_name`` of the caller.

    Args:
        logger: A logger of `logging` or structlog; the name of a logger of `logging`; or a function that makes a logger
            from a name, such as `structlog.get_logger`. None: the `logging` logger of the function's module.
        level: The level of calls that succeed.
        error_level: The level of calls that fail.
        arguments: Whether arguments are shown.
        result: Whether results are shown.
        redact: The values to show as ``<redacted>``: names of arguments, keys and fields, which may be globs such as
            ``*token*``, or a predicate on name and value. Their texts are masked in results and tracebacks too.

    Raises:
        HookOptionError: A setting has an invalid value.

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
    success = _level("level", level)
    failure = _level("error_level", error_level)
    redaction = Redaction(redact)

    def make(site: Site) -> AnyHook:
        to = _logger_for(logger, site)

        def log_it(level: int, shown: dict[str, str], outcome: str, event: str, more: Mapping[str, Any]) -> None:
            listed = [f"{name}={text}" for name, text in shown.items() if name not in ("self", "cls")]
            text = f"{site.label}({', '.join(listed) if arguments else '…'}) {outcome}"
            given = {"arguments": shown} if arguments else {}
            _write(to, level, site, text, event, {"function": site.label, **given, **more})

        def start(call: Call) -> tuple[TurnContext, End]:
            enabled = _is_enabled(to, success)
            shown: dict[str, str] = {}
            # Now, as the call may change them; and what is redacted here is masked in what others log.
            if redaction.active or (enabled and arguments):
                shown = redaction.shown(call.arguments, site.signature.extra)
            begun = perf_counter()

            def end(value: Any, exc: BaseException | None) -> None:
                fields: dict[str, Any] = {"duration": perf_counter() - begun}
                took = shown_time(fields["duration"])
                if exc is not None and _is_enabled(to, failure):
                    error = redaction.shortener.text(exc)
                    fields |= {"error": error, "exception": redaction.masked(_traceback_of(exc))}
                    if arguments and not shown:
                        shown.update(redaction.shown(call.arguments, site.signature.extra))
                    log_it(failure, shown, f"raised {error} in {took}", "call failed", fields)
                elif exc is None and _is_enabled(to, success):
                    text = redaction.shown_result(value) if result else ""
                    fields |= {"result": text} if result else {}
                    log_it(success, shown, f"-> {text} in {took}" if result else f"in {took}", "call", fields)

            return nullcontext, end

        return observed(site, start)

    settings = {"logger": logger, "level": level, "error_level": error_level, "redact": redact}
    return Aspect("log", make, **settings, arguments=arguments, result=result)


def _level(setting: str, value: str | int) -> int:
    """Return a level of logging, which may be given by its name."""
    levels = logging.getLevelNamesMapping()
    if isinstance(value, str) and value.upper() in levels:
        return levels[value.upper()]
    if not isinstance(value, int) or isinstance(value, bool):
        known = [level for level in levels if level != "NOTSET"]
        near = nearest(value.upper(), known) if isinstance(value, str) else ""
        raise HookOptionError(f"log: {setting}={brief(value)}; give a level such as 'INFO'{near}")
    return value


def _logger_for(logger: AnyLogger, site: Site) -> AnyLogger:
    """Return the logger for a mount point: one that was given, or that of the function's module."""
    module = site.label.partition(":")[0]
    if logger is None:
        return logging.getLogger(module)
    if isinstance(logger, str) and ":" not in logger:
        return logging.getLogger(logger)
    found = named("log", "logger", logger)
    if callable(found) and not hasattr(found, "info"):
        found = found(module)
    if not callable(getattr(found, "info", None)):
        raise HookTypeError(
            f"log: logger={brief(logger)}; give a logger, its name, or what makes one of a name, such as "
            "structlog.get_logger"
        )
    return found


def _traceback_of(exc: BaseException) -> str:
    """Return the traceback of an exception from where the woven function begins."""
    trace = exc.__traceback__
    while trace is not None and is_inner_frame(trace.tb_frame):
        trace = trace.tb_next
    return "".join(format_exception(type(exc), exc, trace)).rstrip()


def _is_enabled(logger: AnyLogger, level: int) -> bool:
    """Whether entries of a level are written; loggers of other libraries decide that themselves."""
    return not isinstance(logger, (logging.Logger, logging.LoggerAdapter)) or logger.isEnabledFor(level)


def _write(logger: AnyLogger, level: int, site: Site, text: str, event: str, fields: Mapping[str, Any]) -> None:
    """Write one entry that names the caller's line: to logging a text, to others an event with fields."""
    file, line, function = caller(site)
    more: Any = {}
    to: Any = logger
    while isinstance(to, logging.LoggerAdapter):
        text, more = to.process(text, more)
        to = to.logger
    if isinstance(to, logging.Logger):
        # Not by its methods: those name the first line outside of `logging`, and that is ours.
        record = to.makeRecord(to.name, level, file, line, text, (), None, function, more.get("extra"))
        record.exc_text = fields.get("exception")
        to.handle(record)
        return
    method = getattr(to, logging.getLevelName(level).lower(), to.info)
    try:
        method(event, **fields, pathname=file, lineno=line, func_name=function)
    except Exception as failure:  # as `logging` does, which lets no failure of a handler reach the program
        logging.getLogger("aspecthook").error("%s: the entry of a call was lost", site.label, exc_info=failure)
