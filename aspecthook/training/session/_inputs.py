"""The data of an estimator, and changes of its runner that are undone after ``with``."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import HookTypeError, described
from aspecthook.training.loop._dialect import attach, is_session_hook
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._state import preserved
from aspecthook.training.loop._steps import without_validation

from ._bindings import bindings
from ._errors import QUIET

if TYPE_CHECKING:
    from aspecthook.training.backends._base import Backend

# Any: data and hooks of any kind are the user's.


@final
class Until:
    """An iterable of at most so many batches, which also ends when a hook requests the end of the run."""

    def __init__(self, run: Run, data: Any, steps: int | None) -> None:
        if not hasattr(data, "__iter__"):
            raise HookTypeError(
                f"input_fn returned {described(data)}, which cannot be iterated; return a loader, or a list"
            )
        self._run, self._data, self._steps = run, data, steps
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        self.count = 0
        batches = islice(self._data, self._steps)
        with suppress(*QUIET):  # with StopIteration, the ordinary end of the batches
            while not self._run.stopping:
                batch = next(batches)
                self.count += 1
                yield batch


@contextmanager
def one_pass(run: Run, epoch: int, *, needed: bool) -> Generator[None]:
    """Inside ``with``, limit a run that has no end of its own to one pass over the data."""
    if not needed or run.max_epochs is not None or run.max_iters is not None:
        yield
        return
    run.max_epochs = epoch + 1
    try:
        yield
    finally:
        run.max_epochs = run.max_iters = None


@contextmanager
def aside(run: Run) -> Generator[None]:
    """Restore the run after ``with``, which may evaluate or predict."""
    with preserved(run, "logs", "stopping"):
        run.logs, run.stopping = without_validation(run.logs), False
        yield


@contextmanager
def random_kept() -> Generator[None]:
    """Restore the generators of random numbers after ``with``."""
    backend = _backend()
    state = backend.rng_state()
    try:
        yield
    finally:
        backend.set_rng_state(state)


def _backend() -> Backend:
    """Return a back end that knows all generators of the process; the model, which has one, is not known yet."""
    if "torch" in sys.modules:
        from aspecthook.training.backends._torch import TorchBackend

        return TorchBackend()
    from aspecthook.training.backends._numpy import NumpyBackend

    return NumpyBackend()


@contextmanager
def attached(run: Run, hooks: Iterable[Any], mode: str) -> Generator[None]:
    """Register hooks, session-run hooks on the stages of a mode, and remove them after ``with``."""
    with ExitStack() as stack:
        for hook in hooks:
            if is_session_hook(hook):
                for handle in attach(run, hook, bindings(hook, run, mode), None, "session hook"):
                    stack.callback(handle.remove)
            else:
                run.register_hook(hook)
                stack.callback(run.remove_hook, hook)
        yield
