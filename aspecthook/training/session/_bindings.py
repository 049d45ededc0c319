"""Session-run hooks as hooks on the stages of a runner.

==================== ================================================================================
`begin`              before ``run``
after_create_session around ``run``: before its body, and for each session that replaces a lost one
before_run           before ``train_iter``; what it feeds replaces the batch
after_run            after ``train_iter``
`end`                after ``run``
==================== ================================================================================

In evaluation and prediction the stages of that mode take the place of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from aspecthook import hooks as hooks_of
from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.call import Call
from aspecthook._errors import HookAnswerError, HookTypeError, brief, described
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._folder import newest
from aspecthook.training.loop._dialect import Binding, Dialect, Stage
from aspecthook.training.loop._run import Run

from ._fetches import Reader, entry_of, fed, mapped
from ._protocol import (
    METHODS,
    QUIET,
    AbortedError,
    Session,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

# By mode: the stages that are the run, a pass over the data, and a step.
STAGES: Final[dict[str, tuple[str, str, str]]] = {
    "train": ("run", "train_epoch", "train_iter"),
    "val": ("val_loop", "val_epoch", "val_iter"),
    "predict": ("predict_loop", "predict_epoch", "predict_iter"),
}
_DIALECT: Final = Dialect(
    "the session hook",
    SessionRunHook,
    METHODS,
    looks_like="(before|after)_.*",
    others=("before_save", "after_save"),  # one object may be a hook and a listener to checkpoints
)


def bindings(hook: Any, run: Run, mode: str = "train") -> list[Binding]:
    """Return the bindings of a session-run hook."""
    _DIALECT.check(hook)
    state, called = session_state(run, mode), _DIALECT.methods(hook)
    whole, epoch, step = STAGES[mode]
    found: list[Binding] = []
    if "begin" in called:
        found.append(Binding(Stage(whole, "pre"), lambda: _ignored(hook.begin())))
    found.append(Binding(Stage(whole, "around"), _creates(called.get("after_create_session"), state)))
    if "before_run" in called:
        who = f"the session hook {type(hook).__name__}"
        found.append(Binding(Stage(step, "pre"), before_step(id(hook), who, called["before_run"], state)))
    if "end" in called:
        found.append(Binding(Stage(whole, "post"), lambda: _ignored(hook.end(state.session))))
    found.append(Binding(Stage(whole, "always"), state.close))
    if "before_run" in called or "after_run" in called:
        found.append(Binding(Stage(step, "post"), after_step(id(hook), called.get("after_run"), state)))

    def end_quietly(exc: BaseException, runner: Run) -> Return[None] | None:
        if not isinstance(exc, QUIET):
            return None
        state.end_quietly(runner, exc)
        return Return(None)

    return [*found, *(Binding(Stage(stage, "exception"), end_quietly) for stage in (step, epoch))]


def list_of_hooks(hooks: Iterable[Any] | None, who: str) -> list[Any]:
    """Return the hooks as a list; refuse a single hook."""
    if hooks is None or hasattr(hooks, "__iter__"):
        return [] if hooks is None else list(hooks)
    raise HookTypeError(f"{who}: hooks={brief(hooks)} is not a list of hooks; give [{type(hooks).__name__}(...)]")


def _ignored(_: object) -> None:
    """Return None, whatever a method returns: it is not an answer to the stage."""


# The attribute of an around hook that has its method `after_create_session`, or None. Whatever opens a session calls
# these methods in the order of the hooks; a session that pauses leaves the around hooks out.
CREATES: Final = "creates_session"


def _creates(method: Callable[..., Any] | None, state: SessionState) -> Callable[..., Any]:
    def around(runner: Run, proceed: Callable[[], Any]) -> Any:
        # The outermost of these hooks opens the sessions.
        return proceed() if state.entered else state.in_session(runner, proceed)

    setattr(around, CREATES, method)
    return around


# These two are called for each hook at each step: what is the same for all hooks is done once, by the step.


def before_step(key: object, who: str, method: Callable[..., Any], state: SessionState) -> Callable[..., Args | None]:
    """Return a pre hook of a step: it calls `before_run`, and takes the fetches and feeds of one who asks."""

    def before_run(call: Call, runner: Run, batch: Any) -> Args | None:
        step = state.step if state.call is call else state.enter(call, runner)
        answer = method(step.context)
        return None if answer is None else step.take(key, who, answer, batch, runner)

    return before_run


def after_step(key: object, method: Callable[..., Any] | None, state: SessionState) -> Callable[..., None]:
    """Return a post hook of a step: it calls `after_run` with the values that one has asked for."""

    def after_run(call: Call, runner: Run) -> None:
        step = state.step if state.call is call else state.enter(call, runner)
        values = step.values
        if values is None:
            if not step.was_made(runner):
                return
            values = step.read(runner)
        if method is not None:
            try:
                method(step.context, values.get(key, NO_VALUES))
            except QUIET as error:
                step.end()
                state.end_quietly(runner, error)
        if step.context.stop_requested:  # not at once: if the session is lost in this step, the step is made again
            runner.after_stage(runner.request_stop)

    return after_run


# What the session hooks of one runner share: the step, the session, and what to do when either fails.

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
        if type(answer) is not SessionRunArgs:
            returned = f"before_run of {who} returned {described(answer)}"
            raise HookAnswerError(f"{returned}; return SessionRunArgs(...), or None")
        fetches, feed = answer
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
        return not self._over and (not self._reader.training or run.progress.iter > run.iter)

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


_KEY = "session_step"  # in the state that the hooks of a call share


@final
class SessionState:
    """The state that the session hooks of a runner share."""

    def __init__(self, mode: str) -> None:
        self.training = mode == "train"
        self._stage = STAGES[mode][0]
        self.reader = Reader(training=self.training)
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
        """Open a session, and call `after_create_session` of the hooks."""
        self.reader.open()
        session = self.session = Session(run, self.reader)
        for hook in hooks_of(getattr(run, self._stage)).chain().around:
            method = getattr(hook.function, CREATES, None)
            if method is not None:
                method(session, session)

    def in_session(self, run: Run, body: Callable[[], Any]) -> Any:
        """Call a function in a session, and again in a new one whenever the session is lost."""
        self.entered, self.quiet = True, None
        try:
            while True:
                try:
                    self.open(run)
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
    done = run.progress.state_dict()
    place = done["iter"] % run.accumulate
    if place <= done["inner_iter"] and (run.by_epoch or done["begun"] <= done["iter"] - place):
        done["iter"], done["inner_iter"] = done["iter"] - place, done["inner_iter"] - place
    run.move_to(done)
    if run.optimizer is not None:
        run.optimizer.zero_grad()


_states: WeakKeyDictionary[Run, dict[str, SessionState]] = WeakKeyDictionary()


def session_state(run: Run, mode: str = "train") -> SessionState:
    """Return the state that the session hooks of a runner share in training, validation or prediction."""
    states = _states.setdefault(run, {})
    if mode not in states:
        states[mode] = SessionState(mode)
    return states[mode]
