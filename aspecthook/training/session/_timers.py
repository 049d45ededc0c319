"""When something is due: every so many steps, or seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import isfinite
from typing import Any, final

from aspecthook._errors import HookOptionError, HookTypeError, brief
from aspecthook.training._options import whole_number


def clock() -> float:
    """Give the time, in seconds from some moment on."""
    return time.monotonic()


@final
class SecondOrStepTimer:
    """Says whether something is due: at first, and then every so many steps, or seconds.

    Args:
        every_secs: The seconds from one time to the next.
        every_steps: The steps; give the one or the other.
        who: Whose timer it is, for messages.

    Raises:
        HookOptionError: Not exactly one of them is given, or it is not above 0.
        HookTypeError: It is no number.

    Example:
        >>> timer = SecondOrStepTimer(every_steps=10)
        >>> timer.should_trigger_for_step(0), timer.update_last_triggered_step(0)
        (True, (None, None))
        >>> timer.should_trigger_for_step(9), timer.should_trigger_for_step(10)
        (False, True)
    """

    def __init__(
        self, every_secs: float | None = None, every_steps: int | None = None, *, who: str = "SecondOrStepTimer"
    ) -> None:
        if (every_secs is None) == (every_steps is None):
            given = "neither" if every_secs is None else "both"
            raise HookOptionError(f"{who}: give either a number of seconds or one of steps; {given} is given")
        self.every_secs = None if every_secs is None else _seconds(who, every_secs)
        self.every_steps = None if every_steps is None else whole_number(who, "the number of steps", every_steps, 1)
        self.reset()

    def reset(self) -> None:
        """Begin anew: it is due at once."""
        self._step: int | None = None
        self._time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Say whether it is due at a step; never twice at one."""
        if self._step is None or self._time is None:
            return True
        if self._step == step:
            return False
        if self.every_steps is not None:
            return step >= self._step + self.every_steps
        assert self.every_secs is not None
        return clock() >= self._time + self.every_secs

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note that it was done; give the seconds and the steps since it was done before, None at first."""
        now = clock()
        passed = None if self._time is None else now - self._time
        steps = None if self._step is None else step - self._step
        self._step, self._time = step, now
        return passed, steps

    def last_triggered_step(self) -> int | None:
        """Give the step at which it was done last."""
        return self._step

    def state_dict(self) -> dict[str, Any]:
        """Give the step at which it was done last, and how long that is ago."""
        return {"step": self._step, "ago": None if self._time is None else clock() - self._time}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self._step = state["step"]
        self._time = None if state["ago"] is None else clock() - state["ago"]


def _seconds(who: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise HookTypeError(f"{who}: {brief(value)} is no number of seconds")
    if not (isfinite(value) and value >= 0):
        raise HookOptionError(f"{who}: {value} seconds; give a number from 0 up")
    return value
