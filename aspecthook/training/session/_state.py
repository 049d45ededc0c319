"""The state that the session hooks of one runner share: the session, the step, and what to do when either fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, final
from weakref import WeakKeyDictionary

from aspecthook._core.law.call import Call
from aspecthook.training.checkpoint._format import newest
from aspecthook.training.loop._run import Run

from ._errors import QUIET, AbortedError
from ._protocol import SessionRunArgs
from ._reader import Reader
from ._session import Session
from ._step import Step

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
        run.later.clear()
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
