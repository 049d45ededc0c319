"""Models to weave, and what must be left of them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
nn = torch.nn


class Net(nn.Module):
    """Two layers, and an argument with a default."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.second = nn.Linear(5, 3)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return self.second(torch.relu(self.first(x))) * scale


class Deep(nn.Module):
    """Modules in modules, a list, a module with two names, and one that is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(1, 2, 3)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()) for _ in range(2)])
        self.tied = self.conv_in
        self.head = nn.Linear(2, 3)

    def forward(self, images: Any) -> Any:
        images = self.conv_in(images)
        for block in self.blocks:
            images = block(images)
        return self.head(images.mean((2, 3)))


def made(cls: Any = Net) -> Any:
    """Make a model, always the same."""
    torch.manual_seed(0)
    return cls()


def inputs(rows: int = 2, width: int = 4) -> Any:
    """Make inputs that require gradients."""
    return torch.arange(rows * width, dtype=torch.float32).reshape(rows, width).div(7).sub(0.3).requires_grad_()


def gone_through(model: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return the output of a model, the gradients of its inputs and those of its parameters."""
    given = [one.detach().clone().requires_grad_() for one in args]
    model.zero_grad()
    out = model(*given, **kwargs)
    (out * torch.arange(1.0, 1 + out.numel()).reshape(out.shape)).sum().backward()
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return out.detach(), *(one.grad for one in given), *grads


def same(some: Any, others: Any) -> bool:
    """Whether two rows of tensors are equal, bit by bit."""
    return len(some) == len(others) and all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(some, others, strict=True)
    )


def state(model: Any) -> dict[str, Any]:
    """Return all that hooks could leave: what is in each module and its class, object for object, in its order."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        space = vars(module)
        dicts = {word: list(value.items()) for word, value in space.items() if isinstance(value, dict)}
        code = type(module).forward.__code__
        found[name] = (type(module), list(space.items()), dicts, code, dict(vars(type(module))))
    return found


def untouched(model: Any, before: dict[str, Any]) -> bool:
    """Whether everything is the very object that it was."""
    return all(_same(one, before[name]) for name, one in state(model).items())


def _same(some: Any, others: Any) -> bool:
    (kind, space, dicts, code, cls), (kind2, space2, dicts2, code2, cls2) = some, others
    rows = [(space, space2), *((dicts[word], dicts2[word]) for word in dicts), (list(cls.items()), list(cls2.items()))]
    return (
        kind is kind2
        and code is code2
        and dicts.keys() == dicts2.keys()
        and all(
            [key for key, _ in row] == [key for key, _ in row2]
            and all(value is value2 for (_, value), (_, value2) in zip(row, row2, strict=True))
            for row, row2 in rows
        )
    )
