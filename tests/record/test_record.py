"""Recording beside other hooks, schedulers and processes; what `record` refuses, and what it leaves behind."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

from aspecthook import Args, HookOptionError, Return, WeaveError, weave
from aspecthook.record import Tape, read, record

ROOT = Path(__file__).parents[2]


def price(item, qty=1, *more, tax=0, **named):
    return 2.5 * qty


def twice(item):
    return price(item) + price(item, 2)


async def fetch(url):
    await asyncio.sleep(0)
    return price(url)


def tree(tape):
    return [(call.name, call.depth) for call in tape]


def test_arguments_are_by_name_with_defaults_however_they_were_passed():
    with record(price) as tape:
        price("tea")
        price(qty=2, item="tea")
        price("tea", 3, "a", "b", tax=1, colour="red")
    defaults = {"qty": 1, "more": (), "tax": 0, "named": {}}
    assert [call.arguments for call in tape] == [
        {"item": "tea", **defaults},
        {"item": "tea", **defaults, "qty": 2},
        {"item": "tea", "qty": 3, "more": ("a", "b"), "tax": 1, "named": {"colour": "red"}},
    ]


def test_of_a_call_that_is_not_on_the_tape_the_error_names_what_is():
    with record(price) as tape:
        price("tea")
    with pytest.raises(LookupError, match=r"twice\(item='tea'\) is not on the tape, which has 1 call, of price$"):
        tape.find("twice", item="tea")


def test_calls_are_found_by_arrays_and_by_nan():
    np = pytest.importorskip("numpy")
    with record(twice) as tape:
        for item in (np.ones(2), np.zeros(3), [math.nan]):
            twice(item)
    assert [tape.calls("twice", item=call.arguments["item"]) for call in tape] == [[call] for call in tape]
    assert tape.find(item=np.zeros(3)) is tape.calls()[1] and tape.find(item=[float("nan")]) is tape.last


def test_a_depth_of_none_is_refused():
    for depth in (0, 1.5):
        with pytest.raises(HookOptionError, match=f"max_depth={depth}; give a number of 1 or more"):
            record(price, max_depth=depth)


def test_all_targets_are_recorded_or_none():
    closed: list[bool] = []
    with pytest.raises(WeaveError, match="did you mean 'price'"):
        record(twice, f"{__name__}:prise", to=SimpleNamespace(write=print, close=lambda: closed.append(True)))
    assert "hooks" not in vars(twice) and closed == [True]


# Beside other hooks


def test_a_hook_that_ends_calls_early_does_not_confuse_a_recursion():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    known = {3: 2, 4: 3}

    def cached(n):
        return Return(known[n]) if n in known else None

    for options in ({}, {"before": "tape"}):
        with weave(fib, pre=cached, priority="HIGHEST", **options), record(fib) as tape:
            assert fib(6) == 8
        assert all(call.ended for call in tape)
        if not options:
            assert [(call.arguments["n"], call.depth, call.result) for call in tape] == [
                *((6, 0, 8), (5, 1, 5), (4, 2, 3), (3, 2, 2), (4, 1, 3)),
            ]
        else:  # what ends before it is seen to begin is on the tape too
            assert len(tape) == 5


@pytest.mark.parametrize("first", [True, False])
def test_a_tape_is_outside_of_all_other_hooks(first):
    def change():
        return Args(qty=4)

    def negate(result):
        return -result

    def other():
        return weave(price, pre=change, post=negate, priority="HIGHEST" if first else "LOWEST")

    if first:
        with other(), record(price) as tape:
            assert price("tea") == -10.0
    else:
        with record(price) as tape, other():
            assert price("tea") == -10.0
    assert tape.last.arguments["qty"] == 1 and tape.last.result == -10.0


def test_async_hooks_that_wait_do_not_take_in_the_calls_of_other_tasks():
    async def wait():
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def other():
        for _ in range(6):
            price("rice")
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(fetch("a"), other(), fetch("b"))

    with weave(fetch, pre=wait, post=lambda result: wait()), record(fetch, price) as tape:
        asyncio.run(main())
    assert {call.depth for call in tape.calls("price", item="rice")} == {0}
    assert [call.parent.arguments["url"] for call in tape.calls("price") if call.depth] == ["a", "b"]


# Schedulers, processes, signals


# What recording itself is made of


INSIDE = ("threading:*", "threading:Thread.*", "json.*:*", "re:*", "logging:*", "reprlib:*", "fnmatch:*", "weakref:*")


@pytest.mark.parametrize("options", [{}, {"arguments": False}, {"max_depth": 5}, {"redact": "token"}, {"to": "file"}])
def test_what_recording_needs_can_be_recorded(options, tmp_path):
    # A program of its own: what goes wrong here goes wrong in every call.
    program = """
import asyncio, json, sys, threading, warnings
from aspecthook.record import read, record
warnings.simplefilter("error")
options = json.loads(sys.argv[1])
def work(n):
    return json.loads(json.dumps({"n": n}))
async def main():
    await asyncio.gather(*[asyncio.to_thread(work, n) for n in range(3)])
with record("__main__:work", *sys.argv[2:], "asyncio.*:*", **options) as tape:
    asyncio.run(main())
    thread = threading.Thread(target=work, args=(3,))
    thread.start()
    thread.join()
tape = read(options["to"]) if "to" in options else tape
str(tape), tape.functions()
assert len(tape.calls("work")) >= 4, str(tape)
"""
    given = {"to": str(tmp_path / "calls.jsonl")} if "to" in options else options
    command = [sys.executable, "-c", program, json.dumps(given), *INSIDE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "target", ["time:perf_counter", "time:time", "threading:current_thread", "os:write", "os:getpid"]
)
def test_functions_that_recording_calls_itself_can_be_recorded(target, tmp_path):
    module, name = target.split(":")
    arguments = (1, b"") if name == "write" else ()
    with record(target) as tape, record(target, price, to=tmp_path / "calls.jsonl"):
        getattr(sys.modules[module], name)(*arguments)
        price("tea")
    assert name in {call.name for call in tape}
    assert {call.name for call in read(tmp_path)} >= {name, "price"}


# What is left behind


def test_a_tape_that_is_gone_leaves_nothing():
    def inner():
        pass

    code = inner.__code__
    tape = record(inner, arguments=False)
    inner()
    tape.stop()
    assert inner.__code__ is code
    ref = weakref.ref(tape._recorder)
    del tape
    gc.collect()
    assert ref() is None


def test_a_tape_keeps_no_function_alive():
    def inner():
        pass

    tape = Tape().record(inner)
    inner()
    ref = weakref.ref(inner)
    del inner
    gc.collect()
    assert ref() is None and len(tape) == 1 and tape.last.arguments == {}
    tape.stop()
