"""The model of a callback on our runner, and its optimizer: they have all that Keras's callbacks use of Keras's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, SupportsFloat, final
from weakref import ref

from aspecthook.training._errors import TrainingError
from aspecthook.training.loop._runner import Runner

# Any: weights are arrays, and models take and return what they like.


class RunModel:
    """A run, with the attributes and methods that callbacks use of a ``keras.Model``.

    All other attributes are those of the model that is trained. A callback may set attributes of its own. The
    model does not keep the run alive.
    """

    metrics = ()  # Keras's monitors look here for metrics that it has compiled
    resumed = False  # whether the run continues another one, so that callbacks keep the states that they have

    def __init__(self, runner: Runner) -> None:
        # A weak reference: callbacks hold the model, and they are hooks of the run.
        self._find = ref(runner)
        self.history: object = None

    @property
    def runner(self) -> Runner:
        """The run; a ReferenceError if it was deleted."""
        runner = self._find()
        if runner is None:
            raise ReferenceError("the runner of this model was deleted; keep a reference to the Runner")
        return runner

    # What is trained

    @property
    def stop_training(self) -> bool:
        """Whether the run ends after this iteration; a callback may set it."""
        return self.runner.stopping

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        self.runner.stopping = bool(stop)

    @property
    def optimizer(self) -> Any:  # an Optimizer, which also has the attributes of the run's own
        """The optimizer, with ``learning_rate`` and ``iterations``; None if the run has none."""
        return None if self.runner.optimizer is None else Optimizer(self)

    def get_weights(self) -> list[Any]:
        """Return copies of the parameters and buffers."""
        return list(self.runner.backend.state(self.runner.model).values())

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Set the parameters and buffers, in the order of `get_weights`; all or none."""
        names = list(self.runner.backend.state(self.runner.model))
        given = list(weights)
        if len(given) != len(names):
            raise TrainingError(
                f"the model has {len(names)} weights, and {len(given)} were given; give those of its get_weights()"
            )
        self.runner.backend.load_state(self.runner.model, dict(zip(names, given, strict=True)))

    # Files

    def save(self, filepath: str | os.PathLike[str], overwrite: bool = True) -> None:
        """Save a checkpoint of the run, whatever the suffix of the file."""
        if not overwrite and os.path.exists(filepath):
            raise TrainingError(f"{os.fspath(filepath)} exists already; give overwrite=True, or another name")
        self.runner.save_checkpoint(filepath)

    save_weights = save  # weights of Keras have the state of the optimizer too

    # All other attributes

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the model that is trained."""
        return self.runner.model(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if "_find" not in vars(self):  # `copy` looks for methods before the copy has attributes
            raise AttributeError(name)
        try:
            return getattr(self.runner.model, name)
        except AttributeError:
            what = type(self.runner.model).__name__
            raise AttributeError(
                f"the model of a callback on our runner has no {name!r}, nor has {what}; of a keras.Model it has what "
                "callbacks use: see the reference of aspecthook.training.keras"
            ) from None


@final
class Optimizer:
    """The optimizer of a run, as ``self.model.optimizer`` of a callback.

    Attributes that are not listed here are those of the run's own optimizer.

    Example:
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.numpy import SGD, Linear
        >>> net = Linear(2, 1)
        >>> weight, bias = net.parameters()
        >>> sgd = SGD([{"params": [weight], "lr": 0.1}, {"params": [bias], "lr": 0.2}])
        >>> runner = Runner(net, optimizer=sgd)
        >>> optimizer = RunModel(runner).optimizer
        >>> optimizer.learning_rate = 0.05
        >>> [group["lr"] for group in sgd.param_groups]
        [0.05, 0.1]
    """

    def __init__(self, model: RunModel) -> None:
        self._model = model

    @property
    def learning_rate(self) -> Any:  # it is read as a float, and set to a number, an array or a variable
        """The learning rate of the first parameter group; setting it keeps the ratios of the other groups to it."""
        return float(self._groups()[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: SupportsFloat) -> None:
        rate = plain_rate(value)
        groups = self._groups()
        first = float(groups[0]["lr"])
        for group in groups:
            before = float(group["lr"])
            scaled = rate if before == first or not first else rate * (before / first)
            if hasattr(group["lr"], "fill_"):  # PyTorch's `capturable` optimizers hold tensors, which graphs read
                group["lr"].fill_(scaled)
            else:
                group["lr"] = scaled

    lr = learning_rate  # its older name

    @property
    def iterations(self) -> int:
        """How many optimizer steps the run has made."""
        return self._model.runner.progress.step

    def _groups(self) -> list[dict[str, Any]]:
        optimizer = self._model.runner.optimizer
        groups: list[dict[str, Any]] = list(getattr(optimizer, "param_groups", ()))
        if not groups or "lr" not in groups[0]:
            raise TrainingError(
                f"{type(optimizer).__name__} has no param_groups with a learning rate 'lr', and a callback asks for "
                "it; give the run an optimizer with param_groups, or leave the callback out"
            )
        return groups

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model.runner.optimizer, name)


def plain_rate(rate: Any) -> float:
    """Return a learning rate as a float: a number, an array, or a variable of Keras."""
    return float(rate.numpy() if hasattr(rate, "numpy") else rate)
