"""What the session hooks of one runner share while it runs: the session, the step, and what becomes of a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary, ref

from ._errors import LOST, QUIET
from ._protocol import SessionRunArgs
from ._reading import Reader
from ._session import Coordinator, Session
from ._step import NOTHING, Step

if TYPE_CHECKING:
    from aspecthook._core.law.call import Call
    from aspecthook.training.loop._runner import Runner

_KEY = "session_step"  # in the state that the hooks of a call share


@final
class Running:
    """What the session hooks of a runner share."""

    def __init__(self, *, training: bool) -> None:
        self.training = training
        self.reader = Reader(training=training)
        self.session: Session | None = None
        self.coordinator = Coordinator()
        self.checked: set[str] = set()
        # Where a lost session is made anew from; without it, from what is in memory.
        self.checkpoint_dir: Path | None = None
        self.grace = 120.0
        self.entered = False  # somebody sees to it that a lost session is made anew
        self.quiet: BaseException | None = None  # what has ended the loop
        self.given: Step | None = None  # the step that is to be made, if it was begun from outside
        self._call: Call | None = None
        self._step: Step | None = None

    # The step

    def step_of(self, call: Call, runner: Runner) -> Step:
        """Give the step that a call is; the last one is at hand."""
        if self._call is not call or self._step is None:
            self._call, self._step = call, self._found(call, runner)
        return self._step

    def _found(self, call: Call, runner: Runner) -> Step:
        state = call.state
        if _KEY not in state:
            state[_KEY] = self.given or self.begun(runner, NOTHING)
            self.given = None
        found: Step = state[_KEY]
        return found

    def begun(self, runner: Runner, args: SessionRunArgs) -> Step:
        """Begin a step."""
        self.reader.turn()
        return Step(self, runner, args)

    # The session

    def open(self, runner: Runner) -> None:
        """Make a session."""
        self.checked = set()
        seen = ref(runner)

        def stop() -> None:
            runner = seen()
            if runner is not None:
                runner.request_stop()

        self.session = Session(runner, self.reader)
        self.coordinator = Coordinator(stop)

    def go(self, runner: Runner, body: Callable[[], Any]) -> Any:
        """Run something in a session, and again in another one if it is lost."""
        self.entered, self.quiet = True, None
        try:
            while True:
                self.open(runner)
                try:
                    result = body()
                    self.coordinator.raise_requested()
                    return result
                except LOST as error:
                    self.lose(runner, error)
                except QUIET as error:
                    if not (self.training and runner._running):  # there is no loop yet that it could end
                        raise
                    return self.end_quietly(runner, error)
        finally:
            self.entered = False

    def lose(self, runner: Runner, error: Exception) -> None:
        """Close a lost session, and go back to where the run can go on from."""
        runner.logger.warning("the session is made anew: %s: %s", type(error).__name__, error)
        self.close()
        if not self.training:
            return
        runner._later.clear()
        saved = _newest(self.checkpoint_dir)
        if saved is None:
            _go_back(runner)
        else:
            runner.resume(saved)

    def quietly(self, runner: Runner, function: Callable[[], object]) -> None:
        """Do a part of the loop, in which an error may end it."""
        try:
            function()
        except QUIET as error:
            self.end_quietly(runner, error)

    def end_quietly(self, runner: Runner, error: BaseException) -> None:
        """End the loop as if somebody had asked for it."""
        runner.logger.info("the run ends: %s %s", type(error).__name__, error)
        self.quiet = error
        runner.request_stop()

    def close(self) -> None:
        """End the session; leave nothing on stages and layers."""
        self.given = self._call = self._step = None  # they hold the runner
        self.reader.close()
        if self.session is not None:
            self.session.close()
            self.session = None
            self.coordinator.close(self.grace)


def _go_back(runner: Runner) -> None:
    """Go back to the end of the last step: of what is in memory, only the gradients of a group are lost."""
    done = runner.progress
    place = done["iter"] % runner.accumulate
    if place <= done["inner_iter"] and (runner.by_epoch or done["begun"] <= done["iter"] - place):
        done["iter"], done["inner_iter"] = done["iter"] - place, done["inner_iter"] - place
    runner.progress = done
    if runner.optimizer is not None:
        runner.optimizer.zero_grad()


def _newest(folder: Path | None) -> Path | None:
    from aspecthook.training.checkpoint._format import newest

    return None if folder is None else newest(folder)


_running: WeakKeyDictionary[Runner, dict[str, Running]] = WeakKeyDictionary()


def running_of(runner: Runner, way: str = "train") -> Running:
    """Give what the session hooks of a runner share: those of its training, or of another of its ways."""
    ways = _running.setdefault(runner, {})
    if way not in ways:
        ways[way] = Running(training=way == "train")
    return ways[way]
