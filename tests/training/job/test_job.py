"""The job that `aspecthook train` runs: its settings, its command line, its folder, and that it learns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from aspecthook import ConfigError
from aspecthook.cli import main as aspecthook
from aspecthook.training.checkpoint import load
from aspecthook.training.job import _train
from aspecthook.training.job._settings import load_settings
from aspecthook.training.job._train import train

QUIET = ["progress=false", "plot=false", "report=false"]
BARE = [*QUIET, "log=false", "timer=false"]


def settings(folder: Path, *changes: str) -> dict[str, Any]:
    return load_settings(changes=[f"run.work_dir='{folder}'", *BARE, *changes])


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aspecthook", "train", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


# Settings


def test_a_file_overrides_the_defaults_and_the_command_line_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[run]\nseed = 3\nmax_epochs = 7\n[[hooks]]\ntype = "EMAHook"\n')
    found = load_settings(file, ["run.max_epochs=9"])
    assert (found["run"]["seed"], found["run"]["max_epochs"], found["data"]["batch_size"]) == (3, 9, 32)
    assert found["hooks"] == [{"type": "EMAHook"}]


def test_the_printed_defaults_are_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert aspecthook(["train", "--print-config"]) == 0
    file = tmp_path / "run.toml"
    file.write_text(capsys.readouterr().out)
    assert load_settings(file) == load_settings()


def test_options_of_another_type_are_dropped_when_the_type_changes() -> None:
    assert load_settings(changes=["lr.policy=step"])["lr"] == {"policy": "step"}
    assert load_settings(changes=["lr.policy=cosine"])["lr"]["min_lr"] == 0.0, "it is cosine already"
    changed = load_settings(changes=["optimizer.type=AdamW", "optimizer.lr=0.1"])
    assert changed["optimizer"] == {"type": "AdamW", "lr": 0.1}
    assert load_settings(changes=["lr=false", "lr=true"])["lr"] == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("run.max_epoch=3", r"\[run\] takes no 'max_epoch'.*did you mean 'max_epochs'"),
        ("rnu.seed=3", "the config takes no 'rnu'.*did you mean 'run'"),
        ("nonsense", "give section.key=value"),
        ("hooks=3", r"give \[\[hooks\]\] tables"),
        ("lr=3", "lr\\] is an int; give a table, such as lr.key = ..."),
        ("=3", "give section.key=value"),
    ],
)
def test_a_setting_that_is_unknown_or_of_a_wrong_type_is_refused(change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings(changes=[change])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("run.backend=nmpy", "backend='nmpy'\\): give 'numpy' or 'torch'; did you mean 'numpy'"),
        ("model.hiden=[3]", "did you mean 'hidden'"),
        ("optimizer.type=SDG", "did you mean 'SGD'"),
        ("optimizer.lrr=1", "did you mean 'lr'"),
        ("lr.policy=cosin", "; did you mean 'cosine'?"),
        ("data.type=digts", "did you mean 'digits'"),
        ("data.held_out=1", "held_out=1; give a number above 0 and below 1"),
        ("data.batchsize=1", "takes no 'batchsize'"),
        ("run.max_epochs=0", "max_epochs=0.*from 1 up"),
        ("run.max_epochs=abc", "max_epochs='abc' is not a whole number"),
        ("run.amp=1", "amp=1 is neither True nor False"),
        ("run.accumulate=no", "accumulate='no' is not a whole number"),
        ("run.work_dir=3", "work_dir=3 is not a path"),
        ("run.seed=-1", "seed=-1; give a number from 0 up"),
        ("optimizer.lr=-1", "lr=-1.*from 0 up"),
        ("model.hidden=abc", "hidden='a' is not a whole number"),
        ("model.hidden=[0]", "hidden=0; give a number from 1 up"),
        # A config that was received took 3.5 GB of memory.
        (
            "model.hidden=[15_000]",
            "hidden has layers of 15000 units together; an mlp has at most 10000: for",
        ),
        ("model.dropout=x", r".*; correct the value in \[model\] or \[optimizer\]"),
    ],
)
def test_settings_that_cannot_be_built_are_refused_before_anything_is_written(
    change: str, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with pytest.raises((ValueError, TypeError), match=message):
        train(settings(folder, change))
    assert not folder.exists()


# The run


def test_the_job_learns_the_digits(tmp_path: Path) -> None:
    """97 % are what is promised; here it has fewer epochs than by default."""
    outcome = train(settings(tmp_path / "run", "run.max_epochs=12"))
    assert outcome.accuracy >= 0.97 and outcome.images == 355
    assert json.loads((tmp_path / "run" / "config.json").read_text())["run"]["max_epochs"] == 12
    assert outcome.checkpoint is not None and outcome.checkpoint.exists()


def test_a_resumed_job_ends_as_one_that_was_never_interrupted(tmp_path: Path) -> None:
    whole = train(settings(tmp_path / "whole", "run.max_epochs=4", "checkpoint.max_keep=9"))
    train(settings(tmp_path / "part", "run.max_epochs=4", "checkpoint.max_keep=9"))
    for late in ("epoch_3", "epoch_4"):
        (tmp_path / "part" / f"{late}.safetensors").unlink()
    again = train(settings(tmp_path / "part", "run.max_epochs=4", "checkpoint.max_keep=9"), resume="")
    ours, theirs = (load(tmp_path / name / "epoch_4.safetensors") for name in ("whole", "part"))
    assert all((ours["model"][name] == theirs["model"][name]).all() for name in ours["model"])
    assert again.accuracy == whole.accuracy


@pytest.mark.torch
def test_the_job_learns_with_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    given = settings(tmp_path, "run.backend=torch", "run.max_epochs=4")
    assert train(given).accuracy > 0.9


# The command


def test_the_command_trains_and_prints_the_folder(tmp_path: Path) -> None:
    done = run("--epochs", 2, "--work-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "accuracy on 355 test images: " in done.stdout and str(tmp_path / "run") in done.stdout
    names = {file.name for file in (tmp_path / "run").iterdir()}
    assert {"config.json", "log.jsonl", "log.csv", "epoch_2.safetensors", "report.html"} <= names
    again = run("--epochs", 2, "--work-dir", tmp_path / "run")
    assert again.returncode == 1 and "already holds a run" in again.stderr and "Traceback" not in again.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--resum"], "No such option '--resum'. Did you mean '--resume'?; see aspecthook train --help"),
        (["--set", "data.batch_size=no"], "DataLoader: batch_size='no' is not a whole number"),
        (["--config", "nope.toml"], "the config nope.toml cannot be read: No such file"),
        (["--config", "list.json"], "list.json is not a config: it holds a list of 1 item; give a file with sections"),
        (["--config", "."], "the config . cannot be read: Is a directory"),
    ],
)
def test_the_status_is_2_and_one_line_says_why_if_a_training_cannot_begin(
    options: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # It was 1, as if the training had failed.
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text("[1]")
    assert aspecthook(["train", "--work-dir", "run", *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"aspecthook train: {says}") and said.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_can_be_resumed(number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "aspecthook", "train", "--epochs", "400", "--work-dir", str(folder)]
    changes = [word for change in QUIET for word in ("--set", change)]
    process = subprocess.Popen([*command, *changes], stderr=subprocess.PIPE, text=True)
    while not list(folder.glob("epoch_*")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    if number == signal.SIGINT:
        assert process.returncode == 130 and said.rstrip().endswith("interrupted")
    else:
        assert process.returncode == -signal.SIGTERM
    assert (folder / "interrupted.ckpt").exists()
    stood = load(folder / "interrupted.ckpt")["progress"]
    assert stood["epoch"] >= 1
    done = run("--resume", "--epochs", stood["epoch"] + 1, "--work-dir", folder)
    assert done.returncode == 0, done.stderr
    assert load(folder / f"epoch_{stood['epoch'] + 1}.safetensors")["progress"]["epoch"] == stood["epoch"] + 1


def test_an_error_of_the_system_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setitem(_train.DATA, "digits", fail)
    assert aspecthook(["train", "--work-dir", str(tmp_path)]) == 1
    assert "Input/output error" in capsys.readouterr().err


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    assert aspecthook(["train"]) == 2
    assert "xxhash is not installed: pip install xxhash" in capsys.readouterr().err


# What a folder that was received may do


def received(folder: Path, **sections: Any) -> Path:
    """Make the folder of a run, with a config as a stranger might write it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**settings(folder, "run.max_epochs=1"), **sections}))
    return folder


@pytest.mark.parametrize(
    "sections",
    [
        {"data": {"type": "os:system", "command": "touch {bait}"}},
        {"optimizer": {"type": "os:system", "command": "touch {bait}"}},
        {"hooks": [{"type": "os:system", "command": "touch {bait}"}]},
        {"checkpoint": {"interval": 1, "out_dir": "{bait}"}},
        {"plot": {"path": "../{bait}"}},
        {"log": {"hooks": [{"type": "TextLoggerHook", "path": "conftest.py"}]}},
        {"hooks": [{"type": "ModelCheckpoint", "filepath": "{bait}"}]},
        {"hooks": ["History"]},
        {"hooks": [{"type": "CheckpointLoaderHook", "path": "here"}]},
        {"report": {"git_status": True}},  # runs the filters that the folder's git configuration names
        {"report": True, "plot": {"dpi": 100_000}},  # a picture of 60 GB
        {"data": {"type": "digits", "split": "train"}},
        {"run": {"seed": "http://localhost:9"}},
        {"lr": {"policy": "cosine", "type": "LambdaCallback"}},
        {"checkpoint": {"save_best": "../../best"}},
    ],
    ids=lambda sections: json.dumps(sections)[:60],
)
def test_the_config_of_a_received_folder_is_not_code(
    sections: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--resume` imported and called whatever the config.json in the folder named, and sent metrics where it said."""
    bait = tmp_path / "bait"
    folder = received(tmp_path / "run", **json.loads(json.dumps(sections).replace("{bait}", str(bait))))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert aspecthook(["train", "--resume", "--work-dir", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "--config" in said and said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before and not bait.exists()


def test_a_received_config_whose_run_is_no_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert aspecthook(["train", "--resume", "--work-dir", str(received(tmp_path / "run", run=True))]) == 2
    assert "[run] is a bool; give a table" in capsys.readouterr().err


def test_a_received_folder_is_resumed_in_its_own_place_and_a_trusted_config_may_name_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its config.json may name another `work_dir`, which the run is not to write to."""
    train(settings(tmp_path / "run", "run.max_epochs=1"))
    folder = received(tmp_path / "run", run={"work_dir": str(tmp_path / "elsewhere")})
    assert load_settings(folder / "config.json", trusted=False)["run"]["work_dir"] == str(folder)
    monkeypatch.chdir(folder)
    assert aspecthook(["train", "--resume", "--epochs", "2", "--work-dir", "."]) == 0
    assert (folder / "epoch_2.safetensors").exists() and not (tmp_path / "elsewhere").exists()
    hook = {"type": "aspecthook.training:EMAHook"}
    received(folder, hooks=[hook])
    again = ["train", "--resume", "--epochs", "3", "--work-dir", "."]
    assert aspecthook(again) == 2
    assert aspecthook([*again, "--config", "config.json"]) == 0, capsys.readouterr().err
    assert json.loads((folder / "config.json").read_text())["hooks"] == [hook]
