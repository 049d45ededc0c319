"""The curves and the page of a run: what they say, that they survive a resume, and that they are whole and safe."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
from contextlib import suppress
from html import unescape
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aspecthook import hooks
from aspecthook.training import (
    EarlyStoppingHook,
    Hook,
    JsonLoggerHook,
    LrUpdaterHook,
    PlotHook,
    ReportHook,
    Row,
    Runner,
)
from aspecthook.training.logging import _report as report_module
from aspecthook.training.logging._report import curves_of, drawn
from aspecthook.training.loop._interrupts import Terminated
from tests.training.kit import Loss, Optimizer, registered

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"
BATCHES = [2.0, 1.5, 1.0, 0.75, 0.5, 0.25]


class Model:
    """Has mm's protocol: the loss of a batch is the batch; a validation has it too, and the metrics named."""

    def __init__(self, *metrics: str, train: tuple[str, ...] = ()) -> None:
        self.metrics, self.train_metrics = metrics, train

    def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        made = {"loss": float(batch), **dict.fromkeys(self.train_metrics, batch / 2)}
        return {"loss": Loss(batch), "log_vars": made, "num_samples": 1}

    def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        return {"log_vars": {"loss": batch, **dict.fromkeys(self.metrics, batch / 4)}, "num_samples": 1}


def make(work_dir: Path | None, *hooked: Hook, model: Any = None, **options: Any) -> Runner:
    runner = Runner(model or Model("accuracy"), optimizer=Optimizer(), work_dir=work_dir, **{"max_epochs": 3} | options)
    return registered(runner, hooked)


class Recorder(PlotHook):
    """Writes how often it was written, and how the run stood."""

    def __init__(self, interval: int = 10) -> None:
        super().__init__(interval, path="written")
        self.written: list[tuple[str, int]] = []

    def content(self, runner: Runner) -> bytes:
        self.written.append((self.end, runner.progress.iter))
        return repr(self.written).encode()


def places(hook: PlotHook) -> list[tuple[str, int, int]]:
    return [(row.mode, row.epoch, row.total_iter) for row in hook.rows]


def raises(error: BaseException) -> Any:
    def fail(iter: int) -> None:
        if iter == 7:
            raise error

    return fail


# Rows


def test_the_curves_are_the_rows_of_the_log(tmp_path: Path) -> None:
    recorder = Recorder(4)
    log = JsonLoggerHook(4, by_epoch=False, ignore_last=False)
    make(tmp_path, recorder, log, max_epochs=2).fit(BATCHES, [1.0])
    train = [("train", 1, 4), ("train", 1, 6), ("val", 1, 6), ("train", 2, 8), ("train", 2, 12), ("val", 2, 12)]
    assert places(recorder) == train
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row.flat() for row in recorder.rows] == rows


def test_a_long_run_has_few_rows_of_training_and_all_of_its_validations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module, "_MOST_ROWS", 20)
    recorder = Recorder(1)
    make(tmp_path, recorder, max_epochs=50).fit([1.0] * 10, [1.0])
    train = [row for row in recorder.rows if row.mode == "train"]
    assert 10 < len(train) <= 21 and train[-1].total_iter == 500 and recorder.interval > 16
    assert [row.total_iter for row in recorder.rows if row.mode == "val"] == list(range(10, 501, 10))
    make(tmp_path / "short", recorder := Recorder(1), max_epochs=None, max_iters=21).fit([1.0] * 21)
    assert [row.total_iter for row in recorder.rows] == list(range(1, 22, 2))


@pytest.mark.parametrize(
    ("at", "how", "options"),
    [(8, signal.SIGINT, {}), (12, signal.SIGTERM, {}), (2, signal.SIGTERM, {"max_epochs": None, "max_iters": 16})],
)
def test_a_run_that_is_interrupted_and_resumed_keeps_no_row_of_a_part(
    at: int, how: signal.Signals, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of the part before an interrupt was kept, beside one of the rest."""
    monkeypatch.setattr(signal, "raise_signal", lambda number: None)  # a SIGTERM would end this process
    whole, expected = make(tmp_path / "whole", report := ReportHook(), **options), report
    whole.fit(BATCHES, [1.0])
    ended = make(tmp_path / "run", ReportHook(), **options)
    hooks(ended.train_iter).post(lambda iter: os.kill(os.getpid(), how) if iter + 1 == at else None)
    with suppress(KeyboardInterrupt, Terminated):
        ended.fit(BATCHES, [1.0])
    assert ended.iter == at and "Interrupted" in read(ended).text
    resumed = make(tmp_path / "run", report := ReportHook(), **options)
    resumed.resume(tmp_path / "run" / "interrupted.ckpt")
    resumed.fit(BATCHES, [1.0])
    assert report.rows == expected.rows and " resumed, and written 20" in read(resumed).text


# When it is written


def test_the_file_is_written_now_and_then_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, recorder := Recorder()).fit(BATCHES, [1.0])
    assert recorder.written == [("Done", 18)]  # a run of some seconds has no time for more
    monkeypatch.setattr(report_module, "PAUSE", 0)
    make(tmp_path, recorder := Recorder(4), max_epochs=2).fit(BATCHES, [1.0])
    assert [at for _, at in recorder.written] == [4, 6, 6, 8, 12, 12, 12]
    assert recorder.written[0][0] == "Running" and recorder.written[-1][0] == "Done"
    assert (tmp_path / "written").read_text() == repr(recorder.written)


def test_a_full_disk_and_an_error_while_drawing_do_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Recorder, "content", lambda self, runner: 1 / 0)
    make(tmp_path, Recorder()).fit(BATCHES)
    monkeypatch.setattr(report_module, "put", full)
    make(tmp_path, PlotHook()).fit(BATCHES)
    assert caplog.messages == [
        "written could not be written: division by zero; the run continues",
        "curves.png could not be written: [Errno 28] No space left on device; the run continues",
    ]


# Pictures

HOSTILE = ("$\\frac{1", "漢字", "a" * 300, "</svg><script>", "_hidden", "val_", "x (y)")


def test_a_loss_is_drawn_with_that_of_its_validation_and_rates_come_last(tmp_path: Path) -> None:
    runner = make(
        tmp_path, recorder := Recorder(), model=Model("accuracy", train=("z", "grad_norm", "loss_cls", "time"))
    )
    runner.fit(BATCHES, [1.0])
    curves = curves_of(recorder.rows)
    assert list(curves) == ["loss", "accuracy", "z", "loss_cls", "lr", "grad_norm", "time"]
    assert list(curves["loss"]) == ["train", "val"] and list(curves["lr"]) == ["train"]
    assert curves["loss"]["val"] == [(6, 1.0), (12, 1.0), (18, 1.0)]


@pytest.mark.parametrize(
    "values",
    [[], [nan] * 3, [inf, -inf, 1.0], [1e308, -1e308, 5e-324], [0.0, 1e-12, 1e12]],
    ids=repr,
)
def test_nothing_in_the_numbers_spoils_the_picture(values: list[float]) -> None:
    rows = [
        Row(mode, 1, at, at, {name: value, f"{mode}_loss": value, "loss": abs(value)})
        for at, value in enumerate(values)
        for mode, name in (("train", HOSTILE[at]), ("val", f"val_{HOSTILE[at]}"))
    ]
    assert drawn(curves_of(rows)).startswith(PNG)


# The page


class Page(NamedTuple):
    """A report: its source, its text, and the cells of its tables, by row."""

    source: str
    text: str
    rows: list[list[str]]


def read(runner: Runner) -> Page:
    assert runner.work_dir is not None
    source = (runner.work_dir / "report.html").read_text()
    assert "default-src 'none'" in source.partition("<style>")[0]
    body = source.partition("<body>")[2]
    assert not re.search("<(?!/?(h[12]|span|p|a|pre|img|table|tr|t[hd]|body|html)[ >])", body)
    rows = [re.findall("<t[hd]>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", body, re.DOTALL)]
    return Page(source, " ".join(unescape(re.sub("<.*?>", " ", body, flags=re.DOTALL)).split()), rows)


def fit(folder: Path, *hooked: Any, val: list[float] | None = None, **options: Any) -> Page:
    runner = make(
        folder, *hooked, *([] if any(isinstance(one, ReportHook) for one in hooked) else [ReportHook()]), **options
    )
    runner.fit(BATCHES, val)
    return read(runner)


def test_the_report_has_the_outcome_the_numbers_and_links_to_the_log(tmp_path: Path) -> None:
    scores = iter([0.5, 0.9, 0.7])

    class Scored(Model):
        def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
            return {"log_vars": {"accuracy": next(scores)}, "num_samples": 1}

    page = fit(tmp_path / "digits", JsonLoggerHook(), LrUpdaterHook("fixed"), val=[1.0], model=Scored(), seed=7)
    assert page.text.startswith("digits Done 3 of 3 epochs 18 iterations")
    assert ["val_accuracy", "0.7000"] in page.rows
    assert '<a href="log.jsonl">' in page.source and 'src="data:image/png;base64,' in page.source
    facts = {row[0]: row[1] for row in page.rows if len(row) == 2}
    assert facts["seed"] == "7" and facts["hooks"] == "JsonLoggerHook, LrUpdaterHook, ReportHook"
    assert facts["Python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert facts["packages"].startswith("aspecthook ") and facts["model"] == "Scored"


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("stopped", "digits Stopped early 1 of 3 epochs 8 iterations"),
        ("interrupted", "digits Interrupted 1 of 3 epochs 7 iterations"),
        ("failed", "digits Failed 1 of 3 epochs 7 iterations"),
    ],
)
def test_the_report_has_the_outcome_of_a_run_that_ends_early(tmp_path: Path, case: str, said: str) -> None:
    runner = make(tmp_path / "digits", ReportHook())
    errors = {"failed": ValueError("no <b>labels</b>"), "interrupted": KeyboardInterrupt()}
    if case in errors:
        hooks(runner.forward).pre(raises(errors[case]))
        with pytest.raises(type(errors[case])):
            runner.fit(BATCHES)
    else:
        hooks(runner.train_iter).post(lambda runner: runner.request_stop() if runner.iter == 7 else None)
        runner.fit(BATCHES)
    page = read(runner)
    assert page.text.startswith(said)
    assert ("ValueError: no <b>labels</b>" in page.text) == (case == "failed")
    runner.test([1.0])  # which is added to the report, and the failure stays in it
    assert ("no <b>labels</b>" in read(runner).text) == (case == "failed")
    assert ["test_loss", "1.0000"] in read(runner).rows


def test_the_report_has_the_reason_of_an_early_stop(tmp_path: Path) -> None:
    page = fit(tmp_path, EarlyStoppingHook("loss", patience=2, min_delta=0.0001), val=[1.0], max_epochs=9)
    assert "loss did not improve in 2 validations; the best was 1" in page.text


# Safe


def test_hostile_text_is_escaped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad = '"><script>alert("x")</script><img src=x onerror=alert(1)>\x00\ud800'

    class Odd(Hook):
        def after_run(self) -> None: ...

    Odd.__name__ = bad[:-2]
    model = Model(*HOSTILE, bad, train=(*HOSTILE, bad))
    runner = make(tmp_path / "<b>", Odd(), ReportHook(), model=model, max_epochs=2)
    hooks(runner.train_iter).add("pre", raises(RuntimeError(bad)))
    with pytest.raises(RuntimeError):
        runner.fit(BATCHES, [1.0])
    page = read(runner)
    assert page.source.count("<img") == 1 and not caplog.records
    assert "RuntimeError" in page.text and 'alert("x")' in page.text
