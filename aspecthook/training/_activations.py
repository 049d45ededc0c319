"""Hooks that look at the activations of a model while it is trained: neurons that never fire, and histograms."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import HookOptionError

from ._errors import TrainingError
from ._hooks import HOOKS, Hook

if TYPE_CHECKING:
    from aspecthook.torch import Histogram, HistogramWatch, Neurons, NeuronWatch
    from aspecthook.weave import Names

    from ._runner import Runner


@final
@HOOKS.register
class DeadNeuronHook(Hook):
    """Find the units of a PyTorch model that no input of an epoch makes fire, and log their share.

    It is logged as ``dead/<module>``, from 0 to 1, after each epoch that is looked at; the run warns of modules where
    it is large. On several machines a unit is dead if it is dead on all.

    Args:
        names: Whose units, as in `weave`: a pattern or a class of modules; all ReLUs, unless given.
        interval: Look at every so many epochs.
        threshold: A unit has fired when the absolute value of its activation was over this.
        dim: The dimension of the units.
        activation: Called on what a module gives first: ``torch.relu``, where the model calls it as a function.
        warn_at: From which share on to warn.

    Attributes:
        neurons: By the names of the modules, the units of the last epoch that was looked at.

    Example:
        >>> hook = DeadNeuronHook("backbone.*", interval=5)
        >>> hook.neurons
        {}
    """

    def __init__(
        self,
        names: Names | None = None,
        *,
        interval: int = 1,
        threshold: float = 0.0,
        dim: int = 1,
        activation: Callable[[Any], Any] | None = None,
        warn_at: float = 0.5,
    ) -> None:
        self._names = names
        self._interval = _positive("DeadNeuronHook", "interval", interval)
        self._options: dict[str, Any] = {"threshold": threshold, "dim": dim, "activation": activation}
        self._warn_at = warn_at
        self._watch: NeuronWatch | None = None
        self._resumed: dict[str, Any] = {}
        self.neurons: dict[str, Neurons] = {}

    def before_train_epoch(self, runner: Runner) -> None:
        """Begin to look."""
        _check_model(self, runner)
        if not self.every_n_epochs(runner, self._interval):
            return
        from aspecthook.torch import watch_neurons

        self._watch = watch_neurons(runner.model, self._names, when=lambda: runner.mode == "train", **self._options)
        self._watch.load_state_dict(self._resumed)
        self._resumed = {}

    def after_train_epoch(self, runner: Runner) -> None:
        """Say what was found."""
        if self._watch is None:
            return
        self._watch.fired = _on_any_rank(self._watch.fired, runner.world_size)
        self.neurons = dict(self._watch)
        for name, found in self.neurons.items():
            runner.logs[f"dead/{name}"] = found.share
            if found.share >= self._warn_at and runner.rank == 0:
                runner.logger.warning(
                    "%s: %d of %d units never fired in epoch %d", name, len(found.dead), found.units, runner.epoch + 1
                )

    def always_train_epoch(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.remove()
            self._watch = None

    def state_dict(self) -> dict[str, Any]:
        """Give what has fired in the epoch under way."""
        return {"fired": {} if self._watch is None else self._watch.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self._resumed = state["fired"]


def _on_any_rank(fired: dict[str, Any], world_size: int) -> dict[str, Any]:
    if world_size < 2:
        return fired
    # Imported so, this file has the same types whether or not PyTorch is installed.
    distributed: Any = import_module("torch.distributed")
    found: dict[str, Any] = {}
    for name in sorted(fired):
        found[name] = fired[name].int()
        distributed.all_reduce(found[name], distributed.ReduceOp.MAX)
    return {name: found[name].bool() for name in fired}


@final
@HOOKS.register
class ActivationHistogramHook(Hook):
    """Draw how the activations of a PyTorch model are distributed, epoch by epoch the newest.

    They are counted as they go by; none is kept. The picture is written into the ``work_dir``, and put into the report
    where there is a `ReportHook`. Needs matplotlib.

    Args:
        names: Of which modules, as in `weave`: a pattern or a class; all that hold no others, unless given.
        interval: Draw after every so many epochs.
        every: Count in every so many iterations.
        bins: About how many bins a histogram has, at most.
        path: The picture, in the ``work_dir`` unless absolute; None for only the report.
        title: What the report writes above it.

    Attributes:
        histograms: By the names of the modules, the histograms of the last epoch that was counted.

    Example:
        >>> hook = ActivationHistogramHook("conv*", every=10)
        >>> hook.histograms
        {}
    """

    # Before the reports are written.
    priority = "NORMAL"

    def __init__(
        self,
        names: Names | None = None,
        *,
        interval: int = 1,
        every: int = 10,
        bins: int = 40,
        path: str | os.PathLike[str] | None = "activations.png",
        title: str = "Activations",
    ) -> None:
        if find_spec("matplotlib") is None:
            raise TrainingError("ActivationHistogramHook needs matplotlib; pip install matplotlib")
        self._names = names
        self._interval = _positive("ActivationHistogramHook", "interval", interval)
        self._every = _positive("ActivationHistogramHook", "every", every)
        self._bins = _positive("ActivationHistogramHook", "bins", bins)
        self._path = path
        self._title = title
        self._watch: HistogramWatch | None = None
        self._resumed: dict[str, Any] = {}
        self.histograms: dict[str, Histogram] = {}

    def before_run(self, runner: Runner) -> None:
        """Take a place in the report."""
        for hook in runner.hooks:
            section = getattr(hook, "section", None)
            if callable(section):
                section(self._title, self.figure)

    def before_train_epoch(self, runner: Runner) -> None:
        """Begin to count."""
        _check_model(self, runner)
        if not self.every_n_epochs(runner, self._interval):
            return
        from aspecthook.torch import watch_histograms

        def due() -> bool:
            return runner.mode == "train" and runner.iter % self._every == 0

        self._watch = watch_histograms(runner.model, self._names, bins=self._bins, when=due)
        self._watch.load_state_dict(self._resumed)
        self._resumed = {}

    def after_train_epoch(self, runner: Runner) -> None:
        """Draw what was counted."""
        if self._watch is None:
            return
        self.histograms = dict(self._watch)
        if self._path is not None and runner.work_dir is not None and runner.rank == 0:
            runner.work_dir.mkdir(parents=True, exist_ok=True)
            self.figure().savefig(runner.work_dir / self._path, dpi=130)

    def always_train_epoch(self) -> None:
        """Count no more."""
        if self._watch is not None:
            self._watch.remove()
            self._watch = None

    def figure(self) -> Any:
        """Give the picture as a figure of matplotlib; as long as nothing was counted, a line of text."""
        from aspecthook.torch import drawn

        return drawn(self.histograms) if self.histograms else "no epoch has been counted yet"

    def state_dict(self) -> dict[str, Any]:
        """Give what was counted in the epoch under way."""
        return {"counted": {} if self._watch is None else self._watch.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self._resumed = state["counted"]


def _positive(who: str, option: str, value: int) -> int:
    if value < 1:
        raise HookOptionError(f"{who}: {option}={value!r}; give a whole number from 1 up")
    return value


def _check_model(hook: Hook, runner: Runner) -> None:
    if runner.backend.name != "torch" or not hasattr(runner.model, "named_modules"):
        raise TrainingError(
            f"{type(hook).__name__} looks into modules of PyTorch, and the model of this run is of type "
            f"{type(runner.model).__name__}; leave the hook out"
        )
