"""Hooks of learning rate and momentum: the numbers of the originals, what is set when, what is refused."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import AspecthookError, hooks
from aspecthook._errors import ConfigError
from aspecthook.training import HOOKS, Runner, TrainingError
from aspecthook.training.loop._progress import Progress
from aspecthook.training.schedules._hooks import LrUpdaterHook, MomentumUpdaterHook
from tests.training.kit import Loss, data, run_of

REFERENCE = json.loads((Path(__file__).parent / "reference_lr.json").read_text())
HOOK = {"lr": LrUpdaterHook, "momentum": MomentumUpdaterHook}


class Optimizer:
    """Groups of parameters, and what their learning rates and momenta were at each step."""

    def __init__(self, lrs: tuple[float, ...] = (0.1,), momenta: tuple[float, ...] = (), betas: bool = False) -> None:
        self.param_groups: list[dict[str, Any]] = [{"lr": lr, "params": []} for lr in lrs]
        for group, momentum in zip(self.param_groups, momenta, strict=False):
            group.update({"betas": (momentum, 0.999)} if betas else {"momentum": momentum})
        self.lrs: list[float] = []

    def step(self) -> None:
        self.lrs.append(self.param_groups[0]["lr"])

    def zero_grad(self) -> None: ...

    def read(self, word: str) -> list[float]:
        return [
            group["betas"][0] if word == "momentum" and "betas" in group else group[word] for group in self.param_groups
        ]


class Run:
    """As much of a runner as schedules look at; epochs of `length` batches, `accumulate` of them to a step."""

    def __init__(
        self,
        optimizer: Optimizer | None = None,
        *,
        max_epochs: int | None = 6,
        max_iters: int | None = None,
        length: int | None = 10,
        accumulate: int = 1,
    ) -> None:
        self.optimizer = optimizer or Optimizer()
        self.progress = Progress()
        known = max_epochs is not None and length is not None  # a runner knows its iterations then
        self.max_epochs, self.accumulate = max_epochs, accumulate
        self.max_iters = (max_epochs or 0) * (length or 0) if known else max_iters
        self.data_loader: Any = iter(()) if length is None else range(length)
        self.length = length or 10
        self.epoch = self.iter = self.step = 0

    def go(self, *hooks: Any, word: str = "lr", until: int | None = None) -> list[list[float]]:
        """Return what each batch was trained with."""
        total = self.max_iters or (self.max_epochs or 0) * self.length
        rows: list[list[float]] = []
        first = True
        while self.iter < min(total, until or total):
            if first or self.iter % self.length == 0:
                self.epoch, first = self.iter // self.length, False
                for hook in hooks:
                    hook.before_train_epoch(self)
            for hook in hooks:
                hook.before_train_iter(self)
            rows.append(self.optimizer.read(word))
            self.iter += 1
            self.step = self.iter // self.accumulate
        return rows


def lrs(run: Run, **config: Any) -> list[float]:
    return [row[0] for row in run.go(LrUpdaterHook(**config))]


# The numbers of the original implementations


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: f"{case['source']}-{case['optimizer']}")
def test_a_schedule_gives_the_numbers_of_the_original(case: dict[str, Any]) -> None:
    momenta = (0.9, 0.8) if case["word"] == "momentum" else ()
    optimizer = Optimizer((0.1, 0.02), momenta, betas=case["optimizer"] == "Adam")
    run = Run(optimizer, max_epochs=case["epochs"], length=case["length"])
    rows = run.go(HOOK[case["word"]](case["policy"], **case["options"]), word=case["word"])
    assert len(rows) == len(case["values"]) == 60
    for ours, theirs in zip(rows, case["values"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-10, abs=1e-14)


# When they are set


def test_a_policy_goes_by_epoch_unless_told_or_unable_to() -> None:
    by_epoch = lrs(Run(max_epochs=2, length=4), policy="exp", gamma=0.5)
    by_step = lrs(Run(max_epochs=2, length=4), policy="exp", gamma=0.5, by_epoch=False)
    in_iterations = lrs(Run(max_epochs=None, max_iters=8, length=4), policy="exp", gamma=0.5)
    assert by_epoch == [0.1] * 4 + [0.05] * 4
    assert by_step == in_iterations == [0.1 * 0.5**step for step in range(8)]
    assert len({*lrs(Run(), policy="cyclic")}) > 6


@given(st.integers(1, 7), st.sampled_from(["linear_annealing", "poly", "flat_cosine", "one_cycle", "cyclic", "exp"]))
def test_schedules_see_steps_not_the_batches_that_they_are_made_of(accumulate: int, policy: str) -> None:
    options: dict[str, Any] = {
        "linear_annealing": {"min_lr": 0.0},
        "flat_cosine": {"min_lr": 0.0},
        "one_cycle": {"max_lr": 1.0},
        "exp": {"gamma": 0.9},
    }.get(policy, {})
    config = {"policy": policy, **options, "by_epoch": False, "warmup": "linear", "warmup_iters": 5}
    grouped = lrs(Run(max_epochs=4, length=10, accumulate=accumulate), **config)
    steps = ceil(40 / accumulate)
    alone = lrs(Run(max_epochs=1, length=steps), **config)
    assert grouped == [alone[place // accumulate] for place in range(40)]


def test_a_learning_rate_that_is_a_tensor_is_filled_not_replaced() -> None:
    class Tensor:  # what a compiled step has read is this object
        def __init__(self, value: float) -> None:
            self.value = value

        def __float__(self) -> float:
            return self.value

        def fill_(self, value: float) -> None:
            self.value = value

    tensor: Any = Tensor(0.1)
    run = Run(Optimizer((tensor,)))
    run.go(LrUpdaterHook("exp", gamma=0.5), until=11)
    assert run.optimizer.param_groups[0]["lr"] is tensor and tensor.value == 0.05
    assert run.optimizer.param_groups[0]["initial_lr"] == 0.1


# Going on


@given(st.integers(1, 59), st.booleans())
def test_a_resumed_schedule_goes_on_as_if_nothing_had_happened(stop: int, by_epoch: bool) -> None:
    config: dict[str, Any] = {
        "policy": "cosine",
        "min_lr_ratio": 0.1,
        "by_epoch": by_epoch,
        "warmup": "linear",
        "warmup_iters": 25,
    }
    whole = Run().go(LrUpdaterHook(**config))
    first = Run()
    first.go(LrUpdaterHook(**config), until=stop)
    second = Run(first.optimizer)  # its groups, in the middle of the schedule, are in its state
    second.epoch, second.iter, second.step = stop // 10, stop, stop
    assert second.go(LrUpdaterHook(**config)) == whole[stop:]


# From a config


def values_of(policy: str, **options: Any) -> list[float]:
    return lrs(Run(max_epochs=4, length=2), policy=policy, **options)


@pytest.mark.parametrize("name", ["CosineAnnealing", "cosine annealing", "cosine"])
def test_a_policy_is_found_by_the_spelling_of_mmcv_and_by_ours(name: str) -> None:
    assert values_of(name, min_lr=0.01) == values_of("cosine_annealing", min_lr=0.01)


def test_a_config_of_mmcv_builds_the_hook() -> None:
    config = {"policy": "step", "warmup": "linear", "warmup_iters": 500, "warmup_ratio": 1.0 / 3, "step": [11, 8]}
    hook = HOOKS.build_from_config({"type": "LrUpdaterHook", **config})
    assert hook.policy == "step(step=[11, 8])" and hook.priority == "VERY_HIGH"


def test_warmup_options_without_a_warmup_are_ignored() -> None:
    # configs of mm inherit: warmup=None over the warmup_iters of the base is how one turns it off
    values = lrs(Run(), policy="fixed", warmup=None, warmup_iters=0, warmup_ratio=5)
    assert {*values} == {0.1}


WARM = {"policy": "fixed", "warmup": "linear", "warmup_iters": 1}
PERIODS = {"policy": "cosine_restart", "min_lr": 0}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"policy": "stp"}, "LrUpdaterHook: there is no policy 'stp'; the policies are 'fixed', 'step'"),
        ({"policy": max}, "the policy is <built-in function max>; give the name of one"),
        ({"policy": "step"}, "LrUpdaterHook: the policy 'step' needs 'step', which the config does not give; add it"),
        ({"policy": "step", "step": 3, "gama": 1}, "takes no 'gama'; what it takes: 'step', 'gamma', 'min_lr'"),
        ({"policy": "step", "step": 3, "warmup_iter": 1}, "; did you mean 'warmup_iters'?"),
        ({"policy": "step", "step": 0}, "LrUpdaterHook: the policy 'step': step=0; give a number from 1 up"),
        ({"policy": "step", "step": []}, "step=[]; give a list of numbers"),
        ({"policy": "exp", "gamma": float("nan")}, "gamma=nan; give a finite number"),
        ({"policy": "poly", "power": -1}, "power=-1; give a number from 0 up"),
        ({"policy": "cosine"}, "is given neither of min_lr and min_lr_ratio; give exactly one"),
        ({"policy": "linear", "min_lr": 0, "min_lr_ratio": 0}, "is given both of min_lr and min_lr_ratio"),
        ({"policy": "flat_cosine", "min_lr": 0, "start_percent": 75}, "start_percent=75; give a number from 0 to 1"),
        ({**PERIODS, "periods": 5}, "periods=5; give a list of numbers"),
        ({"policy": "cyclic", "by_epoch": True}, "cyclic only counts steps; leave by_epoch out, or give False"),
        ({"policy": "one_cycle", "max_lr": 1, "three_phase": 1}, "three_phase=1 is neither True nor False"),
        ({**WARM, "warmup": "liner"}, "did you mean 'linear'?"),
        ({**WARM, "warmup_iters": 0}, "LrUpdaterHook: warmup_iters=0; give a number from 1 up"),
        ({**WARM, "warmup_ratio": 0}, "warmup_ratio=0; give a number above 0"),
        ({"policy": "fixed", "by_epoch": "no"}, "by_epoch='no' is neither True nor False"),
    ],
)
def test_a_config_of_no_use_is_refused_as_the_hook_is_made(config: dict[str, Any], says: str) -> None:
    with pytest.raises(AspecthookError) as caught:
        LrUpdaterHook(**config)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"policy": "step", "step": 3, "min_lr": 0.1}, "what it takes: 'step', 'gamma', 'min_momentum'"),
        ({"policy": "one_cycle", "div_factor": 3}, "takes no 'div_factor'"),
    ],
)
def test_a_momentum_config_of_no_use_is_refused_in_its_own_words(config: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MomentumUpdaterHook(**config)
    assert says in str(caught.value)


# What is known when a run begins


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {**PERIODS, "periods": [5]},
            r"cosine_restart\(.*\): the last period ends at 5, and the run goes on to 5; add one",
        ),
        ({**PERIODS, "periods": [5, 5]}, "2 periods and 1 restart_weights; give equally many"),
        ({"policy": "cyclic", "cyclic_times": 61}, "61 cycles do not fit into 60 steps; give fewer"),
        ({"policy": "cyclic", "target_ratio": (1, 2, 3)}, "give two ratios, and a gamma up to 1"),
        (
            {"policy": "one_cycle", "max_lr": 1, "three_phase": True, "pct_start": 0.6},
            "pct_start=0.6: with three_phase, give at most 0.5",
        ),
    ],
)
def test_a_policy_that_does_not_fit_the_run_is_refused_before_the_first_batch(
    config: dict[str, Any], says: str
) -> None:
    run = Run()
    with pytest.raises(ConfigError, match=f"LrUpdaterHook: .*{says}"):
        run.go(LrUpdaterHook(**config))
    assert run.iter == 0


def test_a_policy_that_must_know_the_end_is_refused_where_the_run_does_not() -> None:
    with pytest.raises(ConfigError, match="at which epoch the run ends, or by steps"):
        Run(max_epochs=None, max_iters=50).go(LrUpdaterHook("poly", by_epoch=True))
    with pytest.raises(ConfigError, match="with by_epoch=False, max_iters or a loader that has a length"):
        Run(length=None).go(LrUpdaterHook("poly", by_epoch=False))
    # Policies that do not need the end were refused too.
    assert Run(length=None).go(LrUpdaterHook("exp", gamma=0.5, by_epoch=False))[1] == [0.05]
    assert Run(length=None, max_iters=20).go(LrUpdaterHook("poly", by_epoch=False))[10] == [0.05]


def test_an_optimizer_without_what_is_to_be_set_is_refused() -> None:
    with pytest.raises(
        TrainingError, match="group 0 of the optimizer has no 'momentum'; choose an optimizer that has one"
    ):
        Run().go(MomentumUpdaterHook("fixed"))
    run = Run()
    del run.optimizer.param_groups[0]["lr"]
    with pytest.raises(TrainingError, match="group 0 of the optimizer has no 'lr'"):
        run.go(LrUpdaterHook("fixed"))


# On a real runner


class Model:
    def train_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
        return {"loss": Loss(1), "log_vars": {"loss": 1.0}, "num_samples": 1}

    val_step = train_step


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 15), (2, 8), (4, 4)])
def test_a_runner_steps_with_the_learning_rates_of_the_schedule(accumulate: int, steps: int) -> None:
    optimizer = Optimizer()
    runner = Runner(Model(), optimizer=optimizer, max_epochs=3, accumulate=accumulate)
    runner.register_hook({"type": "LrUpdaterHook", "policy": "linear", "min_lr": 0.0, "by_epoch": False})
    runner.fit(range(5), range(3))
    assert optimizer.lrs == pytest.approx([0.1 * (1 - step / steps) for step in range(steps)])


def test_a_run_resumed_at_the_end_of_an_epoch_has_the_rate_of_its_warm_up_for_the_hooks_after_it() -> None:
    rates: list[float] = []
    states: list[dict[str, Any]] = []

    def made() -> Runner:
        options = {"gamma": 0.5, "by_epoch": True, "warmup": "linear", "warmup_iters": 5}
        runner = run_of("numpy", hooks=[LrUpdaterHook("exp", **options)])
        hooks(runner.train_epoch).post(lambda optimizer: rates.append(optimizer.param_groups[0]["lr"]))
        hooks(runner.train_iter).post(lambda: runner.after_stage(lambda: states.append(runner.state_dict())))
        return runner

    made().fit(data(3))
    whole, saved = [*rates], [*states]
    for place, state in enumerate(saved):
        rates.clear()
        runner = made()
        runner.restore(state, resume=True)
        runner.fit(data(3))
        assert rates == whole[place // 3 :]
