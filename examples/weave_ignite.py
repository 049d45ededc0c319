"""Weave hooks into a running ignite engine from outside: no handler is attached to it.

pip install aspecthook pytorch-ignite 'torch==2.13.0'
python examples/weave_ignite.py
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import torch
from ignite.engine import Engine
from torch import nn

from aspecthook import Args, Return, weave


def trainer() -> tuple[nn.Module, Engine]:
    """Somebody's engine: a function for a step, and nothing of hooks."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(engine: Engine, batch: Any) -> float:
        images, labels = batch
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return model, Engine(step)


def data() -> list[Any]:
    """Eight batches of images, one of them broken: its pixels are no numbers."""
    torch.manual_seed(0)
    images, labels = torch.rand(8, 32, 8, 8), torch.arange(256).reshape(8, 32) % 10
    images[2] = float("nan")
    return list(zip(images, labels, strict=True))


# Hooks on somebody else's training: functions that ask for what they need.

trail: dict[str, list[Any]] = {"skipped": [], "losses": [], "raised": []}


def skip(engine: Engine, batch: Any) -> Return[float] | None:
    """Skip a step whose batch is broken: nothing of it is computed."""
    if not torch.isnan(batch[0]).any():
        return None
    trail["skipped"].append(engine.state.iteration)
    return Return(float("nan"))


def noisy(batch: Any) -> Args:
    """Replace the batch by one with a little noise."""
    images, labels = batch
    return Args(batch=(images + 0.01 * torch.randn_like(images), labels))


def note(result: float) -> None:
    trail["losses"].append(result)


def raised(exc: Exception) -> None:
    """See what the run raises; it goes on to the caller, which an ignite handler of exceptions would keep from it."""
    trail["raised"].append(type(exc).__name__)


def fail(engine: Engine) -> None:
    if engine.state.iteration == 12:
        raise ValueError("a step in the second epoch fails")


def main() -> None:
    """Train without hooks and with them, and say what the hooks have changed."""
    logging.getLogger("ignite").setLevel(logging.CRITICAL)
    plain, engine = trainer()
    engine.run(data(), max_epochs=2)
    hooked, engine = trainer()
    step = engine._process_function
    code = step.__code__
    with weave(step, pre=skip, priority="HIGH"), weave(step, pre=noisy, post=note):
        engine.run(data(), max_epochs=1)
        try:
            with weave(step, pre=fail), weave("ignite.engine:Engine.run", exception=raised):
                engine.run(data(), max_epochs=2)
        except ValueError as error:
            print(f"the caller saw: {error}; the hook saw: {trail['raised']}")
    broken = [bool(torch.isnan(next(model.parameters())).any()) for model in (plain, hooked)]
    print(f"parameters are no numbers: without hooks {broken[0]}, with hooks {broken[1]}")
    print(f"steps: {len(trail['losses'])}, skipped: iterations {trail['skipped']}")
    print(f"taken off: the code is that it was? {step.__code__ is code}")


if __name__ == "__main__":
    sys.exit(main())
