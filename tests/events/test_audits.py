"""Audit events of any name, and their one dispatcher."""

from __future__ import annotations

import asyncio
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from aspecthook import HookTypeError, events, hooks
from aspecthook.events import _audits
from tests.events.programs import ROOT, UNIX, printed

pytestmark = pytest.mark.usefixtures("no_trace")


def test_audit_event_has_one_event() -> None:
    assert events.audit("tests.one") is events.audit("tests.one") is not events.audit("tests.other")
    assert hooks(events.audit("tests.one")).name == "aspecthook.events:audit('tests.one')"
    with pytest.raises(HookTypeError, match="3 is not the name of an audit event; give a string"):
        events.audit(3)  # type: ignore[arg-type]


def test_every_frame_above_a_subscriber_has_a_module_name() -> None:
    # The dispatcher had globals without `__name__`: who walked the stack by it, as loggers do, got a KeyError.
    def note() -> None:
        frame: types.FrameType | None = sys._getframe()
        while frame is not None:
            found.append(frame.f_globals["__name__"])
            frame = frame.f_back

    found: list[str] = []
    with hooks(events.audit("tests.one")).add("on", note):
        sys.audit("tests.one")
    assert __name__ in found[2:]


def test_audit_event_passes_its_arguments() -> None:
    told: list[Any] = []
    with hooks(events.audit("tests.one")).add("on", lambda args: told.append(args)):
        sys.audit("tests.one", 1, "two")
        sys.audit("tests.one")
        sys.audit("tests.other", 3)
    sys.audit("tests.one", 4)
    assert told == [(1, "two"), ()]


def test_event_whose_code_was_replaced_is_displaced() -> None:
    event = events.audit("tests.one")
    event.on(lambda: None)
    ours = event.__code__
    event.__code__ = (lambda *args: []).__code__
    assert hooks(event).displaced
    event.__code__ = ours
    hooks(event).clear()
    assert not hooks(event).displaced


# Subscribers that cause audit events


def test_subscriber_is_not_notified_of_its_own_actions(tmp_path: Path) -> None:
    log = tmp_path / "log"
    told: list[str] = []

    def write_down(args: tuple[Any, ...]) -> None:
        path = args[0]
        told.append(os.path.basename(str(path)))
        with log.open("a") as file:
            print(path, file=file)

    with hooks(events.audit("open")).add("on", write_down):
        (tmp_path / "a").write_text("a")
        (tmp_path / "b").write_text("b")
    assert told == ["a", "b"]
    assert log.read_text().splitlines() == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_events_that_cause_each_other_end() -> None:
    told: list[str] = []

    def ping() -> None:
        told.append("ping")
        sys.audit("tests.pong")

    def pong() -> None:
        told.append("pong")
        sys.audit("tests.ping")

    with hooks(events.audit("tests.ping")).add("on", ping), hooks(events.audit("tests.pong")).add("on", pong):
        sys.audit("tests.ping")
        sys.audit("tests.pong")
    assert told == ["ping", "pong", "pong", "ping"]


def test_task_started_by_a_subscriber_is_notified() -> None:
    told: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def later() -> None:
        sys.audit("tests.one", "in the task")

    def start(args: tuple[str, ...]) -> None:
        told.append(args[0])
        if not tasks:
            tasks.append(asyncio.get_running_loop().create_task(later()))

    async def main() -> None:
        sys.audit("tests.one", "first")
        await tasks[0]

    with hooks(events.audit("tests.one")).add("on", start):
        asyncio.run(main())
    assert told == ["first", "in the task"]


def test_subscriber_that_failed_is_notified_again() -> None:
    told: list[int] = []

    def failing(args: tuple[int, ...]) -> None:
        told.append(args[0])
        raise KeyboardInterrupt if args[0] == 1 else LookupError

    with hooks(events.audit("tests.one")).add("on", failing):
        with pytest.raises(KeyboardInterrupt):
            sys.audit("tests.one", 1)
        with pytest.raises(LookupError):
            sys.audit("tests.one", 2)
    assert told == [1, 2]


def test_subscriptions_change_inside_a_subscriber() -> None:
    told: list[str] = []
    event = events.audit("tests.one")

    def first() -> None:
        told.append("first")
        hooks(event).remove("first")
        event.on(lambda: told.append("second"), name="second")

    event.on(first, name="first")
    sys.audit("tests.one")
    sys.audit("tests.one")
    hooks(event).clear()
    sys.audit("tests.one")
    assert told == ["first", "second"]


def test_actions_of_aspecthook_itself_are_not_notified() -> None:
    """Whoever forbade code to be made or put into functions could not be taken off again."""
    names = ["compile", "code.__new__", "object.__setattr__", "function.__new__", "object.__getattr__"]
    program = f"""
told = []
made = [events.audit(name) for name in {names!r}]
def function(): ...
code = function.__code__
for event in made:
    def forbid(call):
        told.append(call.args)
        raise PermissionError
    event.on(forbid)
print(told)
for forbidden in (lambda: compile("1", "<test>", "eval"), lambda: setattr(function, "__code__", code)):
    try: forbidden()
    except PermissionError as error: print("forbidden")
for event in made: hooks(event).clear()
print(len(told), eval("1"))
"""
    assert printed(program) == ["[]", "forbidden", "forbidden", "2 1"]


# The dispatcher


def test_dispatcher_is_silent_after_weak_and_once_subscribers() -> None:
    def listener() -> None: ...

    events.audit("tests.one").on(listener, weak=True)
    events.audit("tests.other").on(lambda: None, once=True)
    assert set(_audits._table) == {"tests.one", "tests.other"}
    assert _audits._hook is not None and _audits._hook.__code__ is _audits._looking.__code__
    del listener
    assert set(_audits._table) == {"tests.other"}
    sys.audit("tests.other")
    assert not _audits._table and _audits._hook.__code__ is _audits._silent.__code__


def test_one_dispatcher_is_installed() -> None:
    program = """
added = []
plain = sys.addaudithook
sys.addaudithook = lambda hook: (added.append(hook), plain(hook))
for _ in range(3):
    with hooks(events.audit("open")).add("on", lambda: None), hooks(events.audit("a.b")).add("on", lambda: None):
        pass
print(len(added))
"""
    assert printed(program) == ["1"]


@pytest.mark.parametrize("hostile", ["sys.addaudithook", "aspecthook.listening"])
def test_audit_hook_that_refuses_others_is_reported(hostile: str) -> None:
    program = f"""
on = True
def forbid(name, args):
    if on and name == {hostile!r}: raise RuntimeError("no others")
sys.addaudithook(forbid)
told = []
try: events.audit("open").on(lambda: told.append(1))
except Exception as error: print(type(error).__name__, error)
print(len(hooks(events.audit("open"))))
on = False
events.audit("open").on(lambda: told.append(1))
open(sys.executable).close()
print(told)
"""
    first, *rest = printed(program)
    assert first.startswith(
        "MountError aspecthook.events:audit('open') cannot be connected: an audit hook that was there"
    )
    assert rest == ["0", "[1]"]


@UNIX
def test_forked_child_has_its_own_subscribers() -> None:
    program = """
import os, threading, warnings
warnings.simplefilter("ignore")
told = []
events.audit("a.b").on(lambda args: told.append(args[0]), name="listener")
done = []
def keep_telling():
    while not done: sys.audit("a.b", "thread")
threads = [threading.Thread(target=keep_telling) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(10):
    pid = os.fork()
    if not pid:
        told.clear()
        sys.audit("a.b", "child")
        good = told == ["child"]
        hooks(events.audit("a.b")).clear()
        sys.audit("a.b", "gone")
        events.audit("a.b").on(lambda: told.append("again"))
        sys.audit("a.b", "child")
        os._exit(0 if good and told == ["child", "again"] else 1)
    assert os.waitpid(pid, 0)[1] == 0
done.append(1)
for thread in threads: thread.join()
told.clear()
sys.audit("a.b", "parent")
print(told)
"""
    assert printed(program) == ["['parent']"]


INNER = """
import sys
sys.path.insert(0, {root!r})
from aspecthook import events, hooks
told = []
events.audit("a.b").on(lambda args: told.append(args[0]))
sys.audit("a.b", "inner")
assert told == ["inner"], told
try: events.signal("SIGTERM").on(lambda: None)
except TypeError as error: assert "cannot be connected" in str(error)
else: raise AssertionError
"""


@pytest.mark.skipif(sys.version_info < (3, 13), reason="needs _interpreters")
def test_subinterpreter_has_its_own_events() -> None:
    program = f"""
import _interpreters
told = []
events.audit("a.b").on(lambda args: told.append(args[0]))
one = _interpreters.create("legacy")
print(_interpreters.run_string(one, {INNER.format(root=str(ROOT))!r}))
_interpreters.destroy(one)
sys.audit("a.b", "outer")
print(told)
"""
    assert printed(program) == ["None", "['outer']"]


def test_subscriptions_change_in_threads_during_audits() -> None:
    program = """
from tests.threads import at_once
from aspecthook.events import _audits
sys.setswitchinterval(1e-5)
wrong = []
def come_and_go(name):
    def work():
        event, told = events.audit(name), []
        for turn in range(200):
            handle = hooks(event).add("on", lambda args: told.append(args[0]))
            sys.audit(name, turn)
            handle.remove()
            sys.audit(name, "nobody")
        if told != list(range(200)): wrong.append((name, told))
    return work
at_once(*map(come_and_go, ("a.b", "c.d", "e.f", "g.h")))
print(wrong, _audits._table, _audits._hook.__code__ is _audits._silent.__code__)
"""
    assert printed(program) == ["[] {} True"]
