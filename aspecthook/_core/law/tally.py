"""What becomes of the answers of an event's subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from .answers import Values, settled
from .call import Site

if TYPE_CHECKING:
    from .hook import Hook

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def together(site: Site, slips: list[Exception]) -> ExceptionGroup[Exception]:
    """Make one error of all that subscribers have raised."""
    return ExceptionGroup(f"{site.label}: {len(slips)} subscriber{'s' * (len(slips) > 1)} failed", slips)


def cut_off(site: Site, errors: list[BaseException]) -> BaseExceptionGroup[BaseException]:
    """Make one error of what has cut subscribers off, which were to run at once, and of what others have raised."""
    return BaseExceptionGroup(f"{site.label}: a subscriber was cancelled", errors)


@final
class Tally:
    """What becomes of the answers of an event's subscribers; the compiled call does the same."""

    __slots__ = ("_emission", "_site", "answered", "result", "slips", "values")

    def __init__(self, site: Site, values: Values) -> None:
        assert site.signature.emission is not None
        self._site = site
        self._emission = site.signature.emission
        # What the next subscriber is given.
        self.values = values
        self.answered = False
        self.slips: list[Exception] = []
        gives = self._emission.gives
        self.result: Any = [] if gives == "list" else values[self._emission.fold] if gives == "fold" else None

    def take(self, hook: Hook, answer: object) -> bool:
        """Take an answer, and say whether it is the last."""
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

    def slip(self, error: Exception) -> None:
        """Keep a failure until all have run; to be called while it is being handled."""
        try:
            if not self._emission.group:
                raise error
            self.slips.append(error)
        finally:
            del error  # else this frame, which is in its traceback, and the exception would keep each other alive

    def slip_last(self, error: Exception) -> None:
        """Keep a failure of the stub's body with those before it; alone it is what it is."""
        try:
            if not self.slips:
                raise error
            self.slips.append(error)
        finally:
            del error  # as in `slip`

    @property
    def wants_body(self) -> bool:
        """Say whether the stub's own body is asked, as nobody has answered."""
        return self._emission.gives == "first" and self._emission.default and not self.answered

    def close(self) -> Any:
        """Give the result, or raise what was kept, and keep it no longer: it holds the frames that hold this."""
        slips, self.slips = self.slips, []
        try:
            if slips:
                raise together(self._site, slips)
            return self.result
        finally:
            del slips
