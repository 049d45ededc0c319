"""The hook that saves checkpoints of a session, and the base of its listeners."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

from aspecthook.training._options import optional_number
from aspecthook.training._ranks import broadcast
from aspecthook.training.checkpoint._folder import is_checkpoint
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._kept_files import KeptFiles, check_names

from ._hooks import TimedHook
from ._protocol import Session, SessionRunContext, SessionRunValues


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
class CheckpointSaverHook(TimedHook):
    """Save checkpoints: when the session is created, every N steps or seconds since the last one, and at the end.

    A checkpoint is saved after all other hooks have acted on the step, so that a resumed run continues as if it had
    never ended. At the end none is saved if the last one is of the same step.

    Args:
        checkpoint_dir: The folder.
        save_secs: The seconds between two checkpoints.
        save_steps: The steps of the optimizer between two checkpoints. Give one of the two.
        listeners: Listeners to the checkpoints. If ``after_save`` of one returns a true value, the run ends.
        max_keep: How many files to keep; None for all. The oldest is removed when the new one is written.

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
        listeners: Iterable[CheckpointSaverListener] = (),
        max_keep: int | None = 5,
    ) -> None:
        super().__init__(save_steps, save_secs)
        self.checkpoint_dir: Path = Path(checkpoint_dir)
        self.listeners: list[CheckpointSaverListener] = list(listeners)
        self.max_keep: int | None = optional_number("CheckpointSaverHook", "max_keep", max_keep, 1)
        self._files = KeptFiles(self.checkpoint_dir, self.max_keep)

    def path(self, step: int) -> Path:
        """Return the file of a step."""
        return self.checkpoint_dir / f"model.ckpt-{step}.safetensors"

    def begin(self) -> None:
        """Restart the timer, and call `begin` of the listeners."""
        super().begin()
        for listener in self.listeners:
            listener.begin()

    def after_create_session(self, session: Session, coord: Session) -> None:
        """Save the state at the beginning, unless the run was resumed from a checkpoint of the same step."""
        resumed = self._loaded
        super().after_create_session(session, coord)
        step: int = session.run("global_step")
        if not resumed:  # a resumed run saves at the steps at which it would have saved without the interruption
            self.acts(step)
        if not (resumed and self.path(step).name in self._files.names and is_checkpoint(self.path(step))):
            self._save(session, step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:  # noqa: ARG002
        """Save a checkpoint if it is due."""
        session: Session = run_context.session
        step = session.runner.progress.step
        due = self.is_due(step)
        if self.every_secs is not None:
            due = broadcast(due)  # the clocks of the ranks differ
        if not due:
            return
        self.acts(step)

        def save() -> None:
            if broadcast(self._save(session, step)):
                session.runner.request_stop()

        session.runner.after_stage(save)

    def end(self, session: Session) -> None:
        """Save the final state."""
        step: int = session.run("global_step")
        if self._last is None or step != self._last[0]:
            self.acts(step)
            self._save(session, step)
        if session.runner.rank == 0:
            for listener in self.listeners:
                listener.end(session, step)

    def _save(self, session: Session, step: int) -> bool:
        """Save a checkpoint, and return whether a listener wants the run to end; only rank 0 has listeners."""
        runner = session.runner
        listeners = self.listeners if runner.rank == 0 else []
        for listener in listeners:
            listener.before_save(session, step)
        self._files.save(runner, self.path(step).name)
        # A list, so that all of them are called, also after one that ends the run.
        ends = [bool(listener.after_save(session, step)) for listener in listeners]
        return any(ends)

    def state_dict(self) -> dict[str, Any]:
        """Return when the hook has saved last, and the files that are kept."""
        return {**super().state_dict(), "files": list(self._files.names)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the names of the files saved, and when the last one was."""
        check_names(state["files"], "CheckpointSaverHook")
        self._files.names = list(state["files"])
        super().load_state_dict(state)
