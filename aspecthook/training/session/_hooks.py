"""The session-run hooks of the package: they save a run, end it, check its loss and log values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic as clock
from typing import Any, final

import numpy as np

from aspecthook._errors import HookOptionError, HookTypeError, brief
from aspecthook.training._options import finite_number, flag, optional_number
from aspecthook.training._ranks import any_rank, broadcast
from aspecthook.training.checkpoint._folder import saved_by
from aspecthook.training.hooks._checkpoint import KeptFiles
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


def _one_of_two(who: str, names: str, one: object, other: object) -> None:
    if (one is None) == (other is None):
        raise HookOptionError(f"{who}: give {names}; {'neither is' if one is None else 'both are'} given")


class TimedHook(SessionRunHook):
    """A hook that acts at its first step, and then every N steps or every N seconds, as its options say.

    The count begins anew with each run, unless the run was resumed with a state of the hook.
    """

    def __init__(self, every_steps: int | None, every_secs: float | None) -> None:
        who = type(self).__name__
        _one_of_two(who, "a number of seconds or a number of steps", every_secs, every_steps)
        if every_secs is not None:
            finite_number(who, "the number of seconds", every_secs, least=0)
        self.every_secs: float | None = every_secs
        self.every_steps: int | None = optional_number(who, "the number of steps", every_steps, 1)
        self._last: tuple[int, float] | None = None  # the step at which the hook acted last, and the time
        self._loaded = False  # whether the next session begins with the state of a checkpoint

    def begin(self) -> None:
        """Begin to count, unless a state was loaded for this run."""
        if not self._loaded:
            self._last = None

    def after_create_session(self, session: Session, coord: Session) -> None:  # noqa: ARG002
        """Note that the loaded state has been used: the next run counts anew."""
        self._loaded = False

    def is_due(self, step: int) -> bool:
        """Whether the hook is to act at a step; never twice at the same step."""
        if self._last is None:
            return True
        last, then = self._last
        if self.every_secs is not None:
            return step != last and clock() >= then + self.every_secs
        return self.every_steps is not None and step >= last + self.every_steps

    def record(self, step: int) -> float | None:
        """Record that the hook acts at a step; return the seconds since it last acted, or None."""
        before, now = self._last, clock()
        self._last = step, now
        return None if before is None else now - before[1]

    def state_dict(self) -> dict[str, Any]:
        """Return the step at which the hook acted last, and how long ago that was."""
        step, then = self._last or (None, None)
        return {"step": step, "ago": None if then is None else clock() - then}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._loaded = True
        self._last = None if state["step"] is None else (state["step"], clock() - state["ago"])


@final
@HOOKS.register
class CheckpointSaverHook(TimedHook):
    """Save checkpoints: when the session is created, every N steps or seconds since the last one, and at the end.

    A checkpoint is saved after all other hooks have acted on the step, so that a resumed run continues as if it had
    never ended. No checkpoint is saved at the end if the last one is of the same step.

    Args:
        checkpoint_dir: The folder.
        save_secs: The seconds between two checkpoints.
        save_steps: The steps of the optimizer between two checkpoints. Give either seconds or steps.
        max_keep: The number of files to keep; None for all. The oldest file is removed once a new one has been written.

    Example:
        >>> hook = CheckpointSaverHook("runs/digits", save_steps=100)
        >>> hook.path(300).name
        'model.ckpt-300.safetensors'
    """

    def __init__(
        self,
        checkpoint_dir: str | os.PathLike[str],
        save_secs: float | None = None,
        save_steps: int | None = None,
        *,
        max_keep: int | None = 5,
    ) -> None:
        super().__init__(save_steps, save_secs)
        self.checkpoint_dir: Path = Path(checkpoint_dir)
        self.max_keep: int | None = optional_number("CheckpointSaverHook", "max_keep", max_keep, 1)
        self._files = KeptFiles(self.checkpoint_dir, self.max_keep)

    def path(self, step: int) -> Path:
        """Return the file of a step."""
        return self.checkpoint_dir / f"model.ckpt-{step}.safetensors"

    def after_create_session(self, session: Session, coord: Session) -> None:
        """Save the state at the beginning, unless the run was resumed from a checkpoint of the same step."""
        resumed = self._loaded
        super().after_create_session(session, coord)
        step: int = session.run("global_step")
        if not resumed:  # a resumed run saves at the same steps as a run that was never interrupted
            self.record(step)
        path = self.path(step)
        if not resumed or path.name not in self._files.names or saved_by(path) is None:
            self._files.save(session.runner, path.name)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:  # noqa: ARG002
        """Save a checkpoint if it is due."""
        session = run_context.session
        step = session.runner.progress.step
        due = self.is_due(step)
        if due if self.every_secs is None else broadcast(due):  # the clocks of the ranks differ
            self.record(step)
            session.runner.after_stage(lambda: self._files.save(session.runner, self.path(step).name))

    def end(self, session: Session) -> None:
        """Save the final state."""
        step: int = session.run("global_step")
        if self._last is None or step != self._last[0]:
            self.record(step)
            self._files.save(session.runner, self.path(step).name)

    def state_dict(self) -> dict[str, Any]:
        """Return when the hook saved last, and the files that it keeps."""
        return {**super().state_dict(), "saved": self._files.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._files.load_state_dict("CheckpointSaverHook", state["saved"])
        super().load_state_dict(state)


@final
@HOOKS.register
class StopAtStepHook(SessionRunHook):
    """End the run after a given step of the optimizer. A run that has already made it makes no more.

    Args:
        num_steps: The number of steps to make, counted from the creation of the session. A run that is resumed before
            it has made them makes the remaining ones; a run that is resumed afterwards makes as many again.
        last_step: The number of the last step, counted from the beginning of the run. Give either this or `num_steps`.

    Example:
        >>> StopAtStepHook(num_steps=10, last_step=20)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: StopAtStepHook: give num_steps or last_step; both are given
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        _one_of_two("StopAtStepHook", "num_steps or last_step", num_steps, last_step)
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
        """Restore the state, unless the options have changed."""
        same = (state["num_steps"], state["last_step"]) == (self.num_steps, self.last_step)
        if same and state["last"] is not None:  # None: it was saved before the session was created
            self._last = state["last"]


@final
@HOOKS.register
class NanTensorHook(SessionRunHook):
    """Check after each step that the loss is not NaN; infinity passes.

    By then, the optimizer has used the gradients of that loss. To check before it does, use `NanGuardHook`.

    Args:
        loss_tensor: The name of the value to check.
        fail_on_nan_loss: Whether to raise an error; otherwise the run ends.

    Example:
        >>> hook = NanTensorHook("loss", fail_on_nan_loss=False)
        >>> hook.loss_tensor
        'loss'
    """

    def __init__(self, loss_tensor: str = "loss", fail_on_nan_loss: bool = True) -> None:
        self.loss_tensor = loss_tensor
        self.fail_on_nan_loss: bool = flag("NanTensorHook", "fail_on_nan_loss", fail_on_nan_loss)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        """Fetch the loss."""
        return SessionRunArgs(self.loss_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Check the loss; all ranks fail or end together if it is NaN on one of them."""
        loss = run_values.results
        is_nan = loss is not None and bool(np.isnan(loss).any())
        if not any_rank(is_nan):
            return
        if self.fail_on_nan_loss:
            raise NanLossDuringTrainingError(
                f"{self.loss_tensor!r} is NaN; lower the learning rate, clip the gradients, look for NaN in the data, "
                "or skip such steps with NanGuardHook"
            )
        run_context.session.runner.logger.warning("NanTensorHook: %r is NaN; the run ends", self.loss_tensor)
        run_context.request_stop()


@final
@HOOKS.register
class LoggingTensorHook(TimedHook):
    """Log values at the first step, and then every N iterations or seconds, on rank 0: ``loss = 0.5 (2.031 sec)``.

    The runner's logger gets the lines at level INFO, which Python hides unless logging is configured.

    Args:
        tensors: Names of values, or a mapping from labels to names.
        every_n_iter: The iterations between two lines.
        every_n_secs: The seconds between two lines. Give either iterations or seconds.

    Example:
        >>> hook = LoggingTensorHook({"loss": "loss", "weights": "param:0.weight"}, every_n_iter=100)
        >>> hook.tensors
        {'loss': 'loss', 'weights': 'param:0.weight'}
    """

    def __init__(
        self,
        tensors: Mapping[str, str] | Sequence[str],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
    ) -> None:
        super().__init__(every_n_iter, every_n_secs)
        if isinstance(tensors, str):
            raise HookTypeError(f"LoggingTensorHook({brief(tensors)}): give a list of names, or a mapping to names")
        named = {name: name for name in tensors}
        # TensorFlow logs a mapping in the order of its keys, and a list in its own order.
        self.tensors: dict[str, str] = dict(sorted(tensors.items())) if isinstance(tensors, Mapping) else named
        mapped(list(self.tensors.values()), str, "LoggingTensorHook")  # raises for a value that is not a name

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the values, if logging is due."""
        runner = run_context.session.runner
        return SessionRunArgs(self.tensors) if runner.rank == 0 and self.is_due(runner.iter) else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the values, if they were fetched."""
        if run_values.results is None:
            return
        runner = run_context.session.runner
        seconds = self.record(runner.iter)
        values: dict[str, object] = run_values.results
        line = ", ".join(
            f"{tag} = {f'{value:.6g}' if isinstance(value, float) else value}" for tag, value in values.items()
        )
        runner.logger.info("%s", line if seconds is None else f"{line} ({seconds:.3f} sec)")
