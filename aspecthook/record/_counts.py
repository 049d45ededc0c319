"""Calls that are only counted, which of a long program nobody reads one by one: no call is made of a begin and an end.

Each thread has sums of its own. They are written now and then, as what has come since the last time.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable
from operator import sub
from threading import Thread

from aspecthook._hints import Any, final

from ._calls import Function, RecordedCall


@final
class Sums:
    """What is counted of the calls of one function in one thread."""

    __slots__ = ("again", "errors", "function", "lengths", "own", "running", "written")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.running = 0
        # How long those calls took that have ended since they were written last.
        self.lengths: list[float] = []
        # From the beginning on: failures, how long calls inside calls of the same function took, and times of its own.
        self.errors = 0
        self.again = self.own = 0.0
        self.written: tuple[float, float, float] = (0, 0.0, 0.0)

    def line(self, number: int) -> str:
        """Return what has come since the last time as a line; another thread may add to it meanwhile."""
        many = len(self.lengths)
        lengths = self.lengths[:many]
        del self.lengths[:many]
        before, self.written = self.written, (self.errors, self.again, self.own)
        errors, again, own = map(sub, self.written, before)
        times = f'"total":{sum(lengths) - again},"own":{own},"durations":"{_packed(lengths)}"'
        return f'{{"counted":{number},"calls":{many},"errors":{errors},{times}}}\n'


@final
class Counts:
    """What is counted in one thread."""

    __slots__ = ("stack", "sums", "thread")

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.sums: dict[Function, Sums] = {}
        # What runs: the sums of its function, its begin, and how long calls have run inside it.
        self.stack: list[list[Any]] = []

    def of(self, function: Function) -> Sums:
        """Return the sums of a function."""
        try:
            return self.sums[function]
        except KeyError:
            sums = self.sums[function] = Sums(function)
            return sums

    def begin(self, sums: Sums, now: float, inside: float = 0.0) -> None:
        """Count the begin of a call, or of a turn of a coroutine or a generator."""
        sums.running += 1
        self.stack.append([sums, now, inside])

    def end(self, function: Function, now: float, exc: object = None, *, is_turn: bool = False) -> None:
        """Count the end of a call, or of a turn."""
        stack = self.stack
        if not stack or stack[-1][0].function is not function:
            # An interrupt has kept the ends of those above it from being counted, or its own begin.
            if all(frame[0].function is not function for frame in stack):
                self.begin(self.of(function), now)
            while stack[-1][0].function is not function:
                self.end(stack[-1][0].function, now)
        sums, begin, inside = stack.pop()
        sums.running -= 1
        length = now - begin
        sums.own += length - inside
        if stack:
            stack[-1][2] += length
        if is_turn:
            return
        sums.lengths.append(length)
        if sums.running:
            sums.again += length
        if exc is not None:
            sums.errors += 1

    def add(self, call: RecordedCall, exc: object) -> None:
        """Count a coroutine or a generator that has ended, whose turns are counted unless they are in its own time."""
        sums, length = self.of(call.function), call.duration or 0.0
        sums.lengths.append(length)
        sums.own += call.own
        sums.again += length if call.recursive else 0.0
        sums.errors += exc is not None

    def end_all(self, now: float) -> None:
        """End what runs, since nothing is recorded any more."""
        while self.stack:
            self.end(self.stack[-1][0].function, now)

    def forked(self) -> None:
        """Go on in the child of a fork: what is counted, and what runs, is for the parent to write."""
        self.sums.clear()
        for frame in self.stack:
            frame[0] = Sums(frame[0].function)


# The upper half of a number of four bytes has its sign, its exponent, and seven bits of the rest: that is the number to
# one percent. To cut the lower half off takes a tenth of the time that rounding takes.


def _packed(lengths: Iterable[float]) -> str:
    """Return durations to one percent as a text, in the order of bytes of this machine, where they are read too."""
    return b64encode(array("H", array("f", lengths).tobytes())[sys.byteorder == "little" :: 2].tobytes()).decode()


def halves(text: str) -> array[int]:
    """Return the upper halves of the numbers in such a text."""
    return array("H", b64decode(text))


def middle(half: int) -> float:
    """Return the middle of the numbers that have this upper half."""
    return array("f", array("I", [half << 16 | 1 << 15]).tobytes())[0]
