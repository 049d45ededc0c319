"""The lock is released by every interrupt."""

from __future__ import annotations

import dis
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import aspecthook
from aspecthook._core.mount.lock import under_lock


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_whose_wait_for_the_lock_is_interrupted_leaves_it_free_in_both_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, done = threading.Event(), threading.Event()

    @under_lock
    def hold() -> None:
        held.set()
        done.wait(60)

    line = 0

    def interrupt(_: int, frame: types.FrameType | None) -> None:
        # No handler runs in that line before the call of `fork`: it waits.
        if frame is not None and frame.f_lineno == line:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    ignored: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: ignored.append(report.exc_type))
    before = signal.signal(signal.SIGALRM, interrupt)
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        line = sys._getframe().f_lineno + 1
        child = os.fork()  # waits for the lock; what the handler raises there, Python can only report
        if child == 0:
            try:
                os._exit(0 if is_free() else 1)
            except BaseException:
                os._exit(2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        done.set()
        thread.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ignored == [KeyboardInterrupt]
    assert is_free()


def is_free() -> bool:
    """Whether another thread can take the lock."""
    taken: list[bool] = []
    thread = threading.Thread(target=under_lock(lambda: taken.append(True)), daemon=True)
    thread.start()
    thread.join(10)
    return bool(taken)
