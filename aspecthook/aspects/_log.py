"""Logs of calls."""

from __future__ import annotations

from time import perf_counter
from typing import Any, final

from aspecthook._core.law.call import Call, Site
from aspecthook._values import Redact, Redaction, Shortener

from ._aspect import AnyHook, Aspect
from ._logging import AnyLogger, is_enabled, level_number, logger_for, shown_time, traceback_of, write
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
    shortener = Shortener(redaction)

    def make(site: Site) -> AnyHook:
        to = logger_for("log", logger, site)
        varkw = site.signature.varkw
        extra = None if varkw is None else site.signature.names[varkw]

        @final
        class Entry:
            """The entry of one call."""

            def __init__(self, call: Call) -> None:
                # Looked at even if nothing is shown: what is redacted here must be masked in a traceback.
                given = redaction.arguments(call.arguments, extra) if arguments or redaction.active else {}
                self.arguments = {name: shortener.text(value) for name, value in given.items()} if arguments else {}
                if begin and is_enabled(to, success):
                    write(to, success, site, f"{self.called()} begins", "call begins", self.fields())
                self.start = perf_counter()

            def called(self) -> str:
                shown = [f"{name}={text}" for name, text in self.arguments.items() if name not in ("self", "cls")]
                return f"{site.label}({', '.join(shown) if arguments else '…'})"

            def fields(self) -> dict[str, Any]:
                return {"function": site.label} | ({"arguments": self.arguments} if arguments else {})

            def __enter__(self) -> None:
                pass

            def __exit__(self, *_: object) -> None:
                pass

            def end(self, value: Any, exc: BaseException | None) -> None:
                level = success if exc is None else failure
                if not is_enabled(to, level):
                    return
                seconds = perf_counter() - self.start
                fields = {**self.fields(), "duration": seconds}
                if exc is not None:
                    text = shortener.text(exc)
                    error = redaction.masked(traceback_of(exc))
                    write(
                        to,
                        level,
                        site,
                        f"{self.called()} raised {text} in {shown_time(seconds)}",
                        "call failed",
                        {**fields, "error": text},
                        error,
                    )
                    return
                shown = ""
                if result:
                    fields["result"] = shortener.text(redaction.redacted("result", value))
                    shown = f" -> {fields['result']}"
                write(to, level, site, f"{self.called()}{shown} in {shown_time(seconds)}", "call", fields)

        return observed(site, Entry)

    return Aspect("log", make, logger=logger, level=level, error_level=error_level, redact=redact)
