"""The strategies: answers, orders, hooks for a target and whole chains; what they draw can be pasted as code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias, cast

from hypothesis import strategies as st

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.kinds import RESERVED, Kind
from aspecthook._core.law.options import Options, Priority
from aspecthook._core.law.signature import Signature, Style, is_plain
from aspecthook._core.mount.hookable import hooks
from tests.oracle.rows import Row, ordered
from tests.oracle.specs import HookSpec, OrderSpec
from tests.oracle.targets import Target, failures

# In the order in which draws shrink: to the first.
_KINDS: tuple[Kind, ...] = ("pre", "post", "around", "exception", "always", "item")
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ints = st.integers(0, 9)


@lru_cache(1000)
def _some(row: tuple[str, ...], most: int) -> st.SearchStrategy[tuple[str, ...]]:
    """Draw some of these, each at most once; Hypothesis shrinks this better than what it draws as unique."""
    if not row:
        return st.just(())
    return st.lists(st.sampled_from(row), max_size=most).map(lambda drawn: tuple(dict.fromkeys(drawn)))


# Answers

Names: TypeAlias = Iterable[str] | Mapping[str, st.SearchStrategy[object]]

# Law 1's table: what a hook of a kind may answer besides None.
_LEGAL: dict[Kind, tuple[str, ...]] = {
    "pre": ("Args", "Return"),
    "around": ("value", "Return"),
    "item": ("value", "Return"),
    "exception": ("Return",),
    "post": ("value", "Return"),
    "always": ("value",),
}


def answers(kind: Kind, *, names: Names = (), legal: bool = True) -> st.SearchStrategy[object]:
    """Draw what a hook of a kind may answer, by the table of law 1; it shrinks to None.

    Args:
        kind: The kind of the hook.
        names: The arguments that an `Args` may replace; a mapping says what the value of each is drawn from.
        legal: Whether to leave out the answers that are refused with `HookAnswerError`.

    Example:
        >>> from hypothesis import find
        >>> find(answers("pre", names=["qty"]), lambda drawn: isinstance(drawn, Args))
        Args(qty=0)
        >>> find(answers("pre", legal=False), lambda drawn: isinstance(drawn, int))
        0
    """
    args = _changes(_replacing(names))
    if not legal:
        args = args | st.just(Args(nobody=0))
    sorts = {"Args": args, "value": _ints, "Return": (st.none() | _ints).map(Return)}
    return st.one_of(st.none(), *(sorts[one] for one in sorts if one in _LEGAL[kind] or not legal))


def _replacing(names: Names) -> Mapping[str, st.SearchStrategy[object]]:
    if isinstance(names, Mapping):
        return cast("Mapping[str, st.SearchStrategy[object]]", names)
    return dict.fromkeys(names, _ints)


def _changes(values: Mapping[str, st.SearchStrategy[object]]) -> st.SearchStrategy[object]:
    """Draw the replacement of one argument at least."""
    if not values:
        return st.nothing()
    row = st.lists(st.sampled_from(list(values)), min_size=1, max_size=2, unique=True)
    drawn = row.flatmap(lambda names: st.fixed_dictionaries({name: values[name] for name in names}))
    return drawn.map(lambda changes: Args(**changes))


# Orders

_priorities: list[int | str] = [50, 0, 100, *Priority.__members__]
_priority = st.sampled_from(_priorities) | st.integers(0, 100)


def _is_orderable(specs: list[OrderSpec]) -> bool:
    return ordered([Row(one, "pre", one.name, None, 0, one.before, one.after) for one in specs]) is not None


def _orderable(specs: list[OrderSpec]) -> list[OrderSpec]:
    """Leave constraints out, the last first, until there is an order."""
    found = list(specs)
    for place in reversed(range(len(found))):
        if _is_orderable(found):
            break
        found[place] = OrderSpec(found[place].name, found[place].priority)
    return found


def _contradictory(specs: list[OrderSpec]) -> list[OrderSpec]:
    """Put the first hook both before and after the last."""
    if not _is_orderable(specs):
        return specs
    first, last = specs[0], specs[-1]
    return [replace(first, before=(*first.before, last.name), after=(*first.after, last.name)), *specs[1:]]


@st.composite
def orders(draw: st.DrawFn, names: int | Iterable[str] = 5, *, satisfiable: bool | None = None) -> list[OrderSpec]:
    """Draw priorities and constraints for some hooks; it shrinks to as few hooks as may be, with neither.

    Args:
        draw: Given by Hypothesis.
        names: The names of the hooks, in the order in which they are added; or the greatest number of hooks, which
            are then called ``one``, ``two`` and so on. Constraints name these, and now and then ``nobody``.
        satisfiable: True for orders that there are, False for contradictions that are refused with `HookOrderError`;
            both unless given.

    Example:
        >>> from hypothesis import find
        >>> find(orders(satisfiable=True), lambda drawn: any(one.before for one in drawn))
        [OrderSpec('one', before=('nobody',))]
        >>> find(orders(["auth", "log"], satisfiable=False), lambda drawn: len(drawn) == 2)
        [OrderSpec('auth', before=('log',), after=('log',)), OrderSpec('log')]
    """
    if isinstance(names, int):
        least = 1 if satisfiable is False else 0
        names = [_word(place) for place in range(draw(st.integers(least, names)))]
    row = list(names)
    mentioned = _some(("nobody", *row), 2)
    found = [OrderSpec(name, draw(_priority), draw(mentioned), draw(mentioned)) for name in row]
    if satisfiable is None:
        return found
    return _orderable(found) if satisfiable else _contradictory(found)


def _word(place: int) -> str:
    return _WORDS[place] if place < len(_WORDS) else f"hook_{place + 1}"


# Hooks


def _signature_of(target: Any) -> Signature:
    # Any: a target of this kit, or whatever `hooks` takes.
    return hooks(target.function if isinstance(target, Target) else target).site().signature


def _kinds(signature: Signature, kinds: Iterable[Kind] | None) -> list[Kind]:
    wanted = _KINDS if kinds is None else tuple(kinds)
    return [kind for kind in _KINDS if kind in wanted and (kind != "item" or "generator" in signature.style)]


def _styles(kind: Kind, style: Style) -> tuple[Style, ...]:
    """Return the styles that a hook on a target of a style may have; the others are refused when it is added."""
    if kind != "around":
        return ("function", "coroutine") if style in ("coroutine", "async generator") else ("function",)
    if style == "coroutine":
        return ("generator", "coroutine", "async generator")
    return ("function", "generator", "async generator") if style == "async generator" else ("function", "generator")


_TYPES: tuple[type[BaseException], ...] = (ValueError, LookupError, KeyError, OSError, Exception, BaseException)
_types = st.lists(st.sampled_from(_TYPES), max_size=2).map(lambda row: tuple(dict.fromkeys(row)))
_failure = failures()
_name = st.sampled_from(_WORDS[:5])
_rarely = st.integers(0, 4)


@st.composite
def hooks_for(draw: st.DrawFn, target: Any, *, kinds: Iterable[Kind] | None = None, legal: bool = True) -> HookSpec:
    """Draw a hook that can be added to a target; it shrinks to ``HookSpec('pre', 'one')``.

    It asks for some of what the target offers, by position or by keyword, and answers or raises.

    Args:
        draw: Given by Hypothesis.
        target: A `Target`, or any mount point.
        kinds: Which kinds there may be; all that the target can have unless given.
        legal: Whether to leave out the hooks that break law 1 when they run, with `HookAnswerError`.

    Example:
        >>> from hypothesis import find
        >>> find(hooks_for(Target("(qty)"), kinds=["post"]), lambda drawn: "qty" in drawn.asks)
        HookSpec('post', 'one', asks='qty')
    """
    found = _signature_of(target)
    kind: Kind = draw(st.sampled_from(_kinds(found, kinds)))
    style: Style = draw(st.sampled_from(_styles(kind, found.style)))
    fails = _seldom(draw)
    spec = HookSpec(
        kind,
        draw(_name),
        draw(_asks(found, kind, style)),
        answer=None if fails else draw(_answers_for(found, kind, style, legal)),
        raises=draw(_failure) if fails else None,
        style=style,
        options=draw(_condition if kind == "around" else _condition_or_isolated) if _seldom(draw) else {},
    )
    if kind == "exception":
        return replace(spec, types=draw(_types))
    if kind != "around":
        return spec
    return replace(spec, proceeds=draw(_proceeds(found, style, legal)), catches=draw(st.booleans()))


def _values(signature: Signature) -> dict[str, st.SearchStrategy[object]]:
    """Return what each parameter may be replaced by: a tuple for ``*rest``, a dict for ``**extra``."""
    found: dict[str, st.SearchStrategy[object]] = dict.fromkeys(signature.names, _ints)
    if signature.varargs is not None:
        found[signature.names[signature.varargs]] = st.lists(_ints, max_size=2).map(tuple)
    if signature.varkw is not None:
        found[signature.names[signature.varkw]] = st.dictionaries(st.sampled_from(["x", "y"]), _ints, max_size=2)
    return found


def _answers_for(signature: Signature, kind: Kind, style: Style, legal: bool) -> st.SearchStrategy[object]:
    # An async generator can return nothing, and what is around one must answer a stream.
    if style == "async generator" or (legal and kind == "around" and signature.style == "async generator"):
        return st.none()
    return answers(kind, names=_values(signature), legal=legal)


@st.composite
def _proceeds(draw: st.DrawFn, signature: Signature, style: Style, legal: bool) -> tuple[Args, ...]:
    yields = "generator" in style
    if not _seldom(draw) or (yields and legal):
        return (Args(),)
    if yields:
        return draw(st.sampled_from([(), (Args(), Args())]))
    least = 1 if legal and signature.style == "async generator" else 0
    one = st.just(Args()) | cast("st.SearchStrategy[Args]", _changes(_values(signature)))
    return tuple(draw(st.lists(one, min_size=least, max_size=2)))


@st.composite
def _asks(draw: st.DrawFn, signature: Signature, kind: Kind, style: Style) -> str:
    """Draw the parameters of a hook: any that it may have, in the order in which the language wants them."""
    words = [word for word, kinds in RESERVED.items() if kind in kinds and word != "proceed"]
    offered = [name for name in signature.names if is_plain(name) and name not in RESERVED]
    row = list(draw(_some((*offered, *words), 3)))
    by_name = draw(st.integers(0, len(row))) if row else 0
    first, last = row[: len(row) - by_name], row[len(row) - by_name :]
    # Rarely, each once: the kind's subject, a parameter that nobody offers, all arguments at once.
    rare = set(draw(_some(("/", "nothing=0", "*all", "**named"), 2))) if _seldom(draw) else set[str]()
    if kind == "around":
        rare.discard("/")  # the subject of an around hook is `proceed`
    if kind == "around" and "generator" not in style:
        first.insert(0, "proceed")
    if "/" in rare:
        first = ["subject", "/", *first]
    last += ["nothing=0"] * ("nothing=0" in rare)
    star = ["*all"] if "*all" in rare else ["*"] * bool(last)
    return ", ".join([*first, *star, *last, *(["**named"] * ("**named" in rare))])


def _seldom(draw: st.DrawFn) -> bool:
    return draw(_rarely) > 2


_conditions: list[Options] = [{"once": True}, {"times": 2}, {"every": 2}, {"reentrant": False}]
_condition = st.sampled_from(_conditions)
# What an around hook raises cannot be distinguished from what the target raised through it.
_condition_or_isolated = st.sampled_from([*_conditions, Options(isolate=True)])


# Chains


@st.composite
def chains(
    draw: st.DrawFn,
    target: Any,
    *,
    kinds: Iterable[Kind] | None = None,
    max_size: int = 5,
    legal: bool = True,
    satisfiable: bool | None = True,
) -> list[HookSpec]:
    """Draw a chain for a target: hooks in the order in which they are to be added; it shrinks to ``[]``.

    Args:
        draw: Given by Hypothesis.
        target: A `Target`, or any mount point.
        kinds: Which kinds there may be; all that the target can have unless given.
        max_size: The greatest number of hooks.
        legal: Whether to leave out the hooks that break law 1 when they run.
        satisfiable: As of `orders`; but what contradicts itself in one row need not if the kinds differ.

    Example:
        >>> from hypothesis import find
        >>> target = Target("(qty)")
        >>> find(chains(target, kinds=["pre"]), lambda drawn: len(drawn) == 2)
        [HookSpec('pre', 'one'), HookSpec('pre', 'two')]
    """
    drawn = hooks_for(target, kinds=kinds, legal=legal)
    row = draw(orders(max_size, satisfiable=satisfiable))
    return [_placed(draw(drawn), order) for order in row]


def _placed(spec: HookSpec, order: OrderSpec) -> HookSpec:
    return replace(spec, name=order.name, options=cast("Options", {**order.options, **spec.options}))
