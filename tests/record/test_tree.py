"""The law of recording: the tree on a tape is the tree of calls that the program has made, whatever they are."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given

from aspecthook.record import read, record

from . import programs
from .programs import INHERITS, TARGETS, expected, found, in_threads, ordered, start


def shape(call):
    return call.name, call.depth, len(call.children), call.exc is None


@given(programs.programs())
def test_the_tree_is_that_of_the_calls(program):
    if INHERITS and in_threads(program):
        return
    with record(*TARGETS) as tape:
        start(program)
    assert ordered(found(tape)) == ordered(expected(program))
    assert all(call.ended and call.begin >= (call.parent.begin if call.parent else 0.0) for call in tape)


@given(programs.programs(programs.SYNC))
def test_the_order_on_a_tape_is_that_in_which_calls_began(program):
    with record(*TARGETS) as tape:
        start(program)
    assert found(tape) == expected(program)
    assert [call.arguments["node"].number for call in tape] == sorted(call.arguments["node"].number for call in tape)


@given(program=programs.programs())
def test_a_recording_that_is_streamed_or_limited_beyond_need_is_the_same(program, tmp_path_factory):
    if INHERITS and in_threads(program):
        return
    path = tmp_path_factory.mktemp("calls") / "calls.jsonl"
    with record(*TARGETS, max_depth=100) as limited, record(*TARGETS, to=path):
        start(program)
    again = read(path)
    assert ordered(found(limited)) == ordered(expected(program))
    assert sorted(map(shape, again)) == sorted(map(shape, limited))


@given(programs.programs())
def test_without_arguments_the_tree_is_the_same(program):
    with record(*TARGETS) as full, record(*TARGETS, arguments=False) as timed:
        start(program)

    assert sorted(map(shape, timed)) == sorted(map(shape, full))
    assert not any(call.arguments or call.result for call in timed)


@pytest.mark.parametrize("depth", [1, 2, 3])
@given(programs.programs())
def test_max_depth_keeps_the_upper_levels(depth, program):
    with record(*TARGETS) as full, record(*TARGETS, max_depth=depth) as tape:
        start(program)
    upper = sorted(call.arguments["node"].number for call in full if call.depth < depth)
    assert sorted(call.arguments["node"].number for call in tape) == upper
    for call in tape:  # what is too deep to be recorded is a part of the call's own time
        if {(one.name, one.thread, one.task) for one in call.children} <= {(call.name, call.thread, call.task)}:
            inside = sum(one.duration for one in call.children)
            assert call.name != "function" or call.own == pytest.approx(call.duration - inside, abs=1e-9)


def inner():
    pass


def outer_generator():
    inner()
    yield


async def outer_coroutine():
    inner()


async def outer_stream():
    inner()
    yield


@pytest.mark.parametrize(
    "use",
    [
        lambda: list(outer_generator()),
        lambda: asyncio.run(outer_coroutine()),
        lambda: asyncio.run(anext(outer_stream())),
    ],
)
def test_a_call_inside_a_call_of_another_tape_begins_a_tree(use):
    """What another tape records in the context was taken for a part of the tree."""
    with record(outer_generator, outer_coroutine, outer_stream) as other, record(inner, max_depth=1) as tape:
        use()
    assert (len(other), [call.depth for call in tape]) == (1, [0])
