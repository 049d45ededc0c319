"""The recorder: from what hooks note in each thread to recorded calls, each inside its parent.

What runs in one thread is a stack at any moment: a call is inside the innermost one that runs, and a coroutine or a
generator runs only during its turns. So hooks note no more than begins, turns and ends, each thread in a list of its
own, and the calls are made of these notes when somebody looks; or at once, where they are streamed or limited.

The invariant: nothing that goes wrong here reaches the program.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from time import perf_counter, time

from aspecthook._core.law.callables import type_of
from aspecthook._hints import Any, TypeAlias, final
from aspecthook._values import Redaction
from aspecthook._watching import UNWATCHED, current

from ._calls import Function, RecordedCall
from ._sinks import Sink, Sinks

# In a tuple: where `time.perf_counter` is woven, a proxy takes its place under all names that modules have for it.
CLOCK: tuple[Callable[[], float]] = (perf_counter,)

# A note is a tuple that begins with what it is about. Where nothing but times is kept, two entries of the list take its
# place: a `Function` or an `End`, and the time; a list of floats is cheaper than a list of tuples.
Note: TypeAlias = tuple[Any, ...]


@final
class End:
    """Stands in a thread's notes for the end of a call of one function."""

    __slots__ = ("function",)

    def __init__(self, function: Function) -> None:
        self.function = function


@final
class Limits:
    """Which calls of one recording are left out: whole trees by ``sample``, and what is too deep or too many."""

    def __init__(self, sample: float, max_depth: int | None, max_calls: int | None) -> None:
        self._sample, self._max_depth, self._max_calls = sample, max_depth, max_calls
        self.active = sample < 1.0 or max_depth is not None or max_calls is not None
        # How many calls, by the name of the limit.
        self.left_out: Counter[str] = Counter()
        self._kept = 0
        self._random: Any = None

    def keep(self, call: RecordedCall) -> bool:
        """Whether a call is recorded; if not, count it, unless it is inside one that is left out."""
        parent = call.parent
        if parent is not None and not parent.kept:
            return False
        if parent is None and self._sample < 1.0 and self._draw() >= self._sample:
            why = "sample"
        elif self._max_depth is not None and call.depth >= self._max_depth:
            why = "max_depth"
        elif self._max_calls is not None and self._kept >= self._max_calls:
            why = "max_calls"
        else:
            self._kept += 1
            return True
        self.left_out[why] += 1
        return False

    def _draw(self) -> float:
        if self._random is None:
            from random import Random

            self._random = Random()  # one of our own: the program may have seeded the module's
        return float(self._random.random())


@final
class Strand:
    """What a recorder knows of one thread: the notes that are not read yet, and the calls that run.

    Where calls are made at once, a note waits only if a recursion of the program has left no room to read it.
    """

    def __init__(self) -> None:
        self.notes: list[Any] = []
        self.note = self.notes.append
        self.stack: list[RecordedCall] = []
        # For each of them, how long recorded calls have run inside it.
        self.inside: list[float] = []
        self.thread: threading.Thread | None = None
        self.name = ""
        # Whether a sink, or a `repr` for it, runs in this thread: what they call is not recorded.
        self.busy = True
        # The entries of a pair of which the second is not read yet.
        self.pending: Any = None

    def open(self, recorder: Recorder) -> None:
        """Find out which thread this is."""
        thread = self.thread = threading.current_thread()
        # Unlike that of any other thread that runs.
        self.name = f"{thread.name} ({thread.ident})" if thread.name in recorder.names else thread.name
        recorder.names[self.name] = self
        if not recorder.live:
            recorder.strands.append(self)
        self.busy = False


@final
class Here(threading.local):
    """The strand of the current thread."""

    def __init__(self, recorder: Recorder) -> None:
        self.strand = Strand()
        # What finds out which thread this is may be recorded too: these calls are left out.
        self.note = list[Any]().append
        self.strand.open(recorder)
        self.note = self.strand.note


@final
class Recorder:
    """Makes recorded calls of what hooks note."""

    def __init__(self, redaction: Redaction, limits: Limits) -> None:
        self.started = time()
        self.epoch = CLOCK[0]()
        self.process = os.getpid()
        self.redaction = redaction
        self.limits = limits
        self.sinks = Sinks(())
        # Whether calls are made at once, and not when somebody looks; and whether they are kept.
        self.live = limits.active
        self.keeps = True
        self.calls: list[RecordedCall] = []
        self._fresh: list[RecordedCall] = []  # not among `calls` yet
        self._collecting = threading.RLock()
        # Of recordings that were read: what they say of each process.
        self.headers: dict[int, dict[str, Any]] = {}
        self.strands: list[Strand] = []
        self.names: weakref.WeakValueDictionary[str, Strand] = weakref.WeakValueDictionary()
        self._numbers = count(1)
        self.here = Here(self)
        _recorders.add(self)

    def open_sinks(self, sinks: Sequence[Sink]) -> None:
        """Send calls to sinks, and do not keep them."""
        if sinks:
            self.sinks = Sinks(sinks)
            self.live, self.keeps = True, False

    # What the hooks of coroutines and of generators do

    def new(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], *, keep: bool) -> RecordedCall:
        """Return a call that begins now."""
        at = CLOCK[0]()
        call = RecordedCall(function, at - self.epoch, (args, kwargs) if keep else None, self.redaction)
        call._recorder = self
        call.parent = self._innermost(current.get())
        call.task = _task()
        return call

    def note_turn(self, strand: Strand, call: RecordedCall, what: str) -> None:
        """Note that a call is begun, entered or left."""
        strand.note((call, CLOCK[0](), what))
        if self.live:
            self.take_now(strand)

    def note_end(self, strand: Strand, call: RecordedCall, result: object, exc: BaseException | None) -> None:
        """Note how a call has ended."""
        at = CLOCK[0]()
        strand.note((call, at, "end", result, exc))
        if self.live:
            self.take_now(strand)
        else:
            self.finish(call, at - self.epoch, result, exc)

    def _innermost(self, call: RecordedCall | None) -> RecordedCall | None:
        """Return the innermost call of this recorder in the context in which a call of any recorder runs."""
        while call is not None and call._recorder is not self:
            call = call._outer
        return call

    # Reading notes

    def collect(self) -> list[RecordedCall]:
        """Return the calls, in the order in which they began."""
        with self._collecting:
            for strand in list(self.strands):
                ended = strand.thread is not None and not _is_alive(strand.thread)
                notes = strand.notes[:]
                del strand.notes[: len(notes)]
                for note in notes:
                    self._read(strand, note)
                if ended:
                    self.strands.remove(strand)
            fresh = self._fresh[:]
            del self._fresh[: len(fresh)]
            for call in sorted(fresh, key=_begin):
                self.calls.append(call)
                if call.parent is not None:
                    call.parent.add_child(call)
            if fresh:
                self.calls.sort(key=_begin)
            return self.calls.copy()

    def _read(self, strand: Strand, note: Any) -> None:
        kind = type_of(note)
        if kind is tuple:
            self.take(strand, note)
        elif kind is float:
            pending, strand.pending = strand.pending, None
            if pending is not None:
                self.take(strand, (pending, note, None, None, None))
        else:
            strand.pending = note

    def take_now(self, strand: Strand) -> None:
        """Take the notes of a thread at once. What a sink, a predicate or a `repr` calls meanwhile is not recorded.

        Close to the limit of recursion there may be room for the program's own calls, and none for what we do with
        them. What could not be read then is read with the next note.
        """
        notes, note = strand.notes, None
        strand.busy = True
        try:
            while notes:
                note = notes.pop(0)
                self.take(strand, note)
        except RecursionError:
            notes.insert(0, note)
        except Exception as error:
            self.sinks.complain(f"a call could not be recorded: {error!r:.200}")
        finally:
            strand.busy = False

    def take(self, strand: Strand, note: Note) -> None:
        """Take one note: a begin, an end, or a turn."""
        about, at = note[0], note[1] - self.epoch
        if type(about) is Function:
            _, _, args, kwargs, outer = note
            call = RecordedCall(about, at, None if args is None else (args, kwargs), self.redaction)
            if outer is UNWATCHED:
                call.kept = False
            else:
                call.parent = self._innermost(outer)
                self._add(strand, call)
            self._push(strand, call)
        elif type(about) is End:
            # From now on it is known which call has ended: that must be found out once, see `take_now`.
            ended = (self._ending(strand, about.function, at), note[1], "end", note[2], note[3])
            if self.live:
                strand.notes.insert(0, ended)
            else:
                self.take(strand, ended)
        elif type(about) is RecordedCall:
            self._turn(strand, about, at, *note[2:])

    def _add(self, strand: Strand, call: RecordedCall) -> None:
        """Put a call into the tree: its `parent` is the innermost call that ran in its context, so far."""
        stack = strand.stack
        top = stack[-1] if stack else None
        parent = call.parent = _deeper(top, call.parent)
        call.thread, call.process, call.number = strand.name, self.process, next(self._numbers)
        call.recursive = parent is not None and call.label in parent.labels
        if call.task is None and top is not None and parent is top:
            call.task = top.task
        if self.limits.active:
            call.kept = self.limits.keep(call)
        if not call.kept:
            return
        if self.redaction.active:
            call.arguments  # noqa: B018  # what is redacted is known before any text is made
        if self.keeps:
            self._fresh.append(call)
        else:
            self.sinks.begin(call)

    def _ending(self, strand: Strand, function: Function, at: float) -> RecordedCall:
        """Return the innermost call of a function that runs in a thread."""
        for call in reversed(strand.stack):
            if call.function is function:
                return call
        # An earlier pre hook has ended the call before it was seen to begin.
        call = RecordedCall(function, at, None, self.redaction)
        self._add(strand, call)
        return call

    def finish(self, call: RecordedCall, at: float, result: Any, exc: BaseException | None) -> None:
        """Record the end of a call."""
        call.end(at, result, exc)
        if self.redaction.active:
            call.result  # noqa: B018  # likewise
        # In the child of a fork, what had begun before is for the parent to write.
        if call.kept and call.process == self.process:
            self.sinks.write(call)

    def _turn(self, strand: Strand, call: RecordedCall, at: float, what: str, *outcome: Any) -> None:
        """Take a note about a call that is known: it begins, it is entered, left, or ended."""
        if what == "begin":
            self._add(strand, call)
        elif what == "enter":
            call._entered = at
            self._push(strand, call)
        else:
            self._pop(strand, call, at)
            if what == "leave" and call._entered is not None:
                call.add_turn(call._entered, at)
            if what == "end" and call.kept:
                self.finish(call, at, *outcome)

    def _push(self, strand: Strand, call: RecordedCall) -> None:
        strand.stack.append(call)
        strand.inside.append(0.0)
        if self.sinks.entering and call.kept:
            self.sinks.send("enter", call)

    def _pop(self, strand: Strand, ended: RecordedCall, at: float) -> None:
        """Take a call from the stack, and those above it, whose ends an interrupt has kept from being noted."""
        stack = strand.stack
        if not stack or (stack[-1] is not ended and all(call is not ended for call in stack)):
            return
        popped: RecordedCall | None = None
        while popped is not ended:
            popped, inside = stack.pop(), strand.inside.pop()
            if popped.kept:
                length = at - (popped.begin if popped._entered is None else popped._entered)
                popped.own += length - inside
                inside = length
            if strand.inside:
                strand.inside[-1] += inside
            if self.sinks.entering and popped.kept:
                self.sinks.send("leave", popped)

    @property
    def is_closed(self) -> bool:
        """Whether its calls go nowhere any more."""
        return not self.keeps and not self.sinks.all

    def close(self) -> None:
        """Write what has not ended, and close the sinks."""
        self.here.strand.busy = True
        try:
            self.sinks.close(self.limits.left_out)
        finally:
            self.here.strand.busy = False

    def forked(self) -> None:
        """Go on in the child of a fork, in which only this thread is left."""
        self._collecting = threading.RLock()  # another thread may have held it
        self.collect()
        self.process = os.getpid()
        own = self.here.strand
        self.strands[:] = [own]
        self.sinks.forked()


@final
class RecordedTurns:
    """Notes the turns of a coroutine or a generator, and sets what runs in its context meanwhile."""

    __slots__ = ("_before", "_call", "_recorder")

    def __init__(self, recorder: Recorder, call: RecordedCall) -> None:
        self._recorder = recorder
        self._call = call
        self._before: RecordedCall | None = None

    def enter(self) -> None:
        """Begin a turn."""
        self._before = self._call._outer = current.get()
        current.set(self._call)
        strand = self._recorder.here.strand
        if not strand.busy:
            self._recorder.note_turn(strand, self._call, "enter")

    def leave(self) -> None:
        """End a turn."""
        strand = self._recorder.here.strand
        if not strand.busy:
            self._recorder.note_turn(strand, self._call, "leave")
        before, self._before = self._before, None
        current.set(before)


def _deeper(top: RecordedCall | None, outer: RecordedCall | None) -> RecordedCall | None:
    """Return which of two calls is inside the other: what runs in this thread, or in this context."""
    if outer is None or outer is top:
        return top
    if top is None:
        return outer
    inner: RecordedCall | None = outer
    while inner is not None:
        if inner is top:
            return outer
        inner = inner.parent
    return top


def _is_alive(thread: threading.Thread) -> bool:
    try:
        return thread.is_alive()
    except (AssertionError, RuntimeError):  # it has ended, and was not started by `threading`; the first one up to 3.12
        return False


def _begin(call: RecordedCall) -> float:
    return call.begin


def _task() -> str | None:
    """Return the name of the current task, of whatever library runs it."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs in this thread
            task = None
        if task is not None:
            return str(task.get_name())
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            return str(trio.lowlevel.current_task().name)
        except RuntimeError:
            pass
    return None


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
