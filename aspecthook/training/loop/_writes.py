"""Checkpoints that a thread writes while the run continues.

The invariant: they are written one after another, in the order in which they were saved, and none after one that could
not be written. So what is on disk at any moment is what synchronous saves leave, a little later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple, final

_MOST = 2  # copies in memory: `CheckpointHook` may save the best checkpoint and the one that is due at the same time


class _Write(NamedTuple):
    """A file that is being written, and what to call once it is, or once it is known that it cannot be."""

    future: Future[None]
    outcomes: list[tuple[Callable[[], None], Callable[[], None]]]


@final
class Writes:
    """The files of a run that are being written."""

    __slots__ = ("_pool", "_under_way")

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: deque[_Write] = deque()

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def add(self, write: Callable[[], None]) -> None:
        """Call a function that writes a file, in a thread."""
        before = self._under_way[-1].future if self._under_way else None

        def write_after_it() -> None:
            if before is not None:
                before.result()  # raises the error of that file: none is written after it
            write()

        self._pool = self._pool or ThreadPoolExecutor(1, "aspecthook: save a checkpoint")
        self._under_way.append(_Write(self._pool.submit(write_after_it), []))

    def then(self, done: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call one of two functions once the newest file has been written, or has failed; in the thread of the run."""
        if self._under_way:
            self._under_way[-1].outcomes.append((done, failed))
        else:
            done()

    def poll(self) -> None:
        """Note which files have been written; raise the error of one that could not be."""
        while self._under_way and self._under_way[0].future.done():
            self._finish_oldest()

    def make_room(self) -> None:
        """Wait until another copy may be taken.

        It raises no error, which `poll` does: the caller has noted the file that it is about to save, and what is noted
        is taken back from the newest file to the oldest.
        """
        if len(self._under_way) >= _MOST:
            wait([self._under_way[-_MOST].future])

    def wait(self) -> None:
        """Wait until all files have been written, and leave their errors to `finish`."""
        wait([write.future for write in self._under_way])

    def finish(self) -> None:
        """Wait until all files have been written; raise the error of one that could not be."""
        while self._under_way:
            self._finish_oldest()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _finish_oldest(self) -> None:
        error = self._under_way[0].future.exception()
        if error is None:
            for done, _ in self._under_way.popleft().outcomes:
                done()
            return
        self.wait()
        while self._under_way:
            for _, failed in reversed(self._under_way.pop().outcomes):
                failed()
        raise error
