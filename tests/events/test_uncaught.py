"""Uncaught exceptions: of the program, threads, asyncio and finalizers."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

from aspecthook import events, hooks
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
