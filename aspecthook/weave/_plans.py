"""From what `weave` is given to plans: which hooks go on which targets; what is wrong with it is said here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, cast

from aspecthook._core.law.asks import KINDS, Kind
from aspecthook._core.law.hook import check_options
from aspecthook._core.law.options import OPTIONS, Options
from aspecthook._core.mount.adding import check_types
from aspecthook._errors import HookTypeError, WeaveError, brief, nearest, printable
from aspecthook.torch._model import WORDS, choose, is_of_torch

from ._aspects import Marked, has_marks, marked
from ._pointcut import Pointcut
from ._shares import Wish
from ._spots import shown
from ._weaving import Plan, Scope, Weaving

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_SCOPES = ("everywhere", "context")


def begin(
    target: object,
    names: Any,
    kinds: Mapping[str, Any],
    more: Mapping[str, Any],
    *,
    aspect: object,
    where: Callable[[Any], object] | None,
    scope: Scope,
    again: bool,
) -> Weaving:
    """Make the weaving that was asked for, and weave what is there.

    Raises:
        WeaveError: What was asked for makes no sense, or cannot be done.
    """
    if callable(names) and not isinstance(names, type):
        raise HookTypeError(f"weave takes hooks by name, as in weave(target, pre=hook): {shown(names)} has none")
    words = {word: given for word, given in more.items() if word in WORDS and given is not None}
    options = cast("Options", {word: given for word, given in more.items() if word not in WORDS})
    _check(options, scope, where)
    if is_of_torch(target) and (aspect is not None or names is not None or words or any(kinds.values())):
        rows = _of_torch(target, names, kinds, words, options, aspect=aspect, where=where)
        return Weaving(tuple(rows), scope=scope, again=again).begin()
    _refuse_torch(target, names, words)
    label = shown(target)
    wishes = _wishes(kinds, options, label)
    plans: list[Plan] = []
    if aspect is None and not wishes:
        plans = _of_aspect(target, None, where, options)
        if not plans:
            raise WeaveError(_why_no_hooks(target, label))
    else:
        aimed = _aim(target)
        if wishes:
            plans.append(Plan(aimed, tuple(wishes), where))
        if aspect is not None:
            marks = _of_aspect(aspect, aimed, where, options)
            if not marks:
                raise WeaveError(_why_no_marks(aspect))
            plans += marks
    return Weaving(tuple(plans), scope=scope, again=again).begin()


def _of_torch(
    target: object,
    names: Any,
    kinds: Mapping[str, Any],
    words: Mapping[str, Any],
    options: Options,
    *,
    aspect: object,
    where: Callable[[Any], object] | None,
) -> list[Plan]:
    """Give the plans for a module or a tensor of PyTorch."""
    label = f"a model of type {type(target).__name__}"
    rows = {"forward": _wishes(kinds, options, label)}
    for word, given in words.items():
        rows[word] = _wishes({"on": given}, options, f"{label}, {word}", word)
    marks = _of_aspect(aspect, target, where, options) if aspect is not None else []
    if aspect is not None and not marks:
        raise WeaveError(_why_no_marks(aspect))
    rows["forward"] += [wish for plan in marks if plan.target is target for wish in plan.wishes]
    if not any(rows.values()):
        raise WeaveError(f"no hooks are given for {label}; name them, as in weave(model, 'conv*', post=hook)")
    chosen = choose(target, names, [word for word, wishes in rows.items() if wishes], where)
    plans = [Plan(chosen[word], tuple(wishes), None) for word, wishes in rows.items() if wishes]
    return plans + [plan for plan in marks if plan.target is not target]


def _refuse_torch(target: object, names: object, words: Mapping[str, object]) -> None:
    """Refuse what only models and tensors take."""
    if names is not None or words:
        given = f"{next(iter(words))}=" if words else brief(names)
        raise WeaveError(
            f"{given} is for modules and tensors of PyTorch, and {shown(target)} is of type {type(target).__name__}"
        )


def _check(options: Options, scope: object, where: object) -> None:
    if scope not in _SCOPES:
        raise WeaveError(f"scope={brief(scope)} is none of 'everywhere', 'context'")
    if where is not None and not callable(where):
        raise WeaveError(f"where={brief(where)} is not callable; give a predicate on functions")
    known = [*(one for one in OPTIONS if one != "weak"), *KINDS, *WORDS, "aspect", "where", "scope", "again"]
    for option in options:
        if option not in OPTIONS:
            near = nearest(option, known) or "; its hooks and options: help(weave)"
            raise WeaveError(f"weave takes no {option!r}{near}")
    _check_kept(options)


def _check_kept(options: Options) -> None:
    if options.get("weak"):
        raise WeaveError(
            "weak=True is not for weavings: a weaving keeps its hooks until it is removed; add the hook with "
            "hooks(target), or remove the weaving when its object goes"
        )


def _aim(target: object) -> object:
    if isinstance(target, str):
        return Pointcut(target)
    if isinstance(target, type) and has_marks(target):
        raise WeaveError(
            f"{printable(target.__qualname__)} has marked methods: weave an object of it, as in "
            f"weave({printable(target.__name__)}())"
        )
    return target


def _wishes(kinds: Mapping[str, Any], options: Options, label: str, called: str = "") -> list[Wish]:
    found: list[Wish] = []
    for word, given in kinds.items():
        kind = cast("Kind", word)
        if isinstance(given, Mapping):
            if kind != "exception":
                raise WeaveError(
                    f"{called or kind}= takes a hook or a list of hooks; only exception= takes a mapping from types"
                )
            rows: Mapping[Any, Any] = cast("Any", given)
            if () in rows:
                raise WeaveError(
                    f"exception= on {label} has a hook for no types at all, (); name some, such as KeyError"
                )
            for types, hooks in rows.items():
                row = _row(types)
                found += [Wish(kind, hook, row, options) for hook in _several(hooks)]
        elif given is not None:
            found += [Wish(kind, hook, (), options) for hook in _several(given)]
    for wish in found:
        if not callable(wish.function):
            raise WeaveError(
                f"{called or wish.kind}={brief(wish.function)} is not callable, and cannot be a hook on {label}; "
                f"give a function"
            )
        # Some targets may come later; what is wrong with the hooks is said now.
        check_types(wish.kind, wish.types, label)
        check_options(wish.kind, wish.function, wish.options, label)
    return found


def _row(types: object) -> tuple[Any, ...]:
    row: Any = types
    return row if isinstance(types, tuple) else (row,)


def _several(hooks: Any) -> list[Any]:
    return list(cast("Any", hooks)) if isinstance(hooks, (list, tuple, set, frozenset)) else [hooks]


def _of_aspect(aspect: Any, target: object, where: Callable[[Any], object] | None, options: Options) -> list[Plan]:
    if isinstance(aspect, (str, type, ModuleType)):
        if isinstance(aspect, type) and has_marks(aspect):
            _aim(aspect)
        return []
    plans: list[Plan] = []
    for one in marked(aspect):
        aimed = Pointcut(one.mark.pointcut) if one.mark.pointcut is not None else target
        if aimed is None:
            raise WeaveError(_why_no_target(aspect, one))
        own = cast("Options", {**options, **one.mark.options})
        check_types(one.mark.kind, one.mark.types, shown(aspect))
        _check_kept(own)
        check_options(one.mark.kind, one.method, own, shown(aspect))
        plans.append(Plan(aimed, (Wish(one.mark.kind, one.method, one.mark.types, own),), where))
    return plans


def _why_no_marks(aspect: object) -> str:
    return f"the aspect {shown(aspect)} has no marked methods; write @pre(...) above some"


def _why_no_target(aspect: object, one: Marked) -> str:
    return (
        f"the method {one.method.__name__!r} of {shown(aspect)} is marked {one.mark.kind!r} without a pointcut, so it "
        f"must be told where to go: weave(target, aspect=...)"
    )


def _why_no_hooks(target: object, label: str) -> str:
    if isinstance(target, str):
        Pointcut(target)
        return f"no hooks are given for {label}; name them, as in weave({label}, pre=hook)"
    if callable(target) or isinstance(target, ModuleType):
        return f"no hooks are given for {label}; name them, as in weave(target, pre=hook)"
    return (
        f"{label} cannot be woven: it is of type {type(target).__name__}, and has no methods marked with pre, post and "
        f"so on; give a function, a class, a module or a pointcut, and hooks as in weave('shop:Cart.*', pre=hook)"
    )
