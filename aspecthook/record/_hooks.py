"""The hooks that record: one pre and one always hook for each function, which note a begin and an end.

They are made for one function each, so that they need not find out which it is; the cheapest that will do. Around
coroutines and generators there is a third, which notes their turns.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from types import coroutine

from aspecthook._core.law.call import Call
from aspecthook._core.law.hook import Maker, Owner
from aspecthook._core.law.kinds import Kind
from aspecthook._core.mount.point import MountPoint
from aspecthook._hints import Any, cast, final
from aspecthook._watching import current, failure, is_watched
from aspecthook.weave._steps import AsyncSteps

from ._calls import Function
from ._recorder import CLOCK, End, RecordedTurns, Recorder

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


# Before and after all hooks that users add.
_FIRST, _LAST = -1, 101


@final
class _Recording(Maker):
    """A hook that is made for each function of some styles."""

    def __init__(
        self, kind: Kind, make: Callable[[MountPoint], Callable[..., Any]], priority: int, *, turns: bool = False
    ) -> None:
        super().__init__(make)
        self.kind = kind
        self.priority = priority
        self._make = make
        self._turns = turns

    def fits(self, mount: Owner) -> bool:
        """Whether it is for such a function: the hook that sees turns is for those that run in turns."""
        return not self._turns or mount.site().signature.style != "function"

    def make(self, mount: Owner, who: object) -> Callable[..., Any]:  # noqa: ARG002  # no message is needed
        """Make the hook of one function."""
        return self._make(cast("MountPoint", mount))


@final
class Hooks:
    """Makes the hooks of one recorder.

    Args:
        recorder: Where they note what happens.
        arguments: Whether arguments and results are kept.
    """

    def __init__(self, recorder: Recorder, *, arguments: bool) -> None:
        self._recorder = recorder
        self._arguments = arguments
        self._functions: weakref.WeakKeyDictionary[MountPoint, Function] = weakref.WeakKeyDictionary()
        self._key = f"tape {id(recorder)}"  # in the `state` of a call that has turns: the recorded one
        self.pre = _Recording("pre", self._pre, _FIRST)
        self.around = _Recording("around", self._around, _FIRST, turns=True)
        self.always = _Recording("always", self._always, _LAST)

    def _function(self, mount: MountPoint) -> Function:
        found = self._functions.get(mount)
        if found is None:
            site = mount.site()
            file, line = site.definition() or (None, None)
            found = self._functions[mount] = Function(site.label, file, line, site)
        return found

    def _pre(self, mount: MountPoint) -> Callable[..., None]:
        function, signature = self._function(mount), mount.site().signature
        if signature.style != "function":
            return self._begin_with_turns(function)
        if self._recorder.live:
            return _live_begin(self._recorder, function, arguments=self._arguments)
        if not self._arguments:
            return _timed_begin(self._recorder, function)
        named = signature.regular > signature.positional or signature.varkw is not None
        return (_begin_named if named else _begin)(self._recorder, function)

    def _always(self, mount: MountPoint) -> Callable[..., None]:
        function, style = self._function(mount), mount.site().signature.style
        if style != "function":
            return self._end_with_turns(function, style)
        end = End(function)
        if self._recorder.live:
            return _live_end(self._recorder, end, arguments=self._arguments)
        return (_end if self._arguments else _timed_end)(self._recorder, end)

    # Hooks of functions with turns, which find their call in `call.state`

    def _begin_with_turns(self, function: Function) -> Callable[[Call], None]:
        recorder, key, keep = self._recorder, self._key, self._arguments

        def begin(call: Call) -> None:
            strand = recorder.here.strand
            if not strand.busy and is_watched():
                # Known before it is noted: a RecursionError may come in between, and then its end is to be noted.
                recorded = call.state[key] = recorder.new(function, call.args, call.kwargs, keep=keep)
                recorder.note_turn(strand, recorded, "begin")

        return begin

    def _end_with_turns(self, function: Function, style: str) -> Callable[..., None]:
        recorder, key, keep = self._recorder, self._key, self._arguments

        def end(call: Call, result: object, exc: BaseException | None) -> None:
            strand = recorder.here.strand
            recorded = call.state.get(key)
            if strand.busy or (recorded is None and not is_watched()):
                return
            if recorded is None:  # an earlier hook has ended the call before it was seen to begin
                recorded = call.state[key] = recorder.new(function, call.args, call.kwargs, keep=keep)
                recorder.note_turn(strand, recorded, "begin")
            if not recorded.ended:
                recorder.note_end(strand, recorded, result if keep else None, failure(style, exc))

        return end

    def _around(self, mount: MountPoint) -> Callable[..., Any]:
        recorder, key = self._recorder, self._key

        def turns(call: Call) -> RecordedTurns | None:
            recorded = call.state.get(key)
            return None if recorded is None else RecordedTurns(recorder, recorded)

        def generator(call: Call, proceed: Callable[[], Any]) -> Any:
            seen = turns(call)
            return proceed() if seen is None else _driven(seen, proceed())

        async def of_coroutine(call: Call, proceed: Callable[[], Any]) -> Any:
            seen, source = turns(call), proceed()
            # Of what is awaited and is no coroutine, such as a future, there are no turns.
            return await (_awaited(seen, source) if seen is not None and hasattr(source, "send") else source)

        def async_generator(call: Call, proceed: Callable[[], Any]) -> Any:
            seen = turns(call)
            if seen is None:
                return proceed()

            async def step(made: Callable[..., Any], *args: Any) -> Any:
                return await _awaited(seen, made(*args))

            return AsyncSteps(proceed(), step)

        style = mount.site().signature.style
        return {"generator": generator, "coroutine": of_coroutine}.get(style, async_generator)


def _driven(turns: RecordedTurns, source: Any) -> Generator[Any, Any, Any]:
    """Drive a generator, or a coroutine, as ``yield from`` does (PEP 380)."""
    step, sent = source.send, None
    while True:
        turns.enter()
        try:
            item = step(sent)
        except StopIteration as stop:
            return stop.value
        finally:
            sent = None  # else the exception that was thrown in and this frame would keep each other alive
            turns.leave()
        try:
            sent = yield item
        except GeneratorExit:
            turns.enter()
            try:
                source.close()
            finally:
                turns.leave()
            raise
        except BaseException as error:
            step, sent = source.throw, error
        else:
            step = source.send


_awaited: Callable[[RecordedTurns, Any], Any] = coroutine(_driven)


# The hooks of plain functions. What they need is in their cells: looking it up would cost more than the note itself.


def _begin(recorder: Recorder, function: Function) -> Callable[..., None]:
    here, clock, outer = recorder.here, CLOCK[0], current.get

    def begin(*args: Any) -> None:
        try:
            around = outer()
        except RecursionError:  # which may need a frame more than the end of this call, see `variable`
            around = None
        here.note((function, clock(), args, None, around))

    return begin


def _begin_named(recorder: Recorder, function: Function) -> Callable[..., None]:
    here, clock, outer = recorder.here, CLOCK[0], current.get

    def begin(*args: Any, **kwargs: Any) -> None:
        try:
            around = outer()
        except RecursionError:  # which may need a frame more than the end of this call, see `variable`
            around = None
        here.note((function, clock(), args, kwargs, around))

    return begin


def _end(recorder: Recorder, about: End) -> Callable[..., None]:
    here, clock = recorder.here, CLOCK[0]

    def end(result: object, exc: BaseException | None) -> None:
        here.note((about, clock(), result, exc))

    return end


def _timed_begin(recorder: Recorder, function: Function) -> Callable[..., None]:
    here, clock = recorder.here, CLOCK[0]

    def begin() -> None:
        note = here.note
        note(function)
        note(clock())

    return begin


def _timed_end(recorder: Recorder, about: End) -> Callable[..., None]:
    here, clock = recorder.here, CLOCK[0]

    def end(exc: BaseException | None) -> None:
        note = here.note
        if exc is None:
            note(about)
            note(clock())
        else:
            note((about, clock(), None, exc))

    return end


def _live_begin(recorder: Recorder, function: Function, *, arguments: bool) -> Callable[..., None]:
    here, clock, outer = recorder.here, CLOCK[0], current.get

    def begin(*args: Any, **kwargs: Any) -> None:
        strand = here.strand
        if not strand.busy:
            try:
                around = outer()
            except RecursionError:
                around = None
            given = (args, kwargs) if arguments else (None, None)
            strand.note((function, clock(), *given, around))
            try:
                recorder.take_now(strand)
            except RecursionError:  # there is no room for a call of it; see there
                pass

    return begin


def _live_end(recorder: Recorder, about: End, *, arguments: bool) -> Callable[..., None]:
    here, clock = recorder.here, CLOCK[0]

    def end(result: object, exc: BaseException | None) -> None:
        strand = here.strand
        if not strand.busy:
            strand.note((about, clock(), result if arguments else None, exc))
            try:
                recorder.take_now(strand)
            except RecursionError:  # there is no room for a call of it; see there
                pass

    return end
