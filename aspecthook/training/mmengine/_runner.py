"""Our runner with the attributes and methods of mmengine's, for the hooks of mmengine."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training.loop._run import Run


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
            return getattr(self.runner.ours, name)
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
        return {"lr": [group["lr"] for group in self._runner.optimizer.param_groups]}

    def get_momentum(self) -> dict[str, list[float]]:
        """Return the momenta of the parameter groups, 0 where there is none."""
        groups = self._runner.optimizer.param_groups
        return {"momentum": [group.get("momentum", group.get("betas", (0,))[0]) for group in groups]}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner.optimizer, name)


@final
class MMRunner:
    """Our runner, with the attributes and methods that mmengine's hooks use.

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

    def loader(self, mode: str) -> Any:  # Any: of whatever library
        """Return the data of a mode, or None."""
        return self.ours.loaders.get(mode)

    @property
    def work_dir(self) -> str:
        """The folder of the run, as a string."""
        if self.ours.work_dir is None:
            raise TrainingError("a hook of mmengine uses the work_dir; give Runner(..., work_dir=...)")
        return str(self.ours.work_dir)

    @property
    def experiment_name(self) -> str:
        """The name of the run: that of its folder."""
        return "aspecthook" if self.ours.work_dir is None else self.ours.work_dir.name

    @property
    def cfg(self) -> Any:  # Any: mmengine's own
        """The config of the run: the `meta` of the runner."""
        return import_module("mmengine.config").Config(dict(self.ours.meta))

    @property
    def message_hub(self) -> Any:  # Any: mmengine's own
        """The message hub, one for each run."""
        hub: Any = import_module("mmengine.logging").MessageHub
        return hub.get_instance(f"aspecthook {id(self.ours)}")

    @property
    def _resume(self) -> bool:
        return self.ours.resumed

    def save_checkpoint(
        self,
        out_dir: str | os.PathLike[str],
        filename: str,
        *_: object,
        meta: dict[str, Any] | None = None,
        **__: object,
    ) -> None:
        """Save a checkpoint in our format; options for remote storage have no effect."""
        self.ours.save_checkpoint(Path(out_dir) / filename, meta)

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
