"""Hooks that validate beside the workflow and keep the best checkpoint.

A validation in the middle of training leaves the run exactly as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, final

from aspecthook import hooks
from aspecthook._errors import HookTypeError, brief, described
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, optional_function, optional_number, whole_number
from aspecthook.training._ranks import all_gather, broadcast
from aspecthook.training.backends._state import is_tensor, map_leaves
from aspecthook.training.loop._logs import VAL, validation_numbers, without_validation
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._steps import is_divided

from ._checkpoint import CheckpointHook
from ._hook import HOOKS, Hook
from ._monitor import Monitor, Rule

# Called with the outputs of all batches and the batches themselves; returns metrics by name.
Evaluate: TypeAlias = Callable[[list[Any], list[Any]], Mapping[str, float]]


@HOOKS.register(name=("EvalHook", "DistEvalHook"))
class EvalHook(Hook):
    """Validate every few epochs or iterations, on data of its own, and keep the best checkpoint.

    The hook runs the runner's ``val_epoch``, so other hooks on validation act as always. The metrics are logged with
    the prefix ``val_``.

    Args:
        loader: The data. If the ranks share it, as by a `DataLoader`, the metrics are those of all of it, and
            `evaluate` gets the outputs and batches of all ranks, taken in turn.
        start: The first epoch or iteration after which to validate; None for the first that `interval` allows. A run
            that begins at `start` or later also validates once before training, if `interval` allows it: with
            ``start=0, interval=1`` every new run does.
        interval: Validate every `interval` epochs or iterations, counted from `start` if that is given.
        by_epoch: Count epochs; otherwise iterations.
        save_best: The score by which the best checkpoint is chosen, or ``"auto"`` for the first metric; see
            `CheckpointHook`. A score of 0 counts. Only a validation shows which scores there are, so an unknown one is
            an error after the first; with ``start=0, interval=1`` that is before any training.
        rule: Whether ``"greater"`` or ``"less"`` is better; known by the name or a part of it unless given.
        out_dir: The folder of the best checkpoint; the run's ``work_dir`` unless given.
        evaluate: Computes metrics that cannot be averaged over batches. It is called with a list of the outputs of
            ``val_iter`` and a list of the batches, which are kept in memory for it, and returns metrics by name.

    Attributes:
        metrics: The metrics of the last validation.
        saver: The hook that saves the best checkpoint, or None.

    Example:
        >>> hook = EvalHook([], start=10, interval=5, save_best="accuracy")
        >>> hook.best_score is None
        True
        >>> EvalHook([], interval=0)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: EvalHook: interval=0; give a number from 1 up
    """

    # After EMAHook has put its average into the model, and before the hooks that save.
    priority: int | str = 45

    def __init__(
        self,
        loader: Any,
        *,
        start: int | None = None,
        interval: int = 1,
        by_epoch: bool = True,
        save_best: str | Literal[False] | None = None,
        rule: Rule | None = None,
        out_dir: str | os.PathLike[str] | None = None,
        evaluate: Evaluate | None = None,
    ) -> None:
        who = type(self).__name__
        if not hasattr(loader, "__iter__"):
            raise HookTypeError(f"{who}: loader={brief(loader)} cannot be iterated; give a DataLoader, or a list")
        self.loader = loader
        self.start: int | None = optional_number(who, "start", start, 0)
        self.interval: int = whole_number(who, "interval", interval, 1)
        self.by_epoch: bool = flag(who, "by_epoch", by_epoch)
        self.evaluate: Evaluate | None = optional_function(who, "evaluate", evaluate)
        self.metrics: dict[str, float] = {}
        self.save_best = save_best
        self.saver: CheckpointHook | None = None
        if save_best is not None and save_best is not False:
            self.saver = _BestSaver(
                0, by_epoch=by_epoch, save_best=save_best, rule=rule, out_dir=out_dir, save_last=False
            )
        self._begun = False

    @property
    def watched(self) -> Monitor | None:
        """The score by which the best checkpoint is chosen, if it is known."""
        return None if self.saver is None else self.saver.watched

    @property
    def best_score(self) -> float | None:
        """The best score so far."""
        return None if self.saver is None else self.saver.best_score

    @property
    def best(self) -> Path | None:
        """The file of the best checkpoint."""
        return None if self.saver is None else self.saver.best

    # When

    def before_run(self, runner: Run) -> None:
        """Find the folder of the best checkpoint."""
        if self.saver is not None:
            self.saver.before_run(runner)

    def after_run(self, runner: Run) -> None:
        """Log a warning if there is no best checkpoint."""
        if self.saver is not None:
            self.saver.after_run(runner)

    def before_train_epoch(self, runner: Run) -> None:
        """Validate before training, if the run begins at `start` or later."""
        if self.by_epoch:
            self._begin(runner, runner.epoch)

    def before_train_iter(self, runner: Run) -> None:
        """Validate before training, if the run begins at `start` or later."""
        if not self.by_epoch:
            self._begin(runner, runner.iter)

    def after_train_epoch(self, runner: Run) -> None:
        """Validate if it is due; an epoch that was ended early does not count."""
        if self.by_epoch and runner.progress.inner_iter == 0 and self._is_due(runner):
            self._validate(runner)

    def after_train_iter(self, runner: Run) -> None:
        """Validate if it is due."""
        if not self.by_epoch and self._is_due(runner):
            self._validate(runner)

    def _begin(self, runner: Run, done: int) -> None:
        if self._begun:
            return
        self._begun = True
        if self.start is not None and done >= self.start and self._is_due(runner):
            self._validate(runner)

    def _is_due(self, runner: Run) -> bool:
        due = self.every_n_epochs if self.by_epoch else self.every_n_iters
        return due(runner, self.interval, self.start)

    # How

    def _validate(self, runner: Run) -> None:
        runner.logs = without_validation(runner.logs)  # those of the last validation
        validated = self._run(runner)
        if self.saver is not None and validated:
            self.saver.after_val_epoch(runner)

    def _run(self, runner: Run) -> bool:
        """Validate, and return whether that was done: a hook may skip it.

        The metrics are complete before any other hook runs after the validation.
        """
        rows: list[tuple[Any, Any]] = []
        validated = False

        def collect(result: Any, batch: Any) -> None:
            rows.append((_on_cpu(result), _on_cpu(batch)))

        def complete(proceed: Callable[[], Any]) -> None:
            nonlocal validated
            proceed()
            validated = True
            self.metrics = broadcast({**self._computed(rows), **validation_numbers(runner.logs)})
            runner.logs = without_validation(runner.logs)
            runner.log(self.metrics)  # in their order

        with ExitStack() as stack:
            # An around hook ends before all post hooks of the stage.
            stack.enter_context(hooks(runner.val_epoch).add("around", complete))
            if self.evaluate is not None:
                stack.enter_context(hooks(runner.val_iter).add("post", collect, priority=100))
            runner.validate(self.loader)
        return validated

    def _computed(self, rows: list[tuple[Any, Any]]) -> dict[str, float]:
        """Return the metrics of `evaluate`."""
        if self.evaluate is None:
            return {}
        if is_divided(self.loader):
            shares = all_gather(rows)
            # The rows of the ranks in turn.
            rows = [share[place] for place in range(max(map(len, shares))) for share in shares if place < len(share)]
        made: Any = self.evaluate([outputs for outputs, _ in rows], [batch for _, batch in rows])
        if not isinstance(made, Mapping):
            raise TrainingError(
                f"{type(self).__name__}(evaluate=...) returned {described(made)}; return metrics by name, such "
                "as {'accuracy': 0.97}"
            )
        made = cast("Mapping[str, float]", made)
        return {f"{VAL}{name.removeprefix(VAL)}": float(value) for name, value in made.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return whether the run has begun, and the state of the best checkpoint."""
        return {"begun": self._begun, "best": None if self.saver is None else self.saver.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore whether the run has begun, and the state of the best checkpoint."""
        self._begun = bool(state["begun"])
        if self.saver is not None and state["best"] is not None:
            self.saver.load_state_dict(state["best"])


@final
class _BestSaver(CheckpointHook):
    """The hook that saves the best checkpoint of an `EvalHook`, and is not registered itself."""

    _who = "EvalHook"


# Any: batches and outputs are made of anything.
def _on_cpu(value: Any) -> Any:
    """Return a value with its tensors on the CPU: there is room for many batches, and every rank can read them."""
    return map_leaves(lambda one: one.detach().cpu() if is_tensor(one) else one, value)
