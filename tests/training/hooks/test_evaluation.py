"""Validation beside the workflow, the best checkpoint, early stopping; and that several ranks decide alike."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from itertools import count
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import HookOptionError, Return, hooks
from aspecthook.training import (
    CheckpointHook,
    CheckpointLoaderHook,
    EarlyStoppingHook,
    EvalHook,
    Hook,
    Runner,
    TrainingError,
)
from aspecthook.training.checkpoint import load
from aspecthook.training.hooks._monitor import known_rule
from tests.training.hooks.test_ema import REFERENCE
from tests.training.kit import Loss, Optimizer, both, data, on_two_ranks, registered, run_of, with_torch


class Model:
    """Has mm's protocol: the loss of a batch is the batch; and its scores, one for each validation, are given."""

    def __init__(self, *scores: float, name: str = "acc") -> None:
        self.scores, self.name = list(scores), name
        self.training = True

    def train(self) -> None:
        self.training = True

    def eval(self) -> None:
        self.training = False

    def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        assert self.training
        return {"loss": Loss(batch), "log_vars": {"loss": float(batch), "acc": -1.0}, "num_samples": 1}

    def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        assert not self.training
        score = self.scores.pop(0) if self.scores else batch
        return {"log_vars": {self.name: score, "size": batch}, "num_samples": int(batch)}


def make(*scores: float, name: str = "acc", hooks: Iterable[Any] = (), **options: Any) -> Runner:
    runner = Runner(Model(*scores, name=name), optimizer=Optimizer(), **({"max_epochs": 6} | options))
    return registered(runner, hooks)


# When it is validated


class Where(Hook):
    """Notes where in the training a validation is made."""

    priority = "HIGHEST"

    def __init__(self) -> None:
        self.now: list[Any] = []
        self.seen: list[Any] = []

    def before_train_epoch(self, epoch: int) -> None:
        self.now = ["before", epoch]

    def after_train_epoch(self, epoch: int) -> None:
        self.now = ["after", epoch]

    def before_train_iter(self, iter: int) -> None:
        self.now = ["before", iter]

    def after_train_iter(self, iter: int) -> None:
        self.now = ["after", iter]

    def before_val_epoch(self) -> None:
        self.seen.append(self.now)


@pytest.mark.parametrize(
    "case",
    REFERENCE["evaluations"],
    ids=lambda case: f"{'epoch' if case['by_epoch'] else 'iter'}-{case['start']}-{case['interval']}-{case['begin']}",
)
def test_it_is_validated_where_mmcv_does(case: dict[str, Any]) -> None:
    runner = make()
    if case["begin"]:
        runner.restore(
            {
                **runner.state_dict(),
                "progress": {**runner.progress.state_dict(), "epoch": case["begin"], "iter": 3 * case["begin"]},
            },
            resume=True,
        )
    where = runner.register_hook(Where())
    runner.register_hook(EvalHook([1.0], start=case["start"], interval=case["interval"], by_epoch=case["by_epoch"]))
    runner.fit([1.0] * 3)
    assert where.seen == case["seen"]


def test_an_epoch_that_was_ended_early_is_not_validated() -> None:
    runner = make()
    where = runner.register_hook(Where())
    runner.register_hook(EvalHook([1.0]))
    hooks(runner.train_iter).post(lambda runner: runner.request_stop() if runner.iter == 4 else None)
    runner.fit([1.0] * 3)
    assert where.seen == [["after", 0]]
    runner.fit([1.0] * 3)
    assert where.seen == [["after", epoch] for epoch in range(6)]


# The numbers


def test_numbers_are_averaged_over_samples_and_go_to_the_logs() -> None:
    runner = make(0.75, 0.75, 0.5, 0.25, max_epochs=2)
    hook = runner.register_hook(EvalHook([1.0, 3.0]))
    hooks(runner.val_epoch).post(lambda: runner.log(val_once=1.0), times=1)  # no number of the next validation
    runner.fit([1.0])
    assert hook.metrics == {"val_acc": (0.5 + 3 * 0.25) / 4, "val_size": (1 + 9) / 4}
    assert runner.logs == {"loss": 1.0, "acc": -1.0, **hook.metrics}


@both
def test_numbers_of_the_whole_are_known_to_the_hooks_after_the_validation(library: str) -> None:
    class Late(Hook):
        priority = "HIGHEST"

        def after_val_epoch(self, logs: dict[str, Any]) -> None:
            seen.append(dict(logs))

    def evaluate(outputs: list[Any], batches: list[Any]) -> dict[str, Any]:
        predicted = [np.asarray(one["outputs"]) for one in outputs]
        assert len(outputs) == len(batches) == 2
        return {"far": max(np.abs(p - np.asarray(y)).max() for p, (_, y) in zip(predicted, batches, strict=True))}

    seen: list[Any] = []
    runner = run_of(library, max_epochs=1, hooks=[Late()])
    hook = runner.register_hook(EvalHook(data(2), evaluate=evaluate))
    runner.fit(data(2))
    assert list(hook.metrics) == ["val_far", "val_loss"]
    assert seen[0]["val_far"] == hook.metrics["val_far"] > 0
    assert isinstance(hook.metrics["val_far"], float)


# The best


def best_of(scores: list[float], folder: Path, **options: Any) -> tuple[list[int], EvalHook, Runner]:
    name = options.pop("name", "acc")
    runner = make(*scores, name=name, max_epochs=len(scores), work_dir=folder)
    hook = runner.register_hook(EvalHook([1.0], **({"save_best": "acc"} | options)))
    saved: list[int] = []
    hooks(runner.save_checkpoint).post(lambda epoch: saved.append(epoch))
    runner.fit([1.0])
    return saved, hook, runner


@pytest.mark.parametrize("case", REFERENCE["best"])
def test_the_best_is_that_of_mmcv(case: dict[str, Any], tmp_path: Path) -> None:
    saved, hook, _ = best_of(case["scores"], tmp_path, rule=case["rule"])
    assert saved == case["saved"]
    assert hook.best_score == (max if case["rule"] == "greater" else min)(case["scores"])
    assert [path.name for path in tmp_path.glob("*.safetensors")] == [f"best_val_acc_epoch_{saved[-1] + 1}.safetensors"]


@pytest.mark.parametrize(("key", "rule"), REFERENCE["rules"].items())
def test_a_rule_is_known_by_the_whole_name_first_and_then_by_a_part(key: str, rule: str | None) -> None:
    assert known_rule(key) == rule


@pytest.mark.parametrize("first", [45, 55])
@pytest.mark.parametrize("rows", [[(0.9, 0.5)], [(0.5, 0.9)], [(0.1, 0.3), (0.2, 0.1)], [(0.1, 0.2), (0.3, 0.1)]])
def test_the_best_is_that_of_all_validations_though_one_moment_has_several(
    rows: list[tuple[float, float]], first: int, tmp_path: Path
) -> None:
    runner = make(*(score for row in rows for score in row), max_epochs=len(rows), work_dir=tmp_path)
    best = runner.register_hook(CheckpointHook(0, save_best="acc"))
    for name, priority in (("one", first), ("two", 50)):
        runner.register_hook(EvalHook([1.0]), priority, name=name)
    runner.fit([1.0])
    assert best.best_score == max(map(max, rows)) and best.best is not None
    assert load(best.best)["hooks"]["CheckpointHook"]["best"]["mark"] == best.best_score
    assert [path.name for path in tmp_path.glob("*.safetensors")] == [best.best.name]


def test_the_best_may_go_elsewhere_and_must_go_somewhere(tmp_path: Path) -> None:
    best_of([1.0], tmp_path / "run", out_dir=tmp_path / "best")
    assert [path.name for path in (tmp_path / "best").iterdir()] == ["best_val_acc_epoch_1.safetensors"]
    runner = make(1.0, hooks=[EvalHook([1.0], save_best="acc")])
    with pytest.raises(TrainingError, match="work_dir"):
        runner.fit([1.0])


def test_numbers_without_names_are_refused() -> None:
    with pytest.raises(TrainingError, match=r"returned a float; return metrics by name, such as {'accuracy': 0.97}$"):
        make(1.0, hooks=[EvalHook([1.0], evaluate=lambda *_: 0.5)]).fit([1.0])


def test_a_validation_that_a_hook_skips_has_no_best(tmp_path: Path) -> None:
    runner = make(0.5, 0.25, max_epochs=2, work_dir=tmp_path)
    hook = runner.register_hook(EvalHook([1.0], save_best="acc"))
    hooks(runner.val_epoch).pre(lambda epoch: Return(None) if epoch == 0 else None)
    runner.fit([1.0])
    assert hook.best_score == 0.5
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["best_val_acc_epoch_2.safetensors"]


def test_a_run_killed_between_two_files_of_one_moment_saves_the_other_once_it_is_resumed(
    tmp_path: Path,
) -> None:
    """The first file lacked the score that the other hook had yet to judge, and the resumed run had another best."""

    def left_by(folder: Path, killed_after: int | None) -> Any:
        best = EvalHook(data(1, seed=5), interval=2, by_epoch=False, save_best="loss", out_dir=folder / "best")
        saving = CheckpointHook(2, by_epoch=False, max_keep=1, save_best="loss")
        runner = run_of("numpy", hooks=[CheckpointLoaderHook(folder, missing_ok=True), saving, best], work_dir=folder)
        saved = count(1)
        hooks(runner.write_checkpoint).post(lambda: 1 / (next(saved) != killed_after) and None)
        with nullcontext() if killed_after is None else suppress(ZeroDivisionError):
            runner.fit(data(3))
        models = {path.relative_to(folder): load(path)["model"] for path in folder.rglob("*.safetensors")}
        return saving.best_score, best.best_score, str(models)

    whole = left_by(tmp_path / "whole", None)
    for killed_after in range(1, 12):
        left_by(tmp_path / f"{killed_after}", killed_after)
        assert left_by(tmp_path / f"{killed_after}", None) == whole


# Early stopping


def stopped(hook: EarlyStoppingHook, scores: list[float]) -> tuple[int, Runner]:
    name = hook.monitor.removeprefix("val_")
    runner = make(*scores, name=name, max_epochs=len(scores), hooks=[hook])
    runner.fit([1.0], [1.0])
    return runner.epoch, runner


def test_early_stopping_without_a_validation_warns_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    make(0.5, max_epochs=2, hooks=[EarlyStoppingHook("val_loss")]).fit([1.0])
    assert "EarlyStoppingHook had no validation to judge; give fit(train, val)" in caplog.text


@pytest.mark.parametrize("case", REFERENCE["early"])
def test_it_stops_where_mmengine_does(case: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    hook = EarlyStoppingHook(**case["options"])
    epochs, runner = stopped(hook, case["scores"])
    assert epochs == case["seen"]
    assert (hook.best_score, hook.wait_count) == (case["best"], case["wait"])
    runner.max_epochs = epochs + 1
    if hook.wait_count >= hook.patience:  # it was said only at the level INFO, which Python hides
        runner.fit([1.0], [1.0])
        assert runner.epoch == epochs and "nothing is trained; to train on, set its wait_count to 0" in caplog.text
    hook.wait_count = 0
    runner.fit([1.0], [1.0])
    assert runner.epoch == epochs + 1 and hook.stop_reason is None


def test_a_score_that_is_better_by_just_the_least_change_has_improved() -> None:
    hook = EarlyStoppingHook("acc", min_delta=0.5, patience=1)
    assert stopped(hook, [0.0, 0.5, 1.0, 1.25, 2.0])[0] == 4


@pytest.mark.parametrize("score", [nan, inf, -inf])
def test_a_score_that_is_not_finite_stops_the_run(score: float) -> None:
    assert stopped(EarlyStoppingHook("acc"), [0.1, score, 0.2])[0] == 2


# Options


@pytest.mark.parametrize(
    ("make_hook", "error", "text"),
    [
        (lambda: EvalHook([1.0], interval=0), HookOptionError, "from 1 up"),
        (lambda: EvalHook([1.0], start=-1), HookOptionError, "from 0 up"),
        (lambda: EvalHook([1.0], save_best="acc", rule="bigger"), HookOptionError, "bigger"),  # type: ignore[arg-type]
        (lambda: EarlyStoppingHook("acc", rule="greatr"), HookOptionError, "did you mean 'greater'"),  # type: ignore[arg-type]
        (lambda: EarlyStoppingHook("acc", patience=0), HookOptionError, "from 1 up"),
        (lambda: EarlyStoppingHook("acc", min_delta=nan), HookOptionError, "min_delta"),
    ],
)
def test_an_option_that_cannot_be_is_refused(make_hook: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make_hook()


# Several ranks


RANKS = """
from aspecthook.training import EvalHook, NanGuardHook, Runner
from aspecthook.training.data import ArrayDataset, DataLoader

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.norm = torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)

    def forward(self, x):
        return self.norm(self.line(x))

def run(**options):
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, **({"max_epochs": 3} | options))

# All data on one rank, and on both
runner = run(work_dir=folder)
val = data(4, 1)
whole = runner.register_hook(EvalHook(val))
evaluate = lambda outputs, batches: {"n": len(batches), "x": float(batches[1][0][0, 0])}
samples = [torch.cat(rows) for rows in zip(*val)]
loader = DataLoader(ArrayDataset(*(one.numpy() for one in samples)), 4, rank=rank, world_size=2)
shared = runner.register_hook(EvalHook(loader, evaluate=evaluate, save_best="loss"), name="shared")
rows = []
hooks(runner.train_epoch).add("post", lambda: rows.append([whole.metrics, shared.metrics]), priority=100)
runner.fit(data(3, 10 + rank))
told["metrics"], told["n"], told["best"] = rows, float(samples[0][1, 0]), shared.best_score
told["files"] = [name for name in os.listdir(folder) if name != "run.json"]  # rank 0 knows

# Rank 1 alone has a loss that is no number
runner = run()
guard = runner.register_hook(NanGuardHook("skip"))
def nan_at_4(result, runner):
    return result * float("nan") if rank == 1 and runner.iter == 4 else None
hooks(runner.forward).post(nan_at_4)
runner.fit(data(3, 10 + rank))
told["skip"] = [guard.skipped, runner.iter, bool(torch.isfinite(runner.model.module.line.weight).all())]
told["weights"] = weights(runner)[:2]
"""


@with_torch
@pytest.mark.stress
def test_two_ranks_have_the_same_numbers_and_decide_alike(tmp_path: Path) -> None:
    first, second = on_two_ranks(RANKS, tmp_path)
    for alike in ("best", "skip", "weights"):
        assert first[alike] == second[alike], alike
    for (whole, shared), (_, other) in zip(first["metrics"], second["metrics"], strict=True):
        assert shared == other
        assert shared.pop("val_n") == 4
        assert shared.pop("val_x") == first["n"]  # the batches of the ranks in turn
        assert shared["val_loss"] == pytest.approx(whole["val_loss"], rel=1e-6)
    assert first["best"] == min(shared["val_loss"] for _, shared in first["metrics"])
    assert len(first["files"]) == 1
    assert first["files"][0].startswith("best_val_loss_epoch_")
    assert first["skip"] == [1, 9, True]
