"""The methods of mmengine's hooks as hooks on stages; methods that are not overridden are never called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from aspecthook import Args
from aspecthook.training.loop._dialect import Binding, Dialect
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._stages import GENERAL, NAMES, Stage

from ._runner import MMRunner
from ._tensors import with_arrays, with_tensors


def _base(hook: object) -> type | None:
    return next((cls for cls in type(hook).__mro__ if (cls.__module__, cls.__name__) == _HOOK), None)


_HOOK = ("mmengine.hooks.hook", "Hook")
# The base class calls `_before_epoch` in `before_train_epoch`, and so on, so an overridden `_before_epoch` counts too.
_DIALECT = Dialect(
    "the mmengine hook",
    _base,
    [*NAMES],
    general={name: f"_{general}" for name, general in GENERAL.items()},
)


def bindings(hook: object, run: Run) -> list[Binding]:
    """Return a binding for each overridden method."""
    theirs, base = MMRunner(run), _base(hook)
    names = [name for name in _DIALECT.methods(hook) if hasattr(base, name)]
    found = [Binding(NAMES[name], _adapted(hook, name, theirs)) for name in names if name != _LOADED]
    if _LOADED in names:
        loading = _Loading(cast("Any", hook).after_load_checkpoint, theirs)
        found += [Binding(NAMES[_LOADED], loading.load), Binding(Stage("run", "pre"), loading.begin)]
    return found


_LOADED = "after_load_checkpoint"


def _adapted(hook: object, name: str, theirs: MMRunner) -> Callable[..., Any]:
    """Return a function that calls a method with mmengine's arguments, and ignores the result, as mmengine does."""
    method: Callable[..., Any] = getattr(hook, name)
    if name == "before_save_checkpoint":
        return _on_save(method, theirs)
    wanted = inspect.signature(method).parameters
    if "metrics" in wanted:
        return _on_metrics(method, theirs)
    if "outputs" in wanted and name.startswith("after_"):
        return _on_outputs(method, theirs)
    return _without_result(partial(method, theirs))


def _without_result(method: Callable[..., Any]) -> Callable[..., Any]:
    def alone() -> None:
        method()

    def with_batch(batch_idx: int, data_batch: Any) -> None:
        method(batch_idx, data_batch=data_batch)

    return with_batch if "batch_idx" in inspect.signature(method).parameters else alone


def _on_outputs(method: Callable[..., Any], theirs: MMRunner) -> Callable[..., None]:
    def after_iter(batch_idx: int, data_batch: Any, outputs: Any) -> None:
        method(theirs, batch_idx, data_batch=data_batch, outputs=_log_vars(outputs))

    return after_iter


# Any: a model returns whatever it likes.
def _log_vars(outputs: Any) -> Any:
    """Return the outputs as mmengine's models return them in training: a dict of numbers."""
    if isinstance(outputs, Mapping) and "log_vars" in outputs:
        return dict(cast("Mapping[str, Any]", outputs)["log_vars"])
    return cast("Any", outputs)


def _on_metrics(method: Callable[..., Any], theirs: MMRunner) -> Callable[..., None]:
    def after_epoch(logs: dict[str, Any], mode: str) -> None:
        lead = f"{mode}_"
        method(theirs, {name.removeprefix(lead): value for name, value in logs.items() if name.startswith(lead)})

    return after_epoch


def _on_save(method: Callable[..., Any], theirs: MMRunner) -> Callable[..., Args]:
    def before_save(checkpoint: dict[str, Any]) -> Args:
        return Args(checkpoint=_changed(method, theirs, checkpoint))

    return before_save


def _changed(method: Callable[..., Any], theirs: MMRunner, checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint as a hook has changed it; the hook finds the parameters under ``"state_dict"``."""
    given = {name: value if name in _OURS else with_tensors(value) for name, value in checkpoint.items()}
    given["state_dict"] = given.pop("model")
    method(theirs, given)
    model = with_arrays(given.pop("state_dict"))
    return {**{name: with_arrays(value) for name, value in given.items()}, "model": model}


class _Loading:
    """A caller of `after_load_checkpoint`, which waits until `before_run`, since mmengine never loads earlier."""

    def __init__(self, method: Callable[..., Any], theirs: MMRunner) -> None:
        self._method, self._theirs = method, theirs
        self._begun = False
        self._waiting: dict[str, Any] | None = None

    def load(self, checkpoint: dict[str, Any]) -> Args | None:
        if self._begun:
            return Args(checkpoint=_changed(self._method, self._theirs, checkpoint))
        self._waiting = checkpoint
        return None

    def begin(self, runner: Run) -> None:
        self._begun = True
        checkpoint, self._waiting = self._waiting, None
        if checkpoint is not None:
            changed = _changed(self._method, self._theirs, checkpoint)
            runner.backend.load_state(runner.model, changed["model"])


_OURS = ("meta", "progress", "optimizer", "gradients", "amp", "random", "logs", "hooks")
