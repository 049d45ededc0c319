"""From the arguments of `weave` to plans: which hooks go on which targets. Arguments that make no sense are refused."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, ModuleType

from aspecthook._core.law.callables import identity
from aspecthook._core.law.hook import EXCEPTION, check_options, instead_of
from aspecthook._core.law.kinds import KINDS, Kind, meant_kind
from aspecthook._core.law.options import OPTIONS, Options
from aspecthook._core.mount.kind_hooks import check_types
from aspecthook._errors import HookTypeError, WeaveError, brief, printable
from aspecthook._hints import Any, NamedTuple, cast

from ._aspects import has_marks, marked
from ._finding import Plan, Wanted, Where
from ._pointcut import Pointcut
from ._pytorch import WORDS, model_of, refuse_words
from ._spots import Chosen, label_of
from ._weaving import Weaving

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class _Given(NamedTuple):
    """The hooks, and what holds for all of them."""

    kinds: Mapping[str, Any]
    words: Mapping[str, Any]  # the hooks of kinds that only objects of PyTorch take
    options: Options
    aspect: object
    where: Where | None


def begin(
    target: object,
    names: Any,
    kinds: Mapping[str, Any],
    more: Mapping[str, Any],
    aspect: object,
    where: Any,
    scope: Any,
) -> Weaving:
    """Make the weaving that was asked for, and weave what is imported.

    Raises:
        WeaveError: What was asked for makes no sense, or cannot be done.
    """
    if callable(names) and not isinstance(names, type):
        raise HookTypeError(f"weave takes hooks by name, as in weave(target, pre=hook): {label_of(names)} has none")
    kinds = {kind: hooks for kind, hooks in kinds.items() if hooks is not None}
    words = {word: hooks for word, hooks in more.items() if word in WORDS and hooks is not None}
    options: Any = {option: value for option, value in more.items() if option not in WORDS}
    _check(options, scope, where)
    given = _Given(kinds, words, options, aspect, where)
    model = model_of(target)
    if model is not None and (aspect is not None or names is not None or words or any(kinds.values())):
        plans = _of_pytorch(model, target, names, given)
    else:
        refuse_words(target, names, words)
        plans = _of_functions(target, given)
    return Weaving(tuple(plans), scope=scope).begin()


def _check(options: Options, scope: object, where: object) -> None:
    if scope not in ("everywhere", "context"):
        raise WeaveError(f"scope={brief(scope)}; give 'everywhere' or 'context'")
    if where is not None and not callable(where):
        raise WeaveError(f"where={brief(where)} is not callable; give a predicate on functions")
    for option in options:
        if option not in OPTIONS:
            known = [*OPTIONS, *KINDS, *WORDS, "aspect", "where", "scope"]
            meant = meant_kind(option, known) or "; its hooks and options: help(weave)"
            raise WeaveError(f"weave takes no {option!r}{meant}")


def _of_functions(target: object, given: _Given) -> list[Plan]:
    """Return the plans for whatever holds functions, or for an aspect given alone."""
    wanted = _wanted(given.kinds, given.options, label_of(target))
    if given.aspect is None and not wanted:
        plans = _of_aspect(target, None, given)
        if not plans:
            raise WeaveError(_why_no_hooks(target))
        return plans
    _refuse_class(target)
    aimed = Pointcut(target) if isinstance(target, str) else target
    plans = [Plan(aimed, tuple(wanted), given.where)] if wanted else []
    return plans if given.aspect is None else plans + _of_given_aspect(aimed, given)


def _of_pytorch(model: Any, target: object, names: Any, given: _Given) -> list[Plan]:
    """Return the plans for an object of PyTorch: for each word the spots that `model`, our module for it, chooses."""
    label = f"an object of type {type(target).__name__}"
    wanted = {"call": _wanted(given.kinds, given.options, label)}
    for word, hooks in given.words.items():
        wanted[word] = _wanted({"on": hooks}, given.options, f"{label}, {word}", word)
    marks = _of_given_aspect(target, given) if given.aspect is not None else []
    wanted["call"] += [one for plan in marks if plan.target is target for one in plan.wanted]
    wanted = {word: hooks for word, hooks in wanted.items() if hooks}
    if not wanted:
        raise WeaveError(f"no hooks are given for {label}; name them, as in weave(target, post=hook)")
    chosen: dict[str, Chosen] = model.choose(target, names, list(wanted), given.where)
    plans = [Plan(chosen[word], tuple(hooks), None) for word, hooks in wanted.items()]
    return plans + [plan for plan in marks if plan.target is not target]


def _wanted(kinds: Mapping[str, Any], options: Options, label: str, word: str = "") -> list[Wanted]:
    """Return the hooks that are given by kind, or by a word for objects of PyTorch."""
    found: list[Wanted] = []
    for kind, given in kinds.items():
        called = word or kind
        for types, hooks in _by_types(given, called, label):
            several: Any = hooks if type(hooks) in (list, tuple, set, frozenset) else (hooks,)
            for hook in several:
                if not callable(hook):
                    raise WeaveError(
                        f"{called}={brief(hook)} is not callable, and cannot be a hook on {label}; "
                        f"give {instead_of(hook, cast('Kind', kind))}"
                    )
                if isinstance(hook, type) and issubclass(hook, BaseException):
                    raise WeaveError(
                        f"{called}={brief(hook)} is an exception type, and cannot be a hook on {label}; give the hook "
                        f"for it, as in exception={{KeyError: hook}}"
                    )
                found.append(_want(cast("Kind", kind), hook, types, options, label))
    return found


def _by_types(given: Any, called: str, label: str) -> list[tuple[tuple[Any, ...], Any]]:
    """Return hooks with the exception types they are given for."""
    if not isinstance(given, Mapping):
        return [((), given)]
    if called != "exception":
        raise WeaveError(f"{called}= takes a hook or a list of hooks; only exception= takes a mapping from types")
    rows: Mapping[Any, Any] = cast("Any", given)
    if () in rows:
        raise WeaveError(f"exception= on {label} has a hook for no types at all, (); name some, such as KeyError")
    return [(types if isinstance(types, tuple) else (types,), hooks) for types, hooks in rows.items()]


def _want(kind: Kind, function: Any, types: tuple[type[BaseException], ...], options: Options, label: str) -> Wanted:
    """Return one hook that is to be woven; some targets may be imported later, but wrong options are refused now."""
    if types:
        check_types(kind, types, label)
    meaning = frozenset(check_options(kind, function, options, label).items())
    return Wanted(kind, function, types, options, (kind, identity(function), frozenset(types or EXCEPTION), meaning))


def _of_given_aspect(target: object, given: _Given) -> list[Plan]:
    plans, label = _of_aspect(given.aspect, target, given), label_of(given.aspect)
    if not plans and isinstance(given.aspect, FunctionType):
        name = given.aspect.__name__
        raise WeaveError(f"the aspect {label} is a function; if it makes an aspect, call it: aspect={name}(...)")
    if not plans:
        raise WeaveError(f"the aspect {label} has no marked methods; write @pre(...) above some")
    return plans


def _of_aspect(aspect: Any, target: object, given: _Given) -> list[Plan]:
    """Return the plans for the marked methods of an aspect; those whose marks name no pointcut go on `target`."""
    _refuse_class(aspect)
    plans: list[Plan] = []
    for mark, method in () if isinstance(aspect, (str, type, ModuleType)) else marked(aspect):
        if mark.pointcut is None and target is None:
            raise WeaveError(
                f"the method {method.__name__!r} of {label_of(aspect)} is marked {mark.kind!r} without a pointcut; "
                f"name one in the mark, or give the target: weave(target, aspect=...)"
            )
        options = cast("Options", {**given.options, **mark.options})
        aimed = target if mark.pointcut is None else Pointcut(mark.pointcut)
        plans.append(Plan(aimed, (_want(mark.kind, method, mark.types, options, label_of(aspect)),), given.where))
    return plans


def _refuse_class(target: object) -> None:
    """Refuse a class that defines an aspect, of which an instance is to be woven."""
    if isinstance(target, type) and has_marks(target):
        name, path = printable(target.__name__), printable(target.__qualname__)
        raise WeaveError(f"{path} has marked methods: weave an object of it, as in weave({name}())")


def _why_no_hooks(target: object) -> str:
    label = label_of(target)
    if isinstance(target, str):
        Pointcut(target)
        return f"no hooks are given for {label}; name them, as in weave({label}, pre=hook)"
    if callable(target) or isinstance(target, ModuleType):
        return f"no hooks are given for {label}; name them, as in weave(target, pre=hook)"
    return (
        f"{label} cannot be woven: it is of type {type(target).__name__}, and has no methods marked with pre, post and "
        f"so on; give a function, a class, a module or a pointcut, and hooks as in weave('shop:Cart.*', pre=hook)"
    )
