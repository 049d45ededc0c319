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


# A module of this package that has `rows(hook, runner)`, and the methods by which an object of its kind is known. What
# is none of these is a hook of mm's kind.
_SYSTEMS: tuple[tuple[str, frozenset[str]], ...] = ()


def rows_of(hook: object, runner: Runner) -> list[Row]:
    """Give what becomes of an object that is registered.

    Raises:
        HookSignatureError: A method is named like a stage, and there is none of that name.
    """
    for module, methods in _SYSTEMS:
        if all(callable(getattr(hook, name, None)) for name in methods):
            found: list[Row] = import_module(f"{__package__}.{module}").rows(hook, runner)
            return found
    from ._hooks import placed

    return [Row(stage, method) for stage, method in placed(hook)]
