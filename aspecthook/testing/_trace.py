"""Tracing one call: which hooks ran, in which order, what each was given and what it answered.

The call runs the compiled chain itself, on clones of the hooks that note what happens to them; nothing that others
see is changed, and no call of theirs is noted.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from itertools import pairwise
from types import FunctionType, MethodType, TracebackType
from typing import Any, cast, final

from aspecthook._asks import KINDS, Asks
from aspecthook._call import Call
from aspecthook._changes import under_lock
from aspecthook._errors import HookLookupError, nearest, plural
from aspecthook._guard import Guard
from aspecthook._hook import Hook
from aspecthook._hookable import hooks
from aspecthook._inplace import Place
from aspecthook._instances import InstanceMountPoint
from aspecthook._mount import MountPoint
from aspecthook._order import Chain

from ._calls import Given, blank_of, bound_of
from ._copies import copy_of, kept_of
from ._shortened import shortened

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_PENDING: Any = object()
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

    __slots__ = ("_at", "_call", "_proceeded", "_unfit", "answer", "given", "kind", "name", "raised")

    def __init__(self, kind: str, name: str, given: dict[str, object], at: int = 0) -> None:
        self.kind = kind
        self.name = name
        self.given = given
        self.answer: object = None
        self.raised: BaseException | None = None
        self._at = at  # how many steps had begun before
        self._proceeded: list[Proceeding] = []
        self._unfit = False  # whether the arguments do not fit the hook, so that it has not begun
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


@final
class Proceeding:
    """One time that an around hook proceeded: with what, and what came of it; the `yield` of a generator is one."""

    __slots__ = ("_unfit", "answer", "args", "kwargs", "raised")

    def __init__(self, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None) -> None:
        self.args = args
        self.kwargs = dict(kwargs or {})
        self.answer: object = _PENDING
        self._unfit = False
        self.raised: BaseException | None = None

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
    mount: MountPoint, bound: tuple[object, ...], given: Given, chain: Chain | None = None
) -> Trace | Awaitable[Trace]:
    """Make one call with the hooks that act now, or with those of a chain, which then do not count their runs.

    Args:
        mount: The mount point.
        bound: What a bound method passes by itself.
        given: What the call is given.
        chain: The hooks, in an order that need not be that of law 2.
    """
    trace = untraced(mount, bound, given)
    call = _compiled(mount, trace, chain)
    style = mount._get_site().signature.style
    if style == "coroutine":
        return _awaited(trace, lambda: call(*bound, *given.args, **given.kwargs))
    if style == "async generator":
        return _collected(trace, lambda: call(*bound, *given.args, **given.kwargs))
    try:
        result = call(*bound, *given.args, **given.kwargs)
        trace.result = list(result) if style == "generator" else result
    except BaseException as error:  # the trace holds it
        trace.exc = error
    return trace


def untraced(mount: MountPoint, bound: tuple[object, ...], given: Given) -> Trace:
    """Return the trace of a call that is not made yet."""
    trace = Trace(mount.name)
    trace._target = mount.function.__name__
    trace.args, trace.kwargs = given
    trace.arguments = _arguments(mount, (*bound, *given.args), given.kwargs)
    kept = kept_of((bound, given.args, given.kwargs))

    def again(other: Chain) -> Trace | Awaitable[Trace]:
        bound, args, kwargs = copy_of(kept)
        return make_call(mount, bound, Given(args, kwargs), other)

    again.__dict__["function"] = mount.function  # mount points do not keep their functions alive
    trace._again = again
    return trace


def _arguments(mount: MountPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        bound = inspect.signature(blank_of(mount)).bind(*args, **kwargs)
    except TypeError:  # they do not fit, as the call itself will say
        return {}
    bound.apply_defaults()
    signature = mount._get_site().signature
    return signature.arguments(tuple([bound.arguments[name] for name in signature.names]))


async def _awaited(trace: Trace, call: Callable[[], Any]) -> Trace:
    try:
        trace.result = await call()
    except BaseException as error:
        trace.exc = error
    return trace


async def _collected(trace: Trace, call: Callable[[], Any]) -> Trace:
    try:
        trace.result = [item async for item in call()]
    except BaseException as error:
        trace.exc = error
    return trace


@under_lock
def _compiled(mount: MountPoint, trace: Trace, chain: Chain | None) -> Callable[..., Any]:
    """Compile the chain as it is now, or another one, on clones that note what they do."""
    place = place_of(mount)
    names = mount._get_site().signature.names
    trace._chain = mount._active() if chain is None else chain
    clones = mapped(trace._chain, lambda hook: _noting(hook, names, trace, counts=chain is None))
    if place is None or not (place.opened or clones.everything()):
        return _noting_target(mount.function, mount, trace)
    call: Any = place.bind(clones, target=_noting_target(place.original, mount, trace))
    function: Any = mount.function
    call.__defaults__, call.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return cast("Callable[..., Any]", call)


def place_of(mount: MountPoint) -> Place | None:
    """Return where the code of a mount point is, if it has hooks; that of an instance is in its class."""
    return mount._parent._place if isinstance(mount, InstanceMountPoint) else mount._place


def mapped(chain: Chain, change: Callable[[Hook], Hook]) -> Chain:
    """Return a chain of other hooks, each in the place of its own."""
    made = Chain(())
    for kind in KINDS:
        setattr(made, kind, tuple([change(hook) for hook in getattr(chain, kind)]))
    return made


def _noting(hook: Hook, names: tuple[str, ...], trace: Trace, *, counts: bool = True) -> Hook:
    clone = copy.copy(hook)
    if not counts and hook.guard is not None and (hook.guard.times or hook.guard.every):
        clone.guard = None if hook.guard.reentrant else Guard(None, None, False, clone)
    words = labels(hook, names)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        step = Step(hook.kind, hook.name, _given(words, args, kwargs), len(trace.steps))
        trace.steps.append(step)
        return step

    recorder = (_AROUND if hook.kind == "around" else _RECORDERS)[hook.flavour]
    clone.function = recorder(hook.function, begin)
    if hook.proceeds:
        asked = _words(hook.asks, names)
        clone.function = _with_proceed_noted(clone.function, asked, trace, waits=hook.flavour == "async")
    if hook.when is not None:
        assert hook.when_asks is not None
        asked = _words(hook.when_asks, names)

        def ask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
            step = Step(hook.kind, hook.name, _given(asked, args, kwargs), len(trace.steps))
            trace._asked.append(step)
            return step

        clone.when = _RECORDERS["async" if hook.when_awaits else "plain"](hook.when, ask)
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
    # The one argument of which a parameter without a name of the user's choice is given, and `self`, are called alike.
    return [
        own[place]
        if place < len(own) and (place >= max(free, 1) or own[place] in names) and not str(given[place]).startswith(".")
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


def _with_proceed_noted(
    function: Callable[..., Any], words: list[str], trace: Trace, *, waits: bool
) -> Callable[..., Any]:
    """Let an around hook note each time that it proceeds. Its step is the next one that begins."""

    def wrap(proceed: Callable[..., Any]) -> Callable[..., Any]:
        place = len(trace.steps)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proceeding:
            noted = Proceeding(args, kwargs)
            trace.steps[place]._proceeded.append(noted)
            return noted

        return _RECORDERS["async" if waits else "plain"](proceed, begin)

    def around(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = with_proceed(words, args, kwargs, wrap)
        return function(*args, **kwargs)

    async def later(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = with_proceed(words, args, kwargs, wrap)
        return await function(*args, **kwargs)

    return later if waits else around


# Begins a step, or a time that an around hook proceeds, and gives where to note what comes of it.
Begin = Callable[[tuple[Any, ...], dict[str, Any]], "Step | Proceeding"]


def _plain(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    is_python = isinstance(function, (FunctionType, MethodType))

    def plain(*args: Any, **kwargs: Any) -> Any:
        step = begin(args, kwargs)
        try:
            step.answer = function(*args, **kwargs)
        except BaseException as error:
            step.raised = error
            step._unfit = (
                type(error) is TypeError and is_python and cast("TracebackType", error.__traceback__).tb_next is None
            )
            raise
        return step.answer

    return plain


def _async(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def later(*args: Any, **kwargs: Any) -> Any:
        step = begin(args, kwargs)
        try:
            answer: Any = await function(*args, **kwargs)
        except BaseException as error:
            step.raised = error
            raise
        step.answer = answer
        return answer

    return later


def _generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        step = begin(args, kwargs)
        made: Generator[Any, Any, Any] = function(*args, **kwargs)
        try:
            step.answer = yield from made
        except BaseException as error:
            step.raised = error
            raise
        return step.answer

    return generator


def _async_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        begin(args, kwargs)
        made: AsyncGenerator[Any, Any] = function(*args, **kwargs)
        return made

    return stream


def _around_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        step = begin(args, kwargs)
        made: Generator[Any, Any, Any] = function(*args, **kwargs)
        try:
            step.answer = yield from _yielding(made, cast("Step", step))
        except BaseException as error:
            step.raised = error
            raise
        return step.answer

    return generator


def _yielding(made: Generator[Any, Any, Any], step: Step) -> Generator[Any, Any, Any]:
    """Do what `yield from` does (PEP 380), and note what the generator is given where it yields."""
    try:
        item = next(made)
        while True:
            noted = Proceeding()
            step._proceeded.append(noted)
            try:
                answer = yield item
            except GeneratorExit:
                made.close()
                raise
            except BaseException as error:
                noted.raised = error
                item = made.throw(error)
            else:
                noted.answer = answer
                item = made.send(answer)
    except StopIteration as stop:
        return stop.value


_RECORDERS: dict[str, Callable[[Callable[..., Any], Begin], Callable[..., Any]]] = {
    "plain": _plain,
    "async": _async,
    "generator": _generator,
    "async generator": _async_generator,
}
_AROUND = {**_RECORDERS, "generator": _around_generator}


def _noting_target(function: Callable[..., Any], mount: MountPoint, trace: Trace) -> Callable[..., Any]:
    signature = mount._get_site().signature
    flavour = {"function": "plain", "coroutine": "async"}.get(signature.style, signature.style)
    named = signature.names[: signature.positional]

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        given: dict[str, object] = dict(zip(named, args, strict=False))
        if len(args) > len(named):
            given[signature.names[cast("int", signature.varargs)]] = args[len(named) :]
        step = Step(TARGET, mount.function.__name__, given | kwargs)
        trace.steps.append(step)
        return step

    return _RECORDERS[flavour](function, begin)


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
