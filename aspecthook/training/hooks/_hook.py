"""Hooks of a run, as mmcv and mmengine have them: classes whose methods are named after stages.

Registering one puts its methods on the runner's mount points, and nothing else: there is no list of hooks that is gone
through, no second priority. A method that is not overridden is never called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from aspecthook._errors import HookSignatureError, brief, nearest
from aspecthook.plugins._registry import Registry
from aspecthook.training.loop._stages import GENERAL, METHODS, NAMES, WORDS, Stage

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

# A config of training is code, as a script is: it may import its own hooks, models and data.
HOOKS = Registry("training hooks", imports=True)


class Hook:
    """The base of hooks on a training run: override the stages that you need.

    A method asks for what it needs by name: ``runner``, ``model``, ``optimizer``, ``epoch``, ``iter``, ``step``,
    ``inner_iter``, ``max_epochs``, ``max_iters``, ``mode``, ``data_loader``, ``batch``, ``outputs``, ``logs``,
    ``work_dir``, ``logger``, ``rank``, ``world_size``; ``loss`` in backward, ``result`` after a stage; and mmengine's
    ``batch_idx``, ``data_batch``, ``metrics``. What it answers is read by the rules of `pre` before a stage and of
    `post` after it, so a hook may replace a batch, a loss or a result, and skip a step.

    What is called ``before_…`` is a pre hook on the stage, ``after_…`` a post hook, ``around_…`` asks for `proceed`;
    ``exception_…`` is called with `exc` where it fails or is interrupted, and ``always_…`` however it ends; of the
    stages that were entered the innermost first. ``always_run`` is the place to clean up.

    Example:
        >>> class Announce(Hook):
        ...     priority = "LOW"
        ...
        ...     def after_train_epoch(self, epoch, logs):
        ...         print(epoch, logs["loss"])
    """

    priority: int | str = "NORMAL"

    # Any: an override asks for what it needs, by name.
    def before_run(self, *args: Any, **kwargs: Any) -> Any:
        """Called before the run begins."""

    def after_run(self, *args: Any, **kwargs: Any) -> Any:
        """Called when the run has ended; not if it has failed."""

    def before_epoch(self, *args: Any, **kwargs: Any) -> Any:
        """Called before each epoch, of whatever mode, unless the form for that mode is overridden."""

    def after_epoch(self, *args: Any, **kwargs: Any) -> Any:
        """Called after each epoch."""

    def before_iter(self, *args: Any, **kwargs: Any) -> Any:
        """Called before each iteration."""

    def after_iter(self, *args: Any, **kwargs: Any) -> Any:
        """Called after each iteration."""

    # Any: what a hook keeps is its own; numbers, strings, lists, dicts and arrays can be kept.
    def state_dict(self) -> dict[str, Any]:
        """Give what a checkpoint must keep for this hook to go on as if nothing had happened."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` has given."""

    # When

    def every_n_epochs(self, runner: Runner, n: int, start: int | None = None) -> bool:
        """Say whether this epoch is an n-th one, counted from 1 or from `start`; with n <= 0 never."""
        return _every(runner.epoch, n, start)

    def every_n_iters(self, runner: Runner, n: int, start: int | None = None) -> bool:
        """Say whether this iteration is an n-th one of the run."""
        return _every(runner.iter, n, start)

    def every_n_inner_iters(self, runner: Runner, n: int, start: int | None = None) -> bool:
        """Say whether this iteration is an n-th one of its epoch."""
        return _every(runner.inner_iter, n, start)

    def end_of_epoch(self, runner: Runner) -> bool:
        """Say whether this iteration is the last of its epoch."""
        return bool(runner.inner_iter + 1 == len(runner.data_loader))

    def is_last_epoch(self, runner: Runner) -> bool:
        """Say whether this epoch is the last of the run."""
        return runner.max_epochs is not None and runner.epoch + 1 == runner.max_epochs

    def is_last_iter(self, runner: Runner) -> bool:
        """Say whether this iteration is the last of the run."""
        return runner.max_iters is not None and runner.iter + 1 == runner.max_iters


def _idle(name: str) -> Callable[..., Any]:
    general = next((word for word, names in GENERAL.items() if name in names), None)

    def idle(self: Hook, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("around_"):
            return (args[0] if args else kwargs["proceed"])()
        return None if general is None else getattr(self, general)(*args[:1], **kwargs)

    idle.__name__, idle.__qualname__ = name, f"Hook.{name}"
    idle.__doc__ = f"Called {name.replace('_', ' ')}" + (
        f"; what `{general}` does, unless overridden." if general else "."
    )
    return idle


for _name in METHODS:
    if _name not in vars(Hook):  # so that `super()` finds all of them
        setattr(Hook, _name, _idle(_name))


def _every(count: int, n: int, start: int | None) -> bool:
    if n <= 0:
        return False
    if start is None:
        return (count + 1) % n == 0
    past = count + 1 - start
    return past >= 0 and past % n == 0


_MODULES = (
    "hooks._activations",
    "checkpoint._hooks",
    "hooks._early_stop",
    "hooks._ema",
    "hooks._evaluation",
    "hooks._nan",
    "hooks._optimizer",
    "hooks._sampler",
    "logging._loggers",
    "report._plots",
    "profile._hook",
    "logging._progress",
    "report._page",
    "schedules._hooks",
    "logging._tensorboard",
    "logging._timers",
    "schedules._mmcv",
    "keras",
    "session._basic",
    "session._saving",
    "session._summaries",
)


def load_hooks() -> None:
    """Load the hooks of the package, so that configs find them."""
    from importlib import import_module

    for name in _MODULES:
        import_module(f"aspecthook.training.{name}")


def overridden(hook: object, name: str) -> Callable[..., Any] | None:
    """Give a method of a hook if it does anything: if it is not that of the base class."""
    method = getattr(hook, name, None)
    own = getattr(type(hook), name, None)
    return None if method is None or own is getattr(Hook, name, None) else cast("Callable[..., Any]", method)


def placed(hook: object) -> list[tuple[Stage, Callable[..., Any]]]:
    """Give the methods of a hook with the mount points that they go on.

    Raises:
        HookSignatureError: A method is named like a stage, and there is none of that name.
    """
    check_names(hook)
    rows: list[tuple[Stage, Callable[..., Any]]] = []
    for name, stages in NAMES.items():
        method = overridden(hook, name) or _general(hook, name)
        if method is not None:
            rows += [(stage, method) for stage in stages]
    if not rows and type(hook) is not Hook:
        raise HookSignatureError(
            f"the training hook {brief(hook)} has no method named after a stage, and would never be called; name one "
            "before_train_iter, say; or put a function on a stage: hooks(runner.train_iter).pre(function)"
        )
    return rows


def _general(hook: object, name: str) -> Callable[..., Any] | None:
    general = next((word for word, names in GENERAL.items() if name in names), None)
    return overridden(hook, general) if general is not None else None


def check_names(hook: object) -> None:
    """Refuse a hook with a method that looks like a stage and is none: it would silently never be called.

    Raises:
        HookSignatureError: It has one; the message names the nearest stage.
    """
    for name in dir(type(hook)):
        like = name.partition("_")[0] in WORDS and "_" in name
        if like and name not in METHODS and callable(getattr(hook, name, None)):
            stages = ", ".join(name for name in METHODS if name.startswith("before_"))
            raise HookSignatureError(
                f"the training hook {type(hook).__name__} has a method {name!r}, which is no stage of a run and would "
                f"never be called{nearest(name, list(METHODS))}; stages: {stages}; and the same "
                "with after_, around_, exception_ and always_"
            )
