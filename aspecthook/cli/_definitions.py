"""Noticing what the program's own file defines, `__main__`, which is run and not imported: each function as it appears.

The invariant: before the line that follows a definition, what is woven on `__main__` is woven on it too. Nothing but
the code of that module is watched, and only until it is past its last definition; what it calls runs as fast as ever.
(On Python 3.11, which cannot watch a single code object, calls are slower until then.)
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from aspecthook._hints import Any, final
from aspecthook.weave._imports import begin_running, end_running, notify

from ._names import main_module


def watch_main() -> None:
    """Notify weavings of what the program's own file defines."""
    begin_running("__main__")
    main, _ = main_module()
    if main != "__main__":
        begin_running(main)
    if sys.version_info >= (3, 12):
        _with_monitoring(main)
    elif sys.gettrace() is None:
        _with_tracing(main)


def end_main() -> None:
    """Take the program's own file for one that has defined all it will, as the program ends."""
    end_running("__main__")
    end_running(main_module()[0])


@final
class _Definitions:
    """The definitions of the module's code, as it runs."""

    def __init__(self, name: str, code: CodeType, space: dict[str, Any]) -> None:
        self._name = name
        self._space = space
        self._size = len(space)
        self._line = 0  # that runs
        inner = [one for one in code.co_consts if isinstance(one, CodeType) and not one.co_name.startswith("<")]
        self._begins = {one.co_firstlineno for one in inner}  # of functions and classes, at their first decorator
        self._last = max(self._begins, default=0)

    def reach(self, line: int) -> bool:
        """Take note of the line that is to run next. Return whether it matters that it runs again."""
        grown = len(self._space) > self._size and callable(next(reversed(self._space.values())))
        if grown or self._line in self._begins:
            notify(self._name)
        self._size, self._line = len(self._space), line
        return grown or line in self._begins

    def is_past(self, line: int) -> bool:
        """Whether there is nothing more to come; if so, say so."""
        past = line > self._last
        if past:
            end_running(self._name)
        return past


def _is_module(frame: FrameType, name: str) -> bool:
    return frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == name


if sys.version_info >= (3, 12):

    def _with_monitoring(name: str) -> None:
        monitoring = sys.monitoring
        events = monitoring.events
        tool = next((one for one in range(6) if monitoring.get_tool(one) is None), None)
        if tool is None:
            return

        def start(code: CodeType, _: int) -> Any:
            frame = sys._getframe(1)
            if not _is_module(frame, name):
                return monitoring.DISABLE
            definitions = _Definitions(name, code, frame.f_globals)

            def step(code: CodeType, line: int) -> Any:
                again = definitions.reach(line)
                if definitions.is_past(line):
                    monitoring.set_local_events(tool, code, 0)
                    monitoring.register_callback(tool, events.LINE, None)
                    monitoring.free_tool_id(tool)
                return None if again else monitoring.DISABLE

            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, events.PY_START, None)
            monitoring.register_callback(tool, events.LINE, step)
            monitoring.set_local_events(tool, code, events.LINE)
            return None

        monitoring.use_tool_id(tool, "aspecthook")
        monitoring.register_callback(tool, events.PY_START, start)
        monitoring.set_events(tool, events.PY_START)

else:

    def _with_tracing(name: str) -> None:
        found = False

        def trace(frame: FrameType, _: str, __: object) -> Any:
            nonlocal found
            if found or not _is_module(frame, name):  # code that `exec` runs in the module looks like it too
                return None
            found = True
            definitions = _Definitions(name, frame.f_code, frame.f_globals)

            def step(frame: FrameType, event: str, _: object) -> Any:
                if event == "line":
                    definitions.reach(frame.f_lineno)
                    if definitions.is_past(frame.f_lineno):
                        frame.f_trace = None
                        if sys.gettrace() is trace:
                            sys.settrace(None)
                return step

            return step

        sys.settrace(trace)
