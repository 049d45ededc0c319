"""The hooks that record: one pre and one always hook for each function, which note a begin and an end.

Each hook is made for one function, so that it need not find out which one, and is the cheapest that suffices. Around
coroutines and generators there is a third, which notes their turns.
"""

from __future__ import annotations

from collections.abc import Callable

from aspecthook._core.law.call import Call
from aspecthook._core.law.callables import identity
from aspecthook._core.law.hook import Maker
from aspecthook._core.law.kinds import Kind
from aspecthook._core.mount.point import MountPoint
from aspecthook._hints import Any, final
from aspecthook._watching import current, failure, is_watched
from aspecthook.weave._steps import astepped, awaited, stepped

from ._calls import Function, RecordedCall
from ._recorder import CLOCK, IGNORED, Recorder

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Before and after all hooks that users add.
_FIRST, _LAST = -1, 101

_Make = Callable[..., Callable[..., Any]]


@final
class Recording(Maker):
    """A hook that is made for each function, and notes what happens; `keep`: whether with arguments and results."""

    def __init__(self, kind: Kind, recorder: Recorder, *, keep: bool) -> None:
        super().__init__(_MAKERS[kind][0])
        self.kind = kind
        self.priority = _LAST if kind == "always" else _FIRST
        self._recorder, self._keep = recorder, keep

    def fits(self, mount: MountPoint) -> bool:
        """Whether it is for such a function: the hook that sees turns is for those that run in turns."""
        return self.kind != "around" or (mount.site().signature.style != "function" and not self._is_on(mount))

    def _is_on(self, mount: MountPoint) -> bool:
        """Whether an earlier target has meant this function: a call of it is recorded once."""
        own = self.kind, identity(mount.unbound(self))
        return any((one.kind, one.identity) == own and one.gate is None for one in mount.members)

    def make(self, mount: MountPoint, who: object) -> Callable[..., Any]:  # noqa: ARG002  # no message is needed
        """Make the hook of one function."""
        if self._is_on(mount):
            return lambda: None
        site, functions = mount.site(), self._recorder.functions
        function = functions.get(mount)
        if function is None:
            file, line = site.definition() or (None, None)
            function = functions[mount] = Function(site.label, file, line, site)
            signature = site.signature
            has_names = signature.regular > signature.positional or signature.varkw is not None
            function.named = has_names or signature.style != "function" or self._recorder.live
        of_function, of_turns = _MAKERS[self.kind]
        make = of_function if site.signature.style == "function" else of_turns
        return make(self._recorder, function, site.signature.style, self._keep)


# The hooks of functions with turns. They find their call in `call.state`.


def _start(recorder: Recorder, function: Function, _: str, keep: bool) -> Callable[[Call], None]:
    def start(call: Call) -> None:
        if recorder.here.note is not IGNORED and is_watched():
            # Known before it is noted, since a RecursionError may come in between.
            given = (call.args, call.kwargs) if keep else None
            recorded = call.state[recorder.key] = recorder.start(function, given)
            recorder.note("start", recorded)

    return start


def _stop(recorder: Recorder, _: Function, style: str, keep: bool) -> Callable[[Call, object, Any], None]:
    def stop(call: Call, result: object, exc: BaseException | None) -> None:
        recorded = call.state.get(recorder.key)
        if recorded is not None and not recorded.ended:
            recorder.note("stop", recorded, failure(style, exc), result if keep else None)

    return stop


def _turns(recorder: Recorder, _: Function, style: str, __: bool) -> Callable[[Call, Any], Any]:
    def turns_of(recorded: RecordedCall) -> Callable[..., Any]:
        def turn(step: Callable[..., Any], *args: Any) -> Any:
            recorded._outer = current.get()
            current.set(recorded)
            recorder.note("enter", recorded)
            try:
                return step(*args)
            finally:
                recorder.note("leave", recorded)
                current.set(recorded._outer)

        return turn

    def stream(call: Call, proceed: Callable[[], Any]) -> Any:
        recorded, source = call.state.get(recorder.key), proceed()
        if recorded is None:
            return source
        turn = turns_of(recorded)
        if style == "generator":
            return stepped(source, turn)

        def take(step: Callable[..., Any], *args: Any) -> Any:
            return awaited(step(*args), turn)

        return astepped(source, take)

    async def coroutine(call: Call, proceed: Callable[[], Any]) -> Any:
        recorded, source = call.state.get(recorder.key), proceed()
        # Of what is awaited and is no coroutine, such as a future, there are no turns.
        if recorded is None or not hasattr(source, "send"):
            return await source
        return await awaited(source, turns_of(recorded))

    return coroutine if style == "coroutine" else stream


# The hooks of plain functions. What they need is in their cells: looking it up would cost more than the note itself.


def _begin(recorder: Recorder, function: Function, _: str, keep: bool) -> Callable[..., None]:
    here, clock, outer, read = recorder.here, CLOCK[0], current.get, recorder.read_now

    def unnamed(*args: Any) -> None:
        try:
            around = outer()
        except RecursionError:  # which may need a frame more than the end of this call, see `variable`
            around = None
        here.note(("begin", function, clock(), around, args))

    def named(*args: Any, **kwargs: Any) -> None:
        try:
            around = outer()
        except RecursionError:  # likewise
            around = None
        here.note(("begin", function, clock(), around, (args, kwargs)))

    def timed() -> None:
        try:
            around = outer()
        except RecursionError:  # likewise
            around = None
        here.note(("begin", function, clock(), around, None))

    def live(*args: Any, **kwargs: Any) -> None:
        try:
            counting = here.counting
            if counting is not None:
                counting.running[function] += 1  # as `push` does, of which no frame is made
                counting.stack.append([function, clock(), 0.0])
                return
            around = outer()
        except RecursionError:  # likewise
            around = None
        here.note(("begin", function, clock(), around, (args, kwargs) if keep else None))
        try:
            read()
        except RecursionError:  # there is no room for a call of it; see `Recorder._read`
            pass

    if recorder.live:
        return live
    if not keep:
        return timed
    return named if function.named else unnamed


def _end(recorder: Recorder, function: Function, _: str, keep: bool) -> Callable[..., None]:
    here, clock, read = recorder.here, CLOCK[0], recorder.read_now

    def end(result: object, exc: BaseException | None) -> None:
        here.note(("end", function, clock(), exc, result if keep else None))

    def live(result: object, exc: BaseException | None) -> None:
        now, counting = clock(), here.counting
        try:
            if counting is not None and counting.pop(function, now) is not None:
                if exc is not None:
                    counting.totals[function].errors += 1
                if now >= counting.due:
                    read(now)
                return
            here.note(("end", function, now, exc, result if keep else None))
            read()
        except RecursionError:  # as for the begin; what was to be counted is so when the call around it ends
            pass

    return live if recorder.live else end


# What makes the hook of each kind: for a plain function, and for one that runs in turns.

_MAKERS: dict[str, tuple[_Make, _Make]] = {
    "pre": (_begin, _start),
    "around": (_turns, _turns),
    "always": (_end, _stop),
}
