"""The signature of a target: what its code object takes, and what it shows where that differs.

The invariant: `shape` is all that generated code depends on. The names of the parameters are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from keyword import iskeyword
from types import CodeType, FunctionType

from aspecthook._errors import MountError
from aspecthook._hints import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, final

if TYPE_CHECKING:
    import inspect

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
    # Whether a subscriber that fails is isolated; else its failure is raised at once.
    isolate: bool = False
    # Whether the stub has a body, which runs when nobody answers.
    default: bool = False
    # Whether the site checks each answer, and may refuse or replace it.
    checked: bool = False
    # What messages call the subscribers.
    word: str = "on"


# How many parameters are positional-only, positional, and all but ``*args`` and ``**kwargs``; the places of these two.
TargetShape: TypeAlias = "tuple[int, int, int, int | None, int | None, Style, Emission | None]"


def style_of_code(code: CodeType) -> Style:
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
        self.emission: Emission | None = emission
        self.positional_only: int = code.co_posonlyargcount
        self.positional: int = code.co_argcount
        self.regular: int = code.co_argcount + code.co_kwonlyargcount
        end = self.regular
        self.varargs: int | None = end if code.co_flags & VARARGS else None
        end += self.varargs is not None
        self.varkw: int | None = end if code.co_flags & VARKEYWORDS else None
        end += self.varkw is not None
        self.names: tuple[str, ...] = code.co_varnames[:end]
        self.index: dict[str, int] = {name: place for place, name in enumerate(self.names)}
        if len(self.index) != end:
            raise MountError(
                f"{code.co_qualname} cannot be mounted: two of its parameters have the same name: {self.names}"
            )
        self.style: Style = style_of_code(code)
        self.shape: TargetShape = (
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

    @property
    def placeholders(self) -> tuple[object, ...]:
        """Values of a call that names each parameter, and passes nothing else."""
        values: list[object] = [None] * len(self.names)
        if self.varargs is not None:
            values[self.varargs] = ()
        if self.varkw is not None:
            values[self.varkw] = {}
        return tuple(values)

    @property
    def extra(self) -> str | None:
        """The name of the ``**kwargs``, if there is one."""
        return None if self.varkw is None else self.names[self.varkw]

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

    def join(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[object, ...]:
        """Return the values of all parameters, of which `split` has made these."""
        if self.positional == len(self.names):
            return args
        rest = dict(kwargs)
        values = [*args[: self.positional], *map(rest.pop, self.names[self.positional : self.regular])]
        if self.varargs is not None:
            values.append(args[self.positional :])
        if self.varkw is not None:
            values.append(rest)
        return tuple(values)


_MOST = 1024
_known: dict[object, Signature] = {}


# The parameters that a wrapper shows, where they differ from those of its code. `functools.wraps`, pydantic and
# beartype make functions that take ``*args, **kwargs`` and show, to `inspect.signature`, the parameters of what they
# wrap. Hooks ask for those. The invariant: a call is not bound to them. It runs as it would without hooks; only a hook
# that asks for an argument which the call does not have fails.

Values = tuple[object, ...]

# Stands for the argument of a parameter without a default that a call leaves out.
ABSENT: Any = object()


@final
class Sought(NamedTuple):
    """An argument that a wrapper shows, and where a call of the wrapper may have it."""

    name: str
    # Its place among the wrapper's ``*args``, if it may be there; and whether it may be among its ``**kwargs``.
    place: int | None
    named: bool
    # Whether the parameter has a default, and whether that of the hook has none.
    defaulted: bool
    needed: bool

    @property
    def optional(self) -> bool:
        """Whether the hook is given it only if the call has it."""
        return not (self.defaulted or self.needed)


@final
class Shown:
    """The parameters that a wrapper shows, and where their arguments are among those that its code takes."""

    __slots__ = ("_keywords", "_own", "_places", "_signature", "names", "ordinary")

    def __init__(self, shown: inspect.Signature, own: Signature) -> None:
        # Without annotations, which would keep alive what they refer to.
        parameters = [one.replace(annotation=one.empty) for one in shown.parameters.values()]
        self._signature = shown.replace(parameters=parameters, return_annotation=shown.empty)
        self._own = own
        self.names: tuple[str, ...] = tuple(shown.parameters)
        self.ordinary: frozenset[str] = frozenset(
            one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        )
        # Those that a call may name. Their names are not among its ``**extra``; that of a positional-only one may be.
        self._keywords: frozenset[str] = frozenset(
            one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        )
        by_place = [one.name for one in parameters if one.kind <= one.VAR_POSITIONAL]
        self._places = {name: place for place, name in enumerate(by_place)}

    def find(self, name: str, *, needed: bool) -> int | Sought:
        """Return where calls have the argument of a parameter: a place among the wrapper's own, or where to look."""
        own, place = self._own, self._places.get(name) if name in self.ordinary else None
        if place is not None and place < own.positional:
            return place
        rest = None if place is None or own.varargs is None else place - own.positional
        named = name in self._keywords and own.varkw is not None
        return Sought(name, rest, named, self.default(name) is not ABSENT, needed)

    def default(self, name: str) -> Any:
        """Return the default of a parameter; `ABSENT` if it has none."""
        parameter = self._signature.parameters[name]
        return ABSENT if parameter.default is parameter.empty else parameter.default

    def get(self, name: str, values: Values) -> Any:
        """Return one argument of a call, or its default; `ABSENT` if there is neither."""
        args, kwargs = self._own.split(values)
        place = self._places.get(name)
        if name not in self.ordinary:
            if place is not None:
                return args[place:]
            return {key: value for key, value in self._passed(kwargs).items() if key not in self._keywords}
        if place is not None and place < len(args):
            return args[place]
        return kwargs[name] if name in self._keywords and name in kwargs else self.default(name)

    def arguments(self, values: Values) -> dict[str, Any] | None:
        """Return the arguments of a call by the names that are shown; None if they do not fit."""
        args, kwargs = self._own.split(values)
        try:
            bound = self._signature.bind_partial(*args, **self._passed(kwargs))
        except TypeError:
            return None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _passed(self, kwargs: Mapping[str, object]) -> dict[str, Any]:
        """Return the keyword arguments without those of parameters that the wrapper hides, as beartype does."""
        hidden = self._own.names[self._own.positional : self._own.regular]
        return {name: value for name, value in kwargs.items() if name not in hidden or name in self.names}

    def replace(self, name: str, value: Any, revised: list[Any]) -> bool:
        """Replace an argument in `revised`, or add it; return whether there is a place for it.

        An argument stays where the call has it, by position or by name, as a wrapper may look for it there.
        """
        own, place = self._own, self._places.get(name)
        # As the wrapper is called: the shown parameters are counted from its first argument on, whatever parameters of
        # its own that one is for.
        args, kwargs = own.split(tuple(revised))
        if place is None and name not in self.ordinary:  # ``**kwargs``
            if own.varkw is None or not isinstance(value, dict):
                return False
            kept = {*self._keywords, *own.names[own.positional : own.regular]}
            kwargs = {key: one for key, one in kwargs.items() if key in kept}
            kwargs |= cast("dict[str, object]", value)
        elif name not in self.ordinary:  # ``*args``
            if not isinstance(value, (tuple, list)):
                return False
            args = (*self._filled(args, kwargs, place), *cast("tuple[Any, ...]", value))
        elif place is not None and place < len(args):
            args = (*args[:place], value, *args[place + 1 :])
        elif own.varkw is not None and name in self._keywords:
            kwargs[name] = value
        elif place is not None:
            args = (*self._filled(args, kwargs, place), value)
        else:
            return False
        fits = len(args) == own.positional or (len(args) > own.positional and own.varargs is not None)
        if not fits or any(one is ABSENT for one in args):
            return False
        revised[:] = own.join(args, kwargs)
        return True

    def _filled(self, args: Values, kwargs: dict[str, Any], place: int | None) -> Values:
        """Return the positional arguments before a place; those that the call names leave its keywords."""
        filled = [*args[:place]]
        for name in list(self._signature.parameters)[len(args) : place]:
            by_name = name in self._keywords and name not in self._own.names[: self._own.regular]
            filled.append(kwargs.pop(name, self.default(name)) if by_name else self.default(name))
        return tuple(filled)


def shown_by(
    function: FunctionType | None,
    own: Signature,
    original: object,
    read: Callable[[Callable[..., object]], inspect.Signature | None],
) -> Shown | None:
    """Return the parameters that a function shows; None if they are those of its code, or cannot be what calls pass.

    A wrapper that takes a shown parameter at another place passes the others itself, as one that adds a client does.

    Args:
        function: The function; None: it is gone.
        own: The parameters of its code.
        original: The function without hooks, which a mounted function has as its ``__wrapped__``.
        read: Returns the signature of a callable (`callables.signature_of`).
    """
    space: Mapping[str, object] = {} if function is None else function.__dict__
    if function is None or ("__signature__" not in space and space.get("__wrapped__") in (None, original)):
        return None
    signature = read(function)
    if signature is None:
        return None
    shown = Shown(signature, own)
    ordinary = own.names[: own.regular]
    is_moved = any(shown._places.get(name, place) != place for place, name in enumerate(ordinary[: own.positional]))
    return None if is_moved or shown.names == own.names else shown
