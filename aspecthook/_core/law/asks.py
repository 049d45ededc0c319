"""Law 3: a hook is given what it asks for, by name.

`resolve` reads a callable's parameters and answers its *asks*: one entry a parameter, saying how it is passed and
what is passed. Generated code writes the asks out as the text of a call, the interpreter gathers them one by one;
neither reads a signature again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from aspecthook._errors import HookSignatureError, HookTypeError, article, nearest, printable

from .records import NamedTuple
from .signature import ASYNC_GENERATOR, COROUTINE, GENERATOR, VARARGS, VARKEYWORDS, Signature

if TYPE_CHECKING:
    import inspect

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Kind: TypeAlias = Literal["pre", "around", "on", "item", "exception", "post", "always"]
KINDS: tuple[Kind, ...] = ("pre", "around", "on", "item", "exception", "post", "always")

# How an ask is passed: "" by position, "=name" by keyword, "*" and "**" unpacked.
# What is passed: the place of a parameter of the target, a reserved word, ".name" for an attribute that the first
# argument lends ("." for itself), ":name" for an argument that a wrapper shows ("?name": if the call has it), or (for
# "**") the names to leave out.
Ask: TypeAlias = tuple[str, "int | str | tuple[str, ...]"]
Asks: TypeAlias = tuple[Ask, ...]

Flavour: TypeAlias = Literal["plain", "async", "generator", "async generator"]

RESERVED: dict[str, frozenset[str]] = {
    "call": frozenset(KINDS),
    "args": frozenset(KINDS),
    "kwargs": frozenset(KINDS),
    "result": frozenset({"post", "always"}),
    "exc": frozenset({"exception", "always"}),
    "proceed": frozenset({"around"}),
    "item": frozenset({"item"}),
}

_RESERVED_FOR = {
    "call": "the call object",
    "args": "the positional arguments",
    "kwargs": "the keyword arguments",
    "result": "the result of the call",
    "exc": "the exception",
    "proceed": "what runs the inside",
    "item": "the item being yielded",
}

# What a positional-only parameter, or a builtin without a signature, is given; a subscriber: see `_told`.
SUBJECT: dict[Kind, str] = {
    "pre": "arguments",
    "around": "proceed",
    "on": "arguments",
    "item": "item",
    "exception": "exc",
    "post": "result",
    "always": "call",
}


# What others call what is reserved here: decorators, wrapt, middleware.
_HABITS: dict[str, tuple[str, ...]] = {
    "proceed": ("func", "function", "fn", "f", "wrapped", "original", "inner", "handler", "call_next", "next_call"),
    "exc": ("e", "ex", "err", "error", "exception"),
    "result": ("res", "ret", "retval", "return_value", "returned", "value", "response"),
    "call": ("ctx", "context"),
    "kwargs": ("kw", "kwds"),
    "self": ("instance", "obj", "this"),
}


def kinds_of(signature: Signature) -> list[Kind]:
    """Give the kinds of hooks that can act on such a target."""
    barred = {"item"} if "generator" not in signature.style else set[str]()
    return [kind for kind in KINDS if kind not in barred and (kind != "on" or signature.emission is not None)]


class Parameter(NamedTuple):
    """One parameter of a hook: its name, its kind as in `inspect.Parameter`, and whether it has a default."""

    name: str
    how: Literal["positional only", "positional", "*", "keyword", "**"]
    has_default: bool


def parameters(function: Callable[..., object]) -> list[Parameter] | None:
    """Read the parameters of a hook; None if it has no signature (some builtins)."""
    inner: object = function.__func__ if isinstance(function, MethodType) else function
    # A function made by functools.wraps asks for what the function inside it asks for; only inspect knows that.
    if type(inner) is FunctionType and not inner.__dict__.keys() & {"__wrapped__", "__signature__"}:
        found = _from_code(inner)
        return found if inner is function or (found[:1] and found[0].how == "*") else found[1:]
    return _from_inspect(function)


def _from_code(function: FunctionType) -> list[Parameter]:
    """Read a Python function's parameters; `inspect.signature` says the same, thirty times slower."""
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    regular = count + code.co_kwonlyargcount
    without_default = count - len(function.__defaults__ or ())
    keyword_defaults = function.__kwdefaults__ or {}
    found = [
        Parameter(
            name, "positional only" if place < code.co_posonlyargcount else "positional", place >= without_default
        )
        for place, name in enumerate(names[:count])
    ]
    if code.co_flags & VARARGS:
        found.append(Parameter(names[regular], "*", has_default=False))
    found += [Parameter(name, "keyword", name in keyword_defaults) for name in names[count:regular]]
    if code.co_flags & VARKEYWORDS:
        found.append(Parameter(names[regular + bool(code.co_flags & VARARGS)], "**", has_default=False))
    return found


def signature_of(function: Callable[..., object]) -> inspect.Signature | None:
    """Give the parameters of a callable that is no plain Python function, if it tells."""
    import inspect

    module: Any = sys.modules.get(str(getattr(function, "__module__", None)))
    space: dict[str, Any] = getattr(module, "__dict__", {})
    bare = "__builtins__" not in space
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            # Names that only a type checker knows must not be looked up.
            return inspect.signature(function, annotation_format=Format.FORWARDREF)
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None
    finally:
        if bare:  # evaluating the defaults of a C function leaves it there
            space.pop("__builtins__", None)


def _from_inspect(function: Callable[..., object]) -> list[Parameter] | None:
    import inspect

    signature = signature_of(function)
    if signature is None:
        return None
    how: dict[Any, Any] = {
        inspect.Parameter.POSITIONAL_ONLY: "positional only",
        inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    return [Parameter(p.name, how[p.kind], p.default is not p.empty) for p in signature.parameters.values()]


# How `unittest.mock` and `inspect.markcoroutinefunction` mark a function whose calls give coroutines.
_MARKED_ASYNC = frozenset({"_is_coroutine", "_is_coroutine_mark"})


def flavour_of(function: Callable[..., object]) -> Flavour:
    """Return whether calling this gives a value, an awaitable, a generator or an async generator."""
    inner: Any = function
    while isinstance(inner, (partial, MethodType, staticmethod)):
        inner = inner.func if isinstance(inner, partial) else inner.__func__
    if type(inner) is not FunctionType:
        return "plain" if isinstance(inner, (type, BuiltinFunctionType)) else _flavour_of_object(inner)
    flags = inner.__code__.co_flags
    if flags & COROUTINE or not _MARKED_ASYNC.isdisjoint(inner.__dict__):
        return "async"
    if flags & ASYNC_GENERATOR:
        return "async generator"
    return "generator" if flags & GENERATOR else "plain"


def _flavour_of_object(value: Any) -> Flavour:
    import inspect

    if inspect.iscoroutinefunction(value):  # an AsyncMock says so of itself, and so does what wrapt makes
        return "async"
    call: Any = getattr(cast("type[object]", type(value)), "__call__", None)  # noqa: B004  # the function, not whether there is one
    if type(call) is not FunctionType and hasattr(value, "__wrapped__"):
        return flavour_of(value.__wrapped__)  # a `functools.lru_cache` hands on what the function in it gives
    known = isinstance(call, (FunctionType, MethodType, partial, staticmethod))
    return flavour_of(cast("Callable[..., object]", call)) if known else "plain"


# Marks a sync around hook that hands on what `proceed()` gives, awaitable or not: those of the kit serve every target.
HANDS_ON = "__aspecthook_hands_on__"


def _hands_on(function: Any) -> bool:
    """Whether a sync function may hand on a coroutine: `functools.wraps` has put it around an async one."""
    inner: Any = function.__func__ if isinstance(function, MethodType) else function
    if HANDS_ON in getattr(inner, "__dict__", {}):
        return True
    while "__wrapped__" in (found := getattr(function, "__dict__", {})):
        function = found["__wrapped__"]
    return callable(function) and flavour_of(function) == "async"


def _told(signature: Signature) -> int | str:
    """Say what an event is about: the value that it folds, its one argument, or else all of its arguments."""
    emission, names = signature.emission, signature.names
    if emission is not None and emission.gives == "fold":
        return emission.fold
    owned = names[:1] in (("self",), ("cls",))
    single = len(names) - owned == 1 and signature.regular == len(names)
    return len(names) - 1 if single else "arguments"


class Resolver:
    """Resolves the asks of the hooks of one kind on one target; `who` names the hook in messages."""

    def __init__(self, kind: Kind, label: str, signature: Signature, who: object, *, predicate: bool = False) -> None:
        self.kind: Kind = kind
        self.offered = {word for word, kinds in RESERVED.items() if kind in kinds}
        self.subject: int | str = SUBJECT[kind] if kind != "on" else _told(signature)
        if predicate and kind == "around":
            self.offered.discard("proceed")  # a predicate decides whether the hook runs, it does not run the call
            self.subject = "arguments"
        self.label = label
        self.signature = signature
        self.who = who
        self._doubted: list[str] = []
        self.word = signature.emission.word if kind == "on" and signature.emission is not None else kind

    def resolve(self, function: Callable[..., object], *, of_instance: bool = False) -> Asks:
        """Answer what the hook asks for; the first parameter of a method `of_instance` is that of the target.

        Raises:
            HookSignatureError: It asks for something that its mount point does not offer.
        """
        wanted = parameters(function)
        if wanted is None:
            return (("", self._given_subject()),)
        asks: list[Ask] = []
        skipped: str | None = None
        subject_given = False
        for place, (name, how, has_default) in enumerate(wanted):
            if of_instance and place == 0 and how != "*":
                asks.append(("", 0))
            elif how == "*":
                self._refuse_gap(skipped)
                asks.append(("*", "args"))
            elif how == "**":
                taken = tuple(p.name for p in wanted if p.how in ("positional", "keyword"))
                asks.append(("**", taken))
            elif how == "positional only":
                if not subject_given:
                    asks.append(("", self._given_subject()))
                    subject_given = True
                elif not has_default:
                    given = self.subject if isinstance(self.subject, str) else self.signature.names[self.subject]
                    raise HookSignatureError(
                        f"{self.who} has a second positional-only parameter {name!r}, but only one is given (the "
                        f"{given}); name it as an ordinary parameter, or give it a default"
                    )
                else:
                    skipped = skipped or name
            elif (found := self._find(name, has_default)) is None:
                skipped = skipped or (name if how == "positional" else None)
            else:
                if str(found)[0] == "?":  # it may be left out, and those behind it are then in other places
                    skipped = skipped or name
                by_position = how == "positional" and skipped is None
                asks.append(("" if by_position else f"={name}", found))
        return tuple(asks)

    def _given_subject(self) -> int | str:
        of_wrapper = self.subject == "arguments" and self.signature.shown() is not None
        return "shown arguments" if of_wrapper else self.subject

    def _find(self, name: str, has_default: bool) -> int | str | None:
        """Look one name up: a reserved word first, then the target's parameters; None: keep the default."""
        if name in RESERVED:
            if name in self.offered:
                self._doubted.append(name)
                return name
            # `item` is so common a parameter that it is reserved only where there is an item; and an event, which has
            # no outcome before its subscribers have run, may well be about a `result` or an `exc`.
            if name != "item" and self.kind != "on":
                if has_default:
                    return None
                raise HookSignatureError(self._unavailable(name))
        place = self.signature.index.get(name)
        if place is not None and place < self.signature.regular:
            return place
        shown = self.signature.shown()
        if place is not None and (shown is None or name not in shown):
            return place
        if shown is not None and name in shown:
            return ("?" if has_default else ":") + name
        lent = self.signature.lends.get(name)
        if lent is not None:
            return "." + lent
        if not has_default:
            raise HookSignatureError(self._unknown(name))
        return None

    def doubts(self) -> Iterator[str]:
        """Yield a warning for each reserved word that is asked for and is the name of a parameter of the target too."""
        for name in self._doubted:
            shown = self.signature.shown()
            place = self.signature.index.get(name)
            own = place is not None and place < self.signature.regular
            if own or (shown is not None and name in shown.ordinary):
                yield (
                    f"{self.who} asks for {name!r} and is given {_RESERVED_FOR[name]}; {self.label} has a parameter "
                    f"called {name!r} too, which is call.arguments[{name!r}]"
                )

    def _unavailable(self, name: str) -> str:
        kinds = " and ".join(kind for kind in KINDS if kind in RESERVED[name])
        this = f"this is {article(self.word)} {self.word} hook"
        message = f"{self.who} asks for {name!r}, which only {kinds} hooks are given, and {this}"
        if name in self.signature.index or name in (self.signature.shown() or ()):
            message += f"; the argument of that name is call.arguments[{name!r}]"
        return message

    def _unknown(self, name: str) -> str:
        shown = self.signature.shown()
        names = [*(self.signature.names if shown is None else shown.names), *self.signature.lends]
        words = [word for word in RESERVED if word in self.offered]
        offered = printable(", ".join(names)) or "no parameters"
        meant = next((word for word, habits in _HABITS.items() if name in habits and word in (*words, *names)), None)
        return (
            f"{self.who} asks for {name!r}, but {self.label} offers {offered} (and every {self.word} hook "
            f"{', '.join(words)}){nearest(name, names + words) if meant is None else f'; did you mean {meant!r}?'}"
        )

    def _refuse_gap(self, skipped: str | None) -> None:
        if skipped is not None:
            raise HookSignatureError(
                f"{self.who} has *args behind {skipped!r}, which {self.label} does not offer; make {skipped!r} "
                f"keyword-only (put it behind *args)"
            )


def check_flavour(
    kind: Kind,
    function: Callable[..., object],
    flavour: Flavour,
    asks: Asks,
    signature: Signature,
    label: str,
    who: object,
) -> None:
    """Refuse a hook that could never work on this target because of what calling it gives.

    Raises:
        HookTypeError: An async hook on a sync target, a generator where a value is needed, an item hook on a function.
    """
    style = signature.style
    proceeds = any(what == "proceed" for _, what in asks)
    if kind == "item" and "generator" not in style:
        raise HookTypeError(f"{who} would never run: {label} is no generator, it has no items; use post")
    if kind == "on" and signature.emission is None:
        raise HookTypeError(f"{who} would never run: {label} is no event; use pre or post, or declare it with @event")
    if flavour in ("async", "async generator") and style in ("function", "generator"):
        raise HookTypeError(
            f"{who} is async, but {label} is a sync {style}, which cannot await it; make the hook a plain function"
        )
    if kind == "around":
        if flavour == "async" and style == "async generator":
            raise HookTypeError(
                f"{who} is a coroutine function around the async generator {label}, which needs a stream; write an "
                f"async generator function (`async for item in proceed(): yield item`), or answer proceed()"
            )
        if flavour == "plain" and proceeds and style == "coroutine" and not _hands_on(function):
            raise HookTypeError(
                f"{who} asks for `proceed` and is sync, but {label} is async: nothing has run yet when proceed() "
                f"returns, so nothing could be caught or timed; write `async def` with `await proceed()`, or a "
                f"generator function with one `yield`, which serves both"
            )
        _check_around(flavour, proceeds, style, label, who)
    elif flavour in ("generator", "async generator"):
        raise HookTypeError(
            f"{who} contains a yield, so that calling it would run nothing; only an around hook may be a generator"
        )


def _check_around(flavour: Flavour, proceeds: bool, style: str, label: str, who: object) -> None:
    generator = flavour in ("generator", "async generator")
    if not proceeds and not generator:
        raise HookTypeError(
            f"{who} neither asks for `proceed` nor yields, so that {label} would never run; ask for "
            f"`proceed` and call it, or write a generator function with one `yield`"
        )
    if proceeds and generator and flavour != style:
        raise HookTypeError(
            f"{who} both asks for `proceed` and contains a yield, on a {style}; do one of the two: call `proceed()` "
            f"and return, or yield once"
        )
