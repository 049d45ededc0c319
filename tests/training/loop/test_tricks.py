"""The tricks of examples/training_tricks.py: hooks on a run make, bit for bit, what a loop written by hand makes."""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import autograd
import numpy as np
import pytest

from aspecthook import Return, hooks
from aspecthook.training import Runner
from aspecthook.training import numpy as nn
from aspecthook.training.data import load_digits
from tests.training.kit import LIBRARIES

EXAMPLE = Path(__file__).parents[3] / "examples" / "training_tricks.py"
both = pytest.mark.parametrize("library", LIBRARIES, indirect=True)


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("example_training_tricks", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tricks = _loaded()


class Library:
    """A model, its optimizer, its loss and its data, made with one of the libraries; the same weights and data."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.torch: Any = importlib.import_module("torch") if name == "torch" else None

    def model(self) -> Any:
        nn.manual_seed(7)
        ours = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 10))
        if self.torch is None:
            return ours
        layers = self.torch.nn
        theirs = layers.Sequential(layers.Linear(64, 12), layers.ReLU(), layers.Dropout(0.2), layers.Linear(12, 10))
        theirs.load_state_dict({name: self.torch.tensor(value) for name, value in ours.state_dict().items()})
        return theirs

    def optimizer(self, model: Any) -> Any:
        kind = nn.Adam if self.torch is None else self.torch.optim.Adam
        return kind(model.parameters(), lr=0.01)

    @property
    def loss(self) -> Callable[..., Any]:
        return nn.cross_entropy if self.torch is None else self.torch.nn.functional.cross_entropy

    def no_grad(self) -> Any:
        return nn.no_grad() if self.torch is None else self.torch.no_grad()

    def tensor(self, array: Any) -> Any:
        return array if self.torch is None else self.torch.tensor(array)

    def seed(self) -> None:
        """Seed whatever is drawn from, as a run with ``seed=3`` does."""
        random.seed(3)
        np.random.seed(3)
        nn.manual_seed(3)
        if self.torch is not None:
            self.torch.manual_seed(3)

    def slopes(self, model: Any, images: Any, labels: Any) -> Any:
        """Return the gradient of the loss in the images, through which gradients flow too."""
        if self.torch is None:
            return autograd.grad(lambda x: (nn.cross_entropy(model(x), labels) * len(labels)).value)(images)
        images = images.clone().requires_grad_()
        loss = self.loss(model(images), labels, reduction="sum")
        return self.torch.autograd.grad(loss, images, create_graph=True)[0]

    def noise(self, data: Any, size: float = 0.1) -> Any:
        if self.torch is None:
            return np.random.normal(0, size, data.shape).astype(data.dtype)
        return size * self.torch.randn_like(data)


@pytest.fixture
def library(request: pytest.FixtureRequest) -> Library:
    return Library(request.param)


def batches(broken: int | None = None) -> list[tuple[Any, Any]]:
    """Return five batches of digits; one of them may have a pixel that is no number."""
    images, labels = load_digits("train")
    images, chosen = images.reshape(-1, 64)[:80].copy(), np.eye(10, dtype=np.float32)[labels[:80]]
    if broken is not None:
        images[16 * broken + 2, 5] = np.nan
    return [(images[place : place + 16], chosen[place : place + 16]) for place in range(0, 80, 16)]


EPOCHS = 3
Step = Callable[[Any, Any, Any, Any], None]


def run(library: Library, put: Callable[[Runner], object], data: Any = None, **options: Any) -> dict[str, Any]:
    """Train with hooks."""
    model = library.model()
    loss = options.pop("loss", library.loss)
    runner = Runner(
        model, optimizer=library.optimizer(model), loss=loss, **({"max_epochs": EPOCHS, "seed": 3} | options)
    )
    put(runner)
    runner.fit(data or batches())
    return {name: np.asarray(value) for name, value in model.state_dict().items()}


def by_hand(library: Library, step: Step, data: Any = None) -> dict[str, Any]:
    """Train without a runner, without hooks."""
    model = library.model()
    optimizer = library.optimizer(model)
    library.seed()
    for _ in range(EPOCHS):
        for images, labels in data or batches():
            step(model, optimizer, library.tensor(images), library.tensor(labels))
    return {name: np.asarray(value) for name, value in model.state_dict().items()}


def same(made: dict[str, Any], other: dict[str, Any]) -> bool:
    assert made.keys() == other.keys()
    return all(made[name].tobytes() == other[name].tobytes() for name in made)


def plainly(library: Library) -> Step:
    def step(model: Any, optimizer: Any, images: Any, labels: Any) -> None:
        library.loss(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def equal_and_no_plain_run(
    library: Library, put: Callable[[Runner], object], step: Step, data: Any = None, **options: Any
) -> None:
    """The hooks make what the loop makes; and that is not what a run without them would have made anyway."""
    made = run(library, put, data, **options)
    assert same(made, by_hand(library, step, data))
    assert not same(made, run(library, lambda runner: None, data, **options))


# Each trick


@both
def test_without_a_trick_a_run_is_the_loop(library: Library) -> None:
    assert same(run(library, lambda runner: None), by_hand(library, plainly(library)))


@both
def test_mixup_is_that_of_a_loop(library: Library) -> None:
    def step(model: Any, optimizer: Any, images: Any, labels: Any) -> None:
        share = np.random.beta(1.0, 1.0)
        order = np.random.permutation(len(images))
        mixed, mixed_labels = (share * x + (1 - share) * x[order] for x in (images, labels))
        plainly(library)(model, optimizer, mixed, mixed_labels)

    equal_and_no_plain_run(library, lambda runner: hooks(runner.train_iter).pre(tricks.mixup), step)


@both
def test_the_gradient_penalty_is_that_of_a_loop(library: Library) -> None:
    def step(model: Any, optimizer: Any, images: Any, labels: Any) -> None:
        loss = library.loss(model(images), labels)
        slopes = library.slopes(model, images, labels)
        (loss + 0.3 * (slopes**2).sum() / len(images)).backward()
        optimizer.step()
        optimizer.zero_grad()

    def penalty_of_pytorch(result: Any, batch: Any, model: Any) -> Any:
        return result + 0.3 * (library.slopes(model, *batch) ** 2).sum() / len(batch[0])

    hook = tricks.gradient_penalty if library.torch is None else penalty_of_pytorch
    equal_and_no_plain_run(library, lambda runner: hooks(runner.forward).post(hook), step)


@both
def test_a_sharpness_aware_step_is_that_of_a_loop(library: Library) -> None:
    def step(model: Any, optimizer: Any, images: Any, labels: Any) -> None:
        library.loss(model(images), labels).backward()
        parameters = list(model.parameters())
        length = math.sqrt(sum(float((parameter.grad**2).sum()) for parameter in parameters))
        before = [parameter.data for parameter in parameters]
        for parameter in parameters:
            parameter.data = parameter.data + parameter.grad * (0.5 / length)
            parameter.grad = None
        library.loss(model(images), labels).backward()
        for parameter, data in zip(parameters, before, strict=True):
            parameter.data = data
        optimizer.step()
        optimizer.zero_grad()

    equal_and_no_plain_run(library, lambda runner: hooks(runner.optimizer_step).around(tricks.sharpness_aware), step)


# Scaling the loss


# Together


@both
def test_tricks_work_together_as_in_a_loop(library: Library) -> None:
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

    def step(model: Any, optimizer: Any, images: Any, labels: Any) -> None:
        share, order = np.random.beta(1.0, 1.0), np.random.permutation(len(images))
        images, labels = (share * x + (1 - share) * x[order] for x in (images, labels))
        (library.loss(model(images), labels) * 1000.0).backward()
        parameters = list(model.parameters())
        if all(np.isfinite(np.asarray(parameter.grad)).all() for parameter in parameters):
            length = math.sqrt(sum(float((parameter.grad**2).sum()) for parameter in parameters))
            before = [parameter.data for parameter in parameters]
            for parameter in parameters:
                parameter.data = parameter.data + parameter.grad * (0.5 / length)
                parameter.grad = None
            (library.loss(model(images), labels) * 1000.0).backward()
            for parameter, data in zip(parameters, before, strict=True):
                parameter.data = data
                parameter.grad = parameter.grad / 1000.0
            optimizer.step()
        optimizer.zero_grad()

    equal_and_no_plain_run(library, put, step, batches(broken=3))


def test_a_stage_that_a_hook_runs_again_has_its_hooks_again() -> None:
    """A sharpness-aware step goes twice through forward and backward, and whatever is there acts twice."""
    passes: list[str] = []

    def put(runner: Runner) -> None:
        hooks(runner.optimizer_step).around(tricks.sharpness_aware)
        hooks(runner.forward).pre(lambda batch: passes.append("forward"))
        hooks(runner.backward).post(lambda loss: passes.append("backward"))

    run(Library("numpy"), put)
    assert passes == ["forward", "backward"] * 2 * EPOCHS * len(batches())


def test_a_skipped_step_ends_the_hooks_before_it_and_counts() -> None:
    """What looks at gradients after a hook that skips the step is not asked; the run's counter goes on."""
    asked: list[int] = []
    runners: list[Runner] = []

    def put(runner: Runner) -> None:
        runners.append(runner)
        hooks(runner.optimizer_step).pre(lambda step: Return(None) if step % 2 else None, priority="HIGH")
        hooks(runner.optimizer_step).pre(lambda step: asked.append(step))

    run(Library("numpy"), put)
    assert asked == list(range(0, 15, 2))
    assert runners[0].step == 15


# The example


# By far: the exact numbers are those of a processor and of a version of NumPy.
