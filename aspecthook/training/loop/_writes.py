"""Checkpoints that threads write while the run continues.

The invariant: they are written one after another, in the order in which they were saved, and none after one that could
not be written. So what is on disk at any moment is what synchronous saves leave, a little later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import final

_MOST = 2  # copies in memory: `CheckpointHook` may save the best checkpoint and the one that is due at the same time


@final
class _Write:
    """A thread that writes a file when the one before it has been written."""

    __slots__ = ("error", "outcomes", "thread")

    def __init__(self, write: Callable[[], None], before: _Write | None) -> None:
        self.outcomes: list[tuple[Callable[[], None], Callable[[], None]]] = []  # what to call: once written, or failed
        self.error: BaseException | None = None
        # Not a daemon, so that a program that ends waits for it.
        self.thread = Thread(target=self._run, args=(write, before), name="aspecthook: save a checkpoint")
        self.thread.start()

    def _run(self, write: Callable[[], None], before: _Write | None) -> None:
        try:
            if before is not None:
                before.thread.join()
                if before.error is not None:
                    self.error = before.error
                    return
            write()
        except BaseException as error:  # raised where the run looks at it
            self.error = error


@final
class Writes:
    """The files of a run that are being written."""

    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: deque[_Write] = deque()

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def add(self, write: Callable[[], None]) -> None:
        """Call a function that writes a file, in a thread."""
        self._under_way.append(_Write(write, self._under_way[-1] if self._under_way else None))

    def then(self, done: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call one of two functions once the newest file has been written, or has failed; in the thread of the run."""
        if self._under_way:
            self._under_way[-1].outcomes.append((done, failed))
        else:
            done()

    def poll(self) -> None:
        """Note which files have been written; raise the error of one that could not be."""
        while self._under_way and not self._under_way[0].thread.is_alive():
            self._finish()

    def make_room(self) -> None:
        """Wait until another copy may be taken.

        It raises no error, which `poll` does: the caller has noted the file that it is about to save, and what is noted
        is taken back from the newest file to the oldest.
        """
        if len(self._under_way) >= _MOST:
            self._under_way[-_MOST].thread.join()

    def wait(self) -> None:
        """Wait until all files have been written, and leave their errors to `finish`."""
        for write in tuple(self._under_way):
            write.thread.join()

    def finish(self) -> None:
        """Wait until all files have been written; raise the error of one that could not be."""
        while self._under_way:
            self._finish()

    def _finish(self) -> None:
        """Wait for the oldest file."""
        write = self._under_way[0]
        write.thread.join()
        if write.error is None:
            self._under_way.popleft()
            for done, _ in write.outcomes:
                done()
            return
        self.wait()
        while self._under_way:
            for _, failed in reversed(self._under_way.pop().outcomes):
                failed()
        raise write.error
