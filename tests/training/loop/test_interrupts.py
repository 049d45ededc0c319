"""Ctrl-C and SIGTERM that come after the last iteration, and what a finished run leaves in its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aspecthook import hooks
from aspecthook.training import CheckpointHook, Hook, Runner
from aspecthook.training.checkpoint import load
from tests.training.kit import data, run_of
from tests.training.session.kit import drive

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")

ROOT = Path(__file__).parents[3]


class Kill(Hook):
    """Sends a signal to the process when a stage is over, after the last iteration or another one."""

    priority = "HIGHEST"

    def __init__(self, stage: str, number: int = signal.SIGINT, at: int | None = None) -> None:
        self.number, self.at = number, at
        setattr(self, f"after_{stage}", self.kill)

    def kill(self, runner: Runner) -> None:
        if runner.progress.iter == (self.at or runner.max_iters):
            os.kill(os.getpid(), self.number)

    def after_run(self, runner: Runner) -> None: ...


STAGES = ["run", "train", "train_epoch", "train_iter", "val_iter", "val_epoch"]


@pytest.fixture(autouse=True)
def handlers() -> Any:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs inherit that it is ignored
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_after_the_last_iteration_is_raised_when_the_run_has_ended(
    stage: str, session: bool, tmp_path: Path
) -> None:
    runner = run_of("numpy", work_dir=tmp_path)
    trail: list[str] = []
    runner.register_hook(Kill(stage))
    hooks(runner.run).add("always", lambda: trail.append("ended"))
    with pytest.raises(KeyboardInterrupt):
        if session:
            drive(runner, data(2), data(1), folder=tmp_path)
        else:
            runner.fit(data(2), data(1))
    assert trail == ["ended"] and runner.iter == 4
    assert load(tmp_path / "interrupted.ckpt")["progress"]["iter"] == 4
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_comes_when_the_ranks_have_agreed_is_for_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else this rank would end the run alone, and wait with its checkpoint for the others, which wait with their data.
    runner = run_of("numpy")
    agreed: list[int] = []

    def highest(number: int) -> int:
        if not agreed:
            signal.raise_signal(signal.SIGINT)
        agreed.append(number)
        return number

    monkeypatch.setattr("aspecthook.training.loop._runner.highest", highest)
    hooks(runner.train_epoch).pre(lambda runner: setattr(runner, "alone", False))
    with pytest.raises(KeyboardInterrupt):
        runner.fit(data(4))
    assert agreed == [0, 2, 2] and runner.iter == 2


class Scores(Hook):
    """Logs a score for each epoch, and may send a signal while the first one is judged."""

    def __init__(self, priority: str, *, sends: bool) -> None:
        self.priority, self.sends = priority, sends

    def after_val_epoch(self, runner: Runner) -> None:
        runner.log({"val_score": [1.0, 3.0, 2.0][runner.epoch - 1]})
        if runner.epoch == 1 and self.sends:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("priority", ["HIGHEST", "NORMAL"])
def test_a_validation_is_judged_though_a_signal_comes_meanwhile(priority: str, tmp_path: Path) -> None:
    def begun(*, sends: bool) -> tuple[Runner, CheckpointHook]:
        best = CheckpointHook(save_best="val_score", rule="less")
        return run_of("numpy", None, [Scores(priority, sends=sends), best], work_dir=tmp_path, max_epochs=3), best

    runner, _ = begun(sends=True)
    with pytest.raises(KeyboardInterrupt):
        runner.fit(data(2), data(1))
    resumed, best = begun(sends=False)
    resumed.resume(tmp_path / "interrupted.ckpt")
    resumed.fit(data(2), data(1))
    assert best.best_score == 1.0
    assert best.best is not None and best.best.name == "best_val_score_epoch_1.safetensors"


@pytest.mark.parametrize(("stage", "done"), [("train_iter", 2), ("backward", 1), ("val_epoch", 2)])
def test_a_second_signal_ends_a_stage_at_once_and_the_run_says_that_resuming_is_not_exact(
    stage: str, done: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner = run_of("numpy", work_dir=tmp_path)

    def interrupt(runner: Runner) -> None:
        for _ in range(2 if runner.iter in (1, 2) else 0):
            os.kill(os.getpid(), signal.SIGINT)

    hooks(getattr(runner, stage)).post(interrupt)
    with pytest.raises(KeyboardInterrupt):
        runner.fit(data(2), data(1))
    assert caplog.messages == [
        "a second signal ended a stage at once, so what is saved now does not resume exactly",
        f"interrupted after iteration {done}; saved {tmp_path / 'interrupted.ckpt'}",
    ]


PROGRAM = """
import signal
from tests.training.kit import data, run_of
from tests.training.loop.test_interrupts import Kill

signal.signal(signal.SIGTERM, signal.SIG_DFL)
runner = run_of("numpy", work_dir={folder!r})
runner.register_hook(Kill({stage!r}, signal.SIGTERM, {at}))
runner.fit(data(2), data(1))
print("not reached")
"""


@pytest.mark.parametrize(("stage", "at"), [("run", 4), ("train", 4), ("val_epoch", 4), ("train_iter", 3)])
def test_a_sigterm_ends_the_process_after_the_iteration_and_the_checkpoint(stage: str, at: int, tmp_path: Path) -> None:
    program = PROGRAM.format(folder=str(tmp_path), stage=stage, at=at)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGTERM and done.stdout == "", done.stderr
    assert load(tmp_path / "interrupted.ckpt")["progress"]["iter"] == at


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_the_command_exits_with_the_status_of_a_signal_that_came_at_the_end(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    folder, config = tmp_path / "run", tmp_path / "run.toml"
    config.write_text(
        f'report = false\nplot = false\nprogress = false\n[run]\nmax_epochs = 1\nwork_dir = "{folder}"\n'
        f'[[hooks]]\ntype = "tests.training.loop.test_interrupts:Kill"\nstage = "run"\nnumber = {int(number)}\n'
    )
    command = [sys.executable, "-m", "aspecthook", "train", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == status, done.stderr
    assert (folder / "interrupted.ckpt").exists() and "accuracy" not in done.stdout
    config.write_text(config.read_text().partition("[[hooks]]")[0])
    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, cwd=ROOT, check=False)
    assert again.returncode == 0 and "accuracy" in again.stdout, again.stderr
    assert not (folder / "interrupted.ckpt").exists()


def test_a_finished_session_removes_the_checkpoint_of_its_interruption(tmp_path: Path) -> None:
    runner = run_of("numpy", work_dir=tmp_path)
    hooks(runner.train_iter).post(lambda iter: os.kill(os.getpid(), signal.SIGINT) if iter == 1 else None)
    with pytest.raises(KeyboardInterrupt):
        runner.fit(data(2))
    again = run_of("numpy", work_dir=tmp_path)
    drive(again, data(2), folder=tmp_path)
    assert again.iter == 4 and not (tmp_path / "interrupted.ckpt").exists()
