"""Summaries: the numbers of a run by step, in a file or a writer of TensorBoard's."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

from aspecthook._errors import HookOptionError, HookTypeError, brief
from aspecthook.training.backends._state import is_any
from aspecthook.training.hooks._hook import HOOKS

from ._fetches import mapped
from ._protocol import SessionRunArgs, SessionRunContext, SessionRunValues
from ._timers import SecondOrStepTimer, Timed

if TYPE_CHECKING:
    from ._session import Session


class SummaryWriter(Protocol):
    """Writes summaries, as ``torch.utils.tensorboard.SummaryWriter`` does."""

    def add_scalar(self, tag: str, value: float, step: int) -> Any:
        """Write a number of a step."""
        ...

    def flush(self) -> Any:
        """Flush."""
        ...


@final
class JsonSummaryWriter:
    """Writes summaries as lines of JSON: ``{"step": 100, "loss": 0.5}``. The first line creates the file.

    Args:
        path: The file; lines are appended to it.

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

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Write a number of a step."""
        self.add({tag: value}, step)

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers of a step in one line. JSON has only finite numbers; the others are written as strings."""
        row = {tag: value if isfinite(value) else str(value) for tag, value in values.items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps({'step': step, **row})}\n")

    def flush(self) -> None:
        """Do nothing: each line is flushed when it is written."""

    def size(self) -> int:
        """Return the length of the file."""
        return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, size: int) -> None:
        """Remove what was written after the file had that length."""
        if self.size() > size:
            os.truncate(self.path, size)


def writer_of(output_dir: str | os.PathLike[str] | None, writer: Any) -> SummaryWriter | None:
    """Return the writer of a hook. All hooks that write to one folder write to one file."""
    if writer is not None:
        if not callable(getattr(writer, "add_scalar", None)):
            raise HookTypeError(f"summary_writer={brief(writer)} has no add_scalar(tag, value, step); give a writer")
        found: SummaryWriter = writer
        return found
    return None if output_dir is None else JsonSummaryWriter(Path(output_dir, "summaries.jsonl"))


@final
@HOOKS.register
class SummarySaverHook(Timed):
    """Write values of the first step, and then every so many steps or seconds. Rank 0 writes.

    An array is written as its mean, standard deviation, minimum and maximum.

    Args:
        save_steps: Write every so many steps.
        save_secs: Write every so many seconds. Give either of the two.
        output_dir: The folder; the file is ``summaries.jsonl``. A resumed run removes the lines after its checkpoint.
        summary_writer: Write with its ``add_scalar(tag, value, step)`` instead.
        summaries: Names of values, or a mapping from labels to names.

    Raises:
        HookOptionError: Not exactly one of the two is given, or it is not above 0; or there is nowhere to write to.

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
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._next: int | None = None
        self._due = False

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Ask for the values, if writing is due."""
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
        assert self._writer is not None
        for tag, number in rows.items():
            self._writer.add_scalar(tag, number, step)

    def end(self, session: Session) -> None:  # noqa: ARG002
        """Flush."""
        if self._writer is not None:
            self._writer.flush()

    def state_dict(self) -> dict[str, Any]:
        """Return when it has written last, and the length of the file."""
        size = self._writer.size() if isinstance(self._writer, JsonSummaryWriter) else None
        return {**super().state_dict(), "next": self._next, "size": size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` has returned."""
        super().load_state_dict(state)
        self._next = state["next"]
        if isinstance(self._writer, JsonSummaryWriter) and state["size"] is not None:
            self._writer.cut(state["size"])


def _numbers(name: str, value: Any) -> list[tuple[str, float]]:
    """Return the numbers that stand for a value, with their tags."""
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
