"""Running a job: from settings to a trained and tested model, with checkpoints, logs, curves and a report."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from aspecthook._errors import ConfigError, add_note, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._files import own_path, put
from aspecthook.training.checkpoint._folder import newest
from aspecthook.training.data._loading import ArrayDataset, DataLoader
from aspecthook.training.loop._checks import seed_of
from aspecthook.training.loop._runner import Runner
from aspecthook.training.numpy import manual_seed

from ._build import build_model, build_optimizer, load_data, load_torch
from ._settings import Settings

_BACKENDS = ("numpy", "torch")
_CONFIG = "config.json"
# Sections that are one hook each, in addition to those that register_training_hooks knows.
_OTHERS = {"guard": "NanGuardHook", "progress": "ProgressHook", "plot": "PlotHook", "report": "ReportHook"}


class Outcome(NamedTuple):
    """The result of a job.

    Attributes:
        accuracy: The fraction of the test images that were classified correctly, from 0 to 1.
        images: The number of test images.
        checkpoint: The checkpoint that was tested; None if the model was tested as it was at the end.
        seconds: The duration of the training.
        runner: The runner.
    """

    accuracy: float
    images: int
    checkpoint: Path | None
    seconds: float
    runner: Runner


class Job(NamedTuple):
    """A runner that is ready to fit, and its data."""

    runner: Runner
    train: DataLoader
    validate: DataLoader | None
    test: DataLoader


def train(settings: Settings, *, resume: str | None = None, overwrite: bool = False) -> Outcome:
    """Train and test a model as the settings say.

    Args:
        settings: The settings, from `load_settings`.
        resume: The checkpoint to resume from; ``""`` for the furthest in the ``work_dir``.
        overwrite: Whether to begin in a ``work_dir`` that holds another run, whose checkpoints are then set aside: a
            new run, or with `resume` that of the checkpoint.

    Raises:
        ConfigError: The settings name something that cannot be built.
        TrainingError: The ``work_dir`` already holds a run, there is nothing to resume from, or the training fails.
    """
    folder = Path(settings["run"]["work_dir"])
    if resume is None and not overwrite and (folder / _CONFIG).exists():
        raise TrainingError(
            f"{folder} already holds a run; continue it with --resume, replace it with --overwrite, or use another "
            "--work-dir"
        )
    saved = None if resume is None else _checkpoint_in(folder, resume)
    job = build(settings)
    if saved is not None:
        job.runner.resume(saved, other_run=overwrite)
    began = perf_counter()
    try:
        aside = job.runner.take_folder()  # before the config changes: that of one run never stands beside another's
        if aside is not None and (folder / _CONFIG).exists():
            (folder / _CONFIG).rename(aside / _CONFIG)
        folder.mkdir(parents=True, exist_ok=True)
        put(own_path(folder, _CONFIG), (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
        job.runner.fit(job.train, job.validate)
    finally:
        job.runner.leave()  # the folder, if the config could not be written
    return _test(job, perf_counter() - began)


def build(settings: Settings) -> Job:
    """Build a runner and its data from settings, without writing anything."""
    run, seed = settings["run"], seed_of(settings["run"]["seed"]) or 0
    backend = run["backend"]
    if backend not in _BACKENDS:
        raise ConfigError(
            f"[run]: there is no backend {brief(backend)}; use 'numpy' or 'torch'{nearest(backend, [*_BACKENDS])}"
        )
    manual_seed(seed)  # for the initial parameters of the model
    if backend == "torch":
        load_torch().manual_seed(seed)
    parts = load_data(settings["data"], seed)
    images, labels = parts[0]
    model = build_model(settings["model"], backend, images.shape[1:], int(labels.max()) + 1)
    runner = Runner(
        model,
        optimizer=build_optimizer(settings["optimizer"], backend, model.net.parameters()),
        work_dir=run["work_dir"],
        max_epochs=run["max_epochs"],
        accumulate=run["accumulate"],
        amp=run["amp"],
        seed=seed,
        meta={"config": settings},
    )
    _register(runner, settings, validates=parts[1] is not None)
    train, held_out, test = parts
    size = settings["data"]["batch_size"]
    return Job(
        runner,
        DataLoader(ArrayDataset(*train), size, shuffle=True, seed=seed),
        None if held_out is None else DataLoader(ArrayDataset(*held_out), 256),
        DataLoader(ArrayDataset(*test), 256),
    )


def _register(runner: Runner, settings: Settings, *, validates: bool) -> None:
    clip, checkpoint = _hook_config(settings, "clip"), _hook_config(settings, "checkpoint")
    if checkpoint is not None and not validates and str(checkpoint.get("save_best", "")).startswith("val_"):
        checkpoint = {**checkpoint, "save_best": None}
    others = [(_hook_config(settings, name), kind) for name, kind in _OTHERS.items()]
    runner.register_training_hooks(
        lr_config=_hook_config(settings, "lr", "LrUpdaterHook"),
        momentum_config=_hook_config(settings, "momentum", "MomentumUpdaterHook"),
        optimizer_config={"grad_clip": clip} if clip else None,
        checkpoint_config=None if checkpoint is None else {"type": "CheckpointHook", **checkpoint},
        timer_config=_hook_config(settings, "timer", "IterTimerHook"),
        log_config=_hook_config(settings, "log"),
        custom_hooks=[{"type": kind, **section} for section, kind in others if section is not None],
    )
    for number, config in enumerate(settings.get("hooks", []), 1):
        try:
            runner.register_hook(config)
        except Exception as error:
            add_note(error, f"in entry {number} of [[hooks]]")
            raise


def _hook_config(settings: Settings, name: str, kind: str | None = None) -> Settings | None:
    """Return the config of a hook, with its default type; None if the section is left out."""
    section: Any = settings.get(name, False)
    if section is False:
        return None
    return {"type": kind, **section} if kind is not None else dict(section)


# The folder


def _checkpoint_in(folder: Path, resume: str) -> Path:
    place = Path(resume) if resume else folder
    found = newest(place) if place.is_dir() else place if place.exists() else None
    if found is None:
        others = sorted(place.glob("run.*[0-9]"))
        other = f"; that of an earlier run is continued with --resume --work-dir {others[-1]}" if others else ""
        raise TrainingError(
            f"there is no checkpoint to resume from in {place}; start a new run without --resume{other}"
        )
    return found


def _test(job: Job, seconds: float) -> Outcome:
    """Test the best checkpoint, or the model as it is if there is none."""
    best = next((hook.best for hook in job.runner.hooks if getattr(hook, "best", None) is not None), None)
    if best is not None and not best.exists():  # it stayed in the folder that the run began in
        best = None
    if best is not None:
        job.runner.load_checkpoint(best)
    numbers = job.runner.test(job.test)
    return Outcome(float(numbers["test_accuracy"]), len(job.test.dataset), best, seconds, job.runner)
