"""Noticing what the program's own file defines, `__main__`, which is run and not imported: each function as it appears.

The invariant: before the line that follows a definition, what is woven on `__main__` is woven on it too. Nothing but
the code of that module is watched, and only until it is past its last definition; until then, calls are a bit slower.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from aspecthook._hints import Any, final
from aspecthook.weave._imports import begin_running, end_running, notify

from ._names import main_module


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

    def enter(self, frame: FrameType, _: str, __: object) -> Any:
        """Trace the frame of the module, and no other one."""
        # Code that `exec` runs in the module looks like it too.
        if (
            self._space is not None
            or frame.f_code.co_name != "<module>"
            or frame.f_globals.get("__name__") != self._name
        ):
            return None
        self._space = frame.f_globals
        self._size = len(self._space)
        self._line = 0  # that runs
        inner = [one for one in frame.f_code.co_consts if isinstance(one, CodeType) and not one.co_name.startswith("<")]
        self._begins = {one.co_firstlineno for one in inner}  # of functions and classes, at their first decorator
        self._last = max(self._begins, default=0)
        return self._step

    def _step(self, frame: FrameType, event: str, _: object) -> Any:
        """Notify weavings if the line that has just run defined something."""
        if event == "line" and self._space is not None:
            grown = len(self._space) > self._size and callable(next(reversed(self._space.values())))
            if grown or self._line in self._begins:
                notify(self._name)
            self._size, self._line = len(self._space), frame.f_lineno
            if self._line > self._last:
                end_running(self._name)
                frame.f_trace = None
                if sys.gettrace() == self.enter:
                    sys.settrace(None)
        return self._step
