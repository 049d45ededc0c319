"""The protocol of TensorFlow 1: sessions, session-run hooks and their errors, on the stages of a runner.

`_TABLE` says on which stage each method of a hook is called. In evaluation and prediction, the stages of that mode
replace those of training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, final
from weakref import WeakKeyDictionary

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.call import Call
from aspecthook._core.law.kinds import Kind
from aspecthook._errors import HookAnswerError, described
from aspecthook.training._dialect import Binding, Dialect, Method
from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._optimizer import NanLossError
from aspecthook.training.loop._runner import Runner

from ._fetches import Feed, Nested, Reader, fed, mapped


@final
class Session:
    """A view of a run, which hooks get in `after_create_session`, in `end`, and in the context of each step.

    Example:
        >>> class Enough(SessionRunHook):
        ...     def after_create_session(self, session, coord):
        ...         if session.run("global_step") >= 100:
        ...             coord.request_stop()  # the coordinator is the session itself
    """

    def __init__(self, runner: Runner, reader: Reader) -> None:
        self._runner: Runner | None = runner
        self._reader = reader

    @property
    def runner(self) -> Runner:
        """The runner; raises a TrainingError once the session is closed."""
        if self._runner is None:
            raise TrainingError("the session is closed; read values before the run ends")
        return self._runner

    def run(self, fetches: Nested) -> Nested:
        """Return the values that the fetches name, in their shape, without making a step.

        The loss is that of the last step. Gradients and outputs of layers are available if that step has fetched them.
        ``"global_step"`` includes the step that is just ending.

        Raises:
            HookOptionError: A name is not that of a value of a step.
            HookTypeError: The fetches contain an object that is not a name.
            TrainingError: The session is closed.
        """
        runner = self.runner
        names = self._reader.check(fetches, runner, "session.run")
        values = self._reader.read(names, runner, runner.progress.step)
        return mapped(fetches, values.__getitem__, "session.run")

    def request_stop(self) -> None:
        """End the run after its step."""
        self.runner.request_stop()

    def close(self) -> None:
        """Release the runner."""
        self._runner = None


class SessionRunArgs(NamedTuple):
    """The return value of `SessionRunHook.before_run`: values to read, and entries of the batch to replace.

    Args:
        fetches: The name of a value, or nested lists, tuples, named tuples and dicts of names: ``"loss"``,
            ``"global_step"``, ``"lr"``, ``"param:layer1.weight"``, ``"grad:layer1.weight"``, ``"output:layer1"``.
        feed: New values for entries of the batch, by the key of the entry in a mapping, or by its position in a list or
            tuple.

    Example:
        >>> SessionRunArgs({"loss": "loss", "sizes": ["param:0.weight", "grad:0.weight"]}, feed={"inputs": 0.0}).feed
        {'inputs': 0.0}
    """

    fetches: Nested = None
    feed: Feed | None = None


class SessionRunValues(NamedTuple):
    """The values that `SessionRunHook.after_run` is called with.

    Attributes:
        results: The values in the shape of the hook's fetches: numbers and NumPy arrays, or None for a value that does
            not exist, such as the gradient of a frozen parameter.

    Example:
        >>> SessionRunValues(results={"loss": 0.7}).results["loss"]
        0.7
    """

    results: Nested = None


@final
class SessionRunContext:
    """The current step; all hooks of a step share this object.

    Attributes:
        original_args: The fetches and feeds of the caller of the step.
        session: The `Session`, which reads values without a step.
        stop_requested: Whether a hook of this step has called `request_stop`.

    Example:
        >>> class OneStep(SessionRunHook):
        ...     def after_run(self, run_context, run_values):
        ...         run_context.request_stop()
    """

    __slots__ = ("original_args", "session", "stop_requested")

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        self.original_args: SessionRunArgs = original_args
        self.session: Session = session
        self.stop_requested: bool = False

    def request_stop(self) -> None:
        """End the run after this step."""
        self.stop_requested = True


class SessionRunHook:
    """The base class of session-run hooks: override the methods that you need.

    Pass a hook to ``runner.register_hook(hook)`` or ``MonitoredTrainingSession(hooks=[hook])``. A method that is not
    overridden is never called. ``before_run`` and ``after_run`` are called at every step, while those of
    `aspecthook.training.Hook` are called once per run. If a hook has ``state_dict`` and ``load_state_dict``,
    checkpoints keep its state. Such a hook sets its first values in ``__init__``: ``begin`` is called after a
    checkpoint is loaded.

    Example:
        >>> class Losses(SessionRunHook):
        ...     def begin(self):
        ...         self.losses = []
        ...
        ...     def before_run(self, run_context):
        ...         return SessionRunArgs("loss")
        ...
        ...     def after_run(self, run_context, run_values):
        ...         self.losses.append(run_values.results)
        ...         if run_values.results < 0.1:
        ...             run_context.request_stop()
    """

    priority: int | str = "NORMAL"

    def begin(self) -> None:
        """Called once, before the session is created."""

    def after_create_session(self, session: Session, coord: Session) -> None:
        """Called when a session is created, after `begin` of all hooks.

        It is called again for the session that replaces a lost one. The coordinator is the session itself:
        `Session.request_stop` ends the run.
        """

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:  # noqa: ARG002
        """Called before each step; returns the names of the values to read, and the values to feed."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each step with the fetched values, unless the step failed."""

    def end(self, session: Session) -> None:
        """Called when the run has ended, unless it failed."""


@final
class Caller(SessionRunHook):
    """The hook that fetches and feeds the values that the caller of `MonitoredTrainingSession.run` asks for."""

    results: Nested = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return run_context.original_args

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:  # noqa: ARG002
        self.results = run_values.results


# Errors


class OutOfRangeError(TrainingError):
    """There is no more data. A step that raises it ends the run without an error; the hooks' `end` is called.

    Example:
        >>> class Budget(SessionRunHook):
        ...     def after_run(self, run_context, run_values):
        ...         raise OutOfRangeError("the budget is spent")  # the run ends as if there were no more data
    """


class AbortedError(TrainingError):
    """The session is lost. `MonitoredTrainingSession` creates a new one, which continues from the newest checkpoint.

    Example:
        >>> class Connected(SessionRunHook):
        ...     def before_run(self, run_context):
        ...         raise AbortedError("the worker has gone")  # the session begins again at the last checkpoint
    """


class NanLossDuringTrainingError(NanLossError):
    """The loss is NaN, as `NanTensorHook` found.

    Example:
        >>> str(NanLossDuringTrainingError("'loss' is NaN"))
        "'loss' is NaN"
    """


for _error in (OutOfRangeError, AbortedError, NanLossDuringTrainingError):
    _error.__module__ = "aspecthook.training.session"

# The errors that end the run as if a hook had requested it.
QUIET: tuple[type[Exception], ...] = (StopIteration, OutOfRangeError)


# On the stages of a runner

# By mode, the stages for the run, the loop over its epochs, a pass over the data, and a step.
STAGES: Final = {
    "train": {"run": "run", "loop": "train_loop", "epoch": "train_epoch", "step": "train_iter"},
    "val": {"run": "val_loop", "loop": "val_epoch", "epoch": "val_epoch", "step": "val_iter"},
    "predict": {"run": "predict_loop", "loop": "predict_epoch", "epoch": "predict_epoch", "step": "predict_iter"},
}
_NO_VALUES: Final = SessionRunValues()


@final
class SessionState:
    """The state that the session hooks of a runner share in one mode: the session, and the step."""

    context: SessionRunContext  # of the step under way

    def __init__(self, mode: str) -> None:
        self.training = mode == "train"
        self.reader = Reader(training=self.training)
        self.session: Session | None = None
        self.creating = False  # whether `after_create_session` of a hook is under way, whose errors are never quiet
        self.quiet: BaseException | None = None  # the error that has ended the loop quietly
        self.original_args = SessionRunArgs()  # the fetches and feeds of the caller of the steps
        # The step under way:
        self.call: Call | None = None  # of the stage
        self.fetches: dict[int, Nested] = {}  # by the `id` of the hook
        self.feeders: dict[object, str] = {}  # by the entry of the batch: the name of the hook that feeds it
        self.values: dict[int, SessionRunValues] | None = None  # by the `id` of the hook; None until they are read

    # The step. These are called for each hook at each step, so work that is the same for all is done once.

    def begin_step(self, call: Call, run: Runner) -> SessionRunContext:
        """Begin a step, with the first hook that is called in it, and return its context."""
        self.call, self.values, self.fetches, self.feeders = call, None, {}, {}
        self.context = SessionRunContext(self.original_args, self.opened(run))
        self.reader.begin_step()
        return self.context

    def take_request(self, hook: SessionRunHook, who: str, answer: object, batch: Nested, run: Runner) -> Args | None:
        """Record the fetches that `before_run` of a hook returned, and return the answer for the stage."""
        if type(answer) is not SessionRunArgs:
            returned = f"before_run of {who} returned {described(answer)}"
            raise HookAnswerError(f"{returned}; return SessionRunArgs(...), or None")
        fetches, feed = answer
        if fetches is not None:
            if type(fetches) is not str or fetches not in self.reader.wanted:  # often another hook wants it already
                self.reader.want(self.reader.check(fetches, run, who), run)
            self.fetches[id(hook)] = fetches
        if not feed:
            return None
        return Args(batch=fed(batch, run.backend.mover(run.model)(feed), self.feeders, who))

    def values_of(self, hook: SessionRunHook, run: Runner) -> SessionRunValues | None:
        """Return the values that a hook has fetched; None if the step was skipped, or an error has ended the run."""
        if self.values is None:
            if self.quiet is not None or (self.training and run.progress.iter <= run.iter):
                return None
            self.values = {}
            if self.fetches:
                # TensorFlow reads the number of the step before the step, which `run.step` still is.
                read = self.reader.read(self.reader.wanted, run, run.step)
                for key, fetches in self.fetches.items():
                    # Most hooks fetch one name, and need no walk through nested names.
                    is_name = type(fetches) is str
                    found = read[fetches] if is_name else mapped(fetches, read.__getitem__, "the step")
                    self.values[key] = SessionRunValues(found)
        return self.values.get(id(hook), _NO_VALUES)

    # The session

    def opened(self, run: Runner) -> Session:
        """Return the session, which the first hook that needs it opens."""
        if self.session is None:
            self.session = Session(run, self.reader)
        return self.session

    def end_quietly(self, run: Runner, error: BaseException) -> None:
        """End the loop as if a hook had requested it."""
        run.logger.info("the run ends: %s %s", type(error).__name__, error)
        self.quiet, self.values = error, None
        run.request_stop()

    def close(self) -> None:
        """End the session, and remove its hooks from stages and layers."""
        if self.call is not None:  # the call and the context keep the runner alive
            self.call = None
            del self.context
        self.quiet, self.creating = None, False
        self.reader.close()
        if self.session is not None:
            self.session.close()
            self.session = None


_states: WeakKeyDictionary[Runner, dict[str, SessionState]] = WeakKeyDictionary()


def session_state(run: Runner, mode: str = "train") -> SessionState:
    """Return the state that the session hooks of a runner share in training, validation or prediction."""
    return _states.setdefault(run, {}).setdefault(mode, SessionState(mode))


# The dialect


def _begin(_: SessionState, __: SessionRunHook, method: Method) -> Method:
    def begin() -> None:
        method()

    return begin


def _create(state: SessionState, _: SessionRunHook, method: Method) -> Method:
    def create(runner: Runner) -> None:
        session = state.opened(runner)
        state.creating = True
        method(session, session)
        state.creating = False

    return create


def _end(state: SessionState, _: SessionRunHook, method: Method) -> Method:
    def end(runner: Runner) -> None:
        method(state.opened(runner))

    return end


def _before_run(state: SessionState, hook: SessionRunHook, method: Method) -> Method:
    who = "the caller of the step" if isinstance(hook, Caller) else f"the session hook {type(hook).__name__}"

    def before_run(call: Call, runner: Runner, batch: Nested) -> Args | None:
        answer = method(state.context if state.call is call else state.begin_step(call, runner))
        return None if answer is None else state.take_request(hook, who, answer, batch, runner)

    return before_run


def _after_run(state: SessionState, hook: SessionRunHook, method: Method) -> Method:
    def after_run(call: Call, runner: Runner) -> None:
        context = state.context if state.call is call else state.begin_step(call, runner)
        values = state.values_of(hook, runner)
        if values is None:
            return
        try:
            method(context, values)
        except QUIET as error:
            state.end_quietly(runner, error)
        if context.stop_requested:  # not at once: if the session is lost in this step, the request is lost with it
            runner.after_stage(runner.request_stop)

    return after_run


# By method: the stage and the kind of the hook that calls it, and the function that creates that hook.
_TABLE: Final[dict[str, tuple[str, Kind, Callable[[SessionState, SessionRunHook, Method], Method]]]] = {
    "begin": ("run", "pre", _begin),
    "after_create_session": ("loop", "pre", _create),
    "before_run": ("step", "pre", _before_run),
    "after_run": ("step", "post", _after_run),
    "end": ("run", "post", _end),
}
_DIALECT: Final = Dialect(
    "the session hook",
    SessionRunHook,
    [*_TABLE],
    looks_like="(before|after)_.*",
)


def bindings(hook: SessionRunHook, run: Runner, mode: str = "train") -> list[Binding]:
    """Return the bindings of a session-run hook."""
    _DIALECT.check(hook)
    state, stages = session_state(run, mode), STAGES[mode]
    called = _DIALECT.methods(hook)
    if "before_run" in called:  # it may have called request_stop
        called.setdefault("after_run", SessionRunHook().after_run)
    rows = [(*_TABLE[name], method) for name, method in called.items()]
    found = [Binding(stages[stage], kind, adapt(state, hook, method)) for stage, kind, adapt, method in rows]

    def end_quietly(exc: BaseException, runner: Runner) -> Return[None] | None:
        if state.creating or not isinstance(exc, QUIET):
            return None
        state.end_quietly(runner, exc)
        return Return(None)

    found += [Binding(stage, "exception", end_quietly) for name, stage in stages.items() if name != "run"]
    return [*found, Binding(stages["run"], "always", state.close)]
