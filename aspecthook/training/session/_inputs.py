"""The data of an estimator, and how it uses a runner without disturbing what that may be in the middle of."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any, final

from aspecthook import hooks as hooks_of
from aspecthook._core.law.options import priority_of
from aspecthook._errors import HookTypeError, described
from aspecthook.training.backends._backends import Backend
from aspecthook.training.hooks._evaluation import _kept
from aspecthook.training.loop._runner import Runner

from ._bindings import rows
from ._errors import QUIET

# Any: data and hooks of any kind are the user's.
VAL = "val_"
END: Any = object()


@final
class Until:
    """Data up to a number of batches, until a hook asks for the end, or until it says that it is at its end."""

    def __init__(self, runner: Runner, data: Any, steps: int | None) -> None:
        if not hasattr(data, "__iter__"):
            raise HookTypeError(
                f"input_fn gave {described(data)}, which cannot be iterated; let it give a loader, or a list"
            )
        self._runner, self._data, self._steps = runner, data, steps
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        self.count = 0
        batches = islice(self._data, self._steps)
        while not self._runner.stopping:
            try:
                batch = next(batches, END)
            except QUIET:
                return
            if batch is END:
                return
            self.count += 1
            yield batch


@contextmanager
def one_pass(runner: Runner, epoch: int, *, needed: bool) -> Generator[None]:
    """Let a run without an end end after the pass that it is in."""
    if not needed or runner.max_epochs is not None or runner.max_iters is not None:
        yield
        return
    runner.max_epochs = epoch + 1
    try:
        yield
    finally:
        runner.max_epochs = runner.max_iters = None


# Aside from a training that may be under way


@contextmanager
def aside(runner: Runner) -> Generator[None]:
    """Do something else with a runner inside ``with``; after it, it is as it was."""
    logs, stopping = runner.logs, runner._stopping
    runner.logs = {name: value for name, value in logs.items() if not name.startswith(VAL)}
    runner._stopping = False
    try:
        with _kept(runner):
            yield
    finally:
        runner.logs, runner._stopping = logs, stopping


@contextmanager
def random_kept() -> Generator[None]:
    """Draw random numbers inside ``with``; after it, the generators are as they were."""
    backend = _backend()
    state = backend.rng_state()
    try:
        yield
    finally:
        backend.set_rng_state(state)


def _backend() -> Backend:
    """Give the back end that knows all generators there are, whatever model will be made."""
    if "torch" in sys.modules:
        from aspecthook.training.backends._torch import TorchBackend

        return TorchBackend()
    from aspecthook.training.backends._numpy import NumpyBackend

    return NumpyBackend()


@contextmanager
def attached(runner: Runner, hooks: Iterable[Any], way: str) -> Generator[None]:
    """Put hooks on a runner inside ``with``: session-run hooks on the stages of this way."""
    with ExitStack() as stack:
        for hook in hooks:
            if not all(callable(getattr(hook, name, None)) for name in ("after_create_session", "end")):
                runner.register_hook(hook)
                stack.callback(runner.remove_hook, hook)
                continue
            name = type(hook).__name__
            number = priority_of(getattr(hook, "priority", "NORMAL"), f"the session hook {name}")
            for stage, function in rows(hook, runner, way):
                mount = hooks_of(getattr(runner, stage.method))
                stack.enter_context(
                    mount.add(stage.kind, function, *stage.types, name=name, priority=number, again=True)
                )
        yield
