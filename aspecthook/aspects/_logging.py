"""Log entries that name the caller's own file and line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from traceback import format_exception
from typing import Any, TypeAlias, cast

from aspecthook._core.law.call import Site
from aspecthook._errors import HookOptionError, HookTypeError, brief, is_inner_frame, nearest

from ._aspect import caller, named

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Any: a logger of logging, of structlog or of another library with the same methods; or what makes one of a name.
AnyLogger: TypeAlias = Any


def level_number(name: str, setting: str, value: str | int) -> int:
    """Return a level of logging, which may be given by its name."""
    levels = logging.getLevelNamesMapping()
    if isinstance(value, str) and value.upper() in levels:
        return levels[value.upper()]
    if not isinstance(value, int) or isinstance(value, bool):
        known = [level for level in levels if level != "NOTSET"]
        near = nearest(value.upper(), known) if isinstance(value, str) else ""
        raise HookOptionError(f"{name}: {setting}={brief(value)}; give a level such as 'INFO'{near}")
    return value


def logger_for(name: str, logger: AnyLogger, site: Site) -> AnyLogger:
    """Return the logger for a mount point: one that was given, or that of the function's module."""
    module = site.label.partition(":")[0]
    if logger is None:
        return logging.getLogger(module)
    if isinstance(logger, str) and ":" not in logger:
        return logging.getLogger(logger)
    found = named(name, "logger", logger)
    if callable(found) and not hasattr(found, "info"):
        found = found(module)
    if not callable(getattr(found, "info", None)):
        raise HookTypeError(
            f"{name}: logger={brief(logger)}; give a logger, its name, or what makes one of a name, such as "
            "structlog.get_logger"
        )
    return found


def traceback_of(exc: BaseException) -> str:
    """Return the traceback of an exception from where the woven function begins."""
    trace = exc.__traceback__
    while trace is not None and is_inner_frame(trace.tb_frame):
        trace = trace.tb_next
    return "".join(format_exception(type(exc), exc, trace)).rstrip()


def is_enabled(logger: AnyLogger, level: int) -> bool:
    """Whether entries of a level are written; loggers of other libraries decide that themselves."""
    return not isinstance(logger, (logging.Logger, logging.LoggerAdapter)) or logger.isEnabledFor(level)


def write(
    logger: AnyLogger,
    level: int,
    site: Site,
    text: str,
    event: str,
    fields: Mapping[str, Any],
) -> None:
    """Write one entry that names the caller's line: to logging a text, to others an event with fields.

    Args:
        logger: From `logger_for`.
        level: The number of the level.
        site: The mount point.
        text: The text.
        event: The event.
        fields: Its fields; ``exception`` is a traceback.
    """
    at = caller(site)
    more: Any = {}
    to: Any = logger
    if isinstance(to, logging.LoggerAdapter):
        text, more = to.process(text, more)
        to = cast("Any", to).logger
    if isinstance(to, logging.Logger):
        # Not by its methods: those name the first line outside of `logging`, and that is ours.
        record = to.makeRecord(to.name, level, at.file, at.line, text, (), None, at.function, more.get("extra"))
        record.exc_text = fields.get("exception")
        to.handle(record)
        return
    method = getattr(to, logging.getLevelName(level).lower(), to.info)
    try:
        method(event, **fields, pathname=at.file, lineno=at.line, func_name=at.function)
    except Exception as failure:  # as `logging` does, which lets no failure of a handler reach the program
        logging.getLogger("aspecthook").error("%s: the entry of a call was lost", site.label, exc_info=failure)
