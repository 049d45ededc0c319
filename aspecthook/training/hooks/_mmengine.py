"""Hooks that were written for mmengine, unchanged: their methods as hooks on stages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, final

from aspecthook import HookTypeError
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any
from aspecthook.training.loop._dialect import GENERAL, NAMES, Binding, Dialect
from aspecthook.training.loop._logs import logged_by
from aspecthook.training.loop._run import Run

_HOOK = "mmengine.hooks.hook"  # the module of the base class


def _base(hook: object) -> type | None:
    return next((cls for cls in type(hook).__mro__ if cls.__module__ == _HOOK), None)


# The base class calls `_before_epoch` in `before_train_epoch`, and so on, so an overridden `_before_epoch` counts too.
_DIALECT = Dialect(
    "the mmengine hook", _base, [*NAMES], general={name: f"_{general}" for name, general in GENERAL.items()}
)


def bindings(hook: object, run: Run) -> list[Binding]:
    """Return a binding for each overridden method; refuse mmengine's own hooks, which need all of its runner."""
    for kind in type(hook).__mro__:
        if kind.__module__.startswith("mmengine.hooks.") and kind.__module__ != _HOOK:
            raise HookTypeError(
                f"{type(hook).__name__} is mmengine's own {kind.__name__}, which needs the runner of mmengine; use the "
                "hook of aspecthook.training for it"
            )
    theirs, base = MMRunner(run), _base(hook)
    names = [name for name in _DIALECT.methods(hook) if hasattr(base, name)]
    return [Binding(NAMES[name], _adapted(getattr(hook, name), name, theirs)) for name in names]


def _adapted(method: Callable[..., object], name: str, theirs: MMRunner) -> Callable[..., None]:
    """Return a function that calls a method with mmengine's arguments, and ignores the result, as mmengine does."""
    wanted = inspect.signature(method).parameters

    def with_checkpoint(checkpoint: dict[str, Any]) -> None:
        method(theirs, checkpoint)

    def with_metrics(logs: dict[str, Any], mode: str) -> None:
        method(theirs, logged_by(mode, logs))

    def with_outputs(batch_idx: int, data_batch: object, outputs: object, logs: dict[str, Any]) -> None:
        if is_any(outputs, Mapping):
            outputs = _shown(outputs, logs, trains=name == "after_train_iter")
        method(theirs, batch_idx, data_batch=data_batch, outputs=outputs)

    def with_batch(batch_idx: int, data_batch: object) -> None:
        method(theirs, batch_idx, data_batch=data_batch)

    def alone() -> None:
        method(theirs)

    if name.endswith("_checkpoint"):
        return with_checkpoint
    if "metrics" in wanted:
        return with_metrics
    if "outputs" in wanted and name.startswith("after_"):
        return with_outputs
    return with_batch if "batch_idx" in wanted else alone


def _shown(outputs: Any, logs: dict[str, Any], *, trains: bool) -> object:
    """Return outputs as mmengine's models return them: numbers in training, otherwise what they have predicted."""
    if trains:
        return dict(outputs["log_vars"]) if "log_vars" in outputs else {"loss": logs["loss"]}
    return outputs["outputs"] if "outputs" in outputs else dict(outputs.get("log_vars", outputs))


@final
class MMRunner:
    """Our runner as hooks of mmengine see it: with a string for its folder, and with loops and loaders by mode."""

    def __init__(self, ours: Run) -> None:
        self.ours = ours

    @property
    def work_dir(self) -> str:
        """The folder of the run, as a string."""
        if self.ours.work_dir is None:
            raise TrainingError("a hook of mmengine uses the work_dir; give Runner(..., work_dir=...)")
        return str(self.ours.work_dir)

    def __getattr__(self, name: str) -> Any:
        mode, _, what = name.partition("_")
        if what == "dataloader" and mode in ("train", "val", "test"):
            return self.ours.loaders.get(mode)
        if what == "loop" and mode in ("train", "val", "test"):
            return _Loop(self.ours, self.ours.loaders.get(mode))
        if hasattr(self.ours, name):
            return getattr(self.ours, name)
        raise AttributeError(f"a hook of mmengine uses {name!r} of its runner, which our runner does not have")


@final
class _Loop:
    """A loop of mmengine's: the data of a mode, and whether to stop."""

    def __init__(self, ours: Run, dataloader: object) -> None:
        self.ours, self.dataloader = ours, dataloader

    @property
    def stop_training(self) -> bool:
        """Whether the run should end; set it to True to end the run after this iteration."""
        return self.ours.stopping

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        if stop:
            self.ours.request_stop()
