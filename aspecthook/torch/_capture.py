"""Activations and gradients of modules, collected for the length of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, Self, Unpack, cast, final

from aspecthook._core.law.callables import type_of
from aspecthook._core.law.options import Options
from aspecthook._errors import HookOptionError, HookTypeError, brief
from aspecthook.weave import Names, Weaving, weave

from ._carried import is_module
from ._own import OwnMountPoint

# Any, so that type checkers see the same whether or not PyTorch is installed.
torch: Any = import_module("torch")


def mapped(value: Any, function: Callable[[Any], Any], kind: Any = torch.Tensor) -> Any:
    """Return a value in which each tensor, or each object of another kind, is replaced by what a function returns."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, (tuple, list)):
        row = [mapped(one, function, kind) for one in cast("Iterable[Any]", value)]
        made: Any = type(cast("object", value))
        return made(*row) if hasattr(made, "_fields") else made(row)
    if issubclass(type_of(value), Mapping):
        return {key: mapped(one, function, kind) for key, one in value.items()}
    return value


def copied(tensor: Any) -> Any:
    """Return a copy outside of the graph, since the next layer may change the tensor in place."""
    return tensor.detach().clone()


class _Grad:
    """The gradient of one tensor of an output, once it has been computed."""

    def __init__(self, tensor: Any, each: Callable[[Any], Any]) -> None:
        self.value: Any = None
        if tensor.requires_grad:
            tensor.register_hook(self._keep)
        self._each = each

    def _keep(self, grad: Any) -> None:
        self.value = self._each(grad)


@final
class Seen:
    """The inputs and outputs of one module, call by call.

    Example:
        >>> import torch
        >>> linear = torch.nn.Linear(2, 3)
        >>> with capture(linear, gradients=True) as seen:
        ...     linear(torch.ones(1, 2)).sum().backward()
        >>> seen[""].output.shape, seen[""].gradient
        (torch.Size([1, 3]), tensor([[1., 1., 1.]]))
    """

    __slots__ = ("_grads", "inputs", "name", "outputs")

    def __init__(self, name: str) -> None:
        self.name: str = name
        # Of each call: the output, and the arguments by name, or None unless they are captured.
        self.outputs: list[Any] = []
        self.inputs: list[Any] = []
        self._grads: list[Any] = []  # the output with a `_Grad` in the place of each tensor

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def gradients(self) -> list[Any]:
        """The gradient of each output; None until it has been computed."""
        return [mapped(one, lambda grad: grad.value, _Grad) for one in self._grads]

    @property
    def output(self) -> Any:
        """The output of the last call."""
        return self._last(self.outputs)

    @property
    def input(self) -> Any:
        """The arguments of the last call."""
        return self._last(self.inputs)

    @property
    def gradient(self) -> Any:
        """The gradient of the last output; None until it has been computed."""
        return self._last(self.gradients)

    def _last(self, row: list[Any]) -> Any:
        if not row:
            raise LookupError(f"{self.name or 'the model'} has not been called since the capture began")
        return row[-1]

    def shorten(self, keep: int) -> None:
        """Drop all but the last calls."""
        for row in (self.outputs, self.inputs, self._grads):
            del row[: max(0, len(row) - keep)]

    def add(self, given: Any, output: Any, grads: Any) -> None:
        """Add a call."""
        self.outputs.append(output)
        self.inputs.append(given)
        self._grads.append(grads)

    def __repr__(self) -> str:
        return f"<seen of {self.name or 'the model'}: {len(self)} call{'s' * (len(self) != 1)}>"


@final
class Capture(Mapping[str, Seen]):
    """What `capture` returns: for each module, by its name, what was collected.

    A context manager, which removes its hooks at the end of its block, as `remove` does. What was collected stays, and
    gradients of calls inside the block are collected even after it.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        >>> seen = capture(model, "0")
        >>> _ = model(torch.ones(5, 4))
        >>> list(seen), seen["0"].output.shape
        (['0'], torch.Size([5, 3]))
        >>> seen.remove()
    """

    weaving: Weaving

    def __init__(self, inputs: bool, gradients: bool, keep: int | None, each: Callable[[Any], Any]) -> None:
        self.collected: dict[str, Seen] = {}
        self._inputs = inputs
        self._gradients = gradients
        self._keep = keep
        self._each = each

    def __getitem__(self, name: str) -> Seen:
        if name not in self.collected:
            known = ", ".join(map(repr, self.collected)) or "none"
            raise KeyError(f"no module {brief(name)} is captured; those that are: {known}")
        return self.collected[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.collected)

    def __len__(self) -> int:
        return len(self.collected)

    def clear(self) -> None:
        """Forget what was collected so far."""
        for seen in self.collected.values():
            seen.shorten(0)

    def remove(self) -> None:
        """Remove the hooks. What was collected stays."""
        self.weaving.remove()

    def __enter__(self) -> Self:
        self.weaving.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.weaving.__exit__(kind, error, trace)

    def begin(self, model: Any, names: Names | None, options: Options) -> Self:
        """Put the hooks on, and add an empty row for each module, by the name under which it is woven."""
        self.weaving = weave(model, names, post=self.note, **options)
        for mount in self.weaving.mounts:
            owner: Any = cast("OwnMountPoint", mount).owner()
            self.collected[owner.__aspecthook__.name] = Seen(owner.__aspecthook__.name)
        return self

    def note(self, name: str, call: Any, result: Any) -> None:
        """Collect one call, as a hook of a module."""
        each = self._each
        given = {word: mapped(value, each) for word, value in call.arguments.items() if word != "self"}
        grads = mapped(result, lambda tensor: _Grad(tensor, each)) if self._gradients else None
        seen = self.collected[name]
        seen.add(given if self._inputs else None, mapped(result, each), grads)
        if self._keep is not None:
            seen.shorten(self._keep)


def capture(
    model: Any,
    names: Names | None = None,
    /,
    *,
    inputs: bool = False,
    gradients: bool = False,
    keep: int | None = None,
    each: Callable[[Any], Any] = copied,
    **options: Unpack[Options],
) -> Capture:
    """Collect the outputs of modules, and the gradients of them, for the length of a block.

    Args:
        model: A module of PyTorch.
        names: Which of its modules, as in `weave`: a pattern such as ``"*.conv*"``, a class, or several; without, the
            model itself, under the name ``""``.
        inputs: Collect the arguments too.
        gradients: Collect the gradients of the outputs too. Hooks on the output tensors take them, so that modules that
            change their input in place, such as ``ReLU(inplace=True)``, are no obstacle.
        keep: How many calls to keep of each module, the last ones; all, unless given.
        each: Called with each tensor; its result is kept. Unless given, a copy outside of the graph.
        options: As in `weave`: ``when``, ``times``, ``every``, ``priority`` and so on. Unless given, the priority is
            LOWEST, so that the output is collected after the other hooks have changed it.

    Raises:
        WeaveError: The names choose no module, or one that is never called.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        >>> with capture(model, torch.nn.Linear) as seen:
        ...     _ = model(torch.ones(5, 4))
        >>> {name: one.output.shape for name, one in seen.items()}
        {'0': torch.Size([5, 3]), '2': torch.Size([5, 2])}
    """
    if not is_module(model):
        raise HookTypeError(f"capture takes a module of PyTorch, and {brief(model)} is not one")
    if keep is not None and keep < 1:
        raise HookOptionError(f"capture: keep={brief(keep)}; give a whole number from 1 up, or None for all calls")
    if not callable(each):
        raise HookTypeError(f"capture: each={brief(each)} is not callable; give a function of a tensor")
    given: Options = {"priority": "LOWEST", "name": "capture", **options}
    return Capture(inputs, gradients, keep, each).begin(model, names, given)
