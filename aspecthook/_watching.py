"""Which calls watchers note: a watcher is a tape, or an aspect that logs, measures or traces.

To show a call, a watcher runs code of the program: the `repr` of a value, the handler of a logger. If it noted the
calls made there, showing these would make further ones, without end. The invariant: no watcher notes a call that is
made so that one of them can show another call.
"""

from __future__ import annotations

from aspecthook._core.law.variables import Variable, variable
from aspecthook._hints import Any, final

# Stands in `current` while a watcher does work of its own.
UNWATCHED = object()

# What any tape records and what runs in this context: the innermost coroutine or generator, or `UNWATCHED`. It is one
# variable, since a recorder has to read the first in each call, and so learns the second for nothing.
# Any: calls are of a room above this one.
current: Variable[Any] = variable("aspecthook_watched", None)


def is_watched() -> bool:
    """Whether a call that is made now, in this context, is one of the program's own."""
    return current.get() is not UNWATCHED


def failure(style: str, exc: BaseException | None) -> BaseException | None:
    """Return what a call of a function of some style has failed with; None if it was merely left early.

    Who takes no further items of a generator, or closes a coroutine, makes Python raise `GeneratorExit` in it.
    """
    return None if style != "function" and isinstance(exc, GeneratorExit) else exc


@final
class Unwatched:
    """A block in which a watcher does its own work."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = current.get()
        current.set(UNWATCHED)

    def __exit__(self, *_: object) -> None:
        current.set(self._before)
