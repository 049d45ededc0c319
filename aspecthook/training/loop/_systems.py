"""Hook systems of others: whose object it is that somebody registers, and how it becomes hooks on the stages of a run.

Each is a mapping of its names onto kinds of hooks on mount points, in a module that is loaded when the first object of
its kind is registered; none has a list of hooks or an order of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ._stages import Stage

if TYPE_CHECKING:
    from ._runner import Runner


class Row(NamedTuple):
    """A function, and the stage that it becomes a hook on."""

    stage: Stage
    function: Callable[..., Any]


def _having(*methods: str) -> Callable[[object], bool]:
    return lambda hook: all(callable(getattr(hook, name, None)) for name in methods)


def _derived_from(module: str) -> Callable[[object], bool]:
    return lambda hook: any(cls.__module__ == module for cls in type(hook).__mro__)


# How an object of another system is known, and the module of this package that has `rows(hook, runner)` for it. What is
# none of these is a hook of mm's kind.
_SYSTEMS: tuple[tuple[Callable[[object], bool], str], ...] = (
    (_having("set_params", "set_model", "on_train_begin", "on_epoch_end"), "keras._bindings"),
    (_having("after_create_session", "end"), "session"),
    (_derived_from("mmengine.hooks.hook"), "mmengine._bindings"),
)


def rows_of(hook: object, runner: Runner) -> list[Row]:
    """Give what becomes of an object that is registered.

    Raises:
        HookSignatureError: A method is named like a stage, and there is none of that name.
    """
    for is_theirs, module in _SYSTEMS:
        if is_theirs(hook):
            found: list[Row] = import_module(f"aspecthook.training.{module}").rows(hook, runner)
            return found
    from aspecthook.training.hooks._hook import placed

    return [Row(stage, method) for stage, method in placed(hook)]
