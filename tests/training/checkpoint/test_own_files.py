"""The files of a run in a folder that somebody else may have prepared: pipes, symlinks, templates, formulas."""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from aspecthook.cli import main as aspecthook
from aspecthook.training import (
    CheckpointHook,
    CsvLoggerHook,
    JsonLoggerHook,
    Runner,
    TextLoggerHook,
    TrainingError,
)
from aspecthook.training.checkpoint import load, save
from aspecthook.training.checkpoint._files import own_path, put, replacing
from aspecthook.training.checkpoint._folder import NAME
from aspecthook.training.checkpoint._format import sealed
from aspecthook.training.keras import CSVLogger, ModelCheckpoint
from tests.training.kit import data, run_of

posix = pytest.mark.skipif(os.name == "nt", reason="pipes and modes of POSIX")


class Named:
    """Logs a number under a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def after_train_iter(self, logs: dict[str, Any]) -> None:
        logs[self.name] = 1.0


def fit(folder: Path, *hooks: Any, **options: Any) -> Runner:
    runner = run_of("numpy", hooks=hooks, work_dir=folder, **options)
    runner.fit(data(2))
    return runner


# Pipes


@posix
@pytest.mark.parametrize(
    ("name", "hook"),
    [
        ("log.txt", lambda _: TextLoggerHook()),
        ("log.jsonl", lambda _: JsonLoggerHook()),
        ("log.csv", lambda _: CsvLoggerHook()),
        ("mine.txt", lambda folder: TextLoggerHook(path=folder / "mine.txt")),
        ("keras.csv", lambda folder: CSVLogger(str(folder / "keras.csv"))),
    ],
)
def test_a_pipe_in_place_of_a_log_is_refused(name: str, hook: Callable[[Path], Any], tmp_path: Path) -> None:
    """The run waited for ever, and neither Ctrl-C nor SIGTERM ended it."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(TrainingError, match=f"{name} is not a regular file; remove it, or give another path"):
        fit(tmp_path, hook(tmp_path))


@posix
def test_a_pipe_in_place_of_the_config_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert aspecthook(["train", "--resume", "--work-dir", str(tmp_path)]) == 1
    assert "config.json is not a regular file" in capsys.readouterr().err


# Symlinks


def test_a_symlink_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """The config, logs, reports and checkpoints of a run were written through it."""
    home, folder = tmp_path / "home", tmp_path / "run"
    home.mkdir()
    (folder / "sub").mkdir(parents=True)
    (home / "rc").write_text("mine")
    (folder / "out").symlink_to(home / "rc")
    (folder / "up").symlink_to(Path("..", "home"))
    (folder / "inside").symlink_to("sub")
    (tmp_path / "link").symlink_to(folder)
    for name in ("out", "up/rc", "up/new"):
        for way in (folder, tmp_path / "link"):
            with pytest.raises(TrainingError, match="leads out of its folder"):
                own_path(way, name)
    for name in ("new", "inside/new", "sub/new", "../home/rc", str(home / "rc")):
        assert own_path(tmp_path / "link", name) == tmp_path / "link" / name


@pytest.mark.parametrize("name", ["log.txt", "log.csv", "log.jsonl", "epoch_1.safetensors", NAME])
def test_a_run_writes_nothing_through_a_symlink_out_of_its_folder(name: str, tmp_path: Path) -> None:
    folder, victim = tmp_path / "run", tmp_path / "victim"
    folder.mkdir()
    if name != NAME:  # the file that names the run was made at the other end
        victim.write_text("mine\n")
    (folder / name).symlink_to(victim)
    with pytest.raises(TrainingError, match=f"{name} leads out of its folder, to {victim}"):
        fit(folder, TextLoggerHook(), JsonLoggerHook(), CsvLoggerHook(), CheckpointHook())
    assert victim.read_text() == "mine\n" if name != NAME else not victim.exists()


@pytest.mark.parametrize("name", ["config.json", "report.html", "curves.png"])
def test_the_command_writes_nothing_through_a_symlink(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, victim = tmp_path / "run", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("mine\n")
    (folder / name).symlink_to(victim)
    words = ["train", "--overwrite", "--epochs", "1", "--work-dir", str(folder), "--set", "progress=false"]
    assert aspecthook(words) == 1 and f"{name} leads out of its folder" in capsys.readouterr().err
    assert victim.read_text() == "mine\n"


# Whole files, with the modes of those that they replace


def test_the_config_is_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk or a kill left a part of it, with which the run could not be resumed."""
    words = ["train", "--epochs", "1", "--work-dir", str(tmp_path), *["--set", "report=false", "--set", "plot=false"]]
    assert aspecthook(words) == 0
    before = (tmp_path / "config.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert aspecthook([*words, "--overwrite"]) == 1
    assert (tmp_path / "config.json").read_bytes() == before


@posix
def test_a_temporary_file_is_never_wider_than_its_target(tmp_path: Path) -> None:
    """While a checkpoint of mode 0600 was saved, everybody could read the new one."""
    path = tmp_path / "secret.ckpt"
    path.write_bytes(b"")
    path.chmod(0o600)
    before = os.umask(0)
    try:
        with replacing(path) as file:
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700  # whatever is in it, nobody else can read
        put(tmp_path / "new", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666
    path.chmod(0o640)
    save(path, {"a": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and load(path) == {"a": 1}


# Templates


@pytest.mark.parametrize("template", ["{epoch.none}", "{epoch[0]}", "{none}", "{}", "{epoch:none}"])
def test_a_template_that_cannot_be_filled_in_is_named(template: str, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="the template .* cannot be filled in"):
        fit(tmp_path, ModelCheckpoint(str(tmp_path / template)))


# Formulas


@pytest.mark.parametrize("name", ["=1+1", "@SUM(A1)", "'=x", "a-b"])
def test_a_table_has_no_formulas_and_is_continued(name: str, tmp_path: Path) -> None:
    """A metric of such a name was computed by the spreadsheet that opened the table."""
    shown = name if name == "a-b" else f"'{name}"
    runner = fit(tmp_path, Named(name), CsvLoggerHook(interval=1))
    keras = CSVLogger(str(tmp_path / "keras.csv"))
    keras.on_train_begin()
    keras.on_epoch_end(0, {name: 1.0, "text": name})
    assert next(csv.DictReader((tmp_path / "keras.csv").read_text().splitlines()))["text"] == shown
    head = next(csv.reader((tmp_path / "keras.csv").read_text().splitlines()))
    assert shown in head and not any(cell.startswith(("=", "+", "-", "@")) for cell in head)
    saved = runner.save_checkpoint(tmp_path / "saved.ckpt")
    again = run_of("numpy", hooks=[Named(name), CsvLoggerHook(interval=1)], work_dir=tmp_path, max_epochs=3)
    again.resume(saved)
    again.fit(data(2))
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [row["value"] for row in rows if row["name"] == shown] == ["1.0"] * 6
    assert name == shown or name not in {row["name"] for row in rows}
    assert not (tmp_path / "log.1.csv").exists()


# States of hooks that no run writes


@pytest.mark.parametrize(
    ("hook", "change", "why"),
    [
        (TextLoggerHook, {"sums": {"loss": [None, 1.0]}}, "float"),
        (TextLoggerHook, {"place": [1, 2, None]}, "int"),
        (JsonLoggerHook, {"row": ["val", 1, 1, 7, {"a": []}]}, "the state has values that no row can hold"),
        (JsonLoggerHook, {"file": [1]}, "not enough values"),
        (CsvLoggerHook, {"file": [1, []]}, "TypeError: int"),
    ],
)
def test_a_state_that_no_run_writes_is_refused_when_it_is_loaded(
    hook: Any, change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """The run began, and failed in the middle or at its end."""
    runner = fit(tmp_path / "a", hook())
    saved = runner.save_checkpoint(tmp_path / "saved")
    checkpoint = load(saved)
    checkpoint["hooks"][hook.__name__] |= change
    save(saved, checkpoint)
    again = run_of("numpy", hooks=[hook()], work_dir=tmp_path / "b")
    with pytest.raises(TrainingError, match=f"hook {hook.__name__} cannot load its state.*{why}"):
        again.resume(saved)
    assert again.iter == 0


def test_no_text_of_a_checkpoint_controls_the_terminal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    evil = "\x1b[2J\x07"
    caplog.set_level("INFO")
    saved = fit(tmp_path / "a", TextLoggerHook(interval=1)).save_checkpoint(tmp_path / "saved")
    checkpoint = load(saved)
    state = checkpoint["hooks"]
    state[evil] = {"a": 1}
    state["TextLoggerHook"]["row"] = [evil, 1, 2, 2, {evil: evil}]
    save(saved, checkpoint)
    again = run_of("numpy", hooks=[TextLoggerHook(interval=1)], work_dir=tmp_path / "b", max_epochs=3)
    again.resume(saved)
    again.fit(data(2))
    lines = [line for record in caplog.records for line in record.getMessage().splitlines()]
    assert any("?[2J?" in line for line in lines) and [line for line in lines if not line.isprintable()] == []
    arrays = {evil: np.zeros(1)}
    save_file(arrays, tmp_path / "broken", sealed('{"$\u001b[2J": 1}', arrays))
    with pytest.raises(TrainingError) as caught:
        load(tmp_path / "broken")
    assert str(caught.value).isprintable()
