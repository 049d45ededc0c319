"""A run has an identity, in its folder and in each checkpoint: what one run saved is not taken for another's."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from aspecthook.training import CheckpointHook, Hook, Runner, TrainingError
from aspecthook.training.checkpoint import load, newest, save
from aspecthook.training.job._settings import load_settings
from aspecthook.training.job._train import train
from tests.training.kit import data, run_of

BARE = ["progress=false", "plot=false", "report=false", "log=false", "timer=false"]


def settings(folder: Path, *changes: str) -> dict[str, Any]:
    return load_settings(changes=[f"run.work_dir='{folder}'", *BARE, *changes])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def trained(folder: Path, epochs: int = 2, *hooks: Any) -> Runner:
    """Return a runner that has trained in a folder, and saved a checkpoint after each epoch."""
    runner = run_of("numpy", None, [CheckpointHook(), *hooks], work_dir=folder, max_epochs=epochs)
    runner.fit(data(2))
    return runner


class Killed(BaseException):
    """Stands for a SIGKILL: nothing is saved."""


class KillAtFirst(Hook):
    """Ends the run before its first iteration."""

    def before_train_iter(self) -> None:
        raise Killed


# Folders


def test_every_checkpoint_and_the_folder_have_the_identity_of_the_run(tmp_path: Path) -> None:
    runner = trained(tmp_path)
    assert json.loads((tmp_path / "run.json").read_text()) == {"identity": runner.identity}
    for name in ("epoch_1", "epoch_2"):
        assert load(tmp_path / f"{name}.safetensors")["meta"]["identity"] == runner.identity
    assert runner.identity != run_of("numpy").identity


def test_a_new_run_sets_the_checkpoints_of_the_one_before_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = trained(tmp_path, 3)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    save(tmp_path / "nobody's.safetensors", {"model": {}})
    save(tmp_path / ".saving-1" / "file", {})  # which a killed process has left
    (tmp_path / "notes.txt").write_text("mine")
    with caplog.at_level(logging.INFO):
        second = trained(tmp_path, 1)
    assert names(tmp_path) == ["epoch_1.safetensors", "notes.txt", "run.1", "run.json"]
    (tmp_path / "notes.txt").unlink()
    (tmp_path / "run.1" / "nobody's.safetensors").unlink()
    del before["run.json"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "run.1").iterdir()} == before
    told = f"{tmp_path} held checkpoints that this run does not continue, which were moved to {tmp_path / 'run.1'}"
    assert told in caplog.messages
    trained(tmp_path, 1)
    assert load(tmp_path / "run.2" / "epoch_1.safetensors")["meta"]["identity"] == second.identity

    again = run_of("numpy", work_dir=tmp_path / "run.1", max_epochs=4)  # which is the folder of the first run now
    again.resume(newest(tmp_path / "run.1") or "")
    again.fit(data(2))
    assert (again.epoch, again.identity) == (4, first.identity)


def test_a_run_that_is_resumed_from_an_earlier_checkpoint_sets_the_later_ones_aside(tmp_path: Path) -> None:
    """They are of another course of the run, and the furthest in the folder is what `--resume` continues."""
    trained(tmp_path, 4)
    resumed = run_of("numpy", None, [CheckpointHook()], work_dir=tmp_path, max_epochs=3)
    resumed.resume(tmp_path / "epoch_2.safetensors")
    resumed.fit(data(2))
    assert names(tmp_path) == [*(f"epoch_{epoch}.safetensors" for epoch in (1, 2, 3)), "run.1", "run.json"]
    assert names(tmp_path / "run.1") == ["epoch_3.safetensors", "epoch_4.safetensors"]
    assert newest(tmp_path) == tmp_path / "epoch_3.safetensors"


def test_a_checkpoint_of_another_run_is_renamed_before_one_of_its_name_is_saved(tmp_path: Path) -> None:
    """In a folder of several runs, such as an `out_dir`, nothing is set aside, and nothing is overwritten."""
    for _ in range(3):
        run_of("numpy", None, [CheckpointHook(out_dir=tmp_path, max_keep=1)], work_dir=tmp_path / "w").fit(data(2))
    assert [name for name in names(tmp_path) if name != "w"] == [
        "epoch_2.1.safetensors",
        "epoch_2.2.safetensors",
        "epoch_2.safetensors",
    ]
    identities = [load(tmp_path / f"epoch_2{which}.safetensors")["meta"]["identity"] for which in (".1", ".2", "")]
    assert len(set(identities)) == 3


def test_the_newest_checkpoint_of_a_folder_is_one_of_its_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trained(tmp_path / "one", 1)
    trained(tmp_path / "two", 3)
    (tmp_path / "two" / "epoch_3.safetensors").rename(tmp_path / "one" / "epoch_3.safetensors")
    with caplog.at_level(logging.INFO):
        assert newest(tmp_path / "one") == tmp_path / "one" / "epoch_1.safetensors"
    assert f"ignored: {tmp_path / 'one' / 'epoch_3.safetensors'} is a checkpoint of another run" in caplog.messages
    (tmp_path / "one" / "run.json").unlink()
    assert newest(tmp_path / "one") == tmp_path / "one" / "epoch_3.safetensors", "the folder belongs to no run"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"identity": 3}', "\xff", "a pipe"])
def test_a_folder_whose_identity_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    trained(tmp_path, 1)
    if text == "a pipe":  # which is not waited for
        (tmp_path / "run.json").unlink()
        os.mkfifo(tmp_path / "run.json")
    else:
        (tmp_path / "run.json").write_text(text, "latin-1")
    with pytest.raises(TrainingError, match=r"run\.json does not name a run.*remove it"):
        newest(tmp_path)
    with pytest.raises(TrainingError, match=r"run\.json does not name a run"):
        trained(tmp_path, 1)


# Resuming


def test_a_checkpoint_of_another_run_is_resumed_only_on_purpose(tmp_path: Path) -> None:
    first = trained(tmp_path / "first")
    second = trained(tmp_path / "second", 1)
    theirs = tmp_path / "first" / "epoch_2.safetensors"
    for runner in (run_of("numpy", work_dir=tmp_path / "second", max_epochs=3), second):
        before = runner.state_dict()
        with pytest.raises(TrainingError, match=r"of another run.*other_run=True.*--overwrite"):
            runner.resume(theirs)
        assert (
            str(runner.state_dict()["model"]) == str(before["model"])
            and runner.progress.state_dict() == before["progress"]
        )
    runner = run_of("numpy", None, [CheckpointHook()], work_dir=tmp_path / "second", max_epochs=3)
    runner.resume(theirs, other_run=True)
    assert runner.identity == first.identity
    runner.fit(data(2))
    assert names(tmp_path / "second") == ["epoch_3.safetensors", "run.1", "run.json"]
    assert newest(tmp_path / "second") == tmp_path / "second" / "epoch_3.safetensors"


# The command


def test_a_run_that_was_overwritten_and_killed_is_not_resumed_in_place_of_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`--resume` continued the old run, under the settings of the new one."""
    logs = "log={hooks = ['CsvLoggerHook']}"
    train(settings(tmp_path, "run.max_epochs=1", logs))
    old, rows = (tmp_path / "config.json").read_bytes(), (tmp_path / "log.csv").read_bytes()

    def killed(self: Runner, *_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "fit", killed)
        with pytest.raises(Killed):
            train(settings(tmp_path, "run.max_epochs=3", "optimizer.lr=0.5"), overwrite=True)
    with pytest.raises(TrainingError, match=r"no checkpoint to resume from.*run\.1"):
        train(settings(tmp_path, "run.max_epochs=3"), resume="")
    assert (tmp_path / "run.1" / "config.json").read_bytes() == old
    assert json.loads((tmp_path / "config.json").read_text())["optimizer"]["lr"] == 0.5

    train(settings(tmp_path / "run.1", "run.max_epochs=2", logs), resume="")
    assert (tmp_path / "run.1" / "epoch_2.safetensors").exists()
    # Its logs had stayed, and it warned that rows were lost.
    assert (tmp_path / "run.1" / "log.csv").read_bytes()[:99] == rows[:99] and not caplog.records


def test_a_kill_while_the_old_run_is_set_aside_mixes_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each moment the folder names one run, and the newest checkpoint in it is of that run."""
    for number in range(8):
        folder = tmp_path / f"{number}"
        first, calls = trained(folder, 3), 0

        def counted(original: Any, number: int = number) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                nonlocal calls
                if calls == number:
                    raise Killed
                calls += 1
                return original(*args, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("rename", "replace"):
                patch.setattr(Path, name, counted(getattr(Path, name)))
            try:
                trained(folder, 1, KillAtFirst())
            except Killed:
                pass
        identity = json.loads((folder / "run.json").read_text())["identity"]
        found = newest(folder)
        if identity == first.identity:
            assert found == folder / "epoch_3.safetensors"
        else:
            assert found is None
        kept = [load(path)["meta"]["identity"] for path in folder.rglob("epoch_*")]
        assert kept == [first.identity] * 3, "nothing is lost"


def test_a_folder_on_a_full_disk_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("aspecthook.training.checkpoint._folder.put", full)
    with pytest.raises(
        TrainingError, match="cannot become the folder of this run: No space .*; free some space, check"
    ):
        trained(tmp_path, 1)
