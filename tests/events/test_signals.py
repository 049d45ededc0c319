"""Signals as events."""

from __future__ import annotations

import asyncio
import signal as signals
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from aspecthook import HookLookupError, MountError, events, hooks
from tests.events.programs import ROOT, UNIX, printed, run
from tests.threads import at_once

pytestmark = pytest.mark.usefixtures("no_trace")
sigterm = events.signal("SIGTERM")


def handler() -> Any:
    """Return the handler of SIGTERM."""
    return signals.getsignal(signals.SIGTERM)


@pytest.fixture
def before(no_trace: None) -> Iterator[Any]:
    """Return the handler of SIGTERM before the test, and restore it before `no_trace` looks."""
    found = handler()
    yield found
    signals.signal(signals.SIGTERM, found)


def test_signal_has_one_event() -> None:
    event = events.signal("SIGTERM")
    assert event is events.signal(signals.SIGTERM) is events.signal(int(signals.SIGTERM))
    assert event is not events.signal("SIGINT")
    assert hooks(event).name == "aspecthook.events:signal('SIGTERM')"


@pytest.mark.parametrize("unknown", ["SIGTREM", "sigterm", "", 0, -1, 10_000, True, None, 1.5])
def test_unknown_signal_is_refused(unknown: Any) -> None:
    with pytest.raises(HookLookupError, match="this system has no signal") as caught:
        events.signal(unknown)
    assert ("did you mean 'SIGTERM'?" in str(caught.value)) == (unknown in ("SIGTREM", "sigterm"))


def test_threads_get_the_same_event() -> None:
    program = """
from tests.threads import at_once
sys.setswitchinterval(1e-6)
for number in range(20):
    found = []
    at_once(*[lambda: found.append(events.audit(f"a.{number}"))] * 8)
    assert len(found) == 8 and len(set(found)) == 1
found = []
at_once(*[lambda: found.append(events.signal("SIGTERM"))] * 8)
print(len(found), len(set(found)))
"""
    assert printed(program) == ["8 1"]


@UNIX
def test_default_action_follows_the_subscribers() -> None:
    program = """
import signal as signals
events.signal("SIGTERM").on(lambda signum, frame: print(signum, frame.f_code.co_name, flush=True))
signals.raise_signal(signals.SIGTERM)
print("not reached")
"""
    done = run(program)
    assert done.stdout == f"{int(signals.SIGTERM)} <module>\n" and done.returncode == -signals.SIGTERM


@UNIX
def test_signal_from_another_process_ends_a_sleeping_program() -> None:
    program = """
from aspecthook import events
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and inherited
events.signal("SIGHUP").on(lambda: print("told", flush=True))
print("ready", flush=True)
for _ in range(600):  # a signal just before a sleep is handled after it: one sleep of a minute took a whole minute
    time.sleep(0.1)
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signals.SIGHUP)
        assert process.stdout.read() == "told\n" and process.wait(30) == -signals.SIGHUP


def test_answer_keeps_the_program_alive() -> None:
    told: list[int] = []

    def finish(signum: int) -> bool:
        told.append(signum)
        return True

    with hooks(sigterm).add("on", finish):
        signals.raise_signal(signals.SIGTERM)
        signals.raise_signal(signals.SIGTERM)
    assert told == [signals.SIGTERM] * 2


@UNIX
@pytest.mark.parametrize(("name", "handler"), [("SIGTERM", signals.SIG_IGN), ("SIGCHLD", signals.SIG_DFL)])
def test_ignored_signal_is_ignored_after_the_subscribers(
    name: str, handler: signals.Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler stays meanwhile, or a second signal that comes right then would be lost."""
    number = signals.Signals[name]
    told: list[int] = []
    before = signals.signal(number, handler)
    try:
        handle = hooks(events.signal(number)).add("on", lambda signum: told.append(signum))
        with monkeypatch.context() as patch:
            patch.delattr(signals, "signal")
            signals.raise_signal(number)
            signals.raise_signal(number)
        handle.remove()
        assert signals.getsignal(number) is handler
    finally:
        signals.signal(number, before)
    assert told == [number] * 2


@pytest.mark.usefixtures("before")
def test_earlier_handler_follows_with_the_same_arguments() -> None:
    handled: list[Any] = []
    told: list[Any] = []
    theirs: Any = lambda signum, frame: handled.append((signum, id(frame)))
    signals.signal(signals.SIGTERM, theirs)
    with hooks(sigterm).add("on", lambda signum, frame: told.append((signum, id(frame)))):
        signals.raise_signal(signals.SIGTERM)
    assert handler() is theirs
    assert handled == told == [(signals.SIGTERM, id(sys._getframe()))]


def test_exception_of_a_subscriber_reaches_the_interrupted_code() -> None:
    def late() -> None:
        raise TimeoutError

    with hooks(sigterm).add("on", late), pytest.raises(TimeoutError):
        signals.raise_signal(signals.SIGTERM)


def test_sigint_still_raises_keyboard_interrupt() -> None:
    told: list[int] = []
    with hooks(events.signal("SIGINT")).add("on", lambda signum: told.append(signum)), pytest.raises(KeyboardInterrupt):
        signals.raise_signal(signals.SIGINT)
    assert told == [signals.SIGINT]


def test_signal_during_its_own_subscribers() -> None:
    depths: list[int] = []

    def nested() -> bool:
        depths.append(len(depths))
        if len(depths) < 3:
            signals.raise_signal(signals.SIGTERM)
        return True

    with hooks(sigterm).add("on", nested):
        signals.raise_signal(signals.SIGTERM)
    assert depths == [0, 1, 2]


def test_once_restores_the_handler(before: Any) -> None:
    sigterm.on(lambda: True, once=True)
    assert handler() is not before
    signals.raise_signal(signals.SIGTERM)
    assert handler() is before


# Threads


def test_first_subscriber_in_another_thread_is_refused(before: Any) -> None:
    refused: list[MountError] = []

    def subscribe() -> None:
        with pytest.raises(MountError, match="in the main thread") as caught:
            sigterm.on(lambda: None)
        refused.append(caught.value)

    at_once(subscribe)
    assert str(refused[0]).startswith("aspecthook.events:signal('SIGTERM') cannot be connected: signal only works in")
    assert isinstance(refused[0].__cause__, ValueError)
    assert not len(hooks(sigterm)) and handler() is before


def test_later_subscribers_in_any_thread(before: Any) -> None:
    told: list[str] = []
    sigterm.on(lambda: told.append("main"), name="main")
    at_once(lambda: sigterm.on(lambda: told.append("thread") or True, name="thread"))
    signals.raise_signal(signals.SIGTERM)
    assert told == ["main", "thread"]

    at_once(hooks(sigterm).clear)  # our handler must stay, for now
    assert handler() is not before
    at_once(lambda: sigterm.on(lambda: told.append("again") or True))  # and can be used again
    signals.raise_signal(signals.SIGTERM)
    assert told == ["main", "thread", "again"]

    at_once(hooks(sigterm).clear)
    with hooks(sigterm).paused():  # any change in the main thread puts it right
        assert handler() is before
    sigterm.on(lambda: None)
    at_once(hooks(sigterm).clear)
    assert not hooks(sigterm).displaced and handler() is before  # so does looking there


def test_handler_left_by_another_thread_goes_with_the_next_signal() -> None:
    program = """
import signal as signals, threading
handler = lambda signum, frame: print("handled")
signals.signal(signals.SIGTERM, handler)
events.signal("SIGTERM").on(lambda: print("told"))
thread = threading.Thread(target=hooks(events.signal("SIGTERM")).clear)
thread.start(), thread.join()
print(signals.getsignal(signals.SIGTERM) is handler)
signals.raise_signal(signals.SIGTERM)
print(signals.getsignal(signals.SIGTERM) is handler)
"""
    assert printed(program) == ["False", "handled", "True"]


def test_subscriber_added_while_paused_is_connected_at_the_resume(before: Any) -> None:
    told: list[int] = []
    with hooks(sigterm).paused():
        at_once(lambda: sigterm.on(lambda: told.append(1) or True))  # nothing is to be connected, or refused
        assert handler() is before
    signals.raise_signal(signals.SIGTERM)
    hooks(sigterm).clear()
    assert told == [1]


def test_removal_in_a_thread_while_displaced(before: Any) -> None:
    sigterm.on(lambda: None)
    with hooks(sigterm).add("on", lambda: None) as handle:
        signals.signal(signals.SIGTERM, before)
        at_once(handle.remove)
        assert hooks(sigterm).displaced and len(hooks(sigterm)) == 1
    hooks(sigterm).clear()
    assert handler() is before


def test_resume_refused_in_a_thread_is_made_up_for() -> None:
    told: list[int] = []
    sigterm.on(lambda: told.append(1) or True)
    pause = hooks(sigterm).paused()
    pause.__enter__()

    def resume() -> None:
        with pytest.raises(MountError, match="in the main thread"):
            pause.__exit__(None, None, None)

    at_once(resume)
    other = hooks(sigterm).add("on", lambda: None)
    pause = hooks(sigterm).paused()
    pause.__enter__()
    at_once(resume)
    at_once(other.remove)  # what is taken off is not refused
    sigterm.on(lambda: None)
    signals.raise_signal(signals.SIGTERM)
    assert told == [1]
    hooks(sigterm).clear()


# Handlers of others


@UNIX
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_sigkill_and_sigstop_are_refused(name: str) -> None:
    with pytest.raises(MountError, match=rf"signal\('{name}'\) cannot be connected"):
        events.signal(name).on(lambda: None)
    assert not len(hooks(events.signal(name)))


def test_handler_of_c_code_is_not_replaced(before: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(signals, "getsignal", lambda _: None)  # as for one that was set by C code
        with pytest.raises(MountError, match="was not set by Python code"):
            sigterm.on(lambda: None)
    assert handler() is before and not len(hooks(sigterm))


def test_handler_of_c_code_over_ours_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sigterm.on(lambda: None)
    with hooks(sigterm).add("on", lambda: None) as handle, monkeypatch.context() as patch:
        patch.setattr(signals, "getsignal", lambda _: None)
        handle.remove()
        assert hooks(sigterm).displaced
    hooks(sigterm).clear()
    assert not hooks(sigterm).displaced


@UNIX
def test_handler_of_asyncio_over_ours_is_left_alone(before: Any) -> None:
    sigterm.on(lambda: True)
    loop = asyncio.new_event_loop()
    try:
        loop.add_signal_handler(signals.SIGTERM, lambda: None)
        theirs = handler()
        assert hooks(sigterm).displaced
        hooks(sigterm).clear()
        assert handler() is theirs
    finally:
        loop.close()
    signals.signal(signals.SIGTERM, before)
    assert not hooks(sigterm).displaced
