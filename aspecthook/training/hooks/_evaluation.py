"""The hook that validates on its own data, independently of the run's workflow, and keeps the best checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from aspecthook import hooks
from aspecthook._errors import HookTypeError, brief, described
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import function, optional_number, whole_number
from aspecthook.training._ranks import all_gather, broadcast
from aspecthook.training.backends._state import is_tensor, map_leaves
from aspecthook.training.loop._model import VAL, of_mode, without_mode
from aspecthook.training.loop._reading import is_divided
from aspecthook.training.loop._runner import Runner

from ._checkpoint import CheckpointHook, EveryN
from ._hook import HOOKS
from ._monitor import Rule

# Called with the outputs of all batches and the batches themselves; returns metrics by name.
Evaluate: TypeAlias = Callable[[list[Any], list[Any]], Mapping[str, float]]


@HOOKS.register(name=("EvalHook", "DistEvalHook"))
class EvalHook(CheckpointHook):
    """Validate on a loader of your choice every few epochs or iterations, and keep the best checkpoint.

    The hook calls the runner's ``val_epoch``, so other hooks on validation run as usual; afterwards the run continues
    exactly where it was. Metrics are logged with the prefix ``val_``.

    Args:
        loader: The data to validate on. If the ranks divide it among themselves, as with a `DataLoader`, the metrics
            cover all of it, and `evaluate` gets the outputs and batches of all ranks, interleaved.
        start: The epoch or iteration after which to validate first; by default the first multiple of `interval`. A run
            that begins at `start` or later also validates once before training, if `interval` allows it: with
            ``start=0, interval=1``, every new run does.
        interval: Validate every `interval` epochs or iterations, counted from `start` if that is given.
        by_epoch: Whether to count epochs; otherwise iterations.
        save_best, rule, out_dir: See `CheckpointHook`. Only validations by this hook count. With ``start=0,
            interval=1``, an unknown score raises an error before any training.
        evaluate: A function that computes metrics that are not means over batches. It gets a list of the outputs of
            ``val_iter`` and a list of the batches, both of which are kept in memory for it, and returns metrics by
            name.

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
        # It saves at no interval, but only the best checkpoint.
        super().__init__(0, by_epoch=by_epoch, save_best=save_best, rule=rule, out_dir=out_dir)
        who = type(self).__name__
        self._every = whole_number(who, "interval", interval, 1)
        if not hasattr(loader, "__iter__"):
            raise HookTypeError(f"{who}: loader={brief(loader)} cannot be iterated; give a DataLoader, or a list")
        self.loader: Iterable[Any] = loader
        self.start: int | None = optional_number(who, "start", start, 0)
        self.evaluate: Evaluate | None = None if evaluate is None else function(who, "evaluate", evaluate)
        self.metrics: dict[str, float] = {}
        self._begun = False  # whether the run is past the moment at which it may validate before training

    def before_train_epoch(self, runner: Runner) -> None:
        """Validate before training, if the run begins at `start` or later."""
        if self.by_epoch:
            self._begin(runner, runner.epoch, self.every_n_epochs)

    def before_train_iter(self, runner: Runner) -> None:
        """Validate before training, if the run begins at `start` or later."""
        if not self.by_epoch:
            self._begin(runner, runner.iter, self.every_n_iters)

    def _begin(self, runner: Runner, done: int, is_due: EveryN) -> None:
        begun, self._begun = self._begun, True
        if not begun and self.start is not None and done >= self.start:
            self.act(runner, is_due)

    def after_val_epoch(self, runner: Runner) -> None:
        """Do nothing: the validations of the workflow and of other hooks are not judged."""

    def act(self, runner: Runner, is_due: EveryN) -> None:
        """Validate if a validation is due, and save the checkpoint if its score is the best so far."""
        if not is_due(runner, self._every, self.start):
            return
        runner.logs = without_mode("val", runner.logs)  # without the numbers of the last validation
        pairs: list[tuple[Any, Any]] = []  # the outputs of each batch, and the batch
        before = self.metrics

        def complete(proceed: Callable[[], object]) -> None:
            proceed()
            self.metrics = broadcast({**self._computed(pairs), **of_mode("val", runner.logs)})
            runner.logs = without_mode("val", runner.logs)
            runner.log(self.metrics)  # in their order

        def collect(result: Any, batch: Any) -> None:
            if self.evaluate is not None:
                # On the CPU there is room for many batches, and every rank can read them.
                pairs.append(map_leaves(lambda one: one.detach().cpu() if is_tensor(one) else one, (result, batch)))

        # The metrics are complete before other hooks are called after the validation: an around hook ends before all
        # post hooks of the stage.
        with (
            hooks(runner.val_epoch).add("around", complete),
            hooks(runner.val_iter).add("post", collect, priority=100),
        ):
            runner.validate(self.loader)
        if self.metrics is not before:  # a hook may have skipped the validation
            self.judge(runner)

    def _computed(self, pairs: list[tuple[Any, Any]]) -> dict[str, float]:
        """Return the metrics of `evaluate`."""
        if self.evaluate is None:
            return {}
        if is_divided(self.loader):
            shares = all_gather(pairs)
            # Those of the ranks in turn.
            pairs = [share[place] for place in range(max(map(len, shares))) for share in shares if place < len(share)]
        metrics = self.evaluate([outputs for outputs, _ in pairs], [batch for _, batch in pairs])
        if not isinstance(metrics, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # it is the user's function
            raise TrainingError(
                f"{type(self).__name__}(evaluate=...) returned {described(metrics)}; return metrics by name, such "
                "as {'accuracy': 0.97}"
            )
        return {f"{VAL}{name.removeprefix(VAL)}": float(value) for name, value in metrics.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"begun": self._begun, **super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._begun = bool(state["begun"])
