"""The base of the hooks that act every N steps or seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from aspecthook._errors import HookOptionError
from aspecthook.training._options import finite_number, optional_number

from ._protocol import Session, SessionRunHook


def clock() -> float:
    """Return a time in seconds that never goes back."""
    return time.monotonic()


class TimedHook(SessionRunHook):
    """A hook that acts at its first step, and then every N steps or seconds, whichever of the two is given.

    The count begins anew with each run, unless the run was resumed with a state of the hook.
    """

    def __init__(self, every_steps: int | None, every_secs: float | None) -> None:
        who = type(self).__name__
        if (every_secs is None) == (every_steps is None):
            given = "neither is" if every_secs is None else "both are"
            raise HookOptionError(f"{who}: give a number of seconds or a number of steps; {given} given")
        if every_secs is not None and finite_number(who, "the number of seconds", every_secs) < 0:
            raise HookOptionError(f"{who}: the number of seconds={every_secs}; give a number from 0 up")
        self.every_secs: float | None = every_secs
        self.every_steps: int | None = optional_number(who, "the number of steps", every_steps, 1)
        self._last: tuple[int, float] | None = None  # the step at which the hook acted last, and the time
        self._loaded = False

    def begin(self) -> None:
        """Begin to count, unless a state was loaded for this run."""
        if not self._loaded:
            self._last = None

    def after_create_session(self, session: Session, coord: Session) -> None:  # noqa: ARG002
        """Record that the run has begun with the state that was loaded."""
        self._loaded = False

    def is_due(self, step: int) -> bool:
        """Whether the hook is to act at a step; never twice at the same step."""
        if self._last is None:
            return True
        last, then = self._last
        if self.every_secs is not None:
            return step != last and clock() >= then + self.every_secs
        assert self.every_steps is not None
        return step >= last + self.every_steps

    def acts(self, step: int) -> tuple[int, float] | None:
        """Record that the hook acts at a step; return the steps and the seconds since the last time, or None."""
        before, now = self._last, clock()
        self._last = step, now
        return None if before is None else (step - before[0], now - before[1])

    def state_dict(self) -> dict[str, Any]:
        """Return the step at which the hook acted last, and how long ago that was."""
        step, then = self._last or (None, None)
        return {"step": step, "ago": None if then is None else clock() - then}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._loaded = True
        self._last = None if state["step"] is None else (state["step"], clock() - state["ago"])
