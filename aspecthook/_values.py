"""How values of a program are shown: shortened texts, in which nothing redacted appears.

The invariant: no text is made of the whole of a huge value, no exception of a `repr` reaches the program, no recording
has the calls that a `repr` makes, and a redacted string is in no text, wherever else the program passes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from reprlib import Repr

from aspecthook._core.law.callables import type_of
from aspecthook._errors import HookOptionError, brief, printable
from aspecthook._hints import Any, TypeAlias, cast, final
from aspecthook._watching import Unwatched

Redact: TypeAlias = "str | Iterable[str] | Callable[[str, Any], object] | None"

_SHORTEST_SECRET = 4  # shorter strings are everywhere, and would make every text unreadable
_MOST_SECRETS = 1_000


def _tried(work: Callable[[], Any], failed: Callable[[BaseException], Any]) -> Any:
    """Run code of the program without recording its calls; return its result, or what `failed` returns for its error.

    The program would not have called a `repr` here, so whatever that raises is not the program's to see. Ctrl-C and
    SIGTERM are: they raise these two exceptions in whatever code happens to run, and must end the program.
    """
    try:
        with Unwatched():
            return work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return failed(error)


@final
class Shown(str):
    """A text that stands for a value: of a recording that was read from a file, or of a redacted value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


REDACTED = Shown("<redacted>")


def _pattern(secret: str) -> re.Pattern[str]:
    """Return the pattern of a string that is masked, however often a `repr` has escaped it."""
    return re.compile("".join(map(_escaped, secret)))


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
        self._is_redacted_name = lru_cache(10_000)(self._matches)
        self._secrets: dict[str, str] = {}  # each with its longest part that no escaping changes
        self._pattern = lru_cache(_MOST_SECRETS)(_pattern)
        # How much more of a long string has to be looked at, so that no part of a secret is shown.
        self.longest: int = 0
        # Makes the texts of values.
        self.shortener: Shortener = Shortener(self)

    def _matches(self, name: str) -> bool:
        return any(fnmatchcase(name.lower(), glob) for glob in self._globs)

    def hides(self, name: str, value: object) -> bool:
        """Whether a value is redacted."""
        predicate = self._predicate
        if predicate is not None:  # a value at which it fails may be a secret
            return bool(_tried(lambda: predicate(name, value), lambda _: True))
        return self.active and self._is_redacted_name(name)

    def redacted(self, name: str, value: Any) -> Any:
        """Return a value, or what stands for it if it is redacted; redacted strings in it are masked from now on."""
        if not self.active:
            return value
        hidden = self.hides(name, value)
        # If a container of the program fails here, its text cannot be made either.
        _tried(lambda: self._note(value, hidden, 3), lambda _: None)
        return REDACTED if hidden else value

    def _note(self, value: Any, hidden: bool, depth: int) -> None:
        """Note the strings in a value that is redacted, or else those under names that are, before any text is made."""
        if isinstance(value, (str, bytes, bytearray)):
            if hidden:
                self._keep(value)
            return
        named: list[tuple[Any, Any]] = []
        held = value
        if isinstance(value, Mapping):
            named = list(islice(held.items(), 100))
        elif "__dataclass_fields__" in vars(type_of(value)):
            named = [(field, getattr(value, field, None)) for field in held.__dataclass_fields__]
        elif isinstance(value, (list, tuple, set, frozenset)):
            named = [(None, one) for one in islice(held, 100)]
        for name, one in named:
            if not hidden and isinstance(name, str) and self.hides(name, one):
                self._note(one, True, 3)
            elif depth:
                self._note(one, hidden, depth - 1)

    def _keep(self, value: str | bytes | bytearray) -> None:
        """Note a string that is redacted, in all the ways in which it may be shown."""
        if isinstance(value, str):
            text, raw = str(value), value.encode(errors="backslashreplace")
        else:
            raw = bytes(value)
            text = raw.decode(errors="backslashreplace")
        for secret in {text, repr(raw)[2:-1]}:
            if len(secret) >= _SHORTEST_SECRET and secret not in self._secrets:
                self._secrets[secret] = max(re.split(r"[^A-Za-z0-9]+", secret), key=len)
                self.longest = max(self.longest, 4 * len(secret))
                while len(self._secrets) > _MOST_SECRETS:
                    self._secrets.pop(next(iter(self._secrets)), None)

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

    def masked(self, text: str) -> str:
        """Return a text in which the strings that were redacted are masked."""
        spans: list[tuple[int, int]] = []
        for secret, core in self._secrets.copy().items() if self._secrets else ():
            if core in text:
                spans += [found.span() for found in self._pattern(secret).finditer(text)]
        parts: list[str] = []
        end = 0
        for first, last in sorted(spans):
            if first >= end:  # otherwise it overlaps another one, and both are masked as one
                parts += text[end:first], REDACTED
            end = max(end, last)
        return "".join([*parts, text[end:]]) if parts else text


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

        return self._line(_tried(lambda: self.repr(value), failed))

    def message(self, error: BaseException) -> str:
        """Return the shortened message of an exception."""
        plain = type(error).__str__ is BaseException.__str__ and len(error.args) != 1
        text: str = _tried(
            lambda: self.repr1(error.args, self.maxlevel) if plain and error.args else str(error),
            lambda other: f"<whose str raised {printable(type(other).__name__)}>",
        )
        return _cut(self._line(self._redaction.masked(text)), 200)

    def _line(self, text: str) -> str:
        return self._redaction.masked(printable(" ".join([line.strip() for line in text.splitlines()])))

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

    def repr_str(self, x: Any, level: int) -> str:  # noqa: ARG002  # as in `Repr`
        """Return the text of a string or of bytes: of a long one the first and the last characters."""
        edge = self.maxstring + self._redaction.longest
        if len(x) > 4 * edge:
            x = x[:edge] + x[-edge:]
        return _cut(self._redaction.masked(repr(x)), self.maxstring)

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

    def repr_instance(self, x: Any, level: int) -> str:  # noqa: ARG002  # likewise
        """Return the shortened `repr` of an object."""
        return _cut(self._redaction.masked(repr(x)), self.maxother)


# Of these most texts are short and plain; that is seen at once.
_PLAIN_TYPES = frozenset({int, float, bool, type(None), str})
_BIG = 10**30

# The methods of `Shortener` for the types that show themselves as one of these builtins does.
_SHOWN_ALIKE: dict[str, tuple[type[Any], ...]] = {
    "repr_str": (str, bytes, bytearray),
    "repr_set": (set, frozenset),
    **{f"repr_{base.__name__}": (base,) for base in (int, list, tuple, dict)},
}
_SHOWS: dict[object, str] = {base.__repr__: name for name, bases in _SHOWN_ALIKE.items() for base in bases}


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
    kind = type_of(one)
    if kind is type(other) and issubclass(kind, BaseException):
        return same(one.args, other.args)
    if kind is type(other) and issubclass(kind, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if kind is type(other) and issubclass(kind, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
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
