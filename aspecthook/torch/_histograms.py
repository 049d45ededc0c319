"""Histograms of the activations of modules, counted call by call, so that no activation is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from math import ceil, log2
from typing import Any, NamedTuple, Unpack, final

from aspecthook._core.law.callables import type_of
from aspecthook._core.law.options import Options
from aspecthook._errors import HookOptionError
from aspecthook.weave import Names

from ._values import run, tensors, torch
from ._watch import Watch

_FINE = 2048  # bins while counting, over a range that grows by twos


class Histogram(NamedTuple):
    """The counts of values between neighbouring edges, of which there is one more than counts.

    ``zeros`` counts the values that were exactly 0, ``odd`` those that were infinite or NaN and so in no other count.

    Example:
        >>> Histogram(counts=(3, 1), edges=(0.0, 1.0, 2.0), zeros=2, odd=0).total
        4
    """

    counts: tuple[int, ...]
    edges: tuple[float, ...]
    zeros: int
    odd: int

    @property
    def total(self) -> int:
        """The number of values that were counted."""
        return sum(self.counts)


@final
class _Counter:
    """Counts values in bins from -span to span; the span doubles when a value lies outside."""

    def __init__(self, counts: Any = None, span: float = 1.0, zeros: int = 0, odd: int = 0) -> None:
        self.counts: Any = torch.zeros(_FINE, dtype=torch.int64) if counts is None else torch.tensor(counts)
        self.span = span
        self.zeros = zeros
        self.odd = odd

    def add(self, values: Any) -> None:
        """Count the values of a tensor."""
        flat = values.detach().flatten().float()
        fine = flat[torch.isfinite(flat)]
        self.odd += len(flat) - len(fine)
        if not len(fine):
            return
        self.zeros += int((fine == 0).sum())
        self._reach(float(fine.abs().max()))
        # A quarter of all: from -span to span may be more than the greatest float, and PyTorch then counts nothing.
        reach = self.span / 4
        self.counts += torch.histc(fine / 4, _FINE, -reach, reach).to("cpu", torch.int64)

    def _reach(self, most: float) -> None:
        while most > self.span:
            pairs = self.counts.view(-1, 2).sum(1)
            self.counts.zero_()
            self.counts[_FINE // 4 : 3 * _FINE // 4] = pairs
            self.span *= 2

    def histogram(self, bins: int) -> Histogram:
        """Return a histogram of about `bins` bins, over the range of what was counted."""
        used = self.counts.nonzero().flatten().tolist()
        if not used:
            return Histogram((), (0.0,), self.zeros, self.odd)
        first, last = used[0], used[-1] + 1
        width = 2 ** max(0, ceil(log2((last - first) / bins)))
        first -= first % width
        last += -last % width
        rows = self.counts[first:last].view(-1, width).sum(1).tolist()
        step = 2 * self.span / _FINE
        edges = [step * place - self.span for place in range(first, last + 1, width)]
        return Histogram(tuple(rows), tuple(edges), self.zeros, self.odd)


@final
class HistogramWatch(Watch[Histogram]):
    """What `watch_histograms` returns: for each module, by its name, the histogram of its outputs so far.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        >>> watch = watch_histograms(model, "1")
        >>> _ = model(torch.ones(5, 2))
        >>> list(watch), watch["1"].total
        (['1'], 15)
        >>> watch.remove()
    """

    collected: dict[str, _Counter]

    def __init__(self, bins: int) -> None:
        super().__init__()
        self._bins = bins

    def note(self, name: str, result: Any) -> None:
        """Count the output of one call, as a hook of a module."""
        counter = self.collected.setdefault(name, _Counter())
        for tensor in tensors(result):
            counter.add(tensor)

    def __getitem__(self, name: str) -> Histogram:
        return self.collected[name].histogram(self._bins)

    def clear(self) -> None:
        """Forget what was counted so far."""
        self.collected.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted so far, as numbers and arrays."""
        return {
            name: {"counts": one.counts.numpy(), "span": one.span, "zeros": one.zeros, "odd": one.odd}
            for name, one in self.collected.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` has returned."""
        self.collected = {name: _Counter(**row) for name, row in state.items()}


def _leaves(model: Any) -> Iterator[Any]:
    """Yield the modules that contain no others and have a forward."""
    for module in model.modules():
        held = any(True for _ in module.children())
        if module is not model and not held and getattr(type_of(module), "forward") is not torch.nn.Module.forward:
            yield module


def watch_histograms(
    model: Any, names: Names | None = None, /, *, bins: int = 40, **options: Unpack[Options]
) -> HistogramWatch:
    """Count the outputs of modules from now on, until the watch is removed or its block ends.

    Args:
        model: A module of PyTorch.
        names: Which modules: a pattern, a class, or several; unless given, all that contain no others.
        bins: The number of bins of a histogram, at most and about.
        options: As in `weave`: ``every``, ``when`` and so on.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        >>> with watch_histograms(model) as watch:
        ...     _ = model(torch.ones(5, 2))
        >>> {name: histogram.total for name, histogram in watch.items()}
        {'0': 15, '1': 15}
    """
    if bins < 1:
        raise HookOptionError(f"bins={bins}: give a number from 1 up")
    watch = HistogramWatch(bins)
    chosen: Any = names if names is not None else [type(one) for one in _leaves(model)] or None
    return watch.begin(model, chosen, watch.note, {"priority": "LOWEST", **options})


def histograms(
    model: Any, batches: Iterable[Any], names: Names | None = None, /, *, bins: int = 40
) -> dict[str, Histogram]:
    """Count the outputs of modules for some batches. The model runs in evaluation mode, and is left as it was.

    Args:
        model: A module of PyTorch.
        batches: Inputs, or tuples that begin with them, as loaders yield them.
        names: As for `watch_histograms`.
        bins: Likewise.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU())
        >>> found = histograms(model, [torch.tensor([[-1.0, 2.0, 3.0]])], torch.nn.ReLU)
        >>> found["1"].edges[0], found["1"].total
        (0.0, 3)
    """
    with watch_histograms(model, names, bins=bins) as watch:
        run(model, batches)
    return dict(watch)


def drawn(found: Mapping[str, Histogram], *, columns: int = 3) -> Any:
    """Draw histograms as one figure of matplotlib: the share of values over their size, one module a panel.

    Args:
        found: What `histograms` returns, or a watch.
        columns: The number of panels in a row.

    Returns:
        A ``matplotlib.figure.Figure``; pyplot does not know it, so that it need not be closed.

    Example:
        >>> figure = drawn({"relu": Histogram((3, 1), (0.0, 1.0, 2.0), 0, 0)})
        >>> [axes.get_title() for axes in figure.axes]
        ['relu']
    """
    # `import_module`, so that type checkers see the same whether or not matplotlib is installed.
    make: Any = import_module("matplotlib.figure").Figure
    rows = max(1, ceil(len(found) / columns))
    width = min(columns, max(1, len(found)))
    figure: Any = make(figsize=(3.4 * width, 2.2 * rows), layout="constrained")
    for place, (name, one) in enumerate(found.items()):
        axes = figure.add_subplot(rows, width, place + 1)
        axes.set_title(name, fontsize=9)
        axes.stairs([100 * count / max(1, one.total) for count in one.counts], one.edges, fill=True)
        axes.tick_params(labelsize=7)
        axes.set_ylabel("% of values", fontsize=7)
        said = [f"{100 * one.zeros / one.total:.0f} % zero"] if one.zeros else []
        said += [f"{one.odd} not finite"] if one.odd else []
        axes.text(0.98, 0.95, ", ".join(said), transform=axes.transAxes, ha="right", va="top", fontsize=7)
    return figure
