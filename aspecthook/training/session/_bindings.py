"""Session-run hooks as hooks on the stages of a runner.

==================== ================================================================================
`begin`              before ``run``
after_create_session around ``run``: before its body, and again when a lost session is made anew
before_run           before ``train_iter``; what it feeds replaces the batch
after_run            after ``train_iter``
`end`                after ``run``
==================== ================================================================================

In evaluation and prediction their stages take the place of these two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from aspecthook._core.law.answers import Args, Return
from aspecthook._errors import HookTypeError, brief
from aspecthook.training.loop._dialect import Binding, Dialect
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._stages import Stage

from ._errors import QUIET
from ._protocol import METHODS, SessionRunHook
from ._running import Running, running_of

if TYPE_CHECKING:
    from aspecthook._core.law.call import Call

# The stages that stand for a run, a pass over the data and a step.
WAYS: Final[dict[str, tuple[str, str, str]]] = {
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


def bindings(hook: Any, run: Run, way: str = "train") -> list[Binding]:
    """Return what becomes of a session-run hook.

    Raises:
        HookSignatureError: A method is misspelt.
    """
    _DIALECT.check(hook)
    running, called = running_of(run, way), _DIALECT.methods(hook)
    whole, epoch, step = WAYS[way]
    found: list[Binding] = []
    if "begin" in called:
        found.append(Binding(Stage(whole, "pre"), lambda: _ignored(hook.begin())))
    found.append(Binding(Stage(whole, "around"), _creates(called.get("after_create_session"), running)))
    if "before_run" in called:
        found.append(Binding(Stage(step, "pre"), _before(hook, running)))
    if "end" in called:
        found.append(Binding(Stage(whole, "post"), lambda: _ignored(hook.end(running.session))))
    found.append(Binding(Stage(whole, "always"), running.close))
    if "before_run" in called or "after_run" in called:
        found.append(Binding(Stage(step, "post"), _after(hook, called.get("after_run"), running)))
    quiet = _quiet(running)
    return [*found, *(Binding(Stage(stage, "exception"), quiet) for stage in (step, epoch))]


def several(hooks: Iterable[Any] | None, who: str) -> list[Any]:
    """Return the hooks in a list.

    Raises:
        HookTypeError: One was given instead of a list.
    """
    if hooks is None or hasattr(hooks, "__iter__"):
        return [] if hooks is None else list(hooks)
    raise HookTypeError(f"{who}: hooks={brief(hooks)} is not a list of hooks; give [{type(hooks).__name__}(...)]")


def _ignored(_: object) -> None:
    """Drop what a method returns: it is not an answer to the stage."""


# Marks the around hooks that are told of each new session, for a session that its user drives.
CREATES: Final = "creates_session"


def _creates(method: Callable[..., Any] | None, running: Running) -> Callable[..., Any]:
    def inside(proceed: Callable[[], Any]) -> Any:
        if method is not None:
            method(running.session, running.coordinator)
        return proceed()

    def create(runner: Run, proceed: Callable[[], Any]) -> Any:
        # The outermost of these hooks is the one that opens sessions; the others are told of each.
        return inside(proceed) if running.entered else running.go(runner, lambda: inside(proceed))

    setattr(create, CREATES, running)
    return create


def _before(hook: Any, running: Running) -> Callable[..., Args | None]:
    key, who = id(hook), _who(hook)

    def before_run(call: Call, runner: Run, batch: Any) -> Args | None:
        step = running.step_of(call, runner)
        answer = hook.before_run(step.context)
        return None if answer is None else step.take(key, who, answer, batch, runner)

    return before_run


def _after(hook: Any, method: Callable[..., Any] | None, running: Running) -> Callable[..., None]:
    key, who = id(hook), _who(hook)

    def after_run(call: Call, runner: Run) -> None:
        step = running.step_of(call, runner)
        if step.over or not step.was_made(runner):
            return
        if method is not None:
            try:
                method(step.context, step.values(key, who, runner))
            except QUIET as error:
                step.over = True
                running.end_quietly(runner, error)
        if step.context.stop_requested:
            step.stop(runner)

    return after_run


def _who(hook: object) -> str:
    return f"the session hook {type(hook).__name__}"


def _quiet(running: Running) -> Callable[..., Return[None] | None]:
    def end_quietly(exc: BaseException, runner: Run) -> Return[None] | None:
        if not isinstance(exc, QUIET):
            return None
        running.end_quietly(runner, exc)
        return Return(None)

    return end_quietly
