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

from collections.abc import Callable, Iterable
from typing import Any, Final

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.call import Call
from aspecthook._errors import HookTypeError, brief
from aspecthook.training.loop._dialect import Binding, Dialect
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._stages import Stage

from ._errors import QUIET
from ._protocol import METHODS, SessionRunHook
from ._state import NO_VALUES, SessionState, session_state

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


# The attribute of an around hook that has its function that calls `after_create_session`: a session that pauses calls
# that function itself, once for each new session, and leaves the hook out.
CREATES: Final = "creates_session"


def _creates(method: Callable[..., Any] | None, state: SessionState) -> Callable[..., Any]:
    def create() -> None:
        if method is not None:
            method(state.session, state.session)

    def around(runner: Run, proceed: Callable[[], Any]) -> Any:
        def inside() -> Any:
            create()
            return proceed()

        # The outermost of these hooks opens the sessions.
        return inside() if state.entered else state.in_session(runner, inside)

    setattr(around, CREATES, create)
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
