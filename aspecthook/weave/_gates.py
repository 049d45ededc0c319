"""Gates: predicates that decide, before a hook's own conditions, whether its weavings mean a call."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from aspecthook._core.law.hook import Predicate
from aspecthook._core.law.signature import Signature
from aspecthook._core.law.variables import Variable, variable
from aspecthook._core.mount.lock import under_lock
from aspecthook._hints import Any, TypeAlias, final

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# The blocks that this context is inside of, by their tokens. There is one variable for all blocks, as context variables
# are never freed. A token is a plain object, so that a context which outlives a block keeps nothing else alive.
_blocks_here: Variable[tuple[object, ...]] = variable("aspecthook_blocks", ())

_First: TypeAlias = Callable[[Any], bool]


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

    def enter(self) -> None:
        """Begin a block in this context."""
        token = object()
        self._add(token)
        _blocks_here.set((*_blocks_here.get(), token))

    def leave(self) -> None:
        """End the latest block that this context is inside of, or else the latest one anywhere."""
        inside = _blocks_here.get()
        last = self._close(inside)
        _blocks_here.set(tuple([token for token in inside if token not in last]))

    @under_lock
    def _add(self, token: object) -> None:
        self._open = self._tokens = (*self._open, token)

    @under_lock
    def _close(self, inside: tuple[object, ...]) -> list[object]:
        last = ([token for token in inside if token in self._open] or list(self._open))[-1:]
        self._open = tuple([token for token in self._open if token not in last])
        if self._open:
            self._tokens = self._open
        return last


@final
class Heir:
    """A predicate on the first argument of a method: an instance of the class that was named, or of a subclass.

    For methods that the class inherits, or shares with other classes. The argument may also be the class itself.
    """

    __slots__ = ("cls",)

    def __init__(self, cls: type[Any]) -> None:
        self.cls = weakref.ref(cls)

    def __call__(self, first: Any) -> bool:
        cls = self.cls()
        return cls in type(first).__mro__ or (isinstance(first, type) and cls in first.__mro__)


@final
class Claim:
    """The calls for which one weaving wants a hook to act; all, if `heir` and `blocks` are None."""

    __slots__ = ("alone", "blocks", "heir", "paused", "watch")

    def __init__(self, heir: Heir | None, blocks: Blocks | None, *, paused: bool = False) -> None:
        self.heir = heir
        self.blocks = blocks
        self.paused = paused
        # A reference to the class of the heir, which ends the claim when the class is gone.
        self.watch: weakref.ref[type[Any]] | None = None
        # The claims on a hook that nobody else claims: one tuple for all such hooks.
        self.alone: tuple[Claim, ...] = (self,)


def gate(claims: Sequence[Claim], signature: Signature) -> Predicate | None:
    """Return one gate for the claims of several weavings; None if all calls are claimed."""
    for claim in claims:
        if claim.heir is None and claim.blocks is None:
            return None
    if all(claim.heir is None for claim in claims):
        blocks = [claim.blocks for claim in claims if claim.blocks is not None]
        return Predicate(blocks[0] if len(blocks) == 1 else lambda: any(one() for one in blocks))
    holds = _any_of(tuple(claims))
    if signature.positional:
        return Predicate(holds, (("", 0),))
    return Predicate(_of_args(holds), (("*", "args"),))  # def method(*args)


def _of_args(holds: _First) -> Callable[..., bool]:
    def of_args(*args: Any) -> bool:
        return bool(args) and holds(args[0])

    return of_args


def _any_of(claims: tuple[Claim, ...]) -> _First:
    if len(claims) == 1 and claims[0].blocks is None and claims[0].heir is not None:
        return claims[0].heir.__call__
    if all(claim.blocks is None for claim in claims):
        return _of_one_of({id(claim.heir.cls()) for claim in claims if claim.heir is not None})
    wanted = [(claim.heir, claim.blocks) for claim in claims]

    def holds(first: Any) -> bool:
        for heir, blocks in wanted:  # noqa: SIM110  # as in `Blocks.__call__`
            if (blocks is None or blocks()) and (heir is None or heir(first)):
                return True
        return False

    return holds


def _of_one_of(ids: set[int]) -> _First:
    """Return one predicate for many classes: all enums share one `__new__`, and there may be hundreds.

    Comparing ids is safe: when a class is freed, its claim is released and the gate is made again.
    """

    def has_one(classes: tuple[type[Any], ...]) -> bool:
        for cls in classes:  # noqa: SIM110  # as in `Blocks.__call__`
            if id(cls) in ids:
                return True
        return False

    def holds(first: Any) -> bool:
        return has_one(type(first).__mro__) or (isinstance(first, type) and has_one(first.__mro__))

    return holds
