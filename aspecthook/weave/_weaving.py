"""The weaving: hooks put on all that a target means, now and when modules are imported, taken off as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import ModuleType, TracebackType
from typing import Any, Literal, NamedTuple, Never, TypeAlias, cast, final

from aspecthook._core.law.callables import code_of
from aspecthook._core.law.hook import Hook
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import WeaveError, WeaveWarning, nearest, plural, qualified, warn
from aspecthook._foreign import proxy as _proxy
from aspecthook.torch._model import Chosen, warn_of_compiled
from aspecthook.torch._own import OwnMountPoint

from ._gates import Blocks, Claim, gate
from ._imports import is_under_way, unwatch, watch
from ._members import find, is_excluded, modules, path_of, public
from ._pointcut import Pointcut, Term
from ._reasons import refuse_no_module, why_empty, why_excluded, why_nothing, why_unknown, why_waiting
from ._shares import Share, Wish, is_shared, share
from ._spots import Spot, kind_of, shown, spot_of, spot_of_object

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# What messages need is loaded now. Later, under the lock, it could wait for a thread whose import waits for the lock.
_LOADED = (inspect, nearest("", []))

State: TypeAlias = Literal["waiting", "woven", "removed", "displaced"]
Scope: TypeAlias = Literal["everywhere", "context"]
Where: TypeAlias = Callable[[Any], object]
_Key: TypeAlias = tuple[object, ...]  # a spot, a wish, and which of several such wishes it is


class Plan(NamedTuple):
    """What is to be woven on one target."""

    target: object  # a Pointcut, or the thing itself
    wishes: tuple[Wish, ...]
    where: Where | None


class _Look(NamedTuple):
    """What a look at the modules has found."""

    spots: list[tuple[Plan, Spot]]
    terms: set[Term]  # that have chosen something


class _Piece(NamedTuple):
    """One hook that was put on, for one spot and one wish; it is also what its share knows this weaving by."""

    share: Share
    # Nothing else would keep it while its proxy is away, and the proxy may be put back by whoever has kept it.
    mount: MountPoint | None


@final
class Weaving:
    """Hooks that were put on together, and come off together: what `weave` gives.

    A context manager: the hooks come off at the end of the block.

    Example:
        >>> import json
        >>> from aspecthook import weave
        >>> weaving = weave(json.dumps, post=lambda result: result.upper())
        >>> json.dumps("tea"), weaving.state
        ('"TEA"', 'woven')
        >>> weaving.remove()
        >>> json.dumps("tea"), weaving.state
        ('"tea"', 'removed')
    """

    def __init__(self, plans: tuple[Plan, ...], *, scope: Scope, again: bool) -> None:
        targets = [plan.target.text if isinstance(plan.target, Pointcut) else plan.target for plan in plans]
        self._shown = ", ".join(dict.fromkeys(map(shown, targets)))
        self._plans = plans
        self._again = again
        self._pieces: dict[_Key, _Piece] = {}
        self._most = 16  # how many pieces there may be before those are dropped whose functions are gone
        self._found: set[Term] = set()  # the terms that have chosen something, or never will
        self._excluded: set[Term] = set()  # those of which nothing is left
        self._errors: dict[str, Exception] = {}  # by module: what could not be woven as its import ended
        self._holder = object()  # what shares know this weaving by, which must not keep it alive
        self._removed = False  # or being removed
        self._gone = False
        self._paused = False
        self._displaced: tuple[MountPoint, ...] = ()
        self._count = 0  # of `with` blocks
        self._blocks = Blocks() if scope == "context" else None
        self._own = {code for plan in plans for wish in plan.wishes if (code := code_of(wish.function)) is not None}
        self._pointcuts = [plan.target for plan in plans if isinstance(plan.target, Pointcut)]

    # Reading

    @property
    def mounts(self) -> tuple[MountPoint, ...]:
        """The mount points that carry the hooks, those that are gone left out."""
        found = [piece.share.mount() for piece in list(self._pieces.values()) if piece.share.lives]
        return tuple({id(mount): mount for mount in found if mount is not None}.values())

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The handles of the hooks."""
        return tuple(dict.fromkeys(piece.share.hook for piece in list(self._pieces.values())))

    @property
    def state(self) -> State:
        """Where the weaving stands.

        ``waiting``: part of the target is not imported yet, or the scope is ``"context"`` and no ``with`` block of it
        has been entered; ``woven``; ``removed``, also when what was given is gone; ``displaced``: somebody else
        has put theirs where the hooks were, and it stays as it is.
        """
        if self._find_displaced({*self.mounts, *self._displaced}):
            return "displaced"
        if self._removed:
            return "removed"
        if not self._pointcuts and not self.mounts:
            return "removed"
        return "waiting" if self._missing() or not self._is_entered else "woven"

    @property
    def _is_entered(self) -> bool:
        """Whether the hooks can act for anybody: those of scope "context" do so only inside a block."""
        return self._blocks is None or self._count > 0

    @staticmethod
    @under_lock
    def _find_displaced(mounts: Iterable[MountPoint]) -> tuple[MountPoint, ...]:
        """Ask all: one that is not displaced any more puts itself right."""
        return _proxy.in_one_look(lambda: tuple([mount for mount in mounts if mount.displaced]))

    def check(self) -> None:
        """Make sure that everything that was asked for has been found.

        Raises:
            WeaveError: Something has not, or it could not be woven when its module was imported; or the scope is
                ``"context"``, and no block has been entered.
        """
        if self._removed:
            return
        if self._missing():
            self._weave(self._look())
        for error in list(self._errors.values()):
            raise error
        missing = self._missing()
        if missing:
            raise WeaveError(f"nothing is woven on {missing[0].text!r}: {why_waiting(missing[0])}")
        if not self._is_entered:
            raise WeaveError(
                f"the hooks on {self._shown} act nowhere yet: with scope='context' they act only inside a block of "
                f"their weaving; write `with weave(..., scope='context'):`"
            )

    def __deepcopy__(self, memo: object) -> Weaving:
        return self  # a second handle would remove nothing

    def __repr__(self) -> str:
        return f"<weaving of {self._shown}: {self.state}, {plural(len(self.mounts), 'mount point')}>"

    # Changing

    @under_lock
    def remove(self) -> None:
        """Take the hooks off; once they are off, do nothing."""
        if self._gone:
            return
        self._removed = True
        unwatch(self)
        mounts = self.mounts
        _proxy.in_one_look(self._release)
        # Nothing else may keep those mount points that have to remember what was put over them.
        self._displaced = self._find_displaced(mounts)
        self._gone = True  # last: an interrupted removal can be done again

    def _release(self) -> None:
        for key, piece in list(self._pieces.items()):
            piece.share.release((self._holder, key))

    def pause(self) -> None:
        """Keep the hooks from acting, in all threads, until `resume`; a hook that others wove too acts for them."""
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Let the hooks act again."""
        self._set_paused(paused=False)

    @under_lock
    def _set_paused(self, *, paused: bool) -> None:
        self._paused = paused

        def pause() -> None:
            for key, piece in list(self._pieces.items()):
                piece.share.pause((self._holder, key), paused=paused)

        _proxy.in_one_look(pause)

    # Never: nothing is to be called, and a type checker is to say so.
    def __call__(self, function: object, /) -> Never:
        """Refuse to be a decorator, and take the hooks off: nobody would have the weaving to remove.

        Raises:
            WeaveError: Always.
        """
        self.remove()
        name = getattr(function, "__name__", "f")
        raise WeaveError(
            f"weave is no decorator, and the weaving of {self._shown} is taken off again: to have it for the length of "
            f"a call of {name}, write `with weave(...):` inside {name}; to put hooks on {name} itself, write @hookable "
            f"above it, and @{name}.pre and so on above the hooks"
        )

    def __enter__(self) -> Weaving:
        self._begin_block()
        if self._blocks is not None:
            self._blocks.enter()
        return self

    @under_lock
    def _begin_block(self) -> None:
        if self._removed:
            raise WeaveError(
                f"the weaving of {self._shown} has been removed, and a block of it would do nothing; weave anew"
            )
        self._count += 1

    @under_lock
    def _end_block(self) -> bool:
        """Return whether it was the last one."""
        self._count -= 1
        return self._count <= 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        last = self._end_block()
        if self._blocks is not None:
            self._blocks.leave()
        if last:
            self.remove()

    # Weaving

    def begin(self) -> Weaving:
        """Weave what is there, and wait for what is not."""
        try:
            for pointcut in self._pointcuts:
                for term in pointcut.terms:
                    refuse_no_module(term)
            if self._pointcuts:
                watch(self)
            self._weave(self._look(strict=True))
            self._judge()
            for term in self._missing():
                unknown = why_unknown(term)
                if unknown is not None:
                    # It waits all the same: somebody may add a path, or a finder.
                    warn(f"{term.text!r} waits: {unknown}", WeaveWarning)
        except BaseException:
            self.remove()
            raise
        # What was given itself is woven now, and is not to be kept alive.
        self._plans = tuple([plan for plan in self._plans if isinstance(plan.target, Pointcut)])
        return self

    def _judge(self) -> None:
        """Refuse a weaving that has found nothing where it could have."""
        terms = [term for pointcut in self._pointcuts for term in pointcut.terms if term.exact_module]
        # First which imports have ended, then what is missing: another thread weaves before its import ends.
        there = [(one, module) for one in terms for module in modules(one) if not is_under_way(module)]
        missing = self._missing()
        for term, module in there:
            if term not in missing:
                continue
            # A package may have nothing of its own, and what is below it all.
            if not self._pieces or not all(segment.glob == "*" for segment in term.segments):
                raise WeaveError(why_excluded(term) if term in self._excluded else why_nothing(term, module))
            self._found.add(term)
        if not self._pieces and not missing:
            raise WeaveError(f"{self._shown} chooses nothing: take something out of `where`, or of what '!' excludes")

    def wants(self, name: str) -> bool:
        """Say whether the import of a module may bring something to weave."""
        return any(
            term.in_module(name) or term.takes_subclasses for pointcut in self._pointcuts for term in pointcut.terms
        )

    def imported(self, module: ModuleType) -> None:
        """Weave what a module has brought. An import is not broken by it: the error is warned of, and kept."""
        name = module.__name__
        try:
            for mount in self.mounts:
                if isinstance(mount, _proxy.ProxyMountPoint):
                    mount.moved_on(module)
            self._weave(self._look(module))
        except Exception as error:
            self._errors[name] = error
            message = f"{name} is imported, but {self._shown} could not be woven: {error}"
            warn(message, WeaveWarning)
        else:
            self._errors.pop(name, None)

    def _missing(self) -> list[Term]:
        terms = [term for pointcut in self._pointcuts for term in pointcut.terms]
        return [term for term in terms if term not in self._found]

    def _look(self, ended: ModuleType | None = None, *, strict: bool = False) -> _Look:
        """Find where hooks go: everywhere, or in the module whose import has ended and in what has come with it."""
        look = _Look([], set())
        for plan in self._plans:
            target = plan.target
            if isinstance(target, Pointcut):
                for term in target.terms:
                    look.spots.extend([(plan, spot) for spot in self._chosen(term, plan, ended, look)])
            elif strict:
                look.spots.extend([(plan, spot) for spot in _things(target, plan.where)])
        return look

    def _chosen(self, term: Term, plan: Plan, ended: ModuleType | None, look: _Look) -> Iterator[Spot]:
        everywhere = ended is None or term.takes_subclasses
        for module in modules(term):
            if not everywhere and module is not ended:
                continue
            coming = is_under_way(module) and module is not ended
            try:
                spots = list(self._in_module(term, module, plan))
            except WeaveError:
                if coming:
                    continue  # it may yet become what is meant
                raise
            if spots:
                look.terms.add(term)
            for spot in spots:
                if plan.where is None or plan.where(spot.function):
                    yield spot

    def _in_module(self, term: Term, module: ModuleType, plan: Plan) -> Iterator[Spot]:
        """Give the places for hooks that a term means in a module; a glob passes over what has none.

        Raises:
            WeaveError: What is named is not there or has no place for hooks, or nothing of what a glob chooses has.
        """
        refused: WeaveError | None = None
        some = excluded = False
        for member in find(term, module):
            if is_excluded(member, cast("Pointcut", plan.target)):
                excluded = True
                continue
            try:
                spot = spot_of(member)
            except WeaveError as error:
                if term.exact and len(member.path) == len(term.segments):
                    raise
                refused = refused or error
                continue
            # A hook that a glob happens to choose does not run before itself.
            if term.exact or code_of(spot.function) not in self._own:
                some = True
                yield spot
        if not some and refused is not None and term.exact_module:
            raise refused
        if not some and excluded and term.exact_module:
            self._excluded.add(term)

    def _weave(self, look: _Look) -> None:
        """Put the hooks on, all or none."""
        done: list[_Key] = []
        later: dict[_Key, Callable[[], None]] = {}
        try:
            self._put_all(look.spots, done, later)
            for tell in later.values():
                tell()
            self._found |= look.terms  # last: nobody is to see a term that is found and has nothing woven yet
        except BaseException:
            self._take_back(done)
            raise

    @under_lock
    def _put_all(self, found: list[tuple[Plan, Spot]], done: list[_Key], later: dict[_Key, Callable[[], None]]) -> None:
        if self._removed:
            return
        in_place = {(id(plan), id(spot.function)) for plan, spot in found if spot.in_place}
        # An inherited static method calls the one that is woven anyway.
        chosen = [row for row in found if row[1].in_place or (id(row[0]), id(row[1].function)) not in in_place]

        def put() -> None:
            for plan, spot in chosen:
                self._put(plan, spot, done, later)

        _proxy.in_one_look(put)
        if len(self._pieces) > self._most:
            self._pieces = {key: piece for key, piece in self._pieces.items() if piece.share.lives}
            self._most = 2 * len(self._pieces) + 16
        for _, spot in chosen:
            if spot.in_place:
                warn_of_compiled(spot.function)

    @under_lock
    def _take_back(self, done: list[_Key]) -> None:
        for key in done:
            piece = self._pieces.pop(key, None)
            if piece is not None:
                piece.share.release((self._holder, key))

    def _put(self, plan: Plan, spot: Spot, done: list[_Key], later: dict[_Key, Callable[[], None]]) -> None:
        for place, wish in enumerate(plan.wishes):
            # A spot that two terms or two marks mean gets the same hook once.
            key = (spot.key, wish.key, place if self._again else None)
            piece = self._pieces.get(key)
            if key not in later and (piece is None or not piece.share.lives):
                done.append(key)
                mount = spot.mount()
                claim = Claim(spot.heir, self._blocks)
                if mount.replays(wish.kind) and not is_shared(mount, wish, again=self._again):
                    later[key] = partial(self._tell, key, mount, wish, claim)
                    continue
                self._share(key, mount, wish, claim)
                if spot.place is not None and isinstance(mount, _proxy.ProxyMountPoint):
                    mount.name_place(*spot.place)

    def _share(
        self, key: _Key, mount: MountPoint, wish: Wish, claim: Claim, put: Callable[[], Hook] | None = None
    ) -> None:
        holder = (self._holder, key)
        made = share(mount, wish, claim, holder=holder, paused=self._paused, again=self._again, put=put)
        loose = isinstance(mount, _proxy.ProxyMountPoint) or (isinstance(mount, OwnMountPoint) and mount.loose)
        self._pieces[key] = _Piece(made, mount if loose else None)

    def _tell(self, key: _Key, mount: MountPoint, wish: Wish, claim: Claim) -> None:
        """Tell a subscriber of the past, not under the lock, and then put it on."""
        closed = gate([claim], mount._get_site().signature)
        hook = mount.made(wish.kind, wish.function, wish.types, wish.options, closed)

        def put() -> Hook:
            mount._insert(hook)
            mount.announce(hook)
            return hook

        def insert() -> None:
            if not self._removed:
                self._share(key, mount, wish, claim, put)

        mount.replay(hook, insert)


def _things(target: Any, where: Where | None) -> list[Spot]:
    """Say where hooks go on a target that was given itself."""
    if isinstance(target, Chosen):
        return [Spot(one.key, one.function, one.mount) for one in target.points]
    if isinstance(target, (ModuleType, type)):
        path = path_of(target) if isinstance(target, type) else ()
        spots: list[Spot] = []
        refused: list[WeaveError] = []
        for member in public(target, path):
            try:
                spots.append(spot_of(member))
            except WeaveError as error:
                refused.append(error)
        label = qualified(target) if isinstance(target, type) else target.__name__
        if not spots:
            raise refused[0] if refused else WeaveError(why_empty(target, label))
        chosen = [spot for spot in spots if where is None or where(spot.function)]
        if not chosen:
            raise WeaveError(f"{label} is not woven: `where` refuses all of it, {plural(len(spots), 'function')}")
        return chosen
    spot = spot_of_object(target)
    if spot is None:
        raise WeaveError(
            f"{shown(target)} cannot be woven: it is a value, of type {kind_of(target)}; give a function, a method, a "
            f"class, a module, a pointcut such as 'shop:Cart.*', or an object with methods marked pre, post and so on"
        )
    if where is not None and not where(spot.function):
        raise WeaveError(f"{shown(target)} is not woven: `where` refuses it")
    return [spot]
