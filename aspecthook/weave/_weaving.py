"""The weaving: hooks on all that a target means, now and when modules are imported, removed as one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType, TracebackType

from aspecthook._core.law.callables import code_of
from aspecthook._core.law.hook import Hook
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import WarningsTo, WeaveError, WeaveWarning, listener, nearest, plural, warn
from aspecthook._foreign.places import with_index
from aspecthook._foreign.point import ProxyMountPoint
from aspecthook._hints import Literal, Never, TypeAlias, final

from ._finding import Plan, Search
from ._imports import Watcher, is_being_imported, unwatch, watch
from ._members import modules
from ._pointcut import Pointcut, Term
from ._pytorch import warn_of
from ._reasons import refuse_module, why_excluded, why_nothing, why_unknown, why_waiting
from ._spots import Spot, shown
from ._woven import Blocks, Claim, Owner, WovenHook, acquire

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Modules that messages need are loaded now. An import under the lock could wait for a thread that is importing too and
# waits for the lock.
_LOADED = (inspect, nearest("", []))

State: TypeAlias = Literal["waiting", "woven", "removed", "displaced"]
Scope: TypeAlias = Literal["everywhere", "context"]


@final
class Weaving:
    """Hooks that were added together and are removed together: the handle that `weave` returns.

    A context manager: the hooks are removed at the end of the block.

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
        # The hooks, each with its mount point if that is kept alive from here alone while the hooks are paused.
        self._hooks: dict[WovenHook, MountPoint | None] = {}
        self._limit = 16  # of hooks; beyond it, those whose functions are gone are dropped
        self._found: set[Term] = set()  # the terms that have chosen something, or never will
        self._excluded: set[Term] = set()  # the terms of which `!` has left nothing
        self._errors: dict[str, Exception] = {}  # by module: what could not be woven as its import ended
        self._listener = listener()  # of warnings, also of those about later imports
        self._removed = False  # or being removed
        self._gone = False
        self._displaced: tuple[MountPoint, ...] = ()
        self._entered = 0  # how many `with` blocks are open
        self._blocks = Blocks() if scope == "context" else None
        self._owner = Owner(self._blocks)
        functions = [wanted.function for plan in plans for wanted in plan.wanted]
        self._hook_codes = {code for function in functions if (code := code_of(function)) is not None}
        self._terms = [term for plan in plans if isinstance(plan.target, Pointcut) for term in plan.target.terms]
        self._watcher = Watcher(self._terms, self._imported)

    # Reading

    @property
    def mounts(self) -> tuple[MountPoint, ...]:
        """The mount points that carry the hooks, without those whose functions are gone."""
        found = [woven.mount for woven in list(self._hooks)]
        return tuple({id(mount): mount for mount in found if mount is not None}.values())

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The handles of the hooks."""
        return tuple([woven.hook for woven in list(self._hooks)])

    @property
    def state(self) -> State:
        """The state of the weaving.

        ``waiting``: part of the target is not imported yet, or the scope is ``"context"`` and no ``with`` block of it
        has been entered; ``woven``; ``removed``, also when the target is gone; ``displaced``: other code has
        replaced what we had put there, and is left alone.
        """
        if self._find_displaced({*self.mounts, *self._displaced}):
            return "displaced"
        if self._removed or not (self._terms or self.mounts):
            return "removed"
        return "waiting" if self._missing() or not self._is_entered else "woven"

    @property
    def _is_entered(self) -> bool:
        """Whether the hooks can act for anybody: those of scope "context" do so only inside a block."""
        return self._blocks is None or self._entered > 0

    @staticmethod
    @under_lock
    def _find_displaced(mounts: Iterable[MountPoint]) -> tuple[MountPoint, ...]:
        # A list and no `any`: a mount point that is no longer displaced heals when it is asked.
        return with_index(lambda: tuple([mount for mount in mounts if mount.displaced]))

    def check(self) -> None:
        """Make sure that everything that was asked for has been found.

        Raises:
            WeaveError: Something has not, or it could not be woven when its module was imported; or the scope is
                ``"context"``, and no block has been entered.
        """
        if self._removed:
            return
        self._weave(Search(self._hook_codes).in_modules(self._plans))  # an import may have gone by unnoticed
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
        """Remove the hooks. Further calls do nothing."""
        if self._gone:
            return
        self._removed = True
        unwatch(self._watcher)
        mounts = self.mounts
        with_index(self._release)
        # A displaced mount point has to remember what was put over it, and nothing else may keep it.
        self._displaced = self._find_displaced(mounts)
        # A handle that is kept would keep the mount points, and the callables that they have replaced.
        self._hooks = dict.fromkeys(self._hooks)
        self._gone = True  # last, so that an interrupted removal can be repeated

    def _release(self) -> None:
        for woven in list(self._hooks):
            woven.release([claim for claim in woven.claims if claim.owner is self._owner])

    def pause(self) -> None:
        """Disable the hooks in all threads, until `resume`. A hook that another weaving shares still acts for it."""
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Enable the hooks again."""
        self._set_paused(paused=False)

    @under_lock
    def _set_paused(self, *, paused: bool) -> None:
        self._owner.paused = paused
        with_index(self._settle)

    def _settle(self) -> None:
        for woven in list(self._hooks):
            woven.settle()

    # Typed as Never, so that a type checker reports the call.
    def __call__(self, function: object, /) -> Never:
        """Refuse to decorate a function, and remove the hooks: no other code would have the weaving to remove them.

        Raises:
            WeaveError: Always.
        """
        self.remove()
        name = getattr(function, "__name__", "f")
        raise WeaveError(
            f"weave is not a decorator, and the weaving of {self._shown} is removed again: to have it during each call "
            f"of {name}, write `with weave(...):` inside {name}; to put hooks on {name} itself, write @hookable above "
            f"it, and @{name}.pre and so on above the hooks"
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
                f"the weaving of {self._shown} has been removed, and a block of it would do nothing; weave again"
            )
        self._entered += 1

    @under_lock
    def _end_block(self) -> bool:
        """Return whether it was the last one."""
        self._entered -= 1
        return self._entered <= 0

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
        """Weave what is imported, and wait for what is not."""
        try:
            for term in self._terms:
                refuse_module(term)
            if self._terms:
                watch(self._watcher)
            self._weave(Search(self._hook_codes).in_modules(self._plans).of_objects(self._plans))
            self._refuse_nothing()
            for term in self._missing():
                unknown = why_unknown(term)
                if unknown is not None:
                    # It waits all the same: a path or a finder may be added.
                    warn(f"{term.text!r} waits: {unknown}", WeaveWarning)
        except BaseException:
            self.remove()
            raise
        # The objects that were given are woven now, and must not be kept alive.
        self._plans = tuple([plan for plan in self._plans if isinstance(plan.target, Pointcut)])
        return self

    def _refuse_nothing(self) -> None:
        """Refuse a weaving whose modules are imported and in which it has found nothing."""
        terms = [term for term in self._terms if term.exact_module]
        # First which imports have ended, then what is missing: another thread weaves before its import ends.
        imported = [(one, module) for one in terms for module in modules(one) if not is_being_imported(module)]
        missing = self._missing()
        if any(term in missing for term, _ in imported):
            # A reload, which another thread makes, takes its module out of `sys.modules` for a moment.
            self._weave(Search(self._hook_codes).in_modules(self._plans))
            missing = self._missing()
        for term, module in imported:
            if term not in missing:
                continue
            # A package may have nothing of its own, and everything in the modules below it.
            if not self._hooks or not all(segment.glob == "*" for segment in term.segments):
                raise WeaveError(why_excluded(term) if term in self._excluded else why_nothing(term, module))
            self._found.add(term)
        if not self._hooks and not missing:
            raise WeaveError(f"{self._shown} chooses nothing: take something out of `where`, or of what '!' excludes")

    def _imported(self, module: ModuleType) -> None:
        """Weave what a module has brought. An error does not break the import: it is kept, and a warning reports it."""
        name = module.__name__
        try:
            for mount in self.mounts:
                if isinstance(mount, ProxyMountPoint):
                    mount.moved_on(module)
            self._weave(Search(self._hook_codes).in_modules(self._plans, module))
        except Exception as error:
            self._errors[name] = error
            what, found, reason = str(error).partition(" cannot be woven: ")
            said = f"{what!r} could not be woven: {reason}" if found else f"{self._shown} could not be woven: {what}"
            with WarningsTo(self._listener):
                warn(f"{name} is imported, but {said}", WeaveWarning)
        else:
            self._errors.pop(name, None)

    def _missing(self) -> list[Term]:
        return [term for term in self._terms if term not in self._found]

    def _weave(self, search: Search) -> None:
        """Put the hooks on the spots that were found: all of them or, if one is refused, none."""
        self._excluded |= search.excluded
        done: list[tuple[WovenHook, Claim]] = []
        try:
            self._put_all(search.spots, done)
            for _, spot in search.spots:
                if spot.in_place:
                    warn_of(spot.function)
            self._found |= search.found  # last: a term that is found must have its hooks
        except BaseException:
            self._take_back(done)
            raise

    @under_lock
    def _put_all(self, found: list[tuple[Plan, Spot]], done: list[tuple[WovenHook, Claim]]) -> None:
        if self._removed:
            return
        chosen = found
        if not all(spot.in_place for _, spot in found):
            in_place = {(id(plan), id(spot.function)) for plan, spot in found if spot.in_place}
            # The proxy of an inherited static method calls the function, which is left to the hooks in it.
            chosen = [row for row in found if row[1].in_place or (id(row[0]), id(row[1].function)) not in in_place]

        def put() -> None:
            for plan, spot in chosen:
                self._put(plan, spot, done)

        with_index(put)
        if len(self._hooks) > self._limit:
            self._hooks = {woven: kept for woven, kept in self._hooks.items() if woven.mount is not None}
            self._limit = 2 * len(self._hooks) + 16

    @under_lock
    def _take_back(self, done: list[tuple[WovenHook, Claim]]) -> None:
        for woven, claim in done:
            woven.release((claim,))
            if not any(one.owner is self._owner for one in woven.claims):
                self._hooks.pop(woven, None)

    def _put(self, plan: Plan, spot: Spot, done: list[tuple[WovenHook, Claim]]) -> None:
        mount = spot.mount()
        for place, wanted in enumerate(plan.wanted):
            # A spot that two terms or two marks mean gets the same hook once.
            row = acquire(mount, wanted, self._owner, spot.heir, place if self._again else None)
            if row is not None:
                done.append(row)
                self._hooks[row[0]] = mount if spot.loose else None
                if spot.place is not None and isinstance(mount, ProxyMountPoint):
                    mount.name_place(*spot.place)
