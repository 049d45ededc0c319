"""The optimizers of the NumPy back end, with PyTorch's formulas and states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

import numpy as np

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any, offers_arrays

from ._values import QUIET, Array, Parameter


class Optimizer:
    """The base class of optimizers; a subclass writes the step of one parameter.

    Attributes:
        param_groups: Dicts with ``params`` and the options of the group, such as ``lr``, which may change at any time.
        state: The state of each parameter, such as its momentum.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import SGD, Parameter
        >>> optimizer = SGD([Parameter(np.zeros(3))], lr=0.1)
        >>> isinstance(optimizer, Optimizer), optimizer.param_groups[0]["lr"]
        (True, 0.1)
    """

    def __init__(self, params: Iterable[Parameter] | Iterable[dict[str, Any]], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Parameter, dict[str, Any]] = {}
        rows: list[Any] = list(params)
        if not rows:
            raise TrainingError(f"{type(self).__name__} was given no parameters; give model.parameters()")
        for group in rows if isinstance(rows[0], dict) else [{"params": rows}]:
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add a group of parameters with options of its own.

        Args:
            group: ``params``, and options.

        Raises:
            TrainingError: A parameter is not a `Parameter` or is in a group already, or an option is impossible.

        Example:
            >>> from aspecthook.training.numpy import SGD, Linear
            >>> first, last = Linear(8, 8), Linear(8, 2)
            >>> optimizer = SGD(first.parameters(), lr=0.1)
            >>> optimizer.add_param_group({"params": last.parameters(), "lr": 1.0})
            >>> [group["lr"] for group in optimizer.param_groups]
            [0.1, 1.0]
        """
        params: list[Any] = [group["params"]] if isinstance(group["params"], Parameter) else list(group["params"])
        held = {id(parameter) for known in self.param_groups for parameter in known["params"]}
        for parameter in params:
            if not isinstance(parameter, Parameter):
                raise TrainingError(f"{type(self).__name__} steps parameters, but was given {type(parameter).__name__}")
            if id(parameter) in held:
                raise TrainingError(f"{type(self).__name__} was given a parameter twice; leave it in one group")
            held.add(id(parameter))
        made = {**self.defaults, **group, "params": params}
        self._check(made)
        if "betas" in made:
            made["betas"] = tuple(made["betas"])  # a config gives a list
        self.param_groups.append(made)

    def _check(self, group: dict[str, Any]) -> None:
        for name in ("lr", "momentum", "eps", "weight_decay"):
            if not _is_number(group.get(name, 0.0)):
                raise TrainingError(f"{type(self).__name__}({name}={brief(group[name])}): give a number from 0 up")
        betas = group.get("betas", (0.0, 0.0))
        rows: list[Any] = [*betas] if is_any(betas, tuple, list) else []
        if len(rows) != 2 or not all(_is_number(beta) and beta < 1 for beta in rows):
            raise TrainingError(
                f"{type(self).__name__}(betas={brief(group['betas'])}): give two numbers from 0 up and below 1"
            )

    @np.errstate(**QUIET)
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
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @offers_arrays
    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """Return the states and the groups of the parameters, with numbers instead of the parameters themselves.

        The arrays are copies, unless told otherwise.
        """
        numbers, own = self._numbers(), _copied if copy else dict[str, Any]
        return {
            "state": {number: own(self.state[p]) for p, number in numbers.items() if p in self.state},
            "param_groups": [
                {**group, "params": [numbers[parameter] for parameter in group["params"]]}
                for group in self.param_groups
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            TrainingError: It is the state of other groups.
        """
        theirs = [len(group["params"]) for group in state["param_groups"]]
        ours = [len(group["params"]) for group in self.param_groups]
        if theirs != ours:
            raise TrainingError(f"this is the state of groups of {theirs} parameters, but the optimizer has {ours}")
        for group, given in zip(self.param_groups, state["param_groups"], strict=True):
            group.update({name: value for name, value in given.items() if name != "params"})
        self.state = {p: _copied(state["state"][n]) for p, n in self._numbers().items() if n in state["state"]}

    def _numbers(self) -> dict[Parameter, int]:
        held = (parameter for group in self.param_groups for parameter in group["params"])
        return {parameter: number for number, parameter in enumerate(held)}

    def __repr__(self) -> str:
        groups = ({k: v for k, v in group.items() if k != "params"} for group in self.param_groups)
        return f"{type(self).__name__}({', '.join(map(str, groups))})"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(value >= 0)


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}


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

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        momentum: float = 0.0,
        *,  # the fourth of PyTorch's is its dampening
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def _step(self, parameter: Parameter, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> None:
        # float(), since a NumPy scalar would change the type of the parameter, and a Python float does not.
        momentum = float(group["momentum"])
        if group["weight_decay"]:
            gradient = gradient + float(group["weight_decay"]) * parameter.data
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
        weight_decay: The multiple of the parameter that is added to its gradient; 0 unless given.

    Example:
        >>> from aspecthook.training.numpy import Linear
        >>> Adam(Linear(8, 2).parameters(), lr=0.01)
        Adam({'lr': 0.01, 'betas': (0.9, 0.999), 'eps': 1e-08, 'weight_decay': 0.0})
    """

    _weight_decay: ClassVar[float] = 0.0  # unless given

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float | None = None,
    ) -> None:
        decay = self._weight_decay if weight_decay is None else weight_decay
        super().__init__(
            params,
            {"lr": lr, "betas": betas, "eps": eps, "weight_decay": decay},
        )

    def _decayed(self, parameter: Parameter, gradient: Array, group: dict[str, Any]) -> Array:
        """Apply the weight decay, and return the gradient to use."""
        return gradient + float(group["weight_decay"]) * parameter.data if group["weight_decay"] else gradient

    def _step(self, parameter: Parameter, gradient: Array, group: dict[str, Any], state: dict[str, Any]) -> None:
        gradient = self._decayed(parameter, gradient, group)
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

    Args:
        params, lr, betas, eps: As those of `Adam`.
        weight_decay: The part of the parameter that a step subtracts, as a multiple of the learning rate; 0.01
            unless given.

    Example:
        >>> from aspecthook.training.numpy import Linear
        >>> AdamW(Linear(8, 2).parameters())
        AdamW({'lr': 0.001, 'betas': (0.9, 0.999), 'eps': 1e-08, 'weight_decay': 0.01})
    """

    _weight_decay = 1e-2

    def _decayed(self, parameter: Parameter, gradient: Array, group: dict[str, Any]) -> Array:
        parameter.data = parameter.data * (1 - float(group["lr"]) * float(group["weight_decay"]))
        return gradient
