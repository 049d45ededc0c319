"""The plug of what the interpreter tells nobody of, but does in Python: a hook goes into the function that does it.

It does what `weave` would do, which needs wrapt; and that imports asyncio, which takes longer than many a program that
wants its crashes reported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, final

from aspecthook._core.mount.hookable import mount_for
from aspecthook._core.mount.lock import under_lock

if TYPE_CHECKING:
    from aspecthook._core.law.hook import Hook
    from aspecthook._core.mount.point import MountPoint


@final
class Inside:
    """A pre hook in a function, for as long as the event is connected; it waits until the module is imported."""

    __slots__ = ("_connected", "_hook", "_module", "_mount", "_path", "_pre", "_waits")

    # Any: a hook takes what it asks for by name.
    def __init__(self, target: str, pre: Callable[..., Any]) -> None:
        self._module, _, self._path = target.partition(":")
        self._pre = pre
        self._mount: MountPoint | None = None
        self._hook: Hook | None = None
        self._connected = self._waits = False

    def _found(self) -> FunctionType | None:
        """Give the function, if it is there and has code that hooks can be put into."""
        found: Any = sys.modules.get(self._module)
        for name in self._path.split("."):
            found = getattr(found, name, None)
        return found if type(found) is FunctionType else None

    # As a plug

    def prepare(self) -> None:
        """Import what waiting needs."""
        if self._found() is None:
            from aspecthook.weave import _imports

            del _imports

    def connect(self) -> None:
        """Put the hook in, now or as the import of the module ends."""
        self._connected = True
        if self._hook is not None:
            return
        function = self._found()
        if function is None:
            self._wait()
            function = self._found()  # the import may have ended before anybody watched
        if function is not None:
            self._mount = mount_for(function)
            self._hook = self._mount.add("pre", self._pre)
            self._wait_no_more()

    def disconnect(self) -> None:
        """Take it out."""
        self._connected = False
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._wait_no_more()

    @property
    def displaced(self) -> bool:
        """Whether somebody else has put theirs there: other code, or what has no code."""
        if self._hook is None and self._connected:
            return self._module in sys.modules
        return self._mount is not None and self._mount.displaced

    # As a watcher of imports

    def _wait(self) -> None:
        from aspecthook.weave._imports import watch

        self._waits = True
        watch(self)

    def _wait_no_more(self) -> None:
        if self._waits:
            from aspecthook.weave._imports import unwatch

            self._waits = False
            unwatch(self)

    def wants(self, name: str) -> bool:
        """Say whether this is the module."""
        return name == self._module

    @under_lock
    def imported(self, module: ModuleType) -> None:
        """Put the hook in."""
        if self._connected and self.wants(module.__name__):
            self.connect()
