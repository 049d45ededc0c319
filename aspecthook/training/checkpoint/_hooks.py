"""Checkpoints of a run: when they are saved, which are kept, which is the best, and from which one a run begins.

A file is removed only when the one that replaces it stands; and a checkpoint knows of itself, so that a run that is
resumed from it keeps, replaces and removes the same files as one that was never interrupted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aspecthook._core.law.answers import Args
from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.hooks._optimizer import agreed

from ._format import is_checkpoint, newest

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

Rule: TypeAlias = Literal["greater", "less"]

_VAL = "val_"
_SEPARATORS = re.compile(r"[^\w@.+-]")  # mmengine's `coco/bbox_mAP` is no name of a file
# By mmcv, in any case of letters; of both rules those that are whole keys come before those that are parts of one.
_NAMES: dict[Rule, tuple[str, ...]] = {
    "greater": ("acc", "top", "ar@", "auc", "precision", "map", "mdice", "miou", "macc", "aacc"),
    "less": ("loss",),
}


@HOOKS.register
class CheckpointHook(Hook):
    """Save a checkpoint every so many epochs or iterations, the last one and the best one, and keep only so many.

    Args:
        interval: Every how many epochs, or iterations; 0 for never.
        by_epoch: Count epochs, and call the files ``epoch_3.safetensors``; else iterations: ``iter_300.safetensors``. A
            run that ends inside an epoch leaves an ``iter_`` file in any case.
        max_keep: How many files to keep, beside the best one; None for all. The oldest goes when the new one stands.
        save_best: The number in the run's ``logs`` to go by: ``"val_accuracy"``, say. Where the run validates,
            ``"accuracy"`` means that too, and ``"auto"`` the first that a validation makes. Numbers of a validation are
            looked at after it, those of training wherever a checkpoint may be due. The file is called
            ``best_val_accuracy_epoch_3.safetensors``; the one before it goes when it stands.
        rule: Whether ``"greater"`` or ``"less"`` is better; else known by the name, such as ``acc`` or ``loss``.
        save_optimizer: Save the optimizer's state too; without it, the model can be loaded and the run not be resumed.
        out_dir: The folder; that of the run, its ``work_dir``, unless given.
        filename_template: The names of the files, for `str.format`, which is given the number, ``epoch`` and ``iter``.
        save_last: Save a last one as the run ends, if it is not saved already.

    Raises:
        HookOptionError: An option has a value that it cannot have, or the rule cannot be known by the name.
        HookTypeError: An option is of another type.

    Example:
        >>> hook = CheckpointHook(interval=5, max_keep=3, save_best="val_accuracy")
        >>> hook.kept, hook.best, hook.best_score
        ((), None, None)
        >>> CheckpointHook(save_best="f1")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ...; give rule="greater" or rule="less"
    """

    priority: int | str = "NORMAL"  # what is saved is settled when the stage is over, after all other hooks

    def __init__(
        self,
        interval: int = 1,
        *,
        by_epoch: bool = True,
        max_keep: int | None = None,
        save_best: str | None = None,
        rule: Rule | None = None,
        save_optimizer: bool = True,
        out_dir: str | os.PathLike[str] | None = None,
        filename_template: str | None = None,
        save_last: bool = True,
    ) -> None:
        self.interval = _whole("interval", interval, 0)
        self.by_epoch = by_epoch
        self.max_keep = None if max_keep is None else _whole("max_keep", max_keep, 1)
        self.save_best = save_best
        self.save_optimizer = save_optimizer
        self.out_dir = None if out_dir is None else Path(out_dir)
        self.save_last = save_last
        self.best_score: float | None = None
        self._template = _template(filename_template, by_epoch)
        self._rule: Rule | None = _rule(rule, save_best)
        self._key: str | None = None
        self._files: list[str] = []
        self._best_files: list[str] = []
        self._folder: Path | None = self.out_dir
        self._running = False
        # How many iterations were behind the run when it was last saved; None if it has changed since without any.
        self._saved_at: int | None = 0
        self._saving: Path | None = None

    @property
    def kept(self) -> tuple[Path, ...]:
        """The files that are kept, the oldest first, without the best."""
        return tuple(self._path(name) for name in self._files)

    @property
    def best(self) -> Path | None:
        """The file of the best checkpoint."""
        return self._path(self._best_files[-1]) if self._best_files else None

    def _path(self, name: str) -> Path:
        return Path(name) if self._folder is None else self._folder / name

    # When

    def before_run(self, runner: Runner) -> None:
        """Settle the folder, and finish what a run that was killed has left unfinished there."""
        self._folder = self.out_dir if self.out_dir is not None else runner.work_dir
        if self._folder is None:
            raise TrainingError(
                "the CheckpointHook has no folder for its files; give Runner(..., work_dir=...) or "
                "CheckpointHook(out_dir=...)"
            )
        self._prune(runner, self._files, self.max_keep)
        self._prune(runner, self._best_files, 1)
        self._running = True

    def after_train_epoch(self, runner: Runner) -> None:
        """Save what is due after an epoch; a run that stops inside one has its last checkpoint at its end."""
        if self.by_epoch and runner.progress["inner_iter"] == 0:
            self._plan(runner, due=self.every_n_epochs(runner, self.interval))

    def after_train_iter(self, runner: Runner) -> None:
        """Save what is due after an iteration."""
        if not self.by_epoch and self.every_n_iters(runner, self.interval):
            self._plan(runner, due=True)

    def after_val_epoch(self, runner: Runner) -> None:
        """Save the model if it is the best so far; a validation outside a run says nothing of that."""
        if self._running:
            self._saved_at = None  # hooks have learnt from the validation what the last one does not have
            self._plan(runner, due=False, validated=True)

    def _plan(self, runner: Runner, *, due: bool, validated: bool = False) -> None:
        """Look at the numbers now, and save when the stage is over: other hooks have acted then."""
        score = None if self.save_best is None else self._score(runner, validated)

        def save() -> None:
            if score is not None:
                self._judge(runner, score)
            if due:
                self._save(runner)

        if due or score is not None:
            runner.after_stage(save)

    def after_run(self, runner: Runner) -> None:
        """Save the last checkpoint."""
        self._running = False
        if self.save_last and self._saved_at != runner.progress["iter"]:
            self._save(runner)
        if self.save_best is not None and self._key is None:
            runner.logger.warning(
                "CheckpointHook(save_best=%r): no best checkpoint was saved, since no number of that name was logged; "
                "there were: %s",
                self.save_best,
                ", ".join(runner.logs) or "none",
            )

    def before_save_checkpoint(self, path: Path, checkpoint: dict[str, Any]) -> Args | None:
        """Leave out the optimizer, if that is wished."""
        if self.save_optimizer or path != self._saving:
            return None
        return Args(checkpoint={**checkpoint, "optimizer": None})

    # What

    def _save(self, runner: Runner) -> None:
        before, self._saved_at = self._saved_at, runner.progress["iter"]
        try:
            self._put(runner, self._name(runner), self._files, self.max_keep)
        except BaseException:
            self._saved_at = before
            raise

    def _name(self, runner: Runner) -> str:
        """Name a checkpoint after what is behind the run."""
        epoch, number = runner.progress["epoch"], runner.progress["iter"]
        if not self.by_epoch:
            return self._template.format(number, epoch=epoch, iter=number)
        if runner.progress["inner_iter"] == 0:
            return self._template.format(epoch, epoch=epoch, iter=number)
        return f"iter_{number}.safetensors"

    def _put(self, runner: Runner, name: str, files: list[str], most: int | None) -> None:
        """Save a checkpoint, add it to those that are kept, and remove those that are too many."""
        before = list(files)
        files[:] = [*(one for one in files if one != name), name]
        self._saving = self._path(name)
        try:
            runner.save_checkpoint(self._saving)
        except BaseException:
            files[:] = before
            raise
        finally:
            self._saving = None
        runner.logger.info("saved %s", self._path(name))
        self._prune(runner, files, most)

    def _prune(self, runner: Runner, files: list[str], most: int | None) -> None:
        for old in files[:-most] if most is not None else ():
            if self._removed(runner, old):
                files.remove(old)

    def _removed(self, runner: Runner, name: str) -> bool:
        """Remove an old checkpoint, and nothing else that has its name by now; what resists is tried again later."""
        path = self._path(name)
        if runner.rank != 0 or not is_checkpoint(path):
            return True
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            runner.logger.warning("the old checkpoint %s could not be removed: %s", path, error.strerror)
            return False
        return True

    # The best

    def _score(self, runner: Runner, validated: bool) -> float | None:
        """Give the number to go by; None if it may still come."""
        key = self._key = self._key or self._find(runner, validated)
        if key is None:
            return None
        self._rule = self._rule or rule_of(key)
        return agreed(_number(key, runner.logs))

    def _judge(self, runner: Runner, score: float) -> None:
        """Save the best so far, if it is that."""
        assert self._key is not None
        assert self._rule is not None
        if not _better(score, self.best_score, self._rule):
            return
        before, self.best_score = self.best_score, score
        try:
            self._put(runner, f"best_{_SEPARATORS.sub('_', self._key)}_{self._name(runner)}", self._best_files, 1)
        except BaseException:
            self.best_score = before
            raise
        runner.logger.info("%s is %g, the best so far", self._key, score)

    def _find(self, runner: Runner, validated: bool) -> str | None:
        """Give the name in the logs that is meant; None if it may still come."""
        assert self.save_best is not None
        logs, wanted = runner.logs, self.save_best
        if wanted == "auto":
            names = [name for name in logs if name.startswith(_VAL)]
        else:
            names = [name for name in (f"{_VAL}{wanted}", wanted) if name in logs]
        if validated:
            if names:
                return names[0]
            raise TrainingError(
                f"CheckpointHook(save_best={wanted!r}): after a validation there is no such number in the logs"
                f"{_near(wanted, logs)}; there are: {', '.join(logs) or 'none'}"
            )
        if wanted not in logs or wanted.startswith(_VAL) or any(mode == "val" for mode, _ in runner.workflow):
            return None
        return wanted

    # What it remembers

    def state_dict(self) -> dict[str, Any]:
        """Give the files that are kept, and what the best is."""
        return {
            "files": list(self._files),
            "save_best": self.save_best,
            "key": self._key,
            "rule": self._rule,
            "best_score": self.best_score,
            "best_files": list(self._best_files),
            "saved_at": self._saved_at,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given; if `save_best` or its rule is another now, the best begins anew.

        Raises:
            TrainingError: It names files outside its folder, which would be removed some day.
        """
        names = [*state["files"], *state["best_files"]]
        for name in names:
            if not _is_inside(name):
                raise TrainingError(
                    f"the state of the CheckpointHook has the file {brief(name)}, which is outside its folder; no run "
                    "has saved that, load another checkpoint"
                )
        self._files, self._saved_at = list(state["files"]), state["saved_at"]
        if state["save_best"] == self.save_best and self._rule in (state["rule"], None):
            self._key, self._rule, self.best_score = state["key"], state["rule"], state["best_score"]
            self._best_files = list(state["best_files"])


@HOOKS.register
class CheckpointLoaderHook(Hook):
    """Load a checkpoint before the run begins; with several runs, before the first.

    Args:
        path: A file, or a folder, of which the newest checkpoint is taken.
        resume: Go on with the run where it was; else load the parameters of the model alone.
        missing_ok: If there is no such file, or no checkpoint in the folder, begin anew. A file that is broken is an
            error in any case.

    Example:
        >>> hook = CheckpointLoaderHook("runs/digits", missing_ok=True)
        >>> hook.priority
        'HIGHEST'
    """

    priority: int | str = "HIGHEST"  # as if the run had been resumed before it was begun

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = True, missing_ok: bool = False) -> None:
        self.path = Path(path)
        self.resume = resume
        self.missing_ok = missing_ok
        self._done = False

    def before_run(self, runner: Runner) -> None:
        """Load the checkpoint.

        Raises:
            TrainingError: There is none, it is broken, or it is that of another model.
        """
        if self._done:
            return
        file = newest(self.path) if self.path.is_dir() else self.path if self.path.exists() else None
        if file is None:
            self._begin_anew(runner)
        elif self.resume:
            runner.resume(file)
            runner.logger.info("resumed from %s, after iteration %d", file, runner.iter)
        else:
            runner.load_checkpoint(file)
            runner.logger.info("loaded %s", file)
        self._done = True

    def _begin_anew(self, runner: Runner) -> None:
        missing = f"there is no checkpoint in {self.path}" if self.path.is_dir() else f"there is no {self.path}"
        if not self.missing_ok:
            raise TrainingError(
                f"CheckpointLoaderHook: {missing}; give another path, or missing_ok=True to begin anew then"
            )
        runner.logger.info("%s; beginning anew", missing)


def rule_of(key: str) -> Rule:
    """Say whether a greater or a lesser number of this name is better.

    Raises:
        HookOptionError: The name does not tell.

    Example:
        >>> rule_of("val_loss"), rule_of("bbox_mAP_50"), rule_of("top1")
        ('less', 'greater', 'greater')
    """
    name = key.lower()
    for rule, names in _NAMES.items():
        if name in names:
            return rule
    for rule, names in _NAMES.items():
        if any(part in name for part in names):
            return rule
    raise HookOptionError(
        f"whether a greater or a lesser {key!r} is better cannot be known by its name; give "
        'rule="greater" or rule="less"'
    )


def _rule(rule: object, save_best: object) -> Rule | None:
    if save_best is not None and not isinstance(save_best, str):
        raise HookTypeError(f"save_best={brief(save_best)} is no name of a number, 'auto' or None")
    if rule == "greater":
        return "greater"
    if rule == "less":
        return "less"
    if rule is not None:
        raise HookOptionError(f"rule={brief(rule)} is neither 'greater', 'less' nor None")
    return rule_of(save_best) if save_best is not None and save_best != "auto" else None


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise HookTypeError(f"{name}={brief(value)} is no whole number")
    if value < least:
        raise HookOptionError(f"{name}={value} is less than {least}")
    return value


def _template(given: str | None, by_epoch: bool) -> str:
    if given is None:
        return "epoch_{}.safetensors" if by_epoch else "iter_{}.safetensors"
    try:
        name = given.format(1, epoch=1, iter=1)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise HookOptionError(
            f"filename_template={brief(given)} cannot be filled in ({brief(error)}); there are {{}}, "
            "{epoch} and {iter}"
        ) from error
    if not _is_inside(name):
        raise HookOptionError(f"filename_template={brief(given)} is no name inside a folder; give that as out_dir")
    return given


def _is_inside(name: object) -> bool:
    if not isinstance(name, str):
        return False
    path = PurePath(name)
    return bool(path.name) and not path.is_absolute() and ".." not in path.parts


def _number(key: str, logs: Mapping[str, Any]) -> float:
    try:
        return float(logs[key])
    except (KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            f"CheckpointHook: {key!r} is {brief(logs.get(key))} in the logs, and by it the best checkpoint is chosen; "
            "log a number"
        ) from error


def _better(score: float, best: float | None, rule: Rule) -> bool:
    """Compare; the first counts unless it is as bad as can be, and what is not a number never does."""
    if rule == "greater":
        return score > (float("-inf") if best is None else best)
    return score < (float("inf") if best is None else best)


def _near(wanted: str, logs: Mapping[str, Any]) -> str:
    return nearest(wanted, [*logs, *(name.removeprefix(_VAL) for name in logs)])
