"""Notifying subscribers, but not of what they do themselves while they are notified.

The invariant: a notification is known in its own context, and in copies of it, until it has ended. A task that was
started in the middle is notified again afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, final

from aspecthook._core.law.variables import Variable, variable
from aspecthook._core.mount.lock import is_changing


@final
class _Notification:
    """One notification: of what, and of which occurrence of it."""

    __slots__ = ("occurrence", "outer", "what")

    def __init__(self, what: object, occurrence: object, outer: _Notification | None) -> None:
        self.what = what
        self.occurrence = occurrence
        self.outer = outer

    def end(self) -> None:
        """Forget what it was about: a copied context may keep this object for long."""
        self.what = self.occurrence = None


_current: Variable[_Notification | None] = variable("aspecthook_notifications", None)


def is_notifying(what: object, occurrence: object = None) -> bool:
    """Whether subscribers are being notified of this in this context."""
    one = _current.get()
    while one is not None:
        if one.what is what and one.occurrence is occurrence:
            return True
        one = one.outer
    return False


# Any, here and below: the arguments and the result are those of the callable.
def notifying(what: object, occurrence: object, work: Callable[..., Any], *args: Any) -> Any:
    """Call a function that notifies subscribers of something."""
    before = outer = _current.get()
    while outer is not None and outer.what is None:
        outer = outer.outer  # it has ended, and is here because the context was copied
    one = _Notification(what, occurrence, outer)
    try:
        _current.set(one)
        return work(*args)
    finally:
        one.end()  # first, and no call of C code: an interrupt that comes here must not leave it current
        _current.set(before)


def notify(
    what: object,
    event: Callable[..., Any],
    *args: Any,
    ending: Callable[[], bool] = sys.is_finalizing,
    changing: Callable[[], bool] = is_changing,
) -> Any:
    """Call an event, unless subscribers are being notified of the same in this context.

    Nobody is notified while the interpreter is torn down, as modules are empty then; nor of what aspecthook itself does
    in the middle of a change. It makes code and puts it into functions: a hook that forbade that could not be removed.
    """
    # `ending` and `changing` come first and are defaults: this module may be empty, too.
    if ending() or changing() or is_notifying(what):
        return None
    return notifying(what, None, event, *args)
