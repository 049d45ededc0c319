"""One step: what it was asked for, what it was fed, and what was read of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from aspecthook._core.law.answers import Args
from aspecthook._errors import HookAnswerError, described
from aspecthook.training._errors import TrainingError

from ._fetches import check_name, entry_of, fed, foreign_feed, mapped, names_in
from ._protocol import SessionRunArgs, SessionRunContext, SessionRunValues

if TYPE_CHECKING:
    from aspecthook.training.loop._run import Run

    from ._running import Running

NOTHING = SessionRunArgs()
_NO_VALUES = SessionRunValues()


@final
class Step:
    """One iteration, as its hooks share it; most of it is made only if somebody asks."""

    __slots__ = (
        "_asked",
        "_feeders",
        "_global_step",
        "_made",
        "_names",
        "_running",
        "_stops",
        "_values",
        "context",
        "over",
    )

    def __init__(self, running: Running, runner: Run, args: SessionRunArgs) -> None:
        self.context = SessionRunContext(args, running.session)
        self.over = False  # a hook has ended the loop in it: the others hear nothing of it any more
        self._running = running
        self._global_step = runner.step  # as it was before the step, as TensorFlow reads it
        self._asked: dict[object, Any] = {}
        self._names: dict[str, None] = {}
        self._feeders: dict[Any, str] | None = None
        self._values: dict[str, Any] | None = None
        self._made = False
        self._stops = False

    # Before it

    def take(self, key: object, who: str, answer: Any, batch: Any, runner: Run) -> Args | None:
        """Take what a hook has answered.

        Raises:
            HookAnswerError: It is no `SessionRunArgs`.
        """
        if not hasattr(answer, "fetches"):
            raise HookAnswerError(
                f"{who} answered {described(answer)} in before_run; answer SessionRunArgs(...), or None"
            )
        if answer.fetches is not None:
            self.ask(key, who, answer.fetches, runner)
        feed = foreign_feed(answer)
        return Args(batch=self.feed(batch, feed, who, runner)) if feed else None

    def ask(self, key: object, who: str, fetches: Any, runner: Run) -> None:
        """Have something read of this step.

        Raises:
            HookOptionError: It is a name of nothing.
            HookTypeError: It is no name.
        """
        names = (fetches,) if type(fetches) is str else names_in(fetches, who)
        checked = self._running.checked
        for name in names:
            if name not in checked:
                check_name(name, runner, who)
                checked.add(name)
        self._asked[key] = fetches
        for name in names:
            if name not in self._names:
                self._names[name] = None
                self._running.reader.want(name, runner)

    def feed(self, batch: Any, feed: Mapping[Any, Any], who: str, runner: Run) -> Any:
        """Give the batch with entries replaced.

        Raises:
            TrainingError: One was fed already.
            HookOptionError: There is no such entry.
        """
        feeders = self._feeders = self._feeders or {}
        entries: dict[Any, Any] = {}
        for key, value in feed.items():
            entry = entry_of(batch, key, who)
            other = who if entry in entries else feeders.get(entry)
            if other is not None:
                raise TrainingError(f"{who} feeds {key!r}, which {other} feeds too; feed an entry of a batch once")
            entries[entry] = runner.backend.to_device(value, runner.model)
        feeders.update(dict.fromkeys(entries, who))
        return fed(batch, entries)

    # After it

    def was_made(self, runner: Run) -> bool:
        """Say whether it was made, and not skipped by a hook before it."""
        if not self._made:
            self._made = not self._running.training or runner.progress["iter"] > runner.iter
        return self._made

    def values(self, key: object, who: str, runner: Run) -> SessionRunValues:
        """Give what a hook is told."""
        return SessionRunValues(self.results(key, who, runner)) if key in self._asked else _NO_VALUES

    def results(self, key: object, who: str, runner: Run) -> Any:
        """Give what was asked for; all of it is read when the first asks."""
        fetches = self._asked.get(key)
        if fetches is None:
            return None
        if self._values is None:
            self._values = self._running.reader.read(self._names, runner, self._global_step)
        return self._values[fetches] if type(fetches) is str else mapped(fetches, self._values.__getitem__, who)

    def stop(self, runner: Run) -> None:
        """End the run after this step, unless the session is lost in it, and the step is made again."""
        if not self._stops:
            self._stops = True
            runner.after_stage(runner.request_stop) if self._running.training else runner.request_stop()
