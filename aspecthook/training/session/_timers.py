"""The timer of hooks that act every N steps or seconds, and the base of such hooks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, final

from aspecthook._errors import HookOptionError
from aspecthook.training._options import finite_number, optional_number

from ._protocol import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from ._session import Coordinator, Session


def clock() -> float:
    """Return a time in seconds that never goes back."""
    return time.monotonic()


@final
class SecondOrStepTimer:
    """A timer that triggers at the first step, and then every N steps or seconds.

    Args:
        every_secs: The seconds between two triggers.
        every_steps: The steps between two triggers. Give one of the two.
        who: The owner of the timer, for messages.

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
            given = "neither is" if every_secs is None else "both are"
            raise HookOptionError(f"{who}: give a number of seconds or a number of steps; {given} given")
        self.every_secs: float | None = None if every_secs is None else _seconds(who, every_secs)
        self.every_steps: int | None = optional_number(who, "the number of steps", every_steps, 1)
        self.reset()

    def reset(self) -> None:
        """Restart the timer: it triggers at the next step."""
        self._step: int | None = None
        self._time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether the timer triggers at a step; never twice at the same step."""
        if self._step is None or self._time is None:
            return True
        if self._step == step:
            return False
        if self.every_steps is not None:
            return step >= self._step + self.every_steps
        assert self.every_secs is not None
        return clock() >= self._time + self.every_secs

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Record a trigger at a step; return the seconds and the steps since the last one, or None at the first."""
        now = clock()
        passed = None if self._time is None else now - self._time
        steps = None if self._step is None else step - self._step
        self._step, self._time = step, now
        return passed, steps

    def last_triggered_step(self) -> int | None:
        """Return the step of the last trigger."""
        return self._step

    def state_dict(self) -> dict[str, Any]:
        """Return the step of the last trigger, and how long ago that was."""
        return {"step": self._step, "ago": None if self._time is None else clock() - self._time}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._step = state["step"]
        self._time = None if state["ago"] is None else clock() - state["ago"]


def _seconds(who: str, value: object) -> float:
    seconds = finite_number(who, "the number of seconds", value)
    if seconds < 0:
        raise HookOptionError(f"{who}: the number of seconds={seconds}; give a number from 0 up")
    return seconds


class TimedHook(SessionRunHook):
    """A hook with a timer, which restarts with each run unless the run was resumed with a state of the hook."""

    _timer: SecondOrStepTimer
    _loaded = False

    def begin(self) -> None:
        """Restart the timer, unless a state was loaded for this run."""
        if not self._loaded:
            self._reset()

    def _reset(self) -> None:
        self._timer.reset()

    def after_create_session(self, session: Session, coord: Coordinator) -> None:  # noqa: ARG002
        """Record that the run has begun with the state that was loaded."""
        self._loaded = False

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:  # noqa: ARG002
        """Fetch the number of the step."""
        return SessionRunArgs("global_step")

    def _due_step(self, run_context: SessionRunContext, run_values: SessionRunValues) -> int | None:
        """Return the step that was just made if the hook is due, None otherwise.

        A fetched ``"global_step"`` is the number before the step, as in TensorFlow. The number after the step may be
        the same, since under gradient accumulation not every batch completes a step; it is read only where it matters.
        """
        if not self._is_due(run_values.results + 1):
            return None
        step: int = run_context.session.run("global_step")
        return step if self._is_due(step) else None

    def _is_due(self, step: int) -> bool:
        return self._timer.should_trigger_for_step(step)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the timer."""
        return {"timer": self._timer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._loaded = True
        self._timer.load_state_dict(state["timer"])


class IterationTimedHook(TimedHook):
    """A hook whose timer counts the iterations of the run, and not the steps of the optimizer."""

    _count: int = 0

    def _reset(self) -> None:
        super()._reset()
        self._count = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the timer, and the number of iterations so far."""
        return {**super().state_dict(), "count": self._count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._count = state["count"]
