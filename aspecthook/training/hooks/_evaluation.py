"""Validation beside the workflow: it leaves the run exactly as it was, and keeps the best checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from aspecthook import hooks
from aspecthook._errors import HookTypeError, brief, described
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import function, optional_number, whole_number
from aspecthook.training._ranks import all_gather, broadcast
from aspecthook.training.backends._state import is_any, is_tensor, map_leaves
from aspecthook.training.loop._model import VAL, of_mode, without_mode
from aspecthook.training.loop._reading import is_divided
from aspecthook.training.loop._runner import Runner

from ._checkpoint import CheckpointHook
from ._hook import HOOKS
from ._monitor import Rule

# Called with the outputs of all batches and the batches themselves; returns metrics by name.
Evaluate: TypeAlias = Callable[[list[Any], list[Any]], Mapping[str, float]]


@HOOKS.register(name=("EvalHook", "DistEvalHook"))
class EvalHook(CheckpointHook):
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
        save_best, rule, out_dir: See `CheckpointHook`. The best is chosen by the validations of this hook alone. With
            ``start=0, interval=1`` an unknown score is an error before any training.
        evaluate: Computes metrics that cannot be averaged over batches. It is called with a list of the outputs of
            ``val_iter`` and a list of the batches, which are kept in memory for it, and returns metrics by name.

    Attributes:
        metrics: The metrics of the last validation.

    Example:
        >>> EvalHook([], start=10, interval=5, save_best="accuracy").metrics
        {}
        >>> EvalHook([], interval=0)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: EvalHook: interval=0; give a number from 1 up
    """

    # After EMAHook has put its average into the model, and before the hooks that save.
    priority: int | str = 45
    _saves_last = False  # of checkpoints, it saves only the best one

    def __init__(
        self,
        loader: Iterable[Any],
        *,
        start: int | None = None,
        interval: int = 1,
        by_epoch: bool = True,
        save_best: str | Literal[False] | None = None,
        rule: Rule | None = None,
        out_dir: str | os.PathLike[str] | None = None,
        evaluate: Evaluate | None = None,
    ) -> None:
        super().__init__(0, by_epoch=by_epoch, save_best=save_best, rule=rule, out_dir=out_dir)
        who = type(self).__name__
        self.interval: int = whole_number(who, "interval", interval, 1)
        if not hasattr(loader, "__iter__"):
            raise HookTypeError(f"{who}: loader={brief(loader)} cannot be iterated; give a DataLoader, or a list")
        self.loader: Iterable[Any] = loader
        self.start: int | None = optional_number(who, "start", start, 0)
        self.evaluate: Evaluate | None = None if evaluate is None else function(who, "evaluate", evaluate)
        self.metrics: dict[str, float] = {}
        self._begun = False

    def after_val_epoch(self, runner: Runner) -> None:
        """Do nothing: validations of the workflow and of other hooks are not judged."""

    def before_run(self, runner: Runner) -> None:
        """Find the folder of the best checkpoint."""
        if self.save_best is not None:
            super().before_run(runner)

    def before_train_epoch(self, runner: Runner) -> None:
        """Validate before training, if the run begins at `start` or later."""
        if self.by_epoch:
            self._begin(runner, runner.epoch)

    def before_train_iter(self, runner: Runner) -> None:
        """Validate before training, if the run begins at `start` or later."""
        if not self.by_epoch:
            self._begin(runner, runner.iter)

    def _begin(self, runner: Runner, done: int) -> None:
        begun, self._begun = self._begun, True
        every_n = self.every_n_epochs if self.by_epoch else self.every_n_iters
        if not begun and self.start is not None and done >= self.start and every_n(runner, self.interval, self.start):
            self.act(runner)

    def act(self, runner: Runner) -> None:
        """Validate."""
        runner.logs = without_mode("val", runner.logs)  # those of the last validation
        rows: list[tuple[Any, Any]] = []
        before = self.metrics

        def complete(proceed: Callable[[], object]) -> None:
            proceed()
            self.metrics = broadcast({**self._computed(rows), **of_mode("val", runner.logs)})
            runner.logs = without_mode("val", runner.logs)
            runner.log(self.metrics)  # in their order

        def collect(result: Any, batch: Any) -> None:
            if self.evaluate is not None:
                rows.append(_on_cpu((result, batch)))

        # The metrics are complete before other hooks are called after the validation: an around hook ends before all
        # post hooks of the stage.
        with (
            hooks(runner.val_epoch).add("around", complete),
            hooks(runner.val_iter).add("post", collect, priority=100),
        ):
            runner.validate(self.loader)
        if self.metrics is not before:  # a hook may have skipped the validation
            self.judge(runner)

    def _computed(self, rows: list[tuple[Any, Any]]) -> dict[str, float]:
        """Return the metrics of `evaluate`."""
        if self.evaluate is None:
            return {}
        if is_divided(self.loader):
            shares = all_gather(rows)
            # The rows of the ranks in turn.
            rows = [share[place] for place in range(max(map(len, shares))) for share in shares if place < len(share)]
        made = self.evaluate([outputs for outputs, _ in rows], [batch for _, batch in rows])
        if not is_any(made, Mapping):
            raise TrainingError(
                f"{type(self).__name__}(evaluate=...) returned {described(made)}; return metrics by name, such "
                "as {'accuracy': 0.97}"
            )
        return {f"{VAL}{name.removeprefix(VAL)}": float(value) for name, value in made.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return whether the run has begun, and the best score and its file."""
        return {"begun": self._begun, **super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._begun = bool(state["begun"])


def _on_cpu(value: object) -> Any:
    """Return a value with its tensors on the CPU: there is room for many batches, and every rank can read them."""
    return map_leaves(lambda one: one.detach().cpu() if is_tensor(one) else one, value)
