"""Noticing what the program's own file defines, `__main__`, which is run and not imported: each function as it appears.

The invariant: before the line that follows a definition, what is woven on `__main__` is woven on it too. Nothing but
the code of that module is watched, until soon after its last `def` or `class`; until then, calls are a bit slower.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from aspecthook._hints import Any, final
from aspecthook.weave._imports import begin_running, end_running, notify

from ._names import main_module

# How many lines and calls are watched after the last `def` or `class`: an expression may make functions there, such as
# a lambda; and what calls so much is the program at work.
_MORE = 1000


def watch_main() -> None:
    """Notify weavings of what the program's own file defines."""
    main, _ = main_module()
    for name in {"__main__", main}:
        begin_running(name)
    if sys.gettrace() is None:
        sys.settrace(_Watch(main).enter)


def end_main() -> None:
    """Take the program's own file for one that has defined all it will, as the program ends."""
    end_running("__main__")
    end_running(main_module()[0])


@final
class _Watch:
    """Watches the code of a module as it runs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._space: dict[str, Any] | None = None  # of the module, once it runs
        self._size = self._line = 0  # of the space, and that runs
        self._left = _MORE  # no more than 0 at the end

    def enter(self, frame: FrameType, _: str, __: object) -> Any:
        """Trace the frame of the module, and no other one."""
        if self._space is not None:  # code that `exec` runs in the module looks like it too
            self._count()
        elif frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == self._name:
            self._space = frame.f_globals
            inner = [one for one in frame.f_code.co_consts if isinstance(one, CodeType) and one.co_name[0] != "<"]
            self._begins = {one.co_firstlineno for one in inner}  # of functions and classes, at their first decorator
            self._last = max(self._begins, default=0)
            return self._step
        return None

    def _step(self, frame: FrameType, event: str, _: object) -> Any:
        """Notify weavings if the line that has just run defined something."""
        if event in ("line", "return") and self._space is not None and self._left > 0:
            grown = len(self._space) > self._size and callable(next(reversed(self._space.values())))
            if grown or self._line in self._begins:
                notify(self._name)
            self._size, self._line = len(self._space), frame.f_lineno
            self._count()
        return self._step

    def _count(self) -> None:
        """Count a line or a call after the last definition, and end if it is the last one to be watched."""
        self._left -= self._line > self._last
        if self._left == 0:
            end_running(self._name)
            if sys.gettrace() == self.enter:
                sys.settrace(None)
