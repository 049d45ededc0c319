"""What a run's numbers were, kept in bounded memory and over resumes; and the picture of them."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from importlib.util import find_spec
from math import exp, inf, isfinite, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookTypeError, Return, hooks
from aspecthook.training import HOOKS, EvalHook, Hook, JsonLoggerHook, LrUpdaterHook, Runner, TrainingError
from aspecthook.training.hooks._hook import load_hooks
from aspecthook.training.logging._numbers import number_of, numbers_of, short_text
from aspecthook.training.logging._rows import value_of
from aspecthook.training.report._base import CurvesHook, _extremes
from aspecthook.training.report._chart_layout import axis_of, panels_of, span_of
from aspecthook.training.report._plots import PlotHook
from aspecthook.training.report._record import Curves, Series
from tests.training.kit import Loss, Optimizer, data, registered, run_of

needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")

PNG = b"\x89PNG\r\n\x1a\n"


class Model:
    """Has mm's protocol: the loss of a batch is the batch; a validation gives it too, and the metrics named."""

    def __init__(self, *metrics: str, train: tuple[str, ...] = ()) -> None:
        self.metrics, self.train_metrics = metrics, train

    def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        made = {"loss": float(batch), **dict.fromkeys(self.train_metrics, batch / 2)}
        return {"loss": Loss(batch), "log_vars": made, "num_samples": 1}

    def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        return {"log_vars": {"loss": batch, **dict.fromkeys(self.metrics, batch / 4)}, "num_samples": 1}


BATCHES = [exp(-place / 3) for place in range(6)]


def make(work_dir: Path | None, *hooked: Hook, model: Any = None, optimizer: Any = None, **options: Any) -> Runner:
    options = {"max_epochs": 3} | options
    runner = Runner(model or Model("accuracy"), optimizer=optimizer or Optimizer(), work_dir=work_dir, **options)
    return registered(runner, hooked)


class Recorder(CurvesHook):
    """Writes how often it was written, and how the run stood."""

    def __init__(self, interval: int = 1, *, by_epoch: bool = True, share: float = 1, path: str = "written") -> None:
        super().__init__(interval, by_epoch=by_epoch, share=share, path=path)
        self.written: list[tuple[str, int]] = []

    def content(self, runner: Runner) -> bytes:
        self.written.append((self.end, self.curves.at))
        return repr(self.written).encode()


# Series


NUMBERS = st.lists(st.one_of(st.floats(-1e6, 1e6), st.sampled_from([nan, inf, -inf])), max_size=200)


@given(NUMBERS, st.integers(2, 12))
def test_a_series_of_bounded_length_knows_the_first_the_mean_and_the_extremes(values: list[float], most: int) -> None:
    series = Series(most)
    for at, value in enumerate(values, 1):
        series.add(at, value)
    windows = series.windows
    assert len(windows) <= most
    assert [at for window in windows for at in (window.begin, window.end)] == sorted(
        at for window in windows for at in (window.begin, window.end)
    )
    assert sum(window.size for window in windows) == len(values)
    good = [value for value in values if isfinite(value)]
    assert sum(window.count for window in windows) == len(good) and series.bad == len(values) - len(good)
    if good:
        assert min(window.low for window in windows) == min(good)
        assert max(window.high for window in windows) == max(good)
        total = sum(window.mean * window.count for window in windows if window.count)
        assert total == pytest.approx(sum(good), abs=1e-6 * sum(map(abs, good)) + 1e-9)
    if values:
        assert (windows[0].begin, windows[0].end, windows[0].size) == (1, 1, 1)
        assert windows[-1].end == len(values)
        assert series.last == values[-1] or (isnan(series.last) and isnan(values[-1]))


def test_a_long_run_is_kept_in_little() -> None:
    curves = Curves()
    for at in range(1, 60_001):
        curves.train(at, (at - 1) // 20 + 1, {"loss": float(at % 977), f"odd_{at % 1000}": 1.0})
        if at % 20 == 0:
            curves.validate(at, at // 20, {"val_accuracy": float(at == 31_400) - float(at == 31_460)})
    assert len(curves.series) == 200
    assert max(len(series.windows) for series in curves.series.values()) <= 400
    assert len(curves.rows) <= 500 and curves.is_thinned
    assert (curves.rows[0].epoch, curves.rows[-1].epoch) == (1, 3000)
    best, worst = curves.best("val_accuracy", "greater"), curves.best("val_accuracy", "less")
    assert best is not None and (best.value, best.row.epoch) == (1.0, 1570)
    assert worst is not None and (worst.value, worst.row.epoch) == (-1.0, 1573)


# What is noted


def test_losses_rates_and_validations_are_recorded_at_their_iterations(tmp_path: Path) -> None:
    seen: list[float] = []
    recorder = Recorder()
    runner = make(tmp_path, LrUpdaterHook("poly", min_lr=0.0, by_epoch=False), recorder)
    hooks(runner.forward).pre(lambda optimizer: seen.append(optimizer.param_groups[0]["lr"]))
    runner.fit(BATCHES, [1.0, 3.0])
    curves = recorder.curves
    assert [window.mean for window in curves.series["loss"].windows] == BATCHES * 3
    assert [window.mean for window in curves.series["lr"].windows] == seen and len(set(seen)) == 18
    assert [(one.begin, one.mean) for one in curves.series["val_accuracy"].windows] == [(6, 0.5), (12, 0.5), (18, 0.5)]
    assert [(row.epoch, row.iter) for row in curves.rows] == [(1, 6), (2, 12), (3, 18)]
    assert curves.rows[1].value("loss") == pytest.approx(sum(BATCHES) / 6) and curves.rows[1].value("val_loss") == 2.0


def test_a_skipped_iteration_is_not_recorded(tmp_path: Path) -> None:
    recorder = Recorder()
    runner = make(tmp_path, recorder, max_epochs=1)
    hooks(runner.train_iter).pre(lambda runner: Return(None) if runner.iter in (0, 3) else None)
    runner.fit(BATCHES)
    assert [window.begin for window in recorder.curves.series["loss"].windows] == [2, 3, 5, 6]


@pytest.mark.parametrize("options", [{"max_epochs": 2}, {"max_epochs": None, "max_iters": 12}])
def test_a_validation_inside_an_epoch_ends_a_row_and_the_iteration_is_of_it(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    recorder = Recorder()
    runner = make(tmp_path, EvalHook([2.0], start=0, interval=4, by_epoch=False), recorder, **options)
    runner.fit(BATCHES)
    rows = [(row.iter, row.value("val_loss")) for row in recorder.curves.rows]
    assert rows == [(4, 2.0), (6, None), (8, 2.0), (12, 2.0)]
    assert recorder.curves.rows[0].value("loss") == pytest.approx(sum(BATCHES[:4]) / 4)


def test_a_validation_before_training_is_a_row_of_its_own(tmp_path: Path) -> None:
    recorder = Recorder()
    runner = make(tmp_path, EvalHook([2.0], start=0), recorder, max_epochs=1)
    runner.fit(BATCHES)
    assert [(row.epoch, row.iter, row.value("val_loss")) for row in recorder.curves.rows] == [(0, 0, 2.0), (1, 6, 2.0)]


def test_only_validations_in_the_run_count_and_tests_after_it_too(tmp_path: Path) -> None:
    recorder = Recorder()
    runner = make(tmp_path, recorder, max_epochs=1)
    runner.fit(BATCHES, [1.0])
    runner.validate([9.0])
    runner.test([8.0])
    final = recorder.curves.final("val_loss"), recorder.curves.final("test_loss")
    assert [one and one.value for one in final] == [1.0, 8.0]
    assert len(recorder.curves.rows) == 1


def test_only_numbers_are_recorded_those_of_libraries_too() -> None:
    logs = {"loss": np.float32(0.5), "count": 3, "flag": True, "name": "x", "val_loss": 1.0, "many": np.ones(2)}
    assert numbers_of(logs, "train") == {"loss": 0.5, "count": 3}
    assert numbers_of(logs, "val") == {"val_loss": 1.0}


@pytest.mark.parametrize(
    "value",
    [3, 0.5, np.float32(0.5), np.int64(3), np.ones((1, 1)), True, np.True_, np.array(True), None, np.ones(2), 1j],
)
def test_log_rows_and_curves_agree_on_what_is_a_number(value: Any) -> None:
    assert value_of(value) == number_of(value) == numbers_of({"name": value}, "train").get("name")
    assert (number_of(value) is None) == (value is None or np.asarray(value).dtype.kind in "bc" or np.size(value) > 1)


@pytest.mark.torch
def test_numbers_of_pytorch_are_numbers() -> None:
    torch = pytest.importorskip("torch")
    logs = {"loss": torch.tensor(0.5), "one": torch.ones(1), "many": torch.ones(2), "flag": torch.tensor(True)}
    assert numbers_of(logs, "train") == {"loss": 0.5, "one": 1.0}


def test_of_several_rates_the_first_the_lowest_and_the_highest_are_recorded() -> None:
    optimizer = Optimizer({"lr": 0.2}, {"lr": 0.1}, {"lr": 0.3})
    optimizer.param_groups[0]["betas"] = (0.9, 0.99)
    assert _extremes(optimizer) == {"lr": 0.2, "lr (lowest)": 0.1, "lr (highest)": 0.3, "momentum": 0.9}


def test_a_mean_with_nan_is_nan_and_never_the_best(tmp_path: Path) -> None:
    recorder = Recorder()
    runner = make(tmp_path, recorder, max_epochs=2)
    hooks(runner.forward).post(lambda runner: runner.logs.update(loss=nan) if runner.iter == 2 else None)
    runner.fit(BATCHES)
    first, second = recorder.curves.rows
    assert isnan(first.value("loss") or 0.0)
    best = recorder.curves.best("loss", "less")
    assert best is not None and best.row is second
    assert recorder.curves.series["loss"].bad == 1


# When it is written


def test_the_file_is_written_after_the_validation_of_an_epoch_and_at_the_end(tmp_path: Path) -> None:
    recorder, seen = Recorder(2), list[bool]()
    runner = make(tmp_path, recorder, max_epochs=5)
    made = recorder.content

    def content(runner: Runner) -> bytes:
        seen.append(recorder.curves.rows[-1].value("val_loss") is not None)
        return made(runner)

    recorder.content = content  # type: ignore[method-assign]
    runner.fit(BATCHES, [1.0])
    assert recorder.written == [("running", 12), ("running", 24), ("done", 30)] and all(seen)
    assert (tmp_path / "written").read_text() == repr(recorder.written)


@pytest.mark.parametrize("workflow", [[("train", 1)], [("train", 2), ("val", 1)]])
def test_the_file_is_written_after_the_checkpoint_of_an_epoch_and_before_the_next_one(
    tmp_path: Path, workflow: list[tuple[str, int]]
) -> None:
    order: list[str] = []

    class Order(Hook):
        priority = "HIGHEST"

        def before_train_epoch(self, epoch: int) -> None:
            order.append(f"epoch {epoch + 1}")

        def after_train_epoch(self, runner: Runner) -> None:
            runner.after_stage(lambda: order.append("saved"))

    recorder = Recorder()
    made = recorder.content
    recorder.content = lambda runner: (order.append("written"), made(runner))[1]  # type: ignore[method-assign]
    make(tmp_path, Order(), recorder, workflow=workflow).fit(BATCHES, [1.0] if len(workflow) > 1 else None)
    if len(workflow) == 1:
        expected = ["epoch 1", "saved", "written", "epoch 2", "saved", "written", "epoch 3", "saved", "written"]
    else:  # only the second one is validated
        expected = ["epoch 1", "saved", "epoch 2", "written", "saved", "written", "epoch 3", "saved", "written"]
    assert order == expected


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({"interval": 3, "by_epoch": False}, [3, 6, 9, 12, 15, 18]),
        ({"interval": 4, "by_epoch": False}, [4, 8, 12, 16, 18]),
        ({"interval": 0}, [18]),
        ({"share": 0}, [18]),
        ({"share": 1e-9}, [18]),
    ],
)
def test_intervals_count_iterations_too_and_a_file_that_would_take_too_long_is_skipped(
    tmp_path: Path, options: dict[str, Any], written: list[int]
) -> None:
    recorder = Recorder(**options)
    make(tmp_path, recorder).fit(BATCHES)
    assert [at for _, at in recorder.written] == written


class Stop(Hook):
    def after_train_iter(self, runner: Runner, iter: int) -> None:
        if iter == 7:
            runner.request_stop()


def fail(error: BaseException) -> Any:
    def hook(iter: int) -> None:
        if iter == 7:
            raise error

    return hook


@pytest.mark.parametrize(
    ("error", "end"), [(ValueError("no"), "failed"), (KeyboardInterrupt(), "interrupted"), (SystemExit(3), "failed")]
)
def test_the_file_is_written_when_the_run_fails_and_the_error_is_unchanged(
    tmp_path: Path, error: BaseException, end: str
) -> None:
    recorder = Recorder(0)
    runner = make(tmp_path, recorder)
    hooks(runner.forward).pre(fail(error))
    with pytest.raises(type(error)) as caught:
        runner.fit(BATCHES)
    assert caught.value is error and error.__context__ is None
    assert recorder.written == [(end, 7)]
    assert recorder.error is None  # which would keep all that its frames hold


def test_a_run_that_ends_early_counts_as_stopped(tmp_path: Path) -> None:
    recorder, whole = Recorder(0), Recorder(0)
    make(tmp_path, Stop(), recorder).fit(BATCHES)
    make(tmp_path, Stop(), whole, max_epochs=None, max_iters=8).fit(BATCHES)
    assert (recorder.written, whole.written) == ([("stopped", 8)], [("done", 8)])


def test_a_full_disk_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    recorder = Recorder(0)
    monkeypatch.setattr("aspecthook.training.report._base.put", full)
    runner = make(tmp_path, recorder)
    runner.fit(BATCHES)
    assert runner.iter == 18 and "written could not be written: No space left on device" in caplog.text


def test_an_error_while_drawing_does_not_end_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(0)
    recorder.content = lambda runner: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    runner = make(tmp_path, recorder)
    runner.fit(BATCHES)
    assert runner.iter == 18 and "division by zero" in caplog.text


def test_another_rank_keeps_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    recorder = Recorder()
    runner = make(tmp_path, recorder)
    runner.fit(BATCHES, [1.0])
    runner.test([1.0])
    assert not recorder.written and not recorder.curves.series and not any(tmp_path.iterdir())


def test_a_run_without_a_folder_is_refused_before_it_begins(tmp_path: Path) -> None:
    runner = make(None, Recorder())
    with pytest.raises(TrainingError, match=r"no folder for its files; give Runner\(\.\.\., work_dir=\.\.\.\)"):
        runner.fit(BATCHES)
    assert runner.iter == 0
    absolute = Recorder(path=str(tmp_path / "deep" / "written"))
    make(None, absolute).fit(BATCHES)
    assert (tmp_path / "deep" / "written").exists()


def test_impossible_options_are_refused() -> None:
    with pytest.raises(HookOptionError, match="interval=-1"):
        PlotHook(-1)
    with pytest.raises(HookOptionError, match="share=2; give a number from 0 to 1"):
        PlotHook(share=2)
    with pytest.raises(HookTypeError, match="path=3 is not a path"):
        PlotHook(path=3)  # type: ignore[arg-type]
    with pytest.raises(HookOptionError, match="dpi=0"):
        PlotHook(dpi=0)


# Beside the logs


def test_the_means_of_an_epoch_are_those_of_the_logs(tmp_path: Path) -> None:
    """They counted each batch alike, and the logs each sample: the loss of an epoch was another one in the report."""
    log = JsonLoggerHook(interval=0, ignore_last=False)
    recorder = Recorder()
    (whole,) = data(1)
    runner = run_of("numpy", hooks=[recorder, log], work_dir=tmp_path)
    runner.fit([*data(2, seed=5), tuple(part[:2] for part in whole)])
    logged = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row.value("loss") for row in recorder.curves.rows] == pytest.approx(logged)


# Over resumes


class SaveAt(Hook):
    def __init__(self, at: int, path: Path) -> None:
        self.at, self.path = at, path

    def after_train_iter(self, runner: Runner, iter: int) -> None:
        if iter == self.at:
            runner.save_checkpoint(self.path)
            runner.request_stop()


def told(curves: Curves) -> dict[str, Any]:
    """Return what must not depend on where a run was ended."""
    state = curves.state_dict()
    state["rows"] = [(epoch, at, closed, numbers) for epoch, at, _, _, closed, numbers in state["rows"]]
    return {name: value for name, value in state.items() if name not in ("seconds", "begun", "runs")}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("options", [{}, {"accumulate": 4}, {"max_epochs": None, "max_iters": 17}])
@pytest.mark.parametrize("at", [0, 3, 5, 8, 11])
def test_a_resumed_run_has_the_curves_of_one_that_was_never_ended(
    tmp_path: Path, at: int, options: dict[str, Any]
) -> None:
    def run(folder: str, *hooked: Hook) -> tuple[Runner, Recorder]:
        recorder = Recorder()
        eval_hook = EvalHook([2.0, 3.0], interval=4, by_epoch=False)
        return make(tmp_path / folder, eval_hook, *hooked, recorder, Recorder(path="second"), **options), recorder

    runner, whole = run("whole")
    runner.fit(BATCHES)
    runner, _ = run("ended", SaveAt(at, tmp_path / "saved.ckpt"))
    runner.fit(BATCHES)
    runner, resumed = run("resumed")
    runner.resume(tmp_path / "saved.ckpt")
    runner.fit(BATCHES)
    assert same(told(resumed.curves), told(whole.curves))
    assert (resumed.curves.runs, whole.curves.runs) == (2, 1)


def test_numbers_after_the_checkpoint_are_dropped_on_resume(tmp_path: Path) -> None:
    recorder = Recorder()
    runner = make(tmp_path, SaveAt(7, tmp_path / "saved.ckpt"))
    runner.fit(BATCHES)
    runner.register_hook(recorder)
    runner.fit(BATCHES)
    assert recorder.curves.at == 18
    runner.resume(tmp_path / "saved.ckpt")
    runner.fit([2.0] * 6)
    windows = recorder.curves.series["loss"].windows
    assert [(window.begin, window.mean) for window in windows] == [(at, 2.0) for at in range(9, 19)]
    assert [(row.iter, row.value("loss")) for row in recorder.curves.rows] == [(12, 2.0), (18, 2.0)]


def test_two_hooks_of_a_run_keep_one_record(tmp_path: Path) -> None:
    first, second = Recorder(), Recorder(path="second")
    runner = make(tmp_path, first, second)
    runner.fit(BATCHES)
    assert first.curves is second.curves and first.curves.series["loss"].windows[-1].end == 18
    assert second.state_dict() == {"curves": None} and first.state_dict()["curves"] is not None


def test_a_second_fit_continues_the_curves(tmp_path: Path) -> None:
    recorder = Recorder(0)
    runner = make(tmp_path, recorder, max_epochs=1)
    runner.fit(BATCHES)
    runner.max_epochs = 2
    runner.fit(BATCHES)
    assert [window.begin for window in recorder.curves.series["loss"].windows] == list(range(1, 13))
    assert recorder.written == [("done", 6), ("done", 12)]


# What is drawn together


def test_a_loss_is_drawn_with_that_of_its_validation_and_rates_come_last() -> None:
    curves = Curves()
    for at in range(1, 4):
        numbers = {
            "time": 0.1,
            "lr": 0.1,
            "lr (lowest)": 0.05,
            "momentum": 0.9,
            "loss_cls": 1.0,
            "f1": 0.5,
            "loss": 1 / at,
        }
        curves.train(at, 1, numbers)
    curves.validate(3, 1, {"val_f1": 0.4, "val_loss": 0.7, "val_top1": 0.1})
    panels = panels_of(curves, {"f1": "greater"})
    assert [(panel.title, [line.label for line in panel.lines]) for panel in panels] == [
        ("loss", ["train", "val"]),
        ("f1", ["train", "val"]),
        ("top1", ["val"]),
        ("loss_cls", ["train"]),
        ("lr", ["first", "lowest"]),
        ("time", ["train"]),
    ]
    assert [line.rule for panel in panels[:3] for line in panel.lines] == [
        "less",
        "less",
        "greater",
        "greater",
        "greater",
    ]
    assert panels[-1].unit == "s"


def test_the_axis_is_of_epochs_once_there_are_two() -> None:
    curves = Curves()
    for at in range(1, 12):
        curves.train(at, 1, {"loss": 1.0})
    assert axis_of(curves, 6).word == axis_of(curves, None).word == "iteration"
    curves.train(12, 2, {"loss": 1.0})
    axis = axis_of(curves, 6)
    assert (axis.word, axis.at(9)) == ("epoch", 1.5)


@given(st.lists(st.floats(-1e299, 1e299), min_size=1, max_size=20), st.sampled_from(["loss", "accuracy"]))
@settings(max_examples=200)
def test_the_y_axis_includes_the_numbers(values: list[float], name: str) -> None:
    curves = Curves()
    for at, value in enumerate(values, 1):
        curves.train(at, 1, {name: value})
    (panel,) = panels_of(curves, {})
    low, high = span_of(panel)
    means = [window.mean for window in panel.lines[0].windows]
    assert isfinite(low) and isfinite(high) and low < high
    assert low <= min(means) and max(means) <= high


def test_numbers_are_shown_with_what_can_be_read_of_them() -> None:
    assert [short_text(one) for one in (0.1 + 0.2, 123456.7, 1e-7, -inf, 12)] == [
        "0.3",
        "123,457",
        "1e-07",
        "-inf",
        "12",
    ]


# The picture


HOSTILE = ("<script>alert(1)</script>", r"a$\frac{$", "{{ 7 * 7 }}", "_hidden", "\u6f22 \U0001f600", "x" * 300, "%s")


@needs_matplotlib
def test_the_picture_is_drawn_as_the_run_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_hooks()
    runner = make(tmp_path, model=Model("accuracy", train=("accuracy",)))
    hook = runner.register_hook({"type": "PlotHook", "dpi": 40})
    runner.fit(BATCHES, [1.0])
    assert type(hook) is HOOKS["PlotHook"]
    first = (tmp_path / "curves.png").read_bytes()
    assert first.startswith(PNG) and not caplog.records
    assert [path.name for path in tmp_path.iterdir() if path.name != "run.json"] == ["curves.png"]


@needs_matplotlib
@pytest.mark.parametrize("case", ["hostile", "nan", "fails at once", "one iteration", "infinite", "many"])
def test_nothing_in_the_numbers_spoils_the_picture(tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture) -> None:
    names = HOSTILE if case == "hostile" else tuple(f"metric {number}" for number in range(40 * (case == "many")))
    runner = make(tmp_path, PlotHook(dpi=30), model=Model(*names, train=names), max_epochs=1)
    if case == "fails at once":
        hooks(runner.forward).pre(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runner.fit(BATCHES)
    else:
        value = {"nan": [nan] * 4, "infinite": [1e308, -1e308, inf, 0.0], "one iteration": [1.0]}.get(case, BATCHES)
        runner.fit(value, value[:1])
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG) and not caplog.records


@needs_matplotlib
def test_nothing_global_of_matplotlib_is_touched(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from tests.training.report.test_plots import BATCHES, PlotHook, make
import matplotlib
before = matplotlib.rcParams.copy()  # a dict of them would ask for the backend, and load pyplot
make(Path({str(tmp_path)!r}), PlotHook()).fit(BATCHES)
assert matplotlib.rcParams.copy() == before
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
    assert (tmp_path / "curves.png").exists()


def test_without_matplotlib_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aspecthook.training.report._base.find_spec", lambda name: None)
    with pytest.raises(TrainingError, match=r"pip install 'aspecthook\[train\]'"):
        PlotHook()


def test_importing_the_module_does_not_import_matplotlib() -> None:
    names = "import sys, aspecthook.training.report._plots, aspecthook.training.report._page"
    code = f"{names}; print('matplotlib' in sys.modules, 'jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
