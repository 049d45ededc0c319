"""Retries, by tenacity."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from aspecthook._core.law.call import Site
from aspecthook._errors import HookOptionError

from ._aspect import AnyHook, Aspect, Types, exceptions, is_async, is_generator, named, needed, number, refused, wait_by

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def retry(
    on: Types | Callable[[BaseException], bool] = Exception,
    *,
    attempts: int | None = 3,
    wait: float = 0.1,
    max_wait: float = 5.0,
    jitter: float = 0.1,
    timeout: float | None = None,
    on_result: Callable[[Any], bool] | str | None = None,
    sleep: Callable[[float], Any] | None = None,
) -> Aspect:
    """Repeat failed calls, with [tenacity](https://tenacity.readthedocs.io).

    After the last attempt, the caller gets the last exception (or the last result) unchanged.

    Args:
        on: The exceptions that are worth another attempt: types or a predicate, or their names as
            ``"module:Name"``.
        attempts: The number of attempts, the first one included; None: as many as `timeout` allows.
        wait: The seconds before the second attempt. The wait doubles with each further one.
        max_wait: The longest wait before `jitter` is added, in seconds.
        jitter: The most seconds to add at random, so that many callers do not try at the same moment.
        timeout: The number of seconds after the beginning of the first attempt in which others may begin.
        on_result: A predicate for results that are worth another attempt, or its name.
        sleep: A function that waits, instead of `time.sleep` and, for async functions, the sleep of the running loop.

    Raises:
        HookOptionError: A setting has an invalid value.

    Example:
        >>> from aspecthook import weave
        >>> def fetch(outcomes):
        ...     if (outcome := outcomes.pop(0)) is None:
        ...         raise ConnectionError("refused")
        ...     return outcome
        >>> with weave(fetch, aspect=retry(on=ConnectionError, attempts=3, wait=0, jitter=0)):
        ...     fetch([None, None, "page"])
        'page'
    """
    if attempts is None and timeout is None:
        raise HookOptionError("retry: attempts=None without a timeout would try for ever; give one of the two")
    tenacity = needed("tenacity", "retry")
    stop = tenacity.stop_never
    if attempts is not None:
        stop = stop | tenacity.stop_after_attempt(int(number("retry", "attempts", attempts, whole=True)))
    if timeout is not None:
        stop = stop | tenacity.stop_after_delay(number("retry", "timeout", timeout))

    def last(state: Any) -> Any:  # Any: tenacity's state of a call
        return state.outcome.result()  # or raises the last exception

    first = number("retry", "wait", wait, zero=True)
    settings: dict[str, Any] = {
        "stop": stop,
        "wait": tenacity.wait_exponential(first, number("retry", "max_wait", max_wait, zero=True))
        + tenacity.wait_random(0, number("retry", "jitter", jitter, zero=True)),
        "retry": tenacity.retry_if_exception(_worth(on)),
        "retry_error_callback": last,
    }
    if on_result is not None:
        settings["retry"] |= tenacity.retry_if_result(named("retry", "on_result", on_result))

    def make(site: Site) -> AnyHook:
        if is_generator(site):
            raise refused("retry", site, "its items may have been used; weave the functions that it calls")
        if not is_async(site):
            retrying = tenacity.Retrying(**settings, **({} if sleep is None else {"sleep": sleep}))

            def call(proceed: AnyHook) -> Any:
                return retrying.copy()(proceed)  # a copy keeps the state of its call

            return call
        retrying = tenacity.AsyncRetrying(**settings, **({} if sleep is None else {"sleep": partial(wait_by, sleep)}))

        async def call_async(proceed: AnyHook) -> Any:
            return await retrying.copy()(proceed)

        return call_async

    waits = {"wait": wait, "max_wait": max_wait, "jitter": jitter}
    return Aspect("retry", make, on=on, attempts=attempts, **waits, timeout=timeout, on_result=on_result)


def _worth(on: object) -> Callable[[BaseException], bool]:
    on = named("retry", "on", on)
    if callable(on) and not isinstance(on, type):
        return cast("Callable[[BaseException], bool]", on)
    types = exceptions("retry", "on", on)
    return lambda exc: isinstance(exc, types)
