"""Whether the order of hooks matters: all orders that their constraints allow, tried out on one call.

The invariant: nothing is added, removed or moved on the mount point. Each call runs a chain of its own, in the order
that is to be tried, on a copy of the arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from random import Random
from typing import Any, NamedTuple, cast

from aspecthook._errors import warn
from aspecthook._values import same

from ._calls import Given, bound_of
from ._mount import KINDS, Chain, Hook, Hooks, graph, hooks
from ._repeat import ending, in_either_order, not_repeatable, precedes, repeat, same_outcome, swaps, verdict
from ._steps import Step, Trace
from ._trace import untraced

# All orders of six hooks.
_MOST = 720

# Returns the hooks that may come next, in the order in which they are tried.
Choices = Callable[[list[Hook]], list[Hook]]


# Any: a mount point of any sort.
def orders_of(function: Any, /) -> Iterator[tuple[str, ...]]:
    """Return an iterator of all orders that ``before`` and ``after`` allow for the hooks that act now.

    An order is a tuple of the names of the hooks, kind by kind (pre, around, on, item, exception, post, always), since
    the kinds themselves have a fixed order. The first one is the present order. There may be n! orders for n hooks of
    one kind, so they are made one at a time.

    Priorities are ignored: a priority is a preference, which ``before`` and ``after`` outrank, and it does not name
    another hook. The method of an instance has the hooks of its class too.

    Raises:
        HookLookupError: The function is not a mount point.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def save(order): ...
        >>> @save.pre(before="validate")
        ... def auth(): ...
        >>> @save.pre
        ... def validate(order): ...
        >>> @save.pre(priority="HIGH")
        ... def log(): ...
        >>> list(orders_of(save))
        [('log', 'auth', 'validate'), ('auth', 'log', 'validate'), ('auth', 'validate', 'log')]
    """
    chain = hooks(function).chain()
    return (tuple([hook.name for hook in order.hooks]) for order in _orders(chain))


def _orders(chain: Chain, kinds: Sequence[str] = KINDS) -> Iterator[Chain]:
    """Yield every order of a chain, the present one first; those of the last kind change fastest."""
    if not kinds:
        yield chain
        return
    for row in _rows(getattr(chain, kinds[0])):
        yield from _orders(chain.replaced({kinds[0]: row}), kinds[1:])


def _rows(row: Hooks, choose: Choices = list) -> Iterator[Hooks]:
    """Yield every order of the hooks of one kind.

    This is the usual search for all linear extensions, with a stack of its own: a chain may be longer than Python lets
    functions call each other.
    """
    before: dict[int, set[int]] = {id(hook): set() for hook in row}
    for hook, followers in zip(row, graph(list(row))[0], strict=True):
        for place in followers:
            before[id(row[place])].add(id(hook))

    def longer(begun: Hooks) -> Iterator[Hooks]:
        placed = set(map(id, begun))
        ready = [hook for hook in row if id(hook) not in placed and before[id(hook)] <= placed]
        return ((*begun, hook) for hook in choose(ready))

    stack = [iter([cast("Hooks", ())])]
    while stack:
        begun = next(stack[-1], None)
        if begun is None:
            stack.pop()
        elif len(begun) == len(row):
            yield begun
        else:
            stack.append(longer(begun))


# Does the order matter?


# Any: a mount point of any sort, and its own arguments.
def assert_order_free(function: Any, /, *, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> None:
    """Assert that one call has the same outcome in all orders that `orders_of` yields.

    The outcome is the result, compared with ``==``, or the exception, compared by its type and ``args``. First the call
    is made twice in the present order, to check that it is repeatable. Each call gets deep copies of the arguments, and
    of the object of a method, if they can be copied. Hooks with ``once``, ``times`` or ``every`` run in each of the
    calls and are not used up. Each call of a coroutine function runs in its own event loop.

    If there are more than 720 orders, a sample is tried, with a warning: the present order and random ones. The sample
    of a chain is always the same.

    Raises:
        AssertionError: Two orders have different outcomes. The message shows both, the outcomes, and the first hook
            that was given or answered something else. The two differ only in the order of two neighbours.
        NotRepeatableError: The same call, in the same order, had two outcomes.
        HookLookupError: The function is not a mount point.

    Example:
        >>> from aspecthook import Args, hookable
        >>> @hookable
        ... def total(amount):
        ...     return amount
        >>> @total.pre
        ... def add(amount):
        ...     return Args(amount=amount + 1)
        >>> @total.pre
        ... def double(amount):
        ...     return Args(amount=amount * 2)
        >>> try:
        ...     assert_order_free(total, args=(3,))
        ... except AssertionError as error:
        ...     print(error)
        aspecthook.testing._orders:total depends on the order of its hooks
        <BLANKLINE>
          pre: add, double
            gives 8
          pre: double, add
            gives 7
        <BLANKLINE>
        the first difference:
          pre double(amount=4) → Args(amount=8)
          pre double(amount=3) → Args(amount=6)
    """
    first = _first(function, args, kwargs)
    chosen, is_sample = _chosen(first._chain, _MOST)
    for order in chosen:
        other = repeat(first, order)
        if not same_outcome(first, other):
            raise AssertionError(_difference(*_closest(first, other), is_sample=is_sample))
    if is_sample:
        warn(f"{first.label}: its hooks have more than {_MOST} orders, and only {_MOST} of them were tried")


def _first(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Trace:
    """Make the call twice in the present order, and return its trace."""
    mount = hooks(function)
    given = Given(tuple(args), dict(kwargs or {}), bound_of(function))
    plan = untraced(Trace(mount.name), mount, given)
    first, second = repeat(plan, mount.chain()), repeat(plan, mount.chain())
    if not same_outcome(first, second):
        raise not_repeatable(first, second)
    first._again = plan._again  # its own would copy the arguments as this call has left them
    return first


def _chosen(present: Chain, most: int) -> tuple[list[Chain], bool]:
    """Return the orders to be tried, and whether there are more."""
    every = list(islice(_orders(present), most + 1))
    if len(every) <= most:
        return every, False
    random = Random(0)
    found: dict[tuple[int, ...], Chain] = {}
    drawn = (_drawn(present, random) for _ in range(4 * most))
    for order in itertools.chain([present], drawn, every):  # few orders are drawn again and again
        found.setdefault(tuple(map(id, order.hooks)), order)
        if len(found) == most:
            break
    return list(found.values()), True


def _drawn(chain: Chain, random: Random) -> Chain:
    """Return an order at random."""

    def shuffled(ready: list[Hook]) -> list[Hook]:
        return random.sample(ready, len(ready))

    return chain.replaced({kind: next(_rows(getattr(chain, kind), shuffled)) for kind in KINDS})


def _closest(first: Trace, other: Trace) -> tuple[Trace, Trace]:
    """Return the calls of two orders that differ in two neighbours and in their outcomes."""
    before = first
    for kind in KINDS:
        row: Hooks = getattr(first._chain, kind)
        for place in swaps(row, getattr(other._chain, kind)):
            row = (*row[:place], row[place + 1], row[place], *row[place + 2 :])
            after = repeat(first, before._chain.replaced({kind: row}))
            if not same_outcome(before, after):
                return before, after
            before = after
    return first, other  # the target is not repeatable after all


def _difference(one: Trace, other: Trace, *, is_sample: bool) -> str:
    """Describe how two traces of one call differ, each with the order of its hooks."""
    note = " (a sample of its orders was tried)" if is_sample else ""
    lines = [f"{one.label} depends on the order of its hooks{note}", ""]
    kinds = [kind for kind in KINDS if getattr(one._chain, kind) != getattr(other._chain, kind)]
    for trace in (one, other):
        rows = [f"{kind}: {', '.join(hook.name for hook in getattr(trace._chain, kind))}" for kind in kinds]
        lines += [f"  {'; '.join(rows)}", f"    {ending(trace)}"]
    return "\n".join([*lines, "", "the first difference:", *(f"  {line}" for line in _first_difference(one, other))])


def _first_difference(one: Trace, other: Trace) -> list[str]:
    """Return the first step of one call that went otherwise in the other, and how it went there."""
    left = list(one.steps)
    for step in other.steps:
        twin = next((each for each in left if (each.kind, each.name) == (step.kind, step.name)), None)
        if twin is None:
            return [f"{step.kind} {step.name} did not run", repr(step)]
        left.remove(twin)
        if not _same_step(twin, step):
            return [repr(twin), repr(step)]
    return [repr(left[0]), f"{left[0].kind} {left[0].name} did not run"] if left else ["only the outcome differs"]


def _same_step(one: Step, other: Step) -> bool:
    given = [{name: value for name, value in step.given.items() if name != "call"} for step in (one, other)]
    return same(given[0], given[1]) and same(_answer(one), _answer(other)) and same(one.raised, other.raised)


def _answer(step: Step) -> object:
    """Return the answer such that what is in `Args` and `Return` is compared as results are."""
    return getattr(step.answer, "value", step.answer)


class Underconstrained(NamedTuple):
    """Two hooks of one kind whose order matters, but depends only on the order in which they were added.

    Attributes:
        first: The name of the hook that runs first now.
        second: The name of the other hook.
        kind: The kind of both.
        outcome: The call with the first before the second.
        swapped: The same call with the second before the first.

    Example:
        >>> from aspecthook import hookable, hooks
        >>> @hookable
        ... def price(item):
        ...     return 8.4
        >>> for name, hook in {"whole": lambda result: round(result), "tax": lambda result: result * 1.5}.items():
        ...     handle = hooks(price).add("post", hook, name=name)
        >>> [pair] = underconstrained(price, args=("tea",))
        >>> pair.first, pair.second, pair.kind
        ('whole', 'tax', 'post')
    """

    first: str
    second: str
    kind: str
    outcome: Trace
    swapped: Trace

    def __str__(self) -> str:
        """Return what is wrong and what to do, in one sentence."""
        reason = "only the order of adding decides; add before= or after="
        return f"{verdict(self.first, self.second, (self.outcome, self.swapped))}: {reason}"

    def __repr__(self) -> str:
        return str(self)


# Any: a mount point of any sort, and its own arguments.
def underconstrained(
    function: Any, /, *, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> list[Underconstrained]:
    """Return the pairs of hooks whose order matters to a call, but depends only on the order in which they were added.

    Both hooks have the same kind and priority, and no constraint decides which of them runs first. If they are added
    the other way round, as may happen when imports or plugins move, the call has another outcome. The call is made as
    by `assert_order_free`, twice for each pair, with the two side by side. A pair may conflict only on certain
    arguments, so try several calls.

    Raises:
        NotRepeatableError: The same call, in the same order, had two outcomes.
        HookLookupError: The function is not a mount point.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def price(item):
        ...     return 8.4
        >>> @price.post
        ... def whole(result):
        ...     return round(result)
        >>> @price.post
        ... def tax(result):
        ...     return result * 1.5
        >>> for pair in underconstrained(price, args=("tea",)):
        ...     print(pair)
        'whole' before 'tax' gives 12.0, and after it gives 13: only the order of adding decides; add before= or after=
    """
    first = _first(function, args, kwargs)
    found: list[Underconstrained] = []
    for kind in KINDS:
        row: Hooks = getattr(first._chain, kind)
        for one, other in combinations(range(len(row)), 2):
            if row[one].priority != row[other].priority or precedes(row[one], row[other]):
                continue
            outcomes = in_either_order(first, kind, one, other)
            if outcomes is not None:
                found.append(Underconstrained(row[one].name, row[other].name, kind, *outcomes))
    return found
