"""How values of a program are shown: shortened texts, in which nothing redacted appears.

The invariant: no text is made of something huge, no `repr` that raises reaches the program, no watcher notes what a
`repr` calls, and a redacted string is in no text, wherever else the program passes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from reprlib import Repr

from aspecthook._core.law.callables import type_of
from aspecthook._errors import HookOptionError, brief, printable
from aspecthook._hints import Any, TypeAlias, cast, final
from aspecthook._watching import Unwatched

Redact: TypeAlias = "str | Iterable[str] | Callable[[str, Any], object] | None"

# What Python and handlers of signals raise to end a program, in whatever code happens to run: Ctrl-C and SIGTERM have
# to end it also where they come while a text is made. Any other exception is the doing of a `repr` alone, which the
# program would not have called here, so that it becomes a part of the text: that of `pytest.fail`, that of a generator
# which is closed, or one of the program's own below `BaseException`.
_ENDS_PROGRAMS = (KeyboardInterrupt, SystemExit)


def _tried(work: Callable[[], Any], failed: Callable[[BaseException], Any]) -> Any:
    """Run code of the program without noting its calls. Return its result, or what `failed` makes of its exception."""
    try:
        with Unwatched():
            return work()
    except _ENDS_PROGRAMS:
        raise
    except BaseException as error:
        return failed(error)


_SHORTEST_SECRET = 4  # shorter strings are everywhere, and would make every text unreadable
_MOST_SECRETS = 1_000
_MOST_NAMES = 10_000


@final
class Shown(str):
    """A text that stands for a value: of a recording that was read from a file, or of a redacted value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


REDACTED = Shown("<redacted>")


@final
class _Secret:
    """A string that is masked, however often a `repr` has escaped it."""

    def __init__(self, text: str) -> None:
        self.core = max(re.split(r"[^A-Za-z0-9]+", text), key=len)  # what no escaping changes
        self._text = text

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that finds the secret in a text."""
        return re.compile("".join(map(_escaped, self._text)))


def _escaped(character: str) -> str:
    """Return a pattern for a character with any number of backslashes before it."""
    if character == "\\":
        return r"\\+"
    forms = {character, printable(character)}
    forms |= {form(character)[1:-1].lstrip("\\") for form in (repr, ascii)}
    return rf"\\*(?:{'|'.join(map(re.escape, sorted(forms)))})"


@final
class Redaction:
    """Which values are redacted: by the names of arguments, which may be globs, or by a predicate on name and value.

    Strings that were redacted are masked in all texts: where a function passes its ``token`` on as ``value``, returns
    it, or raises an exception that has it in its message. The latest thousand are known, of four characters or more.
    """

    def __init__(self, redact: Redact) -> None:
        self._predicate: Callable[[str, Any], object] | None = None
        self._globs: tuple[str, ...] = ()
        if isinstance(redact, str):
            self._globs = (redact.lower(),)
        elif callable(redact):
            self._predicate = redact
        elif redact is not None:
            names: list[Any] = list(redact) if isinstance(cast("object", redact), Iterable) else [redact]
            unfit = [name for name in names if not isinstance(name, str)]
            if unfit:
                raise HookOptionError(f"redact={brief(unfit[0])}: give names such as 'token', or a predicate")
            self._globs = tuple(name.lower() for name in names)
        self.active: bool = bool(self._globs) or self._predicate is not None
        self._known: dict[str, bool] = {}
        self._secrets: dict[str, _Secret] = {}
        # How much more of a long string has to be looked at, so that no part of a secret is shown.
        self.longest: int = 0
        # Makes the texts of values.
        self.shortener: Shortener = Shortener(self)

    def hides(self, name: str, value: object) -> bool:
        """Whether a value is redacted."""
        if not self.active:
            return False
        predicate = self._predicate
        if predicate is not None:  # a value that it cannot look at may be a secret
            return bool(_tried(lambda: predicate(name, value), lambda _: True))
        hidden = self._known.get(name)
        if hidden is None:
            hidden = any(fnmatchcase(name.lower(), glob) for glob in self._globs)
            if len(self._known) < _MOST_NAMES:
                self._known[name] = hidden
        return hidden

    def redacted(self, name: str, value: Any) -> Any:
        """Return a value, or what stands for it if it is redacted; what it holds under such a name is noted."""
        if not self.active:
            return value
        hidden = self.hides(name, value)
        # A container that cannot be looked into is left alone; neither can its text be made.
        _tried(lambda: self._keep(value) if hidden else self._look_into(value, 3), lambda _: None)
        return REDACTED if hidden else value

    def _look_into(self, value: Any, depth: int) -> None:
        """Note the strings that a value holds under names that are redacted, before any text is made."""
        named: list[tuple[Any, Any]]
        held = value
        if isinstance(value, Mapping):
            named = list(islice(held.items(), 100))
        elif "__dataclass_fields__" in vars(type_of(value)):
            named = [(field, getattr(value, field, None)) for field in held.__dataclass_fields__]
        elif isinstance(value, (list, tuple, set, frozenset)):
            named = [(None, one) for one in islice(held, 100)]
        else:
            return
        for name, one in named:
            if isinstance(name, str) and self.hides(name, one):
                self._keep(one)
            elif depth:
                self._look_into(one, depth - 1)

    def arguments(self, arguments: Mapping[str, Any], extra: str | None = None) -> dict[str, Any]:
        """Return arguments without what is redacted; `extra` is the name of the ``**kwargs``, whose names count too."""
        if not self.active:
            return dict(arguments)
        shown = {name: self.redacted(name, value) for name, value in arguments.items()}
        if extra is not None and type(shown.get(extra)) is dict:
            shown[extra] = {name: self.redacted(str(name), value) for name, value in shown[extra].items()}
        return shown

    def shown(self, arguments: Mapping[str, Any], extra: str | None = None) -> dict[str, str]:
        """Return arguments, see `arguments`, as shortened texts."""
        return {name: self.shortener.text(value) for name, value in self.arguments(arguments, extra).items()}

    def shown_result(self, result: object) -> str:
        """Return a result as a shortened text."""
        return self.shortener.text(self.redacted("result", result))

    def shown_error(self, error: BaseException) -> tuple[str, str]:
        """Return the name of an exception's type and its shortened message."""
        message = REDACTED if self.hides("error", error) else self.shortener.message(error)
        return printable(type(error).__name__), message

    def _keep(self, value: Any) -> None:
        """Note the strings in a value that is redacted."""
        for secret in _strings(value):
            if len(secret) >= _SHORTEST_SECRET and secret not in self._secrets:
                self._secrets[secret] = _Secret(secret)
                self.longest = max(self.longest, 4 * len(secret))
                while len(self._secrets) > _MOST_SECRETS:
                    self._secrets.pop(next(iter(self._secrets)), None)

    def masked(self, text: str) -> str:
        """Return a text in which the strings that were redacted are masked."""
        found = [row for row in self._secrets.copy().items() if row[1].core in text] if self._secrets else []
        # The longest first: of one that begins with another one, the rest would be shown.
        for _, secret in sorted(found, key=lambda row: -len(row[0])):
            text = secret.pattern.sub(REDACTED, text)
        return text


def _strings(value: Any, depth: int = 3) -> Iterator[str]:
    """Yield the strings in a value."""
    held = value
    if isinstance(value, str):
        yield str(value)
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value).decode("utf-8", "backslashreplace")
        yield repr(bytes(value))[2:-1]
    elif depth and isinstance(value, Mapping):
        for one in islice(held.values(), 100):
            yield from _strings(one, depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for one in islice(held, 100):
            yield from _strings(one, depth - 1)


@final
class Shortener(Repr):
    """Makes the shortened texts of values. Containers are not iterated beyond what is shown, nor are they sorted."""

    def __init__(self, redaction: Redaction, longest: int = 60) -> None:
        super().__init__()
        self.maxstring = longest
        self.maxother = longest
        self._redaction = redaction

    def text(self, value: object) -> str:
        """Return the shortened text of a value in one line, or what kept it from being made."""
        kind = type(value)
        if not self._redaction.active:
            if kind in _PLAIN_TYPES:
                if kind is str:
                    if len(cast("str", value)) < self.maxstring - 1 and cast("str", value).isprintable():
                        return repr(value)
                elif kind is not int or -_BIG < cast("int", value) < _BIG:
                    return repr(value)
            elif type(kind) is type and kind.__repr__ is object.__repr__:  # which runs no code of the program
                plain = repr(value)
                if len(plain) <= self.maxother and plain.isprintable():
                    return plain

        def failed(error: BaseException) -> str:  # a repr that fails must not hide what happened
            return f"<{printable(type(value).__name__)} whose repr raised {printable(type(error).__name__)}>"

        text: str = _tried(lambda: self.repr(value), failed)
        return self._redaction.masked(printable(" ".join([line.strip() for line in text.splitlines()])))

    def message(self, error: BaseException) -> str:
        """Return the shortened message of an exception."""
        plain = type(error).__str__ is BaseException.__str__ and len(error.args) != 1
        text: str = _tried(
            lambda: self.repr1(error.args, self.maxlevel) if plain and error.args else str(error),
            lambda other: f"<whose str raised {printable(type(other).__name__)}>",
        )
        text = self._redaction.masked(text)
        return printable(_cut(" ".join([line.strip() for line in text.splitlines()]), 200))

    def repr1(self, x: Any, level: int) -> str:
        """Return the text of a value; subclasses of containers are shown as those are, unless they show themselves."""
        kind = type_of(x)
        if kind is Shown:
            return str(x)
        own: object = kind.__repr__
        shows = _SHOWS.get(own)
        if shows is not None:
            text: str = getattr(self, shows)(x, level)
            return text
        if "__dataclass_fields__" in vars(kind) and getattr(own, "__wrapped__", None) is not None and level > 0:
            fields = [field.name for field in x.__dataclass_fields__.values() if field.repr]
            return self._named(kind.__qualname__, ((name, getattr(x, name)) for name in fields), len(fields), level)
        if isinstance(x, BaseException) and own is BaseException.__repr__ and level > 0:
            return f"{kind.__name__}({', '.join([self.repr1(one, level - 1) for one in x.args[: self.maxtuple]])})"
        return self.repr_instance(x, level)

    def _named(self, name: str, items: Iterable[tuple[str, Any]], count: int, level: int) -> str:
        parts = [
            f"{word}={self.repr1(self._redaction.redacted(word, value), level - 1)}"
            for word, value in islice(items, self.maxlist)
        ]
        return f"{name}({', '.join(parts)}{', ...' if count > self.maxlist else ''})"

    def repr_str(self, x: str, level: int) -> str:  # noqa: ARG002  # as in `Repr`
        """Return the text of a string: of a long one the first and the last characters."""
        edge = self.maxstring + self._redaction.longest
        if len(x) > 4 * edge:
            x = x[:edge] + x[-edge:]
        return _cut(repr(self._redaction.masked(str(x))), self.maxstring)

    def repr_bytes(self, x: bytes, level: int) -> str:  # noqa: ARG002  # likewise
        """Return the text of bytes."""
        edge = self.maxstring + self._redaction.longest
        if len(x) > 4 * edge:
            x = bytes(x[:edge]) + bytes(x[-edge:])
        return _cut(self._redaction.masked(repr(x)), self.maxstring)

    repr_bytearray = repr_bytes

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """Return the text of a dict, in its own order."""
        if not x or level <= 0:
            return "{...}" if x else "{}"
        parts = [
            f"{self.repr1(key, level - 1)}: "
            f"{self.repr1(self._redaction.redacted(key, value) if isinstance(key, str) else value, level - 1)}"
            for key, value in islice(x.items(), self.maxdict)
        ]
        return f"{{{', '.join(parts)}{', ...' if len(x) > self.maxdict else ''}}}"

    def repr_set(self, x: set[Any] | frozenset[Any], level: int) -> str:
        """Return the text of a set, in no order."""
        if not x:
            return f"{type(x).__name__}()"
        parts = [self.repr1(one, level - 1) for one in islice(x, self.maxset)] if level > 0 else ["..."]
        more = ", ..." if level > 0 and len(x) > self.maxset else ""
        return f"{{{', '.join(parts)}{more}}}"

    def repr_frozenset(self, x: frozenset[Any], level: int) -> str:
        """Return the text of a frozen set."""
        return self.repr_set(x, level)

    def repr_instance(self, x: Any, level: int) -> str:  # noqa: ARG002  # likewise
        """Return the shortened `repr` of an object."""
        return _cut(self._redaction.masked(repr(x)), self.maxother)


# Of these most texts are short and plain; that is seen at once.
_PLAIN_TYPES = frozenset({int, float, bool, type(None), str})
_BIG = 10**30

_BASES: tuple[type[Any], ...] = (str, bytes, bytearray, int, list, tuple, dict, set, frozenset)
_SHOWS: dict[object, str] = {cast("Any", base).__repr__: f"repr_{base.__name__}" for base in _BASES}


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    first = (longest - 3) // 2
    return f"{text[:first]}...{text[first + 3 - longest :]}"


# Any: values of users, compared by their own ``==``.
def same(one: Any, other: Any) -> bool:
    """Whether two values are one object or equal; NaN equals itself, and arrays are compared element by element."""
    if one is other:
        return True
    if isinstance(one, BaseException):
        return type(one) is type(other) and same(one.args, other.args)
    if type(one) is type(other) and isinstance(one, (list, tuple)):
        pair = cast("tuple[list[Any], list[Any]]", (one, other))
        return len(pair[0]) == len(pair[1]) and all(map(same, *pair))
    if type(one) is type(other) and isinstance(one, dict):
        first, second = cast("tuple[dict[Any, Any], dict[Any, Any]]", (one, other))
        return first.keys() == second.keys() and all(same(value, second[key]) for key, value in first.items())
    try:
        equal: Any = one == other
        if type(equal) is not bool and hasattr(equal, "all"):
            equal = equal.all()
        return bool(equal) or bool(one != one and other != other)  # noqa: PLR0124  # only NaN is not equal to itself
    except Exception:  # arrays of different shapes, an __eq__ that fails
        return False


PLAIN = Redaction(None)

# Return the shortened text of a value, whatever its `repr` does.
shortened = PLAIN.shortener.text


def shown_time(seconds: float) -> str:
    """Return a duration with three digits and its unit."""
    seconds = float(f"{seconds:.3g}")
    if seconds >= 1000:
        return f"{seconds:,.0f} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a table: the first columns begin, and the others end, where their heads do."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust if place < left else str.rjust for place in range(len(widths))]
    lines = [[side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)] for row in rows]
    return ["  ".join(line).rstrip() for line in lines]
