"""Uncaught exceptions: of the program, threads, asyncio and finalizers."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

from aspecthook import Args, Return, events, hooks
from tests.events.programs import fail, in_thread, replaced, run, unraisable

pytestmark = pytest.mark.usefixtures("no_trace")


def test_traceback_follows_the_subscribers() -> None:
    program = """
events.uncaught_exception.on(lambda error, origin, source: print(repr(error), origin, source, file=sys.stderr))
1 / 0
"""
    done = run(program)
    lines = done.stderr.splitlines()
    assert lines[0] == "ZeroDivisionError('division by zero') main None"
    assert lines[1] == "Traceback (most recent call last):" and lines[-1] == "ZeroDivisionError: division by zero"
    assert "aspecthook" not in done.stderr  # no frame of ours is in the traceback
    assert done.returncode == 1


def test_answer_hides_the_report_and_not_the_exit_status() -> None:
    done = run("events.uncaught_exception.on(lambda: True)\n1 / 0\n")
    assert (done.returncode, done.stderr, done.stdout) == (1, "", "")


def test_failing_subscriber_hides_no_report() -> None:
    program = """
@events.uncaught_exception.on
def failing(): raise LookupError("of the subscriber")
events.uncaught_exception.on(lambda error: print("told", repr(error)))
1 / 0
"""
    done = run(program)
    assert done.stdout == "told ZeroDivisionError('division by zero')\n"
    assert "LookupError: of the subscriber" in done.stderr
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_earlier_excepthook_gets_the_same_arguments() -> None:
    calls: list[tuple[Any, ...]] = []
    with replaced(sys, "excepthook", lambda *args: calls.append(args)):
        before = sys.excepthook
        told: list[Any] = []
        with pytest.raises(ValueError, match="in a thread") as caught:
            fail()
        with hooks(events.uncaught_exception).add("on", lambda call: told.append(call.args)):
            sys.excepthook(caught.type, caught.value, caught.tb)
        assert calls == [(caught.type, caught.value, caught.tb)] and sys.excepthook is before
        assert told == [(caught.value, "main", None)]


def test_exception_in_a_thread() -> None:
    told: list[tuple[Any, ...]] = []
    reported: list[Any] = []
    with replaced(threading, "excepthook", reported.append):
        before = threading.excepthook
        events.uncaught_exception.on(lambda error, origin, source: told.append((str(error), origin, source.name)))
        in_thread(fail)
        hooks(events.uncaught_exception).clear()
        assert threading.excepthook is before
    assert told == [("in a thread", "thread", "worker")]
    assert [str(args.exc_value) for args in reported] == ["in a thread"]


def test_system_exit_in_a_thread_is_not_reported() -> None:
    reported: list[object] = []
    told: list[object] = []
    with replaced(threading, "excepthook", lambda args: reported.append(args.exc_type)):
        events.uncaught_exception.on(lambda error: told.append(error))
        in_thread(sys.exit)
        hooks(events.uncaught_exception).clear()
    assert told == [] and reported == [SystemExit]


def test_unraisable_exception() -> None:
    told: list[tuple[Any, ...]] = []
    reported: list[str] = []
    with replaced(sys, "unraisablehook", lambda args: reported.append(str(args.exc_value))):
        before = sys.unraisablehook
        events.uncaught_exception.on(
            lambda error, origin, source: told.append((str(error), origin, getattr(source, "__name__", source)))
        )
        unraisable()
        events.uncaught_exception.on(lambda: "handled", name="handler")
        unraisable()
        hooks(events.uncaught_exception).clear()
        assert sys.unraisablehook is before
    # Since 3.14 Python gives its message alone, which names the function; the source was None.
    assert [row[:2] for row in told] == [("in __del__", "unraisable")] * 2 and reported == ["in __del__"]
    assert all(row[2] == "__del__" if sys.version_info < (3, 14) else ".__del__ at" in row[2] for row in told)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["excepthook", "unraisablehook"])
def test_system_exit_of_a_subscriber_hides_no_report(place: str, error: BaseException) -> None:
    """The report of the exception was lost."""
    reported: list[object] = []

    def leaving() -> None:
        raise error

    unraisable: Any = types.SimpleNamespace(exc_value=KeyError("x"), object=None, err_msg=None)
    with (
        replaced(sys, place, lambda *args: reported.append(args)),
        hooks(events.uncaught_exception).add("on", leaving),
        pytest.raises(type(error)),
    ):
        if place == "excepthook":
            sys.excepthook(KeyError, KeyError("x"), None)
        else:
            sys.unraisablehook(unraisable)
    assert len(reported) == 1


def test_subscriber_whose_own_objects_fail_is_called_once() -> None:
    reported: list[str] = []
    told: list[str] = []

    def subscriber(error: BaseException) -> None:
        told.append(str(error))
        unraisable()

    with replaced(sys, "unraisablehook", lambda args: reported.append(str(args.exc_value))):
        events.uncaught_exception.on(subscriber)
        unraisable()
        hooks(events.uncaught_exception).clear()
    assert len(told) == 1 and len(reported) == 2


def test_event_called_by_hand_reports_nothing() -> None:
    reported: list[object] = []
    with replaced(sys, "excepthook", lambda *args: reported.append(args)):
        with hooks(events.uncaught_exception).add("on", lambda origin: f"from {origin}"):
            assert events.uncaught_exception(ValueError(), "main", None) == "from main"
        assert events.uncaught_exception(ValueError(), "main", None) is None
    assert reported == []


def test_pre_hooks_change_and_prevent_the_event() -> None:
    told: list[str] = []
    reported: list[object] = []
    event = events.uncaught_exception
    with replaced(sys, "excepthook", lambda *args: reported.append(args)):
        event.on(lambda error: told.append(str(error)))
        event.pre(lambda: Args(error=ValueError("instead")))
        sys.excepthook(KeyError, KeyError("x"), None)
        event.pre(lambda: Return("kept from happening"))
        sys.excepthook(KeyError, KeyError("x"), None)
        hooks(event).clear()
    assert told == ["instead"] and len(reported) == 1
