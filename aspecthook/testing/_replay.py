"""A call played again by the interpreter of law 1: each hook, and the target, does what it has done.

The invariant: nothing here asks the code under test. What the interpreter asks of a hook must be what the hook was
asked, in the same order; the first thing that is not so ends the replay.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, cast, final

from aspecthook._core.law import law as _law_async
from aspecthook._core.law import law_sync as _law
from aspecthook._core.law.answers import Return
from aspecthook._core.law.call import Call
from aspecthook._core.law.hook import Hook
from aspecthook._errors import HookAnswerError

from ._noting import mapped, noting, with_proceed, words_of
from ._played import COUNTED, Admission, Played, same_object, site_of, step_name
from ._played_streams import alazily, aplayed, asked_of, awithin, lazily, outcome_of, played, within
from ._shortened import shortened
from ._steps import TARGET, Proceeding, Step, Trace
from ._streams import CLOSE, NEXT, SEND, THROW, Resumption, aresume, completed, is_astream, is_own, is_stream, resume


@final
class Astray(BaseException):
    """Ends a replay; no exception hook takes it."""


@final
class Replay:
    """Plays a call again: every hook, and the target, answers what it has answered."""

    def __init__(self, played: Played, differs: Callable[..., str | None]) -> None:
        self.differs = differs
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
        self.site = site_of(self.mount)
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
                who = step_name(self.trace._asked[self.asked])
                self.wrong = self.wrong or f"the `when` of {who} was asked, and should not have been"
        except Astray:
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
        except Astray:
            raise
        except BaseException as error:
            exc = error
        if not (same_object(result, self.trace.result) and same_object(exc, self.trace.exc)):
            came = f"raised {shortened(exc)}" if exc is not None else f"returned {shortened(result)}"
            # Unless a step ran too much: that is what is wrong then.
            self.wrong = self.wrong or (f"it should have {came}" if self.at == len(self.trace.steps) else None)

    def read(self, stream: Any) -> Generator[None]:
        """Read a stream as it was read, and compare what comes of it each time."""
        try:
            if self.trace.exc is not None and not self.trace._resumed:
                raise self.astray("it should have returned a stream")
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
        """Return which step ran too early, or too late."""
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
        if isinstance(raised, Astray) or self.wrong is not None:
            raise Astray
        if came != noted.came or not (
            same_object(raised, noted.raised) if raised is not None else same_object(answer, noted.answer)
        ):
            words = {"item": "yielded", "end": "ended with", "raised": "raised"}
            raise self.astray(f"{what} should have {words[came]} {shortened(raised or answer)}")

    def double(self, hook: Hook) -> Hook:
        """Make a hook that answers what this one has answered, where its turn is."""
        double = copy.copy(hook)
        double.guard = None
        if hook.options.keys() & COUNTED:
            double.guard = cast("Any", Admission(self.counts, hook, lambda: self.is_next(hook.kind, hook.name)))
        if hook.gate is not None:  # what it answers is not recorded
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
        if known is None or step_name(known) != step_name(should) or known._at != self.at:
            steps = self.trace.steps
            place = f"before {step_name(steps[self.at])}" if self.at < len(steps) else "at the end"
            raise self.astray(f"the `when` of {step_name(should)} should have been asked {place}")
        self.asked += 1
        if should.given:
            self.compare_given(f"the `when` of {step_name(known)}", should, known)
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

    # Hooks with one `yield`, and conditions on streams, are written here without the library's own code.

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
        """Make the double of a hook around a stream, which decides as the stream begins whether it acts."""
        has_conditions = double.gate is not None or double.when is not None or double.guard is not None
        is_due, guard = double.gate, double.guard
        double.gate = double.gate_asks = double.when = double.when_asks = double.guard = None
        words = words_of(double.asks, self.site.signature.names)

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
            return (alazily if self.style == "async generator" else lazily)(holds, make, proceeds[0])

        double.function = stream

    def stream_of(self, hook: Hook, should: Step, proceed: Callable[..., Any]) -> object:
        """Return a stream that does what that of the hook has done."""
        opened = partial(self.part_of, hook, should, proceed)
        if hook.flavour in ("generator", "async generator"):
            is_async = self.style == "async generator"
            if hook.proceeds:
                return (aplayed if is_async else played)(opened)
            return (awithin if is_async else within)(opened, proceed())  # opened before it begins itself
        with ExitStack() as stack:
            part = stack.enter_context(opened())
            while part.events and not is_own(part.events[0]):
                part.act(part.events.pop(0))
            answer = part.step.answer
            if not is_stream(answer) and not is_astream(answer):
                return part.answered()
            left = stack.pop_all()  # when the stream ends
            return (played if is_stream(answer) else aplayed)(lambda: _left(part, left))

    def part(self, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AbstractContextManager[Part]:
        """Begin what a hook does, and end it."""
        proceeds: list[Callable[..., object]] = []
        if hook.proceeds:
            with_proceed(words_of(hook.asks, self.site.signature.names), args, kwargs, proceeds.append)
        return self.part_of(hook, self.shadow.steps[-1], *proceeds)

    @contextmanager
    def part_of(self, hook: Hook, should: Step, *proceeds: Callable[..., object]) -> Generator[Part]:
        """Begin what should be the step of a hook, and end it."""
        part = Part(self, hook, self.begin(hook, should), proceeds)
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
            wrong = self.differs(one)
            if wrong is not None:
                raise self.astray(f"in the call that {hook.name!r} makes, {wrong}")
        return step

    def compare_given(self, who: str, should: Step, step: Step) -> None:
        """Check what a hook or its predicate was given."""
        for name, value in should.given.items():
            if name != "call" and not same_object(value, step.given.get(name)):
                raise self.astray(f"{who} should have been given {name}={shortened(value)}")
        for name in sorted(step.given.keys() - should.given.keys()):
            raise self.astray(f"{who} should not have been given {name!r}")
        if not same_object(should._call, step._call):
            raise self.astray(f"{who} should see arguments, result and exception {shortened(should._call)} in `call`")

    def is_next(self, kind: str, name: str) -> bool:
        """Whether this is what ran next."""
        steps = self.trace.steps
        return self.at < len(steps) and (steps[self.at].kind, steps[self.at].name) == (kind, name)

    def take(self, kind: str, name: str) -> Step:
        """Return the next step, which must be this one."""
        if self.wrong is not None or not self.is_next(kind, name):
            steps = self.trace.steps
            instead = f"instead of {steps[self.at]!r}" if self.at < len(steps) else "at the end"
            raise self.astray(f"{kind} {name} should have run {instead}")
        self.at += 1
        return self.trace.steps[self.at - 1]

    def astray(self, wrong: str) -> Astray:
        """Record the first difference, and return what ends the replay."""
        self.wrong = self.wrong or wrong
        return Astray()

    def begin_target(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Part:
        """Begin what the target does, if it was given what it should be."""
        step, signature = self.take(TARGET, self.mount.function.__name__), self.site.signature
        if self.hooked:  # without hooks it is called as it was written, defaults left out
            named = signature.names[: signature.positional]
            for name, value in [*zip(named, args, strict=False), *kwargs.items()]:
                if not same_object(value, step.given.get(name)):
                    raise self.astray(f"{step!r} should have been given {name}={shortened(value)}")
        return Part(self, None, step, ())

    def target(self, *args: Any, **kwargs: Any) -> object:
        """Return what the target returned, or raise what it raised."""
        return self.begin_target(args, kwargs).answered()

    async def atarget(self, *args: Any, **kwargs: Any) -> object:
        """Return what a coroutine function returned, or raise what it raised."""
        return self.target(*args, **kwargs)

    def stream(self, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        """Do what the target has done, which is a generator."""
        return played(lambda: nullcontext(self.begin_target(args, kwargs)))

    def astream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        """Do what the target has done, which is an async generator."""
        return aplayed(lambda: nullcontext(self.begin_target(args, kwargs)))


@final
class Part:
    """What one hook, or the target, has done in a call, to be done again."""

    def __init__(
        self, replay: Replay, hook: Hook | None, step: Step, proceeds: Sequence[Callable[..., object]]
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
            raise self.replay.astray(f"{step_name(step)} answered an awaitable, which should have been awaited")
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
        """Return the exception that the hook was handling when it raised, if it came from inside of the hook."""
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
        """Continue after the one `yield`, and return what the hook answers then."""
        if self.is_over or isinstance(value, Astray):
            raise Astray
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
        who = step_name(self.step)
        sends = (NEXT, SEND)
        value = None if how == CLOSE else value
        is_alike = event is not None and (how == event.how or (how in sends and event.how in sends))
        if event is None or not is_alike or not same_object(value, event.value):
            if self.hook is not None and not self.hook.proceeds:
                came = f"raised {shortened(value)}" if how in (THROW, CLOSE) else f"given {shortened(value)}"
                raise self.replay.astray(f"what is inside of {who} should have {came}")
            raise self.replay.astray(f"{who} should have {_RECEIVED[how]}{'' if value is None else shortened(value)}")
        if event.at != self.replay.at:
            when = "before" if event.at > self.replay.at else "after"
            near = self.replay.trace.steps[min(event.at, self.replay.at)]
            raise self.replay.astray(f"{who} should have {_RECEIVED[how].strip()} {when} {step_name(near)} ran")

    def act(self, event: Proceeding | Resumption) -> None:
        """Do what the hook did, and compare what comes of it."""
        if isinstance(event, Resumption):
            stream = self.streams[id(event.source)]
            came = outcome_of(lambda: resume(stream, *asked_of(event)), event)
            self.replay.compare_resumed(event, *came, f"what is inside of {step_name(self.step)}")
            return
        try:
            result = self.proceeds[-1](*event.args, **event.kwargs)
        except Astray:
            raise
        except BaseException as error:
            self.compare(event, None, error)
        else:
            self.compare(event, result, None)

    async def aact(self, event: Proceeding | Resumption) -> None:
        """Do it where it is awaited."""
        if isinstance(event, Resumption):
            stream = self.streams[id(event.source)]
            came = outcome_of(lambda: completed(aresume(stream, *asked_of(event))), event)
            self.replay.compare_resumed(event, *came, f"what is inside of {step_name(self.step)}")
            return
        made: Any = None
        try:
            made = self.proceeds[-1](*event.args, **event.kwargs)
            result = await made if self.replay.style == "coroutine" else made
        except Astray:
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
        elif not (same_object(error, event.raised) if has_failed else same_object(result, event.answer)):
            came = f"raised {shortened(error)}" if error is not None else f"returned {shortened(result)}"
            raise self.replay.astray(f"what is inside of {step_name(self.step)} should have {came}")


_RECEIVED = {NEXT: "been resumed", SEND: "been sent ", THROW: "been thrown ", CLOSE: "been closed"}


@contextmanager
def _left(part: Part, left: ExitStack) -> Generator[Part]:
    with left:
        yield part


# Any: whatever it is.
async def _ready(answer: Any) -> Any:
    """Make a coroutine that returns this."""
    return answer


def _outcome(step: Step) -> Any:
    if step.raised is not None:
        raise step.raised
    return step.answer
