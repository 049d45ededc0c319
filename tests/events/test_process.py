"""The end of the program, and garbage collection."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from aspecthook import events, hooks
from tests.events.programs import printed, replaced, run

pytestmark = pytest.mark.usefixtures("no_trace")


# The end of the program


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()", "GeneratorExit()"])
def test_program_exit_runs_all_subscribers_whatever_one_raises(error: str) -> None:
    """They ended the telling, where `atexit` itself runs everything that is registered."""
    program = f"""
import atexit
atexit.register(print, "registered before")
events.program_exit.always(lambda: print("always"))
events.program_exit.on(lambda: print("first"))
@events.program_exit.on
def leaving(): raise {error}
@events.program_exit.on
def failing(): raise ValueError("no goodbye")
events.program_exit.on(lambda: print("last"))
"""
    done = run(program)
    assert done.stdout.splitlines() == ["first", "last", "always", "registered before"] and done.returncode == 0
    assert "aspecthook.events:program_exit: on hook 'failing'" in done.stderr
    assert "ValueError: no goodbye" in done.stderr


@pytest.mark.parametrize(
    ("ending", "lines"),
    [
        ("", ["goodbye"]),
        ("hooks(events.program_exit).clear()", []),
        ("pause = hooks(events.program_exit).paused(); pause.__enter__()", []),
        ("del goodbye; import gc; gc.collect()", []),  # without the GIL a function is freed by a collection
    ],
    ids=["there", "removed", "paused", "gone"],
)
def test_program_exit_without_removed_paused_and_dead_subscribers(ending: str, lines: list[str]) -> None:
    program = f"""
def goodbye(): print("goodbye")
registered = []
import atexit
atexit.register, atexit.unregister = registered.append, registered.remove
events.program_exit.on(goodbye)
hooks(events.program_exit).remove(goodbye)
events.program_exit.on(goodbye, weak=True)
{ending}
for one in registered: one()
"""
    assert printed(program) == lines


def test_program_exit_with_once() -> None:
    program = """
events.program_exit.on(lambda: print("once"), once=True)
import atexit
atexit._run_exitfuncs()
print(len(hooks(events.program_exit)))
"""
    assert printed(program) == ["once", "0"]


# Garbage collection


def test_garbage_collecting_has_start_and_stop() -> None:
    told: list[Any] = []
    with hooks(events.garbage_collecting).add("on", lambda phase, info: told.append((phase, dict(info)))):
        gc.collect()
    gc.collect()
    full = [one for one in told if one[1]["generation"] == 2]
    assert [phase for phase, _ in full] == ["start", "stop"] and "collected" in full[1][1]


def test_garbage_collecting_during_a_change_of_hooks() -> None:
    program = """
import gc
from aspecthook._core.mount.lock import under_lock
told = []
@event
def other(): ...
def add_and_collect():
    handle = hooks(events.garbage_collecting).add("on", lambda: told.append("new"))
    gc.collect()
    return handle
gc.set_threshold(1)
events.garbage_collecting.on(lambda phase: told.append(phase))
for _ in range(50):
    other.on(lambda: None)
    other()
    under_lock(gc.collect)()
    hooks(other).clear()
    handle = under_lock(add_and_collect)()
    gc.collect()
    handle.remove()
hooks(events.garbage_collecting).clear()
gc.set_threshold(0)
seen = len(told)
gc.collect()
# Nobody hears of the collections in the middle of a change.
print(told.count("start") >= 50, told.count("new") >= 100, len(told) == seen, gc.callbacks)
"""
    assert printed(program) == ["True True True []"]


@pytest.mark.skipif("free-threading" in sys.version, reason="no threshold makes a collection come at each point there")
def test_garbage_collecting_during_compilation() -> None:
    """CPython 3.11 cannot make a syntax tree in the middle of another."""
    program = """
import ast, gc
told = []
for number in range(150):
    gc.set_threshold(3 + number)  # so that one comes at every point of a change
    for place in range(1 + number % 4):
        when = (lambda: True) if number >> place & 1 else None
        events.garbage_collecting.on(lambda phase: told.append(phase), when=when)
    gc.set_threshold(1)
    ast.parse("def f(a):\\n  return a + 1\\n" * 10)
    gc.set_threshold(10_000)
    if not number % 7: hooks(events.garbage_collecting).clear()
hooks(events.garbage_collecting).clear()
print(told.count("start") > 150)
"""
    assert printed(program) == ["True"]


def test_garbage_collecting_reports_failures_as_unraisable() -> None:
    reported: list[str] = []
    told: list[str] = []
    event = events.garbage_collecting

    def failing(phase: str, info: dict[str, int]) -> None:
        if (phase, info["generation"]) == ("start", 2):
            raise ValueError("of the subscriber")

    with replaced(sys, "unraisablehook", lambda args: reported.append(type(args.exc_value).__name__)):
        event.on(failing)
        event.on(lambda phase, info: told.append(phase) if info["generation"] == 2 else None)
        gc.collect()
        event.on(failing, again=True)
        gc.collect()
        hooks(event).clear()
    assert reported == ["ValueError", "ExceptionGroup"] and told == ["start", "stop"] * 2


def test_garbage_collecting_is_displaced_when_gc_callbacks_are_emptied() -> None:
    event = events.garbage_collecting
    event.on(lambda: None)
    ours = gc.callbacks.pop()
    assert hooks(event).displaced
    event.on(lambda: None)
    assert gc.callbacks[-1] is ours and not hooks(event).displaced
    hooks(event).clear()
    assert ours not in gc.callbacks and not hooks(event).displaced
