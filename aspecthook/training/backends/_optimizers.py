"""The optimizers of the NumPy back end, with PyTorch's formulas and states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, TypeAlias, final

import numpy as np

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._network import Array, Parameter
from ._state import is_any

Params: TypeAlias = Iterable[Parameter] | Iterable[dict[str, Any]]


class Optimizer:
    """The base class of optimizers; a subclass computes the step of one parameter.

    Attributes:
        param_groups: Dicts with ``params`` and the options of the group, such as ``lr``, which may change at any time.
        state: The state of each parameter, such as its momentum.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        rows: list[Any] = list(params)
        groups = rows if rows and isinstance(rows[0], dict) else [{"params": rows}]
        self.param_groups: list[dict[str, Any]] = [
            {**defaults, **group, "params": list(group["params"])} for group in groups
        ]
        self.state: dict[Parameter, dict[str, Any]] = {}
        who, parameters = type(self).__name__, self._parameters()
        are_parameters = all(is_any(one, Parameter) for one in parameters)
        if not parameters or not are_parameters or len(set(parameters)) < len(parameters):
            raise TrainingError(
                f"{who} steps parameters, and was given {brief(parameters)}; give model.parameters(), each in one group"
            )
        for group in self.param_groups:
            for name in defaults:
                # A config has a list instead of a tuple.
                values = group[name] if is_any(group[name], tuple, list) else [group[name]]
                if not all(_fits(name, value) for value in values):
                    raise TrainingError(
                        f"{who}({name}={brief(group[name])}): give a number from 0 up, and below 1 for betas"
                    )

    @np.errstate(all="ignore")
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state.setdefault(parameter, {})
                    # NumPy computes scalars from arrays without axes.
                    parameter.data = np.asarray(self._stepped(parameter.data, parameter.grad, group, state))

    def _stepped(self, data: Array, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> Array:
        """Return the array of a parameter after a step, and update the state of the parameter.

        What is computed with must be Python's floats: a NumPy scalar would change the type of the parameter.
        """
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


def _fits(name: str, value: Any) -> bool:
    is_number = is_any(value, int, float, np.number) and not is_any(value, bool)
    return is_number and 0 <= value < (1 if name == "betas" else np.inf)


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

    def _stepped(self, data: Array, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> Array:
        lr, momentum, decay = float(group["lr"]), float(group["momentum"]), float(group["weight_decay"])
        if decay:
            gradient = gradient + decay * data
        if momentum:
            last = state.get("momentum_buffer")
            gradient = state["momentum_buffer"] = np.asarray(gradient if last is None else momentum * last + gradient)
        return data - lr * gradient


@final
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as ``torch.optim.AdamW``.

    Without weight decay, it is Adam (Kingma and Ba, 2015).

    Args:
        params: Parameters, or dicts of groups.
        lr: The learning rate.
        betas: The factors by which the running means of the gradient and of its square are kept.
        eps: Added to the root of the mean square.
        weight_decay: A step subtracts this multiple of the parameter, times the learning rate.

    Example:
        >>> from aspecthook.training.numpy import Linear
        >>> AdamW(Linear(8, 2).parameters(), lr=0.01).param_groups[0]["weight_decay"]
        0.01
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _stepped(self, data: Array, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> Array:
        lr, (first, second) = float(group["lr"]), map(float, group["betas"])
        data = data * (1 - lr * float(group["weight_decay"]))
        step = state["step"] = state.get("step", 0) + 1
        zero = np.zeros_like(data)
        mean: Array = np.asarray(first * state.get("exp_avg", zero) + (1 - first) * gradient)
        square: Array = np.asarray(second * state.get("exp_avg_sq", zero) + (1 - second) * gradient**2)
        state.update(exp_avg=mean, exp_avg_sq=square)
        root = np.sqrt(square) / float(1 - second**step) ** 0.5 + float(group["eps"])
        data -= lr / (1 - first**step) * (mean / root)  # it is new
        return data
