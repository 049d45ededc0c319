"""Checkpoints of a session, and who wants to know of them."""

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

from ._basic import Stateful
from ._protocol import SessionRunArgs, SessionRunContext, SessionRunValues
from ._timers import SecondOrStepTimer

if TYPE_CHECKING:
    from aspecthook.training.loop._run import Run

    from ._session import Coordinator, Session


class CheckpointSaverListener:
    """Who is told of the checkpoints that a `CheckpointSaverHook` saves: override what you need.

    Example:
        >>> class StopWhenGood(CheckpointSaverListener):
        ...     def after_save(self, session, global_step_value):
        ...         return session.run("loss") < 0.1
    """

    def begin(self) -> None:
        """Called before the session is made."""

    def before_save(self, session: Session, global_step_value: int) -> None:
        """Called before each checkpoint."""

    # Any: TensorFlow takes whatever is true.
    def after_save(self, session: Session, global_step_value: int) -> Any:
        """Called when a checkpoint stands; answers whether to end the run."""

    def end(self, session: Session, global_step_value: int) -> None:
        """Called when the run has ended."""


@final
@HOOKS.register
class CheckpointSaverHook(Stateful):
    """Save checkpoints: when the session is made, every so many steps or seconds since the last, and at the end.

    Each is saved when all other hooks have acted on the step, so that a run that is resumed from it is the run that was
    never ended. At the end one is saved if the step is another than that of the last.

    Args:
        checkpoint_dir: The folder.
        save_secs: Save every so many seconds.
        save_steps: Save every so many steps of the optimizer; give the one or the other.
        checkpoint_basename: What the files are called: ``model.ckpt-300.safetensors``.
        listeners: Who is told; if the ``after_save`` of one gives what is true, the run ends.
        max_keep: How many files to keep; None for all. The oldest goes when the new one stands.

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
        """Give the file of a step."""
        return self.checkpoint_dir / f"{self._basename}-{step}.safetensors"

    def _reset(self) -> None:
        self._timer.reset()

    def begin(self) -> None:
        """Tell the listeners."""
        super().begin()
        for listener in self.listeners:
            listener.begin()

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Save what the session begins with, unless it is there already, since the run was resumed from it."""
        resumed = self._loaded
        super().after_create_session(session, coord)
        step: int = session.run("global_step")
        if not resumed:  # a run that is resumed saves when it would have
            self._timer.update_last_triggered_step(step)
        if not (resumed and self.path(step).name in self._files and is_checkpoint(self.path(step))):
            self._save(session, step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:  # noqa: ARG002
        """Ask for the number of the step."""
        return SessionRunArgs("global_step")

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save what is due."""
        session: Session = run_context.session
        if not self._is_due(run_values.results + 1):
            return
        step: int = session.run("global_step")
        if not self._is_due(step):
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
        """Save what the session ends with."""
        step: int = session.run("global_step")
        if step != self._timer.last_triggered_step():
            self._timer.update_last_triggered_step(step)
            self._save(session, step)
        if session.runner.rank == 0:
            for listener in self.listeners:
                listener.end(session, step)

    def _save(self, session: Session, step: int) -> bool:
        """Save a checkpoint; say whether a listener wants the run to end. Rank 0 writes, and has listeners."""
        runner = session.runner
        listeners = self.listeners if runner.rank == 0 else []
        for listener in listeners:
            listener.before_save(session, step)
        self._put(runner, self.path(step))
        # All of them are told, also after one that wants to end the run.
        wishes = [bool(listener.after_save(session, step)) for listener in listeners]
        return any(wishes)

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
        """Give when it has saved last, and the files that are kept."""
        return {"timer": self._timer.state_dict(), "files": list(self._files)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given.

        Raises:
            TrainingError: It names files outside its folder, which would be removed some day.
        """
        odd = [name for name in state["files"] if not isinstance(name, str) or PurePath(name).name != name]
        if odd:
            raise TrainingError(
                f"the state of the CheckpointSaverHook has the file {brief(odd[0])}, which is outside its folder; no "
                "run has saved that, load another checkpoint"
            )
        self._files, self._loaded = list(state["files"]), True
        self._timer.load_state_dict(state["timer"])
