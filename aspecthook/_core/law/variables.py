"""Context variables that threads do not inherit: what runs now in this thread or task, and in tasks started from it.

From 3.14 on, a new thread may begin with a copy of the context of the thread that starts it
(`sys.flags.thread_inherit_context`: set without the GIL, and by ``-X thread_inherit_context=1``). But what runs in one
thread does not run in the other.
"""

from __future__ import annotations

import sys
from _thread import _local as local  # for the reason in `mount.lock`
from contextvars import ContextVar

from aspecthook._hints import Generic, TypeAlias, TypeVar, final

T = TypeVar("T")


class _Here(local):
    """The identity of the current thread: an object, since the numbers of threads that have ended are used again."""

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
        """Return the value that was set in this thread, or the default."""
        thread, value = self._variable.get()
        return value if thread is _here.thread else self._default

    def set(self, value: T, /) -> None:
        """Set the value in this context, for this thread."""
        self._variable.set((_here.thread, value))


Variable: TypeAlias = "ContextVar[T] | ThreadsOwn[T]"


def variable(name: str, default: T) -> Variable[T]:
    """Return a variable that new threads do not inherit.

    Where threads inherit no context, a thread that runs in a copy of this one does so on purpose, as in
    `asyncio.to_thread`, and sees the value. Where they do inherit, the two cases look alike, and it sees the default.
    """
    inherits = sys.version_info >= (3, 14) and bool(getattr(sys.flags, "thread_inherit_context"))
    return ThreadsOwn(name, default) if inherits else ContextVar(name, default=default)
