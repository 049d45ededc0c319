"""Clones of hooks and of a target, which do what these do and note what happens to them as steps of a trace."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from types import CoroutineType, FunctionType, MethodType
from typing import Any, cast, final

from aspecthook._core.law.asks import Asks
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.guard import guard_for
from aspecthook._core.law.hook import Hook, Predicate
from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Signature
from aspecthook._core.mount.point import MountPoint

from ._steps import TARGET, Proceeding, Step, Trace
from ._streams import AsyncStream, Fail, Note, NotedAsyncStream, NotedStream, noted

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def mapped(chain: Chain, change: Callable[[Hook], Hook]) -> Chain:
    """Return a chain of other hooks, each in the place of its own."""
    made = Chain(())
    for kind in KINDS:
        setattr(made, kind, tuple([change(hook) for hook in getattr(chain, kind)]))
    return made


def recording_clone(hook: Hook, signature: Signature, trace: Trace, *, counts: bool = True) -> Hook:
    """Make a hook that does what this one does, and notes it."""
    clone = copy.copy(hook)
    if not counts and (hook.conditions.times or hook.conditions.every):
        clone.guard = guard_for(hook.conditions._replace(times=None, every=None), clone)
    style = signature.style
    words, shown = words_of(hook.asks, signature.names), labels(hook, signature.names)
    is_python = isinstance(hook.function, (FunctionType, MethodType))

    def call(step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if hook.proceeds:
            args, kwargs = with_proceed(words, args, kwargs, lambda proceed: _recording_proceed(proceed, step, style))
        try:
            return hook.function(*args, **kwargs)
        except TypeError as error:
            began = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            step._is_unfit = is_python and not began
            raise

    clone.function = _WRAPPERS[hook.style](call, _begins(hook, shown, trace, trace.steps), _finish_of(hook, style))
    if hook.when is not None:
        when, asks, awaits = hook.when
        ask = _begins(hook, words_of(asks, signature.names), trace, trace._asked)
        wrapper = _async if awaits else _plain
        finish = _keep if awaits or style not in _ASYNC else _watched
        clone.when = Predicate(wrapper(lambda _step, args, kwargs: when(*args, **kwargs), ask, finish), asks, awaits)
    clone.ref = clone.inner = None  # it is kept for the length of the call
    clone.reshape()
    return clone


def _begins(hook: Hook, words: list[str], trace: Trace, steps: list[Step]) -> Begin:
    """Return what adds a step for a hook, or for its predicate, to the steps of that sort."""

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        step = Step(hook.kind, hook.name, given_of(words, args, kwargs), trace.steps)
        steps.append(step)
        return step

    return begin


def _finish_of(hook: Hook, style: str) -> Finish:
    """Return what is done with the answer of a hook."""
    if hook.kind == "around" and hook.style == "function" and "generator" in style:
        return _noted_answer
    if hook.kind == "around" and hook.style == "coroutine":
        return _watched_if_new
    awaits = style in _ASYNC if hook.style == "function" else hook.style == "generator" and style == "coroutine"
    return _watched if awaits else _keep


def words_of(asks: Asks, names: tuple[str, ...]) -> list[str]:
    """Return what is passed by position, by name; of an argument's attribute, the name that follows the dot."""
    passed = [what for how, what in asks if not how]
    return [names[what] if isinstance(what, int) else str(what).lstrip(".:?") or names[0] for what in passed]


def labels(hook: Hook, names: tuple[str, ...]) -> list[str]:
    """Return the names of what a hook is given by position, as its own parameters are called.

    So a trace shows when an argument has come to the wrong parameter. Parameters that may have any name are called as
    what they ask for: those that are positional-only, and the `self` of a hook that is a method of the target's class.
    """
    words = words_of(hook.asks, names)
    inner: Any = hook.function.__func__ if isinstance(hook.function, MethodType) else hook.function
    if type(inner) is not FunctionType or inner.__dict__.keys() & {"__wrapped__", "__signature__"}:
        return words
    code, bound = inner.__code__, inner is not hook.function
    own = code.co_varnames[bound : code.co_argcount]
    free = max(code.co_posonlyargcount - bound, 0) or int(own[:1] != () and own[0] not in names)
    attributes = [str(what).startswith(".") for how, what in hook.asks if not how]
    return [
        own[place] if free <= place < len(own) and not attributes[place] else word for place, word in enumerate(words)
    ]


def given_of(words: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, object]:
    """Return what a hook was given by name, without `proceed`."""
    values: dict[str, object] = dict(zip(words, args, strict=False))
    if len(args) > len(words):
        values["args"] = args[len(words) :]
    return {word: value for word, value in (values | kwargs).items() if word != "proceed"}


def with_proceed(words: list[str], args: tuple[Any, ...], kwargs: dict[str, Any], wrap: Callable[[Any], Any]) -> Any:
    """Return the arguments of an around hook with another `proceed`."""
    if "proceed" in kwargs:
        return args, {**kwargs, "proceed": wrap(kwargs["proceed"])}
    place = words.index("proceed")
    return (*args[:place], wrap(args[place]), *args[place + 1 :]), kwargs


def _recording_proceed(proceed: Callable[..., Any], step: Step, style: str) -> Callable[..., Any]:
    """Return a `proceed` that records each time that the hook calls it."""

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proceeding:
        proceeding = Proceeding(args, kwargs)
        step._events.append(proceeding)
        return proceeding

    def call(_: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return proceed(*args, **kwargs)

    def finish(made: Any, proceeding: Any) -> Any:
        made = noted(made, partial(step._note, source=proceeding)) if "generator" in style else made
        return _keep(made, proceeding)

    return _WRAPPERS["coroutine" if style == "coroutine" else "function"](call, begin, finish)


# Begins a step, or a call of `proceed`, and returns where to record what comes of it.
Begin = Callable[[tuple[Any, ...], dict[str, Any]], "Step | Proceeding"]
# Any: makes the call itself, which may return anything, with what was begun.
Make = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
# Any: records an answer, and returns what stands in its place.
Finish = Callable[[Any, Any], Any]
_ASYNC = ("coroutine", "async generator")


def _plain(call: Make, begin: Begin, finish: Finish) -> Callable[..., Any]:
    def plain(*args: Any, **kwargs: Any) -> Any:
        step = begin(args, kwargs)
        with step:
            return finish(call(step, args, kwargs), step)

    return plain


def _async(call: Make, begin: Begin, finish: Finish) -> Callable[..., Any]:
    async def later(*args: Any, **kwargs: Any) -> Any:
        step = begin(args, kwargs)
        with step:
            return finish(await call(step, args, kwargs), step)

    return later


def _generator(call: Make, begin: Begin, finish: Finish) -> Callable[..., Any]:
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        step = cast("Step", begin(args, kwargs))
        with step:
            return finish((yield from NotedStream(call(step, args, kwargs), step._note)), step)

    return generator


def _async_generator(call: Make, begin: Begin, _finish: Finish) -> Callable[..., Any]:
    def stream(*args: Any, **kwargs: Any) -> NotedAsyncStream:
        def opened() -> tuple[AsyncStream, Note, Fail]:
            step = cast("Step", begin(args, kwargs))
            return call(step, args, kwargs), step._note, step._fail

        return NotedAsyncStream(opened)

    return stream


_WRAPPERS: dict[str, Callable[[Make, Begin, Finish], Callable[..., Any]]] = {
    "function": _plain,
    "coroutine": _async,
    "generator": _generator,
    "async generator": _async_generator,
}


def _keep(answer: Any, step: Step | Proceeding) -> Any:
    """Record an answer as it is."""
    step.answer = answer
    return answer


def _noted_answer(answer: Any, step: Step) -> Any:
    """Record an answer, and how it is used if it is a stream."""
    return noted(_keep(answer, step), step._note, step._fail)


def _watched(answer: Any, step: Step) -> Any:
    """Record an answer, and what it resolves to if it is an awaitable: that is the answer then."""
    step.answer = answer
    kind: type[Any] = type_of(answer)
    if kind is not CoroutineType and not hasattr(kind, "__await__"):
        return answer
    step._is_pending = True
    return _settled(answer, step) if kind is CoroutineType else _Watched(answer, step)


def _watched_if_new(answer: Any, step: Step) -> Any:
    """Record what a coroutine resolves to that an async around hook answers, unless `proceed()` returned it."""
    known = any(answer is one.answer for one in step._events)
    return _keep(answer, step) if known or type(answer) is not CoroutineType else _watched(answer, step)


async def _settled(answer: Awaitable[Any], step: Step) -> Any:
    step._is_pending = False
    with step:
        step.answer = await answer
    return step.answer


@final
class _Watched:
    """An awaitable, such as a future, that an answer of a sync hook is."""

    def __init__(self, answer: Awaitable[Any], step: Step) -> None:
        self.answer = answer
        self.step = step

    def __await__(self) -> Generator[Any, Any, Any]:
        return _settled(self.answer, self.step).__await__()


def recording_target(function: Callable[..., Any], mount: MountPoint, trace: Trace) -> Callable[..., Any]:
    signature = mount.site().signature
    named = signature.names[: signature.positional]

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        given: dict[str, object] = dict(zip(named, args, strict=False))
        if len(args) > len(named):
            given[signature.names[cast("int", signature.varargs)]] = args[len(named) :]
        step = Step(TARGET, mount.function.__name__, given | kwargs, trace.steps)
        trace.steps.append(step)
        return step

    def call(_step: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)

    return _WRAPPERS[signature.style](call, begin, _keep)
