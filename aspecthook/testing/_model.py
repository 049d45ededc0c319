"""What the laws say, told naively: the order of a chain read aloud, and a call replayed by the plain interpreter.

The invariant: nothing here asks the code under test. The order is worked out from plain rows, not by `_order`; a call
that has happened is played again by the interpreter of law 1, with what each hook and the target answered.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from types import NoneType
from typing import Any, cast, final

from aspecthook._core.law import law as _law_async
from aspecthook._core.law import law_sync as _law
from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.asks import KINDS, RESERVED
from aspecthook._core.law.call import Call, Site
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.order import Chain
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookAnswerError

from ._calls import Given, values_of
from ._rows import Counts, Row, of_kind, ordered
from ._shortened import shortened
from ._streams import (
    CLOSE,
    DROP,
    NEXT,
    SEND,
    THROW,
    Resumption,
    aplayed,
    aresume,
    completed,
    is_astream,
    is_own,
    is_stream,
    played,
    resume,
)
from ._trace import TARGET, Proceeding, Step, Trace, _words, mapped, noting, place_of, with_proceed

# A call played again

_COUNTED = frozenset({"once", "times", "every", "reentrant"})


@final
@dataclass(frozen=True, eq=False)
class Played:
    """A call that has been made, and all that is needed to play it again."""

    mount: MountPoint
    rows: list[Row]  # the hooks that should act in the call, in the order in which they were added
    trace: Trace
    bound: tuple[object, ...]  # what a bound method passes by itself
    given: Given
    counts: Counts
    nested: dict[int, list[Played]]  # by the hook that has made them

    @cached_property
    def values(self) -> tuple[object, ...] | None:
        """What the parameters were given; None: it did not fit."""
        return values_of(self.mount, self.given, self.bound)

    @cached_property
    def chain(self) -> Chain:
        """The hooks in the order in which the laws say that they run."""
        return _chain(self.rows)


def differs(*calls: Played) -> str | None:
    """Say in what a traced call differs from what the laws say, if it does; or two that were made at once."""
    wrong = [one for one in map(_unfit, calls) if one is not None]
    if wrong:
        return wrong[0] or None
    for one in calls:
        one.counts.has_open_streams = one.counts.has_open_streams or any(map(_leaves_open, one.trace.steps))
    if not all(map(_is_exact, calls)):
        for one in calls:
            one.counts.forget()
        return next(filter(None, [_phases(one.chain, one.trace) for one in calls]), None)
    replays = [_Replay(one) for one in calls]
    with ExitStack() as stack:
        contexts = [stack.enter_context(_contexts(one.trace)) for one in calls]
        playing = [replay.playing() for replay in replays]
        while playing:  # in the order in which streams are read at once
            for turn in [*playing]:
                if next(turn, playing) is playing:
                    playing.remove(turn)
        found = next((replay.wrong for replay in replays if replay.wrong is not None), None)
        found = found or next(filter(None, (compare() for compare in contexts)), None)
    return found or next(filter(None, map(_changes, calls)), None)


def _unfit(played: Played) -> str | None:
    """Say what is wrong with a call whose arguments do not fit; empty: nothing; None: they do."""
    if played.values is not None:
        return None
    fails = not played.trace.steps and isinstance(played.trace.exc, TypeError)
    return "" if fails else "it ran, but its arguments do not fit"


def _leaves_open(step: Step) -> bool:
    """Whether a hook has not read a stream to its end that it was given by `proceed`, nor closed it."""
    last = {id(one.source): one for one in step._events if isinstance(one, Resumption) and one.source is not None}
    return any(one.came == "item" for one in last.values())


def _is_exact(played: Played) -> bool:
    """Say whether a call can be played again."""
    is_open = _is_plain(played.trace) and not _is_ambiguous(played.chain, played.counts)
    return is_open and not _is_beyond(played.mount, played.chain)


def _changes(played: Played) -> str | None:
    """Say which step was not given the arguments as pre hooks have left them, told without the library's own code."""
    mount, trace, values = played.mount, played.trace, played.values
    unfit = next((step for step in trace.steps if step._is_unfit), None)
    if unfit is not None:
        return f"{unfit!r} was not called with what it takes"
    if values is None or played.chain.around:  # these may have given it anything
        return None
    now: dict[str, object] = dict(zip(mount._get_site().signature.names, values, strict=True))
    result: object = _UNKNOWN
    for step in trace.steps:
        expected = now if step.kind not in ("on", "item") else {}  # an event may change what it tells on the way
        if step.kind == "post" and result is not _UNKNOWN:
            expected = {**{name: now[name] for name in now if name not in RESERVED}, "result": result}
        for name, value in step.given.items():
            is_meant = name in expected and (name not in RESERVED or step.kind == "post")
            if is_meant and not _same(value, expected[name]):
                return f"{step!r} should have been given {name}={shortened(expected[name])}"
        if step.kind == TARGET:
            result = step.answer
        elif step.kind in ("pre", "post") and type_of(step.answer) not in (Args, NoneType):
            result = cast("Return[object]", step.answer).value if type_of(step.answer) is Return else step.answer
        if step.kind == "pre" and type(step.answer) is Args:
            if not step.answer.changes.keys() <= now.keys():
                return None  # refused, unless the target takes any name
            now |= step.answer.changes
    return None


_UNKNOWN: Any = object()


def interpreted(
    mount: MountPoint,
    rows: list[Row],
    bound: tuple[object, ...],
    given: Given,
    counts: Counts,
    came: tuple[object, BaseException | None] | None,
) -> tuple[object, BaseException | None]:
    """Make a call by the interpreter of law 1, on the hooks themselves: give its result, or what it raised.

    Args:
        mount: The mount point.
        rows: The hooks that should act in the call.
        bound: What a bound method passes by itself.
        given: What the call is given.
        counts: How often the hooks have acted.
        came: What the target is to give or to raise; None: it is called.
    """
    values = values_of(mount, given, bound)
    if values is None:
        return None, TypeError()
    chain = mapped(_chain(rows), lambda hook: _counted(hook, counts))
    place = place_of(mount)
    original = place.original if place is not None and place.opened else mount.function

    def target(*args: Any, **kwargs: Any) -> object:
        if came is None:
            return original(*args, **kwargs)
        if came[1] is not None:
            raise came[1]
        return came[0]

    try:
        return _law.run(chain, Call(_site(mount), values), target), None
    except BaseException as error:
        return None, error


def _site(mount: MountPoint) -> Site:
    emission = mount._get_site().signature.emission
    return Site(mount.name, mount._code(), lambda: mount.function, _find_nothing, emission)


def _counted(hook: Hook, counts: Counts) -> Hook:
    if hook.guard is None and not hook.options.keys() & _COUNTED:
        return hook
    double = copy.copy(hook)
    double.guard = cast("Any", _Admission(counts, hook, lambda: False))
    return double


def _chain(rows: list[Row]) -> Chain:
    chain = Chain(())
    for kind in KINDS:
        order = ordered(of_kind(rows, kind))
        assert order is not None, "the hooks of a call have an order, or they would have been refused"
        setattr(chain, kind, tuple([cast("Hook", row.hook) for row in order]))
    return chain


def _is_plain(trace: Trace) -> bool:
    """Say whether the steps tell all that came of them, so that the call can be played again.

    Of what proceeds several times at once, nothing tells which steps are whose.
    """
    events = [event for step in trace.steps for event in step._events]
    ended = [event.came if isinstance(event, Resumption) else event.has_ended for event in [*events, *trace._resumed]]
    return trace._is_clear and all(ended)


def _is_ambiguous(chain: Chain, counts: Counts) -> bool:
    """Say whether a hook that may or may not have acted is called as another one is: nothing tells which it was."""
    names = Counter((hook.kind, hook.name) for hook in chain.everything())
    unknown = [hook for hook in chain.everything() if counts.is_unknown(hook)]
    if counts.has_open_streams:
        unknown += [hook for hook in chain.everything() if hook.options.get("reentrant") is False]
    gated = [hook for hook in chain.everything() if hook.gate is not None]
    return any(names[hook.kind, hook.name] > 1 for hook in [*unknown, *gated])


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


@contextmanager
def _contexts(trace: Trace) -> Generator[Callable[[], str | None]]:
    """Let exceptions be raised again; give what says whether they were chained as they are then, and put all back.

    Between two exceptions of this call there may be others, which a hook has handled by itself. Those with which an
    answer is refused are made anew.
    """
    errors = [step.raised for step in trace.steps]
    anew = (HookAnswerError, GeneratorExit)
    raised = {id(one): one for one in errors if one is not None and not isinstance(one, anew)}
    before = [(error, error.__context__, error.__traceback__) for error in raised.values()]

    def first(error: BaseException) -> BaseException | None:
        seen: set[int] = {id(error)}
        context = error.__context__
        while context is not None and id(context) not in raised and id(context) not in seen:
            seen.add(id(context))
            context = context.__context__
        return context if context is not None and id(context) in raised else None

    was = {key: first(error) for key, error in raised.items()}
    for error in raised.values():
        error.__context__ = None

    def compare() -> str | None:
        for key, error in raised.items():
            should = first(error)
            if was[key] is not should:
                return f"the __context__ of {shortened(error)} should be {shortened(should)}"
        return None

    try:
        yield compare
    finally:
        for error, context, traceback in before:
            error.__context__ = context
            error.__traceback__ = traceback


@final
class _Astray(BaseException):
    """Ends a replay; no exception hook takes it."""


@final
class _Admission:
    """Stands for the conditions of a hook that count."""

    reentrant = True  # the interpreter need not tell it when a run ends: `Counts.acting` says what is running

    def __init__(self, counts: Counts, hook: Hook, has_run: Callable[[], bool]) -> None:
        self.counts = counts
        self.hook = hook
        self.has_run = has_run  # what is believed where nothing is known

    def admit(self) -> bool:
        """Say whether the hook runs now."""
        admitted = self.counts.admits(self.hook)
        return self.has_run() if admitted is None else admitted


@final
class _Replay:
    """Plays a call again: every hook, and the target, answers what it has answered."""

    def __init__(self, played: Played) -> None:
        self.mount = played.mount
        self.values = played.values or ()
        self.trace = played.trace
        self.counts = played.counts
        self.nested = played.nested
        self.shadow = Trace(self.trace.label)
        self.at = 0
        self.asked = 0
        self.wrong: str | None = None
        self.is_over = False
        self.acting: list[object] = []
        self.site = _site(self.mount)
        self.style = self.site.signature.style
        self.hooked = bool(played.chain.everything())
        self.chain = mapped(played.chain, self.double)

    def playing(self) -> Generator[None]:
        """Play the call, and note in what it differs; halt after each time that a stream is resumed."""
        call = Call(self.site, self.values)
        try:
            if self.style == "generator":
                yield from self.read(_law.generate(self.chain, call, self.stream))
            elif self.style == "async generator":
                yield from self.read(_law_async.generate(self.chain, call, self.astream))
            else:
                self.call(call)
            if self.at < len(self.trace.steps):
                self.wrong = self.wrong or f"{self.trace.steps[self.at]!r} ran, and nothing should have"
            if self.asked < len(self.trace._asked):
                who = _who(self.trace._asked[self.asked])
                self.wrong = self.wrong or f"the `when` of {who} was asked, and should not have been"
        except _Astray:
            pass  # it is noted
        finally:
            while self.acting:  # those around streams that were never read
                self.counts.acting.remove(self.acting.pop())

    def call(self, call: Call) -> None:
        """Make the call, and compare its end."""
        result: object = None
        exc: BaseException | None = None
        try:
            if self.style == "coroutine":
                result = completed(_law_async.run(self.chain, call, self.atarget))
            else:
                result = _law.run(self.chain, call, self.target)
        except _Astray:
            raise
        except BaseException as error:
            exc = error
        if not (_same(result, self.trace.result) and _same(exc, self.trace.exc)):
            came = f"raised {shortened(exc)}" if exc is not None else f"given {shortened(result)}"
            # Unless a step ran too much: that is what is wrong then.
            self.wrong = self.wrong or (f"it should have {came}" if self.at == len(self.trace.steps) else None)

    def read(self, stream: Any) -> Generator[None]:
        """Read a stream as it was read, and compare what it gives each time."""
        try:
            if self.trace.exc is not None and not self.trace._resumed:
                raise self.astray("it should have given a stream")
            for number, noted in enumerate(self.trace._resumed, 1):
                self.resume(stream, noted, f"{noted.how} number {number}")
                if self.at != noted.until:
                    raise self.astray(self.misplaced(noted, number))
                yield
        finally:
            self.is_over = True
            with suppress(BaseException):  # it has ended, or what comes of it now is nobody's
                completed(stream.aclose()) if self.style == "async generator" else stream.close()

    def misplaced(self, noted: Resumption, number: int) -> str:
        """Say which step ran too early, or too late."""
        ran = self.trace.steps[min(self.at, noted.until)]
        when = "before" if self.at > noted.until else "after"
        return f"{ran!r} should have run {when} {noted.how} number {number} had come to its end"

    def resume(self, stream: Any, noted: Resumption, what: str) -> None:
        """Resume a stream as it was resumed, and compare what comes of it."""
        if self.style == "async generator":
            came, answer, raised = outcome_of(lambda: completed(aresume(stream, noted.how, noted.value)), noted)
        else:
            came, answer, raised = outcome_of(lambda: resume(stream, noted.how, noted.value), noted)
        self.compare_resumed(noted, came, answer, raised, what)

    def compare_resumed(
        self, noted: Resumption, came: str, answer: object, raised: BaseException | None, what: str
    ) -> None:
        """Compare what comes of a stream with what came of it."""
        if isinstance(raised, _Astray) or self.wrong is not None:
            raise _Astray
        if came != noted.came or not (
            _same(raised, noted.raised) if raised is not None else _same(answer, noted.answer)
        ):
            words = {"item": "given", "end": "ended with", "raised": "raised"}
            raise self.astray(f"{what} should have {words[came]} {shortened(raised or answer)}")

    def double(self, hook: Hook) -> Hook:
        """Make a hook that answers what this one has answered, where its turn is."""
        double = copy.copy(hook)
        double.guard = None
        if hook.options.keys() & _COUNTED:
            double.guard = cast("Any", _Admission(self.counts, hook, lambda: self.is_next(hook.kind, hook.name)))
        if hook.gate is not None:  # nobody notes what it says
            double.gate, double.gate_asks = (lambda: self.is_next(hook.kind, hook.name)), ()
            self.counts.known.pop(id(hook), None)
        if hook.when is not None:
            double.when, double.when_awaits = self.predicate, False
        is_async = self.style in ("coroutine", "async generator")
        is_generator = hook.flavour in ("generator", "async generator")
        double.flavour = "plain"
        if is_generator and not hook.proceeds:  # with one `yield`
            double.asks = (*hook.asks, ("=proceed", "proceed"))
        if hook.kind == "around" and "generator" in self.style:
            self.decide_later(hook, double)
        elif is_generator:
            double.flavour = "async" if is_async else "plain"
            double.function = self.aone_yield(hook) if is_async else self.one_yield(hook)
        elif is_async:
            double.flavour, double.function = "async", self.awaited(hook)
        else:
            double.function = self.stand_in(hook)
        return noting(double, self.site.signature, self.shadow)

    def predicate(self, *_args: object, **_kwargs: object) -> object:
        """Answer what a `when` has answered, if it was asked when and for what it should be."""
        return self.answer_of_when(self.shadow._asked[-1])

    def answer_of_when(self, should: Step) -> object:
        """Answer what a `when` has answered, which should have been asked now."""
        known = self.trace._asked[self.asked] if self.asked < len(self.trace._asked) else None
        if known is None or _who(known) != _who(should) or known._at != self.at:
            steps = self.trace.steps
            place = f"before {_who(steps[self.at])}" if self.at < len(steps) else "at the end"
            raise self.astray(f"the `when` of {_who(should)} should have been asked {place}")
        self.asked += 1
        if should.given:
            self.compare_given(f"the `when` of {_who(known)}", should, known)
        return _outcome(known)

    def stand_in(self, hook: Hook) -> Callable[..., object]:
        """Make a function that takes anything and does what the hook has done."""

        def stand_in(*args: Any, **kwargs: Any) -> object:
            with self.part(hook, args, kwargs) as part:
                for event in part.events:
                    part.act(event)
                return part.answered()

        return stand_in

    def awaited(self, hook: Hook) -> Callable[..., Awaitable[object]]:
        """Make a coroutine function that does what the hook has done."""

        async def stand_in(*args: Any, **kwargs: Any) -> object:
            with self.part(hook, args, kwargs) as part:
                for event in part.events:
                    await part.aact(event)
                answer = part.answered()
                is_result = any(answer is event.answer for event in part.events)
                # An async around hook may answer a coroutine, which has been awaited then.
                return _ready(answer) if hook.kind == "around" and not is_result else answer

        return stand_in

    # Hooks with one `yield`, and conditions on streams, are told here without the library's own code.

    def one_yield(self, hook: Hook) -> Callable[..., object]:
        """Make an around hook that does what the hook has done, which is a generator with one `yield`."""

        def one_yield(*args: Any, proceed: Callable[..., object], **kwargs: Any) -> object:
            with self.part(hook, args, kwargs) as part:
                part.come_to_its_yield()
                try:
                    result = proceed()
                except BaseException as error:
                    answer = part.go_on(THROW, error)
                    if answer is None:
                        raise
                    return answer
                answer = part.go_on(SEND, result)
                return Return(result) if answer is None else answer

        return one_yield

    def aone_yield(self, hook: Hook) -> Callable[..., Awaitable[object]]:
        """Make a coroutine function of such a hook."""

        async def one_yield(*args: Any, proceed: Callable[..., Any], **kwargs: Any) -> object:
            with self.part(hook, args, kwargs) as part:
                part.come_to_its_yield()
                try:
                    result = await proceed()
                except BaseException as error:
                    answer = part.go_on(THROW, error)
                    if answer is None:
                        raise
                    return _ready(answer)
                answer = part.go_on(SEND, result)
                return Return(result) if answer is None else _ready(answer)

        return one_yield

    def decide_later(self, hook: Hook, double: Hook) -> None:
        """Give a hook around a stream a function that decides by itself whether it acts, as the stream begins."""
        has_conditions = double.gate is not None or double.when is not None or double.guard is not None
        is_due, guard = double.gate, double.guard
        double.gate = double.gate_asks = double.when = double.when_asks = double.guard = None
        words = _words(double.asks, self.site.signature.names)

        def holds() -> bool:
            if is_due is not None and not is_due():
                return False
            if hook.when is not None and not self.answer_of_when(Step(hook.kind, hook.name, {}, self.at)):
                return False
            return guard is None or bool(guard.admit())

        def stream(*args: Any, **kwargs: Any) -> object:
            proceeds: list[Callable[..., Any]] = []
            with_proceed(words, args, kwargs, proceeds.append)
            should = self.shadow.steps[-1]
            if not has_conditions:
                return self.stream_of(hook, should, proceeds[0])
            make = partial(self.stream_of, hook, should, proceeds[0])
            return (_alazily if self.style == "async generator" else _lazily)(holds, make, proceeds[0])

        double.function = stream

    def stream_of(self, hook: Hook, should: Step, proceed: Callable[..., Any]) -> object:
        """Give a stream that does what that of the hook has done."""
        opened = partial(self.part_of, hook, should, proceed)
        if hook.flavour in ("generator", "async generator"):
            is_async = self.style == "async generator"
            if hook.proceeds:
                return (aplayed if is_async else played)(opened)
            return (_awithin if is_async else _within)(opened, proceed())  # opened before it begins itself
        with ExitStack() as stack:
            part = stack.enter_context(opened())
            while part.events and not is_own(part.events[0]):
                part.act(part.events.pop(0))
            answer = part.step.answer
            if not is_stream(answer) and not is_astream(answer):
                return part.answered()
            left = stack.pop_all()  # when the stream ends
            return (played if is_stream(answer) else aplayed)(lambda: _left(part, left))

    def part(self, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AbstractContextManager[_Part]:
        """Begin what a hook does, and end it."""
        proceeds: list[Callable[..., object]] = []
        if hook.proceeds:
            with_proceed(_words(hook.asks, self.site.signature.names), args, kwargs, proceeds.append)
        return self.part_of(hook, self.shadow.steps[-1], *proceeds)

    @contextmanager
    def part_of(self, hook: Hook, should: Step, *proceeds: Callable[..., object]) -> Generator[_Part]:
        """Begin what should be the step of a hook, and end it."""
        part = _Part(self, hook, self.begin(hook, should), proceeds)
        try:
            yield part
        finally:
            if hook in self.acting:
                self.acting.remove(hook)
                self.counts.acting.remove(hook)

    def begin(self, hook: Hook, should: Step) -> Step:
        """Begin what a hook does, if it was its turn and it was given what it should be."""
        step = self.take(should.kind, should.name)
        self.compare_given(repr(step), should, step)
        self.acting.append(hook)
        self.counts.acting.append(hook)
        for one in self.nested.pop(id(hook), ()):  # the calls that it makes before it does anything else
            wrong = differs(one)
            if wrong is not None:
                raise self.astray(f"in the call that {hook.name!r} makes, {wrong}")
        return step

    def compare_given(self, who: str, should: Step, step: Step) -> None:
        """Check what a hook or its predicate was given."""
        for name, value in should.given.items():
            if name != "call" and not _same(value, step.given.get(name)):
                raise self.astray(f"{who} should have been given {name}={shortened(value)}")
        for name in sorted(step.given.keys() - should.given.keys()):
            raise self.astray(f"{who} should not have been given {name!r}")
        if not _same(should._call, step._call):
            raise self.astray(f"{who} should see arguments, result and exception {shortened(should._call)} in `call`")

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

    def begin_target(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Part:
        """Begin what the target does, if it was given what it should be."""
        step, signature = self.take(TARGET, self.mount.function.__name__), self.site.signature
        if self.hooked:  # without hooks it is called as it was written, defaults left out
            named = signature.names[: signature.positional]
            for name, value in [*zip(named, args, strict=False), *kwargs.items()]:
                if not _same(value, step.given.get(name)):
                    raise self.astray(f"{step!r} should have been given {name}={shortened(value)}")
        return _Part(self, None, step, ())

    def target(self, *args: Any, **kwargs: Any) -> object:
        """Give what came of the target."""
        return self.begin_target(args, kwargs).answered()

    async def atarget(self, *args: Any, **kwargs: Any) -> object:
        """Give what came of a coroutine function."""
        return self.target(*args, **kwargs)

    def stream(self, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        """Do what the target has done, which is a generator."""
        return played(lambda: nullcontext(self.begin_target(args, kwargs)))

    def astream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        """Do what the target has done, which is an async generator."""
        return aplayed(lambda: nullcontext(self.begin_target(args, kwargs)))


@final
class _Part:
    """What one hook, or the target, has done in a call, to be done again."""

    def __init__(
        self, replay: _Replay, hook: Hook | None, step: Step, proceeds: Sequence[Callable[..., object]]
    ) -> None:
        self.replay = replay
        self.hook = hook
        self.step = step
        self.proceeds = proceeds  # one, if it has something inside
        self.events = [*step._events]
        self.resumed = [event for event in self.events if isinstance(event, Resumption)]
        self.streams: dict[int, Any] = {}

    @property
    def is_over(self) -> bool:
        """Whether the call has been played."""
        return self.replay.is_over

    def answered(self) -> object:
        """Answer what the hook has answered, or raise what it has raised."""
        step = self.step
        if step._is_pending:
            raise self.replay.astray(f"{_who(step)} answered an awaitable, which should have been awaited")
        if step.raised is None:
            return step.answer
        try:
            raise step.raised
        except BaseException as error:
            own = self.own_context()
            if own is not None:
                error.__context__ = own
            if self.hook is not None and self.hook.isolate and isinstance(error, Exception):
                return None  # here, so that nobody logs it a second time
            raise

    def own_context(self) -> BaseException | None:
        """Give what the hook was handling by itself when it raised, if that came from inside of it."""
        came = [one.value if isinstance(one, Resumption) and is_own(one) else one.raised for one in self.step._events]
        known = {id(one) for one in came if isinstance(one, BaseException) and one is not self.step.raised}
        context, seen = self.step._context, set[int]()
        while context is not None and id(context) not in known and id(context) not in seen:
            seen.add(id(context))
            context = context.__context__
        return context if context is not None and id(context) in known else None

    def end(self, last: Resumption) -> object:
        """Return what the stream returned, or raise what it raised."""
        if last.how == CLOSE and isinstance(last.raised, GeneratorExit):
            raise GeneratorExit
        self.answered()  # or it has raised
        return last.answer  # that of the step may be the stream itself

    def come_to_its_yield(self) -> None:
        """Do what comes before the one `yield`."""
        if self.resumed and self.resumed[0].came != "item":
            self.answered()  # or it has raised
            raise HookAnswerError("it has not come to its yield")

    def go_on(self, how: str, value: object) -> object:
        """Go on behind the one `yield`, and give what the hook answers then."""
        if self.is_over or isinstance(value, _Astray):
            raise _Astray
        event = self.resumed[1] if len(self.resumed) > 1 else None
        self.receive(event, CLOSE if isinstance(value, GeneratorExit) else how, value)
        if event is not None and event.came == "item":
            raise HookAnswerError("it has yielded twice")
        is_stop = isinstance(value, (StopIteration, StopAsyncIteration))
        if is_stop and getattr(self.step.raised, "__cause__", None) is value:  # Python lets none out of a generator
            return None
        return self.answered()

    def receive(self, event: Resumption | None, how: str, value: object) -> None:
        """Check that a stream is resumed as it was."""
        who = _who(self.step)
        sends = (NEXT, SEND)
        value = None if how == CLOSE else value
        is_alike = event is not None and (how == event.how or (how in sends and event.how in sends))
        if event is None or not is_alike or not _same(value, event.value):
            if self.hook is not None and not self.hook.proceeds:
                came = f"raised {shortened(value)}" if how in (THROW, CLOSE) else f"given {shortened(value)}"
                raise self.replay.astray(f"what is inside of {who} should have {came}")
            raise self.replay.astray(f"{who} should have {_RECEIVED[how]}{'' if value is None else shortened(value)}")
        if event.at != self.replay.at:
            when = "before" if event.at > self.replay.at else "after"
            near = self.replay.trace.steps[min(event.at, self.replay.at)]
            raise self.replay.astray(f"{who} should have {_RECEIVED[how].strip()} {when} {_who(near)} ran")

    def act(self, event: Proceeding | Resumption) -> None:
        """Do what the hook did, and compare what comes of it."""
        if isinstance(event, Resumption):
            stream = self.streams[id(event.source)]
            came = outcome_of(lambda: resume(stream, *_asked_of(event)), event)
            self.replay.compare_resumed(event, *came, f"what is inside of {_who(self.step)}")
            return
        try:
            result = self.proceeds[-1](*event.args, **event.kwargs)
        except _Astray:
            raise
        except BaseException as error:
            self.compare(event, None, error)
        else:
            self.compare(event, result, None)

    async def aact(self, event: Proceeding | Resumption) -> None:
        """Do it where it is awaited."""
        if isinstance(event, Resumption):
            stream = self.streams[id(event.source)]
            came = outcome_of(lambda: completed(aresume(stream, *_asked_of(event))), event)
            self.replay.compare_resumed(event, *came, f"what is inside of {_who(self.step)}")
            return
        made: Any = None
        try:
            made = self.proceeds[-1](*event.args, **event.kwargs)
            result = await made if self.replay.style == "coroutine" else made
        except _Astray:
            raise
        except BaseException as error:
            self.compare(event, None, error)
        else:
            self.compare(event, result, None)

    def compare(self, event: Proceeding, result: object, error: BaseException | None) -> None:
        """Check what came of what is inside of an around hook."""
        has_failed = error is not None or event.raised is not None
        if "generator" in self.replay.style and not has_failed:
            self.streams[id(event)] = result
        elif not (_same(error, event.raised) if has_failed else _same(result, event.answer)):
            came = f"raised {shortened(error)}" if error is not None else f"given {shortened(result)}"
            raise self.replay.astray(f"what is inside of {_who(self.step)} should have {came}")


def _asked_of(event: Resumption) -> tuple[str, object]:
    """Give what tells what comes of a stream that is closed, which `close` does not."""
    return (THROW, GeneratorExit()) if event.how == CLOSE else (event.how, event.value)


_RECEIVED = {NEXT: "been resumed", SEND: "been sent ", THROW: "been thrown ", CLOSE: "been closed"}


def outcome_of(resumed: Callable[[], object], event: Resumption) -> tuple[str, object, BaseException | None]:
    """Resume a stream, and give what comes of it as `Resumption` notes it."""
    try:
        answer = resumed()
    except StopIteration as stop:
        return "end", stop.value, None
    except StopAsyncIteration:
        return "end", None, None
    except BaseException as error:
        return "raised", None, error
    return "end" if event.how in (CLOSE, DROP) else "item", answer, None


def _lazily(holds: Callable[[], bool], make: Callable[[], Any], proceed: Callable[[], Any]) -> Generator[Any, Any, Any]:
    """Decide as a stream begins whether it is this one or what is inside of it."""
    made: Any = make() if holds() else proceed()
    return (yield from cast("Generator[Any, Any, Any]", made)) if is_stream(made) else made


async def _alazily(
    holds: Callable[[], bool], make: Callable[[], Any], proceed: Callable[[], Any]
) -> AsyncGenerator[Any, Any]:
    made = make() if holds() else proceed()
    step = made.asend(None)
    while True:
        try:
            item = await step
        except StopAsyncIteration:
            return
        try:
            step = made.asend((yield item))
        except BaseException as error:
            step = made.athrow(error)


def _within(
    opened: Callable[[], AbstractContextManager[_Part]], source: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Run a stream at the one `yield` of a hook."""
    with opened() as part:
        part.come_to_its_yield()
        try:
            result = yield from source
        except BaseException as error:
            answer = part.go_on(THROW, error)
            if answer is None:
                raise
            return answer
        answer = part.go_on(SEND, result)
        return Return(result) if answer is None else answer


async def _awithin(opened: Callable[[], AbstractContextManager[_Part]], source: Any) -> AsyncGenerator[Any, Any]:
    with opened() as part:
        part.come_to_its_yield()
        try:
            step = source.asend(None)
            while True:
                try:
                    item = await step
                except StopAsyncIteration:
                    break
                try:
                    step = source.asend((yield item))
                except GeneratorExit:
                    await source.aclose()
                    raise
                except BaseException as error:
                    step = source.athrow(error)
        except BaseException as error:
            answer = part.go_on(THROW, error)
            if type(answer) is Args:
                raise HookAnswerError("it has answered Args") from None
            if answer is None:
                raise
        else:
            if type(part.go_on(SEND, None)) is Args:
                raise HookAnswerError("it has answered Args")


@contextmanager
def _left(part: _Part, left: ExitStack) -> Generator[_Part]:
    with left:
        yield part


# Any: whatever it is.
async def _ready(answer: Any) -> Any:
    """Make a coroutine that gives this."""
    return answer


def _who(step: Step) -> str:
    return f"{step.kind} {step.name}"


def _find_nothing(_kind: str, _function: object) -> None:
    """Find no hook for messages: nobody reads those of a replay."""


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
    if type(one) in (RuntimeError, TypeError) and "generator" in str(one):  # Python's own, made anew each time
        return str(one) == str(other)
    return isinstance(one, (HookAnswerError, GeneratorExit))  # made anew by whoever refuses the answer, or closes
