"""The plug for what the interpreter does in Python and offers no callback for: a pre hook in the function that does it.

`weave` could do the same. But its modules, and `inspect`, which they need, take longer to import than many a program
runs that wants its crashes reported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, final

from aspecthook._core.mount.hookable import mount_for
from aspecthook._core.mount.lock import under_lock

from ._wiring import Plug

if TYPE_CHECKING:
    from aspecthook._core.law.hook import Hook
    from aspecthook._core.mount.point import MountPoint


@final
class PreInside(Plug):
    """A pre hook in a function, for as long as the event is connected; it waits until the module is imported."""

    __slots__ = ("_connected", "_hook", "_module", "_mount", "_path", "_pre", "_waits")

    # Any: a hook asks for any arguments by name.
    def __init__(self, target: str, pre: Callable[..., Any]) -> None:
        self._module, _, self._path = target.partition(":")
        self._pre = pre
        self._mount: MountPoint | None = None
        self._hook: Hook | None = None
        self._connected = self._waits = False

    def _found(self) -> FunctionType | None:
        """Return the function, if it is imported and has code that can carry hooks."""
        found: Any = sys.modules.get(self._module)
        for name in self._path.split("."):
            found = getattr(found, name, None)
        return found if type(found) is FunctionType else None

    # As a plug

    def prepare(self) -> None:
        """Import what waiting for the module needs."""
        if self._found() is None:
            from aspecthook.weave import _imports

            del _imports

    def connect(self) -> None:
        """Add the hook, now or as the import of the module ends."""
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
            self._stop_waiting()

    def disconnect(self) -> None:
        """Remove the hook."""
        self._connected = False
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._stop_waiting()

    @property
    def displaced(self) -> bool:
        """Whether somebody else has replaced the function, or its code."""
        if self._hook is None and self._connected:
            return self._module in sys.modules
        return self._mount is not None and self._mount.displaced

    # As a watcher of imports

    def _wait(self) -> None:
        from aspecthook.weave._imports import watch

        self._waits = True
        watch(self)

    def _stop_waiting(self) -> None:
        if self._waits:
            from aspecthook.weave._imports import unwatch

            self._waits = False
            unwatch(self)

    @property
    def modules(self) -> tuple[str, ...]:
        """The name of the module."""
        return (self._module,)

    def wants(self, name: str) -> bool:
        """Whether this is the name of the module."""
        return name == self._module

    @under_lock
    def imported(self, module: ModuleType) -> None:
        """Add the hook."""
        if self._connected and self.wants(module.__name__):
            self.connect()
