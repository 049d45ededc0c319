"""Assertions about tapes: which calls were made, in which order, with what and with what outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeAlias, final

from aspecthook._values import shortened
from aspecthook.record._calls import RecordedCall
from aspecthook.record._tape import Tape, same

__all__ = ["Tape", "assert_calls", "called"]

_NOTHING: Any = object()  # no outcome is expected: any will do


@final
@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that is expected: what `called` returns."""

    name: str
    arguments: dict[str, Any]
    result: Any = _NOTHING
    exc: type[BaseException] | None = None

    def returned(self, result: object) -> ExpectedCall:
        """Expect this result too."""
        return ExpectedCall(self.name, self.arguments, result, None)

    def raised(self, exc: type[BaseException] = BaseException) -> ExpectedCall:
        """Expect that the call raised an exception of this type."""
        return ExpectedCall(self.name, self.arguments, _NOTHING, exc)

    def fits(self, call: RecordedCall) -> bool:
        """Whether a call is the one that is expected."""
        if not call.has_name(self.name) or not self._fits_outcome(call):
            return False
        return all(word in call.arguments and same(call.arguments[word], one) for word, one in self.arguments.items())

    def _fits_outcome(self, call: RecordedCall) -> bool:
        if self.exc is not None:
            return isinstance(call.exc, self.exc)
        return self.result is _NOTHING or (call.ended and call.exc is None and same(call.result, self.result))

    def __str__(self) -> str:
        shown = self.name
        if self.arguments:
            shown += f"({', '.join([f'{word}={shortened(value)}' for word, value in self.arguments.items()])})"
        if self.exc is not None:
            return f"{shown} raised {self.exc.__name__}"
        return shown if self.result is _NOTHING else f"{shown} -> {shortened(self.result)}"


def called(name: str, /, **arguments: Any) -> ExpectedCall:
    """Expect a call of this function with these arguments; those not named may be anything.

    ``.returned(value)`` and ``.raised(ExceptionType)`` expect an outcome too.

    Example:
        >>> import shlex
        >>> with Tape().record(shlex.quote) as tape:
        ...     word = shlex.quote("tea")
        >>> assert_calls(tape, called("quote", s="tea").returned("tea"))
    """
    return ExpectedCall(name, arguments)


Expectation: TypeAlias = "str | ExpectedCall | EllipsisType"


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
    calls = list(tape)
    reached = {0}
    for place, step in enumerate(steps):
        before = reached
        reached = _follow(step, calls, before)
        if not reached:
            raise AssertionError(_why(tape, calls, steps, place, max(before)))
    if len(calls) not in reached:
        raise AssertionError(_why(tape, calls, steps, len(steps), max(reached)))


def _step(one: Expectation) -> ExpectedCall | None:
    if isinstance(one, str):
        return ExpectedCall(one, {})
    return one if isinstance(one, ExpectedCall) else None


def _follow(step: ExpectedCall | None, calls: Sequence[RecordedCall], reached: set[int]) -> set[int]:
    """Return how many calls may be matched after a step, from how many may be matched before it."""
    if step is None:
        return set(range(min(reached), len(calls) + 1))
    return {place + 1 for place in reached if place < len(calls) and step.fits(calls[place])}


def _why(tape: Tape, calls: Sequence[RecordedCall], steps: Sequence[ExpectedCall | None], missed: int, at: int) -> str:
    lines = ["the calls on the tape are not those expected", "expected:"]
    for place, step in enumerate(steps):
        lines.append(f"{'  > ' if place == missed else '    '}{'...' if step is None else step}")
    lines += ["    nothing"] if not steps else []
    come = f"{calls[at]}" if at < len(calls) else "nothing more"
    # After `...` any call may have been the one; nothing shows which is nearest.
    if missed == len(steps):
        lines.append(f"after these the tape has {come}")
    elif missed == 0 or steps[missed - 1] is not None:
        lines.append(f"instead of > the tape has {come}")
    else:
        lines.append("no call fits >")
    return "\n".join([*lines, "what was called:", *(f"    {line}" for line in tape.lines(times=False))])
