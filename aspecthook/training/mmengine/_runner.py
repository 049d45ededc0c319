"""Our runner with the attributes and methods of mmengine's, for the hooks of mmengine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any
from aspecthook.training.loop._run import Run


@final
class Data:
    """The data of a mode, which are their own dataset if they have none."""

    def __init__(self, loader: Any) -> None:  # Any: of whatever library
        self._loader = loader

    @property
    def dataset(self) -> Any:
        """The dataset of the loader, or the loader itself."""
        return getattr(self._loader, "dataset", self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


@final
class Loop:
    """A loop of mmengine's: the data of a mode, and whether to stop."""

    def __init__(self, runner: MMRunner, mode: str) -> None:
        self.runner = runner
        self._mode = mode

    @property
    def dataloader(self) -> Any:  # Any: a loader of whatever library
        """The data."""
        return self.runner.loader(self._mode)

    @property
    def stop_training(self) -> bool:
        """Whether the run should end; set it to True to end the run after this iteration."""
        return self.runner.ours.stopping

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        if stop:
            self.runner.ours.request_stop()

    def __getattr__(self, name: str) -> Any:
        if name in ("epoch", "iter", "max_epochs", "max_iters"):
            return getattr(self.runner, name)
        raise AttributeError(f"a hook of mmengine uses {name!r} of a loop, which our loops do not have")


@final
class OptimWrapper:
    """The wrapper of an optimizer, from which mmengine's hooks read the rates."""

    def __init__(self, runner: Run) -> None:
        self._runner = runner

    @property
    def optimizer(self) -> Any:  # Any: of whatever library
        """The optimizer."""
        return self._runner.optimizer

    def get_lr(self) -> dict[str, list[float]]:
        """Return the learning rates of the parameter groups."""
        return {"lr": self._runner.current_lr()}

    def get_momentum(self) -> dict[str, list[float]]:
        """Return the momenta of the parameter groups, 0 where there is none."""
        return {"momentum": self._runner.current_momentum()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner.optimizer, name)


@final
class MMRunner:
    """Our runner, with the attributes and methods that mmengine's hooks use. A run has one, made with its first hook.

    Args:
        ours: The runner.

    Example:
        >>> from aspecthook.training import Runner
        >>> theirs = MMRunner(Runner(abs, max_epochs=3))
        >>> theirs.max_epochs, theirs.train_loop.max_epochs
        (3, 3)
    """

    def __init__(self, ours: Run) -> None:
        self.ours = ours
        self.train_loop: Loop = Loop(self, "train")
        self.val_loop: Loop = Loop(self, "val")
        self.test_loop: Loop = Loop(self, "test")
        self.optim_wrapper: OptimWrapper = OptimWrapper(ours)
        self.param_schedulers: list[Any] = []  # schedules are hooks here
        self.checkpoint: dict[str, Any] = {}
        self.timestamp: str = time.strftime("%Y%m%d_%H%M%S")
        self._name = f"aspecthook {ours.identity}"  # of the objects that mmengine keeps for the whole process
        self._loaded: Mapping[str, Any] = {}

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the one of a run."""
        for hook in run.hooks:
            if isinstance(hook, cls):
                return hook
        made = cls(run)
        run.hooks.append(made)  # checkpoints keep its state
        return made

    # The run

    def loader(self, mode: str) -> Any:  # Any: of whatever library
        """Return the data of a mode, or None."""
        found = self.ours.loaders.get(mode)
        return None if found is None else Data(found)

    @property
    def max_epochs(self) -> int:
        """The number of epochs; 1 for a run that counts iterations."""
        return self.ours.max_epochs or 1

    @property
    def work_dir(self) -> str:
        """The folder of the run, as a string."""
        if self.ours.work_dir is None:
            raise TrainingError("a hook of mmengine uses the work_dir; give Runner(..., work_dir=...)")
        return str(self.ours.work_dir)

    @property
    def log_dir(self) -> str:
        """The folder of the logs, in that of the run."""
        return os.path.join(self.work_dir, self.timestamp)

    _log_dir = log_dir

    @property
    def experiment_name(self) -> str:
        """The name of the run: that of its folder."""
        return "aspecthook" if self.ours.work_dir is None else self.ours.work_dir.name

    @property
    def _resume(self) -> bool:
        return self.ours.resumed

    @property
    def _train_loop(self) -> Loop | None:  # None in mmengine's runner if it only validates or tests
        return self.train_loop if "train" in self.ours.loaders else None

    # What mmengine has of its own. Any, below: its objects

    @property
    def cfg(self) -> Any:
        """The config of the run: the `meta` of the runner."""
        return import_module("mmengine.config").Config(dict(self.ours.meta))

    @cached_property
    def message_hub(self) -> Any:
        """The message hub of the run, with what a checkpoint has kept."""
        hub = import_module("mmengine.logging").MessageHub.get_instance(self._name)
        _fill(hub, self._loaded)
        return hub

    @cached_property
    def log_processor(self) -> Any:
        """What makes lines and tags of the numbers in the message hub."""
        return import_module("mmengine.runner").LogProcessor(by_epoch=self.ours.by_epoch)

    @cached_property
    def visualizer(self) -> Any:
        """What writes numbers and images into the folder of the logs."""
        kind = import_module("mmengine.visualization").Visualizer
        return kind.get_instance(self._name, vis_backends=[{"type": "LocalVisBackend"}], save_dir=self.log_dir)

    # Checkpoints

    def save_checkpoint(
        self,
        out_dir: str | os.PathLike[str],
        filename: str,
        *_: object,
        save_optimizer: bool = True,
        meta: dict[str, Any] | None = None,
        **__: object,
    ) -> None:
        """Save a checkpoint in our format when the current stage has ended; schedules are hooks, and always in it."""
        path, run = Path(out_dir) / filename, self.ours

        def save() -> None:
            if save_optimizer:
                run.save_checkpoint(path, meta)
            else:
                run.write_checkpoint(path, {**run.state_dict(meta), "optimizer": None})

        run.after_stage(save)

    def state_dict(self) -> dict[str, Any]:
        """Return what is in the message hub, except what neither is plain nor a history of numbers."""
        if "message_hub" not in vars(self):
            return dict(self._loaded)
        kept = self.message_hub.state_dict()
        return {
            "infos": {name: info for name, info in kept["runtime_info"].items() if _is_plain(info)},
            "scalars": {name: np.stack(history.data) for name, history in kept["log_scalars"].items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the message hub, at once or when a hook asks for it."""
        self._loaded = dict(state)
        if "message_hub" in vars(self):
            _fill(self.message_hub, state)

    def __getattr__(self, name: str) -> Any:
        if name in ("train_dataloader", "val_dataloader", "test_dataloader"):
            return self.loader(name.partition("_")[0])
        try:
            return getattr(self.ours, name)
        except AttributeError:
            raise AttributeError(
                f"a hook of mmengine uses {name!r} of its runner, which our runner does not have; see "
                "aspecthook.training.mmengine"
            ) from None


def _is_plain(value: Any) -> bool:
    if is_any(value, dict):
        return all(map(_is_plain, value.values()))
    if is_any(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _fill(hub: Any, state: Mapping[str, Any]) -> None:
    buffer = import_module("mmengine.logging").HistoryBuffer
    infos, scalars = dict(state.get("infos", {})), state.get("scalars", {})
    hub.load_state_dict(
        {
            "runtime_info": infos,
            "log_scalars": {name: buffer(*rows) for name, rows in scalars.items()},
            "resumed_keys": dict.fromkeys((*infos, *scalars), True),
        }
    )
