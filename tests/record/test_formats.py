"""What other tools read: each format is valid, nested as they need it, and has the calls of the tape."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from aspecthook import HookOptionError
from aspecthook.record import record
from aspecthook.record._timeline import own_times, slices

from . import programs
from .programs import start

TARGETS = (programs.function, programs.generator, programs.coroutine, programs.async_generator)


@given(program=programs.programs())
def test_slices_of_a_thread_are_inside_each_other_or_apart(program):
    with record(*TARGETS) as tape:
        start(program)
    for rows in slices(tape).values():
        for place, row in enumerate(rows):
            for other in rows[place + 1 :]:
                assert other.begin >= row.end or row.begin <= other.begin <= other.end <= row.end
    running = sum(length for call in tape for _, length in call.turns or [(0, call.duration)] if call.parent is None)
    own = own_times(tape)
    assert all(time >= -1e-9 for time in own.values())
    if all(call.thread == "MainThread" and call.task is None for call in tape):
        assert sum(own.values()) == pytest.approx(running, abs=1e-6)


@given(program=programs.programs())
def test_speedscope_events_are_balanced(program, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "calls.speedscope.json"
    with record(*TARGETS) as tape:
        start(program)
    tape.save(path)
    data = json.loads(path.read_text())
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [one["name"] for one in data["shared"]["frames"]]
    assert set(frames) == {call.label for call in tape}
    for profile in data["profiles"]:
        stack, at = [], profile["startValue"]
        for event in profile["events"]:
            assert event["at"] >= at
            at = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert not stack and at == profile["endValue"]


@given(program=programs.programs())
def test_a_chrome_trace_has_each_slice_and_an_async_slice_of_what_has_turns(program, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "trace.json"
    with record(*TARGETS) as tape:
        start(program)
    tape.save(path)
    events = json.loads(path.read_text())["traceEvents"]
    complete = [one for one in events if one["ph"] == "X"]
    assert len(complete) == sum(len(call.turns) or 1 for call in tape)
    assert all(one["dur"] >= 0 and {"name", "pid", "tid", "ts", "args"} <= one.keys() for one in complete)
    begins = [one["id"] for one in events if one["ph"] == "b"]
    assert begins == [call.number for call in tape if call.turns]
    assert sorted(begins) == sorted(one["id"] for one in events if one["ph"] == "e")
    named = {(one["pid"], one["tid"]) for one in events if one["ph"] == "M" and one["name"] == "thread_name"}
    assert named == {(one["pid"], one["tid"]) for one in complete}


def inner():
    pass


def outer():
    inner()
    inner()


def test_collapsed_stacks_are_paths_with_own_times(tmp_path):
    with record(inner, outer) as tape:
        outer()
        inner()
    tape.save(tmp_path / "calls.folded")
    stacks = dict(line.rsplit(" ", 1) for line in (tmp_path / "calls.folded").read_text().splitlines())
    assert list(stacks) == [f"{__name__}:outer", f"{__name__}:outer;{__name__}:inner", f"{__name__}:inner"]
    assert all(time.isdigit() for time in stacks.values())


def test_an_unknown_suffix_is_refused(tmp_path):
    with record(inner) as tape:
        pass
    with pytest.raises(HookOptionError, match=r"give one of \.jsonl, \.speedscope\.json, \.json, \.folded, \.html"):
        tape.save(tmp_path / "calls.txt")


def test_the_table_counts_recursion_once():
    def count(n):
        if n == 2:
            raise KeyError
        try:
            count(n + 1)
        except KeyError:
            pass

    with record(count) as tape:
        count(0)
    (row,) = tape.functions()
    assert (row.calls, row.errors) == (3, 1) and row.total == tape.calls()[0].duration
    assert row.own == pytest.approx(row.total) and 0 < row.p50 <= row.p99 == row.total
    assert str(tape.functions()).splitlines()[1].split()[1:3] == ["3", "1"]
