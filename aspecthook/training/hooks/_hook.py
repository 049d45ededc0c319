"""Hooks of a run in the style of mmcv and mmengine: classes whose methods are named after stages.

Registering a hook adds its methods to the runner's mount points. There is no other list of hooks, and no other
priority. A method that is not overridden is never called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aspecthook._core.law.kinds import Kind
from aspecthook._errors import HookSignatureError, brief
from aspecthook.training._dialect import Binding, Dialect
from aspecthook.training.loop._reading import length_of
from aspecthook.training.loop._runner import Runner
from aspecthook.training.registry._registry import Registry

# A config of training is code, as a script is: it may import its own hooks, models and data.
HOOKS = Registry("training hooks", imports=True)

_MODES = ("train", "val", "test", "predict")

# The first word of a method's name. The classical systems have only the first two of them.
_WORDS: dict[str, Kind] = {
    "before": "pre",
    "after": "post",
    "around": "around",
    "exception": "exception",
    "always": "always",
}
# By the rest of a method's name after its first word: the stage. So a method of a loop is named after its mode alone.
_STAGES: dict[str, str] = {
    "run": "run",
    **{mode: f"{mode}_loop" for mode in _MODES},
    **{f"{mode}_{what}": f"{mode}_{what}" for what in ("epoch", "iter") for mode in _MODES},
    **{name: name for name in ("forward", "backward", "optimizer_step")},
}
# By the name of a method: its stage, and the kind of hook on it. A hook may change a checkpoint before it is written,
# and after it was read.
_NAMES: dict[str, tuple[str, Kind]] = {
    **{f"{first}_{rest}": (stage, kind) for rest, stage in _STAGES.items() for first, kind in _WORDS.items()},
    "before_save_checkpoint": ("write_checkpoint", "pre"),
    "after_save_checkpoint": ("write_checkpoint", "post"),
    "before_load_checkpoint": ("load_checkpoint", "pre"),
    "after_load_checkpoint": ("restore", "pre"),
}

# For a method of one mode, the general method that is called in its place unless it is overridden itself.
_GENERAL: dict[str, str] = {
    f"{when}_{mode}_{what}": f"{when}_{what}" for what in ("epoch", "iter") for when in _WORDS for mode in _MODES
}


class Hook:
    """The base class of training hooks: override the methods of the stages that you need.

    A method asks for what it needs by name: ``runner``, ``model``, ``optimizer``, ``epoch``, ``iter``, ``step``,
    ``inner_iter``, ``max_epochs``, ``max_iters``, ``mode``, ``data_loader``, ``batch``, ``outputs``, ``logs``,
    ``work_dir``, ``logger``, ``rank``, ``world_size``; ``loss`` in backward, ``result`` after a stage; and mmengine's
    ``batch_idx``, ``data_batch``, ``metrics``. Its return value means the same as that of any pre or post hook: it can
    replace a batch, a loss or a result, or skip a step.

    A ``before_…`` method is a pre hook on the stage, and an ``after_…`` method is a post hook. An ``around_…`` method
    asks for `proceed`. An ``exception_…`` method is called with `exc` if the stage fails or is interrupted, and an
    ``always_…`` method is called however the stage ends. An error that leaves several stages reaches the hooks of the
    innermost stage first. Clean up in ``always_run``.

    The hooks of the package, including its callbacks and session-run hooks, check their options when you create them.
    An impossible value raises a HookOptionError, and a value of the wrong type raises a HookTypeError.

    Example:
        >>> class Announce(Hook):
        ...     priority = "LOW"
        ...
        ...     def after_train_epoch(self, epoch, logs):
        ...         print(epoch, logs["loss"])
    """

    priority: int | str = "NORMAL"

    # Any: a state is made of numbers, strings, lists, dicts and arrays.
    def state_dict(self) -> dict[str, Any]:
        """Return the state to store in checkpoints, so that a resumed run continues as if it had never stopped."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""

    # Hooks ask these at every iteration, so each is one expression: a call of a shared function would take longer than
    # the rest.

    def every_n_epochs(self, runner: Runner, n: int, start: int | None = None) -> bool:
        """Whether the number of this epoch, counted from 1, is `start` plus a multiple of n; False if n is 0."""
        return n > 0 and (past := runner.epoch + 1 - (start or 0)) % n == 0 and past >= 0

    def every_n_iters(self, runner: Runner, n: int, start: int | None = None) -> bool:
        """Whether the number of this iteration of the run is `start` plus a multiple of n."""
        return n > 0 and (past := runner.iter + 1 - (start or 0)) % n == 0 and past >= 0

    def every_n_inner_iters(self, runner: Runner, n: int, start: int | None = None) -> bool:
        """Whether the number of this iteration in its epoch is `start` plus a multiple of n."""
        return n > 0 and (past := runner.inner_iter + 1 - (start or 0)) % n == 0 and past >= 0

    def end_of_epoch(self, runner: Runner) -> bool:
        """Whether this iteration is the last of its epoch."""
        length = runner.progress.length if runner.mode == "train" else length_of(runner.data_loader)
        return runner.inner_iter + 1 == length


def _idle(name: str) -> Callable[..., object]:
    """Return a method that does nothing but call the general method of its name, or proceed."""
    general = _GENERAL.get(name)

    def idle(self: Hook, *args: Any, **kwargs: Any) -> object:
        if name.startswith("around_"):
            return (args[0] if args else kwargs["proceed"])()
        return None if general is None else getattr(self, general)(*args[:1], **kwargs)

    idle.__name__, idle.__qualname__ = name, f"Hook.{name}"
    return idle


_METHODS = dict.fromkeys((*_NAMES, *_GENERAL.values()))
for _name in _METHODS:
    if _name not in vars(Hook):  # so that `super()` finds all of them
        setattr(Hook, _name, _idle(_name))

_DIALECT = Dialect(
    "the training hook",
    Hook,
    [*_NAMES],
    general=_GENERAL,
    looks_like=f"({'|'.join(_WORDS)})_.*",
    listing=", ".join(name for name in _METHODS if name.startswith("before_"))
    + "; and the same with after_, around_, exception_ and always_",
)


def _mmengine_base(hook: object) -> type | None:
    return next((cls for cls in type(hook).__mro__ if cls.__module__ == "mmengine.hooks.hook"), None)


# The base class of mmengine calls `_before_epoch` in `before_train_epoch`, and so on.
_MMENGINE = Dialect(
    "the mmengine hook", _mmengine_base, [*_NAMES], general={name: f"_{general}" for name, general in _GENERAL.items()}
)


@HOOKS.register
class DistSamplerSeedHook(Hook):
    """Call ``set_epoch`` of the training sampler, such as a ``DistributedSampler``, before each epoch.

    As in mmcv, the hook tries the loader's sampler, its batch sampler, and the sampler of the batch sampler. Loaders of
    `aspecthook.training.data` do not need this hook.

    Example:
        >>> DistSamplerSeedHook().priority
        'NORMAL'
    """

    def before_train_epoch(self, runner: Runner) -> None:
        """Set the epoch."""
        batches = getattr(runner.data_loader, "batch_sampler", None)
        samplers: list[Any] = [getattr(runner.data_loader, "sampler", None), batches, getattr(batches, "sampler", None)]
        for sampler in samplers:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(runner.epoch)
                return


def bindings(hook: object, _: Runner) -> list[Binding]:
    """Return the methods of a hook with the stages that they are named after; refuse a hook without such a method."""
    dialect = _DIALECT if _mmengine_base(hook) is None else _MMENGINE
    dialect.check(hook)
    found = [Binding(*_NAMES[name], method) for name, method in dialect.methods(hook).items()]
    if not found and type(hook) is not Hook:
        raise HookSignatureError(
            f"the training hook {brief(hook)} has no method named after a stage, and would never be called; add one, "
            "such as before_train_iter, or add a function to a stage: hooks(runner.train_iter).pre(function)"
        )
    return found


def build_hook(config: str | Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return a hook, and the name in checkpoints that its config gives it."""
    load_hooks()
    rest = {"type": config} if isinstance(config, str) else dict(config)
    name = rest.pop("name", None)
    return HOOKS.build_from_config(rest), name


def load_hooks() -> None:
    """Import the hooks of the package, so that configs find them."""
    from importlib import import_module

    training = import_module("aspecthook.training")
    for name in training.__all__:
        getattr(training, name)
    for module in ("keras", "session"):
        import_module(f"aspecthook.training.{module}")
