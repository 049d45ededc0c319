"""Two processes, or two runners, never write one `work_dir` at the same time."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aspecthook import hooks
from aspecthook.training import Hook, JsonLoggerHook, Runner, TrainingError
from aspecthook.training.session import MonitoredTrainingSession
from tests.training.kit import data, run_of

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys
from aspecthook import hooks
from tests.training.kit import data, run_of

runner = run_of("numpy", work_dir=sys.argv[1])

def wait(iter):
    if iter == 1:
        {before}
        print(os.getpid(), flush=True)
        sys.stdin.read()

hooks(runner.train_iter).post(wait)
runner.fit(data(2))
"""
# The parent goes on once the child runs: until then the child has not closed its copy of the descriptor.
FORK = "ends = os.pipe(); os.fork() or (os.write(ends[1], b'-'), sys.stdin.read(), os._exit(0)); os.read(ends[0], 1)"


@contextmanager
def training(folder: Path, before: str = "pass") -> Generator[subprocess.Popen[str]]:
    """Yield another process that is in the middle of a run in a folder, until its input ends."""
    command = [sys.executable, "-c", PROGRAM.format(before=before), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline() == f"{process.pid}\n", process.stderr.read()
            yield process
        finally:
            process.kill()


def rows(folder: Path) -> int:
    return len((folder / "log.jsonl").read_text().splitlines())


def test_a_folder_that_another_process_writes_is_refused_by_its_name(tmp_path: Path) -> None:
    """Two processes wrote 220 rows for 120."""
    runner = run_of("numpy", None, [JsonLoggerHook(1)], work_dir=tmp_path)
    with training(tmp_path) as other:
        with pytest.raises(TrainingError) as caught:
            runner.fit(data(2))
        said = str(caught.value)
        who = f"another process, {other.pid} on {socket.gethostname()}"
        assert said.startswith(f"{tmp_path} is written by {who}, since ")
        assert not (tmp_path / "log.jsonl").exists() and runner.iter == 0
        with pytest.raises(TrainingError, match="is written by another process"):
            MonitoredTrainingSession(run_of("numpy"), data(2), checkpoint_dir=tmp_path)
        other.communicate("")
    assert not (tmp_path / ".run.lock").exists()
    runner.fit(data(2))
    assert rows(tmp_path) == 4


@pytest.mark.parametrize("before", ["pass", pytest.param(FORK, id="fork")])
def test_the_lock_dies_with_its_process_also_if_that_has_forked(before: str, tmp_path: Path) -> None:
    with training(tmp_path, before) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert (tmp_path / ".run.lock").exists()
        runner = run_of("numpy", work_dir=tmp_path)
        runner.fit(data(2))
    assert runner.iter == 4 and not (tmp_path / ".run.lock").exists()


def test_two_runners_of_one_process_do_not_write_one_folder(tmp_path: Path) -> None:
    outer, inner = run_of("numpy", work_dir=tmp_path), run_of("numpy", work_dir=tmp_path)
    hooks(outer.train_iter).post(lambda: inner.fit(data(1)), times=1)
    with pytest.raises(TrainingError, match="is written by another runner of this process, .*Nothing was changed"):
        outer.fit(data(2))
    inner.fit(data(1))
    outer.fit(data(2))
    assert inner.epoch == outer.epoch == 2


class Fails(Hook):
    def before_run(self, runner: Runner) -> None:
        raise ZeroDivisionError


def test_a_run_that_fails_leaves_no_lock(tmp_path: Path) -> None:
    runner = run_of("numpy", None, [Fails()], work_dir=tmp_path)
    for begin in (lambda: runner.fit(data(2)), lambda: MonitoredTrainingSession(runner, data(2))):
        with pytest.raises(ZeroDivisionError):
            begin()
        assert not (tmp_path / ".run.lock").exists()


def test_a_folder_without_locks_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("aspecthook.training.checkpoint._lock._lock", refuse)
    runner = run_of("numpy", work_dir=tmp_path)
    runner.fit(data(2))
    assert runner.epoch == 2
    assert caplog.messages == [
        f"{tmp_path} cannot be locked, so another process that writes to it would not be noticed: No locks available"
    ]
