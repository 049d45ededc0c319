"""Running a job: from settings to a trained and tested model, with checkpoints, logs, curves and a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aspecthook._errors import ConfigError
from aspecthook.training import numpy as ours
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, one_of, whole_number
from aspecthook.training.checkpoint._files import own_path, path_of, put
from aspecthook.training.checkpoint._folder import newest
from aspecthook.training.data._loading import ArrayDataset, DataLoader, load_digits, permutation
from aspecthook.training.loop._runner import Runner
from aspecthook.training.registry._registry import Registry

from ._settings import HOOKS, Settings

Library: TypeAlias = Any  # the modules, optimizers and tensors of NumPy or PyTorch, which have the same names

DATA = Registry("data", imports=True)
DATA.register(load_digits, name="digits")
_CONFIG = "config.json"


class Outcome(NamedTuple):
    """The result of a job, on the test images."""

    accuracy: float  # the share of the images that were classified correctly
    images: int
    checkpoint: Path | None  # the best one, which was tested; None if the model was tested as it was at the end


def train(settings: Settings, *, resume: str | None = None, overwrite: bool = False) -> Outcome:
    """Train and test a model as the settings say; resume it from a checkpoint, or from the furthest if it is ``""``.

    With `overwrite`, the checkpoints, the config and the logs of another run in the ``work_dir`` are set aside.
    """
    folder = path_of("[run]", settings["run"]["work_dir"], "work_dir")
    if resume is None and not overwrite and (folder / _CONFIG).exists():
        raise TrainingError(
            f"{folder} already holds a run; continue it with --resume, replace it with --overwrite, or use another "
            "--work-dir"
        )
    saved = None
    if resume is not None:
        place = Path(resume or folder)
        saved = place if place.is_file() else newest(place)
        if saved is None:
            raise TrainingError(
                f"there is no checkpoint to resume from in {place}; start a new run without --resume, or name that of "
                "an earlier run, which is in its folders run.1, run.2, if any"
            )
    seed = whole_number("[run]", "seed", settings["run"]["seed"], 0)
    data, held_out, test = _data(settings["data"], seed)
    loader = DataLoader(data, settings["data"]["batch_size"], shuffle=True, seed=seed)
    runner = _runner(settings, seed, *data.arrays)
    if saved is not None:
        runner.resume(saved, other_run=overwrite)
    # Before the config changes, so that the config of one run never lies beside the checkpoints of another.
    moved_to = runner.claim_folder()
    if moved_to is not None:
        for path in (*folder.glob(_CONFIG), *(folder.glob("log.*") if resume is None else ())):
            path.rename(moved_to / path.name)
    put(own_path(folder, _CONFIG), (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
    runner.fit(loader, DataLoader(held_out, 256))
    bests = [getattr(hook, "best", None) for hook in runner.hooks]
    # The best checkpoint of a resumed run may have stayed in the folder that the run began in.
    best = next((path for path in bests if isinstance(path, Path) and path.exists()), None)
    if best is not None:
        runner.load_checkpoint(best)
    accuracy = runner.test(DataLoader(test, 256))["test_accuracy"]
    return Outcome(float(accuracy), len(test), best)


def _data(section: Settings, seed: int) -> list[ArrayDataset]:
    """Return the images and labels to train on, to validate on and to test on."""
    source = {name: value for name, value in section.items() if name not in ("batch_size", "held_out")}
    fraction = finite_number("[data]", "held_out", section["held_out"], above=0, below=1)
    (images, labels), test = (DATA.build_from_config({**source, "split": split}) for split in ("train", "test"))
    is_held_out = np.zeros(len(labels), bool)
    is_held_out[permutation(len(labels), seed, 0)[: round(len(labels) * fraction)]] = True
    parts = [ArrayDataset(images[where], labels[where]) for where in (~is_held_out, is_held_out)]
    return [*parts, ArrayDataset(*test)]


# The model


class Classifier:
    """A network that scores classes of images, rows of pixels from 0 to 1, and is validated by loss and accuracy."""

    def __init__(self, net: Library, loss: Callable[[Library, Library], Library]) -> None:
        self.net, self.loss = net, loss
        self.train, self.eval = net.train, net.eval  # the runner switches between the two modes

    def __call__(self, images: Library) -> Library:
        return self.net(images.reshape(len(images), -1))

    def val_step(self, batch: tuple[Library, Library], optimizer: Library) -> dict[str, Any]:  # noqa: ARG002
        """Return the loss and the accuracy of a batch."""
        images, labels = batch
        scores = self(images)
        right = (scores.argmax(axis=1) == labels).sum().item() / len(labels)
        numbers = {"loss": self.loss(scores, labels).item(), "accuracy": right}
        return {"log_vars": numbers, "num_samples": len(labels)}


def _runner(settings: Settings, seed: int, images: NDArray[Any], labels: NDArray[Any]) -> Runner:
    """Return a runner with its model, its optimizer and its hooks; nothing is written."""
    run = settings["run"]
    backend = one_of("[run]", "backend", run["backend"], ("numpy", "torch"))
    library: Library = ours if backend == "numpy" else import_module("torch")
    library.manual_seed(seed)  # for the initial parameters of the model
    nn, optim, losses = (library,) * 3 if backend == "numpy" else (library.nn, library.optim, library.nn.functional)
    loss: Callable[[Library, Library], Library] = losses.cross_entropy
    parts = Registry("models and optimizers", imports=True)
    parts["mlp"] = partial(_mlp, nn, int(np.prod(images.shape[1:])), int(labels.max()) + 1)
    parts.update({name: getattr(optim, name) for name in ("SGD", "AdamW") if hasattr(optim, name)})
    try:
        model = Classifier(parts.build_from_config(settings["model"]), loss)
        optimizer = parts.build_from_config(settings["optimizer"], params=model.net.parameters())
    except ConfigError:
        raise
    except (TypeError, ValueError, RuntimeError, MemoryError) as error:  # without memory PyTorch raises a RuntimeError
        raise ConfigError(f"{error}; correct the value in [model] or [optimizer]") from error
    options = {name: run[name] for name in ("work_dir", "max_epochs", "accumulate", "amp")}
    runner = Runner(model, optimizer=optimizer, loss=loss, seed=seed, **options)
    hooks = [{"type": kind, **settings[name]} for name, kind in HOOKS.items() if settings[name] is not False]
    runner.register_training_hooks(
        optimizer_config={"grad_clip": settings["clip"]} if settings["clip"] else None,
        log_config=settings["log"],
        timer_config=None,
        custom_hooks=[*hooks, *settings.get("hooks", [])],
    )
    return runner


# The widths of all layers together. The config of a folder from somebody else may say them, and must not take all
# memory: these take a few hundred megabytes at most.
_WIDEST = 10_000


def _mlp(nn: Library, size: int, classes: int, hidden: list[int], dropout: float) -> Library:
    """Return fully connected layers."""
    widths = [whole_number("[model]", "hidden", width, 1) for width in hidden]
    if sum(widths) > _WIDEST:
        raise ConfigError(
            f"[model]: hidden has layers of {sum(widths)} units together; an mlp has at most {_WIDEST}: for more, name "
            "a class of your own as the type of the model"
        )
    layers: list[Library] = []
    for width in widths:
        layers += [nn.Linear(size, width), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, classes))
