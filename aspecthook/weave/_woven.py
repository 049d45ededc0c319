"""Hooks that weavings have put on mount points: who wants each of them, and for which calls it acts.

The invariant: woven twice with options that come to the same, a hook is one until both weavings have released it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from aspecthook._core.law.callables import identity
from aspecthook._core.law.hook import EXCEPTION, Hook, Maker, Predicate, check_options
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Options
from aspecthook._core.law.signature import Signature
from aspecthook._core.law.variables import Variable, variable
from aspecthook._core.mount.kind_hooks import check_types
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._hints import Any, NamedTuple, final

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Wanted:
    """One hook that is to be woven.

    Raises:
        HookTypeError: An option is unknown, or has the wrong type.
        HookOptionError: An option has a value that it cannot have.
    """

    __slots__ = ("_meaning", "_same", "function", "key", "kind", "options", "types")

    def __init__(
        self,
        kind: Kind,
        function: Callable[..., Any],
        types: tuple[type[BaseException], ...],
        options: Options,
        label: str,
    ) -> None:
        self.kind: Kind = kind
        self.function = function
        self.types = types
        self.options = options
        if types:
            check_types(kind, types, label)
        self._meaning = check_options(kind, function, options, label)
        self._same = (kind, identity(function), frozenset(types or EXCEPTION))
        self.key: object = (self._same, frozenset(self._meaning.items()))

    def key_on(self, mount: MountPoint) -> object:
        """Return what tells hooks apart on a mount point: two with an equal key are one hook there."""
        if mount.emission is None:
            return self.key
        left_out = {name: one for name, one in mount.defaults(self.kind).items() if name not in self.options}
        return (self._same, frozenset({**self._meaning, **left_out}.items()))


# The calls for which a hook acts


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
class Heir:
    """A predicate on the first argument of a method: an instance of the class that was named, or of a subclass.

    For methods that the class inherits, or shares with other classes. The argument may also be the class itself.
    """

    __slots__ = ("cls", "watch")

    def __init__(self, cls: type[Any]) -> None:
        self.cls = weakref.ref(cls)
        # A reference to the class, whose callback releases the hook when the class is gone.
        self.watch: weakref.ref[type[Any]] | None = None

    def __call__(self, first: Any) -> bool:
        cls = self.cls()
        return cls in type(first).__mro__ or (isinstance(first, type) and cls in first.__mro__)


class Calls(NamedTuple):
    """The calls for which one owner wants a hook to act; all of them, if both are None."""

    heir: Heir | None
    blocks: Blocks | None


_ALL = Calls(None, None)


def gate(wanted: Sequence[Calls], signature: Signature) -> Predicate | None:
    """Return a predicate for the calls that one owner or several want; None if all calls are wanted.

    It is a constant of code, into which the garbage collector does not look. So it refers to no weaving.
    """
    if _ALL in wanted:
        return None
    holds: Callable[..., bool]
    if all(heir is None for heir, _ in wanted):
        opened = [blocks for _, blocks in wanted if blocks is not None]
        return Predicate(opened[0] if len(opened) == 1 else lambda: any(one() for one in opened))
    heir, blocks = wanted[0]
    alone = heir if len(wanted) == 1 and blocks is None else None
    holds = _any_of(tuple(wanted)) if alone is None else alone.__call__
    if signature.positional:
        return Predicate(holds, (("", 0),))
    return Predicate(_of_args(holds), (("*", "args"),))  # def method(*args)


def _any_of(wanted: tuple[Calls, ...]) -> Callable[[Any], bool]:
    def holds(first: Any) -> bool:
        for heir, blocks in wanted:  # noqa: SIM110  # as in `Blocks.__call__`
            if (blocks is None or blocks()) and (heir is None or heir(first)):
                return True
        return False

    return holds


def _of_args(holds: Callable[[Any], bool]) -> Callable[..., bool]:
    def of_args(*args: Any) -> bool:
        return bool(args) and holds(args[0])

    return of_args


# The hooks, and their owners


@final
class Owner:
    """A weaving, as its hooks know it: whether it is paused, and the blocks that it is for."""

    __slots__ = ("all_calls", "blocks", "paused")

    def __init__(self, blocks: Blocks | None) -> None:
        self.blocks = blocks
        self.paused = False
        self.all_calls = Claim(self, _ALL if blocks is None else Calls(None, blocks))


class Claim(NamedTuple):
    """That an owner wants a hook, for some calls."""

    owner: Owner
    calls: Calls


@final
class WovenHook:
    """A hook that weavings have put on a mount point, and the claims of these weavings; changed under the lock."""

    __slots__ = ("__weakref__", "_mount", "claims", "hook", "key")

    def __init__(self, key: object, mount: MountPoint, hook: Hook) -> None:
        self.key = key
        self._mount = weakref.ref(mount)
        self.hook = hook
        self.claims: tuple[Claim, ...] = ()

    @property
    def mount(self) -> MountPoint | None:
        """The mount point that has the hook; None if that or its function is gone."""
        mount = self._mount()
        return mount if mount is not None and mount.ref() is not None else None

    def has(self, owner: Owner, cls: type[Any] | None) -> bool:
        """Whether an owner has claimed it for the calls of a class, or for all if that is None."""
        for one, (heir, _) in self.claims:
            if one is owner and (heir is None if cls is None else heir is not None and heir.cls() is cls):
                return True
        return False

    def claim(self, claim: Claim) -> None:
        """Add the claim of an owner."""
        self.claims = (*self.claims, claim)
        heir = claim.calls.heir
        cls = heir.cls() if heir is not None else None
        if heir is not None and cls is not None:
            woven: weakref.ref[WovenHook] = weakref.ref(self)
            heir.watch = weakref.ref(cls, lambda _: _release_heir(woven, heir))
        if claim.owner.paused or len(self.claims) > 1:  # otherwise the hook was made for this claim
            self.settle()

    def settle(self) -> None:
        """Let the hook act for the calls that are claimed, and pause it while every owner is paused."""
        mount = self._mount()
        if mount is not None:
            active = [calls for owner, calls in self.claims if not owner.paused]
            closed = gate(active, mount.site().signature) if active else None
            mount.regate(self.hook, closed, paused=not active)

    @under_lock
    def release(self, claims: Sequence[Claim]) -> None:
        """Drop claims; with the last one the hook is removed."""
        before = self.claims
        rest = tuple([one for one in before if one not in claims])
        if len(rest) == len(before):
            return
        if rest:
            self.claims = rest
            try:
                self.settle()
            except BaseException:  # an interrupt: the claims are kept, so that the release can be repeated
                self.claims = before
                raise
            return
        mount = self._mount()
        self.hook.remove()
        if mount is not None:
            mount.tidy()
            _replace(mount, self)
        self.claims = ()  # last, so that an interrupted release can be repeated


def _release_heir(woven: weakref.ref[WovenHook], heir: Heir) -> None:
    """Drop the claim on a method that a class has inherited, as the class is gone."""
    found = woven()
    if found is not None:
        found.release([claim for claim in found.claims if claim.calls.heir is heir])


def _replace(mount: MountPoint, older: WovenHook | None, *newer: WovenHook) -> None:
    """Store a woven hook in place of another; a finalizer may store one meanwhile."""
    while True:
        before = mount.woven
        after = (*[woven for woven in before if woven is not older], *newer)
        if mount.woven is before:
            mount.woven = after
            return


def _find(mount: MountPoint, key: object) -> WovenHook | None:
    for woven in mount.woven:
        if woven.key == key:
            return woven  # type: ignore[no-any-return]
    return None


def acquire(
    mount: MountPoint, wanted: Wanted, owner: Owner, cls: type[Any] | None, again: object = None
) -> tuple[WovenHook, Claim] | None:
    """Put a hook on a mount point for an owner, or claim the hook that is there; under the lock.

    None: the owner has claimed it already, or there is no hook for this mount point.

    Args:
        mount: The mount point.
        wanted: The hook.
        owner: Who wants it.
        cls: The class whose calls are meant, if others share the function.
        again: If given, only an equal hook of the same owner with an equal `again` is the same hook.

    Raises:
        AspecthookError: The hook is refused.
    """
    key = wanted.key_on(mount) if again is None else (wanted.key, owner, again)
    before = mount.members
    woven = _find(mount, key)
    if woven is not None and woven.has(owner, cls):
        return None
    claim = owner.all_calls if cls is None else Claim(owner, Calls(Heir(cls), owner.blocks))
    try:
        # The hook may have been removed by other ways than a weaving.
        if woven is None or woven.hook not in before:
            if isinstance(wanted.function, Maker) and not wanted.function.fits(mount):
                return None
            closed = gate((claim.calls,), mount.site().signature)
            hook = mount.add_hook(wanted.kind, wanted.function, wanted.types, wanted.options, closed)
            older, woven = woven, WovenHook(key, mount, hook)
            _replace(mount, older, woven)
        else:
            mount.ensure()
        woven.claim(claim)
    except BaseException:  # an interrupt may come between any two steps
        found = _find(mount, key)
        if found is not None:
            found.release((claim,))
        made = identity(mount.unbound(wanted.function))
        for hook in mount.members:
            if hook not in before and hook.kind == wanted.kind and hook.identity == made:
                hook.remove()
        mount.tidy()
        raise
    return woven, claim
