"""The hook that measures where the time of a run goes: a tape of its stages and of the hooks on them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import MethodType
from typing import final

from aspecthook import AspecthookError, hooks
from aspecthook import Hook as Handle
from aspecthook._errors import HookOptionError
from aspecthook.record import RecordedCall, Tape
from aspecthook.record._functions import Table, Totals
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import whole_number
from aspecthook.training.checkpoint._files import own_path, path_of, put
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._stages import NAMES

STAGES = (*dict.fromkeys(stage.method for stage in NAMES.values()), "save_checkpoint")


@final
class _Sums:
    """A sink that keeps sums by function, so that a long run takes no more memory than a short one."""

    def __init__(self) -> None:
        self.totals = Totals()

    def write(self, call: RecordedCall) -> None:
        if call.duration is not None:  # the stage that was under way when the tape stopped has no duration
            self.totals.add(call.label, call.duration, call.own, failed=call.exc is not None, recursive=call.recursive)

    def close(self) -> None:
        pass


@final
@HOOKS.register
class ProfilerHook(Hook):
    """Measure the time of each stage and of each hook on it. When that ends, log a table and write it as JSON.

    The table is that of `aspecthook.record`: ``total`` is the time of all calls of a function, ``own`` that without the
    recorded calls inside it. The own time of a stage includes calling its hooks, that of ``train_epoch`` reading the
    data. Recording takes some microseconds a call, so compare hooks that take longer than that. Stages that are under
    way when it begins, such as ``run``, and hooks that are added later are not in the table. A GPU may still be busy
    when a call returns: its time counts for whichever call waits for it.

    Args:
        start: The first iteration to measure, counted from 0. With 0, everything from the beginning of the run.
        stop: The iteration to end before; None to measure until the run ends.
        path: The file, relative to the run's ``work_dir``. It is not written if the path is relative and the run has no
            ``work_dir``.

    Attributes:
        table: The result; a row has ``name``, ``calls``, ``errors``, ``total``, ``own``, ``p50`` and ``p99``.

    Example:
        >>> ProfilerHook(start=10, stop=60).table
        []
        >>> ProfilerHook(start=10, stop=10)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ProfilerHook: stop=10 is not after start=10; give a later one, or none
    """

    priority: int | str = 1  # after the hooks that resume a run when it begins, so that the iteration is known

    def __init__(
        self, start: int = 0, stop: int | None = None, *, path: str | os.PathLike[str] = "profile.json"
    ) -> None:
        self.start: int = whole_number("ProfilerHook", "start", start, 0)
        self.stop: int | None = None if stop is None else whole_number("ProfilerHook", "stop", stop, 1)
        if self.stop is not None and self.stop <= self.start:
            raise HookOptionError(f"ProfilerHook: stop={stop} is not after start={start}; give a later one, or none")
        self.path: Path = path_of("ProfilerHook", path)
        self.table: Table = Table()
        self._tape: Tape | None = None
        self._sums = _Sums()

    def before_run(self, runner: Run) -> None:
        """Begin to measure, unless it is too early or too late."""
        if runner.rank == 0 and runner.iter >= self.start and (self.stop is None or runner.iter < self.stop):
            self._begin(runner)

    def after_train_iter(self, runner: Run) -> None:
        """Begin after the iteration before `start`, and end after the one before `stop`."""
        done = runner.iter + 1
        if runner.rank == 0 and done == self.start and self._tape is None:
            runner.after_stage(lambda: self._begin(runner))
        elif self.stop is not None and done >= self.stop and self._tape is not None:
            runner.after_stage(lambda: self._end(runner))

    def always_run(self, runner: Run) -> None:
        """Stop measuring."""
        self._end(runner)

    def _begin(self, runner: Run) -> None:
        self._sums = _Sums()
        self._tape = Tape(arguments=False, to=self._sums)
        missed: list[str] = []
        try:
            for stage in STAGES:
                for target, name in _targets(runner, stage):
                    try:
                        self._tape.record(target)
                    except AspecthookError:  # it has no Python code, or a subclass has overridden the stage
                        missed.append(name)
        except BaseException:
            self._tape.stop()
            raise
        if missed:
            runner.logger.info("the profile does not have %s", ", ".join(missed))

    def _end(self, runner: Run) -> None:
        if self._tape is None:
            return
        self._tape.stop()
        self._tape, self.table = None, self._sums.totals.table()
        runner.logger.info("%s", self.table)
        if runner.work_dir is not None or self.path.is_absolute():
            try:
                target = self.path if runner.work_dir is None else own_path(runner.work_dir, self.path)
                put(target, json.dumps([row._asdict() for row in self.table], indent=1).encode())
            except (OSError, TrainingError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                runner.logger.warning("%s could not be written: %s", self.path, why)


def _targets(runner: Run, stage: str) -> list[tuple[object, str]]:
    """Return a stage, and the functions that are hooks on it; each with a name."""
    found: list[tuple[object, str]] = [(getattr(runner, stage), stage)]
    for owner in (runner, type(runner)):
        try:
            members = hooks(getattr(owner, stage)).members
        except AspecthookError:  # a subclass has overridden the stage with a method that is no mount point
            continue
        found += [(hook.function, f"{hook.name} on {stage}") for hook in members if not _is_ours(hook)]
    return found


def _is_ours(hook: Handle) -> bool:
    return isinstance(hook.function, MethodType) and isinstance(hook.function.__self__, ProfilerHook)
