"""The hook that saves checkpoints of a session, and the base of its listeners."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import whole_number
from aspecthook.training._ranks import broadcast
from aspecthook.training.checkpoint._format import is_checkpoint
from aspecthook.training.hooks._hook import HOOKS

from ._protocol import SessionRunContext, SessionRunValues
from ._timers import SecondOrStepTimer, Timed

if TYPE_CHECKING:
    from aspecthook.training.loop._run import Run

    from ._session import Coordinator, Session


class CheckpointSaverListener:
    """The base of listeners to a `CheckpointSaverHook`: override what you need.

    Example:
        >>> class StopWhenGood(CheckpointSaverListener):
        ...     def after_save(self, session, global_step_value):
        ...         return session.run("loss") < 0.1
    """

    def begin(self) -> None:
        """Called before the session is created."""

    def before_save(self, session: Session, global_step_value: int) -> None:
        """Called before each checkpoint."""

    # Any: TensorFlow takes whatever is true.
    def after_save(self, session: Session, global_step_value: int) -> Any:
        """Called when a checkpoint is written; returns whether to end the run."""

    def end(self, session: Session, global_step_value: int) -> None:
        """Called when the run has ended."""


@final
@HOOKS.register
class CheckpointSaverHook(Timed):
    """Save checkpoints: when the session is created, every so many steps or seconds since the last one, and at the end.

    Each is saved when all other hooks have acted on the step, so that a run that is resumed from it continues as if it
    had never ended. At the end it saves unless the last checkpoint is of the same step.

    Args:
        checkpoint_dir: The folder.
        save_secs: Save every so many seconds.
        save_steps: Save every so many steps of the optimizer. Give either of the two.
        checkpoint_basename: The name of the files before the step: ``model.ckpt-300.safetensors``.
        listeners: Listeners to the checkpoints. If ``after_save`` of one returns a true value, the run ends.
        max_keep: How many files to keep; None for all. The oldest is removed when the new one is written.

    Raises:
        HookOptionError: Not exactly one of them is given, or it is not above 0.

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
        checkpoint_basename: str = "model.ckpt",
        listeners: Iterable[CheckpointSaverListener] = (),
        max_keep: int | None = 5,
    ) -> None:
        if not checkpoint_basename or PurePath(checkpoint_basename).name != checkpoint_basename:
            raise HookOptionError(
                f"CheckpointSaverHook(checkpoint_basename={brief(checkpoint_basename)}): give a name without a folder"
            )
        self.checkpoint_dir = Path(checkpoint_dir)
        self.listeners = list(listeners)
        self.max_keep = None if max_keep is None else whole_number("CheckpointSaverHook", "max_keep", max_keep, 1)
        self._basename = checkpoint_basename
        self._timer = SecondOrStepTimer(save_secs, save_steps, who="CheckpointSaverHook")
        self._files: list[str] = []

    def path(self, step: int) -> Path:
        """Return the file of a step."""
        return self.checkpoint_dir / f"{self._basename}-{step}.safetensors"

    def begin(self) -> None:
        """Start afresh, and call `begin` of the listeners."""
        super().begin()
        for listener in self.listeners:
            listener.begin()

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Save the beginning of the session, unless the run was resumed from a checkpoint of it."""
        resumed = self._loaded
        super().after_create_session(session, coord)
        step: int = session.run("global_step")
        if not resumed:  # a resumed run saves when it would have saved without the interruption
            self._timer.update_last_triggered_step(step)
        if not (resumed and self.path(step).name in self._files and is_checkpoint(self.path(step))):
            self._save(session, step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save a checkpoint if it is due."""
        session: Session = run_context.session
        step = self._due_step(run_context, run_values)
        if step is None:
            return
        self._timer.update_last_triggered_step(step)

        def save() -> None:
            if broadcast(self._save(session, step)):
                session.runner.request_stop()

        session.runner.after_stage(save)

    def _is_due(self, step: int) -> bool:
        due = self._timer.should_trigger_for_step(step)
        return due if self._timer.every_secs is None else broadcast(due)  # clocks of ranks differ

    def end(self, session: Session) -> None:
        """Save the end of the session."""
        step: int = session.run("global_step")
        if step != self._timer.last_triggered_step():
            self._timer.update_last_triggered_step(step)
            self._save(session, step)
        if session.runner.rank == 0:
            for listener in self.listeners:
                listener.end(session, step)

    def _save(self, session: Session, step: int) -> bool:
        """Save a checkpoint, and return whether a listener wants the run to end. Rank 0 writes, and has listeners."""
        runner = session.runner
        listeners = self.listeners if runner.rank == 0 else []
        for listener in listeners:
            listener.before_save(session, step)
        self._put(runner, self.path(step))
        # All of them are called, also after one that ends the run.
        ends = [bool(listener.after_save(session, step)) for listener in listeners]
        return any(ends)

    def _put(self, runner: Run, path: Path) -> None:
        before = list(self._files)
        self._files = [*(name for name in before if name != path.name), path.name]
        try:
            runner.save_checkpoint(path)
        except BaseException:
            self._files = before
            raise
        runner.logger.info("saved %s", path)
        while self.max_keep is not None and len(self._files) > self.max_keep:
            self._remove(runner, self.checkpoint_dir / self._files.pop(0))

    def _remove(self, runner: Run, path: Path) -> None:
        if runner.rank != 0 or not is_checkpoint(path):
            return
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            runner.logger.warning("the old checkpoint %s could not be removed: %s", path, error.strerror)

    def state_dict(self) -> dict[str, Any]:
        """Return when it has saved last, and the files that are kept."""
        return {**super().state_dict(), "files": list(self._files)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` has returned.

        Raises:
            TrainingError: It names files outside the folder, which the hook would remove some day.
        """
        odd = [name for name in state["files"] if not isinstance(name, str) or PurePath(name).name != name]
        if odd:
            raise TrainingError(
                f"the state of the CheckpointSaverHook names the file {brief(odd[0])}, which is outside its folder; "
                "no run saves such a state, so load another checkpoint"
            )
        self._files = list(state["files"])
        super().load_state_dict(state)
