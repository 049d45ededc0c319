"""The optimizer of a run, as Keras's callbacks see theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from aspecthook.training._errors import TrainingError

if TYPE_CHECKING:
    from ._model import Model


@final
class LearningRate(float):
    """A learning rate that can be assigned to, as a variable of Keras."""

    _optimizer: Optimizer

    @classmethod
    def of(cls, optimizer: Optimizer, value: float) -> LearningRate:
        """Give that of an optimizer."""
        made = cls(value)
        made._optimizer = optimizer
        return made

    @property
    def value(self) -> float:
        """The number."""
        return float(self)

    def numpy(self) -> float:
        """Give the number."""
        return float(self)

    def assign(self, value: Any) -> None:
        """Set the learning rate of the optimizer."""
        self._optimizer.learning_rate = value


@final
class Optimizer:
    """The optimizer of a run, as ``self.model.optimizer`` of a callback; what is not here is the optimizer's own.

    Example:
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.keras import Model
        >>> from aspecthook.training.numpy import SGD, Linear
        >>> net = Linear(2, 1)
        >>> weight, bias = net.parameters()
        >>> sgd = SGD([{"params": weight, "lr": 0.1}, {"params": bias, "lr": 0.2}])
        >>> model = Model(Runner(net, optimizer=sgd))
        >>> model.optimizer.learning_rate = 0.05
        >>> [group["lr"] for group in sgd.param_groups]
        [0.05, 0.1]
    """

    built = True  # Keras's own callbacks ask

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def _own(self) -> Any:
        return self._model.runner.optimizer

    @property
    def learning_rate(self) -> Any:  # Any: it is read as a number and set to whatever is one
        """The learning rate of the first group; that of others keeps its ratio to it when it is set."""
        return LearningRate.of(self, float(self._groups()[0]["lr"]))

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        rate = float(value.numpy() if hasattr(value, "numpy") else value)
        groups = self._groups()
        first = float(groups[0]["lr"])
        for group in groups:
            lr = float(group["lr"])
            _set(group, rate if lr == first or not first else rate * (lr / first))

    lr = learning_rate  # its older name

    @property
    def iterations(self) -> int:
        """How many steps were made."""
        return self._model.runner.progress["step"]

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self._own).__name__

    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = list(getattr(self._own, "param_groups", ()))
        if not groups or "lr" not in groups[0]:
            raise TrainingError(
                f"{self.name} has no param_groups with a learning rate 'lr', which a callback asks for; give the run "
                "an optimizer that has, or leave the callback out"
            )
        return groups

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


def _set(group: dict[str, Any], rate: float) -> None:
    if hasattr(group["lr"], "fill_"):  # PyTorch's `capturable` optimizers hold tensors, which graphs read
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate
