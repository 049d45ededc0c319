"""The checkpoint that a thread writes while the run continues.

The invariant: there is one at a time, and the next save waits for it and raises its error. So what is on disk at any
moment is what synchronous saves leave, a little later.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final


@final
class Writes:
    """The file of a run that is being written, if there is one."""

    __slots__ = ("_future", "_outcomes")

    def __init__(self) -> None:
        self._future: Future[None] | None = None
        self._outcomes: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def add(self, write: Callable[[], None]) -> None:
        """Call a function that writes a file, in a thread."""
        self.finish()
        with_one_thread = ThreadPoolExecutor(1, "aspecthook: save a checkpoint")
        self._future = with_one_thread.submit(write)
        with_one_thread.shutdown(wait=False)

    def then(self, done: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call one of two functions once the file has been written, or has failed; in the thread of the run."""
        if self._future is None:
            done()
        else:
            self._outcomes.append((done, failed))

    def finish(self) -> None:
        """Wait until the file has been written; raise the error if it could not be."""
        if self._future is None:
            return
        error = self._future.exception()
        outcomes, self._future, self._outcomes = self._outcomes, None, []
        for done, failed in outcomes:
            (done if error is None else failed)()
        if error is not None:
            raise error
