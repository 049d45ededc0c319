"""Clones of hooks and of a target, which do what these do and note what happens to them as steps of a trace."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from types import CoroutineType, FunctionType, MethodType
from typing import Any, cast, final

from aspecthook._core.law.asks import Asks
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.guard import Guard
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Signature
from aspecthook._core.mount.point import MountPoint

from ._steps import TARGET, Proceeding, Step, Trace
from ._streams import Fail, Note, Resumption, anoted, is_iterator, is_own, noted, noting_stream

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def mapped(chain: Chain, change: Callable[[Hook], Hook]) -> Chain:
    """Return a chain of other hooks, each in the place of its own."""
    made = Chain(())
    for kind in KINDS:
        setattr(made, kind, tuple([change(hook) for hook in getattr(chain, kind)]))
    return made


def noting(hook: Hook, signature: Signature, trace: Trace, *, counts: bool = True) -> Hook:
    """Make a hook that does what this one does, and notes it."""
    clone = copy.copy(hook)
    if not counts and hook.guard is not None and (hook.guard.times or hook.guard.every):
        clone.guard = None if hook.guard.reentrant else Guard(None, None, False, clone)
    words, shown = words_of(hook.asks, signature.names), labels(hook, signature.names)
    is_async = signature.style in ("coroutine", "async generator")

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        step = Step(hook.kind, hook.name, given_of(shown, args, kwargs), len(trace.steps))
        trace.steps.append(step)
        return step

    def call(step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if hook.proceeds:
            args, kwargs = with_proceed(
                words, args, kwargs, lambda proceed: _noting_proceed(proceed, step, trace, style)
            )
        try:
            return hook.function(*args, **kwargs)
        except TypeError as error:
            began = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            step._is_unfit = is_python and not began
            raise

    is_python = isinstance(hook.function, (FunctionType, MethodType))
    style = signature.style
    if hook.kind == "around" and hook.flavour == "plain" and "generator" in style:
        clone.function = _giving_stream(call, begin, trace)
    elif hook.flavour == "plain" and is_async:
        clone.function = _plain_awaited(call, begin)
    elif hook.kind == "around" and hook.flavour == "async":
        clone.function = _async(call, begin, _async_around)
    elif hook.flavour in ("generator", "async generator"):
        clone.function = _STREAMS[hook.flavour](call, begin, trace, waits=style == "coroutine")
    else:
        clone.function = _CALLS[hook.flavour](call, begin)
    if hook.when is not None:
        assert hook.when_asks is not None
        asked, when = words_of(hook.when_asks, signature.names), hook.when

        def ask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
            step = Step(hook.kind, hook.name, given_of(asked, args, kwargs), len(trace.steps))
            trace._asked.append(step)
            return step

        recorder = _async if hook.when_awaits else _plain_awaited if is_async else _plain
        clone.when = recorder(lambda _step, args, kwargs: when(*args, **kwargs), ask)
    clone.ref = clone.inner = None  # it is kept for the length of the call
    clone.reshape()
    return clone


def words_of(asks: Asks, names: tuple[str, ...]) -> list[str]:
    """Return the names of what is passed by position."""
    return [
        names[what] if isinstance(what, int) else str(what).lstrip(".:?") or names[0] for how, what in asks if not how
    ]


def labels(hook: Hook, names: tuple[str, ...]) -> list[str]:
    """Return the names of what a hook is given by position: those of its own parameters, whatever was meant.

    Where the hook names them as it likes, and behind the end of its parameters, it is what they are asked for.
    """
    words = words_of(hook.asks, names)
    inner: Any = hook.function.__func__ if isinstance(hook.function, MethodType) else hook.function
    if type(inner) is not FunctionType or inner.__dict__.keys() & {"__wrapped__", "__signature__"}:
        return words
    code = inner.__code__
    bound = inner is not hook.function
    free = max(code.co_posonlyargcount - bound, 0)
    own = code.co_varnames[bound : code.co_argcount]
    given = [what for how, what in hook.asks if not how]
    # A positional-only parameter, and the `self` of a hook that is a method of the target's class, have any name.
    return [
        own[place]
        if place < len(own)
        and (place >= max(free, 1) or (not free and own[place] in names))
        and not str(given[place]).startswith(".")
        else word
        for place, word in enumerate(words)
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


def _noting_proceed(proceed: Callable[..., Any], step: Step, trace: Trace, style: str) -> Callable[..., Any]:
    """Return a `proceed` that records each time that the hook calls it."""

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proceeding:
        noted = Proceeding(args, kwargs)
        step._events.append(noted)
        return noted

    def call(noted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = proceed(*args, **kwargs)
        return noting_stream(made, _noting_events(step, trace, noted)) if "generator" in style else made

    if style == "coroutine":

        async def later(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return await proceed(*args, **kwargs)

        return _async(later, begin)
    return _plain(call, begin)


def _noting_events(step: Step, trace: Trace, source: Proceeding | None = None) -> Note:
    def note(how: str, value: object) -> Resumption:
        own = next((one for one in reversed(step._events) if is_own(one)), None)
        if source is not None and isinstance(own, Resumption) and own.came in ("end", "raised"):
            trace._is_clear = False  # whenever the garbage collector, or the event loop, closes what was left open
        resumed = Resumption(how, value, trace.steps, source)
        step._events.append(resumed)
        return resumed

    return note


# Begins a step, or a call of `proceed`, and returns where to record what comes of it.
Begin = Callable[[tuple[Any, ...], dict[str, Any]], "Step | Proceeding"]
# Any: makes the call itself, which may return anything, with what was begun.
Make = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def _plain(call: Make, begin: Begin) -> Callable[..., Any]:
    def plain(*args: Any, **kwargs: Any) -> Any:
        step = begin(args, kwargs)
        try:
            step.answer = call(step, args, kwargs)
        except BaseException as error:
            step._fail(error)
            raise
        return step.answer

    return plain


def _plain_awaited(call: Make, begin: Begin) -> Callable[..., Any]:
    """Return a function that records the answer; if that is an awaitable, what it resolves to."""

    def plain(*args: Any, **kwargs: Any) -> Any:
        step = cast("Step", begin(args, kwargs))
        try:
            answer = call(step, args, kwargs)
        except BaseException as error:
            step._fail(error)
            raise
        return _watched(answer, step)

    return plain


def _async(call: Make, begin: Begin, watch: Callable[[Any, Any], Any] | None = None) -> Callable[..., Any]:
    async def later(*args: Any, **kwargs: Any) -> Any:
        step = begin(args, kwargs)
        try:
            answer: Any = await call(step, args, kwargs)
        except BaseException as error:
            step._fail(error)
            raise
        step.answer = answer
        return answer if watch is None else watch(answer, step)

    return later


def _async_around(answer: Any, step: Step) -> Any:
    """Record what a coroutine resolves to that an async around hook answers, unless `proceed()` returned it."""
    known = any(answer is one.answer for one in step._events)
    return answer if known or type(answer) is not CoroutineType else _watched(answer, step)


def _watched(answer: Any, step: Step) -> Any:
    """Record what an awaitable answer resolves to, which is the answer then."""
    step.answer = answer
    kind: type[Any] = type_of(answer)
    if kind is CoroutineType:
        step._is_pending = True
        return _settled(answer, step)
    if hasattr(kind, "__await__"):
        step._is_pending = True
        return _Watched(answer, step)
    return answer


async def _settled(answer: Awaitable[Any], step: Step) -> Any:
    step._is_pending = False
    try:
        step.answer = await answer
    except BaseException as error:
        step._fail(error)
        raise
    return step.answer


@final
class _Watched:
    """An awaitable, such as a future, that an answer of a sync hook is."""

    def __init__(self, answer: Awaitable[Any], step: Step) -> None:
        self.answer = answer
        self.step = step

    def __await__(self) -> Generator[Any, Any, Any]:
        return _settled(self.answer, self.step).__await__()


def _giving_stream(call: Make, begin: Begin, trace: Trace) -> Callable[..., Any]:
    """Return a function that records how the stream is used which an around hook answers."""

    def plain(*args: Any, **kwargs: Any) -> Any:
        step = cast("Step", begin(args, kwargs))
        try:
            step.answer = call(step, args, kwargs)
        except BaseException as error:
            step._fail(error)
            raise
        if is_iterator(step.answer):
            trace._is_clear = False  # nothing can be sent to it, and so it is left as it is
        return noting_stream(step.answer, _noting_events(step, trace), step._fail)

    return plain


def _generator(call: Make, begin: Begin, trace: Trace, *, waits: bool) -> Callable[..., Any]:
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        step = cast("Step", begin(args, kwargs))
        try:
            answer = yield from noted(call(step, args, kwargs), _noting_events(step, trace))
        except BaseException as error:
            step._fail(error)
            raise
        step.answer = answer
        return _watched(answer, step) if waits else answer

    return generator


def _async_generator(call: Make, begin: Begin, trace: Trace, **_options: bool) -> Callable[..., Any]:
    def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        def open_stream() -> tuple[AsyncGenerator[Any, Any], Note, Fail]:
            step = cast("Step", begin(args, kwargs))
            return call(step, args, kwargs), _noting_events(step, trace), step._fail

        return anoted(open_stream)

    return stream


_CALLS: dict[str, Callable[[Make, Begin], Callable[..., Any]]] = {"plain": _plain, "async": _async}
_STREAMS: dict[str, Callable[..., Callable[..., Any]]] = {
    "generator": _generator,
    "async generator": _async_generator,
}


def noting_target(function: Callable[..., Any], mount: MountPoint, trace: Trace) -> Callable[..., Any]:
    signature = mount.site().signature
    flavour = {"function": "plain", "coroutine": "async"}.get(signature.style, signature.style)
    named = signature.names[: signature.positional]

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        given: dict[str, object] = dict(zip(named, args, strict=False))
        if len(args) > len(named):
            given[signature.names[cast("int", signature.varargs)]] = args[len(named) :]
        step = Step(TARGET, mount.function.__name__, given | kwargs)
        trace.steps.append(step)
        return step

    def call(_step: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)

    if "generator" in flavour:
        return _STREAMS[flavour](call, begin, trace, waits=False)
    return _CALLS[flavour](call, begin)
