"""The calls for which the hooks of a weaving act: all, those inside its `with` blocks, or those of some classes.

What is here becomes a constant of code, into which the garbage collector does not look. So it refers to no weaving, and
to no class.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from aspecthook._core.law.hook import Hook, Predicate
from aspecthook._core.law.signature import Signature
from aspecthook._core.law.variables import Variable, variable
from aspecthook._core.mount.lock import under_lock
from aspecthook._hints import Any, final

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# The blocks that this context is inside of, by their tokens. There is one variable for all blocks, as context variables
# are never freed. A token is a plain object, so that a context which outlives a block keeps nothing else alive.
_blocks_here: Variable[tuple[object, ...]] = variable("aspecthook_blocks", ())


@final
class Blocks:
    """The `with` blocks of one weaving of scope "context"; called, whether this context is inside one of them."""

    __slots__ = ("_open", "_tokens")

    def __init__(self) -> None:
        self._open: tuple[object, ...] = ()
        # The tokens that calls are checked by. The last one stays when its block ends, for calls that have begun.
        self._tokens: tuple[object, ...] = ()

    def __call__(self) -> bool:
        tokens = self._tokens
        for token in _blocks_here.get():  # noqa: SIM110  # a generator for `any` costs more than this whole method
            if token in tokens:
                return True
        return False

    @under_lock
    def enter(self) -> None:
        """Begin a block in this context."""
        token = object()
        self._open = self._tokens = (*self._open, token)
        _blocks_here.set((*_blocks_here.get(), token))

    @under_lock
    def leave(self) -> None:
        """End the latest block that this context is inside of, or else the latest one anywhere."""
        inside = _blocks_here.get()
        last = ([token for token in inside if token in self._open] or list(self._open))[-1:]
        self._open = tuple([token for token in self._open if token not in last])
        if self._open:
            self._tokens = self._open
        _blocks_here.set(tuple([token for token in inside if token not in last]))


@final
class Calls:
    """The calls of a function that several classes have, which are meant for some of these classes alone.

    Called with the first argument of a call, whether it is an instance of one of the classes or of a subclass; it may
    also be such a class itself.

    Args:
        blocks: If given, only calls inside one of these blocks.
    """

    __slots__ = ("_blocks", "_classes", "hook")

    def __init__(self, blocks: Blocks | None = None) -> None:
        self._blocks = blocks
        # The hook that acts for them, and is removed when the last of the classes is gone.
        self.hook: Callable[[], Hook | None] = lambda: None
        # References to the classes by their `id`; None, if the calls of all classes are meant.
        self._classes: dict[int, weakref.ref[type[Any]]] | None = {}

    def has(self, cls: type[Any] | None) -> bool:
        """Whether the calls of a class are meant already, or of all if that is None."""
        return self._classes is None or id(cls) in self._classes

    @under_lock
    def add(self, cls: type[Any] | None) -> None:
        """Mean the calls of a class, or of all if that is None."""
        if cls is None:
            self._classes = None
        elif self._classes is not None:
            key = id(cls)
            self._classes = {**self._classes, key: weakref.ref(cls, lambda _: self.discard(key))}

    @under_lock
    def discard(self, key: int) -> None:
        """Mean the calls of a class no more, by its `id`."""
        if self._classes is not None:
            self._classes = {one: cls for one, cls in self._classes.items() if one != key}
            hook = None if self._classes else self.hook()
            if hook is not None:
                hook.remove()

    def __call__(self, first: Any) -> bool:
        classes = self._classes
        if self._blocks is not None and not self._blocks():
            return False
        if classes is None:
            return True
        for base in type(first).__mro__:
            if id(base) in classes:
                return True
        return isinstance(first, type) and not classes.keys().isdisjoint(map(id, first.__mro__))

    def of_args(self, *args: Any) -> bool:
        """Whether a call with these arguments is meant; for a method that takes its instance among ``*args``."""
        return bool(args) and self(args[0])

    def gate(self, signature: Signature) -> Predicate:
        """Return the predicate that opens a hook for these calls."""
        if signature.positional:
            return Predicate(self.__call__, (("", 0),))
        return Predicate(self.of_args, (("*", "args"),))
