"""The recorder: from what hooks note in each thread to recorded calls, each inside its parent.

What runs in one thread is a stack at any moment: a call is inside the innermost one that runs, and a coroutine or a
generator runs only during its turns. So hooks note no more than begins, turns and ends, each thread in a queue of its
own, and the calls are made of these notes when somebody looks; or at once, where they go to a sink. Of a long program
whose calls nobody reads one by one, a sink gets so many calls; those that follow are only counted, which costs a tenth:
no call is made of a begin and an end, and each thread has sums of its own.

The invariant: nothing that goes wrong here reaches the program. A sink that raises is dropped, with one warning.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from math import inf
from operator import attrgetter
from time import perf_counter, time

from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookWarning, WarningsTo, listener, warn
from aspecthook._hints import Any, TypeAlias, final
from aspecthook._values import Redaction
from aspecthook._watching import UNWATCHED, current

from ._calls import Function, RecordedCall
from ._functions import Total

# In a tuple: where `time.perf_counter` is woven, a proxy takes its place under all names that modules have for it.
CLOCK: tuple[Callable[[], float]] = (perf_counter,)

# A note is a row of five columns, in one list that has the rows of a thread one after the other:
#
#     what       about     when  why     with
#     "begin"    function  time  around  the arguments, or None if they are not kept
#     "end"      function  time  error   the result, or None
#     "start"    call      time  None    None
#     "enter"    call      time  None    None
#     "leave"    call      time  None    None
#     "stop"     call      time  error   the result, or None
#
# A plain function begins, around what runs in its context, and ends. A coroutine or a generator is a call from its
# start, since what runs in its context has to know it; then it enters and leaves its turns, and stops. `extend` by a
# tuple is the fastest way to note something that is there as a whole or not at all: it needs no frame and cannot be
# interrupted, and the tuple is gone at once, so that the collector of garbage does not visit millions of them.
Note: TypeAlias = tuple[str, Any, float, Any, Any]

# What takes the notes of a thread in which a sink, or a `repr` for it, runs: what they call is not recorded.
IGNORED: Callable[[Note], None] = deque[Any](maxlen=0).extend


@final
class Strand:
    """What a recorder knows of one thread: the notes that are not read yet, and what runs.

    Where calls are made at once, a note waits only if a recursion of the program has left no room to read it.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.notes: list[Any] = []
        # What runs, as frames of three: the call, or the function if it is only counted; when it began, or its turn;
        # and how long others have run inside it.
        self.stack: list[list[Any]] = []
        self.running: defaultdict[Function, int] = defaultdict(int)  # how many frames each function has
        # The sums of the calls that are only counted, since they were written; and when they are written next.
        self.totals: defaultdict[Function, Total] = defaultdict(Total)
        self.due = 0.0
        thread = threading.current_thread()
        self.name, self.ident = thread.name, thread.ident
        if not recorder.live:
            recorder.strands.append(self)

    def push(self, what: RecordedCall | Function, function: Function, now: float) -> None:
        """Put a call or its turn, or a function whose call is only counted, on the stack."""
        self.running[function] += 1
        self.stack.append([what, now, 0.0])

    def pop(self, ended: RecordedCall | Function, now: float) -> float | None:
        """Take what has ended from the stack, and what is above it, whose ends an interrupt has hidden.

        Return when it began; None if it is not there.
        """
        stack = self.stack
        if not stack or (stack[-1][0] is not ended and all(what is not ended for what, _, _ in stack)):
            return None
        while True:
            what, begin, inside = stack[-1]
            length: float = now - begin
            if type(what) is Function:
                total = self.totals[what]  # while it is on the stack: there may be no room to make the total
                stack.pop()
                total.calls += 1
                total.lengths.append(length)
                total.own += length - inside
                self.running[what] -= 1
                if not self.running[what]:
                    total.total += length
                inside = length
            else:
                stack.pop()
                self.running[what.function] -= 1
                if what.kept:
                    what.own += length - inside
                    inside = length
            if stack:
                stack[-1][2] += inside
            if what is ended:
                return float(begin)


@final
class Here(threading.local):
    """What the current thread has: its strand, and what takes its notes."""

    def __init__(self, recorder: Recorder) -> None:
        self.counting: Strand | None = None  # the strand, from when its calls are only counted
        self.note = IGNORED  # what finds out which thread this is may be recorded too
        self.strand = Strand(recorder)
        self.note = self.strand.notes.extend


@final
class Recorder:
    """Makes recorded calls of what hooks note."""

    def __init__(self, redaction: Redaction, max_depth: int | None = None, sink: Any = None) -> None:
        self.started = time()
        self.epoch = CLOCK[0]()
        self.process = os.getpid()
        self.redaction = redaction
        self._max_depth = max_depth
        self.sink = sink
        # Whether calls are made at once and go to a sink, and are not kept until somebody looks.
        self.live = self.sink is not None
        # For the sink: the calls that have not ended.
        self._open: dict[int, RecordedCall] = {}
        # How many calls it gets; each thread counts from the next time on that it notes something.
        self._whole: float = getattr(self.sink, "whole", inf)
        self._is_counting = False
        self._listener = listener()  # of warnings
        self.calls: list[RecordedCall] = []
        self._fresh: list[RecordedCall] = []  # not among `calls` yet
        self._collecting = threading.RLock()
        # Of recordings that were read: what they say of each process.
        self.headers: dict[int, dict[str, Any]] = {}
        self.strands: list[Strand] = []
        self._numbers = count(1)
        self.functions: weakref.WeakKeyDictionary[MountPoint, Function] = weakref.WeakKeyDictionary()
        self.key = f"tape {id(self)}"  # in the `state` of a call that has turns: the recorded one
        self.here = Here(self)
        _recorders.add(self)

    # What the hooks of coroutines and of generators do

    def start(self, function: Function, given: Any) -> RecordedCall:
        """Return a call that begins now, of which nothing is noted yet."""
        call = RecordedCall(function, CLOCK[0]() - self.epoch, given, self.redaction)
        call._recorder = self
        call.parent = self._innermost(current.get())
        call.task = _task()
        return call

    def note(self, what: str, call: RecordedCall, exc: BaseException | None = None, result: Any = None) -> None:
        """Note what happens to a call that was started."""
        if self.here.note is IGNORED:
            return
        at = CLOCK[0]()
        if what == "stop":  # known at once, as a call stops once
            call.end(at - self.epoch, exc, result)
        self.here.note((what, call, at, exc, result))
        if self.live:
            try:
                self.read_now()
            except RecursionError:  # there is no room for a call of it; see `_read`
                pass

    def _innermost(self, call: RecordedCall | None) -> RecordedCall | None:
        """Return the innermost call of this recorder in the context in which a call of any recorder runs."""
        while call is not None and call._recorder is not self:
            call = call._outer
        return call

    # Reading notes

    def collect(self) -> list[RecordedCall]:
        """Return the calls, in the order in which they began."""
        with self._collecting:
            for strand in () if self.live else self.strands.copy():
                self._read(strand)
            fresh, self._fresh = sorted(self._fresh, key=attrgetter("begin")), []
            for call in fresh:
                if call.parent is not None:
                    call.parent.add_child(call)
            if fresh:
                self.calls = sorted([*self.calls, *fresh], key=attrgetter("begin"))
            return self.calls.copy()

    def read_now(self, now: float = 0.0) -> None:
        """Read the notes of this thread at once, and write what it has counted when that is due.

        What a sink, a predicate or a `repr` calls meanwhile is not recorded.
        """
        here = self.here
        note, counting = here.note, here.counting
        if note is IGNORED:
            return
        here.note, strand = IGNORED, here.strand
        if counting is not None:
            here.counting = None
        try:
            self._read(strand)
            if counting is None and self._is_counting and not strand.notes:
                # The thread that had this number before has ended.
                for ended in [one for one in self.strands if one.ident == strand.ident]:
                    self._write_counts(ended)
                    self.strands.remove(ended)
                self.strands.append(strand)
                counting = strand
            elif counting is not None and now >= strand.due and _has_room(_ROOM):
                self._write_counts(strand)
                strand.due = now + _SECONDS
        finally:
            here.note = note
            if counting is not None:
                here.counting = counting

    def _read(self, strand: Strand) -> None:
        """Read the notes of a thread.

        Close to the limit of recursion there may be room for the program's own calls, and none for what we do with
        them. What could not be read then is read with the next note.
        """
        notes = strand.notes
        while notes:
            rows, place = notes[:], 0
            del notes[: len(rows)]
            try:
                for place in range(0, len(rows), 5):
                    self._take(strand, rows, place)
            except RecursionError:
                notes[:0] = rows[place:]
                return
            except Exception as error:
                notes[:0] = rows[place + 5 :]
                self._complain(f"a call could not be recorded: {error!r:.200}")

    def _take(self, strand: Strand, rows: list[Any], place: int) -> None:
        """Take one note; the comment at the top of the module says what is in it."""
        what, about, now, why, given = rows[place : place + 5]
        if what == "begin":
            call = RecordedCall(about, now - self.epoch, given, self.redaction)
            if why is UNWATCHED:
                call.kept = False
            else:
                if why is not None:
                    call.parent = self._innermost(why)
                self._add(strand, call)
            strand.push(call, about, now)
        elif what in ("end", "stop"):
            if what == "end":
                about = self._running(strand, about, now)
                # It must be found out once which call has ended: if there is no room for the rest, that is still known.
                rows[place : place + 2] = "stop", about
            strand.pop(about, now)
            if about.kept:
                about.end(now - self.epoch, why, given)
                self._finish(strand, about)
        elif what == "start":
            self._add(strand, about)
        elif what == "enter":
            strand.push(about, about.function, now)
        else:
            begin = strand.pop(about, now)
            if begin is not None:
                about.add_turn(begin - self.epoch, now - self.epoch)

    def _add(self, strand: Strand, call: RecordedCall) -> None:
        """Put a call into the tree: its `parent` is the innermost call that ran in its context, so far."""
        top: Any = strand.stack[-1][0] if strand.stack else None
        if type(top) is Function:
            top = None
        parent = call.parent = top if call.parent is None else _deeper(top, call.parent)
        call.thread, call.process, call.number = strand.name, self.process, next(self._numbers)
        if call.number >= self._whole:
            self._is_counting = True
        if parent is not None:
            call.recursive = call.function.label in parent.labels
            if call.task is None and parent is top:
                call.task = parent.task
        too_deep = self._max_depth is not None and call.depth >= self._max_depth
        if too_deep or (parent is not None and not parent.kept):
            call.kept = False
            return
        if self.redaction.active:
            call.arguments  # noqa: B018  # what is redacted is known before any text is made
        if self.live:
            self._open[call.number] = call
        else:
            self._fresh.append(call)

    def _running(self, strand: Strand, function: Function, now: float) -> RecordedCall:
        """Return the innermost call of a function that runs in a thread."""
        for what, _, _ in reversed(strand.stack):
            if type(what) is RecordedCall and what.function is function:
                return what
        # An earlier pre hook has ended the call before it was seen to begin.
        call = RecordedCall(function, now - self.epoch, None, self.redaction)
        self._add(strand, call)
        return call

    def _finish(self, strand: Strand, call: RecordedCall) -> None:
        """Write a call that has ended, or count it."""
        if self.redaction.active:
            call.result  # noqa: B018  # as in `_add`
        # In the child of a fork, what had begun before is for the parent to write.
        if self.live and call.process == self.process:
            if call.number > self._whole:
                strand.totals[call.function].add_call(call)
            else:
                self._send("write", call)
            self._open.pop(call.number, None)

    def _write_counts(self, strand: Strand) -> None:
        """Write what has been counted in a thread."""
        totals, strand.totals = strand.totals, defaultdict(Total)
        self._send("count", totals)

    # The sink

    def _send(self, what: str, *given: object) -> None:
        """Call this method of the sink, if it has it."""
        try:
            method = getattr(self.sink, what, None)
            if method is not None:
                method(*given)
        except Exception as error:
            if isinstance(error, RecursionError) and not _has_room(_ROOM):
                raise  # the program's recursion: the note is read again when there is room
            sink, self.sink = self.sink, None
            if sink is not None:  # otherwise another thread has dropped it meanwhile
                self._complain(f"the recording of calls has stopped: {type(sink).__name__} raised {error!r:.200}")
                with suppress(Exception):  # that it does not work any more has been said
                    if what != "close":
                        sink.close()

    def _complain(self, message: str) -> None:
        """Warn; where warnings are errors, which must not reach the program, log."""
        try:
            with WarningsTo(self._listener):
                warn(message)
        except HookWarning:
            import logging

            logging.getLogger("aspecthook").warning(message)

    def write_rest(self, *, ended: bool) -> None:
        """Write what waits, as before the program is replaced; in the end, also what runs, and close the sink."""
        here = self.here
        here.note = IGNORED
        try:
            for call in list(self._open.values()) if ended else ():
                self._send("write", call)
            for strand in self.strands.copy() if self.live else ():
                if ended and strand.stack:
                    last = Strand(self)  # a copy, as its thread may go on
                    last.stack, last.running, last.totals = strand.stack.copy(), strand.running.copy(), strand.totals
                    last.pop(last.stack[0][0], CLOCK[0]())
                self._write_counts(strand)
            self._send("close" if ended else "flush")
            self.sink = None if ended else self.sink
        finally:
            here.note = here.strand.notes.extend

    def forked(self) -> None:
        """Go on in the child of a fork, in which only this thread is left."""
        self._collecting = threading.RLock()  # another thread may have held it
        self.collect()
        self.process = os.getpid()
        strand = self.here.strand
        self.strands[:] = [strand]
        # What had begun before is for the parent to write.
        self._open.clear()
        strand.totals.clear()
        for frame in strand.stack:
            if type(frame[0]) is Function:
                call = frame[0] = RecordedCall(frame[0], 0.0)
                call.kept = False
        self._send("forked")


# A thread writes what it has counted so often; what a process that is killed has not written is lost.
_SECONDS = 0.5

# How many frames a sink may need. One that needs more fails by a recursion of its own.
_ROOM = 100


def _has_room(frames: int) -> bool:
    """Whether so many more calls may be made inside this one."""
    try:
        return frames == 0 or _has_room(frames - 1)
    except RecursionError:
        return False


def _deeper(top: RecordedCall | None, outer: RecordedCall) -> RecordedCall:
    """Return which of two calls is inside the other: what runs in this thread, or in this context."""
    inner: RecordedCall | None = outer
    while inner is not None and inner is not top:
        inner = inner.parent
    return outer if inner is not None or top is None else top


def _task() -> str | None:
    """Return the name of the current task, of whatever library runs it."""
    for library in ("asyncio", "trio.lowlevel"):
        module: Any = sys.modules.get(library)
        with suppress(RuntimeError):  # no loop of it runs in this thread
            task = None if module is None else module.current_task()
            if task is not None:
                return str(task.get_name() if library == "asyncio" else task.name)
    return None


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
