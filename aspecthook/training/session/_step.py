"""One step: the values that are fetched from it, and the entries of the batch that are fed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from aspecthook._core.law.answers import Args
from aspecthook._errors import HookAnswerError, described
from aspecthook.training._errors import TrainingError
from aspecthook.training.loop._run import Run

from ._fetches import entry_of, fed, foreign_feed, mapped, names_in
from ._protocol import SessionRunArgs, SessionRunContext, SessionRunValues
from ._reader import Reader
from ._session import Session

NOTHING = SessionRunArgs()
_NO_VALUES = SessionRunValues()


@final
class Step:
    """One iteration, which its hooks share; values are read only if a hook fetches them."""

    def __init__(self, session: Session | None, reader: Reader, run: Run, args: SessionRunArgs) -> None:
        self.context = SessionRunContext(args, session)
        self.over = False  # whether a hook has ended the run in this step: then the other hooks are not called
        self._reader = reader
        self._global_step = run.step  # the number before the step, which is what TensorFlow reads
        self._asked: dict[object, Any] = {}
        self._names: dict[str, None] = {}
        self._feeders: dict[Any, str] | None = None
        self._values: dict[str, Any] | None = None
        self._made = False
        self._stops = False

    # Before it

    def take(self, key: object, who: str, answer: Any, batch: Any, run: Run) -> Args | None:
        """Use what `before_run` of a hook returned, and return the answer for the stage."""
        if not hasattr(answer, "fetches"):
            raise HookAnswerError(
                f"before_run of {who} returned {described(answer)}; return SessionRunArgs(...), or None"
            )
        if answer.fetches is not None:
            self.ask(key, who, answer.fetches, run)
        feed = foreign_feed(answer)
        return Args(batch=self.feed(batch, feed, who, run)) if feed else None

    def ask(self, key: object, who: str, fetches: Any, run: Run) -> None:
        """Register the fetches of a hook, or of another caller that `key` identifies."""
        names = (fetches,) if type(fetches) is str else names_in(fetches, who)
        self._reader.check(names, run, who)
        self._asked[key] = fetches
        for name in names:
            if name not in self._names:
                self._names[name] = None
                self._reader.want(name, run)

    def feed(self, batch: Any, feed: Mapping[Any, Any], who: str, run: Run) -> Any:
        """Return the batch with entries replaced, each of them by one feed."""
        feeders = self._feeders = self._feeders or {}
        entries: dict[Any, Any] = {}
        for key, value in feed.items():
            entry = entry_of(batch, key, who)
            other = who if entry in entries else feeders.get(entry)
            if other is not None:
                raise TrainingError(f"{who} feeds {key!r}, which {other} feeds too; feed an entry of a batch once")
            entries[entry] = run.backend.to_device(value, run.model)
        feeders.update(dict.fromkeys(entries, who))
        return fed(batch, entries)

    # After it

    def was_made(self, run: Run) -> bool:
        """Whether the step was made; a hook may have skipped it."""
        if not self._made:
            self._made = not self._reader.training or run.progress["iter"] > run.iter
        return self._made

    def values(self, key: object, who: str, run: Run) -> SessionRunValues:
        """Return the argument of `after_run` of a hook."""
        return SessionRunValues(self.results(key, who, run)) if key in self._asked else _NO_VALUES

    def results(self, key: object, who: str, run: Run) -> Any:
        """Return the values in the shape of the fetches; the first call reads those of all hooks."""
        fetches = self._asked.get(key)
        if fetches is None:
            return None
        if self._values is None:
            self._values = self._reader.read(self._names, run, self._global_step)
        return self._values[fetches] if type(fetches) is str else mapped(fetches, self._values.__getitem__, who)

    def stop(self, run: Run) -> None:
        """End the run after this step, unless the session is lost in this step, which is then made again."""
        if not self._stops:
            self._stops = True
            run.after_stage(run.request_stop) if self._reader.training else run.request_stop()
