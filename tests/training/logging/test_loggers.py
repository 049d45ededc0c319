"""What is logged, and where: the rows, the files they go to, and that a kill or a full disk does no harm to either."""

from __future__ import annotations

import csv
import importlib.util
import json
import logging
import os
import re
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from math import inf, isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookTypeError, Return, hooks
from aspecthook.training import (
    EvalHook,
    Hook,
    LrUpdaterHook,
    PlotHook,
    ProgressHook,
    ReportHook,
    Runner,
    TrainingError,
)
from aspecthook.training.logging._files import CsvLoggerHook, JsonLoggerHook, TensorboardLoggerHook, TextLoggerHook
from aspecthook.training.logging._loggers import IterTimerHook, LoggerHook, Row
from tests.training.kit import Clock, Loss, Optimizer, registered

FILES = (TextLoggerHook, JsonLoggerHook, CsvLoggerHook)


class Model:
    """Has mm's protocol: what it logs for each iteration of the run is given."""

    def __init__(self, rows: Callable[[int], dict[str, Any]], scores: Sequence[float] = (0.5,)) -> None:
        self.rows, self.scores = rows, scores
        self.runner: Any = None

    def train_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
        return {"loss": Loss(1.0), "num_samples": 1, **self.rows(self.runner.iter)}

    def val_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
        return {"log_vars": {"acc": self.scores[self.runner.inner_iter % len(self.scores)]}, "num_samples": batch}


def logged(iter: int) -> dict[str, Any]:
    """What mmcv was given too: see `test_the_rows_are_those_of_mmcv`."""
    value = (7 * iter * iter + 3 * iter) % 23 / 8 + 0.125
    return {"log_vars": {"loss": value, "acc": value / 4}, "num_samples": 1 + (5 * iter) % 4}


def make(rows: Callable[[int], dict[str, Any]] = logged, *hooks: Any, **options: Any) -> Runner:
    model = Model(rows, options.pop("scores", (0.5,)))
    optimizer = options.pop("optimizer", None) or Optimizer()
    runner = Runner(model, optimizer=optimizer, **({} if "max_iters" in options else {"max_epochs": 2}) | options)
    model.runner = runner
    return registered(runner, hooks)


def rows_of(runner: Runner, train: Any, val: Any = None, **options: Any) -> list[dict[str, Any]]:
    rows: list[Row] = []
    runner.register_hook(LoggerHook(rows.append, **options))
    runner.fit(train, val)
    return [row.flat() for row in rows]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def table(path: Path) -> list[tuple[str, ...]]:
    """Return the mode, the epoch, the iteration, the name and the value of each number."""
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["mode", "epoch", "iter", "name", "value"] and {len(row) for row in rows} == {5}
    return [tuple(row) for row in rows]


def objects(path: Path) -> list[dict[str, Any]]:
    def refuse(word: str) -> Any:
        raise AssertionError(word)  # no reader of JSON but Python's own knows it

    return [json.loads(line, parse_constant=refuse) for line in lines(path)]


# The rows

# From mmcv 1.7.2: EpochBasedRunner and IterBasedRunner with a model that logs what `logged` gives above, SGD(lr=0.5,
# momentum=0.75), StepLrUpdaterHook(gamma=0.5), an OptimizerHook, an IterTimerHook, and a LoggerHook that keeps what its
# get_mode, get_epoch, get_iter(inner_iter=True), current_lr()[0], current_momentum()[0] and log_buffer.output are when
# its `log` is called. Epochs have 7 batches, or 8 with gradients; the gradient of the model's only parameter is `loss`.
MMCV: dict[str, list[tuple[Any, ...]]] = {
    "epochs": [
        ("train", 1, 3, 0.5, 1.2291666666666667),
        ("train", 1, 6, 0.5, 0.7142857142857143),
        ("val", 1, 5, 0.5, 1.9431818181818181),
        ("train", 2, 3, 0.25, 2.375),
        ("train", 2, 6, 0.25, 1.4375),
        ("val", 2, 5, 0.25, 1.9431818181818181),
    ],
    "long interval": [
        ("train", 1, 7, 0.5, 1.1953125),
        ("train", 2, 7, 0.25, 1.713235294117647),
    ],
    "iterations": [
        ("train", 1, 5, 0.5, 0.9659090909090909),
        ("train", 2, 10, 0.5, 2.09375),
        ("train", 3, 15, 0.25, 1.3076923076923077),  # mmcv says epoch 2: it counts the epoch one batch late
        ("train", 3, 20, 0.25, 1.4285714285714286),
    ],
}


def like_mmcv(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    for row in rows:
        assert row["momentum"] == 0.75
        if row["mode"] == "train":
            assert row["acc"] == pytest.approx(row["loss"] / 4, rel=1e-14)
    return [
        (*(row[name] for name in ("mode", "epoch", "iter", "lr")), row.get("loss", row.get("val_acc"))) for row in rows
    ]


def mmcv_run(**options: Any) -> Runner:
    by_epoch = "max_iters" not in options
    schedule = LrUpdaterHook("step", step=1 if by_epoch else 10, gamma=0.5, by_epoch=by_epoch)
    optimizer = Optimizer({"lr": 0.5, "momentum": 0.75, "params": []})
    return make(logged, schedule, IterTimerHook(), optimizer=optimizer, **options)


def test_the_rows_are_those_of_mmcv() -> None:
    scores = [logged(place) for place in range(4, 9)]
    runner = mmcv_run(scores=[row["log_vars"]["loss"] for row in scores])
    found = like_mmcv(rows_of(runner, [0] * 7, [row["num_samples"] for row in scores], interval=3))
    expected = MMCV["epochs"]
    assert [row[4] for row in found] == pytest.approx([row[4] for row in expected], rel=1e-14)
    # mmcv's `iter` of a validation is the number of its batches; ours says where in the training it was made.
    assert [row[:4] for row in found] == [row[:4] if row[0] == "train" else (*row[:2], 7, row[3]) for row in expected]


@pytest.mark.parametrize("case", ["iterations", "long interval"])
def test_whole_windows_have_the_numbers_of_mmcv(case: str) -> None:
    by_epoch = case == "long interval"
    runner = mmcv_run() if by_epoch else mmcv_run(max_iters=24)
    options: dict[str, Any] = {"interval": 10 if by_epoch else 5, "by_epoch": by_epoch, "ignore_last": not by_epoch}
    found = like_mmcv(rows_of(runner, [0] * 7, **options))
    assert [row[:4] for row in found] == [row[:4] for row in MMCV[case]]
    assert [row[4] for row in found] == pytest.approx([row[4] for row in MMCV[case]], rel=1e-14)


def test_iterations_without_samples_weigh_nothing_and_a_number_of_them_alone_keeps_its_value() -> None:
    def row(iter: int) -> dict[str, Any]:
        return {"log_vars": {"loss": float(iter)}, "num_samples": 0 if iter in (1, 2, 3) else 3}

    found = rows_of(make(row, max_epochs=1), [0] * 6, interval=2)
    assert [row["loss"] for row in found] == [0.0, 3.0, 4.5]


class Endless:
    """A loader that does not know how long it is."""

    def __iter__(self) -> Any:
        return iter([0] * 5)


def test_a_skipped_iteration_is_in_no_row_and_counts() -> None:
    runner = make()
    hooks(runner.train_iter).pre(lambda runner: Return(None) if runner.iter in (2, 3, 5) else None)
    found = rows_of(runner, [0] * 4, interval=2)
    losses = [logged(place)["log_vars"]["loss"] for place in range(8)]
    counts = [logged(place)["num_samples"] for place in range(8)]
    means = [sum(losses[n] * counts[n] for n in row) / sum(counts[n] for n in row) for row in ((0, 1), (4,), (6, 7))]
    assert [(row["epoch"], row["iter"]) for row in found] == [(1, 2), (2, 2), (2, 4)]
    assert [row["loss"] for row in found] == pytest.approx(means, rel=1e-14)


def test_a_number_that_is_logged_once_stays_and_no_number_hides_the_place_of_a_row() -> None:
    class Once(Hook):
        def before_run(self, runner: Runner) -> None:
            runner.log({"scale": 1024.0, "phase": "warm-up", "left out": [1, 2], "mode": 3.0, "iter": -1.0})

    found = rows_of(make(lambda _: {"log_vars": {"loss": 1.0, "epoch": 0.5}}, Once()), [0] * 4, interval=4)
    shown = {"lr": 0.1, "scale": 1024.0, "phase": "warm-up", "loss": 1.0}
    assert found == [{"mode": "train", "epoch": epoch, "iter": 4, **shown} for epoch in (1, 2)]


def test_times_are_averaged_by_iterations_and_come_last() -> None:
    class Times(Hook):
        priority = "LOW"

        def after_train_iter(self, runner: Runner) -> None:
            runner.log({"time": float(runner.iter), "data_time": float(runner.iter) / 2})

    found = rows_of(make(logged, Times()), [0] * 4, interval=4)
    assert [(row["time"], row["data_time"]) for row in found] == [(1.5, 0.75), (5.5, 2.75)]
    assert list(found[1])[-2:] == ["time", "data_time"]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([{"lr": 0.1, "momentum": 0}], {"lr": 0.1}),
        ([{"lr": np.float32(0.5), "betas": (0.75, 0.99)}], {"lr": 0.5, "momentum": 0.75}),
        ([{"lr": 0.1, "momentum": 0.0}, {"lr": 0.2, "momentum": 0.5}], {"lr": 0.1}),
        ([{"params": []}], {}),
    ],
)
def test_rates_are_those_of_the_first_group(groups: list[Any], expected: Any) -> None:
    row = rows_of(make(logged, optimizer=Optimizer(*groups)), [0] * 2, interval=2)[0]
    assert {
        name: value for name, value in row.items() if name not in ("mode", "epoch", "iter", "loss", "acc")
    } == expected


# Validations


def places(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["mode"], row["epoch"], row["iter"]) for row in rows]


@pytest.mark.parametrize("by_epoch", [True, False])
def test_training_rows_that_are_due_come_before_the_validation(by_epoch: bool) -> None:
    # EvalHook validates among the hooks of an iteration, or an epoch, and before the loggers are called.
    each: Any = {"interval": 1, "by_epoch": True} if by_epoch else {"interval": 2, "by_epoch": False}
    runner = make(logged, EvalHook([1, 3], **each), max_epochs=2)
    found = rows_of(runner, [0] * 3, interval=2, ignore_last=False, by_epoch=by_epoch)
    if by_epoch:
        one = [("train", 1, 2), ("train", 1, 3), ("val", 1, 3)]
        assert places(found) == one + [(mode, 2, iter) for mode, _, iter in one]
    else:
        expected = [("train", 1, 2), ("val", 1, 2), ("train", 1, 3), ("train", 2, 4), ("val", 2, 4), ("train", 2, 6)]
        assert places(found) == [*expected, ("val", 2, 6)]


def test_a_validation_has_its_own_numbers_and_not_those_of_another() -> None:
    class Other(Hook):
        def after_train_epoch(self, runner: Runner) -> None:
            runner.log({"val_f1": 0.25})

    found = rows_of(make(logged, Other()), [0] * 2, [1], interval=0)
    assert [set(row) for row in found] == [{"mode", "epoch", "iter", "lr", "val_acc"}] * 2
    runner = make(logged, EvalHook([1], evaluate=lambda outputs, batches: {"f1": 0.25}), max_epochs=3)
    found = rows_of(runner, [0] * 2, interval=0)
    assert [(row["val_f1"], row["val_acc"]) for row in found] == [(0.25, 0.5)] * 3


def test_a_validation_that_a_hook_skips_makes_no_row() -> None:
    runner = make(logged, EvalHook([1]))
    hooks(runner.val_epoch).add("pre", lambda epoch: Return(None) if epoch == 0 else None, priority=0)
    assert [row["epoch"] for row in rows_of(runner, [0] * 2, interval=0)] == [2]


def test_a_test_after_the_run_makes_a_row_and_a_second_run_continues_the_files(tmp_path: Path) -> None:
    rows: list[Row] = []
    runner = write(tmp_path, LoggerHook(rows.append, interval=3))
    runner.validate([1])
    assert list(tmp_path.iterdir()) == []
    runner.fit([0] * 3)
    runner.max_epochs = 3
    runner.fit([0] * 3)
    runner.test([1])
    assert rows[-1] == Row("test", 3, 3, 9, {"lr": 0.1, "test_acc": 0.5})
    whole = write(tmp_path / "whole", max_epochs=3)
    whole.fit([0] * 3)
    whole.test([1])
    assert contents(tmp_path) == contents(tmp_path / "whole")


# Files


def write(folder: Path, *options: Any, **more: Any) -> Runner:
    return make(logged, *(kind(interval=2, ignore_last=False) for kind in FILES), *options, work_dir=folder, **more)


def test_every_row_is_in_every_file(tmp_path: Path) -> None:
    runner = write(tmp_path)
    rows = rows_of(runner, [0] * 3, [1], interval=2, ignore_last=False)
    assert objects(tmp_path / "log.jsonl") == rows
    assert len(lines(tmp_path / "log.txt")) == len(rows) == 6
    assert table(tmp_path / "log.csv") == [
        (row["mode"], str(row["epoch"]), str(row["iter"]), name, str(value))
        for row in rows
        for name, value in list(row.items())[3:]
    ]


def test_lines_of_text_say_what_a_reader_looks_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aspecthook.training")
    kinds = [TextLoggerHook(interval=2), TextLoggerHook(interval=2, by_epoch=False, path=tmp_path / "by_iter.txt")]
    values = {"loss": 0.25, "tiny": 3e-05}
    make(lambda place: {"log_vars": values}, IterTimerHook(), *kinds, work_dir=tmp_path, max_epochs=1).fit([0] * 2, [1])
    numbers = (
        "lr: 0.1000, loss: 0.2500, tiny: 3.000e-05, data_time: …, time: …, eta: …",
        "lr: 0.1000, val_acc: 0.5000",
    )
    for name, places in (
        ("log.txt", ("Epoch [1][2/2]", "Epoch(val) [1][2]")),
        ("by_iter.txt", ("Iter [2/2]", "Iter(val) [2]")),
    ):
        found = [re.sub(r"(time|eta): [\d.e:-]+", r"\1: …", line) for line in lines(tmp_path / name)]
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", line) for line in found)
        texts = [f"{place}  {row}" for place, row in zip(places, numbers, strict=True)]
        assert [line.partition("  ")[2] for line in found] == texts
    infos = [record.message for record in caplog.records if record.levelno == logging.INFO]
    assert sum(message.startswith("Epoch") for message in infos) == 2
    make(logged, TextLoggerHook(interval=2)).fit([0] * 2)
    assert len(caplog.messages) == len(infos) + 2  # the logger gets them without a folder, too


def test_no_name_or_text_breaks_a_line(tmp_path: Path) -> None:
    row = {"log_vars": {"loss": 1.0, 'a\n"name", with\x1b[2J': 2.0}}

    class Words(Hook):
        def after_train_iter(self, runner: Runner) -> None:
            runner.log({"note": "two\r\nlines\ud800, and\x00more"})

    hooks = (kind(interval=1) for kind in FILES)
    make(lambda place: row, Words(), *hooks, work_dir=tmp_path, max_epochs=1).fit([0] * 3)
    assert len(lines(tmp_path / "log.txt")) == 3 and len(table(tmp_path / "log.csv")) == 3 * 4
    assert {"\x1b", "\x00"}.isdisjoint((tmp_path / "log.txt").read_text() + (tmp_path / "log.csv").read_text())
    assert objects(tmp_path / "log.jsonl")[0]["note"] == "two\r\nlines\ud800, and\x00more"


def test_nan_is_null_in_json_and_nan_in_a_table(tmp_path: Path) -> None:
    values = [nan, inf, -inf, 1.5]
    kinds = (JsonLoggerHook(interval=1), CsvLoggerHook(interval=1))
    make(lambda place: {"log_vars": {"loss": values[place]}}, *kinds, work_dir=tmp_path, max_epochs=1).fit([0] * 4)
    assert [row["loss"] for row in objects(tmp_path / "log.jsonl")] == [None, None, None, 1.5]
    found = [float(value) for *_, name, value in table(tmp_path / "log.csv") if name == "loss"]
    assert isnan(found[0]) and found[1:] == values[1:]


def test_a_new_run_keeps_the_files_of_an_older_one(tmp_path: Path) -> None:
    for _ in range(3):
        write(tmp_path).fit([0] * 2)
    for name in ("log{}.txt", "log{}.jsonl", "log{}.csv"):
        texts = [(tmp_path / name.format(middle)).read_text() for middle in ("", ".1", ".2")]
        assert len({len(text) for text in texts}) == 1 and len(texts[0]) > 50
    assert len(list(tmp_path.glob("log*"))) == 9


def test_a_sink_that_fails_gets_what_it_has_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that could not be opened ended the run, and other sinks got no more rows."""
    path = tmp_path / "there"
    path.mkdir()
    sink = CsvLoggerHook(1, path=path)
    runner = make(logged, sink, max_epochs=2)
    hooks(runner.train_iter).pre(lambda iter: path.rmdir() if iter == 2 else None)
    runner.fit([0] * 2)
    assert len(table(path)) == 4 * 3
    assert caplog.messages == [
        f"{path} cannot be written: Is a directory; the run continues, and what is missing is written as soon as that "
        "works"
    ]


def test_a_sink_gets_what_it_has_missed_before_the_run_was_resumed() -> None:
    rows: list[Row] = []
    runner = make(logged, LoggerHook(lambda row: 1 / 0, interval=1), max_epochs=1)
    runner.fit([0] * 2)
    again = make(logged, LoggerHook(rows.append, interval=1), max_epochs=2)
    again.restore(runner.state_dict(), resume=True)
    again.fit([0] * 2)
    assert [row.total_iter for row in rows] == [1, 2, 3, 4]


def test_a_sink_that_takes_long_to_fail_is_not_waited_for_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, tried = Clock(), list[int]()
    monkeypatch.setattr("aspecthook.training.logging._loggers.perf_counter", clock)

    def send(row: Row) -> None:
        tried.append(row.total_iter)
        clock.now += 5
        raise ConnectionError("no network")

    runner = make(logged, LoggerHook(send, interval=1), max_iters=150)
    hooks(runner.train_iter).pre(lambda: setattr(clock, "now", clock.now + 1))
    runner.fit([0] * 150)
    assert tried == [1, 1, 1]  # after 100 seconds, and when the run ends
    (said,) = caplog.messages
    assert said.startswith("the sink <function ") and "cannot be written: ConnectionError('no network')" in said


def test_impossible_options_of_loggers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HookOptionError, match="TextLoggerHook: interval=-1; give a number from 0 up"):
        TextLoggerHook(-1)
    with pytest.raises(HookTypeError, match=r"sink=\[\] is not callable; give a function of a row"):
        LoggerHook([])  # type: ignore[arg-type]
    with pytest.raises(
        TrainingError, match=r"no folder for its files; give Runner\(..., work_dir=...\) or JsonLoggerH"
    ):
        make(logged, JsonLoggerHook()).fit([0])
    with pytest.raises(TrainingError, match=r"no folder for its files; .* or TextLoggerHook\(path='/...'\)"):
        make(logged, TextLoggerHook(path="relative.txt")).fit([0])
    monkeypatch.setattr("aspecthook.training.logging._loggers.find_spec", lambda name: None)
    with pytest.raises(TrainingError, match=r"ReportHook needs jinja2 and matplotlib; pip install jinja2 matplotlib"):
        ReportHook()


def test_other_ranks_write_and_show_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    runner = write(tmp_path / "none", ProgressHook(), ReportHook(), PlotHook(), TensorboardLoggerHook())
    assert rows_of(runner, [0] * 3, [1], interval=1) == []
    runner.test([1])
    assert not (tmp_path / "none").exists() and capsys.readouterr().out == ""


# Kills


def contents(folder: Path) -> dict[str, list[str]]:
    """Return the files of a run, without times."""
    found: dict[str, list[str]] = {}
    for path in (folder / kind.default for kind in FILES if (folder / kind.default).exists()):
        found[path.name] = [
            re.sub(r"^\d{4}-[-\d: ]+|, (data_time|time|eta): [^,]*", "", line) if path.suffix == ".txt" else line
            for line in lines(path)
        ]
    return found


class Killed(BaseException):
    """Takes the place of a kill: no hook for failures hears of it here, and files are as they are at that time."""


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("left", [0.0, 0.6, 0.99, 2.0])
def test_a_log_is_cut_back_and_one_that_was_cut_short_is_told_and_continued_after_its_last_whole_line(
    kind: type[Any], left: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was continued without a word."""
    runner = make(logged, kind(1), work_dir=tmp_path, max_iters=8)
    runner.fit([0] * 4)
    saved = runner.save_checkpoint(tmp_path / "saved")
    path = tmp_path / kind.default
    whole = path.read_bytes()
    found = (whole + whole)[: int(len(whole) * left)]
    path.write_bytes(found)
    resumed = make(logged, kind(1), work_dir=tmp_path, max_iters=10)
    resumed.resume(saved)
    resumed.fit([0] * 4)
    kept = whole[: whole.rfind(b"\n", 0, len(found)) + 1]
    if left < 1:
        (told,) = caplog.messages
        assert told.startswith(f"the log {path} is cut short: it has {len(found)} of the {len(whole)} bytes")
        assert f"continues after byte {len(kept)}, " in told
    now, more = path.read_bytes(), 2
    if kind is CsvLoggerHook:  # which has a line for each number, and a header
        more = 2 * 3 + (not kept)
    assert now.startswith(kept) and now.count(b"\n") == kept.count(b"\n") + more


def kill(runner: Runner, at: int, stage: str, priority: int) -> None:
    def end(iter: int) -> None:
        if iter >= at + (stage != "train_iter"):
            raise Killed

    hooks(getattr(runner, stage)).add("post", end, priority=priority)


def save(runner: Runner, path: Path, every: int, stage: str, priority: int) -> None:
    def keep(runner: Runner) -> None:
        if stage != "train_iter" or (runner.iter + 1) % every == 0:
            runner.save_checkpoint(path)

    hooks(getattr(runner, stage)).add("post", keep, priority=priority)


stages = st.sampled_from(["train_iter", "train_epoch", "val_epoch"])
priorities = st.sampled_from([1, 50, 89, 90, 91, 99])


@settings(max_examples=settings().max_examples // 4)  # each is three runs
@given(
    killed=st.tuples(st.integers(0, 13), stages, priorities),
    store=st.tuples(st.integers(1, 4), stages, priorities),
    interval=st.integers(1, 5),
    by_epoch=st.booleans(),
    of_epochs=st.booleans(),
    ignore_last=st.booleans(),
    validation=st.sampled_from(["none", "workflow", "hook by epoch", "hook by iter"]),
    torn=st.booleans(),
    accumulate=st.integers(1, 2),
)
def test_a_killed_and_resumed_run_leaves_the_same_logs(
    killed: tuple[int, str, int],
    store: tuple[int, str, int],
    interval: int,
    by_epoch: bool,
    of_epochs: bool,
    ignore_last: bool,
    validation: str,
    torn: bool,
    accumulate: int,
) -> None:
    def row(iter: int) -> dict[str, Any]:
        return {"log_vars": {"loss": float(iter), **({"late": 1.0} if iter > 6 else {})}, "num_samples": 1 + iter % 3}

    def run(folder: Path) -> Runner:
        kinds = [kind(interval, by_epoch=by_epoch, ignore_last=ignore_last) for kind in FILES]
        if validation.startswith("hook"):
            options: Any = {"by_epoch": True} if validation.endswith("epoch") else {"by_epoch": False, "interval": 3}
            kinds = [EvalHook([1, 2], **options), *kinds]
        end: Any = {"max_epochs": 3} if of_epochs else {"max_iters": 14}
        if validation == "workflow":
            end |= {"workflow": [("train", 1 if of_epochs else 4), ("val", 1)]}
        return make(row, *kinds, work_dir=folder, accumulate=accumulate, **end)

    if validation.startswith("hook"):  # what is saved before a hook has validated does not know that it is due
        store = (*store[:2], max(50, store[2]))
    train, val = [0] * 5, [1, 2] if validation == "workflow" else None
    with TemporaryDirectory() as folder:
        whole = run(Path(folder, "whole"))
        whole.fit(train, val)
        where = Path(folder, "killed")
        saved = Path(folder, "saved.safetensors")
        runner = run(where)
        save(runner, saved, *store)
        kill(runner, *killed)
        try:
            runner.fit(train, val)
        except Killed:
            if torn:
                for path in where.glob("log.*"):
                    with path.open("a") as file:
                        file.write("half a li")
        resumed = run(where)
        if saved.exists():
            resumed.resume(saved)
        resumed.fit(train, val)
        assert contents(where) == contents(Path(folder, "whole"))


def test_a_file_of_another_run_is_kept_and_not_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runner = write(tmp_path, max_iters=4)
    runner.fit([0] * 3)
    saved = runner.save_checkpoint(tmp_path / "saved")
    other = make(
        lambda place: {"log_vars": {"loss": 9.0}}, *(kind(interval=1) for kind in FILES), work_dir=tmp_path / "o"
    )
    other.fit([0] * 5)
    before = contents(tmp_path / "o")
    resumed = write(tmp_path / "o", max_iters=6)
    resumed.resume(saved, other_run=True)
    resumed.fit([0] * 3)
    assert contents(tmp_path / "o") != before
    (tmp_path / "kept").mkdir()
    for path in (tmp_path / "o").glob("log.1.*"):
        path.rename(tmp_path / "kept" / path.name.replace(".1", ""))
    assert contents(tmp_path / "kept") == before
    assert [row["iter"] for row in objects(tmp_path / "o" / "log.jsonl")] == [2, 3]
    assert "log.csv is missing, or belongs to another run; a new file is begun" in caplog.text
    caplog.clear()
    elsewhere = write(tmp_path / "n", max_iters=6)
    elsewhere.resume(saved)
    elsewhere.fit([0] * 3)  # it warned that rows of the file were lost
    assert f"{tmp_path / 'n' / 'log.csv'} is missing, or belongs to another run; a new file is begun" in caplog.messages


# Full disks


FULL = """
    import resource, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from tests.training.logging.test_loggers import FILES, logged, make

    folder = Path(sys.argv[1])
    runner = make(logged, *(kind(interval=1) for kind in FILES), work_dir=folder, max_epochs=40)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # as a disk that is full: a part of a line fits
    runner.fit([0] * 3)
    assert runner.iter == 120
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on files")
def test_a_partly_written_line_is_removed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path), str(Path(__file__).parents[3])]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the run continues") == 3
    assert all(800 < path.stat().st_size <= 1000 for path in tmp_path.glob("log*"))
    assert all(path.read_bytes().endswith(b"\n") for path in tmp_path.iterdir())
    assert [row["iter"] for row in objects(tmp_path / "log.jsonl")][:4] == [1, 2, 3, 1]
    assert len(table(tmp_path / "log.csv")) > 10


# TensorBoard

needs_tensorboard = pytest.mark.skipif(
    importlib.util.find_spec("tensorboardX") is None, reason="needs tensorboardX (the extra tensorboard)"
)


def events(folder: Path) -> list[tuple[int, str, float]]:
    """Return the step, the name and the value of each number, read as TensorFlow's records are."""
    from tensorboardX.proto import event_pb2

    found: list[tuple[int, str, float]] = []
    for path in sorted(folder.iterdir(), key=lambda path: (path.name.split(".")[3], int(path.suffix[1:]))):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + size])
            if event.HasField("session_log"):
                assert event.session_log.status == event_pb2.SessionLog.START
                found = [row for row in found if row[0] < event.step]  # what TensorBoard does
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            data = data[16 + size :]
    return found


@needs_tensorboard
def test_tensorboard_logs_numbers_at_the_iterations_of_the_run(tmp_path: Path) -> None:
    groups = [{"lr": lr, "momentum": 0.75, "params": []} for lr in (0.5, 0.25)]
    hooks = TensorboardLoggerHook(interval=2), IterTimerHook()
    runner = make(lambda place: {"log_vars": {"loss": place}}, *hooks, work_dir=tmp_path, optimizer=Optimizer(*groups))
    runner.fit([0] * 3, [1])
    runner.test([1])
    rates = [("lr", 0.5), ("momentum", 0.75)]
    rows = [
        (2, "train/loss", 0.5),
        (3, "val/acc", 0.5),
        (5, "train/loss", 3.5),
        (6, "val/acc", 0.5),
        (6, "test/acc", 0.5),
    ]
    assert events(tmp_path / "tf_logs") == [(step, *pair) for step, *number in rows for pair in [*rates, tuple(number)]]


@needs_tensorboard
@pytest.mark.parametrize("at", [0, 2, 5])
def test_tensorboard_shows_a_resumed_run_as_one(at: int, tmp_path: Path) -> None:
    def run(folder: str) -> Runner:
        return make(logged, TensorboardLoggerHook(interval=2, path=tmp_path / folder), max_epochs=2)

    run("whole").fit([0] * 3, [1])
    saved = tmp_path / "saved"
    ended = run("killed")
    save(ended, saved, 2, "train_iter", 99)
    kill(ended, at, "train_iter", 99)
    with pytest.raises(Killed):
        ended.fit([0] * 3, [1])
    resumed = run("killed")
    if saved.exists():
        resumed.resume(saved)
    resumed.fit([0] * 3, [1])
    assert events(tmp_path / "killed") == events(tmp_path / "whole")
