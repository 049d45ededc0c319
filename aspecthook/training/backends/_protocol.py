"""What a runner and its hooks need of a numerical library: the protocol `Backend`, and `Amp` for mixed precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

# As strings: this module does not import NumPy.
Array: TypeAlias = "NDArray[Any]"
Arrays: TypeAlias = "dict[str, NDArray[Any]]"

# Any, in what follows: models, losses, optimizers and batches are those of any library.


class Amp(Protocol):
    """Mixed precision: where to compute in it, and the scaling of losses that half precision needs."""

    def autocast(self) -> AbstractContextManager[Any]:
        """Compute the forward pass in mixed precision inside ``with``."""
        ...

    def scale(self, loss: Any) -> Any:
        """Return the loss whose ``backward`` is to be called."""
        ...

    def unscale(self, optimizer: Any) -> None:
        """Remove the scale from the gradients before somebody reads them; only once a step, if called several times."""
        ...

    def step(self, optimizer: Any) -> None:
        """Step the optimizer unless gradients overflowed, and adapt the scale."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the scaler, for JSON."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...


class Backend(Protocol):
    """The library that a model is made with, as a runner and its hooks use it.

    Arrays are copies, and have the names that the library gives to the parameters and buffers of a model.
    """

    @property
    def name(self) -> str:
        """``"numpy"`` or ``"torch"``."""
        ...

    def place(self, model: Any, device: str | None = None) -> None:
        """Move a model that is on the CPU to the device; to a GPU, if there is one, unless a device is given."""
        ...

    def to_device(self, batch: Any, model: Any) -> Any:
        """Return the batch as the model takes it: as tensors of its library, where its parameters are."""
        ...

    def mover(self, model: Any) -> Callable[[Any], Any]:
        """Return `to_device` for many batches; it finds out only once where the parameters are."""
        ...

    def parameters(self, model: Any) -> dict[str, Any]:
        """Return the parameters themselves, by name."""
        ...

    def state(self, model: Any) -> Arrays:
        """Return the parameters and the buffers."""
        ...

    def load_state(self, model: Any, arrays: Mapping[str, Array]) -> None:
        """Restore what `state` returned.

        Raises:
            TrainingError: Names or shapes differ; the message lists them all, and nothing is changed.
        """
        ...

    def gradients(self, model: Any) -> dict[str, Array | None]:
        """Return the gradients; None for a parameter without one."""
        ...

    def load_gradients(self, model: Any, arrays: Mapping[str, Array | None]) -> None:
        """Restore what `gradients` returned."""
        ...

    def clip_gradients(self, model: Any, max_norm: float, norm_type: float = 2.0) -> float:
        """Scale all gradients down so that their norm as one vector is at most `max_norm`; return the norm before.

        With mixed precision, call `Amp.unscale` first.
        """
        ...

    def mix(self, model: Any, arrays: Arrays, weight: float) -> None:
        """Move the arrays towards the model, in place: ``(1 - weight) * array + weight * value``.

        Arrays of other types than floating-point numbers are copied.
        """
        ...

    def swap(self, model: Any, arrays: Arrays) -> None:
        """Exchange the arrays with the model's values of these names, in place."""
        ...

    def item(self, value: Any) -> float:
        """Return a loss or another single value as a number."""
        ...

    def is_nan(self, value: Any) -> bool:
        """Whether there is a NaN in a loss, a number or an array."""
        ...

    def no_grad(self) -> AbstractContextManager[Any]:
        """Compute without gradients inside ``with``."""
        ...

    def amp(self, kind: bool | str = True, model: Any = None) -> Amp:
        """Return mixed precision for the device of the model: ``"fp16"``, ``"bf16"``, or with True what suits it.

        Raises:
            TrainingError: This library has no mixed precision.
        """
        ...

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """Return the type of an optimizer and a copy of its state, with arrays for tensors; {} if it has no state."""
        ...

    def load_optimizer_state(self, optimizer: Any, state: Mapping[str, Any]) -> None:
        """Restore what `optimizer_state` returned.

        Raises:
            TrainingError: It is the state of another type of optimizer, or of one for other parameters.
        """
        ...

    def seed(self, seed: int) -> None:
        """Seed every generator that `rng_state` knows."""
        ...

    def rng_state(self) -> dict[str, Any]:
        """Return the states of all generators, as a tree of numbers, strings, lists, dicts and arrays.

        They are Python's ``random``, NumPy's global one, that of this library, and for PyTorch those of all devices.
        """
        ...

    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `rng_state` returned."""
        ...
