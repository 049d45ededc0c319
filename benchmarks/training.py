"""A whole small training run, beside a loop that somebody wrote by hand for this one run.

Both train the same network from the same start on the same batches, with the same layers, loss and optimizer, and both
read the loss of each step. They must end with the same parameters, to the bit, or nothing is measured. The loop written
by hand is as short as it can be: it cannot be resumed, nor stopped between two steps, keeps no logs, has no hooks.

A sample is a whole ``fit`` of a runner that is new, from its first line to its last, so that what a run costs where it
begins counts as well. Runs of both take turns, and what is timed is the processor's time in them: what other programs
take of it is theirs.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from math import cos, pi
from time import process_time
from typing import Any, NamedTuple

from .results import OURS, Contest, Goal
from .timing import Effort

PLAIN = "a loop by hand"
EPOCHS = 2
BATCH = 32
RATE = 3e-3
NORM = 5.0


class Kit(NamedTuple):
    """What both train: a network of its own, what steps it, its loss, its data; and what clips its gradients."""

    model: Any
    optimizer: Any
    loss: Callable[[Any, Any], Any]
    loader: Any
    clip: Callable[[], float]
    values: Callable[[], list[bytes]]


def training(effort: Effort) -> list[Contest]:
    """Compare both on NumPy and, where it is installed, on PyTorch; without any hooks, and with two."""
    if not all(map(find_spec, ("numpy", "autograd", "safetensors"))):
        return []
    # Before NumPy is loaded: where there is little to compute, threads mostly wait for each other.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    kits: dict[str, Callable[[], Kit]] = {"NumPy": numpy_kit}
    if find_spec("torch"):
        kits["PyTorch"] = torch_kit
    contests = []
    # Those with hooks come last: a hook on one runner costs the others of its class a look in each stage.
    for hooked in (False, True):
        for name, kit in kits.items():
            what = "rate and clipping by hooks" if hooked else "no hooks"
            goals = [Goal(OURS, 1.06 if hooked else 1.03, PLAIN)]
            contests.append(_contest(f"A small network on {name}, {what}; a step", kit, hooked, effort.rounds, goals))
    return contests


def _contest(title: str, make: Callable[[], Kit], hooked: bool, rounds: int, goals: list[Goal]) -> Contest:
    plain = _plain_with_rate_and_clipping if hooked else _plain
    ours = partial(_ours, hooked)
    _check(make, plain, ours)
    steps = EPOCHS * len(make().loader)
    times = _in_turn({PLAIN: lambda: partial(plain, make()), OURS: lambda: ours(make())}, rounds)
    a_step = {name: [taken / steps for taken in row] for name, row in times.items()}
    return Contest("training", title, "µs", a_step, PLAIN, goals)


def _in_turn(prepared: dict[str, Callable[[], Callable[[], None]]], rounds: int) -> dict[str, list[float]]:
    """Time whole runs, in changing order; the first ones warm up, and do not count."""
    times: dict[str, list[float]] = {name: [] for name in prepared}
    names = list(prepared)
    for number in range(rounds + 2):
        for name in names if number % 2 else reversed(names):
            run = prepared[name]()
            gc.collect()  # what earlier runs have left is not of this one
            begun = process_time()
            run()
            times[name].append(process_time() - begun)
    return {name: row[2:] for name, row in times.items()}


def _check(make: Callable[[], Kit], plain: Callable[[Kit], None], ours: Callable[[Kit], Callable[[], None]]) -> None:
    by_hand, by_runner = make(), make()
    plain(by_hand)
    ours(by_runner)()
    if by_hand.values() != by_runner.values():
        raise AssertionError("the loop by hand and the runner do not end with the same parameters")


# By hand


def _plain(kit: Kit) -> None:
    model, optimizer, loss_of = kit.model, kit.optimizer, kit.loss
    model.train()
    loss_now = 0.0
    for _ in range(EPOCHS):
        for images, labels in kit.loader:
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss_now = loss.item()
    assert loss_now > 0


def _plain_with_rate_and_clipping(kit: Kit) -> None:
    model, optimizer, loss_of, clip = kit.model, kit.optimizer, kit.loss, kit.clip
    steps = EPOCHS * len(kit.loader)
    model.train()
    step, loss_now, norm = 0, 0.0, 0.0
    for _ in range(EPOCHS):
        for images, labels in kit.loader:
            rate = RATE / 2 * (1 + cos(pi * step / steps))
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = loss_of(model(images), labels)
            loss.backward()
            norm = clip()
            optimizer.step()
            optimizer.zero_grad()
            loss_now = loss.item()
            step += 1
    assert loss_now > 0 and norm > 0


# Ours


def _ours(hooked: bool, kit: Kit) -> Callable[[], None]:
    from aspecthook.training import LrUpdaterHook, OptimizerHook, Runner

    runner = Runner(kit.model, optimizer=kit.optimizer, loss=kit.loss, max_epochs=EPOCHS)
    if hooked:
        runner.register_hook(LrUpdaterHook("cosine", min_lr=0.0, by_epoch=False))
        runner.register_hook(OptimizerHook(grad_clip={"max_norm": NORM}))
    return partial(runner.fit, kit.loader)


# What they train


def _digits() -> tuple[Any, Any]:
    from aspecthook.training.data import load_digits

    images, labels = load_digits("train")
    return images.reshape(len(images), -1), labels


def numpy_kit() -> Kit:
    """Make a network with one hidden layer, and our loader."""
    import numpy as np

    from aspecthook.training.data import ArrayDataset, DataLoader
    from aspecthook.training.numpy import SGD, Linear, ReLU, Sequential, cross_entropy, manual_seed

    manual_seed(0)
    model = Sequential(Linear(64, 64), ReLU(), Linear(64, 10))

    def clip() -> float:
        held = list(model.parameters())
        norm = float(np.linalg.norm([np.linalg.norm(parameter.grad.ravel()) for parameter in held]))
        factor = min(NORM / (norm + 1e-6), 1.0)
        for parameter in held:
            parameter.grad = parameter.grad * factor
        return norm

    loader = DataLoader(ArrayDataset(*_digits()), BATCH, shuffle=True)
    optimizer = SGD(model.parameters(), lr=RATE, momentum=0.9)
    return Kit(
        model, optimizer, cross_entropy, loader, clip, lambda: [one.data.tobytes() for one in model.parameters()]
    )


def torch_kit() -> Kit:
    """Make the same network of PyTorch's, with its own loader, on one core of the CPU."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    data = TensorDataset(*map(torch.from_numpy, _digits()))
    loader: Any = DataLoader(data, BATCH, shuffle=True, generator=torch.Generator().manual_seed(0))
    return Kit(
        model,
        torch.optim.AdamW(model.parameters(), lr=RATE),
        torch.nn.functional.cross_entropy,
        loader,
        lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), NORM).item(),
        lambda: [one.detach().numpy().tobytes() for one in model.parameters()],
    )
