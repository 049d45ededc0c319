"""A tape has each call that the interpreter itself counts, in threads, tasks and generators."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from aspecthook.record import _hooks, _recorder, record
from aspecthook.record._json_lines import JsonLines
from aspecthook.record._reading import summary

PROGRAM = """
import asyncio, functools, json
from concurrent.futures import ThreadPoolExecutor


class Node:
    def __init__(self, size):
        self.children = [Node(size - 1) for _ in range(size)]

    def __iter__(self):
        yield self
        for child in self.children:
            yield from child

    @property
    def total(self):
        return 1 + sum(child.total for child in self.children)

    @classmethod
    def of(cls, size):
        return cls(size)

    @staticmethod
    def check(one):
        if one.total > 20:
            raise ValueError(one.total)


@functools.cache
def cached(number):
    return number * number


async def work(number):
    await asyncio.sleep(0)
    return await asyncio.to_thread(cached, number % 3)


async def stream(count):
    for number in range(count):
        yield await work(number)


async def gather():
    tasks = [asyncio.create_task(work(number)) for number in range(10)]
    return [one async for one in stream(5)] + await asyncio.gather(*tasks)


def main():
    tree = Node.of(4)
    for one in tree:
        try:
            Node.check(one)
        except ValueError:
            pass
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(Node, range(4)))
    return json.dumps(asyncio.run(gather()), default=str)
"""


def counted(module: Any) -> Counter[str]:
    """Run the program, and return how often each function of it starts, as `sys.monitoring` says."""
    starts: list[str] = []  # appended to, since threads without the GIL lose what two of them add to one number

    def start(code: CodeType, _: int) -> None:
        if code.co_filename == "<program>" and "<" not in code.co_name:
            starts.append(code.co_qualname)

    monitoring: Any = getattr(sys, "monitoring")
    monitoring.use_tool_id(4, "counts")
    try:
        monitoring.register_callback(4, monitoring.events.PY_START, start)
        monitoring.set_events(4, monitoring.events.PY_START)
        module.main()
    finally:
        monitoring.set_events(4, 0)
        monitoring.free_tool_id(4)
    return Counter(starts)


def made() -> ModuleType:
    module = ModuleType("counted_program")
    exec(compile(PROGRAM, "<program>", "exec"), vars(module))
    return module


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs sys.monitoring")
def test_a_tape_has_the_calls_that_sys_monitoring_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    want = counted(made())
    module: Any = made()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    name = module.__name__
    with record(f"{name}:*", f"{name}:Node.__*__, {name}:Node.total") as tape:
        module.main()
    found = {row.name.partition(":")[2]: row.calls for row in tape.functions()}
    # A call that the cache answers is a call of the function for a tape; the interpreter enters no code of it.
    assert found.pop("cached") == 15 and 3 <= want.pop("cached") <= 15
    assert found == want


def fails(number: int) -> int:
    if number == 0:
        raise KeyError(number)
    return fails(number - 1)


@pytest.mark.parametrize("whole", [1, 60, 10**6])
def test_calls_that_are_only_counted_are_as_many_as_those_that_are_recorded(
    whole: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = made()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    targets = f"{module.__name__}:*, {module.__name__}:Node.__*__, {module.__name__}:Node.total"
    with record(targets) as tape:
        module.main()
    path = tmp_path / "calls.jsonl"
    with record(targets, to=JsonLines(path, 0.0, whole=whole)):
        module.main()
    want = {row.name: (row.calls, row.errors) for row in tape.functions()}
    table = summary(path)
    assert {row.name: (row.calls, row.errors) for row in table} == want
    assert all(0 < row.p50 <= row.p99 for row in table)
    assert (path.read_text().count('{"call":') < 100) == (whole < 100)


@pytest.mark.parametrize("whole", [1, 3, 7, 20, 50])
def test_calls_that_are_only_counted_are_as_long_as_those_that_are_recorded(
    whole: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls inside calls of the same function, turns of generators, failures, and what runs when counting begins."""
    module: Any = made()
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def work() -> None:
        for one in module.Node(3):
            with suppress(ValueError):
                module.Node.check(one)
        with pytest.raises(KeyError):
            fails(9)

    tables = []
    for most in (10**6, whole):
        clock = (map(float, count()).__next__,)
        for user in (_hooks, _recorder):
            monkeypatch.setattr(user, "CLOCK", clock)
        to = JsonLines(tmp_path / "calls.jsonl", 0.0, whole=most)
        with record(work, fails, f"{module.__name__}:Node.*, {module.__name__}:Node.__*__", to=to):
            work()
        tables.append({row.name: row for row in summary(to.path)})
    for name, row in tables[0].items():
        same = tables[1][name]
        assert same[:3] == row[:3] and same[3:5] == pytest.approx(row[3:5]), name
        assert same[5:] == pytest.approx(row[5:], rel=0.01), name


FORKING = """
import os, sys
from pathlib import Path
from aspecthook.record import record
from aspecthook.record._json_lines import JsonLines

def work(fork):
    fails_(2)
    if is_child := fork and os.fork() == 0:
        fails_(1)
    return is_child

def fails_(number):
    return fails_(number - 1) if number else 0

with record(work, fails_, to=JsonLines(Path(sys.argv[1]), 0.0, whole=1)) as tape:
    work(False)
    if work(True):  # of the child, in which it had not begun
        tape.stop()
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_each_process_writes_what_it_has_counted(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path / "calls.jsonl")], cwd=Path(__file__).parents[2], check=True
    )
    tables = [{row.name.rpartition(":")[2]: row.calls for row in summary(one)} for one in sorted(tmp_path.iterdir())]
    assert sorted(tables, key=len) == [{"fails_": 2}, {"work": 2, "fails_": 6}]


@pytest.mark.parametrize("whole", [1, 10**6])
def test_a_call_whose_end_an_interrupt_has_hidden_ends_with_the_one_around_it(
    whole: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count()

    def clock() -> float:
        if (now := next(seconds)) == 5:  # as the second call of `inner` ends
            raise KeyboardInterrupt
        return float(now)

    def inner() -> None: ...

    def outer(times: int) -> None:
        for _ in range(times):
            with suppress(KeyboardInterrupt):
                inner()

    for user in (_hooks, _recorder):
        monkeypatch.setattr(user, "CLOCK", (clock,))
    to = JsonLines(tmp_path / "calls.jsonl", 0.0, whole=whole)
    with record(outer, inner, to=to):
        outer(2)
        outer(0)
    rows = {row.name.rpartition(".")[2]: row for row in summary(to.path)}
    assert (rows["inner"].calls, rows["outer"].calls, rows["outer"].total) == (2, 2, 6.0)
