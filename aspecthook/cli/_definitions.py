"""Noticing what the program's own file defines, `__main__`, which is run and not imported: each function as it appears.

The invariant: after the instruction that stores a function or a class under a name of the module, and before the next
one, what is woven on `__main__` is woven on it too. Nothing but the code of that module is watched, and only until its
last definition; what it calls runs as fast as ever. (On Python 3.11, which cannot watch a single code object, calls are
slower until then.)
"""

from __future__ import annotations

import dis
import sys
from itertools import pairwise
from types import CodeType, FrameType

from aspecthook._hints import Any, final
from aspecthook.weave._imports import begin_running, end_running, look_again

from ._names import main_module

_STORES = ("STORE_NAME", "STORE_GLOBAL")
_DEFINES = ("MAKE_FUNCTION", "LOAD_BUILD_CLASS")


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


@final
class _Definitions:
    """The definitions of the module's code, as it runs."""

    def __init__(self, name: str, code: CodeType, space: dict[str, Any]) -> None:
        self._name = name
        self._space = space
        self._stored: dict[int, str] = {}  # by the offset of the instruction that comes after it
        self._last = -1
        defines = False
        steps = list(dis.get_instructions(code))
        # The code that handles exceptions is at the end, and goes back to where the module continues.
        handlers = [step.offset for step in steps if step.opname == "PUSH_EXC_INFO"]
        for step, after in pairwise(steps):
            defines = defines or step.opname in _DEFINES
            if step.opname in _STORES:
                self._stored[after.offset] = str(step.argval)
                if defines:
                    self._last = after.offset
                    defines = False
        self._end = min([offset for offset in handlers if offset > self._last], default=len(code.co_code))

    def reach(self, offset: int) -> bool:
        """Take note of the instruction that is to run next. Return whether there is more to come."""
        if callable(self._space.get(self._stored.get(offset, ""))):
            look_again(self._name)
        if not self._last <= offset < self._end:
            return True
        end_running(self._name)
        return False


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

            def step(code: CodeType, offset: int) -> Any:
                if definitions.reach(offset):
                    return None if offset in definitions._stored else monitoring.DISABLE
                monitoring.set_local_events(tool, code, 0)
                monitoring.register_callback(tool, events.INSTRUCTION, None)
                monitoring.free_tool_id(tool)
                return None

            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, events.PY_START, None)
            monitoring.register_callback(tool, events.INSTRUCTION, step)
            monitoring.set_local_events(tool, code, events.INSTRUCTION)
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
            frame.f_trace_opcodes, frame.f_trace_lines = True, False

            def step(frame: FrameType, event: str, _: object) -> Any:
                if event == "opcode" and not definitions.reach(frame.f_lasti):
                    frame.f_trace_opcodes, frame.f_trace_lines = False, True
                    frame.f_trace = None
                    if sys.gettrace() is trace:
                        sys.settrace(None)
                return step

            return step

        sys.settrace(trace)
