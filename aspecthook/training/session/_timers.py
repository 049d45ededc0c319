"""The timer of hooks that act every so many steps or seconds, and the base of such hooks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import HookOptionError
from aspecthook.training._options import finite_number, whole_number

from ._protocol import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

if TYPE_CHECKING:
    from ._session import Coordinator, Session


def clock() -> float:
    """Return the seconds since some moment."""
    return time.monotonic()


@final
class SecondOrStepTimer:
    """Says when something is due: at first, and then every so many steps or seconds.

    Args:
        every_secs: The seconds between two times.
        every_steps: The steps between two times. Give either of the two.
        who: The owner of the timer, for messages.

    Raises:
        HookOptionError: Not exactly one of them is given, or it is not above 0.
        HookTypeError: It is not a number.

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
        """Start afresh: it is due at once."""
        self._step: int | None = None
        self._time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is due at a step. It never is twice at one step."""
        if self._step is None or self._time is None:
            return True
        if self._step == step:
            return False
        if self.every_steps is not None:
            return step >= self._step + self.every_steps
        assert self.every_secs is not None
        return clock() >= self._time + self.every_secs

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Record that it was done at a step; return the seconds and steps since the last time, at first None."""
        now = clock()
        passed = None if self._time is None else now - self._time
        steps = None if self._step is None else step - self._step
        self._step, self._time = step, now
        return passed, steps

    def last_triggered_step(self) -> int | None:
        """Return the step at which it was done last."""
        return self._step

    def state_dict(self) -> dict[str, Any]:
        """Return the step at which it was done last, and how long ago that was."""
        return {"step": self._step, "ago": None if self._time is None else clock() - self._time}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` has returned."""
        self._step = state["step"]
        self._time = None if state["ago"] is None else clock() - state["ago"]


def _seconds(who: str, value: object) -> float:
    seconds = finite_number(who, "the number of seconds", value)
    if seconds < 0:
        raise HookOptionError(f"{who}: the number of seconds={seconds}; give a number from 0 up")
    return seconds


class Timed(SessionRunHook):
    """A hook with a timer, which starts afresh with each run unless the run was resumed with a state of the hook."""

    _timer: SecondOrStepTimer
    _loaded = False

    def begin(self) -> None:
        """Start afresh, unless a state was loaded for this run."""
        if not self._loaded:
            self._reset()

    def _reset(self) -> None:
        self._timer.reset()

    def after_create_session(self, session: Session, coord: Coordinator) -> None:  # noqa: ARG002
        """Record that the run has begun with the state that was loaded."""
        self._loaded = False

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:  # noqa: ARG002
        """Ask for the number of the step."""
        return SessionRunArgs("global_step")

    def _due_step(self, run_context: SessionRunContext, run_values: SessionRunValues) -> int | None:
        """Return the step that was just made if the hook is due, None otherwise.

        The number that TensorFlow reads in a step is that before it. The number after it is read only if it may matter,
        and may be the same: under gradient accumulation not every batch completes a step.
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
        """Restore what `state_dict` has returned."""
        self._loaded = True
        self._timer.load_state_dict(state["timer"])
