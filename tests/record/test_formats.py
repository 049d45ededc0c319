"""What other tools read: each format is valid, nested as they need it, and has the calls of the tape."""

from __future__ import annotations

import json
import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookOptionError
from aspecthook._values import shown_time
from aspecthook.record import read, record
from aspecthook.record._reading import lines_of, summary

from . import programs
from .programs import TARGETS, start


@given(several=st.lists(programs.programs(), min_size=1, max_size=3), most=st.integers(1, 10))
def test_the_calls_that_ended_last_are_on_a_page_and_the_others_counted(several, most, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    for place, program in enumerate(several):
        with record(*TARGETS, to=folder / f"{place}.jsonl"):
            start(program)
    whole, part = [*map(json.loads, lines_of(folder))], [*map(json.loads, lines_of(folder, most))]
    left_out = sum(one["left_out"] for one in part if "left_out" in one)
    assert left_out == max(0, sum("call" in one for one in whole) - most)
    assert len(part) == len(whole) - left_out + bool(left_out)
    for place, row in enumerate(whole):  # of each file the first calls are missing
        if row not in part:
            assert "call" in row and (whole[place - 1] not in part or "call" not in whole[place - 1])
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
            assert found == pytest.approx(durations[math.ceil(share * len(durations)) - 1], rel=0.01, abs=1e-9)


def above(call):
    while call.parent is not None:
        call = call.parent
        yield call


@given(program=programs.programs())
def test_the_slices_of_a_chrome_trace_are_the_calls_and_turns_inside_each_other_or_apart(program, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "trace.json"
    with record(*TARGETS) as tape:
        start(program)
    tape.save(path)
    events = json.loads(path.read_text())["traceEvents"]
    slices = [one for one in events if one["ph"] == "X"]
    assert len(slices) == sum(len(call.turns) or 1 for call in tape)
    named = {(one["pid"], one["tid"]) for one in events if one["ph"] == "M" and one["name"] == "thread_name"}
    assert named == {(one["pid"], one["tid"]) for one in slices}
    lanes = defaultdict(list)
    for one in slices:
        begin = round(one["ts"] * 1e3)
        lanes[one["tid"]].append((begin, begin + round(one["dur"] * 1e3)))
    for rows in lanes.values():
        rows.sort(key=lambda row: (row[0], -row[1]))
        for place, (_, end) in enumerate(rows):
            assert all(other >= end or after <= end for other, after in rows[place + 1 :])


def test_a_call_that_has_not_ended_is_an_open_slice(tmp_path):
    path = tmp_path / "trace.json"

    def inside():
        tape.save(path)

    with record(inside) as tape:
        inside()
    (event,) = [one for one in json.loads(path.read_text())["traceEvents"] if one["ph"] != "M"]
    assert event["ph"] == "B" and event["name"].endswith("inside")


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
