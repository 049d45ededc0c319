"""Summaries: the numbers of a run by step, in a file of JSON lines or for a TensorBoard writer."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, final

from aspecthook._errors import HookOptionError, HookTypeError, brief
from aspecthook.training.backends._state import is_any
from aspecthook.training.checkpoint._files import own_path, unused_path
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._line_files import Tolerance, append, cut_back

from ._fetches import mapped
from ._protocol import SessionRunArgs, SessionRunContext, SessionRunValues
from ._session import Coordinator, Session
from ._timers import SecondOrStepTimer, TimedHook

_LOGGER = logging.getLogger("aspecthook.training")


@final
class JsonSummaryWriter:
    """A writer of summaries as lines of JSON: ``{"step": 100, "loss": 0.5}``. The first line creates the file.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     writer = JsonSummaryWriter(Path(folder, "summaries.jsonl"))
        ...     writer.add_scalar("loss", 0.5, 100)
        ...     print(writer.path.read_text(), end="")
        {"step": 100, "loss": 0.5}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._pending = b""  # lines that could not be written yet
        self._tolerating = Tolerance(self.path, _LOGGER)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Write a number of a step."""
        self.add({tag: value}, step)

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Write the numbers of a step in one line; NaN and infinity as strings, since JSON has no such numbers."""
        row = {tag: value if isfinite(value) else str(value) for tag, value in values.items()}
        self._pending += f"{json.dumps({'step': step, **row})}\n".encode()
        with self._tolerating():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            append(self.path, self._pending)
            self._pending = b""

    def flush(self) -> None:
        """Do nothing: no line stays in memory."""

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def set_aside(self) -> None:
        """Rename the file of an earlier run."""
        if self.path.exists():
            self.path.rename(unused_path(self.path))

    def cut(self, size: int) -> None:
        """Remove what was written after the file had this size, and warn if it is shorter."""
        if size or self.path.exists():
            cut_back(self.path, size, _LOGGER)


def writer_of(output_dir: str | os.PathLike[str] | None, writer: Any) -> Any:
    """Return the writer of a hook, one of ours or like TensorBoard's, or None; one folder has one file."""
    if writer is not None:
        if not callable(getattr(writer, "add_scalar", None)):
            raise HookTypeError(f"summary_writer={brief(writer)} has no add_scalar(tag, value, step); give a writer")
        return writer
    return None if output_dir is None else JsonSummaryWriter(own_path(Path(output_dir), "summaries.jsonl"))


@final
@HOOKS.register
class SummarySaverHook(TimedHook):
    """Write values at the first step, and then every N steps or seconds, on rank 0.

    An array is written as its mean, standard deviation, minimum and maximum.

    Args:
        save_steps: The steps between two summaries.
        save_secs: The seconds between two summaries. Give one of the two.
        output_dir: The folder; the file is ``summaries.jsonl``. A resumed run removes the lines after its checkpoint,
            and a new run renames an older file.
        summary_writer: Write with its ``add_scalar(tag, value, step)`` instead.
        summaries: Names of values, or a mapping from labels to names.

    Example:
        >>> hook = SummarySaverHook(save_steps=100, output_dir="runs/digits", summaries=["loss", "grad:0.weight"])
        >>> sorted(hook.summaries)
        ['grad:0.weight', 'loss']
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        summary_writer: Any = None,
        summaries: Any = ("loss", "lr"),
    ) -> None:
        if isinstance(summaries, str):
            summaries = [summaries]
        named: dict[str, Any] = dict(summaries) if is_any(summaries, Mapping) else {name: name for name in summaries}
        mapped(named, str, "SummarySaverHook")
        self.summaries = named
        self._timer = SecondOrStepTimer(save_secs, save_steps, who="SummarySaverHook")
        self._writer = writer_of(output_dir, summary_writer)
        if self._writer is None:
            raise HookOptionError("SummarySaverHook has nowhere to write to; give output_dir= or summary_writer=")
        self._size: int | None = None  # of the file, in the checkpoint that was loaded
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._next: int | None = None
        self._due = False

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Rename the file of an earlier run when a new one begins, as loggers do, or remove what is after a resume."""
        runner = session.runner
        if runner.rank == 0 and isinstance(self._writer, JsonSummaryWriter):
            if self._size is not None:
                self._writer.cut(self._size)
            elif not self._loaded and runner.done.iter == 0:
                self._writer.set_aside()
        self._size = None
        super().after_create_session(session, coord)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the values, if writing is due."""
        if run_context.session.runner.rank != 0:
            return None
        self._due = self._next is None or self._timer.should_trigger_for_step(self._next)
        return SessionRunArgs({"global_step": "global_step", "values": self.summaries if self._due else None})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the values."""
        if run_values.results is None:
            return
        step: int = run_context.session.run("global_step") if self._due else run_values.results["global_step"] + 1
        if self._due:
            self._timer.update_last_triggered_step(step)
            self._write(run_values.results["values"], step)
        self._next = step + 1

    def _write(self, values: dict[str, Any], step: int) -> None:
        rows = {tag: number for name, value in values.items() for tag, number in _numbers(name, value)}
        if isinstance(self._writer, JsonSummaryWriter):
            self._writer.add(rows, step)
            return
        for tag, number in rows.items():
            self._writer.add_scalar(tag, number, step)

    def end(self, session: Session) -> None:  # noqa: ARG002
        """Flush the writer."""
        if self._writer is not None:
            self._writer.flush()

    def state_dict(self) -> dict[str, Any]:
        """Return when the hook has written last, and the size of the file."""
        size = self._size
        if size is None and isinstance(self._writer, JsonSummaryWriter):
            size = self._writer.size()
        return {**super().state_dict(), "next": self._next, "size": size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the next step, and the length that the file had; it is cut when the run begins."""
        super().load_state_dict(state)
        self._next, self._size = state["next"], state["size"]


def _numbers(name: str, value: Any) -> list[tuple[str, float]]:
    """Return the numbers that are written for a value, with their tags."""
    if value is None:
        return []
    if is_any(value, float, int):
        return [(name, float(value))]
    if is_any(value, Mapping):
        return [row for key, one in value.items() for row in _numbers(f"{name}/{key}", one)]
    if is_any(value, list, tuple):
        return [row for place, one in enumerate(value) for row in _numbers(f"{name}/{place}", one)]
    if not value.size:
        return []
    return [(f"{name}/{word}", float(getattr(value, word)())) for word in ("mean", "std", "min", "max")]
