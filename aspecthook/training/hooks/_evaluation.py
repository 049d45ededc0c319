"""Hooks that validate beside the workflow, keep the best checkpoint, and end a run that gets no better.

Where a run is validated in the middle of its training, it goes on afterwards exactly where it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from math import inf, isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

from aspecthook import hooks
from aspecthook._errors import HookOptionError, brief, described, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._hooks import CheckpointHook, Rule, rule_of

from ._hook import HOOKS, Hook
from ._optimizer import agreed, gathered, group, number, whole

if TYPE_CHECKING:
    from aspecthook.training.loop._run import Run
    from aspecthook.training.loop._runner import Runner

# Given what the model made of each batch, and the batches; gives metrics by name.
Evaluate: TypeAlias = Callable[[list[Any], list[Any]], Mapping[str, float]]

_VAL = "val_"


@HOOKS.register
class EvalHook(Hook):
    """Validate every so many epochs or iterations, on data of its own, and keep the best checkpoint.

    It runs the runner's ``val_epoch``, so that whatever hooks there are on validation act. The numbers go to the run's
    logs, with ``val_`` before their names.

    Args:
        loader: The data.
        start: The first epoch, or iteration, after which to validate. Where a run begins there or later, it is
            validated once before training, if `interval` has it so: with ``start=0, interval=1`` any new run is. None
            leaves all to the interval.
        interval: Every how many epochs, or iterations, counted from `start` if that is given.
        by_epoch: Count epochs; else iterations.
        save_best: The number by which the best checkpoint is chosen, or ``"auto"`` for the first; see `CheckpointHook`.
            A score of 0 counts.
        rule: Whether ``"greater"`` or ``"less"`` is better; else known by the name: by all of it, or by a part.
        out_dir: The folder of the best checkpoint; that of the run, its ``work_dir``, unless given.
        evaluate: Gives metrics of the whole, which cannot be averaged over batches; it is given what ``val_iter`` made
            of each batch, and the batches. They are kept in memory for that.

    Attributes:
        metrics: The numbers of the last validation.

    Raises:
        HookOptionError: An option has a value that it cannot have, or the rule cannot be known by the name.
        HookTypeError: An option is of another type.

    Example:
        >>> hook = EvalHook([], start=10, interval=5, save_best="accuracy")
        >>> hook.best_score is None
        True
        >>> EvalHook([], interval=0)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: EvalHook: interval=0; give a number from 1 up
    """

    # After the average is put in, and before what is learnt here is saved.
    priority: int | str = 45

    def __init__(
        self,
        loader: Any,
        *,
        start: int | None = None,
        interval: int = 1,
        by_epoch: bool = True,
        save_best: str | None = None,
        rule: Rule | None = None,
        out_dir: str | os.PathLike[str] | None = None,
        evaluate: Evaluate | None = None,
    ) -> None:
        who = type(self).__name__
        self.loader = loader
        self.start = None if start is None else whole(who, "start", start, 0)
        self.interval = whole(who, "interval", interval, 1)
        self.by_epoch = by_epoch
        self.evaluate = evaluate
        self.metrics: dict[str, float] = {}
        self._best = None
        if save_best is not None:
            self._best = CheckpointHook(
                0, by_epoch=by_epoch, save_best=save_best, rule=rule, out_dir=out_dir, save_last=False
            )
        self._begun = False

    @property
    def best_score(self) -> float | None:
        """The best score so far."""
        return None if self._best is None else self._best.best_score

    @property
    def best(self) -> Path | None:
        """The file of the best checkpoint."""
        return None if self._best is None else self._best.best

    # When

    def before_run(self, runner: Runner) -> None:
        """Settle where the best checkpoint goes.

        Raises:
            TrainingError: Nobody has said.
        """
        if self._best is not None:
            self._best.before_run(runner)

    def after_run(self, runner: Runner) -> None:
        """Say so if there is no best checkpoint."""
        if self._best is not None:
            self._best.after_run(runner)

    def before_train_epoch(self, runner: Runner) -> None:
        """Validate before training, if it begins at `start` or later."""
        if self.by_epoch:
            self._begin(runner, runner.epoch)

    def before_train_iter(self, runner: Runner) -> None:
        """Validate before training, if it begins at `start` or later."""
        if not self.by_epoch:
            self._begin(runner, runner.iter)

    def after_train_epoch(self, runner: Runner) -> None:
        """Validate after an epoch that is due; one that was ended early is none."""
        if self.by_epoch and runner.progress["inner_iter"] == 0 and self._is_due(runner):
            self._validate(runner)

    def after_train_iter(self, runner: Runner) -> None:
        """Validate after an iteration that is due."""
        if not self.by_epoch and self._is_due(runner):
            self._validate(runner)

    def _begin(self, runner: Runner, done: int) -> None:
        if self._begun:
            return
        self._begun = True
        if self.start is not None and done >= self.start and self._is_due(runner):
            self._validate(runner)

    def _is_due(self, runner: Runner) -> bool:
        due = self.every_n_epochs if self.by_epoch else self.every_n_iters
        return due(runner, self.interval, self.start)

    # How

    def _validate(self, runner: Runner) -> None:
        with _kept(runner):
            runner.logs = _without_numbers(runner.logs)  # those of another validation
            validated = self._run(runner)
        if self._best is not None and validated:
            self._best.after_val_epoch(runner)

    def _run(self, runner: Runner) -> bool:
        """Validate, unless a hook skips that; the numbers are complete before any other hook sees the end."""
        rows: list[tuple[Any, Any]] = []
        validated = False

        def collect(result: Any, batch: Any) -> None:
            rows.append(self._row(_on_cpu(result), batch))

        def complete(proceed: Callable[[], Any]) -> None:
            nonlocal validated
            proceed()
            validated = True
            self.metrics = agreed(self._complete(runner.logs, rows))
            runner.logs = {**_without_numbers(runner.logs), **self.metrics}  # in their order

        with ExitStack() as stack:
            # Around: nearer to the stage than any hook after it.
            stack.enter_context(hooks(runner.val_epoch).add("around", complete))
            if self._collects():
                stack.enter_context(hooks(runner.val_iter).add("post", collect, priority=100))
            runner.validate(self.loader)
        return validated

    def _collects(self) -> bool:
        return self.evaluate is not None

    def _row(self, outputs: Any, batch: Any) -> tuple[Any, Any]:
        return outputs, _on_cpu(batch)

    def _complete(self, logs: Mapping[str, Any], rows: list[tuple[Any, Any]]) -> dict[str, float]:
        """Give the numbers of this validation, those of `evaluate` first."""
        means = {name: value for name, value in logs.items() if name.startswith(_VAL)}
        return {**self._evaluated(rows), **means}

    def _evaluated(self, rows: list[tuple[Any, Any]]) -> dict[str, float]:
        if self.evaluate is None:
            return {}
        made: Any = self.evaluate([outputs for outputs, _ in rows], [batch for _, batch in rows])
        if not isinstance(made, Mapping):
            raise TrainingError(
                f"{type(self).__name__}(evaluate=...) gave {described(made)}; give metrics by name, such as "
                "{'accuracy': 0.97}"
            )
        made = cast("Mapping[str, float]", made)
        return {f"{_VAL}{name.removeprefix(_VAL)}": float(value) for name, value in made.items()}

    # What it remembers

    def state_dict(self) -> dict[str, Any]:
        """Give whether the run has begun, and what the best is."""
        return {"begun": self._begun, "best": None if self._best is None else self._best.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self._begun = bool(state["begun"])
        if self._best is not None and state["best"] is not None:
            self._best.load_state_dict(state["best"])


@final
@HOOKS.register
class DistEvalHook(EvalHook):
    """Validate as `EvalHook` does, on data that several ranks share: the numbers are those of all data, on all ranks.

    It takes what `EvalHook` takes: as the loader, the part of the data that this rank has; and `evaluate` is given what
    comes from all ranks, their batches in turn. A sampler that gives every rank as many samples has some twice, and
    they count twice. Every rank has running averages of batch normalisations of its own; all take those of rank 0.

    Example:
        >>> DistEvalHook([], save_best="auto", interval=2).interval
        2
    """

    def _validate(self, runner: Runner) -> None:
        _share_averages(runner.model)
        super()._validate(runner)

    def _collects(self) -> bool:
        return True

    def _row(self, outputs: Any, batch: Any) -> tuple[Any, Any]:
        if self.evaluate is not None or not isinstance(outputs, Mapping):
            return super()._row(outputs, batch)
        # The rest need not travel.
        made = cast("Mapping[str, Any]", outputs)
        return {name: made[name] for name in ("num_samples", "log_vars") if name in made}, None

    def _complete(self, logs: Mapping[str, Any], rows: list[tuple[Any, Any]]) -> dict[str, float]:  # noqa: ARG002
        shares = gathered(rows)
        everything = [share[place] for place in range(max(map(len, shares))) for share in shares if place < len(share)]
        return {**self._evaluated(everything), **_means(everything)}


def _without_numbers(logs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in logs.items() if not name.startswith(_VAL)}


def _means(rows: list[tuple[Any, Any]]) -> dict[str, float]:
    """Average the numbers of batches over samples, as the runner does for one rank."""
    sums: dict[str, float] = {}
    seen = 0
    for outputs, _ in rows:
        if isinstance(outputs, Mapping):
            made = cast("Mapping[str, Any]", outputs)
            count = int(made.get("num_samples", 1))
            seen += count
            for name, value in made.get("log_vars", {}).items():
                sums[name] = sums.get(name, 0.0) + float(value) * count
    return {f"{_VAL}{name}": value / max(seen, 1) for name, value in sums.items()}


# Any: what batches and outputs are made of.
def _on_cpu(value: Any) -> Any:
    """Give tensors where there is room for those of many batches, and where every rank can read them."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return value.detach().cpu()
    if hasattr(value, "items"):
        return {key: _on_cpu(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_on_cpu(entry) for entry in value)
    return value


def _share_averages(model: Any) -> None:
    ranks = group()
    if ranks is None:
        return
    attributes: list[Any] = list(getattr(model, "__dict__", {}).values())
    for module in chain.from_iterable(part.modules() for part in (model, *attributes) if hasattr(part, "modules")):
        if getattr(module, "track_running_stats", False):
            ranks.broadcast(module.running_mean, 0)
            ranks.broadcast(module.running_var, 0)


@contextmanager
def _kept(runner: Run) -> Generator[None]:
    """Validate inside ``with``; after it the run is as it was: its place, its data, what is trained and what is not."""
    names = ("mode", "data_loader", "inner_iter", "batch", "outputs", "loaders")
    kept = {name: getattr(runner, name) for name in names}
    runner.loaders = dict(runner.loaders)
    walk: Any = getattr(runner.model, "named_modules", None)
    modules: list[Any] = [] if walk is None else [module for _, module in walk()]
    turns = [bool(module.training) for module in modules]
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(runner, name, value)
        if runner.mode == "train" and callable(getattr(runner.model, "train", None)):
            runner.model.train()
        for module, turn in zip(modules, turns, strict=True):
            module.training = turn


@final
@HOOKS.register
class EarlyStoppingHook(Hook):
    """End the run where a number of its validations has become no better for some time.

    A score is better, by mmengine's rule, if it is as good as the best one bettered by `min_delta`: for ``"greater"``,
    ``score >= best + min_delta``. What is not a number never is. Validations outside a run do not count; of a run that
    is resumed, those before do.

    Args:
        monitor: The number in the run's logs; ``"loss"`` means ``"val_loss"``.
        patience: After how many validations that are no better to stop.
        min_delta: By how much a score must be better.
        rule: Whether ``"greater"`` or ``"less"`` is better; else known by the name: by all of it, or by a part.
        baseline: What counts as the best score at first.
        stopping_threshold: Stop as soon as a score is better than this.
        check_finite: Stop if a score is infinite or no number.
        strict: A validation without that number is an error; else a warning in the log.

    Attributes:
        best_score: The best score so far.
        wait_count: How many validations were no better since.

    Raises:
        HookOptionError: An option has a value that it cannot have, or the rule cannot be known by the name.
        HookTypeError: An option is of another type.

    Example:
        >>> hook = EarlyStoppingHook("accuracy", patience=3)
        >>> hook.rule, hook.best_score
        ('greater', -inf)
        >>> EarlyStoppingHook("f1")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ...
    """

    priority: int | str = "LOWEST"

    def __init__(
        self,
        monitor: str,
        *,
        patience: int = 5,
        min_delta: float = 0.1,
        rule: Rule | None = None,
        baseline: float | None = None,
        stopping_threshold: float | None = None,
        check_finite: bool = True,
        strict: bool = False,
    ) -> None:
        who = "EarlyStoppingHook"
        if rule not in (None, "greater", "less"):
            near = nearest(str(rule), ["greater", "less"])
            raise HookOptionError(f"{who}(rule={brief(rule)}): give 'greater', 'less' or None{near}")
        self.monitor = monitor
        self.rule: Rule = rule or rule_of(monitor)
        self.patience = whole(who, "patience", patience, 1)
        self.min_delta = number(who, "min_delta", min_delta)
        self.stopping_threshold = (
            None if stopping_threshold is None else number(who, "stopping_threshold", stopping_threshold)
        )
        self.check_finite = check_finite
        self.strict = strict
        worst = -inf if self.rule == "greater" else inf
        self.best_score: float = worst if baseline is None else number(who, "baseline", baseline)
        self.wait_count = 0
        self._running = False

    def before_run(self, runner: Runner) -> None:
        """Begin to count; a run that had been stopped, and is resumed, is stopped again."""
        self._running = True
        if self.wait_count >= self.patience:
            self._stop(runner, self._no_better())

    def after_run(self) -> None:
        """End to count."""
        self._running = False

    def after_val_epoch(self, runner: Runner) -> None:
        """Judge the validation.

        Raises:
            TrainingError: It has no such number, and `strict` was asked for.
        """
        if not self._running:
            return
        key = f"{_VAL}{self.monitor}" if f"{_VAL}{self.monitor}" in runner.logs else self.monitor
        score: float | None = agreed(float(runner.logs[key]) if key in runner.logs else None)
        if score is None:
            self._miss(runner)
            return
        why = self._judge(score)
        if why is not None:
            self._stop(runner, why)

    def _judge(self, score: float) -> str | None:
        """Take a score, and say why to stop, if so."""
        if self.check_finite and not isfinite(score):
            return f"{self.monitor} is {score}"
        threshold = self.stopping_threshold
        if threshold is not None and self._exceeds(score, threshold):
            self.best_score = score
            return f"{self.monitor} is {score:g}, and {threshold:g} was to be reached"
        margin = self.min_delta if self.rule == "greater" else -self.min_delta
        if self._exceeds(self.best_score + margin, score) or isnan(score):
            self.wait_count += 1
            return self._no_better() if self.wait_count >= self.patience else None
        self.best_score, self.wait_count = score, 0
        return None

    def _exceeds(self, one: float, other: float) -> bool:
        return one > other if self.rule == "greater" else one < other

    def _no_better(self) -> str:
        return f"{self.monitor} was no better in {self.wait_count} validations; the best was {self.best_score:g}"

    def _stop(self, runner: Runner, why: str) -> None:
        runner.logger.info("EarlyStoppingHook: %s; the run ends", why)
        runner.request_stop()

    def _miss(self, runner: Runner) -> None:
        there = [name for name in runner.logs if name.startswith(_VAL)]
        text = (
            f"EarlyStoppingHook(monitor={self.monitor!r}): the validation made no such number; there are: "
            f"{', '.join(there) or 'none'}{nearest(self.monitor, there)}"
        )
        if self.strict:
            raise TrainingError(text)
        runner.logger.warning("%s", text)

    def state_dict(self) -> dict[str, Any]:
        """Give the best score, and how long it has been waited for a better one."""
        return {"best_score": self.best_score, "wait_count": self.wait_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.best_score, self.wait_count = float(state["best_score"]), int(state["wait_count"])
