"""Hooks that save checkpoints, keep the newest few and the best one, and load one before the run.

A file is removed only after the one that replaces it has been written, and only if this run has saved it. A checkpoint
contains the state of the hook that saves it, and there it is listed among the files that the hook keeps. So a resumed
run keeps, replaces and removes the same files as a run that was never interrupted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias, final

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, one_of, optional_number, whole_number
from aspecthook.training._ranks import broadcast
from aspecthook.training.checkpoint._files import folder_of, own_path, path_of, unused_path
from aspecthook.training.checkpoint._folder import newest, saved_by
from aspecthook.training.loop._runner import Runner

from ._hook import HOOKS, Hook
from ._monitor import RULES, Monitor, Rule


@final
class KeptFiles:
    """The checkpoints that a hook keeps in a folder: all files that it has saved, or the newest `most` of them.

    Attributes:
        names: The names of the files, the oldest first.
        mark: A number that the hook keeps with the newest file: the score of the best checkpoint, or the iteration of
            the last one.
        due: The name and the mark of the file that is to be saved when the stage is over. Another hook may save a
            checkpoint before that, and a run may resume from that one, so the state includes the file that is due.
    """

    __slots__ = ("_most", "_with_optimizer", "due", "folder", "mark", "names")

    def __init__(
        self, folder: Path | None, most: int | None, *, mark: float | None = None, with_optimizer: bool = True
    ) -> None:
        self.folder: Path = Path() if folder is None else folder
        self._most, self._with_optimizer = most, with_optimizer
        self.names: list[str] = []
        self.mark: float | None = mark
        self.due: tuple[str, float | None] | None = None

    def open(self, run: Runner, folder: Path) -> None:
        """Set the folder; remove old files and save the one that is due, if a kill prevented that."""
        self.folder = folder
        self.prune(run)
        self.save_due(run)

    def plan(self, run: Runner, name: str, mark: float) -> None:
        """Save a checkpoint when the stage and all its hooks are over."""
        self.due = name, mark
        run.after_stage(lambda: self.save_due(run))

    def save_due(self, run: Runner) -> None:
        """Save the file that is due, if there is one."""
        due, self.due = self.due, None  # first, so that the state in the file does not have it as due
        if due is not None:
            self.save(run, *due)

    def save(self, run: Runner, name: str, mark: float | None = None) -> None:
        """Save a checkpoint, and remove the oldest file if there are too many, once this one has been written."""
        # The file is on the list before it is written, since its checkpoint has the list.
        before = self.names, self.mark
        self.names, self.mark = [*(one for one in self.names if one != name), name], mark
        path = own_path(self.folder, name)
        try:
            if run.rank == 0 and path.exists() and saved_by(path) not in (None, "", run.identity):
                path.rename(unused_path(path))  # another run has saved it, and would lose it
            if self._with_optimizer:
                run.save_checkpoint(path)
            else:
                run.write_checkpoint(path, {**run.state_dict(), "optimizer": None})
        except BaseException:
            self.names, self.mark = before
            raise
        run.logger.info("saved %s", path)
        self.prune(run)

    def prune(self, run: Runner) -> None:
        """Remove the oldest files. One that cannot be removed stays on the list, to be tried again."""
        for name in self.names[: -self._most] if self._most is not None else ():
            path = self.folder / name
            # Only a checkpoint of this run is removed: the user may have put another file in its place.
            if run.rank == 0 and saved_by(path) in ("", run.identity):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    run.logger.warning("the old checkpoint %s could not be removed: %s", path, error.strerror)
                    continue
            self.names.remove(name)

    def state_dict(self) -> dict[str, Any]:
        return {"files": list(self.names), "mark": self.mark, "due": self.due}

    def load_state_dict(self, who: str, state: Mapping[str, Any]) -> None:
        """Restore the state; refuse files outside the folder, since the hook removes the files on its list."""
        names, due = list(state["files"]), state["due"]
        for name in names if due is None else [*names, due[0]]:
            if not isinstance(name, str) or name in ("", "..") or PurePath(name).name != name:
                raise TrainingError(
                    f"the state of the {who} has the file {brief(name)}, which is outside its folder; no run saves "
                    "such a state, so load another checkpoint"
                )
        self.names, self.mark = names, state["mark"]
        self.due = None if due is None else tuple(due)


EveryN: TypeAlias = Callable[[Runner, int, int | None], bool]  # `every_n_epochs` or `every_n_iters`
_SEPARATORS = re.compile(r"[^\w@.+-]")  # metrics of mmengine such as `coco/bbox_mAP` are not file names


@HOOKS.register
class CheckpointHook(Hook):
    """Save a checkpoint every few epochs or iterations, at the best score and at the end, and remove old checkpoints.

    Args:
        interval: Save every `interval` epochs or iterations, and when the run ends; 0 for never.
        by_epoch: Whether to count epochs, with files such as ``epoch_3.safetensors``, or iterations, with files such as
            ``iter_300.safetensors``. A run that ends within an epoch always leaves an ``iter_`` file.
        max_keep: The number of files to keep, not counting the best one; None for all. The oldest file is removed once
            a new one has been written.
        save_best: The name of a score that validations log, such as ``"accuracy"``, or ``"auto"`` for the first one. If
            a validation has the best score so far, a file such as ``best_val_accuracy_epoch_3.safetensors`` replaces
            the last best one. An unknown name raises an error after the first validation, since the names of the scores
            are known only then. A run without a validation ends with a warning.
        rule: Whether ``"greater"`` or ``"less"`` is better. By default the name decides, if it contains a word such as
            ``acc`` or ``loss``.
        save_optimizer: Whether to save the optimizer's state. Without it you can load the model, but not resume the
            run.
        out_dir: The folder for the files; by default the run's ``work_dir``.

    Example:
        >>> hook = CheckpointHook(interval=5, max_keep=3, save_best="val_accuracy")
        >>> hook.best, hook.best_score
        (None, None)
        >>> CheckpointHook(save_best="f1")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ...; give rule="greater" or rule="less"
    """

    def __init__(
        self,
        interval: int = 1,
        *,
        by_epoch: bool = True,
        max_keep: int | None = None,
        save_best: str | Literal[False] | None = None,
        rule: Rule | None = None,
        save_optimizer: bool = True,
        out_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        who = type(self).__name__
        self.interval: int = whole_number(who, "interval", interval, 0)
        self.by_epoch: bool = flag(who, "by_epoch", by_epoch)
        self.max_keep: int | None = optional_number(who, "max_keep", max_keep, 1)
        self.save_best: str | None = None if save_best is False else save_best  # TOML has no None
        self.rule: Rule | None = None if rule is None else one_of(who, "rule", rule, RULES)
        flag(who, "save_optimizer", save_optimizer)
        self.out_dir: Path | None = None if out_dir is None else path_of(who, out_dir, "out_dir")
        self._watched: Monitor | None = None
        if self.save_best is not None:
            self._watched = Monitor(f"{who}(save_best={save_best!r})", self.save_best, self.rule)
        self._best = KeptFiles(self.out_dir, 1, with_optimizer=save_optimizer)  # its mark is the best score
        # Its mark is the iteration at which the run was last saved; None if a validation has changed it since.
        self._files = KeptFiles(self.out_dir, self.max_keep, mark=0, with_optimizer=save_optimizer)

    @property
    def best(self) -> Path | None:
        """The file of the best checkpoint."""
        return self._best.folder / self._best.names[-1] if self._best.names else None

    @property
    def best_score(self) -> float | None:
        """The best score so far."""
        return self._best.mark if self._best.due is None else self._best.due[1]

    def before_run(self, runner: Runner) -> None:
        """Find the folder, and complete the saving and removing that a kill prevented."""
        if self.interval or self._watched is not None:
            folder = self.out_dir or folder_of(runner.work_dir, type(self).__name__, "out_dir=...")
            for files in (self._best, self._files):
                files.open(runner, folder)

    def after_train_epoch(self, runner: Runner) -> None:
        """Save if a checkpoint is due. After an epoch that ended early, `after_run` saves instead."""
        if self.by_epoch and runner.progress.inner_iter == 0:
            self.act(runner, self.every_n_epochs)

    def after_train_iter(self, runner: Runner) -> None:
        """Save if a checkpoint is due."""
        if not self.by_epoch:
            self.act(runner, self.every_n_iters)

    def act(self, runner: Runner, is_due: EveryN) -> None:
        """Save if a checkpoint is due; a subclass does something else."""
        if is_due(runner, self.interval, None):
            self._files.plan(runner, self._name(runner), runner.progress.iter)

    def after_val_epoch(self, runner: Runner) -> None:
        """Save if the score is the best so far; a validation outside a run does not count."""
        if runner.running:
            self._files.mark = None  # the validation has changed the state of hooks, which the last file lacks
            self.judge(runner)

    def judge(self, runner: Runner) -> None:
        """Plan to save the best checkpoint, if the score of the newest validation is the best so far."""
        if self._watched is None:
            return
        score = self._watched.read(runner.logs)
        if self._watched.exceeds(score, self.best_score):
            name = self._watched.name
            runner.logger.info("%s is %g, the best so far", name, score)
            self._best.plan(runner, f"best_{_SEPARATORS.sub('_', name)}_{self._name(runner)}", score)

    def after_run(self, runner: Runner) -> None:
        """Save the last checkpoint, and warn if there was no score."""
        if self.interval and self._files.mark != runner.progress.iter:
            self._files.save(runner, self._name(runner), runner.progress.iter)
        if self._watched is not None and not self._watched.found and self.best_score is None:
            runner.logger.warning("%s: no best checkpoint was saved, since there was no validation", self._watched.who)

    def _name(self, runner: Runner) -> str:
        """Return the file name of a checkpoint of this moment."""
        if self.by_epoch and runner.progress.inner_iter == 0:
            return f"epoch_{runner.progress.epoch}.safetensors"
        return f"iter_{runner.progress.iter}.safetensors"

    def state_dict(self) -> dict[str, Any]:
        return {"last": self._files.state_dict(), "best": self._best.state_dict(), "save_best": self.save_best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state; the best checkpoint only if `save_best` is still the same."""
        self._files.load_state_dict(type(self).__name__, state["last"])
        if state["save_best"] == self.save_best:
            self._best.load_state_dict(type(self).__name__, state["best"])


@HOOKS.register
class CheckpointLoaderHook(Hook):
    """Resume the run from a checkpoint before it begins.

    With ``missing_ok=True``, the same script starts a run and continues it after a kill. If the runner runs several
    times, the hook loads the checkpoint only once, before the first run.

    Args:
        path: A file, or a folder, from which the checkpoint with the most iterations is loaded: see `newest`.
        missing_ok: Whether to start from scratch if there is no such file, or no checkpoint in the folder. A damaged
            file always raises an error.

    Example:
        >>> CheckpointLoaderHook("runs/digits", missing_ok=True).priority
        'HIGHEST'
    """

    priority: int | str = "HIGHEST"  # before all hooks that read where the run is

    def __init__(self, path: str | os.PathLike[str], *, missing_ok: bool = False) -> None:
        self.path: Path = path_of("CheckpointLoaderHook", path)
        self.missing_ok: bool = flag("CheckpointLoaderHook", "missing_ok", missing_ok)
        self._done = False

    def before_run(self, runner: Runner) -> None:
        """Load the checkpoint."""
        if self._done:
            return
        file = newest(self.path) if self.path.is_dir() else self.path if self.path.exists() else None
        file = broadcast(file)  # the ranks may see a network file system at different moments
        missing = f"there is no checkpoint {'in ' if self.path.is_dir() else ''}{self.path}"
        if file is not None:
            runner.resume(file)
            runner.logger.info("loaded %s; the run continues after iteration %d", file, runner.iter)
        elif self.missing_ok:
            runner.logger.info("%s; starting from scratch", missing)
        else:
            raise TrainingError(
                f"CheckpointLoaderHook: {missing}; give another path, or missing_ok=True to start from scratch"
            )
        self._done = True
