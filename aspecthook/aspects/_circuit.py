"""Circuit breakers, by circuitbreaker."""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Lock
from typing import Any, final
from weakref import WeakValueDictionary

from aspecthook._core.law.call import Site

from ._aspect import AnyHook, Aspect, Types, count, exceptions, needed, number
from ._errors import CircuitOpenError

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Circuit(Aspect):
    """The aspect that `circuit` returns: what state its breakers are in.

    Example:
        >>> from aspecthook import weave
        >>> from aspecthook.aspects import circuit
        >>> def fetch():
        ...     return "page"
        >>> breakers = circuit(failures=3)
        >>> with weave(fetch, aspect=breakers):
        ...     breakers.states()
        {'...:fetch': 'closed'}
    """

    def __init__(self, make: Callable[[Site], AnyHook], breakers: WeakValueDictionary[str, Any], **settings: object):
        super().__init__("circuit", make, **settings)
        self._breakers = breakers

    def states(self) -> dict[str, str]:
        """Return by mount point whether the breaker is ``closed``, ``open`` or ``half_open``."""
        return {label: breaker.state for label, breaker in self._breakers.items()}

    def reset(self) -> None:
        """Close all breakers, and forget the failures."""
        for breaker in list(self._breakers.values()):
            breaker.reset()


def circuit(on: Types = Exception, *, failures: int = 5, reset: float = 30.0) -> Circuit:
    """Stop calling what keeps failing; by [circuitbreaker](https://github.com/fabfuel/circuitbreaker).

    After so many failures in a row the breaker opens: calls raise `CircuitOpenError` at once. Some seconds later it is
    half open: one call is let through, which closes it if it succeeds, and opens it again if it fails. Each mount point
    has a breaker of its own.

    Args:
        on: The exceptions that count as failures: types, or their names as ``"module:Name"``. Others mean that what is
            called works, but for cancellation, which means nothing.
        failures: How many failures in a row open the breaker.
        reset: For how many seconds it stays open.

    Raises:
        HookOptionError: A setting has a value that it cannot have.

    Example:
        >>> from aspecthook import weave
        >>> def fetch():
        ...     raise ConnectionError("refused")
        >>> breakers = circuit(ConnectionError, failures=1)
        >>> with weave(fetch, aspect=breakers):
        ...     try:
        ...         fetch()
        ...     except ConnectionError:
        ...         breakers.states()
        {'...:fetch': 'open'}
    """
    library = needed("circuitbreaker", "circuit")
    types = exceptions("circuit", "on", on)
    settings = {
        "failure_threshold": count("circuit", "failures", failures),
        "recovery_timeout": number("circuit", "reset", reset),
        "expected_exception": types,
    }
    counted: tuple[type[BaseException], ...] = (Exception, *types)  # not cancellation, unless it is named
    breakers: WeakValueDictionary[str, Any] = WeakValueDictionary()

    def make(site: Site) -> AnyHook:
        breaker = breakers[site.label] = library.CircuitBreaker(name=site.label, **settings)
        return _guarded(breaker, counted)

    return Circuit(make, breakers, on=on, failures=failures, reset=reset)


# Any: a `CircuitBreaker`.
def _guarded(breaker: Any, counted: tuple[type[BaseException], ...]) -> AnyHook:
    counting, trial = Lock(), Lock()

    def hook() -> Generator[None, Any, None]:
        state = breaker.state
        if state == "open" or (state == "half_open" and not trial.acquire(blocking=False)):
            remaining = max(0.0, breaker.open_remaining)
            raise CircuitOpenError(
                f"{breaker.name} is not called: it has failed {breaker.failure_count} times; try again in "
                f"{remaining:g} s",
                remaining,
            )
        try:
            yield
        except BaseException as exc:
            if isinstance(exc, counted):
                with counting:
                    breaker.__exit__(type(exc), None, None)  # not the exception, which it would keep alive
            raise
        else:
            with counting:
                if breaker.state != "open":  # a call that began before it was opened says nothing
                    breaker.__exit__(None, None, None)
        finally:
            if state == "half_open":
                trial.release()

    return hook
