"""Dead neurons and histograms of activations in a training run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import HookOptionError, hooks
from aspecthook.training import Runner, TrainingError
from aspecthook.training.data import ArrayDataset, DataLoader

torch = pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("matplotlib")

from aspecthook.training import ActivationHistogramHook, DeadNeuronHook  # noqa: E402

pytestmark = pytest.mark.torch


def model() -> Any:
    """Make a network whose third hidden unit is dead, and whose fourth fires for one input alone."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0], [0, 1], [0, 0], [1, 0]]))
        net[0].bias.copy_(torch.tensor([1.0, 1, -9, -10.5]))
    return net


def data() -> DataLoader:
    """Make twelve inputs; the last is large."""
    rng = np.random.default_rng(0)
    images = rng.random((12, 2)).astype("float32")
    images[-1] = 11
    return DataLoader(ArrayDataset(images, rng.integers(0, 2, 12)), batch_size=4)


def run_of(*given: Any, **options: Any) -> Runner:
    """Make a run with hooks."""
    net = model()
    options = {"max_epochs": 2, "seed": 0, **options}
    runner = Runner(
        net, optimizer=torch.optim.SGD(net.parameters(), lr=1e-9), loss=torch.nn.functional.cross_entropy, **options
    )
    for hook in given:
        runner.register_hook(hook)
    return runner


def untouched(net: Any) -> bool:
    return all(not {"forward", "__aspecthook__"} & vars(module).keys() for module in net.modules())


def test_the_share_of_dead_units_is_logged_after_each_epoch(caplog: pytest.LogCaptureFixture) -> None:
    hook = DeadNeuronHook(warn_at=0.25)
    runner = run_of(hook)
    shares: list[float] = []
    hooks(runner.train_epoch).post(lambda logs: shares.append(logs["dead/1"]), priority="LOWEST")
    with caplog.at_level(logging.WARNING):
        runner.fit(data())
    assert shares == [0.25, 0.25] and hook.neurons["1"].dead == (2,) and hook.neurons["1"].units == 4
    assert "1: 1 of 4 units never fired in epoch 2" in caplog.text and untouched(runner.model)


def test_a_unit_is_not_dead_that_one_input_of_the_epoch_makes_fire() -> None:
    hook = DeadNeuronHook("1", threshold=20.0)
    run_of(hook).fit(data())
    assert hook.neurons["1"].dead == (0, 1, 2, 3)


def test_epochs_between_are_not_looked_at_and_validation_does_not_count() -> None:
    hook = DeadNeuronHook("0", activation=torch.relu, interval=2)
    runner = run_of(hook, max_epochs=3)
    seen: list[bool] = []
    hooks(runner.train_iter).pre(lambda epoch, model: seen.append("forward" in vars(model[0])))

    def validate(self: Runner) -> None:  # one that refers to the runner itself would keep it alive
        self.mode = "val"
        self.model(torch.full((1, 2), 100.0))
        self.mode = "train"

    hooks(runner.train_iter).post(validate)
    runner.fit(data())
    assert seen == [False] * 3 + [True] * 3 + [False] * 3 and hook.neurons["0"].dead == (2,)


def test_a_run_that_fails_leaves_nothing_on_the_model() -> None:
    runner = run_of(DeadNeuronHook(), ActivationHistogramHook())

    def fail(inner_iter: int) -> None:
        if inner_iter == 1:
            raise LookupError("no")

    hooks(runner.train_iter).pre(fail)
    with pytest.raises(LookupError):
        runner.fit(data())
    assert untouched(runner.model)


@pytest.mark.parametrize("stop", [1, 2, 4, 5])
def test_a_resumed_run_finds_what_one_without_a_break_finds(stop: int, tmp_path: Path) -> None:
    def made() -> tuple[Runner, DeadNeuronHook, ActivationHistogramHook]:
        found = DeadNeuronHook("1", threshold=1.5), ActivationHistogramHook(every=1, path=None)
        return run_of(*found), *found

    runner, dead, counted = made()
    hooks(runner.train_iter).post(lambda iter, runner: runner.request_stop() if iter + 1 == stop else None)
    runner.fit(data())
    runner.save_checkpoint(tmp_path / "half")
    again, dead, counted = made()
    again.resume(tmp_path / "half")
    again.fit(data())
    whole, dead_whole, counted_whole = made()
    whole.fit(data())
    assert dead.neurons == dead_whole.neurons and counted.histograms == counted_whole.histograms
    assert counted.histograms["0"].total == 12 * 4


def test_histograms_are_drawn_into_the_work_dir(tmp_path: Path) -> None:
    hook = ActivationHistogramHook(every=2)
    runner = run_of(hook, work_dir=tmp_path / "run")
    runner.fit(data())
    assert list(hook.histograms) == ["0", "1", "2", "3"] and hook.histograms["1"].zeros >= 4
    assert hook.histograms["0"].total == 2 * 4 * 4  # the first and the third batch
    assert (tmp_path / "run" / "activations.png").read_bytes().startswith(b"\x89PNG") and untouched(runner.model)


def test_histograms_have_a_section_in_the_report(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    from aspecthook.training.report._page import ReportHook

    hook = ActivationHistogramHook(path=None, title="What units give")
    runner = run_of(hook, ReportHook(), work_dir=tmp_path)
    runner.fit(data())
    page = (tmp_path / "report.html").read_text()
    assert "What units give" in page and page.count("data:image/png;base64") == 1
    assert not (tmp_path / "activations.png").exists()


def test_a_model_of_numpy_is_refused() -> None:
    from aspecthook.training.numpy import SGD, Linear, cross_entropy

    net = Linear(2, 2)
    for hook in (DeadNeuronHook(), ActivationHistogramHook()):
        runner = Runner(net, optimizer=SGD(net.parameters(), lr=0.1), loss=cross_entropy, max_epochs=1)
        runner.register_hook(hook)
        with pytest.raises(TrainingError, match=f"{type(hook).__name__} watches PyTorch modules.*type Linear"):
            runner.fit(data())


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(HookOptionError, match="DeadNeuronHook: interval=0"):
        DeadNeuronHook(interval=0)
    with pytest.raises(HookOptionError, match="ActivationHistogramHook: every=0"):
        ActivationHistogramHook(every=0)


def test_they_are_built_from_configs() -> None:
    runner = run_of()
    hook = runner.register_hook({"type": "DeadNeuronHook", "names": "1", "threshold": 0.1})
    assert type(hook) is DeadNeuronHook
