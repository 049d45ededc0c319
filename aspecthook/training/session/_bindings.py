"""Session-run hooks as hooks on the stages of a runner.

==================== ================================================================================
`begin`              before ``run``
after_create_session around ``run``: before what it does, and again when a lost session is made anew
before_run           before ``train_iter``; what it feeds replaces the batch
after_run            after ``train_iter``
`end`                after ``run``
==================== ================================================================================

Evaluation and prediction have their own stages in the place of these two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from aspecthook._core.law.answers import Args, Return
from aspecthook._errors import HookSignatureError, HookTypeError, brief, nearest
from aspecthook.training.loop._stages import Stage
from aspecthook.training.loop._systems import Row

from ._errors import QUIET
from ._protocol import METHODS, SessionRunHook
from ._running import Running, running_of

if TYPE_CHECKING:
    from aspecthook._core.law.call import Call
    from aspecthook.training.loop._runner import Runner

# The stages that stand for a run, a pass over the data and a step.
WAYS: Final[dict[str, tuple[str, str, str]]] = {
    "train": ("run", "train_epoch", "train_iter"),
    "val": ("val_loop", "val_epoch", "val_iter"),
    "predict": ("predict_loop", "predict_epoch", "predict_iter"),
}
_LISTENER = ("before_save", "after_save")  # one object may be a hook and listen to checkpoints


def rows(hook: Any, runner: Runner, way: str = "train") -> list[Row]:
    """Give what becomes of a session-run hook.

    Raises:
        HookSignatureError: A method is named like one of the protocol, and is none.
    """
    check_names(hook)
    running = running_of(runner, way)
    run, loop, step = WAYS[way]
    made = [
        _row(hook, "begin", run, "pre", _begins(hook)),
        Row(Stage(run, "around"), _creates(hook, running)),
        _row(hook, "before_run", step, "pre", _before(hook, running)),
        _row(hook, "end", run, "post", _ends(hook, running)),
        Row(Stage(run, "always"), running.close),
    ]
    if overrides(hook, "before_run") or overrides(hook, "after_run"):
        made.append(Row(Stage(step, "post"), _after(hook, running)))
    quiet = _quiet(running)
    made += [Row(Stage(stage, "exception"), quiet) for stage in (step, loop)]
    return [row for row in made if row is not None]


def several(hooks: Iterable[Any] | None, who: str) -> list[Any]:
    """Give the hooks in a list.

    Raises:
        HookTypeError: One was given instead of a list.
    """
    if hooks is None or hasattr(hooks, "__iter__"):
        return [] if hooks is None else list(hooks)
    raise HookTypeError(f"{who}: hooks={brief(hooks)} is no list of hooks; give [{type(hooks).__name__}(...)]")


def overrides(hook: object, name: str) -> bool:
    """Say whether a hook has a method that does anything."""
    return callable(getattr(hook, name, None)) and getattr(type(hook), name, None) is not getattr(SessionRunHook, name)


def check_names(hook: object) -> None:
    """Refuse a hook with a method that looks like one of the protocol and is none: it would never be called."""
    for name in dir(type(hook)):
        like = name.startswith(("before_", "after_")) and name not in (*METHODS, *_LISTENER)
        if like and callable(getattr(hook, name, None)):
            raise HookSignatureError(
                f"the session hook {type(hook).__name__} has a method {name!r}, which is none of {', '.join(METHODS)} "
                f"and would never be called{nearest(name, list(METHODS))}"
            )


def _row(hook: object, name: str, stage: str, kind: Any, function: Callable[..., Any]) -> Row | None:
    return Row(Stage(stage, kind), function) if overrides(hook, name) else None


def _begins(hook: Any) -> Callable[..., None]:
    def begin() -> None:
        hook.begin()

    return begin


def _creates(hook: Any, running: Running) -> Callable[..., Any]:
    told = overrides(hook, "after_create_session")

    def inside(proceed: Callable[[], Any]) -> Any:
        if told:
            hook.after_create_session(running.session, running.coordinator)
        return proceed()

    def create(runner: Runner, proceed: Callable[[], Any]) -> Any:
        # The outermost of these hooks is the one that makes sessions; the others are told of each.
        return inside(proceed) if running.entered else running.go(runner, lambda: inside(proceed))

    setattr(create, CREATES, running)
    return create


# Marks these hooks, for who drives a run from outside.
CREATES: Final = "creates_session"


def _before(hook: Any, running: Running) -> Callable[..., Args | None]:
    key, who = id(hook), _who(hook)

    def before_run(call: Call, runner: Runner, batch: Any) -> Args | None:
        step = running.step_of(call, runner)
        answer = hook.before_run(step.context)
        return None if answer is None else step.take(key, who, answer, batch, runner)

    return before_run


def _after(hook: Any, running: Running) -> Callable[..., None]:
    told, key, who = overrides(hook, "after_run"), id(hook), _who(hook)

    def after_run(call: Call, runner: Runner) -> None:
        step = running.step_of(call, runner)
        if step.over or not step.was_made(runner):
            return
        if told:
            try:
                hook.after_run(step.context, step.values(key, who, runner))
            except QUIET as error:
                step.over = True
                running.end_quietly(runner, error)
        if step.context.stop_requested:
            step.stop(runner)

    return after_run


def _who(hook: object) -> str:
    return f"the session hook {type(hook).__name__}"


def _ends(hook: Any, running: Running) -> Callable[..., None]:
    def end() -> None:
        hook.end(running.session)

    return end


def _quiet(running: Running) -> Callable[..., Return[None] | None]:
    def end_quietly(exc: BaseException, runner: Runner) -> Return[None] | None:
        if not isinstance(exc, QUIET):
            return None
        running.end_quietly(runner, exc)
        return Return(None)

    return end_quietly
