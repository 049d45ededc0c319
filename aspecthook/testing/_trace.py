"""Tracing one call: which hooks ran, in which order, what each was given and what it answered.

The call runs the compiled chain itself, on clones of the hooks that note what happens to them; nothing that others
see is changed, and no call of theirs is noted.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import CoroutineType, FunctionType, MethodType
from typing import Any, TypeVar, cast, final

from aspecthook._core.law.asks import Asks
from aspecthook._core.law.call import Call
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.gather import at_once
from aspecthook._core.law.guard import Guard
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Signature
from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.place import Place
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookLookupError, nearest, plural

from ._calls import Given, bound_of, values_of
from ._copies import copy_of, kept_of
from ._shortened import shortened
from ._streams import (
    Fail,
    Note,
    Resumption,
    anoted,
    areading,
    cancelled_after,
    is_iterator,
    is_own,
    noted,
    noting_stream,
    reading,
)

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_PENDING: Any = object()
_Traces = TypeVar("_Traces", "Trace", "tuple[Trace, Trace]")
TARGET = "target"


@final
class Step:
    """One hook of a traced call, or its target: ``kind``, ``name``, ``given``, its ``answer`` or what it ``raised``.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def double(n):
        ...     return 2 * n
        >>> trace_of(double)(3)["double"]
        target double(n=3) → 6
    """

    __slots__ = (
        "_at",
        "_call",
        "_context",
        "_events",
        "_is_pending",
        "_is_unfit",
        "answer",
        "given",
        "kind",
        "name",
        "raised",
    )

    def __init__(self, kind: str, name: str, given: dict[str, object], at: int = 0) -> None:
        self.kind = kind
        self.name = name
        self.given = given
        self.answer: object = None
        self.raised: BaseException | None = None
        self._at = at  # how many steps had begun before
        # What a hook that has something inside did, and what was asked of a stream, in the order in which it happened.
        self._events: list[Proceeding | Resumption] = []
        self._is_unfit = False  # whether it could not be called with what it was given
        self._is_pending = False  # whether it has answered an awaitable that nobody has awaited
        self._context: BaseException | None = None  # of what it raised, as it raised it
        call: Any = given.get("call")
        # What `call` says now; it goes on changing.
        self._call = (tuple(call.arguments.values()), call.result, call.exc) if isinstance(call, Call) else None

    def __repr__(self) -> str:
        return f"{self.kind} {self.line}"

    @property
    def line(self) -> str:
        """What it was given and what came of it, on one line."""
        given = ", ".join(f"{name}={shortened(value)}" for name, value in self.given.items())
        came = f"raised {shortened(self.raised)}" if self.raised is not None else f"→ {shortened(self.answer)}"
        return f"{self.name}({given}) {came}"

    def _fail(self, error: BaseException) -> None:
        self.raised, self._context = error, error.__context__


@final
class Proceeding:
    """One time that an around hook proceeded: with what, and what came of it."""

    __slots__ = ("answer", "args", "kwargs", "raised")

    def __init__(self, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None) -> None:
        self.args = args
        self.kwargs = dict(kwargs or {})
        self.answer: object = _PENDING
        self.raised: BaseException | None = None

    def _fail(self, error: BaseException) -> None:
        self.raised = error

    @property
    def has_ended(self) -> bool:
        """Whether anything has come of it yet."""
        return self.raised is not None or self.answer is not _PENDING


@final
class Trace:
    """What happened in one call: its ``steps`` in the order in which they began, and its ``result`` or ``exc``.

    It also has what the call was given, whether or not the target ran: ``args`` and ``kwargs`` as they were written,
    and ``arguments`` by the names of the parameters, defaults filled in (empty if they do not fit the target). These
    are the objects themselves: where a hook changes one in place, the trace shows what became of it.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def double(n):
        ...     return 2 * n
        >>> @double.post
        ... def increase(result):
        ...     return result + 1
        >>> trace = trace_of(double)(3)
        >>> trace.names, trace.result, trace.before("double", "increase")
        (('double', 'increase'), 7, True)
        >>> trace.args, trace.kwargs, trace.arguments
        ((3,), {}, {'n': 3})
    """

    __slots__ = (
        "_again",
        "_asked",
        "_chain",
        "_is_clear",
        "_resumed",
        "_target",
        "args",
        "arguments",
        "exc",
        "kwargs",
        "label",
        "result",
        "steps",
    )

    def __init__(self, label: str) -> None:
        self.label = label
        self.steps: list[Step] = []
        # Any: a law compares them as it likes, and only the target knows their types.
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.arguments: dict[str, Any] = {}
        self.result: Any = None
        self.exc: BaseException | None = None
        self._asked: list[Step] = []  # the predicates `when`
        self._resumed: list[Resumption] = []  # how a stream was read, and what it gave
        self._is_clear = True  # whether all that happened could be noted
        self._target = ""  # its name
        # The hooks that acted in the call, and what makes the same call again with the hooks of a chain.
        self._chain = Chain(())
        self._again: Callable[[Chain], Trace | Awaitable[Trace]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in the order in which they began."""
        return tuple(step.name for step in self.steps)

    def ran(self, name: str) -> bool:
        """Say whether a hook of this name ran."""
        return name in self.names

    def before(self, first: str, second: str) -> bool:
        """Say whether every run of the one began before every run of the other; true if either did not run."""
        earlier = [place for place, name in enumerate(self.names) if name == first]
        later = [place for place, name in enumerate(self.names) if name == second]
        return not earlier or not later or max(earlier) < min(later)

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise HookLookupError(
            f"{self.label}: {name!r} did not run in this call; what ran: {', '.join(self.names) or 'nothing'}"
            f"{nearest(name, list(self.names))}"
        )

    def draw(self) -> str:
        """Draw the call, a line a step."""
        came = f"raised {shortened(self.exc)}" if self.exc is not None else f"→ {shortened(self.result)}"
        width = max((len(step.kind) for step in self.steps), default=0)
        return "\n".join([f"{self.label} {came}", *(f"  {step.kind:<{width}}  {step.line}" for step in self.steps)])

    def __str__(self) -> str:
        return self.draw()

    __repr__ = __str__


# Any: the traced function takes what the function takes, and an async one gives an awaitable of the trace.
def trace_of(function: Any, /) -> Callable[..., Any]:
    """Give a function that makes one call and gives its `Trace`, whatever the call gives or raises.

    Of a coroutine function it gives an awaitable of the trace. A generator is run to its end; its items are the result.

    Raises:
        HookLookupError: The function is no mount point.

    Example:
        >>> from aspecthook import Args, hookable
        >>> @hookable
        ... def price(item, qty=1):
        ...     return 2.0 * qty
        >>> @price.pre
        ... def at_least_one(qty):
        ...     return Args(qty=max(qty, 1))
        >>> print(trace_of(price)("tea", 0))
        aspecthook.testing._trace:price → 2.0
          pre     at_least_one(qty=0) → Args(qty=1)
          target  price(item='tea', qty=1) → 2.0
    """
    mount = hooks(function)

    def traced(*args: Any, **kwargs: Any) -> Any:
        return make_call(mount, bound_of(function), Given(args, kwargs))

    traced.__dict__["function"] = function  # mount points do not keep their functions alive
    return traced


def make_call(
    mount: MountPoint,
    bound: tuple[object, ...],
    given: Given,
    chain: Chain | None = None,
    drive: Sequence[str] = (),
) -> Trace | Awaitable[Trace]:
    """Make one call with the hooks that act now, or with those of a chain, which then do not count their runs.

    Args:
        mount: The mount point.
        bound: What a bound method passes by itself.
        given: What the call is given.
        chain: The hooks, in an order that need not be that of law 2.
        drive: How a stream is read, before it is read to its end; or when an awaited call is cancelled.
    """
    trace, call = _begun(mount, bound, given, chain)
    style = mount.site().signature.style
    if style == "coroutine":
        return _awaited(trace, call, drive)
    if style == "async generator":
        return _aread_in_turn([_areading(trace, call, drive)], trace)
    if style == "generator":
        return _read_in_turn([_reading(trace, call, drive)], trace)
    try:
        trace.result = call()
    except BaseException as error:  # the trace holds it
        trace.exc = error
    return trace


def make_two_calls(
    mount: MountPoint, bound: tuple[object, ...], given: Given, other: Given
) -> tuple[Trace, Trace] | Awaitable[tuple[Trace, Trace]]:
    """Make two calls at once: two streams are read in turn, two coroutines run as tasks."""
    (first, call), (second, beside) = _begun(mount, bound, given), _begun(mount, bound, other)
    traces = (first, second)
    style = mount.site().signature.style
    if style == "coroutine":
        return _awaited_at_once(traces, [call, beside])
    if style == "async generator":
        return _aread_in_turn([_areading(first, call, ()), _areading(second, beside, ())], traces)
    return _read_in_turn([_reading(first, call, ()), _reading(second, beside, ())], traces)


def _begun(
    mount: MountPoint, bound: tuple[object, ...], given: Given, chain: Chain | None = None
) -> tuple[Trace, Callable[[], Any]]:
    trace = untraced(mount, bound, given)
    call = _compiled(mount, trace, chain)
    return trace, lambda: call(*bound, *given.args, **given.kwargs)


def untraced(mount: MountPoint, bound: tuple[object, ...], given: Given) -> Trace:
    """Return the trace of a call that is not made yet."""
    trace = Trace(mount.name)
    trace._target = mount.function.__name__
    trace.args, trace.kwargs = given
    values = values_of(mount, given, bound)
    if values is not None:  # else the call itself will say that they do not fit
        trace.arguments = mount.site().arguments(values)
    kept = kept_of((bound, given.args, given.kwargs))

    def again(other: Chain) -> Trace | Awaitable[Trace]:
        bound, args, kwargs = copy_of(kept)
        return make_call(mount, bound, Given(args, kwargs), other)

    again.__dict__["function"] = mount.function  # mount points do not keep their functions alive
    trace._again = again
    return trace


async def _awaited(trace: Trace, call: Callable[[], Any], drive: Sequence[str]) -> Trace:
    try:
        turns = len(drive)
        trace.result = await (cancelled_after(call, turns) if turns else call())
    except BaseException as error:
        trace.exc = error
    return trace


async def _awaited_at_once(traces: tuple[Trace, Trace], calls: Sequence[Callable[[], Any]]) -> tuple[Trace, Trace]:
    async def one(trace: Trace, call: Callable[[], Any]) -> None:
        await _awaited(trace, call, ())

    await at_once([partial(one, trace, call) for trace, call in zip(traces, calls, strict=True)])
    return traces


def _resumptions(trace: Trace) -> Callable[[str, object], Resumption]:
    def note(how: str, value: object) -> Resumption:
        resumed = Resumption(how, value, trace.steps)
        trace._resumed.append(resumed)
        return resumed

    return note


def _reading(trace: Trace, call: Callable[[], Any], drive: Sequence[str]) -> Generator[None]:
    """Read a stream, and halt after each time that it was resumed."""
    try:
        yield from reading(call(), drive, _resumptions(trace))
        trace.result = [one.answer for one in trace._resumed if one.came == "item"]
    except BaseException as error:
        trace.exc = error


async def _areading(trace: Trace, call: Callable[[], Any], drive: Sequence[str]) -> AsyncGenerator[None]:
    try:
        async for _ in areading(call(), drive, _resumptions(trace)):
            yield
        trace.result = [one.answer for one in trace._resumed if one.came == "item"]
    except BaseException as error:
        trace.exc = error


def _read_in_turn(readings: list[Generator[None]], traces: _Traces) -> _Traces:
    while readings:
        for one in [*readings]:
            if next(one, _PENDING) is _PENDING:
                readings.remove(one)
    return traces


async def _aread_in_turn(readings: list[AsyncGenerator[None]], traces: _Traces) -> _Traces:
    while readings:
        for one in [*readings]:
            if await anext(one, _PENDING) is _PENDING:
                readings.remove(one)
    return traces


@under_lock
def _compiled(mount: MountPoint, trace: Trace, chain: Chain | None) -> Callable[..., Any]:
    """Compile the chain as it is now, or another one, on clones that note what they do."""
    place = place_of(mount)
    signature = mount.site().signature
    trace._chain = mount.chain() if chain is None else chain
    clones = mapped(trace._chain, lambda hook: noting(hook, signature, trace, counts=chain is None))
    if place is None or not (place.opened or clones.everything()):
        return _noting_target(mount.function, mount, trace)
    call: Any = place.bind(clones, target=_noting_target(place.original, mount, trace))
    function: Any = mount.function
    call.__defaults__, call.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return cast("Callable[..., Any]", call)


def place_of(mount: MountPoint) -> Place | None:
    """Return where the code of a mount point is, if it has hooks; that of an instance is in its class."""
    return mount.parent.place if isinstance(mount, InstanceMountPoint) else mount.place


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
    words, shown = _words(hook.asks, signature.names), labels(hook, signature.names)
    is_async = signature.style in ("coroutine", "async generator")

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        step = Step(hook.kind, hook.name, _given(shown, args, kwargs), len(trace.steps))
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
        asked, when = _words(hook.when_asks, signature.names), hook.when

        def ask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
            step = Step(hook.kind, hook.name, _given(asked, args, kwargs), len(trace.steps))
            trace._asked.append(step)
            return step

        recorder = _async if hook.when_awaits else _plain_awaited if is_async else _plain
        clone.when = recorder(lambda _step, args, kwargs: when(*args, **kwargs), ask)
    clone.ref = clone.inner = None  # it is kept for the length of the call
    clone.reshape()
    return clone


def _words(asks: Asks, names: tuple[str, ...]) -> list[str]:
    """Return the names of what is passed by position."""
    return [
        names[what] if isinstance(what, int) else str(what).lstrip(".:?") or names[0] for how, what in asks if not how
    ]


def labels(hook: Hook, names: tuple[str, ...]) -> list[str]:
    """Return the names of what a hook is given by position: those of its own parameters, whatever was meant.

    Where the hook names them as it likes, and behind the end of its parameters, it is what they are asked for.
    """
    words = _words(hook.asks, names)
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


def _given(words: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, object]:
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
    """Let an around hook note each time that it proceeds."""

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


# Begins a step, or a time that an around hook proceeds, and gives where to note what comes of it.
Begin = Callable[[tuple[Any, ...], dict[str, Any]], "Step | Proceeding"]
# Any: makes the call itself, which gives anything, with what was begun.
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
    """Note what comes of an awaitable too, which a sync hook of an async function may answer."""

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
    """Note what comes of a coroutine that an async around hook answers, unless it was given it as a result."""
    known = any(answer is one.answer for one in step._events)
    return answer if known or type(answer) is not CoroutineType else _watched(answer, step)


def _watched(answer: Any, step: Step) -> Any:
    """Note what an awaitable gives that is an answer: that is the answer then."""
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
    """Note what is asked of the stream that a function around a generator answers."""

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


def _noting_target(function: Callable[..., Any], mount: MountPoint, trace: Trace) -> Callable[..., Any]:
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


def draw_chain(mount: MountPoint) -> str:
    """Draw the chain of a mount point: a line a hook, in the order in which a call may run them."""
    return "\n".join(chain_lines(mount))


def chain_lines(mount: MountPoint, most: int | None = None) -> list[str]:
    """Return the lines of that drawing, for the first ``most`` hooks."""
    chain = list(mount)
    rows = [(hook.kind, hook.name, _conditions(hook)) for hook in chain[:most]]
    width = max((len(kind) for kind, _, _ in rows), default=0)
    lines = [f"  {kind:<{width}}  {name}{conditions}" for kind, name, conditions in rows]
    lines += [f"  ... and {len(chain) - len(rows)} more"] if len(rows) < len(chain) else []
    return [f"{mount.name}, {plural(len(chain), 'hook')}", *lines]


def _conditions(hook: Hook) -> str:
    parts = [f"priority={hook.priority}"] if hook.priority != 50 else []
    parts += [f"{name}={shortened(value)}" for name, value in hook.options.items() if name not in ("name", "priority")]
    parts += ["paused"] if hook.paused else []
    return f" ({', '.join(parts)})" if parts else ""


def assert_order(function: Any, /, *names: str) -> None:
    """Assert that hooks run in this order, by the chain as it is now; the function's own name stands for the target.

    Raises:
        AssertionError: They do not, or one of them is not there; the message draws the chain.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def save(order): ...
        >>> @save.pre(before="validate")
        ... def authenticate(): ...
        >>> @save.pre
        ... def validate(order): ...
        >>> assert_order(save, "authenticate", "validate", "save")
    """
    mount = hooks(function)
    order = _order(mount)
    for name in names:
        if name not in order:
            raise AssertionError(f"no hook {name!r}{nearest(name, order)}\n{draw_chain(mount)}")
    for first, second in pairwise(names):
        last = len(order) - 1 - order[::-1].index(first)
        if last > order.index(second):
            raise AssertionError(f"{first!r} does not run before {second!r}\n{draw_chain(mount)}")


def _order(mount: MountPoint) -> list[str]:
    rows = {"pre": mount.pre, "around": mount.around, "on": mount.on}
    before = [hook.name for row in rows.values() for hook in row]
    after = [hook.name for row in (mount.item, mount.exception, mount.post, mount.always) for hook in row]
    function = cast("FunctionType", mount.function)
    return [*before, function.__name__, *after]
