"""The law of sinks that are told when calls run: in each thread, what runs is a stack, and nothing stays on it."""

from __future__ import annotations

import threading
from collections import defaultdict

from hypothesis import given

from aspecthook.record import record

from . import programs
from .programs import start
from .test_tree import TARGETS


class Watch:
    """A sink that notes what it is told, and checks that it may be told so."""

    def __init__(self) -> None:
        self.told = defaultdict(list)
        self.stacks = defaultdict(list)

    def begin(self, call) -> None:
        self.note("begin", call)

    def enter(self, call) -> None:
        self.note("enter", call)
        self.stacks[threading.get_ident()].append(call)

    def leave(self, call) -> None:
        assert self.stacks[threading.get_ident()].pop() is call
        self.note("leave", call)

    def write(self, call) -> None:
        self.note("write", call)

    def note(self, what: str, call) -> None:
        self.told[call].append(what)

    def close(self) -> None:
        pass


@given(programs.programs())
def test_a_call_begins_runs_and_ends_and_leaves_what_it_has_entered(program):
    watch = Watch()
    with record(*TARGETS, to=watch):
        start(program)
    assert watch.told
    for call, told in watch.told.items():
        assert told[0] == "begin"
        assert told[-1] == "write"
        turns = told[1:-1]
        assert turns == ["enter", "leave"] * (len(turns) // 2)
        assert len(turns) == 2 or call.name != "function"
    assert not any(watch.stacks.values())
