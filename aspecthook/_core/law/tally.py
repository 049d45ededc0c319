"""The answers and failures of an event's subscribers, and the result that they add up to.

The invariant: once a call is over, nothing here refers to an exception any more. An exception refers to the frames that
it went through, and these refer to the tally: the two would keep each other alive.
"""

from __future__ import annotations

from aspecthook._hints import TYPE_CHECKING, Any, final

from .answers import Values, settled
from .call import Site

if TYPE_CHECKING:
    from .hook import Hook

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Tally:
    """The answers and failures of an event's subscribers in one interpreted call; the compiled call does the same."""

    __slots__ = ("_emission", "_site", "answered", "failures", "result", "values")

    def __init__(self, site: Site, values: Values) -> None:
        assert site.signature.emission is not None
        self._site = site
        self._emission = site.signature.emission
        # The arguments for the next subscriber.
        self.values = values
        self.answered = False
        self.failures: list[Exception] = []
        gives = self._emission.gives
        self.result: Any = [] if gives == "list" else values[self._emission.fold] if gives == "fold" else None

    def add_answer(self, hook: Hook, answer: Any) -> bool:
        """Add an answer; return whether no further subscriber runs."""
        if answer is None:
            return False
        value = settled(self._site, "on", hook.function, answer)
        if self._emission.checked and self._site.fits is not None:
            folded = self.result if self._emission.gives == "fold" else None
            value = self._site.fits(self._site, hook.function, value, folded)
        self.answered = True
        if self._emission.gives == "list":
            self.result.append(value)
            return False
        self.result = value
        if self._emission.gives == "fold":
            place = self._emission.fold
            self.values = (*self.values[:place], value, *self.values[place + 1 :])
        return self._emission.gives == "first"

    def add_failure(self, error: Exception) -> None:
        """Keep a failure until all have run, if failures are grouped; else raise it, in its `except` block."""
        try:
            if not self._emission.group:
                raise error
            self.failures.append(error)
        finally:
            del error  # else this frame, which is in its traceback, and the exception would keep each other alive

    def add_failure_of_body(self, error: Exception) -> None:
        """Keep a failure of the stub's body with those of the subscribers; if there are none, raise it as it is."""
        try:
            if not self.failures:
                raise error
            self.failures.append(error)
        finally:
            del error  # for the reason in `add_failure`

    @property
    def wants_body(self) -> bool:
        """Whether the stub's own body runs, because nobody has answered."""
        return self._emission.gives == "first" and self._emission.default and not self.answered

    def close(self) -> Any:
        """Return the result, or raise the failures that were kept."""
        failures, self.failures = self.failures, []
        try:
            if failures:
                raise together(self._site, failures)
            return self.result
        finally:
            del failures


def together(site: Site, failures: list[Exception]) -> ExceptionGroup[Exception]:
    """Return one error for all failures of subscribers."""
    count = len(failures)
    return ExceptionGroup(f"{site.label}: {count} subscriber{'s' * (count > 1)} failed", failures)
