"""The hooks of mmengine that is installed, on our runner: the facts that its own tests of them state."""

from __future__ import annotations

import json
import logging
import types
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookTypeError
from aspecthook.training import Hook, Runner, TrainingError
from aspecthook.training.checkpoint import load
from aspecthook.training.mmengine._bindings import _DIALECT
from aspecthook.training.mmengine._runner import MMRunner

mm: Any = pytest.importorskip("mmengine.hooks", reason="mmengine is not installed")
torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class Data(list[Any]):
    """Batches, with what mmengine's hooks look for in a loader."""

    def __init__(self, length: int) -> None:
        super().__init__((torch.full((3, 2), float(n)), torch.ones(3, 1)) for n in range(length))
        self.dataset = types.SimpleNamespace(metainfo={"classes": 10})


class Scores(Hook):
    """Validations with these numbers: each a list, of which every validation takes the next."""

    priority = "HIGHEST"

    def __init__(self, **scores: list[float]) -> None:
        self.scores = scores
        self.place = count()

    def after_val_epoch(self, runner: Any) -> None:
        place = next(self.place)
        runner.logs |= {f"val_{name}": numbers[place] for name, numbers in self.scores.items()}


def begun(folder: Path | None, *hooks: Any, **options: Any) -> Runner:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    options = options if "max_iters" in options else {"max_epochs": 2} | options
    work_dir = None if folder is None else folder / "run"
    runner = Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, work_dir=work_dir, **options)
    for hook in hooks:
        runner.register_hook(hook)
    return runner


def hub_of(runner: Runner) -> Any:
    return MMRunner.of(runner).message_hub


def history(runner: Runner, name: str) -> list[float]:
    return [float(value) for value in hub_of(runner).get_scalar(name)._log_history]


def files(folder: Path, pattern: str = "*.pth") -> list[str]:
    return sorted(path.name for path in (folder / "run").glob(pattern))


# Checkpoints

units = pytest.mark.parametrize(
    ("unit", "end"), [("epoch", {"max_epochs": 11}), ("iter", {"max_iters": 11})], ids=["epoch", "iter"]
)


@units
def test_their_checkpoints_are_saved_every_n_and_at_the_end(unit: str, end: Any, tmp_path: Path) -> None:
    runner = begun(tmp_path, mm.CheckpointHook(interval=2, by_epoch=unit == "epoch"), **end)
    runner.fit(Data(1))
    assert files(tmp_path) == sorted(f"{unit}_{number}.pth" for number in (2, 4, 6, 8, 10, 11))
    last = str(tmp_path / "run" / f"{unit}_11.pth")
    assert (tmp_path / "run" / "last_checkpoint").read_text() == last == hub_of(runner).get_info("last_ckpt")


@units
def test_their_checkpoints_count_in_their_own_unit(unit: str, end: Any, tmp_path: Path) -> None:
    begun(tmp_path, mm.CheckpointHook(interval=3, by_epoch=unit != "epoch", save_last=False), **end).fit(Data(1))
    other = "iter" if unit == "epoch" else "epoch"
    assert files(tmp_path) == [f"{other}_{number}.pth" for number in (3, 6, 9)]


@units
def test_their_checkpoints_without_the_optimizer_have_the_model_alone(unit: str, end: Any, tmp_path: Path) -> None:
    whole = mm.CheckpointHook(interval=11, by_epoch=unit == "epoch", filename_tmpl="whole_{}.pth")
    bare = mm.CheckpointHook(interval=11, by_epoch=unit == "epoch", save_optimizer=False)
    runner = begun(tmp_path, whole, bare, **end)
    runner.fit(Data(1))
    assert load(tmp_path / "run" / "whole_11.pth")["optimizer"]
    assert load(tmp_path / "run" / f"{unit}_11.pth")["optimizer"] is None
    with pytest.raises(TrainingError, match="without the optimizer"):
        begun(tmp_path, **end).resume(tmp_path / "run" / f"{unit}_11.pth")
    other = begun(tmp_path, **end)
    other.load_checkpoint(tmp_path / "run" / f"{unit}_11.pth")
    assert torch.equal(other.model.weight, runner.model.weight)


@units
@pytest.mark.parametrize(
    ("options", "expected"),
    [({"max_keep_ckpts": 1}, ["{}_11.pth"]), ({"filename_tmpl": "test_{}.pth", "interval": 11}, ["test_11.pth"])],
)
def test_their_options_of_files_hold(unit: str, end: Any, options: Any, expected: list[str], tmp_path: Path) -> None:
    hook = mm.CheckpointHook(**{"interval": 1, "by_epoch": unit == "epoch"} | options)
    begun(tmp_path, hook, **end).fit(Data(1))
    assert files(tmp_path) == [name.format(unit) for name in expected]


def test_their_other_folder_has_one_for_the_run(tmp_path: Path) -> None:
    begun(tmp_path, mm.CheckpointHook(interval=2, out_dir=str(tmp_path / "out"))).fit(Data(1))
    assert [path.name for path in (tmp_path / "out" / "run").iterdir()] == ["epoch_2.pth"] and files(tmp_path) == []


TRIANGLE = [1 - abs(n - 5) / 11 for n in range(1, 12)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"save_best": "acc"}, {"best_acc_epoch_5.pth"}),
        ({"save_best": "acc", "rule": "less"}, {"best_acc_epoch_11.pth"}),
        ({"save_best": ["acc", "mIoU"]}, {"best_acc_epoch_5.pth", "best_mIoU_epoch_11.pth"}),
        (
            {"save_best": ["acc", "mIoU"], "rule": ["greater", "less"]},
            {"best_acc_epoch_5.pth", "best_mIoU_epoch_1.pth"},
        ),
        ({"save_best": None}, set()),
    ],
)
def test_their_best_checkpoint_is_that_of_the_best_validation(options: Any, expected: set[str], tmp_path: Path) -> None:
    scores = Scores(acc=TRIANGLE, mIoU=[n / 11 for n in range(1, 12)])
    hook = mm.CheckpointHook(interval=20, save_last=False, **options)
    runner = begun(tmp_path, scores, hook, max_epochs=11)
    runner.fit(Data(1), Data(1))
    assert set(files(tmp_path)) == expected
    if options == {"save_best": "acc"}:
        hub = hub_of(runner)
        best = str(tmp_path / "run" / "best_acc_epoch_5.pth")
        assert (hub.get_info("best_score"), hub.get_info("best_ckpt")) == (1, best)


def test_their_best_score_and_kept_files_continue_with_a_resumed_run(tmp_path: Path) -> None:
    """They are in the message hub, which no checkpoint had: the resumed run took a worse score for the best."""

    def hooks(scores: list[float]) -> list[Any]:
        return [
            Scores(acc=scores),
            mm.CheckpointHook(interval=1, max_keep_ckpts=2, save_best="acc"),
            mm.RuntimeInfoHook(),
        ]

    begun(tmp_path, *hooks(TRIANGLE), max_epochs=6).fit(Data(1), Data(1))  # epoch_6 is saved before its validation
    assert files(tmp_path) == ["best_acc_epoch_5.pth", "epoch_5.pth", "epoch_6.pth"]
    again = begun(tmp_path, *hooks(TRIANGLE[5:]), max_epochs=11)
    again.resume(tmp_path / "run" / "epoch_6.pth")
    again.fit(Data(1), Data(1))
    assert files(tmp_path) == ["best_acc_epoch_5.pth", "epoch_10.pth", "epoch_11.pth"]
    assert len(history(again, "train/loss")) == 11


def test_their_warning_of_a_validation_without_numbers_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Nothing(Hook):
        priority = "HIGHEST"

        def after_val_epoch(self, runner: Any) -> None:
            runner.logs = {"loss": 1.0}

    with caplog.at_level(logging.WARNING):
        begun(tmp_path, Nothing(), mm.CheckpointHook(interval=5, save_best="auto")).fit(Data(1), Data(1))
    assert "`metrics` is an empty dict" in caplog.text


# Early stopping


@given(
    st.lists(st.integers(0, 8).map(lambda n: n / 8), min_size=1, max_size=8),
    st.sampled_from(["greater", "less"]),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.25]),
    st.sampled_from([None, 0.75]),
)
def test_their_early_stop_decides_as_it_does_alone(
    scores: list[float], rule: str, patience: int, delta: float, threshold: float | None
) -> None:
    def hook() -> Any:
        return mm.EarlyStoppingHook("acc", rule=rule, min_delta=delta, patience=patience, stopping_threshold=threshold)

    alone, loop = hook(), types.SimpleNamespace(stop_training=False)
    stub = types.SimpleNamespace(train_loop=loop, logger=logging.getLogger(__name__))
    ended = len(scores)
    for place, score in enumerate(scores, 1):
        alone.after_val_epoch(stub, {"acc": score})
        if loop.stop_training:
            ended = place
            break
    runner = begun(None, Scores(acc=scores), hook(), max_epochs=len(scores))
    runner.fit(Data(1), Data(1))
    assert runner.epoch == ended


def test_their_early_stop_warns_of_a_number_that_is_not_there(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="do not include `monitor`"):
        begun(tmp_path, mm.EarlyStoppingHook("acc")).fit(Data(1), Data(1))


# Averages


def test_their_average_is_swapped_in_for_validations_and_tests(tmp_path: Path) -> None:
    ema = mm.EMAHook(momentum=0.5)
    seen: list[tuple[str, bool]] = []

    class Look(Hook):
        def _note(self, name: str) -> None:
            averaged = ema.ema_model.state_dict()["module.weight"]
            seen.append((name, bool((ema.src_model.weight == averaged).all())))

        def before_val_iter(self) -> None:
            self._note("val")

        def before_test_iter(self) -> None:
            self._note("test")

    runner = begun(tmp_path, ema, Look(), max_epochs=2)
    trained: list[Any] = []
    averaged: list[Any] = []
    runner.register_hook(_at("before_val", lambda: trained.append(runner.model.weight.clone()), priority=1))
    runner.register_hook(_at("before_val_iter", lambda: averaged.append(runner.model.weight.clone())))
    runner.register_hook(_at("after_val", lambda: trained.append(runner.model.weight.clone()), priority=99))
    runner.fit(Data(2), Data(1))
    assert [torch.equal(one, two) for one, two in zip(trained[::2], trained[1::2], strict=True)] == [True, True]
    assert not torch.equal(trained[0], averaged[0])
    weight = runner.model.weight.clone()
    runner.register_hook(_at("before_test_iter", lambda: averaged.append(runner.model.weight.clone())))
    runner.test(Data(1))
    assert torch.equal(runner.model.weight, weight) and not torch.equal(averaged[-1], weight)
    assert [name for name, _ in seen] == ["val", "val", "test"]


def _at(name: str, function: Callable[[], object], priority: int = 50) -> Hook:
    kind = type("At", (Hook,), {name: lambda self: (function(), None)[1], "priority": priority})
    made: Hook = kind()
    return made


def test_their_average_counts_steps_and_is_in_the_checkpoint(tmp_path: Path) -> None:
    begun(tmp_path, mm.EMAHook(), mm.CheckpointHook(interval=1)).fit(Data(4))
    assert int(load(tmp_path / "run" / "epoch_2.pth")["ema_state_dict"]["steps"]) == 8


@pytest.mark.parametrize(
    ("begin", "end", "unit"),
    [({"begin_epoch": 5}, {"max_epochs": 6}, "epoch"), ({"begin_iter": 5}, {"max_iters": 6}, "iter")],
)
def test_their_average_is_a_copy_of_the_model_until_it_begins(begin: Any, end: Any, unit: str, tmp_path: Path) -> None:
    checkpoints = mm.CheckpointHook(interval=1, by_epoch=unit == "epoch")
    begun(tmp_path, mm.EMAHook(momentum=0.5, **begin), checkpoints, **end).fit(Data(2))
    for number, same in ((4, True), (6, False)):
        saved = load(tmp_path / "run" / f"{unit}_{number}.pth")
        assert bool((saved["model"]["weight"] == saved["ema_state_dict"]["module.weight"]).all()) is same


@pytest.mark.parametrize(
    ("begin", "end"), [({"begin_epoch": 3}, {"max_epochs": 2}), ({"begin_iter": 3}, {"max_iters": 2})]
)
def test_their_average_that_would_begin_after_the_end_is_refused(begin: Any, end: Any, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=f"self.{next(iter(begin))}"):
        begun(tmp_path, mm.EMAHook(**begin), **end).fit(Data(1))


def test_their_average_starts_from_a_checkpoint_that_has_none(tmp_path: Path) -> None:
    begun(tmp_path, mm.CheckpointHook(interval=2)).fit(Data(2))
    average = mm.EMAHook()
    runner = begun(tmp_path, average)
    runner.load_checkpoint(tmp_path / "run" / "epoch_2.pth")
    loaded, started = runner.model.weight.clone(), []
    runner.register_hook(_at("before_train", lambda: started.append(average.ema_model.module.weight.clone())))
    runner.fit(Data(2))
    assert torch.equal(started[0], loaded) and not torch.equal(runner.model.weight, loaded)


# Time, and what is known at run time


def test_their_times_are_of_each_iteration_and_of_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr("mmengine.hooks.iter_timer_hook.time", types.SimpleNamespace(time=lambda: next(ticks)))
    etas: list[float] = []
    runner = begun(tmp_path, mm.IterTimerHook())
    for stage in ("after_train_iter", "after_val_iter", "after_test_iter"):
        runner.register_hook(_at(stage, lambda: etas.append(hub_of(runner).get_info("eta")), priority=99))
    runner.fit(Data(4), Data(2))
    runner.test(Data(3))
    # Each iteration takes two ticks: one before it, and one after it.
    assert history(runner, "train/time") == [2] * 8 and history(runner, "train/data_time") == [1] * 8
    assert etas == [14, 12, 10, 8, 2, 0, 6, 4, 2, 0, 2, 0, 4, 2, 0]


def test_their_notes_are_of_the_run_its_rates_losses_and_metrics(tmp_path: Path) -> None:
    runner = begun(tmp_path, mm.RuntimeInfoHook(), seed=4, meta={"lr": 0.01})
    runner.fit(Data(4), Data(1))
    runner.test(Data(1))
    hub = hub_of(runner)
    wanted = {"epoch": 1, "iter": 7, "max_epochs": 2, "max_iters": 8, "seed": 4, "dataset_meta": {"classes": 10}}
    assert {name: hub.get_info(name) for name in wanted} == wanted
    assert "lr = 0.01" in hub.get_info("cfg") and hub.get_info("experiment_name") == "run"
    assert history(runner, "train/lr") == [pytest.approx(0.01)] * 8
    assert len(history(runner, "train/loss")) == 8 and history(runner, "train/loss")[-1] == runner.logs["loss"]
    assert history(runner, "val/loss")[-1] == runner.logs["val_loss"]
    assert history(runner, "test/loss") == [runner.logs["test_loss"]]


def test_their_notes_need_no_dataset_and_count_a_run_by_iterations(tmp_path: Path) -> None:
    runner = begun(tmp_path, mm.RuntimeInfoHook(), max_iters=3)
    runner.fit([*Data(2)])
    assert [hub_of(runner).get_info(name) for name in ("iter", "max_iters", "max_epochs")] == [2, 3, 1]
    assert hub_of(runner).get_info("dataset_meta") is None


# Logs


def lines_of(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(what)]


@pytest.mark.parametrize(
    ("options", "length", "places"),
    [
        ({"interval": 2}, 5, [2, 4]),
        ({"interval": 2, "ignore_last": False}, 5, [2, 4, 5]),
        ({"interval": 10}, 5, [5]),
        ({"interval": 5}, 5, [5]),
    ],
)
def test_their_logger_writes_lines_and_scalars(
    options: Any, length: int, places: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = (mm.RuntimeInfoHook(), mm.IterTimerHook(), mm.LoggerHook(**options))
    runner = begun(tmp_path, *hooks, max_epochs=1)
    with caplog.at_level(logging.INFO):
        runner.fit(Data(length), Data(2))
    lines = lines_of(caplog, "Epoch(train) ")
    assert [line.split("  ")[0] for line in lines] == [f"Epoch(train) [1][{place}/{length}]" for place in places]
    assert all("lr: 1.0000e-02" in line and "loss: " in line for line in lines)
    assert lines_of(caplog, "Exp name: run") and lines_of(caplog, "Epoch(val) [1][2/2]")
    rows = [json.loads(row) for row in next((tmp_path / "run").rglob("scalars.json")).read_text().splitlines()]
    assert [row["step"] for row in rows] == [*places, 1]
    assert rows[-1]["loss"] == pytest.approx(runner.logs["val_loss"])


@pytest.mark.parametrize(("by_epoch", "step"), [(True, 1), (False, 3)])
def test_their_logger_counts_validations_as_asked(by_epoch: bool, step: int, tmp_path: Path) -> None:
    hooks = (mm.RuntimeInfoHook(), mm.IterTimerHook(), mm.LoggerHook(log_metric_by_epoch=by_epoch, interval=9))
    begun(tmp_path, *hooks, max_epochs=1).fit(Data(3), Data(1))
    rows = [json.loads(row) for row in next((tmp_path / "run").rglob("scalars.json")).read_text().splitlines()]
    assert [row["step"] for row in rows] == [3, step]


def test_their_logger_writes_the_metrics_of_a_test(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logger = mm.LoggerHook(interval=2)
    runner = begun(tmp_path, mm.RuntimeInfoHook(), mm.IterTimerHook(), logger, max_epochs=1)
    with caplog.at_level(logging.INFO):
        runner.fit(Data(1))
        runner.test(Data(2))
    assert len(lines_of(caplog, "Epoch(test) [2/2]")) == 2
    written = json.loads((Path(MMRunner.of(runner).log_dir) / logger.json_log_path).read_text())
    assert written["loss"] == pytest.approx(runner.logs["test_loss"])


@pytest.mark.parametrize("keep", [True, False])
def test_their_logger_copies_or_moves_its_files_at_the_end(keep: bool, tmp_path: Path) -> None:
    logger = mm.LoggerHook(interval=1, out_dir=str(tmp_path / "out"), keep_local=keep)
    begun(tmp_path, mm.RuntimeInfoHook(), mm.IterTimerHook(), logger).fit(Data(1))
    there = sorted(path.name for path in (tmp_path / "out" / "run").rglob("*.json"))
    here = sorted(path.name for path in (tmp_path / "run").rglob("*/*.json"))
    assert len(there) == 2 and here == (there if keep else [])


# The rest


def test_their_cache_is_emptied_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    monkeypatch.setattr("mmengine.hooks.empty_cache_hook.is_cuda_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: next(calls))
    begun(tmp_path, mm.EmptyCacheHook(before_epoch=True, after_epoch=True, after_iter=True)).fit(Data(3), Data(1))
    assert next(calls) == 2 * (2 + 3) + 2 * (2 + 1)


def test_their_profiler_writes_a_trace_and_checks_its_length(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    begun(tmp_path, mm.ProfilerHook(profile_times=1, json_trace_path=str(trace))).fit(Data(2))
    assert json.loads(trace.read_text())["traceEvents"]
    with pytest.raises(ValueError, match="profile_times"):
        begun(tmp_path, mm.ProfilerHook(by_epoch=False, profile_times=9)).fit(Data(2))


def test_their_buffers_and_schedules_are_left_alone_where_there_is_nothing_to_do(tmp_path: Path) -> None:
    plain, other = begun(tmp_path), begun(tmp_path, mm.SyncBuffersHook(), mm.ParamSchedulerHook())
    for runner in (plain, other):
        runner.fit(Data(2))
    assert torch.equal(plain.model.weight, other.model.weight) and other.current_lr() == [0.01]


@pytest.mark.parametrize(
    ("hook", "error", "message"),
    [
        (lambda: mm.NaiveVisualizationHook(), HookTypeError, "NaiveVisualizationHook cannot run here: it draws"),
        (lambda: mm.PrepareTTAHook({}), HookTypeError, "PrepareTTAHook cannot run here: it replaces the model"),
        (lambda: mm.CheckpointHook(published_keys=["meta"]), HookOptionError, r"CheckpointHook\(published_keys=...\)"),
        (lambda: mm.CheckpointHook(out_dir="s3://bucket"), HookOptionError, "elsewhere than on a disk"),
        (lambda: mm.CheckpointHook(backend_args={"backend": "petrel"}), HookOptionError, "elsewhere than on a disk"),
    ],
)
def test_their_hooks_that_cannot_work_here_are_refused_when_registered(
    hook: Any, error: Any, message: str, tmp_path: Path
) -> None:
    runner = begun(tmp_path)
    with pytest.raises(error, match=message) as caught:
        runner.register_hook(hook())
    assert "\n" not in str(caught.value) and runner.hooks == []


@pytest.mark.parametrize(
    "name", sorted(name for name in vars(mm) if name.endswith("Hook") and name != "NPUProfilerHook")
)
def test_their_hooks_are_called_at_the_stages_that_mmengine_calls_them_at(name: str) -> None:
    hook = getattr(mm, name)(*{"EarlyStoppingHook": ["acc"], "PrepareTTAHook": [{}]}.get(name, []))
    called = [method for method in _DIALECT.methods(hook) if hasattr(mm.Hook, method)]
    assert sorted(called) == sorted(hook.get_triggered_stages())
