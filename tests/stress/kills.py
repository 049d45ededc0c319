"""A run that signals end again and again, in any stage or inside a save, is bit for bit the run that nobody ended.

Each run is a child of its own, forked from a process that has imported all it needs. A run that has lost its
checkpoints begins anew and ends like the others, so that its end shows nothing: therefore each run looks, after every
step of a save, whether a kill would now find a checkpoint that can be loaded, and none older than before.

SIGTERM and Ctrl-C save a checkpoint after the iteration. A second Ctrl-C may end an iteration at once. If the log then
says that resuming is not exact, the checkpoint is removed, and the run continues from the one before.

``python -m tests.stress.kills torch 200`` tries 200 examples, and ``numpy 200`` too; without a number, a few are tried.
"""

from __future__ import annotations

import itertools
import logging
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
    PlotHook,
    Runner,
)
from aspecthook.training.checkpoint import load, newest, save
from aspecthook.training.data import ArrayDataset, DataLoader
from aspecthook.training.keras import (
    BackupAndRestore,
    EarlyStopping,
    ModelCheckpoint,
    ReduceLROnPlateau,
)
from aspecthook.training.logging._report import curves_of
from tests.stress.cases import PATIENCE, run
from tests.training.kit import data as batches
from tests.training.kit import flat, model_of, run_of
from tests.training.loop.test_reading import Counter

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
    loader: str
    ranks: int
    interval: int
    by_epoch: bool
    best: bool
    keep: int | None
    others: frozenset[str] = frozenset()  # of `OTHERS`


@dataclass(frozen=True)
class Kill:
    """When a run gets signals: in the method of a hook, at a step of a save, or after a part of its time; and which."""

    when: str  # the name of a method, "step" or "instant"
    at: int
    first: bool  # before the other hooks of the stage, or after them
    signals: tuple[int, ...]

    def send(self, process: int, pause: float = 0.0) -> None:
        """Send the signals to a rank; Ctrl-C reaches its workers too, as that of a terminal does."""
        for number in self.signals:
            (os.killpg if number == signal.SIGINT else os.kill)(process, number)
            time.sleep(pause)

    def hook(self) -> Any:
        """Return a hook that sends the signals to its own process."""

        def send(_: Hook, iter: int) -> None:
            if iter == self.at:
                self.send(os.getpid())

        return type("KillIn", (Hook,), {self.when: send, "priority": "HIGHEST" if self.first else "LOWEST"})()


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


class Own(Counter):
    """A loader with a state of its own."""

    def __iter__(self) -> Any:
        return (batches(1, seed=number)[0] for number in super().__iter__())


def loader_of(setting: Setting) -> Any:
    if setting.loader == "own":
        return Own()
    arrays = [np.concatenate(parts) for parts in zip(*batches(3), strict=True)]
    if setting.loader == "prefetch":  # a thread that draws from the global generators does not repeat
        return DataLoader(ArrayDataset(*arrays), 4, shuffle=True, prefetch=2)
    dataset: Any = Augmented(setting.library, *arrays)
    if setting.loader == "ours":
        return DataLoader(dataset, 4, shuffle=True)
    from torch.utils.data import DataLoader as TorchLoader

    from aspecthook.training.data import Resumable

    return Resumable(TorchLoader(dataset, 4, shuffle=True, num_workers=2 if setting.loader == "workers" else 0))


def hooks_of(setting: Setting, folder: Path) -> list[Any]:
    hooks: list[Any] = [
        CheckpointLoaderHook(folder, missing_ok=True),
        CheckpointHook(
            setting.interval,
            by_epoch=setting.by_epoch,
            max_keep=setting.keep,
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
    "background": lambda _: Background(),
    "curves": lambda _: Curves(2),
}


OF_TORCH = ("loss scale",)


class BadLosses(Hook):
    """Makes the loss of some iterations infinite, which the guard skips."""

    def after_forward(self, iter: int, result: Any) -> Any:
        return result * float("inf") if iter % 5 == 2 else None


class Background(Hook):
    """Saves each iteration in a thread, as asynchronous savers do, which wait only for the save before."""

    saving: threading.Thread | None = None

    def after_train_iter(self, runner: Runner) -> None:
        runner.after_stage(lambda: self.begin(runner, runner.state_dict()))

    def begin(self, runner: Runner, state: dict[str, Any]) -> None:
        self.always_run()
        if runner.rank == 0 and runner.work_dir is not None:
            self.saving = threading.Thread(target=save, args=(runner.work_dir / "background.ckpt", state))
            self.saving.start()

    def always_run(self) -> None:
        if self.saving is not None:
            self.saving.join()


class Curves(PlotHook):
    """Writes the curves as text, which takes no time."""

    def content(self, runner: Runner) -> bytes:
        return repr(curves_of(self.rows)).encode()


class Inexact(logging.Handler):
    """Removes the checkpoint of an interrupt if the log says that it is not exact."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.is_told = folder, False

    def emit(self, record: logging.LogRecord) -> None:
        self.is_told |= "not resume exactly" in record.getMessage()
        if self.is_told and "; saved" in record.getMessage():
            os.unlink(self.folder / "interrupted.ckpt")  # the unlinking of a path is watched


def train(setting: Setting, folder: Path, kill: Kill | None, rank: int, store: Path) -> None:
    """Train to the end, or to the kill, and save what became of it."""
    extra: list[Any] = []
    model = None
    folder.mkdir(exist_ok=True)
    logging.getLogger("aspecthook.training").addHandler(Inexact(folder))
    if setting.ranks > 1:
        import torch

        os.environ.update(RANK=str(rank), WORLD_SIZE=str(setting.ranks))
        torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=setting.ranks)
        model = torch.nn.parallel.DistributedDataParallel(model_of("torch"))
    if kill is not None and kill.when not in ("step", "instant") and rank == kill.at % setting.ranks:
        extra.append(kill.hook())
    if rank == 0:
        watch_steps(folder, kill if kill is not None and kill.when == "step" else None)
    options: dict[str, Any] = {"max_epochs": 4, "accumulate": setting.accumulate, "work_dir": folder}
    runner = run_of(setting.library, model, [*hooks_of(setting, folder), *extra], **options)
    runner.fit(loader_of(setting), batches(2, seed=5))
    end(runner, folder)


def end(runner: Runner, folder: Path) -> None:
    """Save what became of a run, where no checkpoint of it is looked for."""
    (folder / "end").mkdir(exist_ok=True)
    runner.save_checkpoint(folder / "end" / "state")


def watch_steps(folder: Path, kill: Kill | None) -> None:
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
                if kill is not None and number == kill.at:
                    kill.send(process)
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


def forked(setting: Setting, folder: Path, kill: Kill | None, rank: int, store: Path) -> int:
    """Train in a child; return its number. Its exit status is 130 if a signal, or the end of another rank, ends it."""
    child = os.fork()
    if child == 0:
        status = 130
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.alarm(PATIENCE // 2)
            train(setting, folder, kill, rank, store)
            status = 0
        except Exception as error:
            if setting.ranks == 1 or kill is None or isinstance(error, AssertionError):
                traceback.print_exc()
                status = 1
        finally:
            os._exit(status)
    return child


def in_children(setting: Setting, folder: Path, kill: Kill | None, seconds: float) -> set[int]:
    """Train in a child for each rank; return their exit statuses."""
    store = folder.with_name(f"store{next(NUMBERS)}")
    ranks = [forked(setting, folder, kill, rank, store) for rank in range(setting.ranks)]
    with suppress(ProcessLookupError):  # it has no group yet
        if kill is not None and kill.when == "instant":
            time.sleep(seconds * kill.at / 40)
            kill.send(ranks[kill.at % setting.ranks], pause=kill.at % 5 / 500)
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    if ended is not None and ended.si_status:  # as torchrun does
        for child in ranks:
            os.kill(child, signal.SIGTERM)
    statuses = {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in ranks}
    # A worker of PyTorch's loader asks for its parent's number when it begins, and ends when that has changed. If its
    # parent was killed before, the worker waits for ever, and keeps the output of this process open.
    for child in ranks:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    return statuses


def outcome(folder: Path) -> Any:
    """Return the state at the end, without times and names of runs, and the rows of the logs."""
    state = load(folder / "end" / "state")
    del state["meta"]
    for name in ("last", "best"):  # a run that was killed between a save and a removal removes a little later
        del state["hooks"]["CheckpointHook"][name]["files"]
    for name in ("KillIn", "CheckpointLoaderHook"):
        state["hooks"].pop(name, None)
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    logs = [folder / name for name in ("log.jsonl", "log.csv", "curves.png")]
    return flat(state), files, [path.read_text() for path in logs if path.exists()]


NUMBERS = itertools.count()
LOADERS = {"numpy": ["ours", "prefetch", "own"], "torch": ["ours", "prefetch", "own", "torch", "workers"]}


def settings_of(library: str) -> st.SearchStrategy[Setting]:
    return st.builds(
        Setting,
        library=st.just(library),
        accumulate=st.integers(1, 3),
        schedule=st.sampled_from(["cosine", "plateau"]),
        ema=st.sampled_from(["", "constant", "warm_up"]),
        stops=st.booleans(),
        loader=st.sampled_from(LOADERS[library]),
        ranks=st.sampled_from([1, 2]) if library == "torch" else st.just(1),
        interval=st.integers(1, 3),
        by_epoch=st.booleans(),
        best=st.booleans(),
        keep=st.sampled_from([1, 2, None]),
        others=st.frozensets(
            st.sampled_from([name for name in OTHERS if library == "torch" or name not in OF_TORCH]), max_size=4
        ),
    )


STAGES = (
    *("before_train_iter", "after_forward", "before_optimizer_step", "after_train_iter", "after_train_epoch"),
    *("after_val_iter", "after_val_epoch", "before_save_checkpoint", "after_save_checkpoint", "after_run"),
)
SIGNALS = [(signal.SIGKILL,), (signal.SIGTERM,), (signal.SIGINT,), (signal.SIGINT, signal.SIGINT)]
KILLS = st.one_of(
    st.builds(Kill, st.sampled_from(STAGES), st.integers(0, 15), st.booleans(), st.sampled_from(SIGNALS)),
    st.builds(Kill, st.just("step"), st.integers(1, 300), st.just(True), st.sampled_from(SIGNALS)),
    st.builds(Kill, st.just("instant"), st.integers(0, 40), st.just(True), st.sampled_from(SIGNALS)),
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
            assert in_children(setting, whole, None, 0) == {0}
            seconds = time.monotonic() - begun
            for kill in kills:
                statuses = in_children(setting, killed, kill, seconds)
                assert statuses <= {0, 130, -signal.SIGKILL, -signal.SIGTERM}, statuses
                if statuses == {0}:
                    break
            if not (killed / "end" / "state").exists():
                assert in_children(setting, killed, None, 0) == {0}
            assert outcome(killed) == outcome(whole)

    return killed_runs


CASES = {"numpy": property_of("numpy", 12)}
if find_spec("torch") is not None:
    CASES["torch"] = property_of("torch", 3)

if __name__ == "__main__":
    if len(sys.argv) > 2:
        property_of(sys.argv[1], int(sys.argv[2]))()
    else:
        run(CASES)
