"""One page on how a run went: what it says, that it is whole and safe, and that others can add to it."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from contextlib import suppress
from html.parser import HTMLParser
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import HookTypeError, hooks
from aspecthook.training import CheckpointHook, EarlyStoppingHook, Hook, LrUpdaterHook, Runner, TrainingError
from aspecthook.training.logging._profiler import ProfilerHook
from aspecthook.training.loop._interrupts import Terminated
from aspecthook.training.report._chart_layout import axis_of, panels_of
from aspecthook.training.report._drawing import HEIGHT, WIDTH, chart_of, draw, new_figure
from aspecthook.training.report._page import ReportHook
from aspecthook.training.report._record import Curves
from aspecthook.training.report._run_facts import commit, redacted_words, settings_of
from aspecthook.training.report._summary import epochs_of, headlines_of, summaries_of

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from markupsafe import Markup

from tests.training.report.test_plots import BATCHES, HOSTILE, Model, Recorder, Stop, fail, make, needs_matplotlib

VOID = {"meta", "link", "br", "img", "path", "circle", "rect", "text"}


class Page(HTMLParser):
    """Reads a report: its text by section, its tables, and all that could load or run something."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.odd: list[str] = []
        self.sections: dict[str, str] = {"": ""}
        self.rows: dict[str, list[list[str]]] = {}
        self.titles: list[str] = []
        self._section, self._heading = "", False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._add(" ")
        if tag not in ("meta", "link", "img", "tr", "td", "th", "path", "circle", "rect"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action", "data", "xlink:href", "srcset"):
                self.links.append(value or "")
            if name.startswith("on"):
                self.odd.append(name)
            if name == "title":
                self.titles.append(value or "")
        if tag == "h2":
            self._heading, self._section = True, ""
        if tag == "tr":
            self.rows.setdefault(self._section, []).append([])
        if tag in ("td", "th"):
            self.rows[self._section][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "rect"):
            return
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()
        if tag == "h2":
            self._heading = False

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("style", "title"):
            return
        if self._heading:
            self._section = (self._section + data).strip() if self.open[-1] == "h2" else self._section
            return
        self._add(data)

    def _add(self, data: str) -> None:
        self.sections[self._section] = self.sections.get(self._section, "") + data
        if self.rows.get(self._section) and self.rows[self._section][-1] and "table" in self.open:
            self.rows[self._section][-1][-1] = (self.rows[self._section][-1][-1] + data).strip()

    def said(self, section: str = "") -> str:
        return " ".join(self.sections[section].split())


def read(runner: Runner) -> Page:
    assert runner.work_dir is not None
    page = Page((runner.work_dir / "report.html").read_text())
    assert page.open == [] and page.odd == [] and "script" not in page.tags
    assert all(link.startswith(("#", "data:")) for link in page.links)
    return page


def fit(
    tmp_path: Path, *hooked: Any, report: ReportHook | None = None, val: list[float] | None = None, **options: Any
) -> Runner:
    runner = make(tmp_path / "digits", *hooked, report or ReportHook(0), **options)
    runner.fit(BATCHES, val)
    return runner


def text_of(runner: Runner) -> str:
    return (runner.work_dir / "report.html").read_text() if runner.work_dir else ""


# How it went


def test_the_report_has_the_progress_and_the_best_numbers(tmp_path: Path) -> None:
    scores = iter([0.5, 0.9, 0.7])

    class Scored(Model):
        def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
            return {"log_vars": {"accuracy": next(scores)}, "num_samples": 1}

    runner = fit(tmp_path, val=[1.0], model=Scored(), seed=7)
    page = read(runner)
    assert page.said().startswith("digits Done 3 of 3 epochs 18 iterations")
    assert "val_accuracy 0.7 best 0.9 in epoch 2" in page.said()
    assert f"loss {sum(BATCHES) / 6:.4g} the best, first in epoch 1" in page.said()
    assert page.rows["Numbers"][2] == ["val_accuracy", "0.7", "0.9", "epoch 2", "0.5 to 0.9"]
    assert page.rows["Epochs"][0] == ["epoch", "iteration", "loss", "val_accuracy", "lr", "duration"]
    assert [row[:2] + row[3:4] for row in page.rows["Epochs"][1:]] == [
        ["1", "6", "0.5"],
        ["2", "12", "0.9"],
        ["3", "18", "0.7"],
    ]
    assert [row[1] for row in page.rows["Environment"] if row[0] == "seed"] == ["7"]


def ended(tmp_path: Path, case: str) -> Runner:
    runner = make(tmp_path / "digits", *[Stop()] * (case == "stopped"), ReportHook(0))
    errors = {"failed": ValueError("no <b>labels</b>"), "interrupted": KeyboardInterrupt()}
    if case in errors:
        hooks(runner.forward).pre(fail(errors[case]))
        with pytest.raises(type(errors[case])):
            runner.fit(BATCHES)
    else:
        runner.fit(BATCHES)
    return runner


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("done", "digits Done 3 of 3 epochs 18 iterations"),
        ("stopped", "digits Stopped early 1 of 3 epochs 8 iterations"),
        ("interrupted", "digits Interrupted 1 of 3 epochs 7 iterations"),
        ("failed", "digits Failed 1 of 3 epochs 7 iterations"),
    ],
)
def test_the_report_has_the_outcome_of_the_run(tmp_path: Path, case: str, said: str) -> None:
    page = read(ended(tmp_path, case))
    assert page.said().startswith(said)
    has_trace = (
        "ValueError: no <b>labels</b>" in page.said() and "test_plots.py:" in page.said() and "Traceback" in page.said()
    )
    assert has_trace == (case == "failed")


def test_the_title_of_the_page_says_which_run_it_is(tmp_path: Path) -> None:
    found = re.search(r"<title>digits, \d{4}-\d\d-\d\d \d\d:\d\d – Done</title>", text_of(fit(tmp_path)))
    assert found is not None


def test_a_failure_stays_in_the_report_when_it_is_written_again(tmp_path: Path) -> None:
    runner = ended(tmp_path, "failed")
    runner.test([1.0])
    assert "ValueError: no <b>labels</b>" in read(runner).said() and "test_loss" in read(runner).said()
    runner.max_epochs = 4
    hooks(runner.forward).clear()
    runner.fit(BATCHES)
    assert "ValueError" not in read(runner).said() and "Done" in read(runner).said()


def test_the_report_says_running_during_the_run(tmp_path: Path) -> None:
    seen: list[str] = []

    class Look(Hook):
        def before_train_iter(self, runner: Runner, iter: int) -> None:
            if iter == 7:
                seen.append(read(runner).said())

    fit(tmp_path, Look(), report=ReportHook(share=1))
    assert seen[0].startswith("digits Running 1 of 3 epochs 6 iterations")


def test_the_report_has_the_reason_of_an_early_stop(tmp_path: Path) -> None:
    runner = fit(tmp_path, EarlyStoppingHook("loss", patience=2, min_delta=0.0001), val=[1.0], max_epochs=9)
    assert "loss did not improve in 2 validations; the best was 1" in read(runner).said()


def test_the_report_warns_of_nan_at_the_top(tmp_path: Path) -> None:
    runner = make(tmp_path / "digits", ReportHook(0))
    hooks(runner.forward).post(lambda runner: runner.logs.update(loss=nan) if runner.iter >= 14 else None)
    runner.fit(BATCHES)
    page = read(runner)
    assert "loss was NaN or infinite 4 of 18 times, first at iteration 15." in page.said()
    assert "loss nan best" in page.said() and page.rows["Epochs"][-1][2] == "nan"


def test_a_test_after_the_run_is_added(tmp_path: Path) -> None:
    runner = fit(tmp_path, Recorder(0))  # which keeps the record
    assert "test_loss" not in read(runner).said()
    runner.test([0.25])
    assert "test_loss 0.25 epoch 3 loss" in read(runner).said() and "Done" in read(runner).said()
    assert "test_loss" not in read(runner).rows["Epochs"][0]


def test_the_report_of_a_run_by_iterations_counts_iterations(tmp_path: Path) -> None:
    page = read(fit(tmp_path, max_epochs=None, max_iters=8, val=[1.0], workflow=[("train", 4), ("val", 1)]))
    assert page.said().startswith("digits Done 8 of 8 iterations")
    assert "val_loss 1 the best, first in iteration 4" in page.said()
    assert [row[:2] for row in page.rows["Epochs"][1:]] == [["1", "4"], ["1", "6"], ["2", "8"]]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, "stop"])
@pytest.mark.parametrize("at", [2, 8, 12])
@pytest.mark.parametrize("options", [{}, {"max_epochs": None, "max_iters": 16}], ids=["epochs", "iterations"])
def test_a_run_that_is_resumed_inside_an_epoch_has_one_row_for_it(
    options: dict[str, Any], at: int, how: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of the part before an interrupt was kept, beside one of the rest."""
    monkeypatch.setattr(signal, "raise_signal", lambda number: None)  # a SIGTERM would end this process
    whole = fit(tmp_path / "whole", **options)
    ended = make(tmp_path / "digits", ReportHook(0), **options)
    end = ended.request_stop if how == "stop" else lambda: os.kill(os.getpid(), how)
    hooks(ended.train_iter).post(lambda iter: end() if iter + 1 == at else None)
    with suppress(KeyboardInterrupt, Terminated):
        ended.fit(BATCHES)
    assert ended.iter == at
    saved = tmp_path / "digits" / "interrupted.ckpt"
    resumed = make(tmp_path / "digits", ReportHook(0), **options)
    resumed.resume(ended.save_checkpoint(saved) if how == "stop" else saved)
    resumed.fit(BATCHES)
    found, wanted = ([row[:3] for row in read(one).rows["Epochs"]] for one in (resumed, whole))
    assert found == wanted


@pytest.mark.parametrize("case", ["one epoch", "no validation", "nothing trained", "twelve metrics", "no config"])
def test_runs_of_all_sorts_have_a_whole_report(tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture) -> None:
    metrics = tuple(f"metric_{number}" for number in range(12)) if case == "twelve metrics" else ()
    runner = make(tmp_path / "digits", ReportHook(0), model=Model(*metrics, train=metrics), max_epochs=1)
    if case == "nothing trained":
        hooks(runner.forward).pre(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runner.fit(BATCHES)
    else:
        runner.fit(BATCHES, None if case == "no validation" else [1.0])
    page = read(runner)
    assert page.tags.count("svg") == {"nothing trained": 0, "twelve metrics": 14}.get(case, 2)
    assert not caplog.records and "Environment" in page.sections


# Who was there


def test_the_report_lists_the_hooks_and_the_profile(tmp_path: Path) -> None:
    runner = make(tmp_path / "digits", ProfilerHook(), LrUpdaterHook("fixed"), ReportHook())
    runner.fit(BATCHES)
    page = read(runner)
    assert page.said("Hooks") == "ProfilerHook 1 LrUpdaterHook VERY_HIGH ReportHook LOWEST"
    assert "Runner.train_iter" in page.said("Profile")


def test_the_report_lists_the_kept_checkpoints_the_best_first(tmp_path: Path) -> None:
    saver = CheckpointHook(1, max_keep=2, save_best="accuracy")
    page = read(fit(tmp_path, saver, val=[4.0]))
    folder = str(tmp_path / "digits")
    assert [(row[0].removeprefix(folder), row[2]) for row in page.rows["Checkpoints"][1:]] == [
        ("/best_val_accuracy_epoch_1.safetensors", "the best val_accuracy, 1"),
        ("/epoch_3.safetensors", ""),
        ("/epoch_2.safetensors", ""),
    ]
    assert all(row[1].endswith(" MB") for row in page.rows["Checkpoints"][1:])


def test_the_report_lists_flat_settings_by_default_the_runners_meta(tmp_path: Path) -> None:
    page = read(
        fit(tmp_path, meta={"lr": {"policy": "cosine", "steps": [1, 2]}, "hooks": [{"type": "A"}, {"type": "B"}]})
    )
    assert page.rows["Configuration"] == [
        ["lr.policy", "cosine"],
        ["lr.steps", "[1, 2]"],
        ["hooks[0].type", "A"],
        ["hooks[1].type", "B"],
    ]
    page = read(fit(tmp_path, meta={"config": {"lr": 3}, "more": 1}))
    assert page.rows["Configuration"] == [["lr", "3"]]
    page = read(fit(tmp_path, report=ReportHook(0, config={"epochs": 3}, title="A run"), meta={"lr": 1}))
    assert page.rows["Configuration"] == [["epochs", "3"]] and page.said().startswith("A run Done")
    assert len(settings_of({f"key {number}": 0 for number in range(1000)})) == 401
    assert settings_of({"odd": {1, 2}, "empty": {}, "long": "x" * 3000, 3: None})[1:] == [
        ("empty", "{}"),
        ("long", "x" * 2000 + "…"),
        ("3", "null"),
    ]


@pytest.mark.skipif(os.name == "nt", reason="a script of POSIX")
def test_a_report_runs_nothing_that_the_repository_configures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`git status` ran the program that the configuration of the repository names as its monitor of files."""
    bait, program = tmp_path / "bait", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {bait}\n")
    program.chmod(0o755)
    names = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path / "repository")
    for words in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message", "x"]):
        subprocess.run(["git", *names, *words], check=True, capture_output=True)
    for name in ("core.fsmonitor", "core.sshCommand", "core.editor", "core.pager", "diff.external"):
        subprocess.run(["git", "config", name, str(program)], check=True, capture_output=True)
    page = read(fit(tmp_path / "run"))
    facts = {row[0]: row[1] for row in page.rows["Environment"]}
    assert len(facts["git commit"]) == 12 and not bait.exists()
    assert len(commit(status=True)) == 12 and not bait.exists()
    subprocess.run(["git", "status"], check=True, capture_output=True)
    assert bait.exists(), "without the care of the report, git runs it"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("train.py --api-token=abc --lr=3", "train.py --api-token=(redacted) --lr=3"),
        ("train.py --password hunter2 --lr 3", "train.py --password (redacted) --lr 3"),
        ("train.py --no-auth --lr 3", "train.py --no-auth --lr 3"),
        ("train.py --set model.api_key=x", "train.py --set model.api_key=(redacted)"),
        ("train.py AWS_SECRET_ACCESS_KEY=x", "train.py AWS_SECRET_ACCESS_KEY=(redacted)"),
        ("train.py --db postgres://me:pw@host/db", "train.py --db postgres://me:(redacted)@host/db"),
        ("train.py --max-tokens=512 --tokenizer=bpe --key=a", "train.py --max-tokens=512 --tokenizer=bpe --key=a"),
    ],
)
def test_secrets_on_the_command_line_are_redacted_by_name(command: str, shown: str) -> None:
    assert redacted_words(command.split()) == shown.split()


def test_secrets_are_not_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line and the config were shown as they are."""
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py", "--api-token=sesame1"])
    config = {
        "wandb": {"apiKey": "sesame2"},
        "secrets": {"a": ["sesame3"]},
        "rows": [{"password": "sesame4", "user": "me"}],
        "url": "https://me:sesame5@example.org",
        "max_tokens": 512,
        "token": None,
    }
    text = text_of(fit(tmp_path / "one", report=ReportHook(0, config=config)))
    assert "sesame" not in text and "--api-token=(redacted)" in text and "512" in text
    text = text_of(fit(tmp_path / "two", report=ReportHook(0, config=False, command=False)))
    assert "train.py" not in text and "Configuration" not in text


def test_the_report_runs_no_script_and_loads_nothing(tmp_path: Path) -> None:
    text = text_of(fit(tmp_path))
    assert "Content-Security-Policy" in text.partition("<style>")[0] and "default-src 'none'" in text


def test_the_report_has_the_environment(tmp_path: Path) -> None:
    page = read(fit(tmp_path))
    facts = {row[0]: row[1] for row in page.rows["Environment"]}
    assert facts["Python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert facts["packages"].startswith("aspecthook ") and "numpy " in facts["packages"]
    assert facts["model"] == "Model" and facts["optimizer"] == "Optimizer()" and facts["seed"] == "none"
    assert facts["command"] and facts["platform"] and facts["CPUs"][0].isdigit()


def test_the_commit_is_that_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        names = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *names, *words], check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    assert commit() == ""
    git("init", "--quiet")
    assert commit() == ""
    Path("file").write_text("1")
    git("add", "file")
    git("commit", "--quiet", "--message", "x")
    assert commit() == git("rev-parse", "--short=12", "HEAD")
    Path("file").write_text("2")
    assert commit() == git("rev-parse", "--short=12", "HEAD")
    assert commit(status=True).endswith(", with changes")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == ""


@pytest.mark.torch
def test_the_report_of_a_pytorch_run_has_its_model_and_device(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 2)
    runner = Runner(
        model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        loss=torch.nn.functional.cross_entropy,
        work_dir=tmp_path,
        max_epochs=2,
    )
    runner.register_hook(ReportHook(0))
    runner.fit([(torch.ones(4, 3), torch.zeros(4, dtype=torch.long))] * 3)
    facts = {row[0]: row[1] for row in read(runner).rows["Environment"]}
    assert facts["model"] == "Linear, 8 parameters" and facts["backend"].startswith("torch on ")
    assert facts["optimizer"].startswith("SGD(momentum=0.9, ")


# Sections


class Figure:
    def savefig(self, file: Any, **options: Any) -> None:
        file.write(b"a picture")


class Shown:
    def _repr_html_(self) -> str:
        return "<em>shown</em>"


def test_section_adds_content_to_the_report(tmp_path: Path) -> None:
    report, calls = ReportHook(0), list[int]()
    report.section("Text", "a < b\n<script>alert(1)</script>")
    report.section("HTML", Markup("<em>bold</em>"))
    report.section("Figure", Figure())
    report.section("Shown", Shown())
    report.section("Table", {"<i>classes</i>": 10, "images": {"train": 1442}})
    report.section("Later", lambda: calls.append(1) or f"called {len(calls)} times")
    report.section("Broken", lambda: 1 / 0)
    report.section("Replaced", "old")
    report.section("Replaced", "new")
    report.section("<b>odd</b>", 3)
    page = read(fit(tmp_path, report=report))
    assert page.said("Text") == "a < b <script>alert(1)</script>"
    assert page.said("HTML") == "bold" and page.said("Shown") == "shown" and page.tags.count("em") == 2
    assert "data:image/png;base64,YSBwaWN0dXJl" in page.links
    assert page.rows["Table"] == [["<i>classes</i>", "10"], ["images.train", "1442"]]
    assert page.said("Later") == "called 1 times" and page.said("Replaced") == "new" and page.said("<b>odd</b>") == "3"
    assert page.said("Broken") == "This section could not be rendered: ZeroDivisionError: division by zero"
    assert "Environment" in page.sections


@needs_matplotlib
def test_a_real_figure_is_drawn(tmp_path: Path) -> None:
    from matplotlib.figure import Figure as Real

    report, figure = ReportHook(0), Real(figsize=(2, 1))
    figure.add_subplot().plot([1, 2])
    report.section("Figure", figure)
    assert any(
        link.startswith("data:image/png;base64,iVBORw0KGgo") for link in read(fit(tmp_path, report=report)).links
    )


# Safe


def test_hostile_text_is_escaped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad = '"><script>alert("x")</script><img src=x onerror=alert(1)>\x00\ud800'

    class Odd(Hook):
        def after_run(self) -> None: ...

    Odd.__name__ = bad[:-2]
    report = ReportHook(0, title=bad, config={bad: {bad: bad}, "</style>": "</textarea>{{ 7 * 7 }}"})
    report.section(bad, {bad: bad})
    runner = make(
        tmp_path / "digits",
        Odd(),
        report,
        model=Model(*HOSTILE, bad, train=(*HOSTILE, bad, f"lr ({bad})")),
        max_epochs=2,
    )
    hooks(runner.forward).add("pre", lambda: None, name=bad)
    hooks(runner.train_iter).add("pre", fail(RuntimeError(bad)))
    with pytest.raises(RuntimeError):
        runner.fit(BATCHES, [1.0])
    page = read(runner)
    assert "img" not in page.tags and not caplog.records
    assert "RuntimeError" in page.said() and 'alert("x")' in page.said()
    assert "{{ 7 * 7 }}" in page.said("Configuration") and "49" not in page.said("Configuration")


def test_an_error_whose_str_fails_is_reported_without_its_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError

    runner = make(tmp_path / "digits", ReportHook(0))
    hooks(runner.forward).pre(fail(Odd()))
    with pytest.raises(Odd):
        runner.fit(BATCHES)
    assert "Odd" in read(runner).said() and not caplog.records


def test_an_older_report_is_replaced_only_by_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runner = fit(tmp_path)
    before = (tmp_path / "digits" / "report.html").read_bytes()

    def breaks(file: Any, rest: Any) -> None:
        file.write(rest[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aspecthook.training.checkpoint._files.write", breaks)
    with caplog.at_level(logging.WARNING):
        runner.test([1.0])
    assert (tmp_path / "digits" / "report.html").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "digits").iterdir()) == ["report.html", "run.json"]
    assert "report.html could not be written: No space left on device" in caplog.text


def test_impossible_options_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HookTypeError, match="ReportHook: config=3 is not a mapping"):
        ReportHook(config=3)  # type: ignore[arg-type]
    monkeypatch.setattr("aspecthook.training.report._base.find_spec", lambda name: None)
    with pytest.raises(TrainingError, match=r"needs jinja2 and matplotlib; pip install 'aspecthook\[train\]'"):
        ReportHook()


# Charts


VALUES = st.lists(st.one_of(st.floats(), st.floats(-10, 10), st.just(nan), st.just(inf)), min_size=1, max_size=300)


@given(
    VALUES, st.lists(st.floats(), max_size=5), st.sampled_from(["loss", "accuracy", '<a href="x">&amp;']), st.booleans()
)
@settings(deadline=None)
def test_charts_of_any_numbers_are_well_formed_and_inside_their_frame(
    values: list[float], tested: list[float], name: str, by_epoch: bool
) -> None:
    curves = Curves()
    for at, value in enumerate(values, 1):
        curves.train(at, 1, {name: value})
    for value in tested:
        curves.validate(len(values), 1, {f"val_{name}": value})
    axis = axis_of(curves, 3 if by_epoch else None)
    for panel in panels_of(curves, {}):
        chart = chart_of(panel, axis)
        root = ET.fromstring(chart.svg)
        assert root.tag == "svg"
        for one in root.iter():
            assert one.tag in ("svg", "g", "defs", "clipPath", "use", "path", "rect") and one.get("id") != ""
            places = [float(one.get(name) or 0) for name in ("x", "y", "cx", "cy")]
            assert all(-10 <= place <= max(WIDTH, HEIGHT) for place in places)
            assert not re.search("nan|inf", one.get("d") or "")
        colours = set(re.findall(r"(?:stroke|fill): *([^;\"]+)", chart.svg))
        assert colours <= {"none", *(f"var(--{name})" for name in ("train", "val", "bad", "line", "soft"))}


def test_a_chart_has_a_line_a_band_the_best_and_a_gap() -> None:
    curves = Curves()
    for at in range(1, 601):
        curves.train(at, (at - 1) // 100 + 1, {"loss": nan if 290 <= at <= 310 else 600.0 / at})
        if at % 100 == 0:
            curves.validate(at, at // 100, {"val_loss": abs(at - 310) + 1.0})
    (panel,) = panels_of(curves, {})
    chart = chart_of(panel, axis_of(curves, 100))
    assert panel.is_log and chart.note == "log scale" and [key.label for key in chart.keys] == ["train", "val"]
    axes = new_figure(4, 3, "svg").add_subplot()
    draw(axes, panel, axis_of(curves, 100), size=8)
    train, bad, val, best = axes.lines
    assert [line.get_label() for line in (train, bad, val)] == ["train", "train, not finite", "val"]
    assert len(val.get_markevery()) == 6 and train.get_markevery() is None
    assert [sum(map(isnan, train.get_ydata())), len(bad.get_xdata())] == [5, 6]
    assert (list(best.get_xdata()), list(best.get_ydata())) == ([3.0], [11.0])
    (band,) = axes.collections
    assert len(band.get_paths()) == 2


def test_a_table_marks_the_best_and_headlines_are_few_and_tests_first() -> None:
    curves = Curves()
    for at in range(1, 4):
        curves.train(at, at, {"loss": 1.0 / at, **{f"part_{number}": 1.0 for number in range(9)}})
        curves.validate(at, at, {"val_loss": float(at), "val_f1": at / 10})
    curves.validate(3, 3, {"test_accuracy": 0.5})
    told = summaries_of(curves, {"f1": "greater"}, by_epoch=True)
    assert [one.name for one in headlines_of(told)][:4] == ["test_accuracy", "val_f1", "val_loss", "loss"]
    assert len(headlines_of(told)) == 6
    assert {one.name: one.best_when for one in told}["val_f1"] == "epoch 3"
    table = epochs_of(curves, {"f1": "greater"})
    marked = {
        (row[0], name) for row in table.rows for name, cell in zip(table.names, row[2], strict=True) if cell.is_best
    }
    assert marked == {("3", "loss"), ("1", "val_loss"), ("3", "val_f1")}
    assert not any(one.best for one in told if one.name.startswith("part_"))
