"""One step: the values that are fetched from it, and the entries of the batch that are fed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from aspecthook._core.law.answers import Args
from aspecthook._errors import HookAnswerError, described
from aspecthook.training._errors import TrainingError
from aspecthook.training.loop._run import Run

from ._fetches import entry_of, fed, mapped
from ._protocol import SessionRunArgs, SessionRunContext, SessionRunValues
from ._reader import Reader
from ._session import Session

NO_VALUES = SessionRunValues()


@final
class Step:
    """One iteration, which its hooks share; values are read only if a hook fetches them."""

    # Attributes of the class, since few steps change them: a new step is made at each iteration.
    _over = False
    values: dict[object, SessionRunValues] | None = None  # by who asked for them, once they are read
    _feeders: dict[Any, str] | None = None
    _stops = False

    def __init__(self, session: Session | None, reader: Reader, run: Run, args: SessionRunArgs) -> None:
        self.context: SessionRunContext = SessionRunContext(args, session)
        self.asked: dict[object, Any] = {}  # the fetches by who asked for them
        self._names: set[str] = set()
        self._reader = reader
        self._global_step = run.step  # the number before the step, which is what TensorFlow reads

    # Before it

    def take(self, key: object, who: str, answer: Any, batch: Any, run: Run) -> Args | None:
        """Use what `before_run` of a hook returned, whom `key` identifies, and return the answer for the stage."""
        fetches, feed = answer if type(answer) is SessionRunArgs else _foreign(answer, who)
        if fetches is not None:
            if type(fetches) is str and fetches in self._names:  # most often another hook has asked for it already
                self.asked[key] = fetches
            else:
                for name in self._reader.check(fetches, run, who):
                    if name not in self._names:
                        self._names.add(name)
                        self._reader.want(name, run)
                self.asked[key] = fetches
        return Args(batch=self._fed(batch, feed, who, run)) if feed else None

    def _fed(self, batch: Any, feed: Mapping[Any, Any], who: str, run: Run) -> Any:
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
        """Whether the step was made, since a hook may have skipped it; False too once a hook has ended the run."""
        return not self._over and (not self._reader.training or run.done.iter > run.iter)

    def read(self, run: Run) -> dict[object, SessionRunValues]:
        """Read what is fetched in this step, and return the values for each who has asked, in the shape asked for."""
        self.values = {}
        if self.asked:
            read = self._reader.read(self._names, run, self._global_step)
            alone = {name: SessionRunValues(value) for name, value in read.items()}
            for key, fetches in self.asked.items():
                is_alone = type(fetches) is str
                self.values[key] = (
                    alone[fetches] if is_alone else SessionRunValues(mapped(fetches, read.__getitem__, "the step"))
                )
        return self.values

    def end(self) -> None:
        """Call no more hooks after this step: one of them has ended the run."""
        self.values, self._over = None, True

    def stop(self, run: Run) -> None:
        """End the run after this step, unless the session is lost in this step, which is then made again."""
        if not self._stops:
            self._stops = True
            run.after_stage(run.request_stop) if self._reader.training else run.request_stop()


def _foreign(answer: Any, who: str) -> tuple[Any, Mapping[Any, Any] | None]:
    """Return the fetches and the feed of an answer that is not ours; it may be an object of TensorFlow itself."""
    if not hasattr(answer, "fetches"):
        raise HookAnswerError(f"before_run of {who} returned {described(answer)}; return SessionRunArgs(...), or None")
    feed = getattr(answer, "feed", None)
    return answer.fetches, getattr(answer, "feed_dict", None) if feed is None else feed
