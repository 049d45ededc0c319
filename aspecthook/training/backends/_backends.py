"""What a runner needs of a numerical library, behind one protocol.

Neither NumPy nor PyTorch is imported before a model needs it, and PyTorch never for a model that is none of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from aspecthook.training._errors import TrainingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays: TypeAlias = dict[str, NDArray[Any]]
    GivenArrays: TypeAlias = Mapping[str, NDArray[Any]]

# Models, losses, optimizers and batches are whatever the user trains, with whatever he trains it: hence the Any below.


class Amp(Protocol):
    """Mixed precision: where to compute in it, and the scaling of losses that half precision needs."""

    def autocast(self) -> AbstractContextManager[Any]:
        """Compute the forward pass in mixed precision inside ``with``."""
        ...

    def scale(self, loss: Any) -> Any:
        """Give the loss to call ``backward`` of."""
        ...

    def unscale(self, optimizer: Any) -> None:
        """Take the scale out of the gradients, before they are looked at; once a step, however often it is called."""
        ...

    def step(self, optimizer: Any) -> None:
        """Step the optimizer, unless gradients overflowed, and adapt the scale."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Give the state of the scaler; for JSON."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        ...


class Backend(Protocol):
    """What a runner and its hooks ask of the library that a model is made with.

    Arrays go by the names that the library gives to the parameters and buffers of a model, and are copies.
    """

    @property
    def name(self) -> str:
        """``"numpy"`` or ``"torch"``."""
        ...

    def place(self, model: Any, device: str | None = None) -> None:
        """Move a model that is on the CPU to where it is to be trained: the device, else a GPU if there is one."""
        ...

    def to_device(self, batch: Any, model: Any) -> Any:
        """Give the batch as the model takes it: in its library, and where its parameters are."""
        ...

    def mover(self, model: Any) -> Callable[[Any], Any]:
        """Give `to_device` for many batches: where the parameters are is looked up once."""
        ...

    def parameters(self, model: Any) -> dict[str, Any]:
        """Give the live parameters."""
        ...

    def state(self, model: Any) -> Arrays:
        """Give the parameters and the buffers."""
        ...

    def load_state(self, model: Any, arrays: GivenArrays) -> None:
        """Take back what `state` has given.

        Raises:
            TrainingError: Names or shapes differ; all that do are named, and nothing is changed.
        """
        ...

    def gradients(self, model: Any) -> dict[str, NDArray[Any] | None]:
        """Give the gradients; None for a parameter that has none yet."""
        ...

    def load_gradients(self, model: Any, arrays: Mapping[str, NDArray[Any] | None]) -> None:
        """Take back what `gradients` has given."""
        ...

    def clip_gradients(self, model: Any, max_norm: float, norm_type: float = 2.0) -> float:
        """Scale all gradients down so that their norm as one vector is at most this, and give the norm before.

        With mixed precision, take the scale out of them first.
        """
        ...

    def mix(self, model: Any, arrays: Arrays, weight: float) -> None:
        """Move the arrays towards the model, in place: ``(1 - weight) * array + weight * value``.

        What is no floating-point number is copied.
        """
        ...

    def swap(self, model: Any, arrays: Arrays) -> None:
        """Exchange the arrays with the model's values of these names, in place."""
        ...

    def item(self, value: Any) -> float:
        """Give a loss or another single value as a number."""
        ...

    def is_nan(self, value: Any) -> bool:
        """Say whether anything in a loss, a number or an array is not a number."""
        ...

    def no_grad(self) -> AbstractContextManager[Any]:
        """Compute without gradients inside ``with``."""
        ...

    def amp(self, kind: bool | str = True, model: Any = None) -> Amp:
        """Give mixed precision, for the device that the model is on: ``"fp16"``, ``"bf16"``, or what suits the device.

        Raises:
            TrainingError: This library has none.
        """
        ...

    def optimizer_state(self, optimizer: Any) -> tuple[Arrays, dict[str, Any]]:
        """Give the state of an optimizer: its arrays by name, and the rest, for JSON."""
        ...

    def load_optimizer_state(self, optimizer: Any, arrays: GivenArrays, rest: Mapping[str, Any]) -> None:
        """Take back what `optimizer_state` has given.

        Raises:
            TrainingError: It is that of another kind of optimizer, or of one for other parameters.
        """
        ...

    def seed(self, seed: int) -> None:
        """Seed every generator that `rng_state` knows."""
        ...

    def rng_state(self) -> dict[str, Any]:
        """Give the states of all generators, as a tree of numbers, strings, lists, dicts and arrays.

        They are Python's ``random``, NumPy's global one, that of this library, and for PyTorch those of all devices.
        """
        ...

    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `rng_state` has given."""
        ...


def backend_of(model: Any) -> Backend:
    """Give the back end that a model needs.

    Args:
        model: A PyTorch module, or an object with some in its attributes (a GAN, say); anything else is NumPy's.

    Example:
        >>> from aspecthook.training.numpy import Linear
        >>> backend_of(Linear(64, 10)).name
        'numpy'
    """
    torch: Any = sys.modules.get("torch")  # a model of its modules cannot be there before it is
    if torch is not None and modules_of(model, torch.nn.Module):
        from ._torch import TorchBackend

        return TorchBackend()
    from ._numpy import NumpyBackend

    return NumpyBackend()


def modules_of(model: Any, kind: type | tuple[type, ...]) -> dict[str, Any]:
    """Give what in a model is of a kind, by the prefix of its names: the model itself, or some of its attributes."""
    if isinstance(model, kind):
        return {"": model}
    return {f"{name}.": value for name, value in _attributes(model).items() if isinstance(value, kind)}


def _attributes(model: Any) -> dict[str, Any]:
    return getattr(model, "__dict__", {})


def check_arrays(
    what: str, expected: Mapping[str, Sequence[int]], given: Mapping[str, Any], *, partly: bool = False
) -> None:
    """Refuse arrays that are not those of a model.

    Args:
        what: What was to be loaded into, for the message.
        expected: The shapes, by name.
        given: The arrays, by name.
        partly: Some may be missing.

    Raises:
        TrainingError: Names all that are missing, unexpected or of another shape.
    """
    missing = [] if partly else [name for name in expected if name not in given]
    unexpected = [name for name in given if name not in expected]
    shapes = [
        f"{name} is {_shape(given[name].shape)}, and {_shape(shape)} here"
        for name, shape in expected.items()
        if name in given and tuple(given[name].shape) != tuple(shape)
    ]
    rows = [("missing", missing), ("unexpected", unexpected), ("of another shape", shapes)]
    wrong = [f"{title}: {', '.join(names)}" for title, names in rows if names]
    if wrong:
        raise TrainingError(
            f"these are not the tensors of {what}; {'; '.join(wrong)}. Build the model as it was when they were saved, "
            "or load another file; nothing was changed"
        )


def _shape(shape: Sequence[int]) -> str:
    return "×".join(str(size) for size in shape) or "a single number"
