"""The average of the parameters: its formulas, when it is in the model, and what a checkpoint has of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import HookOptionError, HookTypeError, hooks
from aspecthook.training import Hook, Runner
from aspecthook.training import numpy as nn
from aspecthook.training.checkpoint import load
from aspecthook.training.hooks._ema import EMAHook
from tests.training.kit import both, data, run_of, same, state, with_torch

REFERENCE = json.loads((Path(__file__).parent / "reference_hooks.json").read_text())

# All kinds, with numbers by which a few steps make a difference.
KINDS: list[dict[str, Any]] = [
    {"kind": "warm_up", "momentum": 0.3, "warm_up": 4},
    {"kind": "warm_up", "momentum": 0.6, "interval": 2, "warm_up": 1},
    {"kind": "constant", "momentum": 0.25},
    {"kind": "annealing", "momentum": 0.1, "gamma": 3, "interval": 2},
    {"kind": "exponential", "momentum": 0.1, "gamma": 2},
    {"kind": "stochastic", "interval": 2},
]
kinds = pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(map(str, options.values())))


class Trail(Hook):
    """Notes the parameters of before a run and after each step."""

    priority = "HIGHEST"

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []

    def before_train_epoch(self, runner: Runner) -> None:
        if not self.values:
            self.note(runner)

    def after_optimizer_step(self, runner: Runner) -> None:
        self.note(runner)

    def note(self, runner: Runner) -> None:
        now = state(runner)
        self.values.append({name: now[name] for name in runner.backend.parameters(runner.model)})


def moved(array: Any, value: Any, weight: float, library: str) -> Any:
    """Mix by hand, with the operations of the originals."""
    if library == "numpy":
        return array * (1 - weight) + weight * value
    import torch

    return torch.tensor(array).mul_(1 - weight).add_(torch.tensor(value), alpha=weight).numpy()


def average_by_hand(trail: list[dict[str, Any]], o: dict[str, Any], library: str) -> dict[str, Any]:
    warm = o["kind"] == "warm_up"
    average = dict(trail[0 if warm else 1])
    for t, values in enumerate(trail[1:]):
        if t % o.get("interval", 1) == 0 and (warm or t):
            weight = EMAHook(**o).weight(t)  # which the reference proves
            average = {name: moved(average[name], value, weight, library) for name, value in values.items()}
    return average


# The formulas


@both
@pytest.mark.parametrize("case", REFERENCE["averages"], ids=lambda case: f"{case['source']}-{case['options']}")
def test_the_averages_are_those_of_mmcv_mmengine_and_mmdet(case: dict[str, Any], library: str) -> None:
    if library == "numpy":

        class Model(nn.Module):
            def __init__(self) -> None:
                self.w = nn.Parameter(np.array([1.0, -2.0, 0.5]))

    else:
        import torch

        class Model(torch.nn.Module):  # type: ignore[no-redef]
            def __init__(self) -> None:
                super().__init__()
                self.w = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))

    class Loss:
        def backward(self) -> None: ...

        def item(self) -> float:
            return 0.0

    class Given:
        """An optimizer that knows where the parameters go."""

        param_groups = ()
        steps = 0

        def step(self) -> None:
            self.steps += 1
            runner.backend.load_state(model, {"w": np.cos(self.steps * np.array([1.0, 2.0, 3.0]))})

        def zero_grad(self) -> None: ...

    model: Any = Model()
    model.train_step = lambda batch, optimizer: {"loss": Loss(), "log_vars": {}}
    runner = Runner(model, optimizer=Given(), max_epochs=4)
    ema = runner.register_hook(EMAHook(case["kind"], **case["options"]))
    rows: list[Any] = []
    hooks(runner.optimizer_step).add("post", lambda: rows.append(ema.average["w"]), priority=100)
    runner.fit(range(6))
    assert np.allclose(rows, case["values"], rtol=1e-12, atol=1e-14)


@both
@kinds
@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_average_is_that_of_a_loop_by_hand_over_steps(
    library: str, options: dict[str, Any], accumulate: int
) -> None:
    runner = run_of(library, accumulate=accumulate)
    trail, ema = runner.register_hook(Trail()), runner.register_hook(EMAHook(**options))
    runner.fit(data(5), data(2))
    assert len(trail.values) == 1 + (10 if accumulate == 1 else 4) == 1 + ema.steps
    assert same(ema.average, average_by_hand(trail.values, options, library))


# When it is in the model


class Seen(Hook):
    """Notes what the model has in each stage."""

    priority = "LOWEST"

    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []

    def before_iter(self, runner: Runner, mode: str) -> None:
        self.rows.append((mode, state(runner)))

    def after_epoch(self, runner: Runner, mode: str) -> None:
        self.rows.append((f"after {mode}", state(runner)))


@both
@kinds
def test_ema_validates_the_average_and_trains_the_parameters(library: str, options: dict[str, Any]) -> None:
    runner = run_of(library)
    trail, ema, seen = (runner.register_hook(hook) for hook in (Trail(), EMAHook(**options), Seen()))
    averages: list[Any] = []
    hooks(runner.train_epoch).post(lambda: averages.append(ema.average), priority=100)
    runner.fit(data(3), data(2))
    stays = options["kind"] == "warm_up"
    steps = 0
    for mode, values in seen.rows:
        if mode == "train":
            expected = trail.values[steps]
            steps += 1
        elif mode == "val" or stays:
            expected = averages[steps // 3 - 1]
        else:
            expected = trail.values[steps]
        assert same({name: values[name] for name in expected}, expected)
    assert steps == 6
    last = {name: value for name, value in state(runner).items() if name in ema.average}
    assert same(last, ema.average if stays else trail.values[-1])


@both
@kinds
def test_validating_and_saving_change_no_number_of_the_training(
    library: str, options: dict[str, Any], tmp_path: Path
) -> None:
    plain, watched = run_of(library), run_of(library)
    emas = [runner.register_hook(EMAHook(**options)) for runner in (plain, watched)]
    hooks(watched.train_iter).post(lambda runner: runner.save_checkpoint(tmp_path / "now"))
    plain.fit(data(4))
    watched.fit(data(4), data(2))
    assert same(emas[0].average, emas[1].average)
    assert same(state(plain), state(watched))


# Checkpoints


@both
@kinds
def test_a_checkpoint_has_both_sets_and_the_average_where_the_model_is(
    library: str, options: dict[str, Any], tmp_path: Path
) -> None:
    runner = run_of(library)
    trail, ema = runner.register_hook(Trail()), runner.register_hook(EMAHook(**options), name="average")
    runner.fit(data(3), data(1))
    runner.save_checkpoint(tmp_path / "whole")
    kept = load(tmp_path / "whole")
    assert same({name: kept["model"][name] for name in ema.average}, ema.average)
    assert same(kept["hooks"]["average"]["average"], ema.average)
    assert same(kept["hooks"]["average"]["trained"], trail.values[-1])
    plain = run_of(library)
    plain.load_checkpoint(tmp_path / "whole")
    assert same(state(plain), kept["model"])


@both
@kinds
def test_parameters_that_are_loaded_are_averaged_anew(library: str, options: dict[str, Any], tmp_path: Path) -> None:
    runner = run_of(library)
    ema = runner.register_hook(EMAHook(**options))
    runner.fit(data(3))
    before = runner.save_checkpoint(tmp_path / "first")
    runner.load_checkpoint(before)
    assert ema.average == {} and ema.steps == 0
    other = run_of(library)
    trail, ema = other.register_hook(Trail()), other.register_hook(EMAHook(**options))
    other.load_checkpoint(before)
    other.fit(data(3))
    assert same(ema.average, average_by_hand(trail.values, options, library))


def test_a_checkpoint_without_an_average_is_resumed_with_a_new_one(tmp_path: Path) -> None:
    runner = run_of("numpy", max_epochs=1)
    runner.fit(data(3))
    path = runner.save_checkpoint(tmp_path / "plain")
    again = run_of("numpy")
    ema = again.register_hook(EMAHook("stochastic"))
    again.fit(data(3))
    again.resume(path, other_run=True)
    trail = again.register_hook(Trail())
    again.fit(data(3))
    assert ema.steps == 3
    assert same(ema.average, average_by_hand(trail.values, {"kind": "stochastic"}, "numpy"))


@with_torch
def test_a_tensor_with_two_names_is_averaged_once_and_saved_by_both(tmp_path: Path) -> None:
    import torch

    def tied() -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
        model[1].weight = model[0].weight
        return model

    runner = run_of("torch", tied())
    ema = runner.register_hook(EMAHook("constant", momentum=0.1))
    runner.fit(data(3))
    assert "1.weight" not in ema.average
    path = runner.save_checkpoint(tmp_path / "tied")
    plain = run_of("torch", tied())
    plain.load_checkpoint(path)
    assert (plain.model[1].weight.detach().numpy() == ema.average["0.weight"]).all()
    again = run_of("torch", tied(), hooks=[EMAHook("constant", momentum=0.1)])
    again.resume(path)
    again.fit(data(3))  # which has nothing left to train
    assert same(state(again), state(runner))


@with_torch
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_an_average_of_half_precision_is_kept_in_full_and_survives_validation_and_resume(
    kind: str, tmp_path: Path
) -> None:
    import torch

    def half() -> tuple[Runner, EMAHook]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2).to(getattr(torch, kind))
        runner = run_of("torch", model)
        return runner, runner.register_hook(EMAHook("constant", momentum=0.001))

    batches = [(torch.tensor(x).to(getattr(torch, kind)), torch.tensor(y).to(getattr(torch, kind))) for x, y in data(8)]
    plain, ema = half()
    plain.fit(batches)
    first = {name: value.astype(np.float32) for name, value in ema.average.items()}
    assert {value.dtype for value in ema.average.values()} == {np.dtype("float32")}
    assert not (first["weight"] == state(plain)["weight"]).all()
    watched, other = half()
    hooks(watched.train_iter).post(lambda runner: runner.save_checkpoint(tmp_path / f"{runner.iter}"))
    watched.fit(batches, batches[:1])
    assert same(other.average, ema.average)
    again, resumed = half()
    again.resume(tmp_path / "5")
    again.fit(batches, batches[:1])
    assert same(resumed.average, ema.average)
    assert same(state(again), state(plain))


# Options


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"kind": "anealing"}, HookOptionError, "did you mean 'annealing'"),
        ({"momentum": 1.0}, HookOptionError, "above 0 and below 1"),
        ({"momentum": "0.1"}, HookTypeError, "is not a number"),
        ({"interval": 0}, HookOptionError, "from 1 up"),
        ({"kind": "annealing", "gamma": 0}, HookOptionError, "above 0"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        EMAHook(**options)
    assert "EMAHook" in str(caught.value)


@kinds
def test_a_validation_that_fails_inside_an_epoch_leaves_the_trained_parameters(options: Any) -> None:
    runners = [run_of("numpy", max_epochs=2, hooks=[EMAHook(**options)]) for _ in range(2)]

    def validate() -> None:
        with pytest.raises(ZeroDivisionError):
            runners[0].validate(1 / number for number in (0,))

    hooks(runners[0].train_iter).post(validate)
    for runner in runners:
        runner.fit(data(3))
    assert same(state(runners[0]), state(runners[1]))
