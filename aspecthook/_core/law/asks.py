"""Law 3: a hook is given what it asks for, by name.

`resolve` reads a callable's parameters and returns its *asks*: for each parameter how it is passed, and what is passed.
Generated code writes the asks out as the text of a call, the interpreter collects them one by one; neither reads a
signature again. `check_style` refuses a hook that could never work on its target, whatever it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import FunctionType, MethodType

from aspecthook._errors import HookSignatureError, HookTypeError, article, nearest, printable
from aspecthook._hints import NamedTuple, TypeAlias

from .call import Site
from .callables import CODE, COROUTINE_MARKS, Parameter, hands_on, parameters
from .kinds import KINDS, RESERVED, RULES, WORDS, Kind
from .signature import (
    ASYNC_GENERATOR,
    COROUTINE,
    GENERATOR,
    VARARGS,
    VARKEYWORDS,
    Signature,
    Sought,
    Style,
)

# How an ask is passed: "" by position, "=name" by keyword, "*" and "**" unpacked.
# What is passed: the place of a parameter of the target; a reserved word; ".path", an attribute of the first argument
# ("." is the argument itself); an argument that a wrapper shows; or, for "**", what to leave out: places of
# keyword-only parameters, and names that the target's own ``**kwargs`` may have.
Ask: TypeAlias = tuple[str, "int | str | Sought | tuple[int | str, ...]"]
Asks: TypeAlias = tuple[Ask, ...]

# The names that other libraries (decorators, wrapt, middleware) have for the reserved words: what users write by habit.
_HABITS: dict[str, tuple[str, ...]] = {
    "proceed": ("func", "function", "fn", "f", "wrapped", "original", "inner", "handler", "call_next", "next_call"),
    "exc": ("e", "ex", "err", "error", "exception"),
    "result": ("res", "ret", "retval", "return_value", "returned", "value", "response"),
    "call": ("ctx", "context"),
    "kwargs": ("kw", "kwds"),
    "self": ("instance", "obj", "this"),
}


# How an around hook gets what hooks of other kinds ask for.
_INSIDE = {
    "result": "; write result = proceed() or, in a generator, result = yield",
    "exc": "; write try and except around proceed() or, in a generator, around the yield",
}


class Asker(NamedTuple):
    """A callable that asks: a hook that is being added to a mount point, or the `when` of one."""

    kind: Kind
    site: Site
    # The hook in messages.
    who: object
    # Whether it is a `when`. That decides whether the hook runs; it cannot run the call, so it is given no `proceed`.
    predicate: bool = False
    # Whether it is a method of the instance that is hooked, unbound: its first parameter is that of the target.
    of_instance: bool = False

    @property
    def word(self) -> str:
        """What messages call the kind."""
        emission = self.site.signature.emission
        return self.kind if self.kind != "on" or emission is None else emission.word


def resolve(function: Callable[..., object], asker: Asker) -> tuple[Asks, tuple[str, ...]]:
    """Return what a callable asks for, and what its author should be warned of.

    Raises:
        HookSignatureError: It asks for something that its mount point does not offer.
    """
    wanted = parameters(function)
    if wanted is None:
        return (("", _subject(asker)),), ()
    asks: list[Ask] = []
    # The first parameter that gets no argument by position: those behind it are passed by keyword.
    skipped: str | None = None
    free: set[str] = set()  # names that keep their default, unless a caller passes something by them
    subject_given = False
    for place, (name, how, has_default) in enumerate(wanted):
        if asker.of_instance and place == 0 and how != "*":
            asks.append(("", 0))
        elif how == "*":
            _refuse_gap(skipped, asker)
            asks.append(("*", "args"))
        elif how == "**":
            by_name = [p.name for p in wanted if p.how in ("positional", "keyword") and p.name not in free]
            asks.append(("**", tuple(_left_out(by_name, asker.site.signature))))
        elif how == "positional only":
            if not subject_given:
                asks.append(("", _subject(asker)))
                subject_given = True
            elif not has_default:
                _refuse_second_subject(name, asker)
            else:
                skipped = skipped or name
        elif (what := _find(name, has_default, asker, alone=len(wanted) == 1)) is None:
            skipped = skipped or (name if how == "positional" else None)
            free |= {name} - RESERVED.keys()
        else:
            if isinstance(what, Sought) and what.optional:  # leaving it out would shift those behind it
                skipped = skipped or name
            by_position = how == "positional" and skipped is None
            asks.append(("" if by_position else f"={name}", what))
    return tuple(asks), tuple(_doubts(wanted[asker.of_instance :], asker))


def plain_asks(function: Callable[..., object], kind: Kind, site: Site) -> Asks | None:
    """Return what a hook asks for, if that is plain, and the hook can work there; None if it takes a closer look.

    Most hooks are plain functions that ask by names alone, and hooks that ask alike share what it is.
    """
    inner: object = function.__func__ if isinstance(function, MethodType) else function
    if type(inner) is not FunctionType or inner.__defaults__:
        return None
    code = inner.__code__
    if code.co_posonlyargcount or code.co_kwonlyargcount or code.co_flags & _NOT_PLAIN:
        return None
    for mark in _NOT_PLAIN_MARKS:
        if hasattr(inner, mark):
            return None
    names = code.co_varnames[inner is not function : code.co_argcount]
    asks = _plain_asks(names, kind, site.signature)
    return asks if asks is None or RESERVED.keys().isdisjoint(names) or site.shown() is None else None


_NOT_PLAIN = VARARGS | VARKEYWORDS | COROUTINE | GENERATOR | ASYNC_GENERATOR
_NOT_PLAIN_MARKS = ("__wrapped__", "__signature__", CODE, *COROUTINE_MARKS)


@lru_cache(1024)
def _plain_asks(names: tuple[str, ...], kind: Kind, signature: Signature) -> Asks | None:
    needs_look = {
        "item": "generator" not in signature.style,
        "on": signature.emission is None,
        "around": "proceed" not in names or signature.style == "coroutine",
    }
    if needs_look.get(kind):
        return None
    asks: list[Ask] = []
    for name in names:
        if name in RESERVED:
            if name in signature.index or kind not in RESERVED[name]:
                return None
            asks.append(("", name))
        elif signature.index.get(name, signature.regular) < signature.regular:
            asks.append(("", signature.index[name]))
        else:
            return None
    return tuple(asks)


def _offered(asker: Asker) -> list[str]:
    """Return the reserved words that a callable may ask for."""
    words = [word for word, kinds in RESERVED.items() if asker.kind in kinds]
    if asker.predicate and asker.kind == "around":
        words.remove("proceed")
    return words


def _subject(asker: Asker) -> int | str:
    """Return what a positional-only parameter is given: what this kind of hook is about."""
    subject: int | str = RULES[asker.kind].subject
    if asker.predicate and asker.kind == "around":
        subject = "arguments"
    if asker.kind == "on":
        # The value that the event folds, its one argument, or else all of its arguments.
        signature = asker.site.signature
        if signature.emission is not None and signature.emission.gives == "fold":
            return signature.emission.fold
        names = signature.names
        is_method = names[:1] in (("self",), ("cls",))
        if len(names) - is_method == 1 and signature.regular == len(names):
            return len(names) - 1
    return "shown arguments" if subject == "arguments" and asker.site.shown() is not None else subject


def _find(name: str, has_default: bool, asker: Asker, *, alone: bool) -> int | str | Sought | None:
    """Look one name up: a reserved word first, then the target's parameters; None: it keeps its default."""
    if name in RESERVED:
        if name in _offered(asker):
            return name
        # `item` is so common a parameter that it is reserved only where there is an item; and an event, which has no
        # outcome before its subscribers have run, may well be about a `result` or an `exc`.
        if name != "item" and asker.kind != "on":
            if has_default:
                return None
            raise HookSignatureError(_unavailable(name, asker))
    site = asker.site
    place = site.signature.index.get(name)
    if place is not None and place < site.signature.regular:
        return place
    shown = site.shown()
    if place is not None and (shown is None or name not in shown.names):
        return place
    if shown is not None and name in shown.names:
        return shown.find(name, needed=not has_default)
    path = site.provides.get(name)
    if path is not None:
        return "." + path
    if not has_default:
        raise HookSignatureError(_unknown(name, asker, alone=alone))
    return None


def _left_out(by_name: list[str], signature: Signature) -> Iterator[int | str]:
    """Yield what the ``**kwargs`` of a hook leave out, as the hook is given it by name."""
    for name in by_name:
        place = signature.index.get(name, signature.regular)
        if signature.positional <= place < signature.regular:
            yield place
        elif signature.varkw is not None:
            yield name


def _doubts(wanted: Iterable[Parameter], asker: Asker) -> Iterator[str]:
    """Yield a warning for each reserved word that is asked for and is the name of a parameter of the target too."""
    site, offered = asker.site, _offered(asker)
    for name, how, _ in wanted:
        if name not in offered or how not in ("positional", "keyword"):
            continue
        place, shown = site.signature.index.get(name), site.shown()
        ordinary = place is not None and place < site.signature.regular
        if ordinary or (shown is not None and name in shown.ordinary):
            yield (
                f"{asker.who} asks for {name!r} and is given {WORDS[name]}; {site.label} has a parameter "
                f"called {name!r} too, which is call.arguments[{name!r}]"
            )


# What is refused.


def _unavailable(name: str, asker: Asker) -> str:
    kinds = " and ".join(kind for kind in KINDS if kind in RESERVED[name])
    word = asker.word
    message = (
        f"{asker.who} asks for {name!r}, which only {kinds} hooks are given, and this is {article(word)} {word} hook"
    )
    if word == "around" and name in _INSIDE:
        message += _INSIDE[name]
    if name in asker.site.signature.index or name in asker.site.offers():
        message += f"; the argument of that name is call.arguments[{name!r}]"
    return message


def _unknown(name: str, asker: Asker, *, alone: bool) -> str:
    label, words = asker.site.label, _offered(asker)
    names = list(dict.fromkeys([*asker.site.offers(), *asker.site.provides]))
    offered = printable(", ".join(names)) or "no parameters"
    meant = next((word for word, habits in _HABITS.items() if name in habits and word in (*words, *names)), None)
    near = nearest(name, names + words) if meant is None else f"; did you mean {meant!r}?"
    if name in ("self", "cls") and not near:
        near = "; add the method of an object, such as audit.note, not that of its class, Audit.note"
    if not near and asker.site.signature.varkw is not None and asker.site.shown() is None:
        near = "; what else callers pass by name is in kwargs"
    if alone and "proceed" in words:
        near = "; if it is a decorator, write around.wrap(decorator), and if it is a hook, ask for 'proceed'"
    also = f"{article(asker.word)} {asker.word} hook may also ask for {', '.join(words)}"
    return f"{asker.who} asks for {name!r}, but {label} offers {offered}; {also}{near}"


def _refuse_second_subject(name: str, asker: Asker) -> None:
    subject = _subject(asker)
    given = subject if isinstance(subject, str) else asker.site.signature.names[subject]
    raise HookSignatureError(
        f"{asker.who} has a second positional-only parameter {name!r}, but only one is given (the {given}); make it "
        f"an ordinary parameter, or give it a default"
    )


def _refuse_gap(skipped: str | None, asker: Asker) -> None:
    if skipped is not None:
        raise HookSignatureError(
            f"{asker.who} has *args after {skipped!r}, which {asker.site.label} does not offer; make {skipped!r} "
            f"keyword-only (put it after *args)"
        )


# Whether a hook can work on its target at all, by what calling it returns.


def check_style(kind: Kind, function: Callable[..., object], style: Style, asks: Asks, site: Site, who: object) -> None:
    """Refuse a hook that could never work on this target.

    Raises:
        HookTypeError: An async hook on a sync target, a generator where a value is needed, an item hook on a function.
    """
    target, label = site.signature.style, site.label
    if kind == "item" and "generator" not in target:
        raise HookTypeError(f"{who} would never run: {label} is not a generator and yields no items; use post")
    if kind == "on" and site.signature.emission is None:
        raise HookTypeError(
            f"{who} would never run: {label} is not an event; use pre or post, or declare it with @event"
        )
    if style in ("coroutine", "async generator") and target in ("function", "generator"):
        raise HookTypeError(
            f"{who} is async, but {label} is a sync {target}, which cannot await it; make the hook a plain function"
        )
    if kind == "around":
        _check_around(function, style, any(what == "proceed" for _, what in asks), site, who)
    elif style in ("generator", "async generator"):
        raise HookTypeError(
            f"{who} contains a yield, so calling it would run nothing; only an around hook may be a generator"
        )


def _check_around(function: Callable[..., object], style: Style, proceeds: bool, site: Site, who: object) -> None:
    target, label = site.signature.style, site.label
    generator = style in ("generator", "async generator")
    if style == "coroutine" and target == "async generator":
        raise HookTypeError(
            f"{who} is a coroutine function around the async generator {label}, which needs a stream; write an "
            f"async generator function (`async for item in proceed(): yield item`), or return proceed()"
        )
    if style == "function" and proceeds and target == "coroutine" and not hands_on(function):
        raise HookTypeError(
            f"{who} asks for `proceed` and is sync, but {label} is async: nothing has run yet when proceed() "
            f"returns, so nothing could be caught or timed; write `async def` with `await proceed()`, or a "
            f"generator function with one `yield`, which works for both"
        )
    if not proceeds and not generator:
        raise HookTypeError(
            f"{who} neither asks for `proceed` nor yields, so {label} would never run; ask for `proceed` and call it, "
            f"or write a generator function with one `yield`; to use a decorator, write around.wrap(decorator)"
        )
    if proceeds and generator and style != target:
        raise HookTypeError(
            f"{who} both asks for `proceed` and contains a yield, on a {target}; do one of the two: call `proceed()` "
            f"and return, or yield once"
        )
