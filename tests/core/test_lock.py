"""The lock is released by every interrupt."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import aspecthook


def jumps_back_uncovered(code: types.CodeType) -> Iterator[str]:
    """Find where an interrupt would leave a `with` block without its end: CPython 3.13 has such places.

    The jump back from a condition to the head of a loop is in no range of the exception table. (That of an `await` is
    JUMP_BACKWARD_NO_INTERRUPT, at which no signal handler runs.)
    """
    bytecode = dis.Bytecode(code)
    entries = list(bytecode.exception_entries)  # type: ignore[attr-defined]
    instructions = list(bytecode)
    for place, one in enumerate(instructions):
        if one.opname == "BEFORE_WITH":
            target = next((e.target for e in entries if e.start <= instructions[place + 1].offset < e.end), None)
            end = max((e.end for e in entries if e.target == target), default=0)
            for inner in instructions[place:]:
                covered = any(e.start <= inner.offset < e.end for e in entries)
                if inner.opname == "JUMP_BACKWARD" and inner.offset < end and not covered:
                    yield f"{code.co_qualname}, line {inner.positions and inner.positions.lineno}"
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from jumps_back_uncovered(const)


@pytest.mark.skipif(sys.version_info[:2] != (3, 13), reason="only 3.13 runs signal handlers at such jumps")
@pytest.mark.parametrize("room", ["_core/mount", "_foreign", "events", "plugins", "torch", "weave"])
def test_no_interrupt_leaves_the_lock_held(room: str) -> None:
    # `with lock: off = [hook for hook in members if id(hook) in gone]`: Ctrl-C there, and every other thread waits for
    # ever. A function that has the loop, called in the block, cures it.
    paths = sorted((Path(aspecthook.__file__).parent / room).glob("*.py"))
    found = [place for path in paths for place in jumps_back_uncovered(compile(path.read_text(), str(path), "exec"))]
    assert paths and not found
