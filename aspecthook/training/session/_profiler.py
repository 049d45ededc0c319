"""The session-run hook that writes where the time of a step goes, as a timeline that browsers show."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, final

from aspecthook.record import Tape
from aspecthook.training._options import flag
from aspecthook.training.checkpoint._files import path_of
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._run import Run

from ._protocol import SessionRunArgs, SessionRunContext, SessionRunValues
from ._session import Coordinator, Session
from ._timers import SecondOrStepTimer, TimedHook


@final
@HOOKS.register(name="SessionProfilerHook")  # "ProfilerHook" is the one that measures hooks and stages
class ProfilerHook(TimedHook):
    """Write a timeline of a step every N steps or seconds, on rank 0: ``timeline-100.json``, in Chrome's format.

    Open it in https://ui.perfetto.dev. For a PyTorch model it has the operators on CPU and GPU, as ``torch.profiler``
    sees them; for others the stages forward, backward and optimizer_step. In configs it is called
    ``"SessionProfilerHook"``.

    Args:
        save_steps: The steps between two timelines; the first one is of step `save_steps`.
        save_secs: The seconds between two timelines. Give one of the two.
        output_dir: The folder.
        show_dataflow: Keep the arrows between operators; for PyTorch.
        show_memory: Add what the operators allocate; for PyTorch.

    Example:
        >>> ProfilerHook(save_steps=100, output_dir="runs/digits").path_of(200).name
        'timeline-200.json'
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | os.PathLike[str] = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._timer = SecondOrStepTimer(save_secs, save_steps, who="ProfilerHook")
        self.output_dir: Path = path_of("ProfilerHook", output_dir or ".")
        self.show_dataflow: bool = flag("ProfilerHook", "show_dataflow", show_dataflow)
        self.show_memory: bool = flag("ProfilerHook", "show_memory", show_memory)
        self._next: int | None = None
        self._save: Callable[[Path | None], object] | None = None

    def path_of(self, step: int) -> Path:
        """Return the file for a step."""
        return self.output_dir / f"timeline-{step}.json"

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Make sure that nothing is measured once the session is closed, also if a step fails."""
        super().after_create_session(session, coord)
        self._next = None
        session.at_close(self._stop)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Begin to measure, if it is due."""
        runner = run_context.session.runner
        if runner.rank != 0:
            return None
        if self._save is None and self._next is not None and self._timer.should_trigger_for_step(self._next):
            self._save = self._operators() if runner.backend.name == "torch" else _stages(runner)
        return SessionRunArgs("global_step")

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write what was measured."""
        if run_context.session.runner.rank != 0:
            return
        if self._next is None and self._timer.last_triggered_step() is None:
            self._timer.update_last_triggered_step(run_values.results)
        step: int = run_context.session.run("global_step")
        if self._save is not None and step > run_values.results:  # else it is only a part of an accumulated step
            self._timer.update_last_triggered_step(step)
            self._stop(self.path_of(step))
        self._next = step + 1

    def _stop(self, path: Path | None = None) -> None:
        save, self._save = self._save, None
        if save is not None:
            save(path)

    def _operators(self) -> Callable[[Path | None], object]:
        """Measure PyTorch; return the function that ends it, and writes the timeline."""
        profile: Any = import_module("torch.profiler").profile(profile_memory=self.show_memory)
        profile.start()

        def stop(path: Path | None) -> None:
            profile.stop()
            if path is None:
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            profile.export_chrome_trace(os.fspath(path))
            if not self.show_dataflow:
                trace = json.loads(path.read_bytes())
                trace["traceEvents"] = [event for event in trace["traceEvents"] if event["ph"] not in _ARROWS]
                path.write_text(json.dumps(trace), encoding="utf-8")

        return stop


_ARROWS = ("s", "t", "f")  # where an arrow starts, goes on, and ends


def _stages(runner: Run) -> Callable[[Path | None], object]:
    """Measure the parts of a step; return the function that ends it, and writes the timeline."""
    tape = Tape(arguments=False)
    for stage in (runner.forward, runner.backward, runner.optimizer_step):
        tape.record(stage)

    def stop(path: Path | None) -> None:
        tape.stop()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            tape.save(path)

    return stop
