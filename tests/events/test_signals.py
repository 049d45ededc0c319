"""Signals as events."""

from __future__ import annotations

import asyncio
import signal as signals
from collections.abc import Iterator
from typing import Any

import pytest

from aspecthook import HookLookupError, MountError, events, hooks
from tests.events.programs import UNIX, printed
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


@UNIX
def test_signal_is_noticed_again_after_it_has_stopped_the_process() -> None:
    program = """
import os, signal, time
seen = []
events.signal("SIGTSTP").on(lambda: seen.append(1))
if not (child := os.fork()):
    while os.getppid() != 1:
        time.sleep(0.05)
        os.kill(os.getppid(), signal.SIGCONT)
for _ in range(2):
    signal.raise_signal(signal.SIGTSTP)
os.kill(child, signal.SIGKILL)
print(len(seen))
"""
    assert printed(program) == ["2"]
