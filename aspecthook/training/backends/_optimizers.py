"""The optimizers of the NumPy back end, with PyTorch's formulas and states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, ClassVar, TypeAlias, final

import numpy as np

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._autograd import Array, Parameter
from ._state import is_any

Params: TypeAlias = Iterable[Parameter] | Iterable[dict[str, Any]]


class Optimizer:
    """The base class of optimizers; a subclass writes the step of one parameter.

    Attributes:
        param_groups: Dicts with ``params`` and the options of the group, such as ``lr``, which may change at any time.
        state: The state of each parameter, such as its momentum.

    Example:
        >>> from aspecthook.training.numpy import SGD, Linear
        >>> first, last = Linear(8, 8), Linear(8, 2)
        >>> optimizer = SGD([{"params": first.parameters()}, {"params": last.parameters(), "lr": 1.0}], lr=0.1)
        >>> isinstance(optimizer, Optimizer), [group["lr"] for group in optimizer.param_groups]
        (True, [0.1, 1.0])
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        rows: list[Any] = list(params)
        groups = rows if rows and isinstance(rows[0], dict) else [{"params": rows}]
        self.param_groups: list[dict[str, Any]] = [
            {**defaults, **group, "params": list(group["params"])} for group in groups
        ]
        self.state: dict[Parameter, dict[str, Any]] = {}
        who, parameters = type(self).__name__, self._parameters()
        if not parameters:
            raise TrainingError(f"{who} was given no parameters; give model.parameters()")
        for parameter in parameters:
            if not isinstance(parameter, Parameter):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TrainingError(f"{who} steps parameters, but was given {type(parameter).__name__}")
        if len(set(parameters)) < len(parameters):
            raise TrainingError(f"{who} was given a parameter twice; leave it in one group")
        for group in self.param_groups:
            for name, value in group.items():
                if name != "params":
                    group[name] = _checked(who, name, value)

    @np.errstate(all="ignore")
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, parameter.grad, group, self.state.setdefault(parameter, {}))

    def _step(self, parameter: Parameter, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> None:
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self._parameters():
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return the states and the groups of the parameters, with numbers instead of the parameters themselves.

        A step replaces the arrays in the states, and never changes them.
        """
        numbers = {parameter: number for number, parameter in enumerate(self._parameters())}
        groups = [{**group, "params": [numbers[one] for one in group["params"]]} for group in self.param_groups]
        return {
            "state": {number: dict(self.state[one]) for one, number in numbers.items() if one in self.state},
            "param_groups": groups,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, for groups of the same sizes."""
        for group, given in zip(self.param_groups, state["param_groups"], strict=True):
            group.update({**given, "params": group["params"]})
        states = deepcopy(state["state"])
        self.state = {one: states[number] for number, one in enumerate(self._parameters()) if number in states}

    def _parameters(self) -> list[Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def __repr__(self) -> str:
        groups = ({k: v for k, v in group.items() if k != "params"} for group in self.param_groups)
        return f"{type(self).__name__}({', '.join(map(str, groups))})"


def _checked(who: str, name: str, value: Any) -> object:
    """Return the value of an option, after a check; a config has lists instead of tuples."""
    if name == "betas":
        betas: tuple[Any, ...] = tuple(value) if is_any(value, tuple, list) else ()
        if len(betas) != 2 or not all(_is_number(beta) and beta < 1 for beta in betas):
            raise TrainingError(f"{who}(betas={brief(value)}): give two numbers from 0 up and below 1")
        return betas
    if name in ("lr", "momentum", "eps", "weight_decay") and not _is_number(value):
        raise TrainingError(f"{who}({name}={brief(value)}): give a number from 0 up")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(value >= 0)


def _decayed(parameter: Parameter, gradient: Array, group: dict[str, Any]) -> Array:
    """Return a gradient with the weight decay, which is a multiple of the parameter."""
    # float(), here and below, since a NumPy scalar would change the type of the parameter, and a Python float does not.
    decay = float(group["weight_decay"])
    return gradient + decay * parameter.data if decay else gradient


@final
class SGD(Optimizer):
    """Stochastic gradient descent, as ``torch.optim.SGD``.

    Args:
        params: Parameters, or dicts of groups.
        lr: The learning rate.
        momentum: The factor by which the last direction is kept.
        weight_decay: The multiple of the parameter that is added to its gradient.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Loss, Parameter
        >>> x = Parameter(np.array(4.0))
        >>> optimizer = SGD([x], lr=0.25)
        >>> Loss(x.value**2).backward()
        >>> optimizer.step()
        >>> x.data
        array(2.)
    """

    # The fourth argument of PyTorch's is its dampening.
    def __init__(self, params: Params, lr: float = 1e-3, momentum: float = 0.0, *, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def _step(self, parameter: Parameter, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> None:
        gradient, momentum = _decayed(parameter, gradient, group), float(group["momentum"])
        if momentum:
            last = state.get("momentum_buffer")
            gradient = gradient if last is None else momentum * last + gradient
            state["momentum_buffer"] = np.asarray(gradient)
        parameter.data = parameter.data - float(group["lr"]) * gradient


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015), as ``torch.optim.Adam``: weight decay is added to the gradient.

    Args:
        params: Parameters, or dicts of groups.
        lr: The learning rate.
        betas: The factors by which the running means of the gradient and of its square are kept.
        eps: Added to the root of the mean square.
        weight_decay: The multiple of the parameter that is added to its gradient.

    Example:
        >>> from aspecthook.training.numpy import Linear
        >>> Adam(Linear(8, 2).parameters(), lr=0.01)
        Adam({'lr': 0.01, 'betas': (0.9, 0.999), 'eps': 1e-08, 'weight_decay': 0.0})
    """

    _decay: ClassVar[float] = 0.0  # unless `weight_decay` is given

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float | None = None,
    ) -> None:
        decay = self._decay if weight_decay is None else weight_decay
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": decay})

    def _step(self, parameter: Parameter, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> None:
        gradient = _decayed(parameter, gradient, group)
        first, second = map(float, group["betas"])
        step = state["step"] = state.get("step", 0) + 1
        zero = np.zeros_like(parameter.data)
        mean = state["exp_avg"] = np.asarray(first * state.get("exp_avg", zero) + (1 - first) * gradient)
        square = state["exp_avg_sq"] = np.asarray(second * state.get("exp_avg_sq", zero) + (1 - second) * gradient**2)
        root = np.sqrt(square) / float(1 - second**step) ** 0.5 + float(group["eps"])
        parameter.data = parameter.data - float(group["lr"]) / (1 - first**step) * (mean / root)


@final
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as ``torch.optim.AdamW``.

    The options are those of `Adam`, but a step subtracts the weight decay, as a multiple of the learning rate.

    Example:
        >>> from aspecthook.training.numpy import Linear
        >>> AdamW(Linear(8, 2).parameters())
        AdamW({'lr': 0.001, 'betas': (0.9, 0.999), 'eps': 1e-08, 'weight_decay': 0.01})
    """

    _decay = 1e-2

    def _step(self, parameter: Parameter, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> None:
        parameter.data = parameter.data * (1 - float(group["lr"]) * float(group["weight_decay"]))
        super()._step(parameter, gradient, {**group, "weight_decay": 0.0}, state)
