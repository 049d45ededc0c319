"""Faults on purpose, to see what a program does about them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator
from random import Random
from typing import Any, TypeAlias, cast

from aspecthook._core.law.call import Site
from aspecthook._errors import HookOptionError, HookTypeError, brief

from ._aspect import AnyHook, Aspect, is_async, named, needed, number, wait_by

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Error: TypeAlias = "type[BaseException] | Callable[[], BaseException] | str | None"


def faults(
    error: Error = None,
    *,
    probability: float = 1.0,
    latency: float | tuple[float, float] = 0.0,
    seed: int | None = None,
    sleep: Callable[[float], Any] | None = None,
) -> Aspect:
    """Let calls fail, or be slow, before the function runs.

    Args:
        error: What a call fails with: an exception type, its name as ``"module:Name"``, or what makes an exception.
        probability: The share of the calls that this happens to, from 0 to 1.
        latency: By how many seconds they are delayed, or from how many to how many.
        seed: Of the random numbers, so that another run meets the same faults.
        sleep: What waits, instead of `time.sleep` and of the sleep of the loop that runs.

    Raises:
        HookOptionError: A setting has a value that it cannot have.

    Example:
        >>> import json
        >>> from aspecthook import weave
        >>> with weave("json:loads", aspect=faults(ConnectionError)):
        ...     json.loads("1")
        Traceback (most recent call last):
          ...
        ConnectionError
        raised by aspecthook.aspects.faults
    """
    if not 0 <= number("faults", "probability", probability, zero=True) <= 1:
        raise HookOptionError(f"faults: probability={brief(probability)}; give a number from 0 to 1")
    least, most = _bounds(latency)
    if error is None and not most:
        raise HookOptionError("faults: nothing would happen; give error= or latency=, or both")
    make_error = _maker(error)
    random = Random(seed)

    def make(site: Site) -> AnyHook:
        def hook() -> Generator[None]:
            if random.random() < probability:
                if most:
                    (sleep or time.sleep)(random.uniform(least, most))
                _fail(make_error)
            yield

        async def hook_async() -> AsyncGenerator[None]:
            if random.random() < probability:
                if most:
                    await wait_by(sleep or needed("anyio", "faults").sleep, random.uniform(least, most))
                _fail(make_error)
            yield

        return hook_async if is_async(site) else hook

    return Aspect("faults", make, error=error, probability=probability, latency=latency, seed=seed)


def _fail(make_error: Callable[[], BaseException] | None) -> None:
    if make_error is not None:
        exc = make_error()
        exc.add_note("raised by aspecthook.aspects.faults")
        raise exc


def _bounds(latency: float | tuple[float, float]) -> tuple[float, float]:
    both = latency if isinstance(latency, (tuple, list)) else (latency, latency)
    if len(both) != 2:
        raise HookOptionError(f"faults: latency={brief(latency)}; give seconds, or the least and the most of them")
    least, most = (number("faults", "latency", one, zero=True) for one in both)
    return least, most


def _maker(error: Error) -> Callable[[], BaseException] | None:
    """Return what makes the exceptions of calls that fail; None: none fails."""
    raised = named("faults", "error", error)
    fits = issubclass(raised, BaseException) if isinstance(raised, type) else callable(raised)
    if raised is not None and not fits:
        raise HookTypeError(f"faults: error={brief(error)}; give an exception type, or a function that makes one")
    if isinstance(raised, type):
        try:
            raised()
        except TypeError as exc:
            raise HookTypeError(
                f"faults: error={brief(error)} needs arguments ({exc}); give a function that makes one"
            ) from exc
    return cast("Callable[[], BaseException] | None", raised)
