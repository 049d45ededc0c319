"""Hooks that watch the activations of a model during training: neurons that never fire, and histograms."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, optional_function, whole_number
from aspecthook.training.checkpoint._files import own_path, path_of
from aspecthook.training.loop._run import Run

from ._hook import HOOKS, Hook

if TYPE_CHECKING:
    from aspecthook.torch import Histogram, HistogramWatch, Neurons, NeuronWatch
    from aspecthook.weave import Names


class _WatchingHook(Hook):
    """A hook that watches a model for a whole epoch, part of which may lie before a resume."""

    def __init__(self, names: Names | None, interval: int) -> None:
        self._names = names
        self._interval = whole_number(type(self).__name__, "interval", interval, 1)
        self._runner: Run | None = None
        self._watch: Any = None
        # The state of the watch in an epoch that was interrupted.
        self._seen: dict[str, Any] = {}

    # Any: subclasses have watches of different classes.
    def begin(self, runner: Run) -> Any:
        """Add hooks to the model, and return the watch."""
        raise NotImplementedError

    def end(self, runner: Run, watch: Any) -> None:
        """Evaluate the watch of a whole epoch."""
        raise NotImplementedError

    def before_train_epoch(self, runner: Run) -> None:
        """Start watching, or continue; refuse a model that is not PyTorch's."""
        if runner.backend.name != "torch" or not hasattr(runner.model, "named_modules"):
            raise TrainingError(
                f"{type(self).__name__} watches PyTorch modules, but the model of this run is of type "
                f"{type(runner.model).__name__}; leave the hook out"
            )
        if self.every_n_epochs(runner, self._interval):
            self._runner = runner
            self._watch = self.begin(runner)
            self._watch.load_state_dict(self._seen)

    def after_train_epoch(self, runner: Run) -> None:
        """Evaluate the watch, if the epoch is complete."""
        if self._watch is not None and not runner.progress["inner_iter"]:
            self.end(runner, self._watch)

    def always_train_epoch(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.remove()
            self._seen = self._state()
            self._watch = None

    def _state(self) -> dict[str, Any]:
        if self._watch is None or self._runner is None:
            return self._seen
        return self._watch.state_dict() if self._runner.progress["inner_iter"] else {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the watch in the present epoch."""
        return {"seen": self._state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._seen = state["seen"]


@final
@HOOKS.register
class DeadNeuronHook(_WatchingHook):
    """Find the units of a PyTorch model that no input of an epoch activates, and log their share.

    The share, from 0 to 1, is logged as ``dead/<module>`` after each epoch that is watched, with a warning if it is
    large. On several ranks, a unit is dead if it is dead on all of them.

    Args:
        names: The modules, as in `weave`: a pattern or a class; all ReLUs unless given.
        interval: Watch every `interval` epochs.
        threshold: A unit fires if the absolute value of its activation is greater than this.
        dim: The dimension of the units.
        activation: Applied to the outputs of the modules first; ``torch.relu``, if the model calls it as a function.
        warn_at: The share from which on to warn.

    Attributes:
        neurons: The units of the last epoch that was watched, by the names of the modules.

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
        super().__init__(names, interval)
        who = "DeadNeuronHook"
        self._options: dict[str, Any] = {
            "threshold": finite_number(who, "threshold", threshold),
            "dim": whole_number(who, "dim", dim),
            "activation": optional_function(who, "activation", activation),
        }
        self._warn_at = finite_number(who, "warn_at", warn_at)
        self.neurons: dict[str, Neurons] = {}

    def begin(self, runner: Run) -> NeuronWatch:
        """Watch the neurons."""
        from aspecthook.torch import watch_neurons

        return watch_neurons(runner.model, self._names, when=lambda: runner.mode == "train", **self._options)

    def end(self, runner: Run, watch: NeuronWatch) -> None:
        """Log the shares of dead units."""
        watch.collected = _on_any_rank(watch.collected, runner.world_size)
        self.neurons = dict(watch)
        for name, found in self.neurons.items():
            runner.logs[f"dead/{name}"] = found.share
            if found.share >= self._warn_at and runner.rank == 0:
                runner.logger.warning(
                    "%s: %d of %d units never fired in epoch %d", name, len(found.dead), found.units, runner.epoch + 1
                )


def _on_any_rank(fired: dict[str, Any], world_size: int) -> dict[str, Any]:
    if world_size < 2:
        return fired
    # Imported this way, the file has the same types whether or not PyTorch is installed.
    distributed: Any = import_module("torch.distributed")
    found: dict[str, Any] = {}
    for name in sorted(fired):
        found[name] = fired[name].int()
        distributed.all_reduce(found[name], distributed.ReduceOp.MAX)
    return {name: found[name].bool() for name in fired}


@final
@HOOKS.register
class ActivationHistogramHook(_WatchingHook):
    """Draw histograms of the activations of a PyTorch model after each epoch.

    Activations are counted during the forward pass, and not kept. The picture of the newest epoch is written to the
    ``work_dir``, and shown in the report of a `ReportHook`. Needs matplotlib.

    Args:
        names: The modules, as in `weave`: a pattern or a class; all modules without submodules unless given.
        interval: Draw every `interval` epochs.
        every: Count in every `every`-th iteration, beginning with the first of each epoch.
        bins: The approximate number of bins of a histogram, at most.
        path: The picture, in the ``work_dir`` unless absolute; None for the report alone.
        title: The heading in the report.

    Attributes:
        histograms: The histograms of the last epoch that was counted, by the names of the modules.

    Example:
        >>> hook = ActivationHistogramHook("conv*", every=10)
        >>> hook.histograms
        {}
    """

    # Before the hooks that write reports.
    priority: int | str = "NORMAL"

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
            raise TrainingError("ActivationHistogramHook needs matplotlib; pip install 'aspecthook[train]'")
        super().__init__(names, interval)
        self._every = whole_number("ActivationHistogramHook", "every", every, 1)
        self._bins = whole_number("ActivationHistogramHook", "bins", bins, 1)
        self._path = None if path is None else path_of("ActivationHistogramHook", path)
        self._title = title
        self.histograms: dict[str, Histogram] = {}

    def before_run(self, runner: Run) -> None:
        """Add a section to the reports."""
        for hook in runner.hooks:
            section = getattr(hook, "section", None)
            if callable(section):
                section(self._title, self.figure)

    def begin(self, runner: Run) -> HistogramWatch:
        """Count the activations."""
        from aspecthook.torch import watch_histograms

        def due() -> bool:
            return runner.mode == "train" and runner.inner_iter % self._every == 0

        return watch_histograms(runner.model, self._names, bins=self._bins, when=due)

    def end(self, runner: Run, watch: HistogramWatch) -> None:
        """Draw the histograms."""
        self.histograms = dict(watch)
        if self._path is not None and runner.work_dir is not None and runner.rank == 0:
            runner.work_dir.mkdir(parents=True, exist_ok=True)
            target = self._path if self._path.is_absolute() else own_path(runner.work_dir, self._path)
            self.figure().savefig(target, dpi=130)

    def figure(self) -> Any:
        """Return the picture as a figure of matplotlib; before the first epoch was counted, a line of text."""
        from aspecthook.torch import drawn

        return drawn(self.histograms) if self.histograms else "no epoch has been counted yet"
