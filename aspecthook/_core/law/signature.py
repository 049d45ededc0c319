"""The signature of a target, read from its code object, in the form that hooks and generated code need.

The invariant: `shape` is all that generated code depends on. The names of the parameters are not in it.
"""

from __future__ import annotations

from keyword import iskeyword
from types import CodeType

from aspecthook._errors import MountError
from aspecthook._hints import Literal, NamedTuple, TypeAlias, cast, final

Style: TypeAlias = Literal["function", "coroutine", "generator", "async generator"]

# The bits of `co_flags`, as the `inspect` module documents them; importing `inspect` would triple our import time.
VARARGS = 0x04
VARKEYWORDS = 0x08
GENERATOR = 0x20
COROUTINE = 0x80
ITERABLE_COROUTINE = 0x100
ASYNC_GENERATOR = 0x200


class Emission(NamedTuple):
    """How an event treats its subscribers and their answers."""

    # The result: the list of all answers, the first answer, or one parameter that each answer replaces in turn.
    gives: Literal["list", "first", "fold"] = "list"
    # The place of the parameter that is folded.
    fold: int = 0
    # What happens when a subscriber fails: it is isolated; or the others run too, and all failures are raised as a
    # group; or else the failure is raised at once.
    isolate: bool = False
    group: bool = False
    # Whether the subscribers run concurrently.
    gather: bool = False
    # Whether calls are kept for late subscribers.
    replay: bool = False
    # Whether the stub has a body, which runs when nobody answers.
    default: bool = False
    # Whether the site checks each answer, and may refuse or replace it.
    checked: bool = False
    # What messages call the subscribers.
    word: str = "on"


def style_of(code: CodeType) -> Style:
    """Return what kind of function the code belongs to."""
    flags = code.co_flags
    if flags & COROUTINE:
        return "coroutine"
    if flags & ASYNC_GENERATOR:
        return "async generator"
    return "generator" if flags & GENERATOR else "function"


def is_plain(name: str) -> bool:
    """Whether a name can be used in generated source as it is."""
    # Not only str.isidentifier: the compiler normalises non-ASCII identifiers (NFKC), which would rename the parameter.
    return name.isascii() and name.isidentifier() and not iskeyword(name) and name != "__debug__"


@final
class Signature:
    """The parameters of a target in the order of `co_varnames`: positional, keyword-only, ``*args``, ``**kwargs``."""

    __slots__ = (
        "emission",
        "index",
        "names",
        "positional",
        "positional_only",
        "regular",
        "shape",
        "style",
        "varargs",
        "varkw",
    )

    def __init__(self, code: CodeType, emission: Emission | None = None) -> None:
        self.emission = emission
        self.positional_only = code.co_posonlyargcount
        self.positional = code.co_argcount
        self.regular = code.co_argcount + code.co_kwonlyargcount
        end = self.regular
        self.varargs = end if code.co_flags & VARARGS else None
        end += self.varargs is not None
        self.varkw = end if code.co_flags & VARKEYWORDS else None
        end += self.varkw is not None
        self.names = code.co_varnames[:end]
        self.index = {name: place for place, name in enumerate(self.names)}
        if len(self.index) != end:
            raise MountError(
                f"{code.co_qualname} cannot be mounted: two of its parameters have the same name: {self.names}"
            )
        self.style = style_of(code)
        self.shape = (
            self.positional_only,
            self.positional,
            self.regular,
            self.varargs,
            self.varkw,
            self.style,
            emission,
        )

    @classmethod
    def of(cls, code: CodeType, emission: Emission | None) -> Signature:
        """Return the signature of a code object; functions with the same parameters share one.

        Raises:
            MountError: Two of its parameters have the same name.
        """
        flags = code.co_flags
        count = code.co_argcount + code.co_kwonlyargcount + bool(flags & VARARGS) + bool(flags & VARKEYWORDS)
        key = (code.co_varnames[:count], code.co_argcount, code.co_posonlyargcount, flags, emission)
        found = _known.get(key)
        if found is None:
            if len(_known) >= _MOST:
                _known.clear()
            found = _known[key] = cls(code, emission)
        return found

    def arguments(self, values: tuple[object, ...]) -> dict[str, object]:
        """Return the values of all parameters by their names."""
        return dict(zip(self.names, values, strict=True))

    def split(self, values: tuple[object, ...]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Split the values of all parameters into the ``args`` and ``kwargs`` that the target is called with."""
        args = values[: self.positional]
        keyword_only = slice(self.positional, self.regular)
        kwargs = dict(zip(self.names[keyword_only], values[keyword_only], strict=True))
        if self.varargs is not None:
            args += cast("tuple[object, ...]", values[self.varargs])  # the target's own *args
        if self.varkw is not None:
            kwargs.update(cast("dict[str, object]", values[self.varkw]))  # the target's own **kwargs
        return args, kwargs


_MOST = 1024
_known: dict[object, Signature] = {}
