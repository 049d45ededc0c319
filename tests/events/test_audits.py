"""Audit events of any name, and their one dispatcher."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from aspecthook import HookTypeError, events, hooks
from tests.events.programs import printed

pytestmark = pytest.mark.usefixtures("no_trace")


def test_audit_event_has_one_event() -> None:
    assert events.audit("tests.one") is events.audit("tests.one") is not events.audit("tests.other")
    assert hooks(events.audit("tests.one")).name == "aspecthook.events:audit('tests.one')"
    with pytest.raises(HookTypeError, match="3 is not the name of an audit event; give a string"):
        events.audit(3)  # type: ignore[arg-type]


# Subscribers that cause audit events


def test_subscriber_is_not_notified_of_its_own_actions(tmp_path: Path) -> None:
    log = tmp_path / "log"
    told: list[str] = []
    inside = events.audit("tests.inside")

    def write_down(args: tuple[Any, ...]) -> None:
        path = args[0]
        told.append(os.path.basename(str(path)))
        sys.audit("tests.inside")
        with log.open("a") as file:
            print(path, file=file)

    with hooks(events.audit("open")).add("on", write_down), hooks(inside).add("on", lambda: told.append("inside")):
        (tmp_path / "a").write_text("a")
        (tmp_path / "b").write_text("b")
    assert told == ["a", "inside", "b", "inside"]
    assert log.read_text().splitlines() == [str(tmp_path / "a"), str(tmp_path / "b")]


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


def test_the_end_of_one_event_leaves_the_others() -> None:
    heard: list[object] = []
    events.audit("ahe.one").on(lambda args: heard.append(args))
    with hooks(events.audit("ahe.two")).add("on", lambda: None):
        pass
    sys.audit("ahe.one", 1)
    hooks(events.audit("ahe.one")).clear()
    assert heard == [(1,)]
