"""Dead neurons: units whose activation stays below a threshold for every input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Unpack, final

from aspecthook._core.law.options import Options
from aspecthook._errors import WeaveError
from aspecthook.weave import Names

from ._values import run, torch
from ._watch import Watch

_RELUS = ("ReLU", "ReLU6", "Threshold", "Hardtanh")


class Neurons(NamedTuple):
    """The units of one module, and which of them are dead.

    Example:
        >>> Neurons(units=64, dead=(3, 7, 8)).share
        0.046875
    """

    units: int
    dead: tuple[int, ...]

    @property
    def share(self) -> float:
        """The share of dead units, from 0 to 1."""
        return len(self.dead) / self.units if self.units else 0.0


@final
class NeuronWatch(Watch[Neurons]):
    """What `watch_neurons` returns: for each module, by its name, the units that have not fired so far.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU())
        >>> watch = watch_neurons(model)
        >>> _ = model(torch.rand(8, 1))
        >>> list(watch), watch["1"].units
        (['1'], 2)
        >>> watch.remove()
    """

    def __init__(self, threshold: float, dim: int, activation: Callable[[Any], Any] | None) -> None:
        super().__init__()
        self._threshold = threshold
        self._dim = dim
        self._activation = activation

    def note(self, name: str, result: Any) -> None:
        """Count the output of one call, as a hook of a module."""
        values = result.detach() if self._activation is None else self._activation(result.detach())
        dim = self._dim if values.dim() > self._dim else -1
        units = values.abs().movedim(dim, 0).flatten(1)
        fired = (units > self._threshold).any(1)
        before = self.collected.get(name)
        self.collected[name] = fired if before is None else before.to(fired.device) | fired

    def __getitem__(self, name: str) -> Neurons:
        fired = self.collected[name]
        return Neurons(len(fired), tuple((~fired).nonzero().flatten().tolist()))

    def state_dict(self) -> dict[str, Any]:
        """Return what has fired so far, as arrays."""
        return {name: fired.cpu().numpy() for name, fired in self.collected.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` has returned."""
        self.collected: dict[str, Any] = {name: torch.tensor(fired) for name, fired in state.items()}


def _relus(model: Any) -> list[type[Any]]:
    kinds = [getattr(torch.nn, name) for name in _RELUS]
    found = [kind for kind in kinds if any(type(one) is kind for one in model.modules())]
    if not found:
        raise WeaveError(
            f"{type(model).__name__} has no module that is a {', '.join(_RELUS)}; name the modules whose units may "
            f"die, with activation=torch.relu if that is called on what they give"
        )
    return found


def watch_neurons(
    model: Any,
    names: Names | None = None,
    /,
    *,
    threshold: float = 0.0,
    dim: int = 1,
    activation: Callable[[Any], Any] | None = None,
    **options: Unpack[Options],
) -> NeuronWatch:
    """Watch which units fire from now on, until the watch is removed or its block ends.

    Args:
        model: A module of PyTorch.
        names: Whose units: a pattern, a class of modules, or several; unless given, those of all ReLUs.
        threshold: A unit fires when the absolute value of its activation is above this.
        dim: The dimension of the units: channels of a convolution, features of a linear layer. If there is no such
            dimension, the last one.
        activation: Called with the output of a module first: ``torch.relu``, if the model calls it as a function.
        options: As in `weave`: ``every``, ``when`` and so on.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(1, 2, bias=False), torch.nn.ReLU())
        >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
        >>> with watch_neurons(model) as watch:
        ...     _ = model(torch.rand(8, 1))
        >>> watch["1"]
        Neurons(units=2, dead=(1,))
    """
    watch = NeuronWatch(threshold, dim, activation)
    return watch.begin(model, _relus(model) if names is None else names, watch.note, {"priority": "LOWEST", **options})


def dead_neurons(
    model: Any,
    batches: Iterable[Any],
    names: Names | None = None,
    /,
    *,
    threshold: float = 0.0,
    dim: int = 1,
    activation: Callable[[Any], Any] | None = None,
) -> dict[str, Neurons]:
    """Find the units that fire for no input of these batches. The model runs in evaluation mode, and is left as it was.

    Args:
        model: A module of PyTorch.
        batches: Inputs, or tuples that begin with them, as loaders yield them.
        names: As for `watch_neurons`.
        threshold: Likewise.
        dim: Likewise.
        activation: Likewise.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(1, 2, bias=False), torch.nn.ReLU())
        >>> _ = model[0].weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
        >>> dead_neurons(model, [torch.rand(8, 1), torch.rand(8, 1)])
        {'1': Neurons(units=2, dead=(1,))}
    """
    with watch_neurons(model, names, threshold=threshold, dim=dim, activation=activation) as watch:
        run(model, batches)
    return dict(watch)
