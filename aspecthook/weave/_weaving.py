"""The weaving: hooks put on all that a target means, now and when modules are imported, taken off as one."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import ModuleType, TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias, cast, final

from aspecthook import _proxy
from aspecthook._changes import lock
from aspecthook._errors import WeaveError, WeaveWarning, nearest
from aspecthook._hook import Hook, code_of
from aspecthook._mount import MountPoint
from aspecthook._own import OwnMountPoint

from ._gates import Blocks, Claim, gate
from ._imports import is_under_way, unwatch, watch, watch_end
from ._members import find, is_excluded, modules, path_of, public
from ._pointcut import Pointcut, Term
from ._reasons import refuse_no_module, why_empty, why_excluded, why_nothing, why_waiting
from ._shares import Share, Wish, is_shared, share
from ._spots import Spot, kind_of, shown, spot_of, spot_of_object
from ._torch import Chosen, warn_of_compiled

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
        found = [piece.share.mount() for piece in list(self._pieces.values())]
        return tuple({id(mount): mount for mount in found if mount is not None}.values())

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The handles of the hooks."""
        return tuple(dict.fromkeys(piece.share.hook for piece in list(self._pieces.values())))

    @property
    def state(self) -> State:
        """Where the weaving stands.

        ``waiting``: part of the target is not imported yet; ``woven``; ``removed``; ``displaced``: somebody else has
        put theirs where the hooks were, and it stays as it is.
        """
        if self._find_displaced({*self.mounts, *self._displaced}):
            return "displaced"
        if self._removed:
            return "removed"
        return "waiting" if self._missing() else "woven"

    @staticmethod
    def _find_displaced(mounts: Iterable[MountPoint]) -> tuple[MountPoint, ...]:
        """Ask all: one that is not displaced any more puts itself right."""
        with lock:
            return _proxy.in_one_look(lambda: tuple([mount for mount in mounts if mount.displaced]))

    def check(self) -> None:
        """Make sure that everything that was asked for has been found.

        Raises:
            WeaveError: Something has not, or it could not be woven when its module was imported.
        """
        if self._removed:
            return
        if self._missing():
            self._weave(self._spots())
        for error in self._errors.values():
            raise error
        missing = self._missing()
        if missing:
            raise WeaveError(f"nothing is woven on {missing[0].text!r}: {why_waiting(missing[0])}")

    def __repr__(self) -> str:
        return f"<weaving of {self._shown}: {self.state}, {len(self.mounts)} mount points>"

    # Changing

    def remove(self) -> None:
        """Take the hooks off; once they are off, do nothing."""
        with lock:
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

    def _set_paused(self, *, paused: bool) -> None:
        with lock:
            self._paused = paused

            def pause() -> None:
                for key, piece in list(self._pieces.items()):
                    piece.share.pause((self._holder, key), paused=paused)

            _proxy.in_one_look(pause)

    def __enter__(self) -> Weaving:
        with lock:
            if self._removed:
                raise WeaveError(
                    f"the weaving of {self._shown} has been removed, and a block of it would do nothing; weave anew"
                )
            self._count += 1
        if self._blocks is not None:
            self._blocks.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with lock:
            self._count -= 1
            last = self._count <= 0
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
            self._weave(self._spots(strict=True))
            self._judge()
        except BaseException:
            self.remove()
            raise
        # What was given itself is woven now, and is not to be kept alive.
        self._plans = tuple([plan for plan in self._plans if isinstance(plan.target, Pointcut)])
        return self

    def _judge(self) -> None:
        """Refuse a weaving that has found nothing where it could have."""
        missing = self._missing()
        there = [(one, module) for one in missing if one.exact_module for module in modules(one)]
        for term, module in there:
            if is_under_way(module):
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
            self._weave(self._spots(module))
        except Exception as error:
            self._errors[name] = error
            message = f"{name} is imported, but {self._shown} could not be woven: {error}"
            warnings.warn(message, WeaveWarning, stacklevel=2)
        else:
            self._errors.pop(name, None)

    def _missing(self) -> list[Term]:
        terms = [term for pointcut in self._pointcuts for term in pointcut.terms]
        return [term for term in terms if term not in self._found]

    def _spots(self, ended: ModuleType | None = None, *, strict: bool = False) -> list[tuple[Plan, Spot]]:
        """Find where hooks go: everywhere, or in the module whose import has ended and in what has come with it."""
        found: list[tuple[Plan, Spot]] = []
        for plan in self._plans:
            target = plan.target
            if isinstance(target, Pointcut):
                for term in target.terms:
                    found += [(plan, spot) for spot in self._chosen(term, plan, ended)]
            elif strict:
                found += [(plan, spot) for spot in _things(target, plan.where)]
        return found

    def _chosen(self, term: Term, plan: Plan, ended: ModuleType | None) -> Iterator[Spot]:
        everywhere = ended is None or term.takes_subclasses
        for module in modules(term):
            if not everywhere and module is not ended:
                continue
            coming = is_under_way(module) and module is not ended
            if coming:
                watch_end(module)
            try:
                spots = list(self._in_module(term, module, plan))
            except WeaveError:
                if coming:
                    continue  # it may yet become what is meant
                raise
            if spots:
                self._found.add(term)
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

    def _weave(self, found: list[tuple[Plan, Spot]]) -> None:
        """Put the hooks on, all or none."""
        done: list[_Key] = []
        later: dict[_Key, Callable[[], None]] = {}
        try:
            with lock:
                if self._removed:
                    return
                self._put_all(found, done, later)
            for tell in later.values():
                tell()
        except BaseException:
            with lock:
                self._take_back(done)
            raise

    def _put_all(self, found: list[tuple[Plan, Spot]], done: list[_Key], later: dict[_Key, Callable[[], None]]) -> None:
        in_place = {(id(plan), id(spot.function)) for plan, spot in found if spot.in_place}
        # An inherited static method calls the one that is woven anyway.
        chosen = [row for row in found if row[1].in_place or (id(row[0]), id(row[1].function)) not in in_place]

        def put() -> None:
            for plan, spot in chosen:
                self._put(plan, spot, done, later)

        _proxy.in_one_look(put)
        for _, spot in chosen:
            if spot.in_place:
                warn_of_compiled(spot.function)

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
                if mount.must_tell(wish.kind) and not is_shared(mount, wish, again=self._again):
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

        mount.tell(hook, insert)


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
        label = f"{target.__module__}:{target.__qualname__}" if isinstance(target, type) else target.__name__
        if not spots:
            raise refused[0] if refused else WeaveError(why_empty(target, label))
        chosen = [spot for spot in spots if where is None or where(spot.function)]
        if not chosen:
            raise WeaveError(f"{label} is not woven: `where` refuses all {len(spots)} functions of it")
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
