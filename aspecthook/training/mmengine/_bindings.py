"""The methods of mmengine's hooks as hooks on stages; methods that are not overridden are never called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

import numpy as np

from aspecthook import Args, HookOptionError, HookTypeError
from aspecthook.training.backends._state import is_any, is_tensor, map_leaves
from aspecthook.training.loop._dialect import Binding, Dialect
from aspecthook.training.loop._logs import logged_by
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._stages import GENERAL, NAMES, Stage

from ._runner import MMRunner

_LOADED = "after_load_checkpoint"
_HOOK = ("mmengine.hooks.hook", "Hook")
# The parts of a checkpoint that a hook of mmengine gets as they are here; it finds tensors in all others.
_OURS = ("meta", "progress", "optimizer", "gradients", "amp", "random", "logs", "hooks")
# The hooks of mmengine that cannot work here, and why.
_REFUSED = {
    "NaiveVisualizationHook": "it draws data samples of mmengine, which the models of this runner do not return; write "
    "a hook with after_test_iter(batch, outputs)",
    "PrepareTTAHook": "it replaces the model by one that mmengine builds; give that model to the Runner that tests",
}


def _base(hook: object) -> type | None:
    return next((cls for cls in type(hook).__mro__ if (cls.__module__, cls.__name__) == _HOOK), None)


# The base class calls `_before_epoch` in `before_train_epoch`, and so on, so an overridden `_before_epoch` counts too.
_DIALECT = Dialect(
    "the mmengine hook",
    _base,
    [*NAMES],
    general={name: f"_{general}" for name, general in GENERAL.items()},
)


def bindings(hook: object, run: Run) -> list[Binding]:
    """Return a binding for each overridden method; refuse a hook that cannot work here."""
    _check(hook)
    theirs, base = MMRunner.of(run), _base(hook)
    names = [name for name in _DIALECT.methods(hook) if hasattr(base, name)]
    found = [Binding(NAMES[name], _adapted(hook, name, theirs)) for name in names if name != _LOADED]
    if _LOADED in names:
        loading = _Loading(cast("Any", hook).after_load_checkpoint, theirs)
        found += [Binding(NAMES[_LOADED], loading.load), Binding(Stage("run", "pre"), loading.begin)]
    return found


def _check(hook: Any) -> None:
    """Refuse what cannot work on our runner."""
    own: Any = hook.__class__
    kinds = {kind.__name__ for kind in own.__mro__ if kind.__module__.startswith("mmengine.hooks.")}
    who = f"the mmengine hook {own.__name__}"
    for kind, why in _REFUSED.items():
        if kind in kinds:
            raise HookTypeError(f"{who} cannot run here: {why}")
    if "CheckpointHook" in kinds:
        if hook.published_keys is not None:
            raise HookOptionError(
                f"{who}(published_keys=...) reads checkpoints as pickles, and those of this runner are none; leave it "
                "out, and load what you publish with aspecthook.training.checkpoint.load"
            )
        options: dict[str, Any] = {**(hook.file_client_args or {}), **(hook.backend_args or {})}
        if options.get("backend", "local") not in ("local", "disk") or "://" in str(hook.out_dir):
            raise HookOptionError(f"{who} is to save elsewhere than on a disk, and this runner cannot; give a folder")


def _adapted(hook: object, name: str, theirs: MMRunner) -> Callable[..., Any]:
    """Return a function that calls a method with mmengine's arguments, and ignores the result, as mmengine does."""
    method: Callable[..., Any] = getattr(hook, name)
    wanted = inspect.signature(method).parameters

    def on_save(checkpoint: dict[str, Any]) -> Args:
        return Args(checkpoint=_changed(method, theirs, checkpoint))

    def with_metrics(logs: dict[str, Any], mode: str) -> None:
        method(theirs, logged_by(mode, logs))

    def with_outputs(batch_idx: int, data_batch: Any, outputs: Any, logs: dict[str, Any]) -> None:
        shown = _log_vars(outputs, logs) if name == "after_train_iter" else _predicted(outputs)
        method(theirs, batch_idx, data_batch=data_batch, outputs=shown)

    def with_batch(batch_idx: int, data_batch: Any) -> None:
        method(theirs, batch_idx, data_batch=data_batch)

    def alone() -> None:
        method(theirs)

    if name == "before_save_checkpoint":
        return on_save
    if "metrics" in wanted:
        return with_metrics
    if "outputs" in wanted and name.startswith("after_"):
        return with_outputs
    return with_batch if "batch_idx" in wanted else alone


# Any: a model returns whatever it likes.
def _log_vars(outputs: Any, logs: dict[str, Any]) -> Any:
    """Return the outputs as mmengine's models return them in training: a dict of numbers."""
    if not is_any(outputs, Mapping):
        return outputs
    return dict(outputs["log_vars"]) if "log_vars" in outputs else {"loss": logs["loss"]}


def _predicted(outputs: Any) -> Any:
    """Return the outputs as mmengine's models return them in validation and tests: what they have predicted."""
    if not is_any(outputs, Mapping):
        return outputs
    return outputs["outputs"] if "outputs" in outputs else dict(outputs.get("log_vars", outputs))


def _changed(method: Callable[..., Any], theirs: MMRunner, checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint as a hook has changed it; the hook finds tensors, and those of the model as `state_dict`."""
    ours = {name: value for name, value in checkpoint.items() if name in _OURS}
    rest = {name: value for name, value in checkpoint.items() if name not in _OURS}
    given = {**ours, **map_leaves(_tensor_of, rest)}
    given["state_dict"] = given.pop("model")
    method(theirs, given)
    given["model"] = given.pop("state_dict")
    return {**map_leaves(lambda leaf: leaf.detach().cpu().numpy() if is_tensor(leaf) else leaf, given)}


def _tensor_of(leaf: Any) -> Any:
    return import_module("torch").tensor(leaf) if is_any(leaf, np.ndarray) else leaf


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
