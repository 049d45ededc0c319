"""Activations and gradients of modules, collected by hooks that come off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Unpack, cast, final

from aspecthook._core.law.options import Options
from aspecthook._errors import HookOptionError, HookTypeError, brief
from aspecthook.weave import Names, Weaving, weave

from ._own import OwnMountPoint
from ._values import copied, is_module, mapped


class _Grad:
    """Stands for a tensor of an output; takes its gradient."""

    def __init__(self, each: Callable[[Any], Any]) -> None:
        self._each = each
        self.value: Any = None

    def take(self, grad: Any) -> None:
        """Take a gradient, as a hook of a tensor."""
        self.value = self._each(grad)

    def follow(self, tensor: Any) -> _Grad:
        """Take the gradient of a tensor when it comes."""
        if tensor.requires_grad:
            tensor.register_hook(self.take)
        return self


class _Call(NamedTuple):
    """One call of a module; the output as gradients has those in the place of its tensors."""

    inputs: dict[str, Any] | None
    output: Any
    grads: Any

    @property
    def gradient(self) -> Any:
        return mapped(self.grads, lambda one: one.value, _Grad)


@final
class Seen:
    """What one module was given and gave, call by call.

    Example:
        >>> import torch
        >>> linear = torch.nn.Linear(2, 3)
        >>> with capture(linear, gradients=True) as seen:
        ...     linear(torch.ones(1, 2)).sum().backward()
        >>> seen[""].output.shape, seen[""].gradient
        (torch.Size([1, 3]), tensor([[1., 1., 1.]]))
    """

    __slots__ = ("_calls", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._calls: list[_Call] = []

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def outputs(self) -> list[Any]:
        """What each call gave."""
        return [call.output for call in self._calls]

    @property
    def inputs(self) -> list[Any]:
        """What each call was given: a dict of the arguments by name; None unless they are captured."""
        return [call.inputs for call in self._calls]

    @property
    def gradients(self) -> list[Any]:
        """The gradients of what each call gave; None for one that none has come back to yet."""
        return [call.gradient for call in self._calls]

    @property
    def output(self) -> Any:
        """What the last call gave."""
        return self._last().output

    @property
    def input(self) -> Any:
        """What the last call was given."""
        return self._last().inputs

    @property
    def gradient(self) -> Any:
        """The gradient of what the last call gave; None if none has come back to it yet."""
        return self._last().gradient

    def _last(self) -> _Call:
        if not self._calls:
            raise LookupError(f"{self.name or 'the model'} has not been called since the capture began")
        return self._calls[-1]

    def __repr__(self) -> str:
        return f"<seen of {self.name or 'the model'}: {len(self)} call{'s' * (len(self) != 1)}>"


@final
class Capture(Mapping[str, Seen]):
    """What `capture` gives: by the names of the modules, what has been seen of them.

    A context manager, which takes its hooks off at the end of its block; `remove` does so too. What was collected
    stays, and gradients of calls inside the block are taken also after it.
    """

    def __init__(self, inputs: bool, gradients: bool, keep: int | None, each: Callable[[Any], Any]) -> None:
        self._seen: dict[str, Seen] = {}
        self._inputs = inputs
        self._gradients = gradients
        self._keep = keep
        self._each = each
        self.weaving: Weaving | None = None

    def __getitem__(self, name: str) -> Seen:
        if name not in self._seen:
            known = ", ".join(map(repr, self._seen)) or "none"
            raise KeyError(f"no module {brief(name)} is captured; those that are: {known}")
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def remove(self) -> None:
        """Take the hooks off."""
        if self.weaving is not None:
            self.weaving.remove()

    def clear(self) -> None:
        """Forget what was collected so far."""
        for seen in self._seen.values():
            seen._calls.clear()

    def __enter__(self) -> Capture:
        assert self.weaving is not None
        self.weaving.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.weaving is not None
        self.weaving.__exit__(kind, error, trace)

    def begin(self, model: Any, names: Names | None, options: Options) -> Capture:
        """Put the hooks on."""
        self.weaving = weave(model, names, post=self._note, **options)
        for mount in self.weaving.mounts:
            owner: Any = cast("OwnMountPoint", mount).owner()
            self._seen[owner.__aspecthook__.name] = Seen(owner.__aspecthook__.name)
        return self

    def _note(self, name: str, call: Any, result: Any) -> None:
        each = self._each
        given = {word: mapped(value, each) for word, value in call.arguments.items() if word != "self"}
        grads = mapped(result, lambda tensor: _Grad(each).follow(tensor)) if self._gradients else None
        calls = self._seen[name]._calls
        calls.append(_Call(given if self._inputs else None, mapped(result, each), grads))
        if self._keep is not None:
            del calls[: -self._keep]


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
    """Collect what modules give, and the gradients of it, for the length of a block.

    Args:
        model: A module of PyTorch.
        names: Which of its modules, as in `weave`: a pattern such as ``"*.conv*"``, a class, or several; without, the
            model itself, under the name ``""``.
        inputs: Collect also what they are given.
        gradients: Collect also the gradients of what they give, when they come back. They are taken from the tensors
            themselves, so modules that change their input in place, such as ``ReLU(inplace=True)``, are no obstacle.
        keep: How many calls to keep of each module, the last ones; all, unless given.
        each: Called on each tensor; what it gives is kept. Unless given, a copy outside of the graph.
        options: As in `weave`: ``when``, ``times``, ``every``, ``priority`` and so on. Unless it is given, the priority
            is LOWEST, so that what other hooks have made of the output is what is seen.

    Raises:
        WeaveError: The names choose nothing, or what is never called.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        >>> with capture(model, torch.nn.Linear) as seen:
        ...     _ = model(torch.ones(5, 4))
        >>> {name: one.output.shape for name, one in seen.items()}
        {'0': torch.Size([5, 3]), '2': torch.Size([5, 2])}
    """
    if not is_module(model):
        raise HookTypeError(f"capture takes a module of PyTorch, and {brief(model)} is none")
    if keep is not None and keep < 1:
        raise HookOptionError(f"capture: keep={brief(keep)}; give a whole number from 1 up, or None for all calls")
    if not callable(each):
        raise HookTypeError(f"capture: each={brief(each)} is not callable; give a function of a tensor")
    given: Options = {"priority": "LOWEST", "name": "capture", **options}
    return Capture(inputs, gradients, keep, each).begin(model, names, given)
