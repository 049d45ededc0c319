"""Gates: what decides, before a hook's own conditions, whether a call is one that its weaving means."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias, final

from aspecthook._hook import Gate
from aspecthook._signature import Signature

# The weavings of scope "context" whose `with` block this context is in. One variable for all: those that are made
# as they are needed are never freed.
_inside: ContextVar[frozenset[object]] = ContextVar("aspecthook_inside", default=frozenset())

_First: TypeAlias = Callable[[Any], bool]


def enter(token: object) -> None:
    """Note that this context is inside a block."""
    _inside.set(_inside.get() | {token})


def leave(token: object) -> None:
    """Note that this context has left it."""
    _inside.set(_inside.get() - {token})


@final
class Blocks:
    """The blocks in which one hook acts, in whatever context they are."""

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens: frozenset[object] = frozenset()

    def __call__(self) -> bool:
        return not self.tokens.isdisjoint(_inside.get())


@final
class Heir:
    """Decides whether a call of an inherited method is one of the class that was named, or of one derived from it."""

    __slots__ = ("cls", "of_class")

    def __init__(self, cls: type[Any], *, of_class: bool) -> None:
        self.cls = weakref.ref(cls)
        self.of_class = of_class

    def __call__(self, first: Any) -> bool:
        kind: type[Any] = first if self.of_class and isinstance(first, type) else type(first)
        return self.cls() in kind.__mro__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Heir) and self.cls is other.cls and self.of_class == other.of_class

    def __hash__(self) -> int:
        return hash((id(self.cls), self.of_class))


def gate(heir: Heir | None, blocks: Blocks | None, signature: Signature) -> Gate | None:
    """Make one gate of what there is."""
    if heir is None:
        return Gate(blocks) if blocks is not None else None
    holds = heir.__call__ if blocks is None else _both(blocks, heir)
    if signature.positional:
        return Gate(holds, (("", 0),))
    return Gate(_of_first(holds), (("*", "args"),))  # def method(*args)


def _both(blocks: Blocks, heir: Heir) -> _First:
    return lambda first: blocks() and heir(first)


def _of_first(holds: _First) -> Callable[..., bool]:
    return lambda *args: bool(args) and holds(args[0])
