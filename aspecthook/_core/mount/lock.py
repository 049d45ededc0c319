"""The one lock under which hooks are added, removed and linked, and the one way in which it is taken.

It is reentrant, since finalizers that the garbage collector runs in the middle of a change may make changes of their
own. The invariant: whatever interrupts a change (Ctrl-C, a signal handler, `fork`), the lock is free again afterwards.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock  # as in `functools`: `threading` would be a tenth of the time to import the package
from collections.abc import Callable
from functools import wraps
from types import ModuleType

from aspecthook._hints import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_lock = RLock()
_acquire, _release = _lock.acquire, _lock.release

# Whether this thread holds the lock. Not documented, but `threading.Condition` asks every lock for it.
is_changing: Callable[[], bool] = getattr(_lock, "_is_owned")


def under_lock(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function that runs with the lock held, all of it.

    A `with` statement would not do. From Python 3.14 on a signal handler may raise after the lock's `__enter__` has
    returned and before the block is entered, and then nobody ever releases the lock. Here the `try` begins before the
    lock is taken. If it was not taken, `release` raises, since this thread does not hold the lock. CPython handles
    signals after a call, not before it, so none can come between `finally` and `release`.
    """

    @wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> T:
        if is_changing():  # a caller has taken it, and will release it
            return function(*args, **kwargs)
        try:
            _acquire()
            return function(*args, **kwargs)
        finally:
            try:
                _release()
            except RuntimeError:
                pass  # interrupted before it was taken

    return locked


def is_ending(finalizing: Callable[[], bool] = sys.is_finalizing, system: ModuleType = sys) -> bool:
    """Whether the interpreter is being torn down, so that a callback of a weak reference finds empty modules."""
    # Bound as defaults, since this module may be empty, too. A subinterpreter that ends does not count as finalizing;
    # its `sys.meta_path` is gone by then, which importlib looks at as well.
    return finalizing() or getattr(system, "meta_path", None) is None


def _release_in_parent() -> None:
    try:
        _release()
    except RuntimeError:
        pass  # a signal has interrupted the wait for it


def _release_in_child() -> None:
    try:
        _release()
    except RuntimeError:
        # As in the parent; and another thread held it, which does not exist here. `threading` resets its own locks so.
        getattr(_lock, "_at_fork_reinit")()


if hasattr(os, "register_at_fork"):
    # A child must not inherit a lock that some other thread of its parent held.
    os.register_at_fork(before=_acquire, after_in_parent=_release_in_parent, after_in_child=_release_in_child)
