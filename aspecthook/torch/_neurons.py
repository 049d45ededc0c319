"""Neurons that never fire: units whose activation no input has brought over a threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Unpack, final

from aspecthook._core.law.options import Options
from aspecthook._errors import WeaveError
from aspecthook.weave import Names, Weaving, weave

from ._values import run, torch

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
        """Which part of the units is dead, from 0 to 1."""
        return len(self.dead) / self.units if self.units else 0.0


@final
class NeuronWatch(Mapping[str, Neurons]):
    """What `watch_neurons` gives: by the names of the modules, the units that have not fired since it began."""

    def __init__(self, threshold: float, dim: int, activation: Callable[[Any], Any] | None) -> None:
        self._threshold = threshold
        self._dim = dim
        self._activation = activation
        self.fired: dict[str, Any] = {}
        self.weaving: Weaving | None = None

    def begin(self, model: Any, names: Names | None, options: Options) -> NeuronWatch:
        """Put the hooks on."""
        self.weaving = weave(model, _relus(model) if names is None else names, post=self._note, **options)
        return self

    def _note(self, name: str, result: Any) -> None:
        values = result.detach() if self._activation is None else self._activation(result.detach())
        dim = self._dim if values.dim() > self._dim else -1
        units = values.abs().movedim(dim, 0).flatten(1)
        fired = (units > self._threshold).any(1)
        before = self.fired.get(name)
        self.fired[name] = fired if before is None else before.to(fired.device) | fired

    def __getitem__(self, name: str) -> Neurons:
        fired = self.fired[name]
        return Neurons(len(fired), tuple((~fired).nonzero().flatten().tolist()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.fired)

    def __len__(self) -> int:
        return len(self.fired)

    def state_dict(self) -> dict[str, Any]:
        """Give what has fired so far, as arrays."""
        return {name: fired.cpu().numpy() for name, fired in self.fired.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` has given."""
        self.fired = {name: torch.tensor(fired) for name, fired in state.items()}

    def remove(self) -> None:
        """Take the hooks off; what was seen stays."""
        if self.weaving is not None:
            self.weaving.remove()

    def __enter__(self) -> NeuronWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


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
    """Watch which units fire in the calls that follow, until it is removed, or to the end of a block.

    Args:
        model: A module of PyTorch.
        names: Whose units: a pattern, a class of modules, or several; unless given, those of all ReLUs.
        threshold: A unit has fired when the absolute value of its activation was over this.
        dim: The dimension of the units: channels of a convolution, features of a linear layer. Where there is no such
            dimension, the last one.
        activation: Called on what a module gives first: ``torch.relu``, where the model calls it as a function.
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
    return NeuronWatch(threshold, dim, activation).begin(model, names, {"priority": "LOWEST", **options})


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
    """Find the units that no input of these batches makes fire. The model is run as in evaluation, and left as it was.

    Args:
        model: A module of PyTorch.
        batches: Inputs, or tuples that begin with them, as loaders give them.
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
