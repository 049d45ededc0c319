"""Between a loss and the parameters: clipping, accumulation, mixed precision, losses that are no numbers."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import ConfigError, HookOptionError, HookTypeError, hooks
from aspecthook.training import (
    AmpOptimizerHook,
    DistSamplerSeedHook,
    NanGuardHook,
    NanLossError,
    OptimizerHook,
    Runner,
    TrainingError,
)
from tests.training.kit import both, data, run_of, same, state, with_torch


def by_hand(
    library: str,
    batches: list[Any],
    epochs: int = 2,
    group: int = 1,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    skip: frozenset[int] = frozenset(),
) -> tuple[dict[str, Any], list[float]]:
    """Train in a plain loop, skipping the steps of some iterations; give the state and the norms."""
    runner = run_of(library)  # for its model, optimizer and loss alone
    runner.backend.seed(3)
    model, optimizer, loss = runner.model, runner.optimizer, runner.loss
    norms: list[float] = []
    total, begun = epochs * len(batches), 0
    model.train()
    for number in range(total):
        x, y = runner.backend.mover(model)(batches[number % len(batches)])
        size = min(group, total - begun)
        made = loss(model(x), y)
        (made / size if size > 1 else made).backward()
        if number + 1 == begun + size:
            begun += size
            if not skip & set(range(begun - size, begun)):
                if max_norm is not None:
                    norms.append(clipped(library, list(model.parameters()), max_norm, norm_type))
                optimizer.step()
            optimizer.zero_grad()
    return state(runner), norms


def clipped(library: str, parameters: list[Any], max_norm: float, norm_type: float) -> float:
    if library == "torch":
        import torch

        return float(torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type))
    norm = float(np.linalg.norm([np.linalg.norm(p.grad.ravel(), norm_type) for p in parameters], norm_type))
    for parameter in parameters:
        parameter.grad = parameter.grad * min(max_norm / (norm + 1e-6), 1.0)
    return norm


# The optimizer


@both
@pytest.mark.parametrize(("max_norm", "norm_type"), [(0.5, 2), (1.0, 1.0), (0.1, inf), (1e6, 2)])
@pytest.mark.parametrize("group", [1, 4])
def test_clipped_and_cumulative_steps_are_those_of_a_loop_by_hand(
    library: str, max_norm: float, norm_type: float, group: int
) -> None:
    runner = run_of(library)
    runner.register_hook(
        OptimizerHook({"max_norm": max_norm, "norm_type": norm_type}, cumulative_iters=group if group > 1 else None)
    )
    norms: list[float] = []
    hooks(runner.optimizer_step).post(lambda logs: norms.append(logs["grad_norm"]))
    runner.fit(data(5))
    expected, expected_norms = by_hand(library, data(5), group=group, max_norm=max_norm, norm_type=norm_type)
    assert same(state(runner), expected)
    assert norms == expected_norms
    assert runner.step == len(norms) == (10 if group == 1 else 3)


def test_the_number_of_batches_in_a_step_is_the_hook_s_if_it_has_one() -> None:
    for hook, number in ((OptimizerHook(), 4), (OptimizerHook(cumulative_iters=2), 2)):
        runner = run_of("numpy", accumulate=4, hooks=[hook])
        runner.fit(data(4))
        assert runner.accumulate == number


# Losses that are no numbers


def spoiled(runner: Runner, at: set[int], value: float = nan) -> None:
    """Make the loss of some iterations something that is no number."""
    hooks(runner.forward).post(lambda result, runner: result * value if runner.iter in at else None)


@both
@pytest.mark.parametrize(("value", "shown"), [(nan, "nan"), (inf, "inf"), (-inf, "-inf")])
def test_an_error_says_where_and_leaves_the_parameters_as_they_were(library: str, value: float, shown: str) -> None:
    runner = run_of(library, hooks=[NanGuardHook()])
    spoiled(runner, {7}, value)
    seen: list[Any] = []
    hooks(runner.backward).pre(lambda runner: seen.append(state(runner)), priority=0)
    with pytest.raises(NanLossError) as caught:
        runner.fit(data(5))
    text = f"the loss is {shown} in epoch 2, iteration 3 of it (8 of the run), with the learning rate 0.1;"
    assert str(caught.value).startswith(text)
    assert isinstance(caught.value, (TrainingError, FloatingPointError))
    assert same(state(runner), seen[7])


@settings(max_examples=25)
@given(at=st.sets(st.integers(0, 9)), group=st.integers(1, 4))
@pytest.mark.parametrize("library", ["numpy"])
def test_one_bad_batch_spoils_the_step_of_its_group(library: str, at: set[int], group: int) -> None:
    runner = run_of(library, accumulate=group)
    guard = runner.register_hook(NanGuardHook("skip"))
    spoiled(runner, at)
    runner.fit(data(5))
    assert guard.skipped == len({number // group for number in at})
    assert same(state(runner), by_hand(library, data(5), group=group, skip=frozenset(at))[0])


# Samplers


class Sampler:
    def __init__(self) -> None:
        self.epochs: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


class Loader(list[Any]):
    """A list of batches with some attributes."""


@pytest.mark.parametrize("path", ["sampler", "batch_sampler", "batch_sampler.sampler"])
def test_the_sampler_gets_the_epoch_wherever_it_is(path: str) -> None:
    loader, sampler = Loader(data(2)), Sampler()
    holder: Any = loader
    for name in path.split(".")[:-1]:
        setattr(holder, name, Loader())
        holder = getattr(holder, name)
    setattr(holder, path.rpartition(".")[2], sampler)
    runner = run_of("numpy", max_epochs=3, hooks=[DistSamplerSeedHook()])
    runner.fit(loader, data(1))
    assert sampler.epochs == [0, 1, 2]


# Mixed precision


def amp_by_hand(batches: list[Any], dtype: Any, group: int = 1, max_norm: float | None = None) -> Any:
    import torch

    runner = run_of("torch")
    runner.backend.seed(3)
    model, optimizer = runner.model, runner.optimizer
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
    model.train()
    total = 2 * len(batches)
    for number in range(total):
        x, y = runner.backend.mover(model)(batches[number % len(batches)])
        with torch.autocast("cpu", dtype=dtype):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss / group if group > 1 else loss).backward()
        if (number + 1) % group == 0:
            scaler.unscale_(optimizer)
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return state(runner), scaler.state_dict()


@with_torch
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("group", [1, 2])
def test_mixed_precision_is_that_of_a_loop_by_hand(kind: str, group: int) -> None:
    import torch

    dtype = torch.float16 if kind == "fp16" else torch.bfloat16
    runner = run_of("torch")
    runner.register_hook(AmpOptimizerHook({"max_norm": 0.5}, cumulative_iters=group if group > 1 else None, kind=kind))
    runner.fit(data(4))
    expected, scaler = amp_by_hand(data(4), dtype, group, 0.5)
    assert same(state(runner), expected)
    assert runner.amp.state_dict() == scaler


@with_torch
def test_a_fixed_loss_scale_stays() -> None:
    runner = run_of("torch", hooks=[AmpOptimizerHook(kind="fp16", loss_scale=512.0)])
    spoiled(runner, {2}, inf)  # an overflow, which would lower another
    scales: list[float] = []
    hooks(runner.train_iter).post(lambda runner: scales.append(runner.amp.state_dict()["scale"]))
    runner.fit(data(4))
    assert scales == [512.0] * 8
    assert all(np.isfinite(value).all() for value in state(runner).values())


@with_torch
def test_the_loss_scale_is_adapted_at_the_end_of_a_step_that_the_guard_skips() -> None:
    """It was adapted in the next backward pass: a run that was resumed in between kept the scale that overflows."""
    runner = run_of("torch", hooks=[AmpOptimizerHook(kind="fp16"), NanGuardHook("skip")])
    spoiled(runner, {2}, inf)
    scales: list[float] = []
    hooks(runner.train_iter).post(lambda runner: scales.append(runner.amp.state_dict()["scale"]))
    runner.fit(data(4))
    assert scales[2] == scales[1] / 2 == scales[-1]


def test_mixed_precision_is_refused_for_a_numpy_model() -> None:
    runner = run_of("numpy", hooks=[AmpOptimizerHook()])
    with pytest.raises(TrainingError, match="mixed precision is PyTorch's"):
        runner.fit(data(1))


# Options

CLIPPING = [
    (
        {"grad_clip": {"max_norm": 1, "foreach": True}},
        ConfigError,
        "takes no 'foreach'; what it takes: 'max_norm'",
    ),
    ({"grad_clip": {}}, HookTypeError, "max_norm=None is not a number"),
    ({"grad_clip": 1.0}, HookTypeError, "give a mapping"),
    ({"grad_clip": {"max_norm": nan}}, HookOptionError, "give a finite number above 0"),
    ({"grad_clip": {"max_norm": inf}}, HookOptionError, "max_norm=inf; give a finite number above 0"),
    ({"grad_clip": {"max_norm": 1, "norm_type": -inf}}, HookOptionError, "=-inf; give a finite number above 0"),
    ({"cumulative_iters": 0}, HookOptionError, "from 1 up"),
]


@pytest.mark.parametrize(
    ("kind", "options", "error", "text"),
    [
        *((OptimizerHook, *row) for row in CLIPPING),
        (AmpOptimizerHook, *CLIPPING[0]),
        (NanGuardHook, {"action": "skp"}, HookOptionError, "did you mean 'skip'"),
        (AmpOptimizerHook, {"kind": False}, HookOptionError, "'fp16' or 'bf16'"),
        (AmpOptimizerHook, {"loss_scale": 0}, HookOptionError, "above 0"),
        (AmpOptimizerHook, {"loss_scale": "dynamc"}, HookTypeError, "is not a number"),
    ],
)
def test_an_option_that_cannot_be_is_refused(kind: Any, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        kind(**options)
    assert kind.__name__ in str(caught.value)
