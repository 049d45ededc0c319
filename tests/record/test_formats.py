"""What other tools read: each format is valid, nested as they need it, and has the calls of the tape."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookOptionError
from aspecthook._values import shown_time
from aspecthook.record import read, record
from aspecthook.record._reading import first, summary
from aspecthook.record._saving import slices

from . import programs
from .programs import TARGETS, start


@given(program=programs.programs())
def test_slices_of_a_thread_are_inside_each_other_or_apart(program):
    with record(*TARGETS) as tape:
        start(program)
    for rows in slices(tape).values():
        for place, row in enumerate(rows):
            for other in rows[place + 1 :]:
                assert other.begin >= row.end or row.begin <= other.begin <= other.end <= row.end


@given(program=programs.programs(), most=st.integers(1, 10))
def test_the_calls_that_began_first_are_on_a_page_and_the_others_counted(program, most, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    with record(*TARGETS, to=folder / "calls.jsonl"):
        start(program)
    whole, part = list(read(folder)), [*first(folder, most)]
    begins = sorted(one["begin"] for one in part if "call" in one)
    assert begins == [round(call.begin * 1e9) for call in whole[:most]]
    assert sum(one["left_out"] for one in part if "left_out" in one) == max(0, len(whole) - most)
    assert {"aspecthook", "function"} <= {next(iter(one)) for one in part}


@given(program=programs.programs())
def test_the_table_of_a_file_is_that_of_its_tape(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    with record(*TARGETS, to=folder / "calls.jsonl", max_depth=4):
        start(program)
    again = read(folder)
    table = summary(folder)
    assert len(table) == len(again.functions())
    for row in [*table, *again.functions()]:
        calls = again.calls(row.name)
        outermost = [call.duration for call in calls if row.name not in {one.label for one in above(call)}]
        assert (row.calls, row.errors) == (len(calls), sum(call.exc is not None for call in calls))
        assert row.total == pytest.approx(sum(outermost)) and row.own == pytest.approx(sum(call.own for call in calls))
        durations = sorted(call.duration for call in calls)
        for share, found in ((0.5, row.p50), (0.99, row.p99)):
            assert found == pytest.approx(durations[math.ceil(share * len(durations)) - 1], rel=0.005, abs=1e-9)


def above(call):
    while call.parent is not None:
        call = call.parent
        yield call


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


@pytest.mark.parametrize("name", ["calls.txt", "calls.folded"])
def test_an_unknown_suffix_is_refused(tmp_path, name):
    with record(start) as tape:
        pass
    with pytest.raises(HookOptionError, match=r"give one of \.jsonl, \.html, \.json$"):
        tape.save(tmp_path / name)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 ns"),
        (9.996e-7, "1 µs"),
        (0.0009996, "1 ms"),
        (999.6, "1,000 s"),
        (12345.0, "12,300 s"),
    ],
)
def test_a_time_is_shown_with_three_digits_and_its_unit(seconds: float, shown: str) -> None:
    """999.6 µs were shown as 1e+03 µs, and an hour as 3.6e+03 s."""
    assert shown_time(seconds) == shown
