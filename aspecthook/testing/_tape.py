"""The tape: which functions were called, in which order and inside which, with what and with what outcome.

A recorder is a pre hook that runs first and an always hook that runs last, so it sees what the caller passed and what
the caller gets, whatever other hooks do in between. Neither answers anything: recording changes no call.
"""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import EllipsisType, FrameType, TracebackType
from typing import Any, Self, TypeAlias, Unpack, cast, final

from aspecthook._core.law.call import Call
from aspecthook._core.law.options import Options
from aspecthook._core.law.variables import Variable, variable
from aspecthook._errors import plural
from aspecthook.weave import weave

from ._shortened import shortened

# The innermost call that any tape records in this context; it may have ended in another one.
_current: Variable[Called | None] = variable("aspecthook_called", None)

_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

_NOTHING: Any = object()  # no outcome is expected: any will do


@final
@dataclass(eq=False, slots=True)
class Called:
    """One call on a tape.

    ``name`` is the function's own (``"Cart.save"`` for a method), ``label`` the whole (``"shop:Cart.save"``);
    ``arguments`` are by name, as the caller passed them, defaults filled in. ``ended`` is false while the call runs.
    For a generator, ``result`` is what it returns, and the call lasts from the first `next` to the end.

    Example:
        >>> import shlex
        >>> with Tape().record(shlex.quote) as tape:
        ...     word = shlex.quote("my file")
        >>> call = tape.calls[0]
        >>> call.name, call.arguments, call.result, call.exc, call.depth
        ('quote', {'s': 'my file'}, "'my file'", None, 0)
    """

    name: str
    arguments: dict[str, Any]
    result: Any = None
    exc: BaseException | None = None
    parent: Called | None = None
    ended: bool = False
    label: str = ""
    _tape: Tape | None = field(default=None, repr=False)
    _outer: Called | None = field(default=None, repr=False)
    _frame: FrameType | None = field(default=None, repr=False)

    @property
    def depth(self) -> int:
        """How many other calls of the tape it was made in."""
        depth, parent = 0, self.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        return depth

    def has_name(self, name: str) -> bool:
        """Whether a name means this function: the whole label, or its end after a dot."""
        return name == self.label or f".{self.name}".endswith(f".{name}")

    def __str__(self) -> str:
        if not self.ended:
            outcome = " … has not ended"
        elif self.exc is not None:
            outcome = f" raised {shortened(self.exc)}"
        else:
            outcome = f" -> {shortened(self.result)}"
        return _as_call(self.name, self.arguments) + outcome


def _as_call(name: str, arguments: dict[str, Any]) -> str:
    shown = (f"{word}={shortened(value)}" for word, value in arguments.items() if word not in ("self", "cls"))
    return f"{name}({', '.join(shown)})"


@final
class Tape:
    """Records the calls of whatever it is pointed at, in the order in which they began; ``str(tape)`` is their tree.

    Example:
        >>> import shlex
        >>> with Tape().record("shlex:join, shlex:quote") as tape:
        ...     line = shlex.join(["cat", "my file"])
        >>> print(tape)
        join(split_command=['cat', 'my file']) -> "cat 'my file'"
          quote(s='cat') -> 'cat'
          quote(s='my file') -> "'my file'"
        >>> tape.call_count, tape.last.name
        (3, 'quote')
    """

    def __init__(self) -> None:
        self.calls: list[Called] = []
        self._woven = ExitStack()
        self._recorder = _Recorder(self, conditional=False)

    def record(
        self, target: object, /, *, where: Callable[[Any], object] | None = None, **options: Unpack[Options]
    ) -> Self:
        """Record the calls of a function, a class, a pointcut, anything that `weave` takes, until `stop`.

        Args:
            target: As `weave` takes it.
            where: A predicate on each function found; what it refuses is left out.
            options: Of the hook that sees a call begin, such as ``when=`` (no other calls are recorded) or ``times=``.

        Raises:
            WeaveError: The target cannot be woven, or is not there.
        """
        recorder = _Recorder(self, conditional=True) if options else self._recorder
        begin: Options = {"name": "tape", "priority": "HIGHEST", **options}
        with ExitStack() as stack:  # both hooks, or none
            last = weave(target, always=recorder.end, where=where, name="tape", priority="LOWEST")
            stack.callback(last.remove)
            stack.callback(weave(target, pre=recorder.begin, where=where, **begin).remove)
            self._woven.push(stack.pop_all())
        return self

    def stop(self) -> None:
        """Stop recording. The calls stay, and the ends of those that still run are recorded."""
        self._woven.close()

    def of(self, name: str) -> list[Called]:
        """Return the calls of one function, by its name, the end of it, or the whole label (``"shop:Cart.save"``)."""
        return [call for call in self.calls if call.has_name(name)]

    @property
    def call_count(self) -> int:
        """How many calls have begun."""
        return len(self.calls)

    @property
    def last(self) -> Called:
        """The call that began last.

        Raises:
            LookupError: There was none.
        """
        if not self.calls:
            raise LookupError("nothing that this tape records has been called")
        return self.calls[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<tape of {plural(len(self.calls), 'call')}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, most: int | None = None) -> list[str]:
        """Return the lines of the tree; of more than ``most``, the first and the last ones."""
        tree = self._tree()
        if not tree:
            return ["nothing was called"]
        if most is None or len(tree) <= most:
            return [f"{'  ' * depth}{call}" for depth, call in tree]
        half = most // 2
        first, last = ([f"{'  ' * depth}{call}" for depth, call in part] for part in (tree[:half], tree[-half:]))
        return [*first, f"... {len(tree) - 2 * half} more calls ...", *last]

    def _tree(self) -> list[tuple[int, Called]]:
        """Return the calls below their parents, each with its depth; those of several tasks began in turns."""
        calls = self.calls.copy()
        known = set(map(id, calls))
        below: defaultdict[int, list[Called]] = defaultdict(list)
        for call in calls:
            below[id(call.parent) if id(call.parent) in known else 0].append(call)
        tree: list[tuple[int, Called]] = []
        waiting = [(0, call) for call in reversed(below[0])]
        while waiting:
            depth, call = waiting.pop()
            tree.append((depth, call))
            waiting += [(depth + 1, one) for one in reversed(below[id(call)])]
        return tree


@final
class _Recorder:
    """The two hooks of a tape. The calls that a tape's recorders share are known by an entry in the call's state."""

    __slots__ = ("_conditional", "_key", "_tape")

    def __init__(self, tape: Tape, *, conditional: bool) -> None:
        self._tape = tape
        self._key = f"tape {id(tape)}"
        self._conditional = conditional

    def begin(self, call: Call) -> None:
        """Record that a call has begun."""
        if self._key not in call.state:
            record = call.state[self._key] = self._note(call)
            record._frame = _generator_frame(call)
            record._outer = _current.get()
            record.parent = _innermost(record._outer, self._tape)
            _current.set(record)

    def end(self, call: Call, result: object, exc: BaseException | None) -> None:
        """Record how a call has ended, also one that an earlier pre hook ended before `begin` ran."""
        record = cast("Called | None", call.state.get(self._key))
        if record is None:
            if self._conditional:
                return
            record = call.state[self._key] = self._note(call)
            record.parent = _innermost(_current.get(), self._tape)
        if record.ended:
            return
        record.result, record.exc, record.ended, record._frame = result, exc, True, None
        if _current.get() is record:
            _current.set(record._outer)

    def _note(self, call: Call) -> Called:
        label = call._site.label
        name = label.partition(":")[2].rpartition("<locals>.")[2]
        record = Called(name or label, dict(call.arguments), label=label, _tape=self._tape)
        self._tape.calls.append(record)
        return record


def _generator_frame(call: Call) -> FrameType | None:
    """Find the frame of a generator that has just begun; it is on the stack whenever the generator runs."""
    if "generator" not in call._site.signature.style:
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_flags & _GENERATOR:
        frame = frame.f_back
    return frame


def _innermost(call: Called | None, tape: Tape) -> Called | None:
    """Find the call of a tape inside of which we are: neither ended, nor a generator that waits for its next turn."""
    while call is not None and (call.ended or call._tape is not tape or not _runs(call._frame)):
        call = call._outer
    return call


def _runs(sought: FrameType | None) -> bool:
    frame: FrameType | None = sys._getframe(1) if sought is not None else None
    while frame is not None and frame is not sought:
        frame = frame.f_back
    return frame is sought


@final
@dataclass(frozen=True, slots=True)
class Expected:
    """A call that is expected: what `called` returns."""

    name: str
    arguments: dict[str, Any]
    result: Any = _NOTHING
    exc: type[BaseException] | None = None

    def returned(self, result: object) -> Expected:
        """Expect this result too."""
        return Expected(self.name, self.arguments, result, None)

    def raised(self, exc: type[BaseException] = BaseException) -> Expected:
        """Expect that the call raised an exception of this type."""
        return Expected(self.name, self.arguments, _NOTHING, exc)

    def fits(self, call: Called) -> bool:
        """Whether a call is the one that is expected."""
        if not call.has_name(self.name) or not self._fits_outcome(call):
            return False
        return all(word in call.arguments and _equal(call.arguments[word], one) for word, one in self.arguments.items())

    def _fits_outcome(self, call: Called) -> bool:
        if self.exc is not None:
            return isinstance(call.exc, self.exc)
        return self.result is _NOTHING or (call.ended and call.exc is None and _equal(call.result, self.result))

    def __str__(self) -> str:
        shown = _as_call(self.name, self.arguments) if self.arguments else self.name
        if self.exc is not None:
            return f"{shown} raised {self.exc.__name__}"
        return shown if self.result is _NOTHING else f"{shown} -> {shortened(self.result)}"


def _equal(one: object, other: object) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # arrays, for example, whose comparison is neither true nor false
        return False


def called(name: str, /, **arguments: Any) -> Expected:
    """Expect a call of this function with these arguments; those not named may be anything.

    ``.returned(value)`` and ``.raised(ExceptionType)`` expect an outcome too.

    Example:
        >>> import shlex
        >>> with Tape().record(shlex.quote) as tape:
        ...     word = shlex.quote("tea")
        >>> assert_calls(tape, called("quote", s="tea").returned("tea"))
    """
    return Expected(name, arguments)


Expectation: TypeAlias = "str | Expected | EllipsisType"


def assert_calls(tape: Tape, /, *expected: Expectation) -> None:
    """Assert that a tape holds these calls and no others, in the order in which they began.

    Args:
        tape: What was recorded.
        expected: Each a name (``"price"``, ``"Cart.save"``, ``"shop:Cart.save"``), a `called` with the arguments that
            matter, or ``...`` for any calls, or none.

    Raises:
        AssertionError: It does not; the message shows where they differ, and draws the tree of what was called.

    Example:
        >>> import shlex
        >>> with Tape().record("shlex:join, shlex:quote") as tape:
        ...     line = shlex.join(["cat", "my file"])
        >>> assert_calls(tape, "join", called("quote", s="cat"), "quote")
        >>> assert_calls(tape, ..., called("quote", s="my file"))
    """
    __tracebackhide__ = True
    steps = [_step(one) for one in expected]
    reached = {0}
    for place, step in enumerate(steps):
        before = reached
        reached = _follow(step, tape.calls, before)
        if not reached:
            raise AssertionError(_why(tape, steps, place, max(before)))
    if len(tape.calls) not in reached:
        raise AssertionError(_why(tape, steps, len(steps), max(reached)))


def _step(one: Expectation) -> Expected | None:
    if isinstance(one, str):
        return Expected(one, {})
    return one if isinstance(one, Expected) else None


def _follow(step: Expected | None, calls: Sequence[Called], reached: set[int]) -> set[int]:
    """Return how many calls may be matched after a step, from how many may be matched before it."""
    if step is None:
        return set(range(min(reached), len(calls) + 1))
    return {place + 1 for place in reached if place < len(calls) and step.fits(calls[place])}


def _why(tape: Tape, steps: Sequence[Expected | None], missed: int, at: int) -> str:
    lines = ["the calls on the tape are not those expected", "expected:"]
    for place, step in enumerate(steps):
        lines.append(f"{'  > ' if place == missed else '    '}{'...' if step is None else step}")
    lines += ["    nothing"] if not steps else []
    come = f"{tape.calls[at]}" if at < len(tape.calls) else "nothing more"
    # After `...` any call may have been the one; nothing shows which is nearest.
    if missed == len(steps):
        lines.append(f"but then came: {come}")
    elif missed == 0 or steps[missed - 1] is not None:
        lines.append(f"in the place of > came: {come}")
    else:
        lines.append("no call fits >")
    return "\n".join([*lines, "what was called:", *(f"    {line}" for line in str(tape).splitlines())])
