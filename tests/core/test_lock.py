"""The lock is released by every interrupt."""

from __future__ import annotations

import os
import signal
import sys
import threading
import types

import pytest

from aspecthook._core.mount.lock import under_lock


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
