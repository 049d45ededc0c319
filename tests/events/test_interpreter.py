"""Events of the interpreter: each is connected while it has subscribers, and leaves no trace."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aspecthook import HookOrderError, events, hooks
from tests.events.programs import EVENTS, ROOT, globals_now, printed, same

pytestmark = pytest.mark.usefixtures("no_trace")


def test_importing_events_loads_nothing_heavy() -> None:
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import aspecthook.events; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "wrapt", "inspect", "signal", "socket", "subprocess", "logging"}
    assert heavy.intersection(done.stdout.split()) == set()


def test_events_without_subscribers_change_nothing() -> None:
    program = """
import atexit, gc, signal
events.signal("SIGTERM"), events.audit("open")
print(sys.excepthook, sys.unraisablehook, repr(signal.getsignal(signal.SIGTERM)), atexit._ncallbacks(), gc.callbacks)
"""
    assert printed(program) == printed(program.replace('events.signal("SIGTERM"), events.audit("open")', ""))


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
made = [events.signal("SIGTERM"), events.audit("a.b"), events.program_exit, events.garbage_collecting]
made += [events.uncaught_exception, events.module_importing, events.file_opening]
sys.meta_path.insert(0, Finder())
for event in made:
    event.on(lambda: None)
    with hooks(event).paused(): pass
    hooks(event).clear()
print(locked, "aspecthook.weave._imports" in sys.modules)
"""
    assert printed(program) == ["[] True"]


def test_post_hook_connects_an_event() -> None:
    before = sys.excepthook
    post = hooks(events.uncaught_exception).add("post", lambda: None)
    assert sys.excepthook is not before
    post.remove()
    assert sys.excepthook is before


def test_subscriber_and_weaving_in_import_module_removed_in_any_order() -> None:
    program = """
from aspecthook import weave
import importlib
plain = importlib.import_module.__code__
calls = []
def subscribe(): return hooks(events.module_importing).add("on", lambda name: calls.append(name))
def woven(): return weave("importlib:import_module", pre=lambda name: calls.append("woven"))
for first, second in ((subscribe, woven), (woven, subscribe)):
    for order in (1, -1):
        handles = [first(), second()]
        try: importlib.import_module("not_there")
        except ImportError: pass
        for handle in handles[::order]: handle.remove()
        assert importlib.import_module.__code__ is plain and "__wrapped__" not in vars(importlib.import_module)
print(calls.count("not_there"), calls.count("woven"))
"""
    assert printed(program) == ["4 4"]


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="imports by a call are audited, and need no hook there")
def test_import_module_replaced_by_others_is_displaced() -> None:
    program = """
import importlib
plain, event = importlib.import_module, events.module_importing
code = plain.__code__
event.on(lambda name: print("told of", name))
importlib.import_module.__code__ = (lambda name, package=None: "theirs").__code__
print(hooks(event).displaced, importlib.import_module("colorsys"))
plain.__code__ = code
hooks(event).clear()
print(hooks(event).displaced)
importlib.import_module = print  # has no code that a hook could be put into
event.on(lambda name: print("told of", name))
print(hooks(event).displaced)
import colorsys
hooks(event).clear()
importlib.import_module = plain
print(hooks(event).displaced, plain.__code__ is code)
"""
    assert printed(program) == ["True theirs", "False", "True", "told of colorsys", "False True"]


def test_no_subscriber_runs_during_interpreter_teardown() -> None:
    """What the modules of subscribers had may be gone by then."""
    program = """
import gc, os
told = []
class Late:
    def __del__(self, told=told, open=open, path=sys.executable, collect=gc.collect, write=os.write):
        told.clear()
        open(path).close()
        collect()
        try: raise ValueError
        except ValueError as error: sys.excepthook(ValueError, error, None)
        write(1, f"{sys.is_finalizing()} {told}".encode())
sys.excepthook = lambda *args: None
for event in (events.file_opening, events.audit("open"), events.garbage_collecting, events.uncaught_exception):
    event.on(lambda call: told.append(call.function.__name__))
sys.modules["late"] = Late()
"""
    assert printed(program) == ["True []"]
