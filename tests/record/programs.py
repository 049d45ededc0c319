"""Programs of nested calls of all sorts, drawn by Hypothesis, and the trees of calls that they must leave on a tape."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Generator
from typing import Any, NamedTuple

from hypothesis import strategies as st


class Node(NamedTuple):
    """A call, of this sort, that makes these calls; `fails` says whether it raises in the end."""

    number: int
    sort: str
    inner: tuple[Node, ...]
    fails: bool = False


class Failed(Exception):
    pass


SYNC, ASYNC = ("function", "generator"), ("coroutine", "async generator", "task", "thread")


def function(node: Node) -> int:
    for one in node.inner:
        run(one)
    if node.fails:
        raise Failed(node.number)
    return node.number


def generator(node: Node) -> Generator[int, Any, int]:
    for one in node.inner:
        run(one)
        yield one.number
    if node.fails:
        raise Failed(node.number)
    return node.number


async def coroutine(node: Node) -> int:
    for one in node.inner:
        await arun(one)
        await asyncio.sleep(0)
    if node.fails:
        raise Failed(node.number)
    return node.number


async def async_generator(node: Node) -> AsyncIterator[int]:
    for one in node.inner:
        await arun(one)
        yield one.number
        await asyncio.sleep(0)
    if node.fails:
        raise Failed(node.number)


TARGETS = (function, generator, coroutine, async_generator)
# docs/weaving.md: there `asyncio.to_thread` cannot be distinguished from any other thread.
INHERITS = getattr(sys.flags, "thread_inherit_context", False)


def in_threads(node: Node) -> bool:
    return node.sort == "thread" or any(map(in_threads, node.inner))


def run(node: Node) -> None:
    """Make a call from a function; what it raises goes no further."""
    try:
        if node.sort == "generator":
            list(generator(node))
        else:
            function(node)
    except Failed:
        pass


async def arun(node: Node) -> None:
    """Make a call from a coroutine."""
    try:
        if node.sort == "coroutine":
            await coroutine(node)
        elif node.sort == "async generator":
            async for _ in async_generator(node):
                await asyncio.sleep(0)
        elif node.sort == "task":
            tasks = [asyncio.create_task(coroutine(one)) for one in (node, *node.inner)]
            await asyncio.gather(*tasks, return_exceptions=True)
        elif node.sort == "thread":
            await asyncio.to_thread(function, node)
        else:
            run(node)
    except Failed:
        pass


def start(node: Node) -> None:
    """Make the outermost call."""
    if node.sort in ASYNC:
        asyncio.run(arun(node))
    else:
        run(node)


class Expected(NamedTuple):
    """One call in the tree that a program must leave."""

    number: int
    name: str
    fails: bool
    inner: tuple[Expected, ...]


_NAMES = {"async generator": "async_generator", "task": "coroutine", "thread": "function"}


def expected(node: Node) -> list[Expected]:
    """Return what a call of `arun` or `run` must leave below its caller."""
    inner = tuple(one for below in node.inner for one in expected(below))
    own = Expected(node.number, _NAMES.get(node.sort, node.sort), node.fails, inner)
    if node.sort != "task":
        return [own]
    # A task, and beside it one for each of its inner nodes, run as coroutines.
    beside = [one._replace(sort="coroutine") for one in node.inner]
    return [own, *(one for other in beside for one in expected(other))]


def found(tape: Any) -> list[Expected]:
    """Return the tree on a tape."""

    def of(call: Any) -> Expected:
        below = tuple(of(one) for one in call.children)
        assert all(one.parent is call for one in call.children)
        return Expected(call.arguments["node"].number, call.name, isinstance(call.exc, Failed), below)

    return [of(call) for call in tape if call.parent is None]


def ordered(tree: list[Expected]) -> list[Expected]:
    """Sort the calls at each level, as tasks run in turns."""
    return sorted(one._replace(inner=tuple(ordered(list(one.inner)))) for one in tree)


@st.composite
def programs(draw: st.DrawFn, sorts: tuple[str, ...] = (*SYNC, *ASYNC)) -> Node:
    count = iter(range(1, 1_000))
    size = [draw(st.integers(1, 14))]

    def node(within: tuple[str, ...], depth: int) -> Node:
        size[0] -= 1
        number, sort = next(count), draw(st.sampled_from(within))
        below = sorts if sort in ASYNC and sort != "thread" else SYNC
        inner: list[Node] = []
        while size[0] > 0 and depth < 5 and draw(st.booleans()):
            inner.append(node(below, depth + 1))
        return Node(number, sort, tuple(inner), draw(st.booleans()))

    return node(sorts, 0)
