"""Law 4 on copies and pickles: a mount point belongs to its function alone.

The invariant: whatever is made of a mounted function by copying it is what would be made of the plain function. Copies
read its `__dict__`: while the function is mounted, that is one of `Attributes`, which shows and copies only what
others have put there.

Picklers such as cloudpickle and dill send a function in two parts: its code, field by field, and then what is in its
`__dict__`. The constants of our code are sent as a tuple that ends with `MARK` and the plain code (`Constants`). An
entry of the `__dict__` looks for that mark when the pickle is loaded, and puts the plain code in (`_PlainCode`). So
loading a pickle needs nothing of this package.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from operator import itemgetter
from types import CodeType, FunctionType

from aspecthook._hints import Any, cast, final

MARK = "__aspecthook__"
_WRAPPED = "__wrapped__"
_ABSENT: Any = object()
_NOTHING: dict[str, Any] = {}


class Attribute:
    """An attribute of a mounted function, such as ``f.pre``; a copy of it is the object itself."""

    __slots__ = ()

    def found_at(self) -> tuple[FunctionType | None, str]:
        """Return the function whose attribute it is, or None, and the name of the attribute."""
        raise NotImplementedError

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __reduce__(self) -> Any:
        function, name = self.found_at()
        # None where it is loaded for a function that is not mounted.
        return getattr, (function, name, None)


@final
class Attributes(dict[str, Any]):
    """The `__dict__` of a mounted function.

    Looking an attribute up, and reading an entry by its name, finds everything. Iterating over it, as
    `functools.wraps` does, leaves out the `__wrapped__` of ours that leads `inspect` to the source. Its copies and
    its pickles, and ``items()``, which cloudpickle reads, leave out all that is ours.
    """

    __slots__ = ("_before", "_function", "_known", "_wrapped", "mount")

    def __init__(self, function: FunctionType, before: dict[str, Any], mount: object) -> None:
        known = dict(before) if before else _NOTHING
        super().__init__(known)
        self._function = weakref.ref(function)
        # Its mount point, until that is gone.
        self.mount: object = mount
        # What was there before, to be put back, and what was in it. None: the function was made hookable.
        self._before: dict[str, Any] | None = before
        self._known = known
        self._wrapped: object = _ABSENT

    def shown(self) -> dict[str, Any]:
        """Return the entries that are shown."""
        ours = self._wrapped
        return {name: value for name, value in list(super().items()) if value is not ours or name != _WRAPPED}

    def copy(self) -> dict[str, Any]:
        """Return what others have put there."""
        function = self._function()
        entries = self.shown()
        for name, value in list(entries.items()):
            if isinstance(value, Attribute) and value.found_at()[0] is function:
                del entries[name]
        return entries

    # Iterating, which dict.update, `{**attributes}` and dict(attributes) do as soon as __iter__ is not that of dict.

    def __iter__(self) -> Iterator[str]:
        return iter(self.shown())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self.shown())

    def __len__(self) -> int:
        return len(self.shown())

    def keys(self) -> Any:
        return self.shown().keys()

    def values(self) -> Any:
        return self.shown().values()

    def items(self) -> Any:
        """Return what a pickler sends: what others have put there, and what puts the plain code in."""
        entries = self.copy()
        if (plain := self._plain_code()) is not None:
            entries[MARK] = plain
        return entries.items()

    def __eq__(self, other: object) -> bool:
        return self.shown() == other

    def __ne__(self, other: object) -> bool:
        return self.shown() != other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.shown())

    # Copying

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        from copy import deepcopy  # somebody has imported it, as it calls this

        made: dict[str, Any] = {}
        memo[id(self)] = made
        made.update({name: deepcopy(value, memo) for name, value in self.copy().items()})
        return made

    def __reduce_ex__(self, protocol: object) -> Any:
        return itemgetter(0), ((self.copy(), self._plain_code()),)

    def _plain_code(self) -> _PlainCode | None:
        """Return what puts the plain code into a function that is loaded; None: it is in the function now."""
        function = self._function()
        if function is None or function.__dict__ is not self:
            return None
        return _PlainCode(function) if isinstance(function.__code__.co_consts, Constants) else None

    # Coming and going, under the lock. Other threads and signal handlers may write attributes between any two steps.

    @classmethod
    def put(cls, function: FunctionType, mount: object) -> Attributes:
        """Put `Attributes` into a function and return them, or return those that it has from the same mount point."""
        while True:
            before = function.__dict__
            if isinstance(before, Attributes) and before.mount is mount:
                return before
            made = cls(function, before, mount)
            if function.__dict__ is before:
                function.__dict__ = made
                if before:
                    _follow(made._known, before, made)
                return made

    def stay(self) -> None:
        """Keep these for good: the function was made hookable."""
        self._before, self._known = None, _NOTHING

    def leave(self, function: FunctionType) -> None:
        """Put back what was there, with what others have changed meanwhile."""
        before = self._before
        if before is None or function.__dict__ is not self:
            return
        now = known = self._known
        if known or super().__len__():
            now = self.copy()
            _follow(known, now, before)
        try:
            function.__dict__ = before
        finally:
            if now or super().__len__():  # another thread may have changed them meanwhile
                _follow(now, self.copy(), before)
            self.mount = None

    def wrap(self, original: object) -> None:
        """Let `inspect` find the function as it was, unless others have set a `__wrapped__`."""
        if _WRAPPED not in self:
            self._wrapped = original
            self[_WRAPPED] = original

    def unwrap(self) -> None:
        """Undo `wrap`."""
        if self.get(_WRAPPED, None) is self._wrapped:
            del self[_WRAPPED]
        self._wrapped = _ABSENT


def carried_by(space: object) -> object:
    """Return what we have put into the `__dict__` of a function or of an object, if that is ours."""
    if isinstance(space, Attributes):
        return space.mount
    return cast("dict[str, object]", space).get(MARK) if isinstance(space, dict) else None


def _follow(known: dict[str, Any], now: dict[str, Any], into: dict[str, Any]) -> None:
    """Make the changes from `known` to `now` in another dict."""
    for name in {**known, **now}:
        value = now.get(name, _ABSENT)
        if value is not known.get(name, _ABSENT):
            if value is _ABSENT:
                into.pop(name, None)
            else:
                into[name] = value


# Picklers that take functions apart


@final
class Constants(tuple[Any, ...]):
    """The constants of code of ours, and two more that it never loads: its site and the plain code.

    The plain code is among them so that picklers find the names that it uses and send what they stand for.
    """

    __slots__ = ()

    # A code object hashes its constants, since line profilers and coverage tools keep code objects in dicts.
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def __reduce_ex__(self, protocol: object) -> Any:
        # The others may be objects of any sort. Code that is loaded with these constants is never run, but `dis` can
        # show it, which looks for as many as there were.
        return tuple, ((*[None] * (len(self) - 2), MARK, plain_code(self[-1])),)


@final
class _PlainCode:
    """Sent as an expression that puts the plain code into a function whose code was sent; its value is None.

    A function that was sent by its name has the code of the receiver, hooked or not, and keeps it: no code but that of
    a pickle has a plain tuple with the mark.
    """

    __slots__ = ("_function",)

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    def __reduce__(self) -> Any:
        consts = "function.__code__.co_consts"
        was_sent = f"type({consts}) is tuple and {consts}[-2:-1] == ({MARK!r},)"
        expression = f"setattr(function, '__code__', {consts}[-1]) if {was_sent} else None"
        return eval, (expression, {"function": self._function})


def plain_code(code: CodeType) -> CodeType:
    """Return the plain code for code of ours, and any other code itself."""
    while isinstance(consts := code.co_consts, Constants):
        code = consts[-1]
    return code
