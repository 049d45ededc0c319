"""What is seen of a run: on a terminal, as the terminal shows it, and elsewhere."""

from __future__ import annotations

import io
import logging
import os
import re
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from aspecthook import hooks
from aspecthook.training import EvalHook, Hook, Runner
from aspecthook.training.logging import _progress as progress
from aspecthook.training.logging._loggers import IterTimerHook
from aspecthook.training.logging._progress import ProgressHook
from tests.training.logging.test_loggers import Endless, make

pytest.importorskip("rich")


class Clock:
    """Goes on by so much whenever it is looked at."""

    def __init__(self, step: float = 1.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "perf_counter", made)
    for name in ("NO_COLOR", "FORCE_COLOR", "JUPYTER_COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    return made


class Terminal(io.StringIO):
    """Does what a terminal does with what is written to it; knows no sequence but those below."""

    encoding = "utf-8"

    def __init__(self, width: int = 100) -> None:
        super().__init__()
        self.width, self.rows, self.row, self.column = width, [""], 0, 0
        self.cursor, self.raw = True, ""
        self.seen: list[str] = []  # the lowest lines there were

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.raw += text
        for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+|\x1b", text):
            self._take(part)
        if self.rows[-1].strip():
            self.seen.append(self.rows[-1].rstrip())
        return len(text)

    def _take(self, part: str) -> None:
        if part == "\r":
            self.column = 0
        elif part == "\n":
            self.row, self.column = self.row + 1, 0
            self.rows += [""] * (self.row + 1 - len(self.rows))
        elif part.startswith("\x1b"):
            self._control(part)
        else:
            for char in part:
                if self.column == self.width:
                    self._take("\n")
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + char + line[self.column + 1 :]
                self.column += 1

    def _control(self, part: str) -> None:
        if part == "\x1b[2K":
            self.rows[self.row] = ""
        elif part in ("\x1b[?25l", "\x1b[?25h"):
            self.cursor = part.endswith("h")
        elif up := re.fullmatch(r"\x1b\[(\d+)A", part):
            self.row -= int(up[1])
        else:
            assert re.fullmatch(r"\x1b\[[\d;]*m", part), part

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.rows if line.strip()]


class File(io.StringIO):
    """A file, or a pipe."""

    @property
    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


def steady(place: int) -> dict[str, Any]:
    return {"log_vars": {"loss": place / 2, "accuracy": 0.25}, "num_samples": 1}


Make: TypeAlias = Callable[..., Runner]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that returns a run, whose progress a file shows."""

    def made(file: Any, *extra: Any, rows: Any = steady, **options: Any) -> Runner:
        monkeypatch.setattr(sys, "stdout", file)
        return make(rows, *extra, ProgressHook(), **options)

    return made


def without_times(line: str) -> str:
    return re.sub(r"  \d+:\d\d:\d\d$", "", line)


# Lines that last

MEANS = ["epoch 1/2  loss 0.7500  accuracy 0.2500", "epoch 2/2  loss 2.7500  accuracy 0.2500"]


@pytest.mark.parametrize("kind", [File, Terminal])
@pytest.mark.parametrize("by", ["workflow", "hook", "both"])
def test_a_validation_leaves_a_line_below_that_of_its_epoch(kind: type[Any], by: str, run: Make) -> None:
    file = kind()
    extra = [EvalHook([1], evaluate=lambda outputs, batches: {"f1": 0.125})] if by != "workflow" else []
    run(file, *extra).fit([0] * 4, [1] if by != "hook" else None)
    texts = {"workflow": ["val_acc 0.5000"], "hook": ["val_acc 0.5000  val_f1 0.1250"]}
    texts["both"] = texts["hook"] + texts["workflow"]
    expected = [[f"{line}  lr 0.1000", *(f"{line[:9]} val  {text}" for text in texts[by])] for line in MEANS]
    assert [without_times(line) for line in file.lines] == [line for lines in expected for line in lines]


@pytest.mark.parametrize("kind", [File, Terminal])
def test_a_run_of_iterations_leaves_a_line_at_each_validation_and_at_its_end(kind: type[Any], run: Make) -> None:
    file = kind()
    run(file, EvalHook([1, 2], interval=4, by_epoch=False), max_iters=10).fit([0] * 3)
    assert [without_times(line) for line in file.lines] == [
        "iter  4/10  loss 0.7500  accuracy 0.2500  lr 0.1000",
        "iter  4/10 val  val_acc 0.5000",
        "iter  8/10  loss 2.7500  accuracy 0.2500  lr 0.1000",
        "iter  8/10 val  val_acc 0.5000",
        "iter 10/10  loss 4.2500  accuracy 0.2500  lr 0.1000",
    ]


@pytest.mark.parametrize("kind", [File, Terminal])
def test_data_without_a_length_are_shown_too(kind: type[Any], run: Make) -> None:
    file = kind()
    runner = run(file, IterTimerHook())
    runner.fit(Endless(), Endless())
    runner.test(Endless())
    assert [without_times(line).partition("  ")[0] for line in file.lines] == [
        *["epoch 1/2", "epoch 1/2 val", "epoch 2/2", "epoch 2/2 val", "test"]
    ]
    if kind is Terminal:
        assert any(re.match(r"epoch 2/2 3 +[━╸╺]+ +loss \d", line) for line in file.seen)


@pytest.mark.parametrize("kind", [File, Terminal])
def test_outside_a_run_validations_and_tests_leave_a_line_each(kind: type[Any], run: Make) -> None:
    file = kind()
    runner = run(file)
    runner.validate([1] * 3)
    runner.test([1] * 3)
    assert file.lines == ["val  val_acc 0.5000", "test  test_acc 0.5000"]


def test_lines_show_the_time_since_the_line_before(clock: Clock, run: Make) -> None:
    clock.step = 0.0
    file = File()
    runner = run(file)
    hooks(runner.train_iter).pre(lambda: setattr(clock, "now", clock.now + 2.5))
    hooks(runner.val_iter).pre(lambda: setattr(clock, "now", clock.now + 50))
    runner.fit([0] * 4, [1])
    assert [line.rpartition("  ")[2] for line in file.lines] == ["0:00:10", "0:00:50"] * 2


def test_a_hook_that_is_registered_in_a_run_begins_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    file, before, runner = Terminal(), program(), make(steady)
    monkeypatch.setattr(sys, "stdout", file)
    hooks(runner.train_iter).post(lambda runner: runner.register_hook(ProgressHook()) if runner.iter == 1 else None)
    runner.fit([0] * 4)
    clean(file, before)
    assert file.lines == []
    runner.max_epochs = 3
    runner.fit([0] * 4)
    assert [without_times(line) for line in file.lines] == ["epoch 3/3  loss 4.7500  accuracy 0.2500  lr 0.1000"]


def test_without_a_standard_output_nothing_is_shown(run: Make) -> None:
    runner = run(None)
    runner.fit([0] * 4)
    assert runner.iter == 8


@pytest.mark.parametrize("kind", [File, Terminal])
def test_without_a_terminal_that_shows_a_bar_there_are_no_control_characters(
    kind: type[Any], monkeypatch: pytest.MonkeyPatch, run: Make
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = kind()
    run(file, rows=lambda place: {"log_vars": {"loss": 1.0, "a\x1b[2J\nb": 2.0}}).fit([0] * 4, [1] * 3)
    assert "\x1b" not in "".join(file.lines) and len(file.lines) == 4


# The bar


def clean(file: Terminal, before: tuple[Any, ...]) -> None:
    """Nothing is left of the bar: neither on the terminal nor in the program."""
    assert file.cursor
    assert sys.stdout is file and before == program()
    assert not any(re.search(r"[━╸╺]", line) for line in file.lines)
    assert file.column == 0


def program() -> tuple[Any, ...]:
    streams = [getattr(handler, "stream", None) for handler in logging.root.handlers]
    return sys.stderr, streams, threading.enumerate()


def test_a_bar_moves_below_the_lines_and_is_gone_after_the_run(run: Make) -> None:
    file, before = Terminal(), program()
    run(file, IterTimerHook()).fit([0] * 4, [1] * 2)
    clean(file, before)
    looks = list(dict.fromkeys(file.seen))
    for start in ("epoch 1/2 0/4 ━", "epoch 1/2 3/4 ━", "epoch 1/2 val 1/2 ━", "epoch 2/2 4/4 ━"):
        assert any(line.startswith(start) for line in looks)
    assert any(re.search(r"━ +eta 0:00:\d\d  loss 0.5000  accuracy 0.2500  lr 0.1000$", line) for line in looks)
    assert "\x1b[?25l" in file.raw
    ends = [line.partition(" ━")[0] for line in looks if "4/4" in line]
    assert set(ends) == {"epoch 1/2 4/4", "epoch 2/2 4/4"}


def test_the_bar_of_a_run_of_iterations_goes_over_all_its_passes(run: Make) -> None:
    file = Terminal()
    run(file, EvalHook([1], interval=3, by_epoch=False), max_iters=4).fit([0] * 2)
    heads = [line.partition(" ━")[0] for line in file.seen if "━" in line]
    passes = ["0/4", "1/4", "2/4", "3/4 val 0/1", "3/4 val 1/1", "3/4", "4/4"]
    assert list(dict.fromkeys(heads)) == [f"iter {place}" for place in passes]


@pytest.mark.parametrize("width", [1, 12, 40, 60, 200])
def test_the_bar_has_one_line_however_narrow_the_terminal_is(
    width: int, monkeypatch: pytest.MonkeyPatch, run: Make
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    file, before = Terminal(width), program()

    class Look(Hook):
        """Before a line that lasts, there is nothing but the bar."""

        priority = "LOWEST"

        def after_train_iter(self, epoch: int) -> None:
            assert epoch or len(file.rows) == 1

    def rows(place: int) -> dict[str, Any]:
        return {"log_vars": {"loss": 0.5, "漢字の名": 1.0, "b" * 30: 2.0}}

    run(file, IterTimerHook(), Look(), rows=rows).fit([0] * 4)
    clean(file, before)
    if width >= 40:
        assert any(re.match(r"epoch 1/2 3/4 [━╸╺]{6,} +eta ", line) for line in file.seen)
    if width >= 60:
        assert any("loss 0.5" in line for line in file.seen)


def test_characters_that_an_encoding_lacks_are_replaced(run: Make) -> None:
    class Ascii(Terminal):
        encoding = "ascii"

        def write(self, text: str) -> int:
            text.encode("ascii")
            return super().write(text)

    file = Ascii()
    run(file, rows=lambda place: {"log_vars": {"loss": 1.0, "Δ": 2.0}}).fit([0] * 4)
    text = without_times("  ".join(line.strip() for line in file.lines))
    assert text.startswith("epoch 1/2  loss 1.0000  ? 2.0000  lr 0.1000")


def test_errors_that_go_into_a_file_stay_there(monkeypatch: pytest.MonkeyPatch, run: Make) -> None:
    file, errors = Terminal(), File()
    monkeypatch.setattr(sys, "stderr", errors)
    runner = run(file)
    hooks(runner.train_iter).pre(lambda runner: print("oh", file=sys.stderr) if runner.iter == 2 else None)
    runner.fit([0] * 4)
    assert errors.getvalue() == "oh\n"
    assert len(file.lines) == 2


# Failures

STAGES = ["run", "train_epoch", "train_iter", "forward", "backward", "optimizer_step", "val_epoch", "val_iter"]


@pytest.mark.parametrize("kind", ["pre", "post"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_run_that_fails_leaves_the_terminal_as_it_was(stage: str, kind: Any, run: Make) -> None:
    file, before = Terminal(), program()
    runner = run(file)
    hooks(getattr(runner, stage)).add(kind, lambda iter: 1 / 0 if iter >= 4 or stage == "run" else None)
    with pytest.raises(ZeroDivisionError):
        runner.fit([0] * 4, [1] * 2)
    clean(file, before)


class Gone(Terminal):
    """A terminal, or a pipe, that is closed after some lines."""

    def __init__(self, tty: bool, after: int, error: Exception) -> None:
        super().__init__()
        self.tty, self.left, self.error = tty, after, error

    def isatty(self) -> bool:
        return self.tty

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return super().write(text)


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("tty", [True, False])
@pytest.mark.parametrize("error", [BrokenPipeError(32, "gone"), OSError(5, "gone"), ValueError("the file is gone")])
def test_a_terminal_that_is_closed_does_not_end_the_run(
    error: Exception, tty: bool, after: int, caplog: pytest.LogCaptureFixture, run: Make
) -> None:
    before = program()
    runner = run(Gone(tty, after, error))
    runner.fit([0] * 4, [1])
    assert runner.iter == 8
    assert isinstance(sys.stdout, Gone) and before == program()
    (record,) = caplog.records
    assert re.match(r"the progress cannot be written: .*gone.*; the run continues", record.message)


def test_the_random_numbers_of_a_run_are_those_without_its_progress() -> None:
    """Rich draws one as it is imported: a run that was resumed had other numbers than one that was never ended."""
    code = """if True:
        import random
        from tests.training.logging.test_progress import ProgressHook, make, steady, sys
        before = random.getstate()
        sys.stdout.isatty = lambda: True
        make(steady, ProgressHook()).fit([0] * 4)
        print(random.getstate() == before)
    """
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.endswith("True\n")


# A real terminal

SCRIPT = """
    import logging, os, signal, sys, time, warnings
    logging.basicConfig(level=logging.INFO, format="log: %(message)s")
    from aspecthook import hooks
    from tests.training.logging.test_progress import IterTimerHook, ProgressHook, make, steady

    runner, how = make(steady, IterTimerHook(), ProgressHook(), max_epochs=3), sys.argv[1]

    def meanwhile(iter):
        if iter == 5:
            print("printed")
            logging.info("logged")
            warnings.warn("warned")
        if iter == 6 and how == "fail":
            raise ValueError("broken")
        if iter == 6 and how == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)

    hooks(runner.train_iter).pre(meanwhile)
    hooks(runner.train_iter).post(lambda: time.sleep(0.03))
    runner.fit([0] * 4, [1])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("how", "width"), [("well", 40), ("fail", 100), ("interrupt", 100)])
def test_a_real_terminal_shows_the_progress(how: str, width: int) -> None:
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), how]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=root) as running:
        os.close(theirs)
        text = "".join(iter(lambda: read(ours), ""))
    os.close(ours)
    screen = Terminal(width)
    screen.write(text)
    assert screen.cursor and screen.column == 0
    assert not any(re.search("[━╸╺]", line) for line in screen.lines)
    assert {"printed", "log: logged"} <= set(screen.lines)
    assert "UserWarning: warned" in "".join(screen.lines)
    assert screen.lines[0].startswith("epoch 1/3  loss ")
    assert re.search(r"epoch 1/3 \d/4 [━╸╺]", re.sub(r"\x1b\[[\d;]*m", "", text))
    if how == "well":
        assert running.returncode == 0 and sum(line.startswith("epoch ") for line in screen.lines) == 6
    else:
        error = "ValueError: broken" if how == "fail" else "KeyboardInterrupt"
        assert running.returncode != 0 and screen.lines[-1] == error


def read(ours: int) -> str:
    try:
        return os.read(ours, 65536).decode(errors="replace")
    except OSError:  # on Linux, what a pseudo-terminal says when the other end is closed
        return ""
