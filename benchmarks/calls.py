"""What a call costs: with nothing attached, with hooks of each kind, and for instances that carry none."""

from __future__ import annotations

from sys import version_info
from typing import Any

from aspecthook import hookable
from aspecthook import hooks as hooks_of

from . import contenders as other
from . import targets
from .results import OURS, Contest, Goal
from .timing import Contender, Effort, race

HAND = "by hand"
METHOD = " (method)"


def idle(effort: Effort) -> list[Contest]:
    """Nothing attached: the plain function, the same made hookable, and the same after hooks have come and gone."""
    bare = targets.define("def idle_add(x, y):\n    return x + y\n")
    untouched = targets.define("def idle_target(x, y):\n    return x + y\n")
    code = untouched.__code__
    function, used = hookable(untouched), targets.target()
    used.pre(targets.nothing)
    used(1, 2)
    used.hooks.clear()
    functions = {"plain function": bare, "hookable": function, "hooked once, not now": used}
    times = race([Contender(name, other.CALL, {"f": one}) for name, one in functions.items()], effort)
    # The goal of 1.00 is a fact, the code object; what the clock adds to it is noise.
    facts = {"the same function and __code__": function is untouched and function.__code__ is code}
    return [Contest("idle", "Nothing attached", "ns", times, "plain function", facts=facts)]


def chains(effort: Effort) -> list[Contest]:
    """N hooks before and N after that do nothing: ours, by hand, and in each library."""
    # From 3.13 on, callers no longer specialise a call of a function whose `__code__` was ever stored.
    late = version_info >= (3, 13)
    return [_chain(1, 1.3 if late else 1.2, effort), _chain(10, 1.2 if late else 1.15, effort)]


def _chain(count: int, limit: float, effort: Effort) -> Contest:
    pre, post = other.hooks(count)
    signals, _kept = other.blinker_signals(count)
    times = race(
        [
            other.bare(),
            Contender(HAND, other.CALL, {"f": targets.by_hand(pre, post)}),
            Contender(f"{HAND}, looking at answers", other.CALL, {"f": targets.by_hand(pre, post, looking=True)}),
            other.ours(pre, post),
            Contender(HAND + METHOD, "o.add(1, 2)", {"o": targets.by_hand(pre, post, method=True)()}),
            Contender(OURS + METHOD, "o.add(1, 2)", {"o": _hooked_method(pre, post)}),
            other.wrapt_nested(pre, post),
            other.wrapt_once(pre, post),
            other.aspectlib_nested(pre, post),
            other.pluggy_wrappers(pre, post),
            signals,
        ],
        effort,
    )
    goals = [Goal(OURS, limit, HAND), Goal(OURS + METHOD, limit, HAND + METHOD)]
    goals += [
        Goal(name, least, OURS, at_least=True)
        for name, least in {"wrapt": 7, "aspectlib": 8, "pluggy": 15, "blinker": 20}.items()
    ]
    return Contest("chains", f"{count} pre + {count} post, no-op", "ns", times, HAND, goals)


def _hooked_method(pre: list[Any], post: list[Any]) -> Any:
    cls, method = targets.method_target()
    for hook in pre:
        method.pre(hook)
    for hook in post:
        method.post(hook)
    return cls()


def kinds(effort: Effort) -> list[Contest]:
    """Hooks of each kind, and targets of each style, beside the same by hand."""
    contests = []
    for title, statement, hand, hooked, per_statement in (*_kinds_of_hooks(), *_styles_of_targets()):
        pair = [Contender(n, statement, {"f": f}, per_statement) for n, f in ((HAND, hand), (OURS, hooked))]
        goals = [Goal(OURS, LIMITS[title], HAND)] if title in LIMITS else []
        contests.append(Contest("kinds", title, "ns", race(pair, effort), HAND, goals, wide=True))
    return contests


Pair = tuple[str, str, Any, Any, int]

# Those that have a goal.
LIMITS = {
    "pre hook that answers Args": 3.5,
    "around hook, proceed()": 1.4,
    "around hook, one yield": 1.4,
    "closure, 1 pre + 1 post": 1.3,
    "generator, item hook (an item)": 1.4,
}


def _kinds_of_hooks() -> list[Pair]:
    call = other.CALL
    failing = targets.target("def {name}(x, y):\n    raise KeyError(x)\n")
    failing.exception(targets.rescue)
    replacing, skipping, improving = (targets.target() for _ in range(3))
    replacing.pre(targets.replaced_in_args)
    skipping.pre(targets.instead)
    improving.post(targets.improved)
    proceeding, changing, yielding, last = (targets.target() for _ in range(4))
    proceeding.around(targets.through)
    changing.around(targets.through_with)
    yielding.around(targets.one_yield)
    last.always(targets.at_last)
    closure, closure_by_hand = targets.closures()
    closure.pre(targets.nothing)
    closure.post(targets.seen)
    return [
        ("pre hook that answers Args", call, targets.replaced_by_hand, replacing, 1),
        ("pre hook that answers Return", call, targets.skipped_by_hand, skipping, 1),
        ("post hook that answers a value", call, targets.improved_by_hand, improving, 1),
        ("exception hook that handles", call, targets.rescued_by_hand, failing, 1),
        ("around hook, proceed()", call, targets.proceeding_by_hand, proceeding, 1),
        ("around hook, proceed(x=...)", call, targets.proceeding_with_by_hand, changing, 1),
        ("around hook, one yield", call, targets.yielding_by_hand, yielding, 1),
        ("always hook", call, targets.finally_by_hand, last, 1),
        ("closure, 1 pre + 1 post", call, closure_by_hand, closure, 1),
    ]


def _styles_of_targets() -> list[Pair]:
    later = targets.target("async def {name}(x, y):\n    return x + y\n")
    later.pre(targets.nothing)
    later.post(targets.seen)
    items = targets.target("def {name}(x):\n    yield from (x, x, x, x, x, x, x, x, x, x)\n")
    items.item(targets.each)
    awaiting, drawing = "await f(1, 2)", "for _item in f(1): pass"
    return [
        ("async, 1 pre + 1 post", awaiting, targets.later_by_hand, later, 1),
        ("generator, item hook (an item)", drawing, targets.items_by_hand, items, 10),
    ]


def instances(effort: Effort) -> list[Contest]:
    """A call on instances with and without hooks of their own, when 1 and when 1,000 have some, beside it by hand."""
    contenders = [Contender("nothing attached", "o.add(1, 2)", {"o": targets.method_target()[0]()})]
    for count in (1, 1000):
        cls, _method = targets.method_target()
        hooked = [cls() for _ in range(count)]
        for one in hooked:
            hooks_of(one.add).pre(targets.nothing)
        contenders += [
            Contender(f"another instance, {count:,} hooked", "o.add(1, 2)", {"o": cls(), "kept": hooked}),
            Contender(f"a hooked instance, {count:,} hooked", "o.add(1, 2)", {"o": hooked[-1]}),
        ]
    by_hand = targets.AdderByHand()
    by_hand.hooks.append(targets.nothing)
    contenders += [
        Contender("another instance, by hand", "o.add(1, 2)", {"o": targets.AdderByHand()}),
        Contender("a hooked instance, by hand", "o.add(1, 2)", {"o": by_hand}),
    ]
    goals = [
        Goal("another instance, 1 hooked", 1.1, "another instance, by hand"),
        Goal("another instance, 1,000 hooked", 1.1, "another instance, 1 hooked"),
        Goal("a hooked instance, 1 hooked", 1.3, "a hooked instance, by hand"),
    ]
    times = race(contenders, effort)
    return [Contest("instances", "1 pre hook on some instances", "ns", times, "nothing attached", goals)]
