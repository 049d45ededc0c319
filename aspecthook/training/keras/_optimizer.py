"""The optimizer of a run, with the attributes that Keras's callbacks use, and learning rates by Keras's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training.loop._run import Run


@final
class LearningRate(float):
    """A learning rate that has the methods of a Keras variable: assigning to it sets the rate of the optimizer."""

    _optimizer: Optimizer

    @classmethod
    def of(cls, optimizer: Optimizer, value: float) -> LearningRate:
        """Return the learning rate of an optimizer."""
        rate = cls(value)
        rate._optimizer = optimizer
        return rate

    def numpy(self) -> float:
        """Return the rate as a plain float."""
        return float(self)

    value = property(numpy)

    def assign(self, value: Any) -> None:
        """Set the learning rate of the optimizer."""
        self._optimizer.learning_rate = value


@final
class Optimizer:
    """The optimizer of a run, as ``self.model.optimizer`` of a callback.

    Attributes that are not listed here are those of the run's own optimizer.

    Args:
        find: Returns the run. A callback that keeps the optimizer must not keep the run alive.

    Example:
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.numpy import SGD, Linear
        >>> net = Linear(2, 1)
        >>> weight, bias = net.parameters()
        >>> sgd = SGD([{"params": [weight], "lr": 0.1}, {"params": [bias], "lr": 0.2}])
        >>> runner = Runner(net, optimizer=sgd)
        >>> optimizer = Optimizer(lambda: runner)
        >>> optimizer.learning_rate = 0.05
        >>> [group["lr"] for group in sgd.param_groups]
        [0.05, 0.1]
    """

    built = True  # Keras's own callbacks ask

    def __init__(self, find: Callable[[], Run]) -> None:
        self._find = find

    @property
    def learning_rate(self) -> Any:  # Any: it is read as a number, and set to a number, an array or a variable
        """The learning rate of the first parameter group; setting it keeps the ratios of the other groups to it."""
        return LearningRate.of(self, float(self._groups()[0]["lr"]))

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        rate = float(value.numpy() if hasattr(value, "numpy") else value)
        groups = self._groups()
        first = float(groups[0]["lr"])
        for group in groups:
            lr = float(group["lr"])
            scaled = rate if lr == first or not first else rate * (lr / first)
            if hasattr(group["lr"], "fill_"):  # PyTorch's `capturable` optimizers hold tensors, which graphs read
                group["lr"].fill_(scaled)
            else:
                group["lr"] = scaled

    lr = learning_rate  # its older name

    @property
    def iterations(self) -> int:
        """How many optimizer steps the run has made."""
        return self._find().done.step

    @property
    def name(self) -> str:
        """The name of the optimizer's class."""
        return type(self._find().optimizer).__name__

    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = list(getattr(self._find().optimizer, "param_groups", ()))
        if not groups or "lr" not in groups[0]:
            raise TrainingError(
                f"{self.name} has no param_groups with a learning rate 'lr', and a callback asks for it; give the run "
                "an optimizer with param_groups, or leave the callback out"
            )
        return groups

    def __getattr__(self, name: str) -> Any:
        return getattr(self._find().optimizer, name)


# Any, in what follows: models and optimizers are ours, or those of Keras.


def optimizers(model: Any) -> list[Any]:
    """Return the optimizer of a model; those of Keras's ``MultiOptimizer``."""
    return list(getattr(model.optimizer, "optimizers", (model.optimizer,)))


def rate_of(optimizer: Any) -> float:
    """Return the learning rate of an optimizer, ours or one of Keras."""
    rate = optimizer.learning_rate
    return float(rate.numpy() if hasattr(rate, "numpy") else rate)


def rates(model: Any) -> dict[str, float]:
    """Return the learning rates by the names that Keras logs them under."""
    if hasattr(model.optimizer, "optimizers"):
        return {f"learning_rate_{optimizer.name}": rate_of(optimizer) for optimizer in optimizers(model)}
    return {"learning_rate": rate_of(model.optimizer)}
