"""What the laws say, told naively: the order of a chain read aloud, and a call replayed by the plain interpreter.

The invariant: nothing here asks the code under test. The order is worked out from plain rows, not by `_order`; a call
that has happened is played again by the interpreter of law 1, with what each hook and the target answered.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast, final

from aspecthook import _law
from aspecthook._asks import KINDS
from aspecthook._call import Call, Site
from aspecthook._errors import HookAnswerError
from aspecthook._hook import Hook, Priority
from aspecthook._instances import InstanceMountPoint
from aspecthook._mount import MountPoint
from aspecthook._order import Chain
from aspecthook._runtime import settled
from aspecthook._weak import Mention

from ._calls import Given, blank_of
from ._shortened import shortened
from ._trace import TARGET, Step, Trace, _noting

# Law 2, read aloud. It knows nothing of graphs.


class Row(NamedTuple):
    """One hook as plain data."""

    hook: object
    kind: str
    name: str
    function: object
    priority: int
    before: tuple[object, ...]
    after: tuple[object, ...]

    def __repr__(self) -> str:
        return f"{self.kind} {self.name}"


def row_of(hook: object, kind: str, name: str, function: object, options: Any) -> Row:
    """Make a row of what was asked for."""
    priority: Any = options.get("priority", Priority.NORMAL)
    number = Priority[priority.upper()] if isinstance(priority, str) else priority
    before, after = _several(options.get("before")), _several(options.get("after"))
    return Row(hook, kind, name, function, int(number), before, after)


def _several(value: Any) -> tuple[object, ...]:
    if value is None:
        return ()
    several = isinstance(value, (list, tuple, set, frozenset))
    row = tuple(cast("Iterable[object]", value)) if several else (value,)
    return tuple([one() if isinstance(one, Mention) else one for one in row])


def rows_of(mount: MountPoint) -> list[Row]:
    """Give the hooks that a mount point carries, in the order in which they were added."""
    return [row_of(one, one.kind, one.name, one.meant, one.options) for one in mount.members]


def inherited(mount: MountPoint) -> list[Row]:
    """Give the hooks that run in one chain with those of an instance."""
    return rows_of(mount._parent) if isinstance(mount, InstanceMountPoint) else []


def acting(mount: MountPoint, rows: list[Row]) -> list[Row]:
    """Give those that act now: not paused, nor is what carries them."""
    shared = [] if isinstance(mount, InstanceMountPoint) and mount._parent._pauses else inherited(mount)
    return [row for row in [*shared, *([] if mount._pauses else rows)] if not cast("Hook", row.hook).paused]


def precedes(first: Row, second: Row) -> bool:
    """Say whether a constraint puts one before the other."""
    return first.kind == second.kind and (_mentions(first.before, second) or _mentions(second.after, first))


def _mentions(keys: tuple[object, ...], row: Row) -> bool:
    return any(
        key == row.name if isinstance(key, str) else key is row.hook or bool(key == row.function) for key in keys
    )


def ordered(rows: list[Row]) -> list[Row] | None:
    """Among the hooks whose constraints are met, the lowest (priority, added) goes next. None: there is no order."""
    left = sorted(rows, key=lambda row: row.priority)  # stable: of equal priority, the first added is the first
    if not any(row.before or row.after for row in rows):
        return left
    order: list[Row] = []
    while left:
        met = [row for row in left if not any(precedes(other, row) for other in left)]
        if not met:
            return None
        order.append(met[0])
        left.remove(met[0])
    return order


def of_kind(rows: Iterable[Row], kind: str) -> list[Row]:
    """Give the rows of one kind."""
    return [row for row in rows if row.kind == kind]


# A call played again


def differs(mount: MountPoint, rows: list[Row], trace: Trace, bound: tuple[object, ...], given: Given) -> str | None:
    """Say in what a traced call differs from what the laws say, if it does.

    Args:
        mount: The mount point.
        rows: The hooks that should act in the call, in the order in which they were added.
        trace: The call.
        bound: What a bound method passes by itself.
        given: What the call was given.
    """
    chain = _chain(rows)
    values = _values(mount, (*bound, *given.args), given.kwargs)
    if values is None:
        return None if not trace.steps and isinstance(trace.exc, TypeError) else "it ran, but its arguments do not fit"
    style = mount._get_site().signature.style
    if "generator" in style or not _is_plain(chain, trace) or _is_beyond(mount, chain):
        return _phases(chain, trace)
    return _Replay(mount, chain, trace).play(values)


def _chain(rows: list[Row]) -> Chain:
    chain = Chain(())
    for kind in KINDS:
        order = ordered(of_kind(rows, kind))
        assert order is not None, "the hooks of a call have an order, or they would have been refused"
        setattr(chain, kind, tuple([cast("Hook", row.hook) for row in order]))
    return chain


def _values(mount: MountPoint, args: tuple[object, ...], kwargs: dict[str, Any]) -> tuple[object, ...] | None:
    try:
        bound = inspect.signature(blank_of(mount)).bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return tuple([bound.arguments[name] for name in mount._get_site().signature.names])


def _is_conditional(hook: Hook) -> bool:
    return hook.when is not None or hook.gate is not None or hook.guard is not None


# What a generator raises when it is closed, and what Python makes into another exception where it leaves one.
_UNCLEAR = (GeneratorExit, StopIteration, StopAsyncIteration)


def _is_plain(chain: Chain, trace: Trace) -> bool:
    """Say whether the steps tell all that came of them, so that the call can be played again.

    What an async generator came to, and what an awaitable gave that a sync hook answered, is not in its step; nor is
    what a condition raised.
    """
    if any(hook.flavour == "async generator" for hook in chain.around):
        return False
    if any(isinstance(step.answer, Awaitable) or isinstance(step.raised, _UNCLEAR) for step in trace.steps):
        return False
    raised = [step.raised for step in trace.steps]
    seen = [trace.exc, *(step.given.get("exc") for step in trace.steps)]
    known = all(error is None or error in raised for error in seen)
    return known or not any(_is_conditional(hook) for hook in chain.everything())


def _is_beyond(mount: MountPoint, chain: Chain) -> bool:
    """Say whether subscribers run in a way that the steps alone do not tell."""
    emission = mount._get_site().signature.emission
    return emission is not None and bool(chain.on) and (bool(chain.around) or emission.gather)


def _phases(chain: Chain, trace: Trace) -> str | None:
    """Check the order alone: pre hooks, what is inside, exception and post hooks, always hooks; each in its order."""
    place = {"pre": 0, "around": 1, TARGET: 1, "on": 1, "item": 1, "exception": 2, "post": 3, "always": 4}
    furthest = 0
    for step in trace.steps:
        if place[step.kind] < furthest:
            return f"{step!r} came too late"
        furthest = place[step.kind]
    once = ("pre", "exception", "post", "always") if chain.around else ("pre", "on", "exception", "post", "always")
    for kind in once:
        due = iter([hook.name for hook in getattr(chain, kind)])
        for step in trace.steps:
            if step.kind == kind and step.name not in due:  # `in` moves the iterator on
                return f"{step!r} is not where the order puts it: {[hook.name for hook in getattr(chain, kind)]}"
    return None


@final
class _Astray(BaseException):
    """Ends a replay; no exception hook takes it."""


@final
class _Replay:
    """Plays a call again: every hook, and the target, answers what it has answered."""

    def __init__(self, mount: MountPoint, chain: Chain, trace: Trace) -> None:
        self.mount = mount
        self.trace = trace
        self.shadow = Trace(trace.label)
        self.at = 0
        self.wrong: str | None = None
        plain = mount._code()
        emission = mount._get_site().signature.emission
        self.site = Site(mount.name, plain, lambda: mount.function, _find_nothing, emission)
        self.hooked = bool(chain.everything())
        self.around = chain.around
        self.chain = Chain(())
        for kind in KINDS:
            if kind != "around":
                setattr(self.chain, kind, tuple([self.double(hook) for hook in getattr(chain, kind)]))

    def play(self, values: tuple[object, ...]) -> str | None:
        """Play the call, and say in what it differs."""
        try:
            result: object = _law.run(self.chain, Call(self.site, values), self.inside)
            exc = None
        except _Astray:
            return self.wrong
        except BaseException as error:
            result, exc = None, error
        if self.wrong is None and self.at < len(self.trace.steps):
            return f"{self.trace.steps[self.at]!r} ran, and nothing should have"
        if self.wrong is None and not (_same(result, self.trace.result) and _same(exc, self.trace.exc)):
            return f"it should have {'raised ' + shortened(exc) if exc is not None else 'given ' + shortened(result)}"
        return self.wrong

    def double(self, hook: Hook) -> Hook:
        """Make a hook that answers what this one has answered, where its turn is."""
        double = copy.copy(hook)
        double.gate = double.guard = double.when = None
        double.flavour = "plain"
        if _is_conditional(hook):
            double.when, double.when_asks = (lambda: self.is_next(hook.kind, hook.name)), ()
        double.function = self.stand_in(hook)
        return _noting(double, self.site.signature.names, self.shadow)

    def stand_in(self, hook: Hook) -> Callable[..., object]:
        """Make a function that takes anything and answers what the hook has answered."""

        def stand_in(*_args: object, **_kwargs: object) -> object:
            return self.answer(hook)

        return stand_in

    def answer(self, hook: Hook) -> object:
        """Answer what the hook has answered, if it was its turn and it was given what it should be."""
        should = self.shadow.steps[-1]
        step = self.take(should.kind, should.name)
        for name, value in should.given.items():
            if name != "call" and not _same(value, step.given.get(name)):
                raise self.astray(f"{step!r} should have been given {name}={shortened(value)}")
        if hook.isolate and isinstance(step.raised, Exception):
            return None
        return _outcome(step)

    def is_next(self, kind: str, name: str) -> bool:
        """Say whether this is what ran next."""
        steps = self.trace.steps
        return self.at < len(steps) and (steps[self.at].kind, steps[self.at].name) == (kind, name)

    def take(self, kind: str, name: str) -> Step:
        """Take the next step, which must be this one."""
        if self.wrong is not None or not self.is_next(kind, name):
            steps = self.trace.steps
            instead = f"instead of {steps[self.at]!r}" if self.at < len(steps) else "at the end"
            raise self.astray(f"{kind} {name} should have run {instead}")
        self.at += 1
        return self.trace.steps[self.at - 1]

    def astray(self, wrong: str) -> _Astray:
        """Note the first thing that was wrong."""
        self.wrong = self.wrong or wrong
        return _Astray()

    # Inside the around hooks: how often each proceeded is read from the steps.

    def inside(self, *args: Any, **kwargs: Any) -> object:
        """Give what came of the around hooks and the target."""
        # Around hooks may have given it anything; and without hooks it is called as it was written, defaults left out.
        if self.hooked and not self.around:
            self.check_target(args, kwargs)
        return self.level(0)

    def check_target(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> None:
        """Check what the target was given."""
        if self.at < len(self.trace.steps) and self.trace.steps[self.at].kind == TARGET:
            step, signature = self.trace.steps[self.at], self.site.signature
            named = signature.names[: signature.positional]
            for name, value in [*zip(named, args, strict=False), *kwargs.items()]:
                if not _same(value, step.given.get(name)):
                    raise self.astray(f"{step!r} should have been given {name}={shortened(value)}")

    def level(self, depth: int) -> object:
        """Give what came of what is inside at this depth."""
        if depth == len(self.around):
            return _outcome(self.take(TARGET, self.mount.function.__name__))
        hook = self.around[depth]
        if _is_conditional(hook) and not self.is_next("around", hook.name):
            return self.level(depth + 1)
        step = self.take("around", hook.name)
        inner: Callable[[], object] | None = None
        while self.begins(depth + 1):
            inner = self.kept(depth + 1)
        if hook.flavour == "generator" and step.raised is None:
            if inner is None:
                raise HookAnswerError("it did not yield")
            if step.answer is None:
                return inner()
        return settled(self.site, "around", hook.function, _outcome(step))

    def kept(self, depth: int) -> Callable[[], object]:
        """Play what is inside, and keep what came of it."""
        try:
            result = self.level(depth)
        except _Astray:
            raise
        except BaseException as error:
            return _raiser(error)
        return lambda: result

    def begins(self, depth: int) -> bool:
        """Say whether the next step begins what is inside at this depth."""
        for hook in self.around[depth:]:
            if self.is_next("around", hook.name):
                return True
            if not _is_conditional(hook):
                return False
        return self.is_next(TARGET, self.mount.function.__name__)


def _find_nothing(_kind: str, _function: object) -> None:
    """Find no hook for messages: nobody reads those of a replay."""


def _raiser(error: BaseException) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


def _outcome(step: Step) -> Any:
    if step.raised is not None:
        raise step.raised
    return step.answer


def _same(one: Any, other: Any) -> bool:
    """Say whether two values are one object, looking into what calls make anew.

    That is the tuples and dicts in which arguments are handed on, and the list or the group that an event gives.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, ExceptionGroup):
        groups = cast("tuple[ExceptionGroup[Exception], ExceptionGroup[Exception]]", (one, other))
        return _same(groups[0].exceptions, groups[1].exceptions)
    if isinstance(one, (tuple, list)):
        pair = cast("tuple[Sequence[object], Sequence[object]]", (one, other))
        return len(pair[0]) == len(pair[1]) and all(map(_same, *pair))
    if isinstance(one, dict):
        first, second = cast("tuple[dict[str, object], dict[str, object]]", (one, other))
        return first.keys() == second.keys() and all(_same(value, second[key]) for key, value in first.items())
    return isinstance(one, HookAnswerError)  # made anew by whoever refuses the answer
