"""The tricks of examples/training_tricks.py: hooks on a run make, bit for bit, what a loop written by hand makes."""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aspecthook import hooks
from aspecthook.training import Runner
from aspecthook.training import numpy as nn
from aspecthook.training.data import load_digits
from tests.training.kit import both

EXAMPLE = Path(__file__).parents[3] / "examples" / "training_tricks.py"
EPOCHS = 3
Step = Callable[[Any, Any, Any, Any], None]


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("example_training_tricks", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tricks = _loaded()


def parts(library: str) -> tuple[Any, Any, Any]:
    """Return a model, its optimizer and its loss, with the same weights in each library."""
    nn.manual_seed(7)
    ours = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 10))
    if library == "numpy":
        return ours, nn.AdamW(ours.parameters(), lr=0.01), nn.cross_entropy
    import torch

    layers = [torch.nn.Linear(64, 12), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(12, 10)]
    theirs = torch.nn.Sequential(*layers)
    theirs.load_state_dict({name: torch.tensor(value) for name, value in ours.state_dict().items()})
    return theirs, torch.optim.AdamW(theirs.parameters(), lr=0.01), torch.nn.functional.cross_entropy


def batches(broken: int) -> list[tuple[Any, Any]]:
    """Return five batches of digits, one of which has a pixel that is no number."""
    images, labels = load_digits("train")
    images, chosen = images.reshape(-1, 64)[:80].copy(), np.eye(10, dtype=np.float32)[labels[:80]]
    images[16 * broken + 2, 5] = np.nan
    return [(images[place : place + 16], chosen[place : place + 16]) for place in range(0, 80, 16)]


def weights(model: Any) -> list[bytes]:
    return [np.asarray(value).tobytes() for value in model.state_dict().values()]


def run(library: str, put: Callable[[Runner], object], data: Any) -> list[bytes]:
    """Train with hooks."""
    model, optimizer, loss = parts(library)
    runner = Runner(model, optimizer=optimizer, loss=loss, max_epochs=EPOCHS, seed=3)
    put(runner)
    runner.fit(data)
    return weights(model)


def by_hand(library: str, step: Callable[[Any], Step], data: Any) -> list[bytes]:
    """Train without a runner, without hooks."""
    model, optimizer, loss = parts(library)
    random.seed(3)
    np.random.seed(3)
    nn.manual_seed(3)
    tensor: Callable[[Any], Any] = np.asarray
    if library == "torch":
        import torch

        torch.manual_seed(3)
        tensor = torch.tensor
    for _ in range(EPOCHS):
        for images, labels in data:
            step(loss)(model, optimizer, tensor(images), tensor(labels))
    return weights(model)


@both
def test_tricks_work_together_as_in_a_loop(library: str) -> None:
    """A mixed batch, a scaled loss, a step by other gradients that is scaled down inside, and a broken image."""

    def scale_down(proceed: Callable[[], Any], model: Any) -> None:
        tricks.scale_down(model, scale=1000.0)
        proceed()

    def put(runner: Runner) -> None:
        hooks(runner.train_iter).pre(tricks.mixup)
        hooks(runner.backward).pre(partial(tricks.scale_up, scale=1000.0))
        hooks(runner.optimizer_step).pre(tricks.skip_broken)
        hooks(runner.optimizer_step).around(tricks.sharpness_aware)
        hooks(runner.optimizer_step).around(scale_down)

    def with_tricks(loss: Any) -> Step:
        def step(model: Any, optimizer: Any, images: Any, labels: Any) -> None:
            share, order = np.random.beta(1.0, 1.0), np.random.permutation(len(images))
            images, labels = (share * x + (1 - share) * x[order] for x in (images, labels))
            (loss(model(images), labels) * 1000.0).backward()
            parameters = list(model.parameters())
            if all(np.isfinite(np.asarray(parameter.grad)).all() for parameter in parameters):
                length = math.sqrt(sum(float((parameter.grad**2).sum()) for parameter in parameters))
                before = [parameter.data for parameter in parameters]
                for parameter in parameters:
                    parameter.data = parameter.data + parameter.grad * (0.5 / length)
                    parameter.grad = None
                (loss(model(images), labels) * 1000.0).backward()
                for parameter, data in zip(parameters, before, strict=True):
                    parameter.data = data
                    parameter.grad = parameter.grad / 1000.0
                optimizer.step()
            optimizer.zero_grad()

        return step

    data = batches(broken=3)
    made = run(library, put, data)
    assert made == by_hand(library, with_tricks, data)
    assert made != run(library, lambda runner: None, data)
