"""A run that SIGKILL ends again and again, at any step or inside a save, is bit for bit the run that nobody killed.

Each run is a child of its own, forked from a process that has imported all it needs. A run that has lost its
checkpoints begins anew and ends like the others, so that its end shows nothing: therefore each run looks, after every
step of a save, whether a kill would now find a checkpoint that can be loaded, and none older than before.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import safetensors.numpy
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aspecthook.training import (
    AmpOptimizerHook,
    CheckpointHook,
    CheckpointLoaderHook,
    CsvLoggerHook,
    EarlyStoppingHook,
    EMAHook,
    EvalHook,
    Hook,
    JsonLoggerHook,
    LrUpdaterHook,
    MomentumUpdaterHook,
    NanGuardHook,
    OptimizerHook,
    Runner,
)
from aspecthook.training.checkpoint import load, newest
from aspecthook.training.data import ArrayDataset, DataLoader
from aspecthook.training.keras import (
    BackupAndRestore,
    EarlyStopping,
    ModelCheckpoint,
    ReduceLROnPlateau,
)
from tests.stress.cases import run
from tests.training.kit import data as batches
from tests.training.kit import flat, run_of

STEPS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("open", "fsync", "rmdir")),
    *((Path, name) for name in ("replace", "rename", "chmod", "unlink", "mkdir", "touch", "write_bytes")),
    (safetensors.numpy, "save_file"),
)
# A killed process leaves what it has written, synced or not, so a folder in memory does, and is faster.
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
CHANGES = ("open", "replace", "rename", "unlink", "save_file")


@dataclass(frozen=True)
class Setting:
    """What is trained, and how."""

    library: str
    accumulate: int
    schedule: str
    ema: str
    stops: bool
    workers: int
    interval: int
    by_epoch: bool
    best: bool
    others: frozenset[str] = frozenset()  # of `OTHERS`


@dataclass(frozen=True)
class Kill:
    """When a run is killed: in an iteration, at a step of a save, or after a part of its time."""

    how: str
    at: int
    first: bool  # before the hooks after an iteration, or after them


class KillIn(Hook):
    """Kills its process in an iteration."""

    def __init__(self, kill: Kill) -> None:
        self.at = kill.at
        self.priority = "HIGHEST" if kill.first else "LOWEST"

    def after_train_iter(self, iter: int) -> None:
        if iter == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class Augmented:
    """Samples to which noise of every generator is added when they are read."""

    def __init__(self, library: str, *arrays: Any) -> None:
        self.library, self.samples = library, ArrayDataset(*arrays)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: Any, /) -> tuple[Any, ...]:
        inputs, targets = self.samples[number]
        noise = random.random() + np.random.random()
        if self.library == "torch":
            import torch

            noise += float(torch.rand(()))
        return (inputs + np.float32(noise)).astype(np.float32), targets


def loader_of(setting: Setting) -> Any:
    arrays = [np.concatenate(parts) for parts in zip(*batches(3), strict=True)]
    dataset = Augmented(setting.library, *arrays)
    if setting.library == "numpy":
        return DataLoader(dataset, 4, shuffle=True)
    from torch.utils.data import DataLoader as TorchLoader

    from aspecthook.training.data import Resumable

    return Resumable(TorchLoader(dataset, 4, shuffle=True, num_workers=setting.workers))


def hooks_of(setting: Setting, folder: Path) -> list[Any]:
    hooks: list[Any] = [
        CheckpointLoaderHook(folder, missing_ok=True),
        CheckpointHook(
            setting.interval,
            by_epoch=setting.by_epoch,
            max_keep=1,
            save_best="loss" if setting.best else None,
        ),
        OptimizerHook({"max_norm": 2.0}),
        NanGuardHook("skip"),
        JsonLoggerHook(2, ignore_last=False),
        CsvLoggerHook(3, ignore_last=False),
    ]
    if setting.ema:
        hooks.append(EMAHook(setting.ema))
    if setting.schedule == "plateau":
        hooks.append(ReduceLROnPlateau("val_loss", factor=0.5, patience=1))
    else:
        hooks.append(LrUpdaterHook(setting.schedule, by_epoch=False, min_lr=0.0, warmup="linear", warmup_iters=5))
        hooks.append(MomentumUpdaterHook(setting.schedule, by_epoch=False, min_momentum=0.5))
    if setting.stops:
        hooks.append(EarlyStoppingHook("val_loss", patience=1, min_delta=0.01))
    return [*hooks, *(OTHERS[name](folder) for name in sorted(setting.others))]


# The other hooks of the package that have a state, but for those that only measure time.
OTHERS: dict[str, Callable[[Path], Any]] = {
    "evaluation": lambda _: EvalHook(batches(2, seed=6), interval=2, by_epoch=False, save_best="loss", rule="less"),
    "keras early stopping": lambda _: EarlyStopping("val_loss", patience=2, restore_best_weights=True),
    "keras best": lambda folder: ModelCheckpoint(folder / "keras" / "best", monitor="val_loss", save_best_only=True),
    "keras backup": lambda folder: BackupAndRestore(folder / "backup", save_freq=2),
    "loss scale": lambda _: AmpOptimizerHook(kind="fp16", loss_scale="dynamic"),
    "bad losses": lambda _: BadLosses(),
}


OF_TORCH = ("loss scale",)


class BadLosses(Hook):
    """Makes the loss of some iterations infinite, which the guard skips."""

    def after_forward(self, iter: int, result: Any) -> Any:
        return result * float("inf") if iter % 5 == 2 else None


def train(setting: Setting, folder: Path, kill: Kill | None) -> None:
    """Train to the end, or to the kill, and save what became of it."""
    extra = []
    folder.mkdir(exist_ok=True)
    if kill is not None and kill.how == "iteration":
        extra.append(KillIn(kill))
    watch_steps(folder, kill.at if kill is not None and kill.how == "step" else None)
    options: dict[str, Any] = {"max_epochs": 4, "accumulate": setting.accumulate, "work_dir": folder}
    runner = run_of(setting.library, hooks=[*hooks_of(setting, folder), *extra], **options)
    runner.fit(loader_of(setting), batches(2, seed=5))
    end(runner, folder)


def end(runner: Runner, folder: Path) -> None:
    """Save what became of a run, where no checkpoint of it is looked for."""
    (folder / "end").mkdir(exist_ok=True)
    runner.save_checkpoint(folder / "end" / "state")


def watch_steps(folder: Path, kill_at: int | None) -> None:
    """Look after each step of a save what a kill would leave, and kill this process before one of them."""
    number, reached, watching = 0, saved_in(folder), threading.RLock()
    looking, process = False, os.getpid()
    synced: set[int] = set()  # the inodes of the files that have been synced since they were last written

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal number, reached, looking
            # A worker of a loader, which may have been forked while a thread held the lock.
            if os.getpid() != process:
                return function(*args, **kwargs)
            with watching:  # the thread of a save, and that of the run, which removes the files
                if looking:
                    return function(*args, **kwargs)
                number += 1
                if number == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                looking = True
                try:
                    if name == "replace":
                        assert args[0].stat().st_ino in synced, f"{args[1]} is replaced by a file that is not synced"
                    result = function(*args, **kwargs)
                    if name == "fsync":
                        synced.add(os.fstat(args[0]).st_ino)
                    if name in ("save_file", "write_bytes"):
                        synced.discard(os.stat(args[name == "save_file"]).st_ino)
                    if name in CHANGES:
                        found = saved_in(folder)
                        # A run that is resumed from an earlier checkpoint, as BackupAndRestore does, sets later ones
                        # aside in `run.1`; they are not lost.
                        is_aside = name == "rename" and Path(args[1]).parent.name.startswith("run.")
                        lost = found < reached and not is_aside
                        assert not lost, f"{name} has lost iteration {reached}, a kill leaves {found}"
                        reached = found
                    return result
                finally:
                    looking = False

        return step

    for owner, name in STEPS:
        setattr(owner, name, watched(name, getattr(owner, name)))


def saved_in(folder: Path) -> int:
    """Return the iteration of the checkpoint that a run would be resumed from; -1 if there is none."""
    found = newest(folder) if folder.exists() else None
    return -1 if found is None else int(load(found)["progress"]["iter"])


def in_child(setting: Setting, folder: Path, kill: Kill | None, seconds: float) -> int:
    """Train in a child; return its exit status, -9 if it was killed."""
    child = os.fork()
    if child == 0:
        os.setsid()
        status = 1
        try:
            train(setting, folder, kill)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    if kill is not None and kill.how == "instant":
        time.sleep(seconds * kill.at / 40)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # A worker of PyTorch's loader asks for its parent's number when it begins, and ends when that has changed. If its
    # parent was killed before, the worker waits for ever, and keeps the output of this process open.
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return status


def outcome(folder: Path) -> Any:
    """Return the state at the end, without times and names of runs, and the rows of the logs."""
    state = load(folder / "end" / "state")
    del state["meta"]
    for name in ("last", "best"):  # a run that was killed between a save and a removal removes a little later
        del state["hooks"]["CheckpointHook"][name]["files"]
    for name in ("KillIn", "CheckpointLoaderHook"):
        state["hooks"].pop(name, None)
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return flat(state), files, rows, (folder / "log.csv").read_text()


def settings_of(library: str) -> st.SearchStrategy[Setting]:
    return st.builds(
        Setting,
        library=st.just(library),
        accumulate=st.integers(1, 3),
        schedule=st.sampled_from(["cosine", "plateau"]),
        ema=st.sampled_from(["", "constant", "warm_up"]),
        stops=st.booleans(),
        workers=st.sampled_from([0, 2]) if library == "torch" else st.just(0),
        interval=st.integers(1, 3),
        by_epoch=st.booleans(),
        best=st.booleans(),
        others=st.frozensets(
            st.sampled_from([name for name in OTHERS if library == "torch" or name not in OF_TORCH]), max_size=4
        ),
    )


KILLS = st.one_of(
    st.builds(Kill, how=st.just("iteration"), at=st.integers(0, 15), first=st.booleans()),
    st.builds(Kill, how=st.just("step"), at=st.integers(1, 300), first=st.just(True)),
    st.builds(Kill, how=st.just("instant"), at=st.integers(0, 40), first=st.just(True)),
)


def property_of(library: str, examples: int) -> Callable[[], None]:
    def load_library() -> None:
        """Import PyTorch before the forks, which otherwise each take seconds for it."""
        if library == "torch":
            import torch

            torch.set_num_threads(1)

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    @given(setting=settings_of(library), kills=st.lists(KILLS, min_size=1, max_size=4))
    def killed_runs(setting: Setting, kills: list[Kill]) -> None:
        load_library()
        with TemporaryDirectory(dir=IN_MEMORY) as folder:
            whole, killed = Path(folder, "whole"), Path(folder, "killed")
            begun = time.monotonic()
            assert in_child(setting, whole, None, 0) == 0
            seconds = time.monotonic() - begun
            for kill in kills:
                status = in_child(setting, killed, kill, seconds)
                assert status in (0, -signal.SIGKILL), status
                if status == 0:
                    break
            if not (killed / "end" / "state").exists():
                assert in_child(setting, killed, None, 0) == 0
            assert outcome(killed) == outcome(whole)

    return killed_runs


CASES = {"numpy": property_of("numpy", 12)}
if find_spec("torch") is not None:
    CASES["torch"] = property_of("torch", 4)

if __name__ == "__main__":
    run(CASES)
