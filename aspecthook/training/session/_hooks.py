"""The session-run hooks without files: they end a run, log and write values, check the loss, count steps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from typing import Any, final

from aspecthook._errors import HookOptionError, HookTypeError, brief
from aspecthook.training._options import finite_number, flag, optional_number
from aspecthook.training._ranks import any_rank
from aspecthook.training.backends._state import is_any
from aspecthook.training.hooks._hook import HOOKS

from ._fetches import mapped
from ._protocol import (
    NanLossDuringTrainingError,
    Session,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)


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


@final
@HOOKS.register
class StopAtStepHook(SessionRunHook):
    """End the run after a step of the optimizer; a run that has made that step already makes no other.

    Args:
        num_steps: How many steps to make, counted from the creation of the session. A run that is resumed before they
            are made makes the rest of them; a run that is resumed after them makes as many again.
        last_step: The number of the last step, counted from the beginning of the run. Give one of the two.

    Example:
        >>> StopAtStepHook(num_steps=10, last_step=20)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: StopAtStepHook: give num_steps or last_step; both are given
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise HookOptionError(
                f"StopAtStepHook: give num_steps or last_step; {'none is' if num_steps is None else 'both are'} given"
            )
        self.num_steps: int | None = optional_number("StopAtStepHook", "num_steps", num_steps, 0)
        self.last_step: int | None = optional_number("StopAtStepHook", "last_step", last_step, 0)
        self._last: int | None = None
        self._begun = False

    def begin(self) -> None:
        """Count from the session that is created next."""
        self._begun = True

    def after_create_session(self, session: Session, coord: Session) -> None:
        """Set the last step."""
        step = session.run("global_step")
        if self._begun and (self._last is None or self._last <= step):
            self._last = self.last_step if self.num_steps is None else step + self.num_steps
        self._begun = False
        if self._last is not None and step >= self._last:
            coord.request_stop()

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:  # noqa: ARG002
        """Stop if it was the last step. Under gradient accumulation not every batch completes one."""
        last = self.last_step if self._last is None else self._last
        if last is not None and run_context.session.runner.progress.step >= last:
            run_context.request_stop()

    def state_dict(self) -> dict[str, Any]:
        """Return the last step, and the options that it was computed from."""
        return {"last": self._last, "num_steps": self.num_steps, "last_step": self.last_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, unless the options have changed."""
        same = (state["num_steps"], state["last_step"]) == (self.num_steps, self.last_step)
        if same and state["last"] is not None:  # None: it was saved before the session was created
            self._last = state["last"]


@final
@HOOKS.register
class NanTensorHook(SessionRunHook):
    """Check after each step that the loss is not NaN; infinity passes.

    The optimizer has used the gradients of that loss by then; `NanGuardHook` checks before.

    Args:
        loss_tensor: The name of the value to check.
        fail_on_nan_loss: Raise an error; otherwise end the run.

    Example:
        >>> hook = NanTensorHook("loss")
        >>> hook.after_run(SessionRunContext(SessionRunArgs(), None), SessionRunValues(float("inf")))
        >>> hook.after_run(SessionRunContext(SessionRunArgs(), None), SessionRunValues(float("nan")))
        Traceback (most recent call last):
          ...
        aspecthook.training.session.NanLossDuringTrainingError: 'loss' is NaN; ...
    """

    def __init__(self, loss_tensor: str = "loss", fail_on_nan_loss: bool = True) -> None:
        self.loss_tensor = loss_tensor
        self.fail_on_nan_loss: bool = flag("NanTensorHook", "fail_on_nan_loss", fail_on_nan_loss)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        """Fetch the loss."""
        return SessionRunArgs(self.loss_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Check the loss; all ranks fail or end together if it is NaN on one of them."""
        if not any_rank(_has_nan(run_values.results)):
            return
        if self.fail_on_nan_loss:
            raise NanLossDuringTrainingError(
                f"{self.loss_tensor!r} is NaN; lower the learning rate, clip the gradients, look for NaN in the data, "
                "or skip such steps with NanGuardHook"
            )
        run_context.session.runner.logger.warning("NanTensorHook: %r is NaN; the run ends", self.loss_tensor)
        run_context.request_stop()


def _has_nan(value: Any) -> bool:
    if value is None:
        return False
    if is_any(value, float, int):
        return isnan(value)
    import numpy as np

    return bool(np.isnan(value).any())


@final
@HOOKS.register
class LoggingTensorHook(TimedHook):
    """Log values at the first step, and then every N iterations or seconds, on rank 0: ``loss = 0.5 (2.031 sec)``.

    Args:
        tensors: Names of values, or a mapping from labels to names.
        every_n_iter: The iterations between two lines.
        every_n_secs: The seconds between two lines. Give one of the two, or only `at_end`.
        at_end: Log at the end of the run too.

    Example:
        >>> hook = LoggingTensorHook({"loss": "loss", "weights": "param:0.weight"}, every_n_iter=100)
        >>> hook.tensors
        {'loss': 'loss', 'weights': 'param:0.weight'}
    """

    def __init__(
        self,
        tensors: Mapping[str, Any] | Iterable[str],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
    ) -> None:
        self._periodic = not (at_end and every_n_iter is None and every_n_secs is None)
        super().__init__(every_n_iter if self._periodic else 1, every_n_secs)
        if isinstance(tensors, str):
            raise HookTypeError(f"LoggingTensorHook({brief(tensors)}): give a list of names, or a mapping to names")
        named = _by_label(tensors)
        # TensorFlow logs a mapping in the order of its keys.
        self.tensors: dict[str, Any] = dict(sorted(named.items())) if is_any(tensors, Mapping) else named
        self.at_end: bool = flag("LoggingTensorHook", "at_end", at_end)
        self._due = False

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the values, if logging is due."""
        runner = run_context.session.runner
        self._due = self._periodic and runner.rank == 0 and self.is_due(runner.iter)
        return SessionRunArgs(self.tensors) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the values."""
        if self._due:
            self._log(run_context.session, run_values.results)

    def end(self, session: Session) -> None:
        """Log the final values."""
        if self.at_end and session.runner.rank == 0:
            self._log(session, session.run(self.tensors))

    def _log(self, session: Session, values: dict[str, Any]) -> None:
        passed = self.acts(session.runner.iter)
        line = ", ".join(
            f"{tag} = {f'{value:.6g}' if is_any(value, float) else value}" for tag, value in values.items()
        )
        session.runner.logger.info("%s", line if passed is None else f"{line} ({passed[1]:.3f} sec)")


def _by_label(names: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    return dict(names) if is_any(names, Mapping) else {name: name for name in names}


@final
@HOOKS.register
class StepCounterHook(TimedHook):
    """Log the steps per second, on rank 0.

    Args:
        every_n_steps: The steps between two lines.
        every_n_secs: The seconds between two lines. Give one of the two, and None for the other.

    Example:
        >>> StepCounterHook(every_n_steps=None, every_n_secs=30.0).steps_per_sec is None
        True
    """

    def __init__(self, every_n_steps: int | None = 100, every_n_secs: float | None = None) -> None:
        super().__init__(every_n_steps, every_n_secs)
        self.steps_per_sec: float | None = None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:  # noqa: ARG002
        """Log the rate if it is due, and if there were steps since the last time."""
        runner = run_context.session.runner
        step = runner.progress.step
        if runner.rank != 0 or not self.is_due(step):
            return
        passed = self.acts(step)
        if passed is not None and passed[1]:
            self.steps_per_sec = passed[0] / passed[1]
            runner.logger.info("global_step/sec: %g", self.steps_per_sec)


@final
@HOOKS.register
class SummarySaverHook(TimedHook):
    """Add values to the log of the run at the first step, and then every N steps or seconds.

    The loggers of the run write them; of an array, the mean, the standard deviation, the minimum and the maximum.

    Args:
        save_steps: The steps between two summaries.
        save_secs: The seconds between two summaries. Give one of the two.
        summaries: Names of values, or a mapping from labels to names.

    Example:
        >>> hook = SummarySaverHook(save_steps=100, summaries=["loss", "grad:0.weight"])
        >>> sorted(hook.summaries)
        ['grad:0.weight', 'loss']
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        summaries: Any = ("loss", "lr"),
    ) -> None:
        super().__init__(save_steps, save_secs)
        self.summaries: dict[str, Any] = _by_label([summaries] if isinstance(summaries, str) else summaries)
        mapped(self.summaries, str, "SummarySaverHook")
        self._due = False

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the values, if logging them is due."""
        self._due = self.is_due(run_context.session.runner.step)
        return SessionRunArgs(self.summaries) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the values."""
        if self._due:
            runner = run_context.session.runner
            self.acts(runner.step)
            runner.log(dict(_numbers(run_values.results)))


def _numbers(value: Any, *path: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers that are written for a value, with their tags."""
    if is_any(value, Mapping, list, tuple):
        for key, one in value.items() if is_any(value, Mapping) else enumerate(value):
            yield from _numbers(one, *path, str(key))
    elif is_any(value, float, int):
        yield "/".join(path), float(value)
    elif value is not None and value.size:
        for word in ("mean", "std", "min", "max"):
            yield "/".join((*path, word)), float(getattr(value, word)())


@final
@HOOKS.register
class FinalOpsHook(SessionRunHook):
    """Read values at the end of the run.

    Args:
        final_ops: Names of values, nested in any way.

    Attributes:
        final_ops_values: The values, in the shape of the names; None before the end.

    Example:
        >>> hook = FinalOpsHook({"step": "global_step", "weight": "param:0.weight"})
        >>> hook.final_ops_values is None
        True
    """

    def __init__(self, final_ops: Any) -> None:
        mapped(final_ops, str, "FinalOpsHook")
        self._final_ops = final_ops
        self.final_ops_values: Any = None

    def end(self, session: Session) -> None:
        """Read the values."""
        self.final_ops_values = session.run(self._final_ops)
