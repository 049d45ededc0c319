"""A call played again by the interpreter of law 1: each hook, and the target, does what it has done.

The invariant: nothing here asks the code under test. What the interpreter asks of a hook must be what the hook was
asked, in the same order; the first thing that is not so ends the replay.

Async calls are played by the sync law too: what was awaited is known by now, so nothing waits. An async generator is
played as a generator that returns nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, cast, final

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.call import Call
from aspecthook._core.law.hook import Hook, Predicate
from aspecthook._errors import HookAnswerError
from aspecthook._values import shortened
from aspecthook.testing._mount import mapped
from aspecthook.testing._recording import given_of, labels, words_of
from aspecthook.testing._steps import TARGET
from tests.oracle import law as _law
from tests.oracle.calls import attempt
from tests.oracle.recording import (
    CLOSE,
    NEXT,
    SEND,
    THROW,
    Proceeding,
    Resumption,
    is_astream,
    is_own,
    is_stream,
    resume,
    with_proceed,
)
from tests.oracle.recording import NotedStep as Step
from tests.oracle.traced_call import COUNTED, Admission, TracedCall, same_object, site_of, step_name

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Astray(BaseException):
    """Ends a replay; no exception hook takes it."""


@final
class Replay:
    """Plays a call again: every hook, and the target, answers what it has answered."""

    def __init__(self, traced: TracedCall) -> None:
        self.mount = traced.mount
        self.trace = traced.trace
        self.counts = traced.counts
        self.nested = traced.nested
        self.at = 0
        self.asked = 0
        self.wrong: str | None = None
        self.is_over = False
        self.acting: list[object] = []
        self.site = site_of(self.mount)
        self.style = self.mount.site().signature.style
        self.hooked = bool(traced.chain.hooks)
        self.chain = mapped(traced.chain, self.double)

    def playing(self) -> Generator[None]:
        """Play the call, and note in what it differs; halt after each time that a stream is resumed."""
        call = Call(self.site, self.trace.values or ())
        try:
            if "generator" in self.style:
                yield from self.read(_law.generate(self.chain, call, self.stream))
            else:
                self.call(call)
            if self.at < len(self.trace.steps):
                self.wrong = self.wrong or f"{self.trace.steps[self.at]!r} ran, and nothing should have"
            if self.asked < len(self.trace.asked):
                who = step_name(self.trace.asked[self.asked])
                self.wrong = self.wrong or f"the `when` of {who} was asked, and should not have been"
        except Astray:
            pass  # it is noted
        finally:
            while self.acting:  # those around streams that were never read
                self.counts.acting.remove(self.acting.pop())

    def call(self, call: Call) -> None:
        """Make the call, and compare its end."""
        result, exc = attempt(lambda: _law.run(self.chain, call, self.target))
        if isinstance(exc, Astray):
            raise exc
        if self.style == "coroutine" and isinstance(exc, StopIteration):
            exc = RuntimeError("coroutine raised StopIteration")  # PEP 479
        if not (same_object(result, self.trace.result) and same_object(exc, self.trace.exc)):
            came = f"raised {shortened(exc)}" if exc is not None else f"returned {shortened(result)}"
            # Unless a step ran too much: that is what is wrong then.
            self.wrong = self.wrong or (f"it should have {came}" if self.at == len(self.trace.steps) else None)

    def read(self, stream: Generator[Any, Any, Any]) -> Generator[None]:
        """Read a stream as it was read, and compare what comes of it each time."""
        try:
            if self.trace.exc is not None and not self.trace.resumed:
                raise self.astray("it should have returned a stream")
            for number, noted in enumerate(self.trace.resumed, 1):
                what = f"{noted.how} number {number}"
                self.resume(stream, noted, noted.how, noted.value, what)
                if self.at != noted.until:
                    ran = self.trace.steps[min(self.at, noted.until)]
                    when = "before" if self.at > noted.until else "after"
                    raise self.astray(f"{ran!r} should have run {when} {what} had come to its end")
                yield
        finally:
            self.is_over = True
            with suppress(BaseException):  # it has ended, or what comes of it now is nobody's
                stream.close()

    def resume(self, stream: Any, noted: Resumption, how: str, value: object, what: str) -> None:
        """Resume a stream as it was resumed, and compare what comes of it."""
        came = "item"
        answer: object = None
        raised: BaseException | None = None
        try:
            answer = resume(stream, how, value)
        except StopIteration as stop:
            came, answer = "end", stop.value
        except StopAsyncIteration:
            came, raised = "raised", RuntimeError("generator raised StopAsyncIteration")  # PEP 479
        except BaseException as error:
            came, raised = "raised", error
        if came == "item" and noted.how == CLOSE:
            came = "end"
        if came == "end" and self.style == "async generator":
            answer = None
        if isinstance(raised, Astray) or self.wrong is not None:
            raise Astray
        is_same = same_object(raised, noted.raised) if raised is not None else same_object(answer, noted.answer)
        if came != noted.came or not is_same:
            words = {"item": "yielded", "end": "ended with", "raised": "raised"}
            raise self.astray(f"{what} should have {words[came]} {shortened(raised or answer)}")

    def double(self, hook: Hook) -> Hook:
        """Make a hook that answers what this one has answered, where its turn is."""
        double = copy.copy(hook)
        double.guard = None
        if hook.options.keys() & COUNTED:
            double.guard = cast("Any", Admission(self.counts, hook, lambda: self.is_next(hook.kind, hook.name)))
        if hook.gate is not None:  # what it answers is not recorded
            double.gate = Predicate(lambda: self.is_next(hook.kind, hook.name))
            self.counts.known.pop(id(hook), None)
        if hook.when is not None:
            double.when = self.predicate(hook, hook.when)
        double.style = "function"
        if not hook.proceeds and hook.kind == "around":  # with one `yield`
            double.asks = (*hook.asks, ("=proceed", "proceed"))
        if hook.kind == "around" and "generator" in self.style:
            self.decide_later(hook, double)
        else:
            double.function = self.stand_in(hook)
        return double

    def predicate(self, hook: Hook, when: Predicate) -> Predicate:
        """Make a `when` that answers what that of the hook has answered."""
        words = words_of(when.asks, self.site.signature.names)

        def predicate(*args: Any, **kwargs: Any) -> object:
            return self.answer_of_when(Step(hook.kind, hook.name, given_of(words, args, kwargs)))

        return when._replace(holds=predicate)

    def answer_of_when(self, should: Step) -> object:
        """Answer what a `when` has answered, which should have been asked now."""
        known = self.trace.asked[self.asked] if self.asked < len(self.trace.asked) else None
        if known is None or step_name(known) != step_name(should) or known.at != self.at:
            steps = self.trace.steps
            place = f"before {step_name(steps[self.at])}" if self.at < len(steps) else "at the end"
            raise self.astray(f"the `when` of {step_name(should)} should have been asked {place}")
        self.asked += 1
        if should.given:
            self.compare_given(f"the `when` of {step_name(known)}", should, known)
        if known.raised is not None:
            raise known.raised
        return known.answer

    def parts_of(self, hook: Hook) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[partial[Part], list[Any]]]:
        """Return what reads the arguments of a hook: as what begins its part, and the `proceed` of an around hook."""
        words, shown = words_of(hook.asks, self.site.signature.names), labels(hook, self.site.signature.names)

        def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[partial[Part], list[Any]]:
            proceeds: list[Any] = []
            if hook.kind == "around":
                with_proceed(words, args, kwargs, proceeds.append)
            should = Step(hook.kind, hook.name, given_of(shown, args, kwargs))
            return partial(self.begin, hook, should, proceeds), proceeds

        return read

    def stand_in(self, hook: Hook) -> Callable[..., object]:
        """Make a function that takes anything and does what the hook has done."""
        read = self.parts_of(hook)

        def stand_in(*args: Any, **kwargs: Any) -> object:
            opened, _ = read(args, kwargs)
            with opened() as part:
                return part.answer_with_one_yield() if hook.kind == "around" and not hook.proceeds else part.answer()

        return stand_in

    # Conditions on streams, and hooks with one `yield`, are written here without the library's own code.

    def decide_later(self, hook: Hook, double: Hook) -> None:
        """Make the double of a hook around a stream, which decides as the stream begins whether it acts."""
        has_conditions = double.gate is not None or double.when is not None or double.guard is not None
        gate, guard = double.gate, double.guard
        double.gate = double.when = double.guard = None
        read = self.parts_of(hook)

        def holds() -> bool:
            if gate is not None and not gate.holds():
                return False
            if hook.when is not None and not self.answer_of_when(Step(hook.kind, hook.name, {})):
                return False
            return guard is None or bool(guard.admit())

        def lazily(make: Callable[[], Any], proceed: Callable[[], Any]) -> Generator[Any, Any, Any]:
            made: Any = make() if holds() else proceed()
            return (yield from cast("Generator[Any, Any, Any]", made)) if is_stream(made) else made

        def stream(*args: Any, **kwargs: Any) -> object:
            opened, (proceed,) = read(args, kwargs)
            make = partial(self.stream_of, hook, opened, proceed)
            return lazily(make, proceed) if has_conditions else make()

        double.function = stream

    def stream_of(self, hook: Hook, opened: Callable[[], Part], proceed: Callable[..., Any]) -> object:
        """Return a stream that does what that of the hook has done."""
        if hook.style in ("generator", "async generator"):
            return played(opened) if hook.proceeds else within(opened, proceed)  # opened before it begins itself
        with ExitStack() as stack:
            part = stack.enter_context(opened())
            while part.events and not is_own(part.events[0]):
                part.act(part.events.pop(0))
            answer = part.step.answer
            if (is_astream if self.style == "async generator" else is_stream)(answer):
                stack.pop_all()  # it is left when the stream ends
                return played(lambda: part)
            if self.style == "async generator" and part.step.raised is None:
                raise HookAnswerError("it has answered no stream")
            return part.answered()

    def begin(self, hook: Hook, should: Step, proceeds: Sequence[Callable[..., object]]) -> Part:
        """Begin what a hook does, if it was its turn and it was given what it should be."""
        step = self.take(should.kind, should.name)
        self.compare_given(repr(step), should, step)
        self.acting.append(hook)
        self.counts.acting.append(hook)
        for check in self.nested.pop(id(hook), ()):  # the calls that it makes before it does anything else
            wrong = check()
            if wrong is not None:
                raise self.astray(f"in the call that {hook.name!r} makes, {wrong}")
        return Part(self, hook, step, proceeds)

    def compare_given(self, who: str, should: Step, step: Step) -> None:
        """Check what a hook or its predicate was given."""
        for name, value in should.given.items():
            if name != "call" and not same_object(value, step.given.get(name)):
                raise self.astray(f"{who} should have been given {name}={shortened(value)}")
        for name in sorted(step.given.keys() - should.given.keys()):
            raise self.astray(f"{who} should not have been given {name!r}")
        if not same_object(should.call, step.call):
            raise self.astray(f"{who} should see arguments, result and exception {shortened(should.call)} in `call`")

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

    def stream(self, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        """Do what the target has done, which is a generator, sync or async."""
        return played(partial(self.begin_target, args, kwargs))


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
        self.events = [*step.events]
        self.resumed = [event for event in self.events if isinstance(event, Resumption)]
        self.streams: dict[int, Any] = {}

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *_: object) -> None:
        if self.hook in self.replay.acting:
            self.replay.acting.remove(self.hook)
            self.replay.counts.acting.remove(self.hook)

    def answer(self) -> object:
        """Do what the hook has done, and answer what it has answered."""
        for event in self.events:
            self.act(event)
        return self.answered()

    def answer_with_one_yield(self) -> object:
        """Do what a hook with one `yield` has done: it proceeds there."""
        self.come_to_its_yield()
        try:
            result = self.proceeds[-1]()
        except BaseException as error:
            answer = self.go_on(THROW, error)
            if answer is None:
                raise
            return answer
        answer = self.go_on(SEND, result)
        return Return(result) if answer is None else answer

    def answered(self) -> object:
        """Answer what the hook has answered, or raise what it has raised."""
        step = self.step
        if step.is_pending:
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
        came = [one.value if isinstance(one, Resumption) and is_own(one) else one.raised for one in self.step.events]
        known = {id(one) for one in came if isinstance(one, BaseException) and one is not self.step.raised}
        context, seen = self.step.context, set[int]()
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
        if self.replay.is_over or isinstance(value, Astray):
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
        what = f"what is inside of {step_name(self.step)}"
        if isinstance(event, Resumption):
            # `close` would hide what comes of it.
            how, value = (THROW, GeneratorExit()) if event.how == CLOSE else (event.how, event.value)
            self.replay.resume(self.streams[id(event.source)], event, how, value, what)
            return
        result, raised = attempt(lambda: self.proceeds[-1](*event.args, **event.kwargs))
        if isinstance(raised, Astray):
            raise raised
        has_failed = raised is not None or event.raised is not None
        if "generator" in self.replay.style and not has_failed:
            self.streams[id(event)] = result
        elif not (same_object(raised, event.raised) if has_failed else same_object(result, event.answer)):
            came = f"raised {shortened(raised)}" if raised is not None else f"returned {shortened(result)}"
            raise self.replay.astray(f"{what} should have {came}")


_RECEIVED = {NEXT: "been resumed", SEND: "been sent ", THROW: "been thrown ", CLOSE: "been closed"}


def played(opened: Callable[[], Part]) -> Generator[Any, Any, Any]:
    """Do again what a generator has done."""
    with opened() as part:
        first: Any = next(iter(part.events), None)
        part.receive(first, NEXT, None)
        last: Resumption = first
        for event in _following(part.events, last):
            if event is not None and not is_own(event):
                part.act(event)
                continue
            try:
                sent = yield last.answer
            except BaseException as error:
                if part.replay.is_over:
                    raise
                part.receive(event, CLOSE if isinstance(error, GeneratorExit) else THROW, error)
            else:
                part.receive(event, NEXT if sent is None else SEND, sent)
            last = cast("Resumption", event)
        return part.end(last)


def _following(events: Sequence[Any], last: Resumption) -> Iterator[Any]:
    for event in events[1:]:
        yield event
        last = event if is_own(event) else last
    if last.came == "item":
        yield None  # it was never resumed after that


def within(opened: Callable[[], Part], proceed: Callable[[], Any]) -> Generator[Any, Any, Any]:
    """Run a stream at the one `yield` of a hook."""
    with opened() as part:
        part.come_to_its_yield()
        try:
            result = yield from proceed()
        except BaseException as error:
            answer = part.go_on(THROW, error)
            if answer is None:
                raise
        else:
            answer = part.go_on(SEND, result)
            answer = Return(result) if answer is None else answer
        # An async generator returns nothing, and `Args` are refused all the same.
        return answer if part.replay.style == "generator" or type(answer) is Args else None
