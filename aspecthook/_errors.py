"""The errors of aspecthook: one root, and leaves that are also the nearest builtin.

A message says, in this order: which mount point, which hook (its name and where it is written), what happened, and
what to do.
"""

from __future__ import annotations

import sys
from _thread import _local  # `threading` would be one more module that `import aspecthook` loads
from collections.abc import Callable
from functools import wraps
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType

from ._hints import Any, ParamSpec, TypeAlias, TypeVar, cast, final

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class AspecthookError(Exception):
    """The root of every error that aspecthook itself raises.

    Example:
        >>> issubclass(HookAnswerError, AspecthookError) and issubclass(HookAnswerError, TypeError)
        True
    """


class HookAnswerError(AspecthookError, TypeError):
    """A hook returned an answer that its kind does not allow.

    Example:
        >>> @hookable
        ... def price(item, qty=1): ...
        >>> with hooks(price).add("pre", lambda: 5):
        ...     price("tea")
        Traceback (most recent call last):
          ...
        aspecthook.HookAnswerError: ... answered an int; a pre hook may answer None, Args(...) to replace arguments, ...
    """


class HookOrderError(AspecthookError, ValueError):
    """The ``before`` and ``after`` of some hooks contradict each other; the message shows the cycle.

    Example:
        >>> @hookable
        ... def price(item): ...
        >>> first = hooks(price).add("pre", lambda: None, name="audit", before="check")
        >>> hooks(price).add("pre", lambda: None, name="check", before="audit")
        Traceback (most recent call last):
          ...
        aspecthook.HookOrderError: ...: these hooks cannot be ordered: 'audit' before 'check' before 'audit'; ...
    """


class HookSignatureError(AspecthookError, TypeError):
    """A hook asks for something that its mount point does not offer.

    Example:
        >>> @hookable
        ... def price(item, qty=1): ...
        >>> price.pre(lambda qyt: None)
        Traceback (most recent call last):
          ...
        aspecthook.HookSignatureError: ... asks for 'qyt', but ... offers item, qty; ...; did you mean 'qty'?
    """


class HookTypeError(AspecthookError, TypeError):
    """A hook or an option has a type that cannot work, such as a hook that is not callable.

    Example:
        >>> @hookable
        ... def price(item): ...
        >>> price.pre("audit")
        Traceback (most recent call last):
          ...
        aspecthook.HookTypeError: ...: 'audit' is not callable and cannot be a pre hook; give a function
    """


class HookOptionError(AspecthookError, ValueError):
    """An option of a hook has a value that it cannot have.

    Example:
        >>> @hookable
        ... def price(item): ...
        >>> price.pre(lambda: None, priority=200)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ... has the priority 200; give an int from 0 (first) to 100 (last)
    """


class HookLookupError(AspecthookError, LookupError):
    """There is no such hook, or no mount point.

    Example:
        >>> @hookable
        ... def price(item): ...
        >>> hooks(price).remove("audit")
        Traceback (most recent call last):
          ...
        aspecthook.HookLookupError: ... has no hook 'audit'; its hooks: none at all
    """


class MountError(AspecthookError, TypeError):
    """A target cannot be made a mount point; the message says why and what to mount instead.

    Example:
        >>> hookable(len)
        Traceback (most recent call last):
          ...
        aspecthook.MountError: <built-in function len> is of type builtin_function_or_method, which has no ...
    """


class WeaveError(AspecthookError, ValueError):
    """A target cannot be woven, or does not exist; the message says why and what to weave instead.

    Example:
        >>> import shlex
        >>> weave("shlex:qoute", pre=print)
        Traceback (most recent call last):
          ...
        aspecthook.WeaveError: ... did you mean 'quote'?
    """


class ConfigError(AspecthookError, ValueError):
    """A config cannot be built, or a name is taken; the message says what to write instead.

    Example:
        >>> from aspecthook.training import Registry
        >>> shapes = Registry("shapes")
        >>> @shapes.register
        ... class Circle: ...
        >>> shapes.build_from_config({"type": "Cirle"})
        Traceback (most recent call last):
          ...
        aspecthook.ConfigError: registry 'shapes': 'Cirle' is not registered; did you mean 'Circle'?
    """


class PluginError(AspecthookError, ValueError):
    """A plugin does not fit the specification, or its name is taken; the message says what to change.

    Example:
        >>> from aspecthook.plugins import Plugins
        >>> class Shop:
        ...     @event
        ...     def sold(self, item): ...
        >>> class Tax:
        ...     @on
        ...     def slod(self, item): ...
        >>> Plugins(Shop()).register(Tax())
        Traceback (most recent call last):
          ...
        aspecthook.PluginError: Shop: plugin 'Tax': ... Shop has no event of that name; ... did you mean 'sold'?
    """


class WeaveWarning(RuntimeWarning):
    """A weaving waits for a module that cannot be imported now, or it failed when its module was imported.

    The weaving's ``check()`` raises the error.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     waiting = weave("shops:price", pre=print)
        >>> print(caught[0].message)
        'shops:price' waits: there is no module 'shops' to import
        >>> waiting.remove()
    """


class HookWarning(RuntimeWarning):
    """A hook probably does not do what you meant; the message says what to write instead.

    `aspecthook.record` warns so too, of a sink that has failed and gets no more calls.

    Example:
        >>> import warnings
        >>> @hookable
        ... def price(item, result=0): ...
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     hook = price.post(lambda result: None)
        >>> print(str(caught[0].message).partition(") ")[2])
        asks for 'result' and is given the result of the call; ... has a parameter called 'result' too, which is ...
    """


for _error in (AspecthookError, *AspecthookError.__subclasses__(), HookWarning, WeaveWarning):
    # A traceback names what users import and catch, not the file in which it happens to be written.
    _error.__module__ = "aspecthook"


# How messages show names and values. `brief` shows names, and options that somebody has written in code. Values of
# calls and configs may be secrets: `described` shows only their type and size. Neither calls the `repr` of a user's
# class, which may fail or return megabytes.


def printable(text: str) -> str:
    """Return a name without characters that could forge a line of a message, a log or source, or the name of a file."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def qualified(function: Any) -> str:
    """Return ``module:qualname`` of a function or a class, as in labels; either part may be any string."""
    return printable(f"{function.__module__}:{function.__qualname__}")


def article(word: str) -> str:
    """Return the article of a word."""
    return "an" if word[:1].lower() in ("a", "e", "i", "o") else "a"


# Not `cls.__name__`: a metaclass may define that too.
_name_of_type: Callable[[type], str] = type.__dict__["__name__"].__get__

# Any: builtin types, whose `__len__` is called with a value of a subclass.
_UNITS: dict[str, tuple[Any, ...]] = {
    "character": (str,),
    "byte": (bytes, bytearray),
    "item": (list, tuple, set, frozenset),
    "key": (dict,),
}


def described(value: object) -> str:
    """Return what a value is, without showing it: its type, and its size if the type is a builtin one.

    Example:
        >>> described("hunter2"), described(2.5), described({"a": 1}), described(KeyError), described(None)
        ('a str of 7 characters', 'a float', 'a dict of 1 key', 'the class KeyError', 'None')
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {printable(_name_of_type(value))}"
    name = printable(_name_of_type(type(value)))
    for unit, kinds in _UNITS.items():
        for kind in kinds:
            if issubclass(type(value), kind):
                return f"{article(name)} {name} of {plural(kind.__len__(value), unit)}"
    return f"{article(name)} {name}"


def brief(value: object, most: int = 80) -> str:
    """Return a name or a value that is written in code, as messages show it, in at most `most` characters.

    Example:
        >>> brief("price"), brief({"every": [1, 2]}), brief(len), brief(object()), brief("x" * 1000, 10)
        ("'price'", "{'every': [1, 2]}", '<built-in function len>', '<object object>', "'xxxxxx...")
    """
    text = _shown(value, most, 4)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _shown(value: object, most: int, depth: int) -> str:
    kind = type(value)
    for base, show in _SHOWN:
        if issubclass(kind, base):
            return show(value, most, depth)
    return _object(kind)


def _object(kind: type) -> str:
    return f"<{printable(type.__repr__(kind)[8:-2])} object>"  # between "<class '" and "'>"


def _int(value: int, _most: int, _depth: int) -> str:
    bits = int.bit_length(value)  # thousands of digits are slow to make, and since 3.11 an error
    return int.__repr__(value) if bits <= 1024 else f"<an int of {bits} bits>"


def _contents(value: object, most: int, depth: int) -> str:
    kind, given = type(value), cast("Any", value)
    if kind not in _CONTAINERS:  # a subclass, which may iterate as it likes
        return _object(kind)
    left, right = tuple(_BRACKETS.get(kind, "{}"))
    if not given and kind in (set, frozenset):
        return f"{kind.__name__}()"
    if depth <= 0:
        return f"{left}...{right}"
    parts: list[str] = []
    room = most  # nothing more is needed of a text that is longer, which `brief` cuts
    try:
        for item in given.items() if kind is dict else zip(given):
            if room < 0:
                break
            parts.append(": ".join([_shown(one, most, depth - 1) for one in item]))
            room -= len(parts[-1]) + 2
    except RuntimeError:  # another thread is changing it
        return f"{left}...{right}"
    return f"{left}{', '.join(parts)}{',' if kind is tuple and len(parts) == 1 else ''}{right}"


_CONTAINERS = (list, tuple, set, frozenset, dict)
_BRACKETS: dict[type, str] = {list: "[]", tuple: "()"}


def _exception(value: BaseException, most: int, depth: int) -> str:
    args = [_shown(one, most, depth - 1) for one in value.args[:3]] if depth > 0 else ["..."]
    return f"{printable(_name_of_type(type(value)))}({', '.join(args)})"


# Any: each takes what is of its type.
_SHOWN: tuple[tuple[Any, Callable[[Any, int, int], str]], ...] = (
    (str, lambda value, most, _: str.__repr__(str.__getitem__(value, slice(most)))),
    ((bytes, bytearray), lambda value, most, _: bytes.__repr__(bytes(memoryview(value)[:most]))),
    ((bool, type(None), type(...), BuiltinFunctionType), lambda value, _most, _depth: repr(value)),
    (int, _int),
    (float, lambda value, _most, _depth: float.__repr__(value)),
    (complex, lambda value, _most, _depth: complex.__repr__(value)),
    (_CONTAINERS, _contents),
    (BaseException, _exception),
    (type, lambda value, _most, _depth: printable(type.__repr__(value))),
    (FunctionType, lambda value, _most, _depth: f"<function {qualified(value)}>"),
    (ModuleType, lambda value, most, depth: f"<module {_shown(value.__dict__.get('__name__'), most, depth)}>"),
)


Listener: TypeAlias = Callable[[str, type[Warning]], bool]


class _Here(_local):
    listener: Listener | None = None


_here = _Here()


def listener() -> Listener | None:
    """Return the listener of this thread, for an object that may have to warn later, in another thread."""
    return _here.listener


@final
class WarningsTo:
    """A `with` block whose warnings a listener is given; a warning is issued only if the listener returns False.

    The command uses it for hooks that it has added itself.
    """

    __slots__ = ("_before", "_listener")

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        self._before, _here.listener = _here.listener, self._listener

    def __exit__(self, *_: object) -> None:
        _here.listener = self._before


def warn(message: str, category: type[Warning] = HookWarning) -> None:
    """Warn, and name the line that called into this package, however many frames of ours are between."""
    if _here.listener is not None and _here.listener(message, category):
        return
    import warnings

    level, frame = 1, cast("FrameType | None", sys._getframe())
    while frame is not None and is_our_frame(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


P = ParamSpec("P")
R = TypeVar("R")


def entrance(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: the traceback of an error of ours ends at the user's line, without frames of ours."""

    @wraps(function)
    def entered(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except AspecthookError as error:
            trace = error.__traceback__
            while trace is not None and is_our_frame(trace.tb_frame):
                trace = trace.tb_next
            if trace is not None:  # it was raised in code of a user that we have called
                raise
            raise error.with_traceback(None)  # noqa: B904  # it has a cause of its own, or none

    return entered


def is_our_frame(frame: FrameType) -> bool:
    """Whether a frame runs a module of this package."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "aspecthook"


def is_inner_frame(frame: FrameType) -> bool:
    """Whether a frame runs this package, or code that was compiled for a mount point."""
    return is_our_frame(frame) or frame.f_code.co_filename.startswith("<aspecthook ")


Function = TypeVar("Function", bound=Callable[..., Any])


def unblamed(function: Function) -> Function:
    """Decorate a function between a target and its caller: `warnings` and `logging` do not name lines of it.

    Both skip frames whose file name contains `importlib` and `_bootstrap`; see `compile.show.file_name`.
    """
    made: Any = function
    name = f"<aspecthook {function.__module__} importlib._bootstrap>"
    made.__code__ = _in_file(made.__code__, name)
    return function


def _in_file(code: CodeType, name: str) -> CodeType:
    consts = [_in_file(one, name) if isinstance(one, CodeType) else one for one in code.co_consts]
    return code.replace(co_filename=name, co_consts=tuple(consts))


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, as in "1 hook" and "2 hooks"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def literal(value: object) -> str:
    """Return a value as code for a message to suggest: a plain number; any other value may be long or secret."""
    return repr(value) if type(value) in (int, float, bool) else "..."


# Kept by the first message: a later one may be made under the lock, where an import could wait for another thread.
_close_matches: Callable[..., list[str]] | None = None


def nearest(word: str, words: list[str], cutoff: float = 0.5) -> str:
    """Return the end of a message: the one of ``words`` that was probably meant by the misspelt ``word``.

    The more words there are, the higher `cutoff` must be: some are always a little alike.
    """
    global _close_matches  # noqa: PLW0603  # loaded once
    if _close_matches is None:
        from difflib import get_close_matches

        _close_matches = get_close_matches
    found = _close_matches(word, words, n=1, cutoff=cutoff)
    if not found and len(word) > 1:
        found = [one for one in words if sorted(one) == sorted(word)][:1]
    return f"; did you mean {found[0]!r}?" if found else ""


def add_note(error: Exception, note: str) -> None:
    """Add a note to an exception that will be raised again, unless it is frozen."""
    try:
        error.add_note(note)
    except Exception:  # the exception itself matters more
        pass
