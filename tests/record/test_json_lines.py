"""The file of a recording: readable whatever happens to the process, and no trouble to the program."""

from __future__ import annotations

import _thread
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookWarning
from aspecthook.record import RecordingError, _json_lines, read, record
from aspecthook.record._json_lines import JsonLines

ROOT = Path(__file__).parents[2]


def price(item, qty=1):
    return 2.5 * qty


def checkout(items):
    return sum(price(item) for item in items)


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_entries_are_those_of_the_format(tmp_path):
    path = tmp_path / "calls.jsonl"
    with record(price, checkout, to=path) as tape:
        checkout(["tea"])
        with pytest.raises(TypeError):
            price("tea", None)
    with pytest.raises(HookOptionError, match="this tape has stopped"):
        tape.record(checkout)
    header, *rest = entries(path)
    assert header["aspecthook"] == "calls" and header["version"] == 1 and header["process"] == os.getpid()
    assert header["parent"] is None and abs(header["started"] - time.time()) < 1_000
    code = price.__code__
    functions = [one for one in rest if "function" in one]
    label = f"{__name__}:price"
    assert functions[0] == {"function": 0, "name": label, "file": code.co_filename, "line": code.co_firstlineno}
    calls = [one for one in rest if "call" in one]
    assert [(one["call"], one["parent"], one["of"]) for one in calls] == [(2, 1, 0), (1, None, 1), (3, None, 0)]
    assert calls[0]["arguments"] == {"item": "'tea'", "qty": "1"} and calls[0]["result"] == "2.5"
    assert calls[2]["error"]["type"] == "TypeError" and "result" not in calls[2]
    assert all(type(one["begin"]) is type(one["duration"]) is int and one["thread"] == "MainThread" for one in calls)
    with record(price, to=path, arguments=False):
        price("tea")
    assert not {"arguments", "result"} & entries(path)[-1].keys()


def test_a_call_that_has_not_ended_is_written_when_the_file_is_closed(tmp_path):
    def numbers():
        yield 1

    path = tmp_path / "calls.jsonl"
    with record(numbers, to=path):
        stream = numbers()
        next(stream)
    assert entries(path)[-1]["duration"] is None
    call = read(path).last
    assert not call.ended and call.duration is None and str(call).endswith("has not ended")


def test_of_many_calls_the_last_can_be_kept_alone(tmp_path):
    path = tmp_path / "calls.jsonl"
    with record(price, to=JsonLines(path, time.time(), last=3)):
        for number in range(10):
            price(number)
        assert len(read(path)) == 0
    assert [call.shown_arguments()["item"] for call in read(path)] == ["7", "8", "9"]


def read_while_it_runs(path, calls, every):
    """Return how many calls were in the file after each so many, inside a call that had not ended."""
    seen = []

    def work():
        for number in range(1, calls + 1):
            price(number)
            if number % every == 0:
                seen.append(len(read(path)))

    with record(price, work, to=path):
        work()
        assert len(read(path)) == calls + 1
    return seen


def test_lines_are_written_together_and_none_waits_when_the_outermost_call_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(_json_lines, "_SECONDS", 1_000.0)
    (seen,) = read_while_it_runs(tmp_path / "calls.jsonl", 2_000, every=2_000)
    assert 1_500 <= seen < 2_000


def test_a_line_waits_no_longer_than_until_a_call_that_ends_later(tmp_path, monkeypatch):
    monkeypatch.setattr(_json_lines, "_SECONDS", 0.0)
    assert read_while_it_runs(tmp_path / "calls.jsonl", 10, every=1) == [*range(1, 11)]


SLOW = """
import os, sys, threading
from aspecthook.record import record
def leaf(n): return n
def branch(n): return [leaf(n), leaf(n)]
tape = record(leaf, branch, to=sys.argv[1])
def work():
    while True:
        branch(1)
for _ in range(2):
    threading.Thread(target=work).start()
print("begun", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("after", [0.0, 0.01, 0.05])
def test_a_killed_process_leaves_a_file_that_can_be_read(after, tmp_path):
    path = tmp_path / "calls.jsonl"
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    with process:
        process.stdout.readline()
        time.sleep(after)
        process.kill()
    tape = read(path)
    for call in tape.calls("leaf"):
        assert call.parent is None or call.parent.name == "branch"
    # Every call that has ended has its two inner calls before it in the file.
    assert all(len(call.children) == 2 for call in tape.calls("branch"))


def lines_of(folder):
    path = folder / "whole.jsonl"
    with record(price, checkout, to=path):
        checkout(["tea", "é😀\n"])
    return path.read_bytes()


@given(share=st.floats(0, 1))
def test_a_file_that_ends_anywhere_can_be_read(share, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut")
    whole = lines_of(folder)
    first = whole.index(b"\n") + 1
    cut = round(first + share * (len(whole) - first))
    path = folder / "cut.jsonl"
    path.write_bytes(whole[:cut])
    finished = sum(b'"call"' in line for line in whole[:cut].splitlines(keepends=True) if line.endswith(b"\n"))
    assert len(read(path)) in (finished, finished + 1)  # a last line that lacks only its end is whole


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a recording of calls: it is empty"),
        ("{}\n", "does not begin with a header"),
        ("price\n", ":1 is not JSON"),
        ("[1]\n", ":1 is not an entry"),
        ('{"aspecthook": "calls", "version": 9, "process": 1, "started": 0}\n', "reads version 1"),
        ('{"aspecthook": "calls", "version": 1}\n', ":1 is not an entry of a recording"),
        ('{"aspecthook": "calls", "version": 1, "process": 1, "started": 1e300}\n', "is not a time in seconds"),
        ('{"aspecthook": "calls", "version": 1, "process": 1, "started": 0}\n{"call": 1}\n', ":2 is not an entry"),
    ],
)
def test_what_is_no_recording_is_refused(text, why, tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_text(text)
    with pytest.raises(RecordingError, match=why):
        read(path)


HEADER = {"aspecthook": "calls", "version": 1, "process": 1, "started": 0}
FUNCTION = {"function": 0, "name": "shop:price", "file": "shop.py", "line": 1}
CALL = {"call": 0, "parent": None, "of": 0, "begin": 0, "duration": 5, "own": 5, "thread": "main"}


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({**CALL, "begin": float("nan")}, id="no number"),
        pytest.param({**CALL, "duration": float("inf")}, id="no end"),
        pytest.param({**CALL, "own": 10**300}, id="longer than all time"),
        pytest.param({**CALL, "turns": [[0, float("inf")]]}, id="a turn without end"),
        pytest.param({**CALL, "call": float("inf")}, id="not counted"),
        pytest.param({**CALL, "begin": 10**4000}, id="too long for a float"),
        pytest.param({**HEADER, "started": 1e300}, id="in a far future"),
        pytest.param({**FUNCTION, "file": "shop.py", "line": []}, id="a line that is none"),
        pytest.param('{"call": ' + "[" * 200_000 + "]" * 200_000 + "}", id="lists in lists"),
    ],
)
def test_a_hostile_recording_is_refused(entry, tmp_path):
    """Each of them was read, and broke or hung what used the tape, or raised another error."""
    path = tmp_path / "calls.jsonl"
    lines = [one if isinstance(one, str) else json.dumps(one) for one in (HEADER, FUNCTION, entry)]
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(RecordingError):
        read(path)


def test_a_call_that_says_it_is_inside_itself_is_outermost(tmp_path):
    rows = [CALL, {**CALL, "call": 1, "parent": 2}, {**CALL, "call": 2, "parent": 1}, {**CALL, "call": 3, "parent": 3}]
    (tmp_path / "calls.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in [HEADER, FUNCTION, *rows]))
    assert [call.depth for call in read(tmp_path)] == [0, 0, 1, 0]


def test_the_times_of_a_process_that_began_later_are_counted_from_the_first(tmp_path):
    for name, started in (("1.jsonl", 10), ("2.jsonl", 15)):
        call = {**CALL, "turns": [[1_000_000_000, 5]]}
        rows = [{**HEADER, "process": started, "started": started}, FUNCTION, call]
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    read(tmp_path).save(tmp_path / "both.jsonl")
    for tape in (read(tmp_path / "1.jsonl", tmp_path / "2.jsonl"), read(tmp_path / "both.jsonl")):
        assert [(call.begin, call.turns[0][0]) for call in tape] == [(0.0, 1.0), (5.0, 6.0)]


def test_no_text_of_a_recording_controls_the_terminal(tmp_path):
    path, evil = tmp_path / "calls.jsonl", "\x1b[2J\x07\x9bm\u202e\n"
    rows = [
        HEADER,
        {**FUNCTION, "name": f"shop:{evil}", "file": evil},
        {**CALL, "arguments": {evil: evil}, "result": evil, "thread": evil, "task": evil},
        {**CALL, "call": 1, "error": {"type": evil, "message": evil}},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tape = read(path)
    call, failed = tape
    shown = [*tape.lines(), *str(tape.functions()).splitlines(), repr(call), repr(failed.exc)]
    shown += [call.thread, call.task, call.function.file, call.result, *call.arguments, *call.arguments.values()]
    assert [text for text in shown if not text.isprintable()] == []


# Failures


class Broken:
    def __init__(self, fails):
        self.fails = fails

    def write(self, call):
        if self.fails == "write":
            raise OSError(errno.ENOSPC, "No space left on device")

    def close(self):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fails", ["write", "close"])
def test_a_sink_that_raises_is_dropped_with_one_warning(fails):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with record(price, to=Broken(fails)):
            assert price("tea") == price("tea") == 2.5
    assert [one.category for one in caught] == [HookWarning] and "No space left" in str(caught[0].message)


# A daemon closes descriptors by their numbers, those of others too, and its own files get the numbers next.
LOST = {
    "closed": lambda number, _: os.close(number),
    "closed, and open as another file": lambda number, own: os.dup2(own.fileno(), number),
}


@pytest.mark.parametrize("lost", LOST)
def test_a_file_whose_descriptor_the_program_takes_is_opened_again(lost, tmp_path):
    path, of_program = tmp_path / "calls.jsonl", tmp_path / "of the program"
    with of_program.open("wb") as own, record(price, to=path) as tape:
        price("tea")
        number = tape._recorder.sink.number
        LOST[lost](number, own)
        price("milk")
        if lost != "closed":
            os.write(number, b"mine")  # it is open still
            os.close(number)
    assert of_program.read_bytes() == (b"" if lost == "closed" else b"mine")
    assert [call.shown_arguments()["item"] for call in read(path)] == ["'tea'", "'milk'"]


def test_what_a_sink_calls_is_not_recorded():
    class Calling:
        def __init__(self):
            self.calls = []

        def write(self, call):
            self.calls.append(call.name)
            price("tea")
            json.dumps([1])

        def close(self):
            price("tea")

    sink = Calling()
    with record(price, "json:dumps", to=sink):
        price("tea")
        json.dumps([2])
    assert sink.calls == ["price", "dumps"]


@pytest.mark.parametrize("to", [3, object(), [object()]])
def test_what_is_no_sink_is_refused(to):
    with pytest.raises(HookOptionError, match="give a path, or an object with write"):
        record(price, to=to)


# Processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_goes_on_in_memory_and_in_a_file_of_its_own(tmp_path):
    program = """
import os, sys
from aspecthook.record import record
def inner(n): return n
def outer():
    inner(1)
    child = os.fork()
    inner(2 if child else 3)
    if child:
        os.waitpid(child, 0)
    return child
with record(inner, outer, to=sys.argv[1]), record(inner, outer) as kept:
    child = outer()
if child:
    print(os.getpid(), child)
print([(call.name, call.arguments.get("n"), call.depth, call.process == os.getpid()) for call in kept], flush=True)
if not child:
    os._exit(0)
"""
    to = str(tmp_path / "calls.jsonl")
    done = subprocess.run([sys.executable, "-c", program, to], capture_output=True, text=True, cwd=ROOT, check=True)
    # What is kept in memory goes on in both.
    of_child, numbers, of_parent = done.stdout.splitlines()
    assert of_child == "[('outer', None, 0, False), ('inner', 1, 1, False), ('inner', 3, 1, True)]"
    assert of_parent == "[('outer', None, 0, True), ('inner', 1, 1, True), ('inner', 2, 1, True)]"
    parent, child = map(int, numbers.split())
    assert {path.name for path in tmp_path.iterdir()} == {"calls.jsonl", f"calls.{child}.jsonl"}
    tape = read(tmp_path)
    (outer,) = tape.calls("outer")  # in the child it had begun already
    assert outer.process == parent
    assert [(call.process == parent, call.arguments["n"]) for call in outer.children] in (
        [(True, "1"), (True, "2"), (False, "3")],
        [(True, "1"), (False, "3"), (True, "2")],
    )
    header = entries(next(path for path in tmp_path.iterdir() if str(child) in path.name))[0]
    assert (header["process"], header["parent"]) == (child, parent)


# Threads and memory


def test_the_lines_of_threads_do_not_mix(tmp_path):
    path = tmp_path / "calls.jsonl"
    with record(price, checkout, to=path):
        threads = [threading.Thread(target=lambda: [checkout("ab") for _ in range(50)]) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    tape = read(path)
    assert len(tape) == 8 * 50 * 3 and all(len(call.children) == 2 for call in tape.calls("checkout"))
    assert all(child.thread == call.thread for call in tape for child in call.children)
    assert len({call.number for call in tape}) == len(tape)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_has_written_what_has_ended_in_it_though_a_call_of_its_parent_is_around_it(tmp_path):
    program = """
import os, sys
from aspecthook.record import record
def inner(n): return n
def outer():
    if os.fork():
        os.wait()
    else:
        inner(1), inner(2), os._exit(0)
record(inner, outer, to=sys.argv[1])
outer()
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "calls.jsonl")], cwd=ROOT, check=True)
    assert [call.arguments["n"] for call in read(tmp_path).calls("inner")] == ["1", "2"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_recording_that_a_thread_unknown_to_threading_has_begun_goes_on_in_a_child(tmp_path):
    tapes, begun = [], _thread.allocate_lock()

    def begin():
        tapes.append(record(price, to=tmp_path / "calls.jsonl"))
        begun.release()

    begun.acquire()
    _thread.start_new_thread(begin, ())
    begun.acquire()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that thread may be there still
        child = os.fork()
    if not child:
        price("tea")  # `threading` raised when it was asked, in the child, whether that thread lives
        os._exit(0)
    os.waitpid(child, 0)
    tapes[0].stop()
    assert [call.process for call in read(tmp_path).calls(item="'tea'")] == [child]


def test_a_thread_that_writes_as_the_file_is_closed_writes_to_no_other_file(tmp_path, monkeypatch):
    opened, write = [], os.write

    def close_first(number, data):
        tape.stop()
        opened.append(os.open(tmp_path / "of the program", os.O_CREAT | os.O_WRONLY))  # it may get the same number
        return write(number, data)

    tape = record(price, to=tmp_path / "calls.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", close_first)
        price("tea")
    for one in opened:
        os.close(one)
    assert opened and (tmp_path / "of the program").read_bytes() == b""
    assert len(read(tmp_path / "calls.jsonl")) >= 1


def forever(n):
    return forever(n + 1)


def some_of_it(n):
    """Handle the error where there is little room, in the middle of the recursion."""
    try:
        return some_of_it(n + 1)
    except RecursionError:
        return n


class Forever:
    def __iter__(self):
        yield from Forever()


def listed(_):
    return list(Forever())


# Python 3.13 calls a function with `*args` once more than the limit of recursion allows, as soon as that call is
# specialised: the deepest begin is noted, and for its end there is no frame.
LOSES_AN_END = sys.version_info[:2] == (3, 13)


@pytest.mark.parametrize("recursion", [forever, some_of_it, listed], ids=lambda one: one.__name__)
def test_a_recursion_that_the_program_handles_is_recorded_whole(recursion, tmp_path, recwarn):
    """The sink had no room either: it was dropped, and all that followed was missing."""
    path = tmp_path / "calls.jsonl"
    with record(forever, some_of_it, Forever.__iter__, price, to=path):
        for _ in range(2):
            with suppress(RecursionError):
                recursion(0)
            price("tea")
    tape = read(path)
    deep = [call for call in tape if call.name != "price"]
    if LOSES_AN_END and recursion is not listed:
        # One for each recursion at most, and nothing is missing.
        assert sum(not call.ended for call in deep) <= 2 and len(deep) > 100
        assert len(tape.calls("price")) == 2 and not recwarn.list
        return
    assert [call.parent for call in tape.calls("price")] == [None, None]
    assert len(deep) > 100 and all(call.ended for call in deep)
    assert [len(call.children) for call in deep].count(0) == 2  # two chains, one for each time
    assert not [str(one.message) for one in recwarn]
