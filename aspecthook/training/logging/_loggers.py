"""Hooks that make rows of what a run logs, and write them to a sink: lines of text, JSON lines, a CSV table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from aspecthook._errors import HookTypeError, brief
from aspecthook.training._options import flag, whole_number
from aspecthook.training.backends._state import is_any
from aspecthook.training.checkpoint._files import folder_of, own_path, path_of
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._checks import length_of
from aspecthook.training.loop._run import Run

from ._line_files import JsonFile, LineFile, TableFile, TextFile
from ._numbers import duration_text, is_of, number_text, one_line
from ._row import TIMES, Row, Sink, rates_row, value_of, values_of
from ._timers import eta_of


class LoggerHook(Hook):
    """Write rows of the log to a sink: any object with ``write(row)`` and ``close()``.

    A training row has the means over the iterations since the last row, weighted by ``num_samples``. Each validation
    and each test adds a row of its own. Only rank 0 logs. A sink that raises gets no more rows, with one warning, and
    the run continues.

    Args:
        sink: Where the rows go.
        interval: Write a row every so many iterations; 0 for never.
        by_epoch: Count the iterations of each epoch; otherwise those of the run.
        ignore_last: Leave out the last iterations of an epoch if they are fewer than `interval`; otherwise they make a
            row.

    Example:
        >>> class Print:
        ...     def write(self, row):
        ...         print(row.mode, row.iter, row.numbers["loss"])
        ...
        ...     def close(self): ...
        >>> LoggerHook(Print(), interval=50).ignore_last
        True
    """

    priority: int | str = "VERY_LOW"

    def __init__(
        self, sink: Sink | None = None, interval: int = 10, *, by_epoch: bool = True, ignore_last: bool = True
    ) -> None:
        who = type(self).__name__
        if type(self) is LoggerHook and not all(callable(getattr(sink, name, None)) for name in ("write", "close")):
            raise HookTypeError(f"LoggerHook: sink={brief(sink)} has no write(row) and close(); give one that has both")
        self.sink: Sink | None = sink
        self.interval: int = whole_number(who, "interval", interval, 0)
        self.by_epoch: bool = flag(who, "by_epoch", by_epoch)
        self.ignore_last: bool = flag(who, "ignore_last", ignore_last)
        self._run: Run | None = None  # that this hook has rows of, from its beginning on
        self._loaded: Mapping[str, Any] | None = None
        self._sums: dict[str, list[float]] = {}  # since the last row, by name: the sum, and its weight
        # What has been seen of the run: iterations, complete epochs, and the epoch and iteration of the newest one.
        self._done = self._epochs = 0
        self._place = (0, 0)
        self._mode = ""  # of the validation or the test that is under way

    # When

    def before_run(self, runner: Run) -> None:
        """Begin, or continue where the resumed run had stopped."""
        if runner.rank != 0:
            return
        loaded, now = self._loaded, runner.done
        if loaded is not None:
            self._sums = {name: list(row) for name, row in loaded["sums"].items()}
            self._done, self._epochs, self._place = loaded["iters"], loaded["epochs"], tuple(loaded["place"])
        self._begin(runner, rerun=loaded is None and self._run is runner)
        self._run, self._loaded, self._mode = runner, None, ""
        if loaded is not None:  # what the checkpoint was too early for: it was saved before this hook's turn
            if loaded["unseen"] is not None:
                self._see(runner, *loaded["unseen"])
            self._see_epochs(runner)
            if loaded["validation"] is not None:
                self._write_validation(runner, *loaded["validation"])
        if self._done != now.iter:  # the hook was not there, and has sums of something else
            self._sums.clear()
            self._done, self._epochs = now.iter, now.epoch
            self._place = (now.epoch + bool(now.inner_iter), now.inner_iter)

    def _begin(self, runner: Run, *, rerun: bool) -> None:
        """Prepare the sink; `rerun` if the same runner runs again without a resume."""

    def after_train_iter(self, runner: Run) -> None:
        """Write what is due after an iteration."""
        if runner.rank == 0:
            if self._run is None:  # the hook was registered during the run
                self.before_run(runner)
            self._advance(runner, runner.iter + 1)

    def after_train_epoch(self, runner: Run) -> None:
        """Write what is due after an epoch."""
        if self._run is not None:
            self._advance(runner, runner.done.iter)

    def before_val_epoch(self, runner: Run) -> None:
        """Write the training rows that are due: a hook may validate before this one is called for the iteration."""
        if runner.rank == 0:
            self.after_train_epoch(runner)
            self._mode = runner.mode

    def after_val_epoch(self, runner: Run) -> None:
        """Write a row of a validation, unless a hook has skipped it."""
        if runner.rank == 0 and self._mode:
            self._write_validation(runner, self._mode, self._validated(runner))
            self._mode = ""

    before_test_epoch = before_val_epoch
    after_test_epoch = after_val_epoch
    before_predict_epoch = after_train_epoch

    def always_run(self, runner: Run, exc: BaseException | None) -> None:  # noqa: ARG002  # for subclasses
        """Close the sink."""
        if runner.rank == 0 and self.sink is not None:
            self._try(runner, self.sink, None)

    # Rows

    def _advance(self, runner: Run, done: int) -> None:
        """Add up what was logged since the last call; `done` iterations are over, one that a hook skipped included."""
        if done > self._done:
            self._see(runner, *self._newest(runner, done))
        self._see_epochs(runner)

    def _newest(self, runner: Run, done: int) -> tuple[int, int, int, dict[str, float | str], float]:
        """Return the number, the place, the values and the samples of the newest iteration; no values if skipped."""
        logged = values_of(runner.logged) if done == runner.done.iter else {}
        return done, runner.epoch + 1, runner.inner_iter + 1, logged, samples_of(runner)

    def _see(
        self, runner: Run, done: int, epoch: int, inner: int, logged: Mapping[str, float | str], samples: float
    ) -> None:
        self._done, self._place = done, (epoch, inner)
        for name, number in _of_training(logged):
            if not isinstance(number, str):
                weight = 1.0 if name in TIMES else samples
                sums = self._sums.setdefault(name, [0.0, 0.0])
                sums[0] += number * weight
                sums[1] += weight
        due = bool(self.interval) and (inner if self.by_epoch else done) % self.interval == 0
        last = not self.by_epoch and not runner.by_epoch and done == runner.max_iters
        if due or (last and not self.ignore_last):
            self._write_training(runner)

    def _see_epochs(self, runner: Run) -> None:
        """Write the rest of an epoch that is complete."""
        if runner.done.epoch > self._epochs:
            self._epochs = runner.done.epoch
            if not self.ignore_last and (self.by_epoch or runner.by_epoch):
                self._write_training(runner)
            if self.by_epoch:
                self._sums.clear()

    def _write_training(self, runner: Run) -> None:
        """Write a row of what was added up since the last one, if anything was, and start over."""
        if self._sums:
            epoch, inner = self._place
            count = inner if self.by_epoch else self._done
            numbers = rates_row(runner.optimizer) | self._means(runner)
            self._write(runner, Row("train", epoch, count, self._done, numbers))
            self._sums.clear()

    def _means(self, runner: Run) -> dict[str, float | str]:
        """Return the means since the last row, times last; a number that was not logged since keeps its value."""
        found: dict[str, float | str] = {}
        for name, value in (*_of_training(values_of(runner.logs)), *((name, None) for name in self._sums)):
            total, weight = self._sums.get(name, (0.0, 0.0))
            if weight:
                found[name] = total / weight
            elif value is not None:
                found.setdefault(name, value)
        return {name: found[name] for name in sorted(found, key=TIMES.__contains__)}

    def _validated(self, runner: Run) -> dict[str, float | str]:
        """Return the numbers that the validation or the test has logged."""
        return {name: value for name, value in values_of(runner.logged).items() if is_of(name, self._mode)}

    def _write_validation(self, runner: Run, mode: str, numbers: dict[str, float | str]) -> None:
        """Write a row at the epoch and the iteration that the training has reached."""
        if numbers:
            now = runner.done
            count = (now.inner_iter or self._place[1]) if self.by_epoch else now.iter
            epoch = now.epoch + bool(now.inner_iter)
            self._write(runner, Row(mode, epoch, count, now.iter, rates_row(runner.optimizer) | numbers))

    def _write(self, runner: Run, row: Row) -> None:
        if self.sink is not None:
            self._try(runner, self.sink, row)

    def _try(self, runner: Run, sink: Sink, row: Row | None) -> None:
        """Write a row, or close the sink; what a sink raises does not end the run."""
        try:
            _ = sink.close() if row is None else sink.write(row)
        except Exception as error:
            self.sink = None
            runner.logger.warning(
                "the sink %s has failed, and gets no more rows; the run continues", type(sink).__name__, exc_info=error
            )

    # The state for a checkpoint

    def state_dict(self) -> dict[str, Any]:
        """Return the sums for the next row; and what was logged, and this hook was not called for yet."""
        if self._loaded is not None:
            return dict(self._loaded)
        runner = self._run
        unseen = runner is not None and runner.done.iter > self._done
        return {
            "sums": {name: list(row) for name, row in self._sums.items()},
            "iters": self._done,
            "epochs": self._epochs,
            "place": list(self._place),
            "unseen": list(self._newest(runner, runner.done.iter)) if runner is not None and unseen else None,
            "validation": [self._mode, self._validated(runner)] if runner is not None and self._mode else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state when the run begins."""
        unseen, validation = state["unseen"], state["validation"]
        if unseen is not None:
            done, epoch, inner, logged, samples = unseen
            unseen = [int(done), int(epoch), int(inner), checked_values(logged), float(samples)]
        if validation is not None:
            mode, numbers = validation
            validation = [str(mode), checked_values(numbers)]
        epoch, inner = state["place"]
        self._loaded = {
            **state,
            "sums": {str(name): [float(total), float(weight)] for name, (total, weight) in state["sums"].items()},
            "iters": int(state["iters"]),
            "epochs": int(state["epochs"]),
            "place": [int(epoch), int(inner)],
            "unseen": unseen,
            "validation": validation,
        }


class _FileLoggerHook(LoggerHook):
    """The base of loggers that write a file."""

    kind: ClassVar[type[LineFile]] = LineFile
    default: ClassVar[str]

    def __init__(
        self,
        interval: int = 10,
        *,
        by_epoch: bool = True,
        ignore_last: bool = True,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(None, interval, by_epoch=by_epoch, ignore_last=ignore_last)
        self.path: Path | None = None if path is None else path_of(type(self).__name__, path)

    def _begin(self, runner: Run, *, rerun: bool) -> None:
        if self.sink is not None and rerun:
            return
        path = self._path(runner)
        file = None if path is None else self._open(path, runner)
        self.sink: Sink | None = file
        if file is not None:
            file.begin(None if self._loaded is None else self._loaded["file"], is_new=runner.done.iter == 0)

    def _open(self, path: Path, runner: Run) -> LineFile:
        return self.kind(path, runner.logger)

    def _path(self, runner: Run) -> Path | None:
        return self.path or own_path(folder_of(runner, type(self).__name__, "path=..."), self.default)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the file too, and what could not be written to it."""
        if self._loaded is not None:
            return dict(self._loaded)
        return {**super().state_dict(), "file": self.sink.mark() if isinstance(self.sink, LineFile) else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state when the run begins."""
        super().load_state_dict(state)
        if state["file"] is not None:
            self.kind.check(state["file"])


@HOOKS.register
class TextLoggerHook(_FileLoggerHook):
    """Log lines of text, to ``log.txt`` in the run's `work_dir` and to the run's logger.

    The logger gets them at level INFO, which Python hides unless logging is configured; on a terminal, use
    `ProgressHook`. With an `IterTimerHook` the lines have an estimate of the remaining time.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: Another file. Without a path and a `work_dir`, only the logger gets the lines.

    Example:
        >>> TextLoggerHook(interval=100, by_epoch=False).interval
        100
    """

    kind: ClassVar[type[LineFile]] = TextFile
    default = "log.txt"

    def _path(self, runner: Run) -> Path | None:
        return None if self.path is None and runner.work_dir is None else super()._path(runner)

    def _open(self, path: Path, runner: Run) -> LineFile:
        return TextFile(path, runner.logger, lambda row: self._line(runner, row))

    def _write(self, runner: Run, row: Row) -> None:
        runner.logger.info("%s", self._line(runner, row))
        super()._write(runner, row)

    def _line(self, runner: Run, row: Row) -> str:
        mode = "" if row.mode == "train" else f"({row.mode})"
        what = f"Epoch{mode} [{row.epoch}]" if self.by_epoch else f"Iter{mode} "
        length = length_of(runner.loaders.get("train")) if self.by_epoch else runner.max_iters
        place = f"{what}[{row.iter}{'' if length is None or mode else f'/{length}'}]"
        shown = [f"{name}: {_shown(name, value)}" for name, value in row.numbers.items()]
        eta = eta_of(runner) if row.mode == "train" else None
        return one_line(f"{place}  {', '.join([*shown, *([] if eta is None else [f'eta: {duration_text(eta)}'])])}")


@HOOKS.register
class JsonLoggerHook(_FileLoggerHook):
    """Log rows as JSON lines: one object a line, to ``log.jsonl`` in the run's `work_dir`.

    NaN and infinity become ``null``, since JSON has neither.

    Each line is written at once. A resumed run removes the lines after its checkpoint, so that the file ends up as if
    the run had never stopped; a new run renames an older file to ``log.1.jsonl``. If the disk is full, the run
    continues with a warning, and the missing lines are written when there is room.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: Another file.

    Example:
        >>> JsonLoggerHook(path="metrics.jsonl").path.name
        'metrics.jsonl'
    """

    kind: ClassVar[type[LineFile]] = JsonFile
    default = "log.jsonl"


@HOOKS.register
class CsvLoggerHook(_FileLoggerHook):
    """Log rows as a table, to ``log.csv`` in the run's `work_dir`. It resumes as the file of `JsonLoggerHook` does.

    The file is a valid table at any time. A number without a column, such as the first one of a validation, adds a
    column, for which the file is replaced by a new one. A cell is empty where a row does not have the number.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: Another file.

    Example:
        >>> CsvLoggerHook(interval=1, ignore_last=False).default
        'log.csv'
    """

    kind: ClassVar[type[LineFile]] = TableFile
    default = "log.csv"


def _shown(name: str, value: float | str) -> str:
    is_rate = name == "lr" or name.startswith("lr_")
    return f"{value:.3e}" if is_rate and not isinstance(value, str) else number_text(value)


def samples_of(runner: Run) -> float:
    """Return over how many samples the numbers of an iteration are means."""
    outputs = runner.outputs
    return float(outputs.get("num_samples", 1)) if is_any(outputs, Mapping) else 1.0


def _of_training(values: Mapping[str, float | str]) -> Iterator[tuple[str, float | str]]:
    return ((name, value) for name, value in values.items() if is_of(name, "train"))


def checked_values(values: Any) -> dict[str, float | str]:
    """Return the values of a state; raise a ValueError if a row cannot hold them."""
    found = {str(name): value_of(value) for name, value in values.items()}
    if None in found.values():
        raise ValueError("the state has values that no row can hold")
    return values_of(found)
