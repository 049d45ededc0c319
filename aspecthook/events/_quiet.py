"""What is under way in this thread or task, so that nobody is told of what he does himself.

The invariant: a run is known in its own context and in those copied from it while it lasts, and in none once it has
ended; a task that was started in the middle is not deaf for good.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, final

from aspecthook._core.law.variables import Variable, variable
from aspecthook._core.mount.lock import is_changing


@final
class Run:
    """One run of something, and perhaps of which occurrence of it."""

    __slots__ = ("outer", "what", "which")

    def __init__(self, what: object, which: object, outer: Run | None) -> None:
        self.what = what
        self.which = which
        self.outer = outer

    def end(self) -> None:
        """Forget what it was about: a copied context may keep the run for long."""
        self.what = self.which = None


_runs: Variable[Run | None] = variable("aspecthook_events_under_way", None)


def is_under_way(what: object, which: object = None) -> bool:
    """Say whether a run of this is under way in this context."""
    run = _runs.get()
    while run is not None:
        if run.what is what and run.which is which:
            return True
        run = run.outer
    return False


# Any: what a callable takes and gives is between it and whoever has it run.
def running(what: object, which: object, work: Callable[..., Any], *args: Any) -> Any:
    """Do some work, noted as a run of this."""
    before = outer = _runs.get()
    while outer is not None and outer.what is None:
        outer = outer.outer  # ended, and only here because the context was copied
    run = Run(what, which, outer)
    try:
        _runs.set(run)
        return work(*args)
    finally:
        run.end()  # first, and no call of C code: an interrupt that comes here must not leave it under way
        _runs.set(before)


# Any: likewise.
def tell(
    what: object,
    event: Callable[..., Any],
    *args: Any,
    ending: Callable[[], bool] = sys.is_finalizing,
    changing: Callable[[], bool] = is_changing,
) -> Any:
    """Call an event, unless one of this sort is being told in this context, or it is no time for it.

    Nobody is told while the interpreter is torn down, as modules are empty then; nor of what aspecthook itself does in
    the middle of a change. It makes code and puts it into functions: whoever forbade that could not be taken off again.
    """
    # What comes first is bound: this module may be empty too.
    if ending() or changing() or is_under_way(what):
        return None
    return running(what, None, event, *args)
