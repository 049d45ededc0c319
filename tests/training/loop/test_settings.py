"""Whoever resumes a run is told, in one table, which settings differ from those that its checkpoint was saved with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aspecthook.training import EarlyStoppingHook, EMAHook, Hook, LrUpdaterHook, Runner, TrainingError
from aspecthook.training.numpy import SGD, Dropout, Linear, ReLU, Sequential, cross_entropy
from tests.training.kit import data, with_torch


def run_of(*hooks: Hook, lr: float = 0.1, momentum: float = 0.9, rate: float = 0.4, **options: Any) -> Runner:
    model = Sequential(Linear(3, 8), ReLU(), Dropout(rate), Linear(8, 2))
    optimizer = SGD(model.parameters(), lr=lr, momentum=momentum)
    options = {"max_epochs": 2, **options}
    runner = Runner(model, optimizer=optimizer, loss=cross_entropy, seed=5, **options)
    for hook in hooks:
        runner.register_hook(hook)
    return runner


def told(caplog: pytest.LogCaptureFixture, path: Path, runner: Runner) -> list[list[str]]:
    """Return the rows of the table that a resume logs, without its head."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "aspecthook.training"):
        runner.resume(path)
    tables = [one.getMessage() for one in caplog.records if "other settings" in one.getMessage()]
    assert len(tables) <= 1
    return [row.split("  ") for row in tables[0].splitlines()[2:]] if tables else []


def rows(caplog: pytest.LogCaptureFixture, path: Path, runner: Runner) -> dict[str, tuple[str, ...]]:
    found = [[cell.strip() for cell in row if cell.strip()] for row in told(caplog, path, runner)]
    return {name: tuple(rest) for name, *rest in found}


def scheduled() -> LrUpdaterHook:
    return LrUpdaterHook("step", step=1, by_epoch=True)


RUNS: dict[str, tuple[Callable[[], Runner], Callable[[], Runner], dict[str, tuple[str, str, str]]]] = {
    "the same": (lambda: run_of(scheduled()), lambda: run_of(scheduled()), {}),
    "more epochs and another hook": (run_of, lambda: run_of(EMAHook(), max_epochs=9), {}),
    "lr and momentum": (
        lambda: run_of(scheduled()),
        lambda: run_of(scheduled(), lr=0.3, momentum=0.5),
        {
            "optimizer.lr": ("0.1", "0.3", "the checkpoint's"),
            "optimizer.momentum": ("0.9", "0.5", "the checkpoint's"),
        },
    ),
    "accumulate": (run_of, lambda: run_of(accumulate=2), {"accumulate": ("1", "2", "this run's")}),
    "EMA kind": (
        lambda: run_of(EMAHook("warm_up")),
        lambda: run_of(EMAHook("constant", momentum=0.5)),
        {
            "EMAHook.kind": ("'warm_up'", "'constant'", "this run's"),
            "EMAHook.momentum": ("0.0002", "0.5", "this run's"),
            "EMAHook.warm_up": ("100", "1", "this run's"),
        },
    ),
    "patience": (
        lambda: run_of(EarlyStoppingHook("loss", patience=3)),
        lambda: run_of(EarlyStoppingHook("loss", patience=4)),
        {"EarlyStoppingHook.patience": ("3", "4", "this run's")},
    ),
    "policy": (
        lambda: run_of(scheduled()),
        lambda: run_of(LrUpdaterHook("step", step=[2, 3], by_epoch=True)),
        {"LrUpdaterHook.policy": ("'step(step=1)'", "'step(step=[2, 3])'", "this run's")},
    ),
    "a layer": (run_of, lambda: run_of(rate=0.2), {"model.2": ("Dropout(p=0.4)", "Dropout(p=0.2)", "this run's")}),
}


@pytest.mark.parametrize(("before", "after", "expected"), RUNS.values(), ids=RUNS)
def test_what_differs_is_told_in_one_table(
    before: Any, after: Any, expected: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = before()
    first.fit(data(3), data(1))
    path = first.save_checkpoint(tmp_path / "saved")
    runner = after()
    found = rows(caplog, path, runner)
    assert found.keys() == expected.keys()
    for name, cells in expected.items():
        assert all(cell.startswith(start) for cell, start in zip(found[name], cells, strict=True))
    if "optimizer.lr" in expected:
        assert runner.optimizer.param_groups[0]["momentum"] == 0.9
    # From then on the checkpoint has the settings that are in force, so the same difference is not told twice.
    again = runner.save_checkpoint(tmp_path / "again")
    assert rows(caplog, again, after()).keys() <= {name for name in expected if name.startswith("optimizer")}


@with_torch
def test_types_and_layers_of_a_torch_model_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import torch

    def run(layer: Any, dtype: Any) -> Runner:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), layer).to(dtype)
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.9 if dtype is torch.float32 else 0.8))
        return Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, max_epochs=1)

    path = run(torch.nn.Dropout(0.5), torch.float32).save_checkpoint(tmp_path / "saved")
    assert rows(caplog, path, run(torch.nn.Dropout(0.1), torch.float64)) == {
        "optimizer.betas": ("[0.9, 0.9]", "[0.9, 0.8]", "the checkpoint's"),
        "model.1": ("Dropout(p=0.5, inplace=False)", "Dropout(p=0.1, inplace=False)", "this run's"),
        "model.dtype": ("torch.float32", "torch.float64", "this run's"),
    }


class Interrupt(Hook):
    def after_train_iter(self, runner: Runner, iter: int) -> None:
        if iter == 1:
            runner.request_stop()


def test_a_list_in_another_order_or_of_other_batches_is_refused_within_an_epoch(tmp_path: Path) -> None:
    batches = data(4)
    first = run_of(Interrupt())
    first.fit(batches)
    path = first.save_checkpoint(tmp_path / "saved")
    halves = [[part[: len(part) // 2] for part in batch] for batch in batches]
    for other in (batches[::-1], halves):
        runner = run_of(Interrupt())
        runner.resume(path)
        with pytest.raises(TrainingError, match="batch 2 of the list is not the one that the run has trained on"):
            runner.fit(other)
    runner = run_of()
    runner.resume(path)
    runner.fit(list(batches))
    assert runner.epoch == 2


@pytest.mark.parametrize("settings", [[], {"accumulate": 3}, {3: "3"}])
def test_settings_that_no_run_saves_are_refused(settings: Any) -> None:
    state = run_of().state_dict()
    with pytest.raises(TrainingError, match="settings"):
        run_of().restore({**state, "settings": settings}, resume=True)
