"""Hooks that save checkpoints, keep the best one, and load one before the run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from aspecthook._core.law.answers import Args
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, one_of, optional_number, whole_number
from aspecthook.training._ranks import broadcast
from aspecthook.training.checkpoint._files import folder_of, path_of
from aspecthook.training.checkpoint._folder import newest
from aspecthook.training.loop._logs import VAL
from aspecthook.training.loop._run import Run

from ._hook import HOOKS, Hook
from ._kept_files import KeptFiles, check_names
from ._monitor import RULES, Monitor, Rule, find_score, score_of

_SEPARATORS = re.compile(r"[^\w@.+-]")  # metrics of mmengine such as `coco/bbox_mAP` are not file names


class BestCheckpoint(Hook):
    """The part of a hook that keeps the best checkpoint: by the score `save_best`, if that is given.

    A score is judged at once, and the file is saved when the stage is over, since all hooks of the stage have run then.
    Another hook may save in the same moment and before this one, and a run may be resumed from its file; so the score
    and the names of the files that are due are in the state before they are saved.
    """

    def __init__(
        self,
        save_best: str | Literal[False] | None,
        rule: Rule | None,
        out_dir: str | os.PathLike[str] | None,
        *,
        asynchronous: bool = False,
    ) -> None:
        who = type(self).__name__
        self.save_best: str | None = None if save_best is False else save_best  # TOML has no None
        self._who = f"{who}(save_best={save_best!r})"
        self._rule: Rule | None = None if rule is None else one_of(who, "rule", rule, RULES)
        self.watched: Monitor | None = None
        if self.save_best not in (None, "auto"):
            self.watched = Monitor(self._who, self.save_best, self._rule)
        self.out_dir: Path | None = None if out_dir is None else path_of(who, out_dir, "out_dir")
        self.asynchronous: bool = flag(who, "asynchronous", asynchronous)
        self._key: str | None = None  # the name in the logs, once a score was found there
        self._best = KeptFiles(self.out_dir, 1)
        self._before: float | None = None  # the score that was the best before the one whose file is due

    @property
    def best(self) -> Path | None:
        """The file of the best checkpoint."""
        return self._best.path(self._best.names[-1]) if self._best.names else None

    @property
    def best_score(self) -> float | None:
        """The best score so far."""
        return self.watched.best if self.watched is not None and (self._best.names or self._best.due) else None

    def _open(self, runner: Run, *kept: KeptFiles) -> None:
        """Find the folder, remove the files that a killed run had no time to remove, and save those that it owes."""
        folder = (
            self.out_dir if self.out_dir is not None else folder_of(runner.work_dir, type(self).__name__, "out_dir=...")
        )
        for files in (self._best, *kept):
            files.folder = folder
            files.prune(runner)
        # Not in a thread: when the run takes its folder, it removes files that are half written.
        self.save_due(runner, asynchronous=False)

    def judge(self, runner: Run, name: str, *, validated: bool) -> None:
        """Note that the best checkpoint is due, if a score has been logged that is the best so far."""
        wanted = self.save_best
        if wanted is None:
            return
        if self._key is None:
            if validated:
                self._key = find_score(self._who, wanted, runner.logs)
            elif wanted not in runner.logs or wanted.startswith(VAL) or any(row[0] == "val" for row in runner.workflow):
                return  # the score is that of a validation, which is yet to come
            else:
                self._key = wanted
        if self.watched is None:
            self.watched = Monitor(self._who, self._key, self._rule)
        self.watched.name = self._key  # which has the prefix of the validation, if there is one
        score, before = score_of(self._who, self._key, runner.logs), self.watched.best
        if self.watched.update(score):
            if self._best.due is None:
                self._before = before
            self._best.due = f"best_{_SEPARATORS.sub('_', self._key)}_{name}"
            runner.logger.info("%s is %g, the best so far", self._key, score)
            runner.after_stage(lambda: self.save_due(runner, asynchronous=self.asynchronous))

    def save_due(self, runner: Run, *, asynchronous: bool) -> None:
        """Save the best checkpoint, if it is due."""
        runner.finish_saving()  # if a file before has failed, what was noted of it is taken back first
        watched, before = self.watched, self._before

        def undo() -> None:
            if watched is not None and before is not None:
                watched.best = before

        self._best.save_due(runner, undo, asynchronous=asynchronous)

    def after_run(self, runner: Run) -> None:
        """Wait for the last file, and log a warning if there was no score."""
        runner.finish_saving()
        if self.save_best is not None and self._key is None:
            runner.logger.warning(
                "%s: no best checkpoint was saved, since no score of that name was logged; the logs have %s",
                self._who,
                ", ".join(runner.logs) or "nothing",
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the best score and its file."""
        return {
            "save_best": self.save_best,
            "key": self._key,
            "rule": None if self.watched is None else self.watched.rule,
            "best_score": self.best_score,
            "best_files": list(self._best.names),
            "best_due": self._best.due,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, if `save_best` and its rule are still the same."""
        check_names(state["best_files"], type(self).__name__)
        rule = self._rule if self.watched is None else self.watched.rule
        if state["save_best"] != self.save_best or rule not in (state["rule"], None):
            return
        self._best.load(type(self).__name__, state["best_files"], state["best_due"])
        self._key = state["key"]
        if state["rule"] is not None:
            self.watched = Monitor(self._who, state["key"] or state["save_best"], state["rule"])
            if state["best_score"] is not None:
                self.watched.best = state["best_score"]


@HOOKS.register
class CheckpointHook(BestCheckpoint):
    """Save a checkpoint every few epochs or iterations, the last one and the best one, and remove old ones.

    Args:
        interval: Save every `interval` epochs or iterations; 0 for never.
        by_epoch: Count epochs, and name the files ``epoch_3.safetensors``; otherwise iterations:
            ``iter_300.safetensors``. A run that ends within an epoch always leaves an ``iter_`` file.
        max_keep: The number of files to keep, not counting the best one; None for all. The oldest is removed when a
            new one has been written.
        save_best: The name of the score in the run's ``logs``, such as ``"val_accuracy"``. If the run validates,
            ``"accuracy"`` means that too, and ``"auto"`` means the first score that a validation logs. Scores of
            validations are judged after each of them, training scores whenever a checkpoint may be due. An unknown one
            is an error after the first validation, which alone shows which there are; without validations, a warning
            after the run. The file ``best_val_accuracy_epoch_3.safetensors`` replaces the one before it.
        rule: Whether ``"greater"`` or ``"less"`` is better; known by a name such as ``acc`` or ``loss`` unless given.
        save_optimizer: Save the optimizer's state too. Without it the model can be loaded, but the run not resumed.
        out_dir: The folder; the run's ``work_dir`` unless given.
        save_last: Save when the run ends, unless that checkpoint exists already.
        asynchronous: Training waits only until the state is copied, and a thread writes the files, in the same order.
            An error is raised after an iteration, or at the end of the run, which waits for the last file. The memory
            has to hold up to two copies of the state.

    Attributes:
        watched: The `Monitor` of the score; None without `save_best`, and for ``"auto"`` before the first validation.

    Example:
        >>> hook = CheckpointHook(interval=5, max_keep=3, save_best="val_accuracy")
        >>> hook.kept, hook.best, hook.best_score
        ((), None, None)
        >>> CheckpointHook(save_best="f1")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ...; give rule="greater" or rule="less"
    """

    priority: int | str = "NORMAL"  # any would do, since the file is written after all hooks of the stage

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
        save_last: bool = True,
        asynchronous: bool = False,
    ) -> None:
        super().__init__(save_best, rule, out_dir, asynchronous=asynchronous)
        self.interval: int = whole_number("CheckpointHook", "interval", interval, 0)
        self.by_epoch: bool = flag("CheckpointHook", "by_epoch", by_epoch)
        self.max_keep: int | None = optional_number("CheckpointHook", "max_keep", max_keep, 1)
        self.save_optimizer: bool = flag("CheckpointHook", "save_optimizer", save_optimizer)
        self.save_last: bool = flag("CheckpointHook", "save_last", save_last)
        self._files = KeptFiles(self.out_dir, self.max_keep)
        # The iteration at which the run was last saved; None if a validation has changed it since.
        self._saved_at: int | None = 0

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files that are kept, the oldest first, without the best one."""
        return tuple(map(self._files.path, self._files.names))

    def before_run(self, runner: Run) -> None:
        """Find the folder, and finish what a killed run had no time for."""
        self._open(runner, self._files)

    def after_train_epoch(self, runner: Run) -> None:
        """Save if it is due; not after an epoch that was ended early, which `after_run` saves."""
        if self.by_epoch and runner.progress.inner_iter == 0:
            self._plan(runner, due=self.every_n_epochs(runner, self.interval))

    def after_train_iter(self, runner: Run) -> None:
        """Save if it is due."""
        if not self.by_epoch and self.every_n_iters(runner, self.interval):
            self._plan(runner, due=True)

    def after_val_epoch(self, runner: Run) -> None:
        """Save if the score is the best so far; a validation outside a run does not count."""
        if runner.running:
            self._saved_at = None  # the validation has changed the state of hooks, which the last file lacks
            self.judge(runner, file_name(runner, self.by_epoch), validated=True)

    def after_run(self, runner: Run) -> None:
        """Save the last checkpoint."""
        if self.save_last and self._saved_at != runner.progress.iter:
            self._files.due = file_name(runner, self.by_epoch)
            self.save_due(runner, asynchronous=self.asynchronous)
        super().after_run(runner)

    def before_save_checkpoint(self, path: Path, checkpoint: dict[str, Any]) -> Args | None:
        """Leave the optimizer out, unless `save_optimizer` is set."""
        if self.save_optimizer or path not in (self._files.saving, self._best.saving):
            return None
        return Args(checkpoint={**checkpoint, "optimizer": None})

    def _plan(self, runner: Run, *, due: bool) -> None:
        name = file_name(runner, self.by_epoch)
        self.judge(runner, name, validated=False)
        if due:
            self._files.due = name
            runner.after_stage(lambda: self.save_due(runner, asynchronous=self.asynchronous))

    def save_due(self, runner: Run, *, asynchronous: bool) -> None:
        """Save the best checkpoint, then the one of this moment, if they are due."""
        super().save_due(runner, asynchronous=asynchronous)
        if self._files.due is None:
            return
        before, self._saved_at = self._saved_at, runner.progress.iter

        def undo() -> None:
            self._saved_at = before

        self._files.save_due(runner, undo, asynchronous=asynchronous)

    def state_dict(self) -> dict[str, Any]:
        """Return the files that are kept, those that are due, and the best score."""
        own = {"files": list(self._files.names), "due": self._files.due, "saved_at": self._saved_at}
        return {**own, **super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._files.load("CheckpointHook", state["files"], state["due"])
        self._saved_at = state["saved_at"]


def file_name(runner: Run, by_epoch: bool) -> str:
    """Return the file name of a checkpoint of this moment."""
    if by_epoch and runner.progress.inner_iter == 0:
        return f"epoch_{runner.progress.epoch}.safetensors"
    return f"iter_{runner.progress.iter}.safetensors"


@HOOKS.register
class CheckpointLoaderHook(Hook):
    """Load a checkpoint before the run begins; if the runner runs several times, before the first.

    Args:
        path: A file, or a folder whose furthest checkpoint is loaded: see `newest`.
        resume: Resume the run; otherwise load only the parameters of the model.
        missing_ok: Start from scratch if there is no such file, or no checkpoint in the folder. A damaged file is
            always an error.

    Example:
        >>> hook = CheckpointLoaderHook("runs/digits", missing_ok=True)
        >>> hook.priority
        'HIGHEST'
    """

    priority: int | str = "HIGHEST"  # before all hooks that read where the run is

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = True, missing_ok: bool = False) -> None:
        self.path: Path = path_of("CheckpointLoaderHook", path)
        self.resume: bool = flag("CheckpointLoaderHook", "resume", resume)
        self.missing_ok: bool = flag("CheckpointLoaderHook", "missing_ok", missing_ok)
        self._done = False

    def before_run(self, runner: Run) -> None:
        """Load the checkpoint."""
        if self._done:
            return
        file = newest(self.path) if self.path.is_dir() else self.path if self.path.exists() else None
        file = broadcast(file)  # the ranks may see a network file system at different moments
        if file is not None:
            (runner.resume if self.resume else runner.load_checkpoint)(file)
            runner.logger.info("loaded %s; the run continues after iteration %d", file, runner.iter)
        else:
            missing = f"there is no checkpoint in {self.path}" if self.path.is_dir() else f"there is no {self.path}"
            if not self.missing_ok:
                raise TrainingError(
                    f"CheckpointLoaderHook: {missing}; give another path, or missing_ok=True to start from scratch"
                )
            runner.logger.info("%s; starting from scratch", missing)
        self._done = True
