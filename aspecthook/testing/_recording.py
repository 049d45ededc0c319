"""How a call is recorded: its chain runs on clones of the hooks, and each adds a step to a trace when it begins."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from types import FunctionType, MethodType
from typing import Any, cast

from ._mount import Asks, Chain, Hook, MountPoint, mapped, separate_call, stand_in, start, under_lock
from ._steps import TARGET, Step, Trace

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Begins a step with the arguments of a hook, or of the target.
Begin = Callable[[tuple[Any, ...], dict[str, Any]], Step]
_ASYNC = ("coroutine", "async generator")


class Recorder:
    """Records one call: which hooks ran, what each was given, and what came of it."""

    def __init__(self, mount: MountPoint, trace: Trace) -> None:
        self.mount = mount
        self.trace = trace
        self.signature = mount.site().signature

    @under_lock
    def call_of(self, chain: Chain | None) -> Callable[..., Any]:
        """Return what makes the call with the hooks that act now, or with those of a chain, which count no runs."""
        self.trace._chain = self.mount.chain() if chain is None else chain
        clones = mapped(self.trace._chain, lambda hook: self.hook(hook, counts=chain is None))
        return separate_call(self.mount, clones, self.target)

    def hook(self, hook: Hook, *, counts: bool) -> Hook:
        """Return a hook that does what this one does, in a step."""
        words = labels(hook, self.signature.names)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
            return self.begin(hook.kind, hook.name, given_of(words, args, kwargs))

        return stand_in(hook, _WRAPPERS[hook.style](self, hook, hook.function, begin), counts=counts)

    def target(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does what the target does, in a step."""
        signature, name = self.signature, self.mount.function.__name__
        named = signature.names[: signature.positional]

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
            given: dict[str, object] = dict(zip(named, args, strict=False))
            if len(args) > len(named):
                given[signature.names[cast("int", signature.varargs)]] = args[len(named) :]
            return self.begin(TARGET, name, given | kwargs)

        return _WRAPPERS[signature.style](self, None, function, begin)

    # What follows is what the oracle of our own tests, which records more, overrides.

    def begin(self, kind: str, name: str, given: dict[str, object]) -> Step:
        """Add a step to the trace."""
        step = Step(kind, name, given)
        self.trace.steps.append(step)
        return step

    # Any: what hooks and targets take and return.
    def call(
        self, _step: Step, _hook: Hook | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the function of a hook, or the target, in the step that has begun."""
        return function(*args, **kwargs)

    def answered(self, step: Step, hook: Hook | None) -> Any:
        """Return what was answered; of an awaitable, one that records what it resolves to."""
        if hook is None or self.signature.style not in _ASYNC or (hook.style == "coroutine" and hook.kind != "around"):
            return step.answer
        return _settled(step) if hasattr(type(step.answer), "__await__") else step.answer


async def _settled(step: Step) -> Any:
    with step:
        step.answer = await cast("Awaitable[Any]", step.answer)
    return step.answer


def _plain(recorder: Recorder, hook: Hook | None, function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def plain(*args: Any, **kwargs: Any) -> Any:
        step = begin(args, kwargs)
        with step:
            step.answer = recorder.call(step, hook, function, args, kwargs)
        return recorder.answered(step, hook)

    return plain


def _async(recorder: Recorder, hook: Hook | None, function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def later(*args: Any, **kwargs: Any) -> Any:
        step = begin(args, kwargs)
        with step:
            step.answer = await recorder.call(step, hook, function, args, kwargs)
        return recorder.answered(step, hook)

    return later


def _generator(recorder: Recorder, hook: Hook | None, function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        step = begin(args, kwargs)
        with step:
            step.answer = yield from recorder.call(step, hook, function, args, kwargs)
        return recorder.answered(step, hook)

    return generator


def _async_generator(
    recorder: Recorder, hook: Hook | None, function: Callable[..., Any], begin: Begin
) -> Callable[..., Any]:
    async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        step = begin(args, kwargs)
        with step:
            made = recorder.call(step, hook, function, args, kwargs)
            coming = start(made)
            while True:
                try:
                    item = await coming
                except StopAsyncIteration:
                    return
                try:
                    sent = yield item
                except GeneratorExit:
                    await made.aclose()
                    raise
                except BaseException as error:
                    coming = made.athrow(error)
                else:
                    coming = made.asend(sent)

    return stream


_WRAPPERS: dict[str, Callable[[Recorder, Hook | None, Callable[..., Any], Begin], Callable[..., Any]]] = {
    "function": _plain,
    "coroutine": _async,
    "generator": _generator,
    "async generator": _async_generator,
}


# What a hook is given, by name


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
