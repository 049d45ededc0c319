"""Events of the interpreter: each is connected while it has subscribers, and leaves no trace."""

from __future__ import annotations

from typing import Any

import pytest

from aspecthook import HookOrderError, events, hooks
from tests.events.programs import EVENTS, globals_now, printed, same

pytestmark = pytest.mark.usefixtures("no_trace")


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_has_an_example_and_its_public_name(event: Any) -> None:
    assert ">>>" in event.__doc__
    assert hooks(event).name == f"aspecthook.events:{event.__name__}"


def test_refused_subscriber_leaves_nothing_connected() -> None:
    before = globals_now()
    with pytest.raises(HookOrderError):
        events.uncaught_exception.on(lambda: None, name="loop", before="loop")
    assert same(globals_now(), before) and not len(hooks(events.uncaught_exception))


def test_nothing_is_imported_under_the_lock() -> None:
    """An import could wait there for a thread that is importing, is told of it, and waits for the lock."""
    program = """
from aspecthook._core.mount.lock import is_changing
locked = []
class Finder:
    def find_spec(self, name, path=None, target=None):
        if is_changing(): locked.append(name)
made = [events.signal("SIGTERM"), events.audit("a.b"), events.program_exit, events.uncaught_exception]
sys.meta_path.insert(0, Finder())
for event in made:
    event.on(lambda: None)
    with hooks(event).paused(): pass
    hooks(event).clear()
print(locked)
"""
    assert printed(program) == ["[]"]


def test_no_subscriber_runs_during_interpreter_teardown() -> None:
    """What the modules of subscribers had may be gone by then."""
    program = """
import os
told = []
class Late:
    def __del__(self, told=told, open=open, path=sys.executable, write=os.write):
        told.clear()
        open(path).close()
        try: raise ValueError
        except ValueError as error: sys.excepthook(ValueError, error, None)
        write(1, f"{sys.is_finalizing()} {told}".encode())
sys.excepthook = lambda *args: None
for event in (events.audit("open"), events.uncaught_exception):
    event.on(lambda call: told.append(call.function.__name__))
sys.modules["late"] = Late()
"""
    assert printed(program) == ["True []"]
