"""How the oracle records a call: as the test kit does, and all that is needed to play the call again.

That is how often an around hook proceeded, and what came of it; what was asked of a stream, and what it yielded,
returned or raised; which `when` was asked. The invariant: all of it is noted in the order in which it happens.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import CoroutineType, FunctionType, MethodType
from typing import Any, cast, final

from aspecthook._core.law.call import Call
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.hook import Hook
from aspecthook.testing._recording import Recorder, given_of, words_of
from aspecthook.testing._steps import Step, Trace

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

NEXT, SEND, THROW, CLOSE, CANCEL = "next", "send", "throw", "close", "cancel"
_PENDING: Any = object()
_ASYNC = ("coroutine", "async generator")


@final
@dataclass(eq=False, slots=True)
class Resumption:
    """One time that a stream was resumed: how, with what, and what came of it."""

    how: str  # what was asked of it
    value: object  # what was sent or thrown
    steps: Sequence[object]  # those of the call
    source: object = None  # the stream, if `proceed` has given it to an around hook; else it is the hook's own
    at: int = field(init=False)  # how many steps had begun before
    until: int = field(init=False)  # how many had begun when something came of it
    came: str = field(init=False, default="")  # "item", "end" or "raised"
    answer: object = field(init=False, default=None)  # the item, or at the end what was returned
    raised: BaseException | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.at = self.until = len(self.steps)

    def give(self, came: str, answer: object = None, raised: BaseException | None = None) -> None:
        """Record what came of it."""
        self.came, self.answer, self.raised = came, answer, raised
        self.until = len(self.steps)

    def stop(self, error: BaseException, fail: Callable[[BaseException], None] | None) -> None:
        """Record that the stream has ended."""
        if isinstance(error, (StopIteration, StopAsyncIteration)):
            self.give("end", getattr(error, "value", None))
            return
        self.give("raised", None, error)
        if fail is not None:
            fail(error)


Note = Callable[[str, object], Resumption]
Fail = Callable[[BaseException], None]


@final
@dataclass(eq=False, slots=True)
class Proceeding:
    """One time that an around hook proceeded: with what, and what came of it."""

    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict[str, object])
    answer: object = field(init=False, default=_PENDING)
    raised: BaseException | None = field(init=False, default=None)

    @property
    def has_ended(self) -> bool:
        """Whether anything has come of it yet."""
        return self.raised is not None or self.answer is not _PENDING


@final
@dataclass(eq=False, repr=False, slots=True)
class NotedStep(Step):
    """A step, and all that happened in it."""

    steps: Sequence[Step] = ()  # those of the call
    at: int = field(init=False)  # how many steps had begun before
    events: list[Proceeding | Resumption] = field(init=False, default_factory=list[Proceeding | Resumption])
    is_unfit: bool = field(init=False, default=False)  # whether it could not be called with what it was given
    is_pending: bool = field(init=False, default=False)  # whether nobody has awaited its answer
    context: BaseException | None = field(init=False, default=None)  # of what it raised, as it raised it
    # What `call` had; it changes until the call has ended.
    call: tuple[object, ...] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.at = len(self.steps)
        call: Any = self.given.get("call")
        if isinstance(call, Call):
            self.call = (tuple(call.arguments.values()), call.result, call.exc)

    def fail(self, error: BaseException) -> None:
        """Record what it raised."""
        self.raised, self.context = error, error.__context__

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.fail(error)

    def note(self, how: str, value: object, source: Proceeding | None = None) -> Resumption:
        """Record that a stream is resumed."""
        resumed = Resumption(how, value, self.steps, source)
        self.events.append(resumed)
        return resumed


@final
@dataclass(eq=False, repr=False, slots=True)
class NotedTrace(Trace):
    """A traced call, and how its caller has made it."""

    # Any: the steps of the kit, which say more here.
    steps: Any = field(init=False, default_factory=list[NotedStep])
    asked: list[NotedStep] = field(init=False, default_factory=list[NotedStep])  # the predicates `when`
    resumed: list[Resumption] = field(init=False, default_factory=list[Resumption])  # how a stream was read
    beside: NotedTrace | None = field(init=False, default=None)  # another call, which was made at once
    values: tuple[object, ...] | None = field(init=False, default=None)  # of the parameters; None: they do not fit


@final
class NotedRecorder(Recorder):
    """Records one call such that it can be played again."""

    trace: NotedTrace

    def hook(self, hook: Hook, *, counts: bool) -> Hook:
        """Return a hook that does what this one does, in a step; and so does its `when`."""
        clone = super().hook(hook, counts=counts)
        if hook.when is not None:
            clone.when = hook.when._replace(holds=self._when(hook))
        return clone

    def _when(self, hook: Hook) -> Callable[..., object]:
        assert hook.when is not None
        holds, asks, awaits = hook.when
        words = words_of(asks, self.signature.names)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> NotedStep:
            step = NotedStep(hook.kind, hook.name, given_of(words, args, kwargs), self.trace.steps)
            self.trace.asked.append(step)
            return step

        def plain(*args: Any, **kwargs: Any) -> object:
            step = begin(args, kwargs)
            with step:
                step.answer = holds(*args, **kwargs)
            return _watched(step) if self.signature.style in _ASYNC else step.answer

        async def later(*args: Any, **kwargs: Any) -> object:
            step = begin(args, kwargs)
            with step:
                step.answer = await cast("Awaitable[object]", holds(*args, **kwargs))
            return step.answer

        return later if awaits else plain

    def begin(self, kind: str, name: str, given: dict[str, object]) -> NotedStep:
        """Add a step to the trace."""
        step = NotedStep(kind, name, given, self.trace.steps)
        self.trace.steps.append(step)
        return step

    # Any: as in the kit.
    def call(self, step: Any, hook: Hook | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function, and note how it proceeds, and how a stream is used that it returns."""
        if hook is not None and hook.proceeds:
            words = words_of(hook.asks, self.signature.names)
            args, kwargs = with_proceed(words, args, kwargs, partial(self._proceed, step))
        try:
            made = function(*args, **kwargs)
        except TypeError as error:
            began = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            step.is_unfit = hook is not None and isinstance(function, (FunctionType, MethodType)) and not began
            raise
        style = self.signature.style if hook is None else hook.style
        hands_on = hook is not None and hook.kind == "around" and "generator" in self.signature.style
        return noted(made, step.note, step.fail) if "generator" in style or hands_on else made

    def _proceed(self, step: NotedStep, proceed: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `proceed` that records each time that the hook calls it."""

        def plain(*args: Any, **kwargs: Any) -> Any:
            step.events.append(proceeding := Proceeding(args, kwargs))
            try:
                made = proceed(*args, **kwargs)
            except BaseException as error:
                proceeding.raised = error
                raise
            if "generator" in self.signature.style:
                made = noted(made, partial(step.note, source=proceeding))
            proceeding.answer = made
            return made

        async def later(*args: Any, **kwargs: Any) -> Any:
            step.events.append(proceeding := Proceeding(args, kwargs))
            try:
                proceeding.answer = await proceed(*args, **kwargs)
            except BaseException as error:
                proceeding.raised = error
                raise
            return proceeding.answer

        return later if self.signature.style == "coroutine" else plain

    def answered(self, step: Any, hook: Hook | None) -> Any:
        """Return an answer; of an awaitable, one that records what it resolves to."""
        if hook is None or self.signature.style not in _ASYNC:
            return step.answer
        if hook.style != "coroutine":
            return _watched(step)
        # A coroutine that an async around hook answers, unless `proceed()` has returned it.
        is_known = hook.kind != "around" or any(step.answer is one.answer for one in step.events)
        return step.answer if is_known or type(step.answer) is not CoroutineType else _watched(step)


def _watched(step: NotedStep) -> Any:
    """Return the answer of a step; of an awaitable, one that records what it resolves to: that is the answer then."""
    kind: type[Any] = type_of(step.answer)
    if kind is not CoroutineType and not hasattr(kind, "__await__"):
        return step.answer
    step.is_pending = True
    return _settled(step) if kind is CoroutineType else _Watched(step)


async def _settled(step: NotedStep) -> Any:
    step.is_pending = False
    with step:
        step.answer = await cast("Awaitable[object]", step.answer)
    return step.answer


@final
class _Watched:
    """An awaitable, such as a future, that an answer of a sync hook is."""

    def __init__(self, step: NotedStep) -> None:
        self.step = step

    def __await__(self) -> Generator[Any, Any, Any]:
        return _settled(self.step).__await__()


def with_proceed(words: list[str], args: tuple[Any, ...], kwargs: dict[str, Any], wrap: Callable[[Any], Any]) -> Any:
    """Return the arguments of an around hook with another `proceed`."""
    if "proceed" in kwargs:
        return args, {**kwargs, "proceed": wrap(kwargs["proceed"])}
    place = words.index("proceed")
    return (*args[:place], wrap(args[place]), *args[place + 1 :]), kwargs


# Streams


def noted(made: Any, note: Note, fail: Fail | None = None) -> Any:
    """Return a stream that records each time that it is resumed; anything that is no stream as it is."""
    if is_stream(made):
        return _NotedStream(made, note, fail)
    return _NotedAsyncStream(made, note, fail) if is_astream(made) else made


class _Noted:
    """A stream passed on, with a note of each time that it is resumed.

    It is closed by ``throw(GeneratorExit)``, which does what `close` does and shows what came of it.
    """

    def __init__(self, made: Any, note: Note, fail: Fail | None) -> None:
        self.made, self.note, self.fail = made, note, fail
        self.has_begun = self.has_ended = False

    def sent(self, value: Any) -> Resumption:
        """Note that something is sent."""
        return self.note(NEXT if value is None else SEND, value)

    def thrown(self, error: BaseException) -> Resumption:
        """Note that something is thrown."""
        return self.note(CLOSE, None) if isinstance(error, GeneratorExit) else self.note(THROW, error)


@final
class _NotedStream(_Noted, Generator[Any, Any, Any]):
    def send(self, value: Any) -> Any:
        """Resume the stream."""
        return self.made.send(value) if self.has_ended else self._resume(self.sent(value), self.made.send, value)

    # Any: the three arguments of before Python 3.12 too.
    def throw(self, error: Any, *_: Any) -> Any:
        """Throw an exception into the stream."""
        error = error() if isinstance(error, type) else error
        return self.made.throw(error) if self.has_ended else self._resume(self.thrown(error), self.made.throw, error)

    def _resume(self, resumed: Resumption, resume: Callable[[Any], Any], given: Any) -> Any:
        try:
            item = resume(given)
        except BaseException as caught:
            self.has_ended = True
            resumed.stop(caught, self.fail)
            raise
        resumed.give("item", item)
        return item


@final
class _NotedAsyncStream(_Noted, AsyncGenerator[Any, Any]):
    def asend(self, value: Any) -> Any:
        """Resume the stream."""
        if self.has_ended:
            return self.made.asend(value)
        resumed, self.has_begun = self.sent(value), True
        return self._resume(resumed, self.made.asend(value))

    def athrow(self, error: Any, *_: Any) -> Any:
        """Throw an exception into the stream."""
        error = error() if isinstance(error, type) else error
        if self.has_ended or not self.has_begun:
            return self._refuse(error)
        return self._resume(self.thrown(error), self.made.athrow(error))

    async def _refuse(self, error: BaseException) -> None:
        raise error

    async def _resume(self, resumed: Resumption, step: Awaitable[Any]) -> Any:
        try:
            item = await step
            if resumed.how == CLOSE and getattr(self.made, "ag_frame", self) is None:  # it had been closed before
                raise GeneratorExit
        except BaseException as caught:
            self.has_ended = True
            resumed.stop(caught, self.fail)
            raise
        resumed.give("item", item)
        return item


def is_stream(made: object) -> bool:
    """Whether this is a generator, or has all that one has."""
    return all(hasattr(type(made), name) for name in ("__next__", "send", "throw", "close"))


def is_astream(made: object) -> bool:
    """Whether this is an async generator, or has all that one has."""
    return all(hasattr(type(made), name) for name in ("asend", "athrow", "aclose"))


def is_iterator(made: object) -> bool:
    """Whether this is an iterator of any other sort."""
    known = is_stream(made) or is_astream(made)
    return not known and (hasattr(type(made), "__next__") or hasattr(type(made), "__aiter__"))


def is_own(event: object) -> bool:
    """Whether this was asked of the stream itself."""
    return isinstance(event, Resumption) and event.source is None


def resume(stream: Any, how: str, value: Any) -> Any:
    """Resume a stream, and return its next item, or an awaitable of it."""
    a = "a" if is_astream(stream) else ""
    if how == CLOSE:
        return getattr(stream, f"{a}close")()
    return getattr(stream, f"{a}throw" if how == THROW else f"{a}send")(value)
