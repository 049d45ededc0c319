"""Hooks that save checkpoints, keep the best one, and load one before the run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from aspecthook._core.law.answers import Args
from aspecthook._errors import HookTypeError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, one_of, optional_number, whole_number
from aspecthook.training._ranks import broadcast
from aspecthook.training.checkpoint._files import folder_of, path_of
from aspecthook.training.checkpoint._folder import newest
from aspecthook.training.loop._logs import VAL, validation_numbers
from aspecthook.training.loop._run import Run

from ._hook import HOOKS, Hook
from ._kept_files import KeptFiles, check_names
from ._monitor import RULES, Monitor, Rule, missing_score

_SEPARATORS = re.compile(r"[^\w@.+-]")  # metrics of mmengine such as `coco/bbox_mAP` are not file names


@HOOKS.register
class CheckpointHook(Hook):
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
            is an error after the first validation, since only that shows which there are; without validations, a
            warning after the run. The file is named ``best_val_accuracy_epoch_3.safetensors`` and replaces the one
            before it.
        rule: Whether ``"greater"`` or ``"less"`` is better; known by a name such as ``acc`` or ``loss`` unless given.
        save_optimizer: Save the optimizer's state too. Without it the model can be loaded, but the run not resumed.
        out_dir: The folder; the run's ``work_dir`` unless given.
        save_last: Save when the run ends, unless that checkpoint exists already.
        asynchronous: Training waits only until the state is copied, and a thread writes it. The files are written and
            removed in the same order, and the run ends when the last one is written. An error is raised after an
            iteration, or at the end of the run. The memory has to hold up to two copies of the state.

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
    _who: ClassVar[str] = "CheckpointHook"  # the name of the hook in messages

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
        who = self._who
        self.interval: int = whole_number(who, "interval", interval, 0)
        self.by_epoch: bool = flag(who, "by_epoch", by_epoch)
        self.max_keep: int | None = optional_number(who, "max_keep", max_keep, 1)
        save_best = None if save_best is False else save_best  # TOML has no None
        if save_best is not None and not isinstance(save_best, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"{who}: save_best={brief(save_best)} is not the name of a score, 'auto' or None")
        self.save_best = save_best
        self._rule: Rule | None = None if rule is None else one_of(who, "rule", rule, RULES)
        self.watched: Monitor | None = None
        if save_best not in (None, "auto"):
            self.watched = Monitor(who, save_best, self._rule)
        self.save_optimizer: bool = flag(who, "save_optimizer", save_optimizer)
        self.out_dir: Path | None = None if out_dir is None else path_of(who, out_dir, "out_dir")
        self.save_last: bool = flag(who, "save_last", save_last)
        self.asynchronous: bool = flag(who, "asynchronous", asynchronous)
        self._key: str | None = None  # the name in the logs, once a score was found there
        self._files = KeptFiles(self.out_dir, self.max_keep)
        self._best = KeptFiles(self.out_dir, 1)
        # The iteration at which the run was last saved; None if a validation has changed it since.
        self._saved_at: int | None = 0

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files that are kept, the oldest first, without the best one."""
        return tuple(map(self._files.path, self._files.names))

    @property
    def best(self) -> Path | None:
        """The file of the best checkpoint."""
        return self._best.path(self._best.names[-1]) if self._best.names else None

    @property
    def best_score(self) -> float | None:
        """The score of the best checkpoint."""
        return self.watched.best if self.watched is not None and self._best.names else None

    # When

    def before_run(self, runner: Run) -> None:
        """Find the folder, and remove the old files that a killed run had no time to remove."""
        folder = self.out_dir if self.out_dir is not None else folder_of(runner.work_dir, self._who, "out_dir=...")
        for files in (self._files, self._best):
            files.folder = folder
            files.prune(runner)

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
            self._plan(runner, due=False, validated=True)

    def _plan(self, runner: Run, *, due: bool, validated: bool = False) -> None:
        """Read the score now, and save when the stage is over: all its hooks have run then."""
        score = None if self.save_best is None else self._score(runner, validated)

        def save() -> None:
            if score is not None:
                self._judge(runner, score)
            if due:
                self._save(runner)

        if due or score is not None:
            runner.after_stage(save)

    def after_run(self, runner: Run) -> None:
        """Save the last checkpoint."""
        if self.save_last and self._saved_at != runner.progress.iter:
            self._save(runner)
        if self.asynchronous:
            runner.writes.finish()
        if self.save_best is not None and self._key is None:
            runner.logger.warning(
                "%s(save_best=%r): no best checkpoint was saved, since no score of that name was logged; the logs "
                "have %s",
                self._who,
                self.save_best,
                ", ".join(runner.logs) or "nothing",
            )

    def before_save_checkpoint(self, path: Path, checkpoint: dict[str, Any]) -> Args | None:
        """Leave the optimizer out, unless `save_optimizer` is set."""
        if self.save_optimizer or path not in (self._files.saving, self._best.saving):
            return None
        return Args(checkpoint={**checkpoint, "optimizer": None})

    # What

    def _save(self, runner: Run) -> None:
        before, self._saved_at = self._saved_at, runner.progress.iter

        def undo() -> None:
            self._saved_at = before

        self._files.save(runner, self._name(runner), undo, asynchronous=self.asynchronous)

    def _name(self, runner: Run) -> str:
        """Return the file name of a checkpoint that is saved now."""
        if self.by_epoch and runner.progress.inner_iter == 0:
            return f"epoch_{runner.progress.epoch}.safetensors"
        return f"iter_{runner.progress.iter}.safetensors"

    # The best

    def _score(self, runner: Run, validated: bool) -> float | None:
        """Return the score; None if it has not been logged yet."""
        key = self._key = self._key or self._find(runner, validated)
        if key is None:
            return None
        if self.watched is None:
            self.watched = Monitor(self._who, key, self._rule)
        self.watched.name = key  # which has the prefix of the validation, if there is one
        return broadcast(_number(self._who, key, runner.logs))

    def _judge(self, runner: Run, score: float) -> None:
        """Save the checkpoint if its score is the best so far."""
        assert self._key is not None
        assert self.watched is not None
        watched, before = self.watched, self.watched.best
        if not watched.update(score):
            return

        def undo() -> None:
            watched.best = before

        name = f"best_{_SEPARATORS.sub('_', self._key)}_{self._name(runner)}"
        self._best.save(runner, name, undo, asynchronous=self.asynchronous)
        runner.logger.info("%s is %g, the best so far", self._key, score)

    def _find(self, runner: Run, validated: bool) -> str | None:
        """Return the name in the logs that `save_best` means; None if it has not been logged yet."""
        assert self.save_best is not None
        logs, wanted = runner.logs, self.save_best
        if wanted == "auto":
            names = list(validation_numbers(logs))
        else:
            names = [name for name in (f"{VAL}{wanted}", wanted) if name in logs]
        if validated:
            if names:
                return names[0]
            raise TrainingError(missing_score(f"{self._who}(save_best={wanted!r})", wanted, logs))
        if wanted not in logs or wanted.startswith(VAL) or any(mode == "val" for mode, _ in runner.workflow):
            return None
        return wanted

    # State

    def state_dict(self) -> dict[str, Any]:
        """Return the files that are kept, and the best score."""
        return {
            "files": list(self._files.names),
            "save_best": self.save_best,
            "key": self._key,
            "rule": None if self.watched is None else self.watched.rule,
            "best_score": self.best_score,
            "best_files": list(self._best.names),
            "saved_at": self._saved_at,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; the best only if `save_best` and its rule are still the same."""
        check_names((*state["files"], *state["best_files"]), self._who)
        self._files.names, self._saved_at = list(state["files"]), state["saved_at"]
        rule = self._rule if self.watched is None else self.watched.rule
        if state["save_best"] != self.save_best or rule not in (state["rule"], None):
            return
        self._key, self._best.names = state["key"], list(state["best_files"])
        if state["rule"] is not None:
            self.watched = Monitor(self._who, state["key"] or state["save_best"], state["rule"])
            if state["best_score"] is not None:
                self.watched.best = state["best_score"]


@HOOKS.register
class CheckpointLoaderHook(Hook):
    """Load a checkpoint before the run begins; if the runner runs several times, before the first.

    Args:
        path: A file, or a folder whose furthest checkpoint is loaded: see `newest`.
        resume: Resume the run; otherwise load only the parameters of the model.
        missing_ok: Start from scratch if there is no such file, or no checkpoint in the folder. A damaged file is
            always an error.
        other_run: Resume from it even if the ``work_dir`` belongs to another run: see `Runner.resume`.

    Example:
        >>> hook = CheckpointLoaderHook("runs/digits", missing_ok=True)
        >>> hook.priority
        'HIGHEST'
    """

    priority: int | str = "HIGHEST"  # before all hooks that read where the run is

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        resume: bool = True,
        missing_ok: bool = False,
        other_run: bool = False,
    ) -> None:
        self.path: Path = path_of("CheckpointLoaderHook", path)
        self.resume: bool = flag("CheckpointLoaderHook", "resume", resume)
        self.missing_ok: bool = flag("CheckpointLoaderHook", "missing_ok", missing_ok)
        self.other_run: bool = flag("CheckpointLoaderHook", "other_run", other_run)
        self._done = False

    def before_run(self, runner: Run) -> None:
        """Load the checkpoint."""
        if self._done:
            return
        file = newest(self.path) if self.path.is_dir() else self.path if self.path.exists() else None
        file = broadcast(file)  # the ranks may see a network file system at different moments
        if file is None:
            self._start_from_scratch(runner)
        elif self.resume:
            runner.resume(file, other_run=self.other_run)
            runner.logger.info("resumed from %s, after iteration %d", file, runner.iter)
        else:
            runner.load_checkpoint(file)
            runner.logger.info("loaded %s", file)
        self._done = True

    def _start_from_scratch(self, runner: Run) -> None:
        missing = f"there is no checkpoint in {self.path}" if self.path.is_dir() else f"there is no {self.path}"
        if not self.missing_ok:
            raise TrainingError(
                f"CheckpointLoaderHook: {missing}; give another path, or missing_ok=True to start from scratch"
            )
        runner.logger.info("%s; starting from scratch", missing)


def _number(who: str, key: str, logs: Mapping[str, Any]) -> float:
    try:
        return float(logs[key])
    except (KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            f"{who} chooses the best checkpoint by {key!r}, which is {brief(logs.get(key))} in the logs; log a number"
        ) from error
