"""The same call made again with its hooks in another order, and how the outcomes of two calls are compared.

The invariant: a call that is made again gets a copy of the arguments as they were given, and uses up no hook that
counts its runs. What a target or a hook keeps elsewhere from call to call makes the call not repeatable; that is
reported as such, and never as a difference between orders.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from aspecthook._errors import AspecthookError, HookTypeError
from aspecthook._values import same, shortened

from ._calls import Given
from ._mount import Chain, Hook, Hooks, type_of
from ._steps import Trace


class NotRepeatableError(AspecthookError, RuntimeError):
    """The same call, made twice with its hooks in the same order, had two outcomes; the message shows both.

    Example:
        >>> from itertools import count
        >>> from aspecthook import hookable
        >>> from aspecthook.testing import assert_order_free
        >>> tickets = count(1)
        >>> @hookable
        ... def take():
        ...     return next(tickets)
        >>> try:
        ...     assert_order_free(take)
        ... except NotRepeatableError as error:
        ...     print(str(error).partition("; ")[0])
        aspecthook.testing:take is not repeatable: the same call gives 1, and then gives 2
    """


NotRepeatableError.__module__ = "aspecthook.testing"  # where users import it, and what tracebacks name


def repeat(trace: Trace, chain: Chain) -> Trace:
    """Make the call of a trace again, with the hooks of a chain."""
    if trace._again is None:
        raise HookTypeError(f"{trace.label}: this trace was not made by trace_of, and its call cannot be made again")
    made = trace._again(chain)
    again: Trace = made if isinstance(made, Trace) else trace._wait(made)
    # Ctrl-C during one of many calls is meant for all of them; but the traced call may have ended like this by itself.
    if isinstance(again.exc, KeyboardInterrupt) and not isinstance(trace.exc, KeyboardInterrupt):
        raise again.exc
    return again


def check_repeatable(trace: Trace) -> Trace:
    """Make the call of a trace again in the same order, and return the new trace.

    Raises:
        NotRepeatableError: The outcome is another.
    """
    again = repeat(trace, trace._chain)
    if same_outcome(trace, again):
        return again
    # The call of the trace may have filled a cache, or changed an object that is not copied before a call.
    third = repeat(trace, trace._chain)
    if same_outcome(again, third):
        return third
    raise not_repeatable(again, third)


def not_repeatable(one: Trace, other: Trace) -> NotRepeatableError:
    """Make the error for a call that was made twice and had two outcomes."""
    hint = "; results are compared with ==, and these two are not equal" if ending(one) == ending(other) else ""
    outcomes = f"the same call {ending(one)}, and then {ending(other)}{hint}"
    return NotRepeatableError(
        f"{one.label} is not repeatable: {outcomes}; the order of its hooks can be judged only where the same "
        "arguments lead to the same outcome"
    )


def ending(trace: Trace) -> str:
    """Return what came of a call, as the end of a sentence."""
    return f"gives {shortened(trace.result)}" if trace.exc is None else f"raises {shortened(trace.exc)}"


def same_outcome(one: Trace, other: Trace) -> bool:
    """Whether two calls returned equal results, or raised exceptions of one type with equal ``args``."""
    return same((one.exc, one.result), (other.exc, other.result))


# Copies of what a call is given

_ATOMS = (type(None), bool, int, float, complex, str, bytes)


def kept_of(given: Given) -> Given:
    """Return what is to be kept of what a call is given, before it is made.

    Only plain data is copied now. Copying another object may be slow and may run code of the user's, and most traced
    calls are never made again; such an object is copied as the first call has left it.
    """
    return _each(_kept, given)


# Any: what is given is of any type.
def _each(change: Callable[[Any], Any], given: Given) -> Given:
    kwargs = {name: change(value) for name, value in given.kwargs.items()}
    return Given(tuple(map(change, given.args)), kwargs, bound=tuple(map(change, given.bound)))


def _kept(value: Any) -> Any:
    try:
        return copy.deepcopy(value) if _is_data(value) else value
    except RecursionError:  # a list that contains itself
        return value


def _is_data(value: Any) -> bool:
    kind: type[Any] = type_of(value)
    if kind in (list, tuple, set, frozenset):
        return all(map(_is_data, value))
    if kind is dict:
        return all(map(_is_data, value)) and all(map(_is_data, value.values()))
    return kind in _ATOMS


def copy_of(given: Given) -> Given:
    """Return a deep copy, in which objects that cannot be copied are themselves."""
    try:
        return copy.deepcopy(given)
    except Exception:
        return _each(_copied, given)


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a file, a lock, a generator
        return value


# Orders


def precedes(first: Hook, second: Hook) -> bool:
    """Whether ``before`` or ``after`` puts one hook directly before another."""
    return any(key in second.keys for key in first.conditions.before) or any(
        key in first.keys for key in second.conditions.after
    )


def side_by_side(row: Hooks, first: int, second: int) -> tuple[Hooks, Hooks] | None:
    """Return two orders that differ in nothing but the order of two hooks: as they are now, and the other way round.

    If others are between the two, one of the two is moved to the other, which constraints with those between may
    forbid; then the answer is None.
    """
    a, b = row[first], row[second]
    between = row[first + 1 : second]
    head, tail = row[:first], row[second + 1 :]
    if not any(precedes(one, b) for one in between):
        return (*head, a, b, *between, *tail), (*head, b, a, *between, *tail)
    if not any(precedes(a, one) for one in between):
        return (*head, *between, a, b, *tail), (*head, *between, b, a, *tail)
    return None


T = TypeVar("T")


def swaps(present: Sequence[T], wanted: Sequence[T]) -> Iterator[int]:
    """Yield the places whose two neighbours are swapped, one after another, to get from one order to another.

    Each swap puts two in the order in which the last order has them. So if that is allowed, all on the way are.
    """
    order = [*present]
    for place, one in enumerate(wanted):
        at = order.index(one)
        yield from range(at - 1, place - 1, -1)
        order.insert(place, order.pop(at))
