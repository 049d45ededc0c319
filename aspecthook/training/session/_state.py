"""What the session hooks of one runner share: the step, the session, and what to do when either fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final
from weakref import WeakKeyDictionary

from aspecthook._core.law.answers import Args
from aspecthook._core.law.call import Call
from aspecthook._errors import HookAnswerError, described
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._format import newest
from aspecthook.training.loop._run import Run

from ._errors import QUIET, AbortedError
from ._fetches import entry_of, fed, mapped
from ._protocol import Session, SessionRunArgs, SessionRunContext, SessionRunValues
from ._reader import Reader

NO_VALUES = SessionRunValues()


@final
class Step:
    """One iteration, which its hooks share; values are read only if a hook fetches them."""

    # Attributes of the class, since few steps change them: a new step is made at each iteration.
    _over = False
    values: dict[object, SessionRunValues] | None = None  # by who asked for them, once they are read
    _feeders: dict[Any, str] | None = None

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


def _foreign(answer: Any, who: str) -> tuple[Any, Mapping[Any, Any] | None]:
    """Return the fetches and the feed of an answer that is not ours; it may be an object of TensorFlow itself."""
    if not hasattr(answer, "fetches"):
        raise HookAnswerError(f"before_run of {who} returned {described(answer)}; return SessionRunArgs(...), or None")
    feed = getattr(answer, "feed", None)
    return answer.fetches, getattr(answer, "feed_dict", None) if feed is None else feed


_KEY = "session_step"  # in the state that the hooks of a call share


@final
class SessionState:
    """The state that the session hooks of a runner share."""

    def __init__(self, *, training: bool) -> None:
        self.training = training
        self.reader = Reader(training=training)
        self.session: Session | None = None
        # A new session continues from the newest checkpoint here; without a folder, from what is in memory.
        self.checkpoint_dir: Path | None = None
        self.entered = False  # whether something replaces lost sessions already
        self.quiet: BaseException | None = None  # the error that has ended the loop quietly
        self.asked = SessionRunArgs()  # what the caller of the steps fetches and feeds
        # The call of the stage whose hooks are called now, and its step: they look here first.
        self.call: Call | None = None
        self.step: Step

    # The step

    def enter(self, call: Call, run: Run) -> Step:
        """Return the step of a call of a stage, which begins with the first hook that asks."""
        shared = call.state
        step: Step | None = shared.get(_KEY)
        if step is None:
            self.reader.begin_step()
            step = shared[_KEY] = Step(self.session, self.reader, run, self.asked)
        self.call, self.step = call, step
        return step

    # The session

    def open(self, run: Run) -> None:
        """Open a session."""
        self.reader.open()
        self.session = Session(run, self.reader)

    def in_session(self, run: Run, body: Callable[[], Any]) -> Any:
        """Call a function in a session, and again in a new one whenever the session is lost."""
        self.entered, self.quiet = True, None
        try:
            while True:
                self.open(run)
                try:
                    return body()
                except AbortedError as error:
                    self.lose(run, error)
                except QUIET as error:
                    if not (self.training and run.running):  # there is no loop that the error could end
                        raise
                    return self.end_quietly(run, error)
        finally:
            self.entered = False

    def lose(self, run: Run, error: Exception) -> None:
        """Close a lost session, and set the run back to where a new session can continue."""
        run.logger.warning("the session is lost, and a new one is created: %s: %s", type(error).__name__, error)
        self.close()
        if not self.training:
            return
        run.after_stage_calls.clear()
        saved = None if self.checkpoint_dir is None else newest(self.checkpoint_dir)
        if saved is None:
            _go_back(run)
        else:
            run.resume(saved)

    def end_quietly(self, run: Run, error: BaseException) -> None:
        """End the loop as if a hook had asked for it."""
        run.logger.info("the run ends: %s %s", type(error).__name__, error)
        self.quiet = error
        run.request_stop()

    def close(self) -> None:
        """End the session, and remove its hooks from stages and layers."""
        if self.call is not None:  # it keeps the runner alive
            self.call = None
            del self.step
        self.reader.close()
        if self.session is not None:
            self.session.close()
            self.session = None


def _go_back(run: Run) -> None:
    """Set the run back to the last step of the optimizer; only the gradients of an incomplete group are lost."""
    done = run.progress
    place = done["iter"] % run.accumulate
    if place <= done["inner_iter"] and (run.by_epoch or done["begun"] <= done["iter"] - place):
        done["iter"], done["inner_iter"] = done["iter"] - place, done["inner_iter"] - place
    run.progress = done
    if run.optimizer is not None:
        run.optimizer.zero_grad()


_states: WeakKeyDictionary[Run, dict[str, SessionState]] = WeakKeyDictionary()


def session_state(run: Run, mode: str = "train") -> SessionState:
    """Return the state that the session hooks of a runner share in training, validation or prediction."""
    states = _states.setdefault(run, {})
    if mode not in states:
        states[mode] = SessionState(training=mode == "train")
    return states[mode]
