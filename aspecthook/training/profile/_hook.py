"""The profiler: hooks around the stages of a run, and around the functions that are hooks on them.

While it measures, each of these functions is hooked itself. However the run ends, every function then has the code that
it had before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter_ns
from types import MethodType
from typing import Any, final

from aspecthook import AspecthookError, hooks
from aspecthook import Hook as Handle
from aspecthook._core.mount.point import MountPoint
from aspecthook._core.mount.table import where
from aspecthook._errors import HookOptionError
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, whole_number
from aspecthook.training.checkpoint._files import own_path, path_of, put
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._names import named
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._stages import NAMES
from aspecthook.weave import Weaving

from ._measure import OURS, bracket, hooks_on, label_of, measure, owner_of, synchronized, target_of
from ._profile import Part, Profile

STAGES = (*dict.fromkeys(stage.method for stage in NAMES.values()), "save_checkpoint")


@final
@HOOKS.register
class ProfilerHook(Hook):
    """Measure the time of each stage and of each hook on it. When the run ends, log a table and write it as JSON.

    The ``own`` time of a call is its ``total`` time without the measured calls inside it. The own time of a stage
    includes calling its hooks, and that of ``train_epoch`` reading the data. Measuring takes
    some microseconds a call, which count as own time of the surrounding call: compare hooks that take longer than that.

    Args:
        start: The first iteration to measure, counted from 0. With 0, everything from the beginning of the run.
        stop: The iteration to end before; None to measure until the run ends. Outside `start` and `stop` the profiler
            costs nothing, except that it counts the iterations before `start`.
        path: The file, relative to the run's ``work_dir``. It is not written if the path is relative and the run has no
            ``work_dir``.
        synchronize: Wait for the GPU whenever the clock is read. Otherwise the GPU may still be busy when a call
            returns, and its time counts for whichever call waits for it.

    Attributes:
        profile: The result: ``lines()``, ``table()``, ``as_json()``.

    Example:
        >>> ProfilerHook(start=10, stop=60).profile.lines()
        []
        >>> ProfilerHook(start=10, stop=10)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ProfilerHook: stop=10 is not after start=10; give a later one, or none
    """

    priority: int | str = 1  # after the hooks that resume a run when it begins, so that the iteration is known

    def __init__(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        path: str | os.PathLike[str] = "profile.json",
        synchronize: bool = False,
    ) -> None:
        self.start: int = whole_number("ProfilerHook", "start", start, 0)
        self.stop: int | None = None if stop is None else whole_number("ProfilerHook", "stop", stop, 1)
        if self.stop is not None and self.stop <= self.start:
            raise HookOptionError(f"ProfilerHook: stop={stop} is not after start={start}; give a later one, or none")
        self.path: Path = path_of("ProfilerHook", path)
        self.profile: Profile = Profile(
            synchronized if flag("ProfilerHook", "synchronize", synchronize) else perf_counter_ns
        )
        self._meter: Meter | None = None
        self._waiting: Handle | None = None

    # When

    def before_run(self, runner: Run) -> None:
        """Begin to measure, or wait for the first iteration to measure."""
        if runner.rank != 0 or (self.stop is not None and runner.iter >= self.stop):
            return
        if runner.iter >= self.start:
            self._begin(runner, "run")
        else:
            mount = hooks(runner.train_iter)
            self._waiting = mount.add("always", self._wait, name=f"{OURS}waits", priority=100)

    def _wait(self, runner: Run) -> None:
        """Begin right after the iteration before `start`."""
        if runner.iter + 1 >= self.start and self._waiting is not None:
            self._waiting.remove()
            self._waiting = None
            self._begin(runner, "run", "train_loop", "train_epoch")

    def _begin(self, runner: Run, *stages: str) -> None:
        self._meter = Meter(self.profile, runner, self._count)
        self._meter.begin(*stages)

    def _count(self, runner: Run) -> None:
        """End after the last iteration to measure."""
        if self.stop is not None and runner.iter + 1 >= self.stop:
            self._end(runner)

    def always_train_epoch(self) -> None:
        """End the epoch, if measuring began in the middle of it."""
        if self._meter is not None:
            self._meter.end_late("train_epoch")

    def always_train(self) -> None:
        """End the loop over the epochs, if measuring began within it."""
        if self._meter is not None:
            self._meter.end_late("train_loop")

    def always_run(self, runner: Run) -> None:
        """Stop measuring."""
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None
        self._end(runner)

    def _end(self, runner: Run) -> None:
        if self._meter is None:
            return
        self._meter.end()
        self._meter = None
        runner.logger.info("%s", self.profile.table())
        if runner.work_dir is not None or self.path.is_absolute():
            try:
                target = self.path if runner.work_dir is None else own_path(runner.work_dir, self.path)
                put(target, json.dumps(self.profile.as_json(), indent=1).encode())
            except (OSError, TrainingError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                runner.logger.warning("%s could not be written: %s", self.path, why)

    # The state for a checkpoint

    def state_dict(self) -> dict[str, Any]:
        """Return the times so far."""
        return {"profile": self.profile.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the times measured so far."""
        self.profile.load_state_dict(state["profile"])


@final
class Meter:
    """The hooks that measure: on the stages of one run, and on the functions that are hooks on these."""

    def __init__(self, profile: Profile, runner: Run, counted: Callable[[Run], None]) -> None:
        self._profile = profile
        self._runner = runner
        self._counted = counted
        self._names = {id(hook): name for name, hook in named(runner)}
        self._handles: list[Handle] = []
        self._weavings: list[Weaving] = []
        self._seen: dict[str, tuple[object, ...]] = {}
        self._parts: dict[object, dict[str, Part]] = {}  # by function, then by the stage that it is on
        self._late: dict[str, Part] = {}  # the stages that were under way when measuring began

    def begin(self, *stages: str) -> None:
        """Begin, within stages that are under way."""
        try:
            for stage in STAGES:
                self._bracket(stage)
        except BaseException:
            self.end()
            raise
        self._profile.begin()
        for stage in stages:
            self._late[stage] = self._profile.part(stage)
            self._profile.enter(self._late[stage])

    def end_late(self, stage: str) -> None:
        """End a stage that was under way when measuring began."""
        part = self._late.pop(stage, None)
        if part is not None:
            self._profile.leave_part(part)

    def end(self) -> None:
        """Remove all hooks that measure."""
        self._profile.end()
        for added in (self._weavings, self._handles):
            while added:
                added.pop().remove()

    def _bracket(self, stage: str) -> None:
        try:
            mount = hooks(getattr(self._runner, stage))
            shared = hooks(getattr(type(self._runner), stage))
        except AspecthookError:  # a subclass has overridden the stage with a method that is no mount point
            return

        def opened() -> None:
            if self._seen[stage] != (mount.members, shared.members):
                self._look(stage, mount, shared)

        def closed() -> None:
            if stage == "train_iter":
                self._counted(self._runner)

        self._look(stage, mount, shared)
        part = self._profile.part(stage)
        self._handles += bracket(mount, self._profile, part, opened, closed, (*mount.members, *shared.members))

    def _look(self, stage: str, mount: MountPoint, shared: MountPoint) -> None:
        """Measure the hooks on a stage that are not measured yet."""
        self._seen[stage] = (mount.members, shared.members)
        for _, ordered in hooks_on(self._runner, stage):
            for hook in ordered:
                if not isinstance(owner_of(hook), ProfilerHook):
                    self._measure(stage, hook)

    def _measure(self, stage: str, hook: Handle) -> None:
        target, label = target_of(hook), label_of(hook, self._names)
        if target is None:
            self._miss(f"{label} on {stage}, which has no Python code")
            return
        part = self._profile.part(stage, label, hook.kind, where(hook))
        key = (id(target.__self__), id(target.__func__)) if isinstance(target, MethodType) else id(target)
        if key in self._parts:
            self._parts[key].setdefault(stage, part)
            return
        parts = self._parts[key] = {stage: part}
        try:
            self._weavings.append(measure(target, self._profile, parts, f"{OURS}{label}"))
        except AspecthookError as error:
            self._miss(f"{label} on {stage}: {error}")

    def _miss(self, text: str) -> None:
        if text not in self._profile.unmeasured:
            self._profile.unmeasured.append(text)
