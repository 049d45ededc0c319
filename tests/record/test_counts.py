"""A tape has each call that the interpreter itself counts, in threads, tasks and generators."""

from __future__ import annotations

import sys
from collections import Counter
from types import CodeType, ModuleType
from typing import Any

import pytest

from aspecthook.record import record

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
    counts: Counter[str] = Counter()

    def start(code: CodeType, _: int) -> None:
        if code.co_filename == "<program>" and "<" not in code.co_name:
            counts[code.co_qualname] += 1

    monitoring: Any = getattr(sys, "monitoring")
    monitoring.use_tool_id(4, "counts")
    try:
        monitoring.register_callback(4, monitoring.events.PY_START, start)
        monitoring.set_events(4, monitoring.events.PY_START)
        module.main()
    finally:
        monitoring.set_events(4, 0)
        monitoring.free_tool_id(4)
    return counts


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
