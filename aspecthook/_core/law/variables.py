"""Variables of a task or thread: what is under way there, and in the tasks that were started there.

A context variable does that, but for one thing: from 3.14 on, a thread may begin with a copy of the context of the
thread that starts it (`sys.flags.thread_inherit_context`: set without the GIL, and by ``-X thread_inherit_context=1``).
What is under way in the one is not under way in the other.
"""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from typing import Generic, Protocol, TypeVar, final

T = TypeVar("T")


class Variable(Protocol[T]):
    """What is needed of a context variable."""

    def get(self) -> T:
        """Give the value that was set here, or the default."""
        ...

    def set(self, value: T, /) -> object:
        """Set the value."""
        ...


class _Here(threading.local):
    """What one thread is known by. A number would do, if it were not used again once the thread is gone."""

    def __init__(self) -> None:
        self.thread = object()


_here = _Here()


@final
class ThreadsOwn(Generic[T]):
    """A context variable of which every other thread sees the default, in whatever context it runs."""

    __slots__ = ("_default", "_variable")

    def __init__(self, name: str, default: T) -> None:
        self._default = default
        self._variable: ContextVar[tuple[object, T]] = ContextVar(name, default=(None, default))

    def get(self) -> T:
        """Give the value that was set in this thread, or the default."""
        thread, value = self._variable.get()
        return value if thread is _here.thread else self._default

    def set(self, value: T, /) -> None:
        """Set the value in this context, for this thread."""
        self._variable.set((_here.thread, value))


def variable(name: str, default: T) -> Variable[T]:
    """Make a variable that threads do not inherit.

    Where they inherit nothing anyway, another thread runs in a copy of this context because somebody wanted it to, as
    `asyncio.to_thread` does: there it sees the value. Where they do, nobody can tell the two apart.
    """
    inherits = getattr(sys.flags, "thread_inherit_context", False)  # not there before 3.14
    return ThreadsOwn(name, default) if inherits else ContextVar(name, default=default)
