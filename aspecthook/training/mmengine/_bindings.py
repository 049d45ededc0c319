"""The methods of mmengine's hooks as hooks on stages; what is not overridden is never called, as everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from aspecthook import Args
from aspecthook.training.loop._stages import NAMES
from aspecthook.training.loop._systems import Row

from ._runner import MMRunner
from ._tensors import with_arrays, with_tensors

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner


def is_mmengine(hook: object) -> bool:
    """Say whether it is one of mmengine's hooks."""
    return _base(hook) is not None


def _base(hook: object) -> type | None:
    for cls in type(hook).__mro__:
        if cls.__module__ == "mmengine.hooks.hook" and cls.__name__ == "Hook":
            return cls
    return None


def rows(hook: object, runner: Runner) -> list[Row]:
    """Give a row for each method that is overridden."""
    theirs, base = MMRunner(runner), _base(hook)
    names = [name for name in NAMES if hasattr(base, name) and _acts(hook, base, name)]
    found = [Row(stage, _adapted(hook, name, theirs)) for name in names for stage in NAMES[name] if name != _LOADED]
    if _LOADED in names:
        loading = _Loading(cast("Any", hook).after_load_checkpoint, theirs)
        found += [Row(NAMES[_LOADED][0], loading.load), Row(NAMES["before_run"][0], loading.begin)]
    return found


_LOADED = "after_load_checkpoint"


def _acts(hook: object, base: type | None, name: str) -> bool:
    """Say whether a method does anything: it, or the general one that it calls, is overridden."""
    when, _, rest = name.partition("_")
    general = f"_{when}_{rest.rpartition('_')[2]}"  # `_before_epoch` is what `before_train_epoch` calls
    return any(
        getattr(type(hook), method, None) is not getattr(base, method, None)
        for method in (name, general)
        if hasattr(base, method)
    )


def _adapted(hook: object, name: str, theirs: MMRunner) -> Callable[..., Any]:
    """Give the method with what mmengine gives it in the place of what ours is; what it answers means nothing there."""
    method: Callable[..., Any] = getattr(hook, name)
    if name == "before_save_checkpoint":
        return _on_save(method, theirs)
    wanted = inspect.signature(method).parameters
    if "metrics" in wanted:
        return _on_metrics(method, theirs)
    if "outputs" in wanted and name.startswith("after_"):
        return _on_outputs(method, theirs)
    return _silent(partial(method, theirs))


def _silent(method: Callable[..., Any]) -> Callable[..., Any]:
    def alone() -> None:
        method()

    def with_batch(batch_idx: int, data_batch: Any) -> None:
        method(batch_idx, data_batch=data_batch)

    return with_batch if "batch_idx" in inspect.signature(method).parameters else alone


def _on_outputs(method: Callable[..., Any], theirs: MMRunner) -> Callable[..., None]:
    def after_iter(batch_idx: int, data_batch: Any, outputs: Any) -> None:
        method(theirs, batch_idx, data_batch=data_batch, outputs=_numbers(outputs))

    return after_iter


# Any: what a model makes is its own.
def _numbers(outputs: Any) -> Any:
    """Give what mmengine's models give in training: a dict of numbers."""
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
    """Let a hook change a checkpoint in place, of which it knows the model's part as `state_dict`."""
    given = {name: value if name in _OURS else with_tensors(value) for name, value in checkpoint.items()}
    given["state_dict"] = given.pop("model")
    method(theirs, given)
    model = with_arrays(given.pop("state_dict"))
    return {**{name: with_arrays(value) for name, value in given.items()}, "model": model}


class _Loading:
    """A hook that hears of a checkpoint that was loaded: after `before_run`, where mmengine loads it, or later."""

    def __init__(self, method: Callable[..., Any], theirs: MMRunner) -> None:
        self._method, self._theirs = method, theirs
        self._begun = False
        self._waiting: dict[str, Any] | None = None

    def load(self, checkpoint: dict[str, Any]) -> Args | None:
        if self._begun:
            return Args(checkpoint=_changed(self._method, self._theirs, checkpoint))
        self._waiting = checkpoint
        return None

    def begin(self, runner: Runner) -> None:
        self._begun = True
        checkpoint, self._waiting = self._waiting, None
        if checkpoint is not None:
            changed = _changed(self._method, self._theirs, checkpoint)
            runner.backend.load_state(runner.model, changed["model"])


_OURS = ("meta", "progress", "optimizer", "gradients", "amp", "random", "logs", "hooks")
