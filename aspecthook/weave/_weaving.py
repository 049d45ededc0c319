"""The weaving: hooks put on all that a target means, now and when modules are imported, taken off as one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType, TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias, final

from aspecthook import _proxy
from aspecthook._changes import lock
from aspecthook._errors import AspecthookError, WeaveError, WeaveWarning, nearest
from aspecthook._hook import Hook, code_of
from aspecthook._mount import MountPoint

from . import _gates
from ._imports import is_under_way, unwatch, watch, watch_end
from ._members import find, is_excluded, modules, path_of, public
from ._pointcut import Pointcut, Term
from ._shares import Share, Wish, share
from ._spots import IMMUTABLE, Spot, kind_of, spot_of, spot_of_object

State: TypeAlias = Literal["waiting", "woven", "removed", "displaced"]
Scope: TypeAlias = Literal["everywhere", "context"]
Where: TypeAlias = Callable[[Any], object]


class Plan(NamedTuple):
    """What is to be woven on one target."""

    target: object  # a Pointcut, or the thing itself
    wishes: tuple[Wish, ...]
    where: Where | None


class _Piece(NamedTuple):
    """One hook that was put on, for one spot and one wish."""

    share: Share
    mount: MountPoint | None  # kept only where nothing else would while the proxy is away


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
        self._plans = plans
        self._scope = scope
        self._again = again
        self._pieces: dict[tuple[object, ...], _Piece] = {}
        self._found: set[Term] = set()  # the terms that have chosen something
        self._error: Exception | None = None
        self._removed = False
        self._paused = False
        self._blocks = 0
        self._hooks_own = {
            code for plan in plans for wish in plan.wishes if (code := code_of(wish.function)) is not None
        }
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
        if any(mount.displaced for mount in self.mounts):
            return "displaced"
        if self._removed:
            return "removed"
        return "waiting" if self._missing() else "woven"

    def check(self) -> None:
        """Make sure that everything that was asked for has been found.

        Raises:
            WeaveError: Something has not, or it could not be woven when its module was imported.
        """
        if self._removed:
            return
        if self._missing():
            self._weave(self._spots())
        if self._error is not None:
            raise self._error
        missing = self._missing()
        if missing:
            raise WeaveError(f"nothing is woven on {missing[0].text!r}: {_why_waiting(missing[0])}")

    def __repr__(self) -> str:
        shown = ", ".join(
            repr(plan.target.text if isinstance(plan.target, Pointcut) else plan.target) for plan in self._plans[:3]
        )
        return f"<weaving of {shown}: {self.state}, {len(self.mounts)} mount points>"

    # Changing

    def remove(self) -> None:
        """Take the hooks off; once they are off, do nothing."""
        with lock:
            self._removed = True
            unwatch(self)
            for piece in list(self._pieces.values()):
                piece.share.release(self)
        _gates.leave(self)

    def pause(self) -> None:
        """Keep the hooks from acting, in all threads, until `resume`."""
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Let the hooks act again."""
        self._set_paused(paused=False)

    def _set_paused(self, *, paused: bool) -> None:
        with lock:
            self._paused = paused
            for mount in self.mounts:
                own = tuple(piece.share.hook for piece in self._pieces.values() if piece.share.mount() is mount)
                mount.set_paused(own, paused=paused)

    def __enter__(self) -> Weaving:
        if self._scope == "context":
            with lock:
                self._blocks += 1
            _gates.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with lock:
            self._blocks -= 1
            last = self._blocks <= 0
        _gates.leave(self)
        if last:
            self.remove()

    # Weaving

    def begin(self) -> Weaving:
        """Weave what is there, and wait for what is not."""
        try:
            if self._pointcuts:
                watch(self)
            self._weave(self._spots(strict=True))
        except BaseException:
            self.remove()
            raise
        return self

    def wants(self, name: str) -> bool:
        """Say whether the import of a module may bring something to weave."""
        return any(
            term.in_module(name) or term.takes_subclasses for pointcut in self._pointcuts for term in pointcut.terms
        )

    def imported(self, module: ModuleType) -> None:
        """Weave what a module has brought. An import is not broken by it: the error is warned of, and kept."""
        try:
            self._weave(self._spots(module))
        except AspecthookError as error:
            self._error = error
            warnings.warn(f"the import of {module.__name__} is done, but: {error}", WeaveWarning, stacklevel=2)

    def _missing(self) -> list[Term]:
        terms = [term for pointcut in self._pointcuts for term in pointcut.terms]
        return [term for term in terms if term not in self._found]

    def _spots(self, module: ModuleType | None = None, *, strict: bool = False) -> list[tuple[Plan, Spot]]:
        """Find where hooks go: everywhere, or in one module and in what has come with it."""
        found: list[tuple[Plan, Spot]] = []
        for plan in self._plans:
            target = plan.target
            if isinstance(target, Pointcut):
                found += [(plan, spot) for spot in self._chosen(target, plan.where, module, strict=strict)]
            elif strict:
                found += [(plan, spot) for spot in _things(target, plan.where)]
        return found

    def _chosen(
        self, pointcut: Pointcut, where: Where | None, module: ModuleType | None, *, strict: bool
    ) -> Iterator[Spot]:
        for term in pointcut.terms:
            everywhere = module is None or term.takes_subclasses
            among = [one for one in modules(term) if everywhere or one is module]
            spots: list[Spot] = []
            for one in among:
                spots += self._in_module(term, one, pointcut, where, strict=strict)
            if spots:
                self._found.add(term)
            elif strict and term.exact_module and among and not is_under_way(among[0]):
                raise WeaveError(_why_nothing(term, among[0], where))
            yield from spots

    def _in_module(
        self, term: Term, module: ModuleType, pointcut: Pointcut, where: Where | None, *, strict: bool
    ) -> list[Spot]:
        coming = is_under_way(module)
        if coming:
            watch_end(module)
        try:
            members = find(term, module)
        except WeaveError:
            if coming:
                return []
            raise
        chosen = [one for one in members if not is_excluded(one, pointcut)]
        spots: list[Spot] = []
        refused: WeaveError | None = None
        for member in chosen:
            try:
                spot = spot_of(member)
            except WeaveError as error:
                refused = refused or error
                if term.exact:
                    raise
                continue
            if (where is None or where(spot.function)) and code_of(spot.function) not in self._hooks_own:
                spots.append(spot)
        if refused is not None and not spots and strict:
            raise refused
        return spots

    def _weave(self, found: list[tuple[Plan, Spot]]) -> None:
        """Put the hooks on, all or none."""
        done: list[tuple[object, ...]] = []
        with lock:
            if self._removed:
                return
            try:
                for plan, spot in found:
                    for place, wish in enumerate(plan.wishes):
                        # A spot that two terms or two marks mean gets the same hook once.
                        key: tuple[object, ...] = (
                            spot.key,
                            wish.key(spot.heir, scoped=False),
                            place if self._again else None,
                        )
                        piece = self._pieces.get(key)
                        if piece is None or not piece.share.lives:
                            done.append(key)
                            self._pieces[key] = self._piece(spot, wish)
            except BaseException:
                for key in done:
                    made = self._pieces.pop(key, None)
                    if made is not None:
                        made.share.release(self)
                raise

    def _piece(self, spot: Spot, wish: Wish) -> _Piece:
        mount = spot.mount()
        scoped = self._scope == "context"
        made = share(mount, wish, spot.heir, holder=self, scoped=scoped, again=self._again)
        if self._paused:
            mount.set_paused((made.hook,), paused=True)
        return _Piece(made, mount if isinstance(mount, _proxy.ProxyMountPoint) else None)


def _things(target: Any, where: Where | None) -> list[Spot]:
    """Say where hooks go on a target that was given itself."""
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
            raise refused[0] if refused else WeaveError(_why_empty(target, label))
        chosen = [spot for spot in spots if where is None or where(spot.function)]
        if not chosen:
            raise WeaveError(f"{label}: `where` refuses all {len(spots)} functions of it")
        return chosen
    spot = spot_of_object(target)
    if spot is None:
        raise WeaveError(
            f"{target!r} cannot be woven: it is a value, of type {kind_of(target)}; give a function, a method, a "
            f"class, a module, a pointcut such as 'shop:Cart.*', or an object with methods marked pre, post and so on"
        )
    if where is not None and not where(spot.function):
        raise WeaveError(f"{target!r} is not woven: `where` refuses it")
    return [spot]


def _why_empty(target: Any, label: str) -> str:
    if isinstance(target, type) and target.__flags__ & IMMUTABLE:
        return (
            f"{label} cannot be woven: it is an immutable C type, in which nothing can be replaced; weave a subclass, "
            f"or the functions that call it"
        )
    if isinstance(target, type):
        return (
            f"{label} cannot be woven: it defines no public Python methods of its own; weave the class that does, or "
            f"name one: '{label}.__init__'"
        )
    return f"{label} cannot be woven: it defines no public functions of its own; name what it has: '{label}:...'"


def _why_nothing(term: Term, module: ModuleType, where: Where | None) -> str:
    if where is not None:
        return f"{term.text!r} chooses nothing in {module.__name__} that `where` accepts"
    first = term.segments[0]
    names = [one for one in vars(module) if not one.startswith("__")]
    near = nearest(first.glob.strip("*"), names)
    return f"{term.text!r} chooses nothing: no function or class that {module.__name__} itself defines is meant{near}"


def _why_waiting(term: Term) -> str:
    found = modules(term)
    if found:
        return f"nothing in {found[0].__name__} is meant by it"
    from importlib.util import find_spec

    if term.exact_module:
        try:
            there = find_spec(term.module) is not None
        except (ImportError, ValueError, AttributeError):
            there = False
        if not there:
            return f"there is no module {term.module!r} to import{nearest(term.module, sorted(sys.modules))}"
    return f"no module {term.module!r} has been imported"
