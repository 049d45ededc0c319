"""Weavings: hooks put on at once and when modules are imported, removed as one.

The invariant: a weaving holds its hooks, and a spot has each of them once; all spots that are found together are woven
or none.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from functools import partial
from types import ModuleType, TracebackType

from aspecthook._core.law.callables import code_of, identity
from aspecthook._core.law.hook import Hook, Maker, Predicate
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import AspecthookError, WarningsTo, WeaveError, WeaveWarning, listener, nearest, plural, warn
from aspecthook._foreign.places import indexed
from aspecthook._foreign.point import ProxyMountPoint
from aspecthook._hints import Any, Literal, TypeAlias, final

from ._calls import Blocks, Calls
from ._finding import Plan, Spots, Wanted, spots_in_modules, spots_of_objects
from ._imports import Watcher, is_being_imported, unwatch, watch
from ._members import modules_of
from ._pointcut import Pointcut, Term
from ._pytorch import warn_of
from ._reasons import refuse_module, why_nothing, why_unknown, why_waiting
from ._spots import Spot, label_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Modules that messages need are loaded now. An import under the lock could wait for a thread that is importing too and
# waits for the lock.
_LOADED = (inspect, nearest("", []))

State: TypeAlias = Literal["waiting", "woven", "removed", "displaced"]
Scope: TypeAlias = Literal["everywhere", "context"]


def _acts_for(hook: Hook, mount: MountPoint, cls: type[Any] | None, undo: list[Callable[[], None]]) -> bool:
    """Return whether a hook acts for the calls of a class, for which it is made to act unless it is gone."""
    # Without a gate that is a method of `Calls` it acts for all calls of the function, whatever class they are for.
    calls = None if hook.gate is None else getattr(hook.gate.holds, "__self__", None)
    if not isinstance(calls, Calls) or calls.has(cls):
        return True
    if hook not in mount.members:
        return False
    undo.append(partial(calls.discard, id(cls)))
    calls.add(cls)
    return True


@final
class Weaving:
    """Hooks that were added together and are removed together: the handle that `weave` returns.

    Used as a context manager, it removes the hooks at the end of the block.

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

    def __init__(self, plans: tuple[Plan, ...], *, scope: Scope) -> None:
        targets = [plan.target.text if isinstance(plan.target, Pointcut) else plan.target for plan in plans]
        self._shown = ", ".join(dict.fromkeys(map(label_of, targets)))
        self._plans = plans
        # The hooks of each mount point, which goes with its function.
        self._hooks: weakref.WeakKeyDictionary[MountPoint, tuple[Hook, ...]] = weakref.WeakKeyDictionary()
        # Mount points that nothing else may keep: those of proxies, while their hooks are paused; and after the removal
        # those that are displaced, which have to remember what was put over them.
        self._kept: set[MountPoint] = set()
        self._found: set[Term] = set()  # the terms that have chosen something
        self._listener = listener()  # of warnings, also of those about later imports
        self._removed = False  # or being removed
        self._gone = False
        self._paused = False
        self._entered = 0  # how many `with` blocks are open
        self._blocks = Blocks() if scope == "context" else None
        functions = [wanted.function for plan in plans for wanted in plan.wanted]
        self._hook_codes = {code for function in functions if (code := code_of(function)) is not None}
        self._terms = [term for plan in plans for term in plan.terms]
        self._watcher = Watcher(self._terms, self._imported)

    # Reading

    @property
    def mounts(self) -> tuple[MountPoint, ...]:
        """The mount points that carry the hooks, or carried them, except those whose functions are gone."""
        return tuple([mount for mount in list(self._hooks) if mount.is_alive()])

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The handles of the hooks."""
        return tuple([hook for row in list(self._hooks.values()) for hook in row])

    @property
    @under_lock
    @indexed
    def state(self) -> State:
        """The state of the weaving.

        ``waiting``: part of the target is not imported yet, or the scope is ``"context"`` and no ``with`` block has
        been entered; ``woven``; ``removed``: by `remove`, or because the target or the last hook on it (``once``) is
        gone; ``displaced``: other code has replaced what carried the hooks.
        """
        # All are asked, as a mount point that is no longer displaced heals when it is asked.
        displaced = [mount for mount in self.mounts if mount.displaced]
        if displaced:
            return "displaced"
        if self._removed or not (self._terms or self.mounts):
            return "removed"
        return "waiting" if self._missing() or not self._is_entered else "woven"

    @property
    def _is_entered(self) -> bool:
        """Whether the hooks can act for anybody: those of scope "context" do so only inside a block."""
        return self._blocks is None or self._entered > 0

    def check(self) -> None:
        """Check that the whole target was found and woven.

        Raises:
            WeaveError: Part of it was not found, or could not be woven when its module was imported; or the scope is
                ``"context"``, and no block has been entered.
        """
        if self._removed:
            return
        self._weave(*spots_in_modules(self._plans, self._hook_codes))  # an import may have gone by unnoticed
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
    @indexed
    def remove(self) -> None:
        """Remove the hooks. Further calls do nothing."""
        if self._gone:
            return
        self._removed = True
        unwatch(self._watcher)
        self._kept.update(self.mounts)  # so that none goes with its last hook
        for mount, row in list(self._hooks.items()):
            if not mount.discard(row):
                mount.tidy()  # their removal may have been interrupted
        # A handle that is kept would keep the mount points, and the callables that they have replaced.
        self._kept = {mount for mount in self._kept if mount.displaced}
        self._gone = True  # last, so that an interrupted removal can be repeated

    def pause(self) -> None:
        """Disable the hooks in all threads, until `resume`."""
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Enable the hooks again."""
        self._set_paused(paused=False)

    @under_lock
    @indexed
    def _set_paused(self, *, paused: bool) -> None:
        self._paused = paused
        for mount, row in [] if self._removed else list(self._hooks.items()):
            mount.set_paused(row, paused=paused)

    def __enter__(self) -> Weaving:
        self._count_block(1)
        if self._blocks is not None:
            self._blocks.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_last = self._count_block(-1) <= 0
        if self._blocks is not None:
            self._blocks.leave()
        if is_last:
            self.remove()

    @under_lock
    def _count_block(self, step: int) -> int:
        """Count a block in or out, and return how many are open."""
        if self._removed and step > 0:
            raise WeaveError(
                f"the weaving of {self._shown} has been removed, and a block of it would do nothing; weave again"
            )
        self._entered += step
        return self._entered

    # Weaving

    def begin(self) -> Weaving:
        """Weave what is imported, and wait for what is not."""
        try:
            for term in self._terms:
                refuse_module(term)
            if self._terms:
                watch(self._watcher)
            spots, terms = spots_in_modules(self._plans, self._hook_codes)
            self._weave(spots + spots_of_objects(self._plans), terms)
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
        self._plans = tuple([plan for plan in self._plans if plan.terms])
        return self

    def _refuse_nothing(self) -> None:
        """Refuse a weaving whose modules are imported and in which it has found nothing."""
        terms = [term for term in self._terms if term.exact_module]
        # First which imports have ended, then what is missing: another thread weaves before its import ends.
        imported = [(one, module) for one in terms for module in modules_of(one) if not is_being_imported(module)]
        missing = self._missing()
        if any(term in missing for term, _ in imported):
            # A reload, which another thread makes, takes its module out of `sys.modules` for a moment.
            self._weave(*spots_in_modules(self._plans, self._hook_codes))
            missing = self._missing()
        for term, module in [row for row in imported if row[0] in missing]:
            raise WeaveError(why_nothing(term, module))
        if not self._hooks and not missing:
            raise WeaveError(f"{self._shown} chooses nothing: take something out of `where`, or of what '!' excludes")

    def _imported(self, module: ModuleType) -> None:
        """Weave what a module has brought. An error does not break the import: a warning reports it, and `check`."""
        try:
            for mount in self.mounts:
                if isinstance(mount, ProxyMountPoint):
                    mount.moved_on(module)
            self._weave(*spots_in_modules(self._plans, self._hook_codes, module))
        except Exception as error:
            why = error if isinstance(error, AspecthookError) else f"{self._shown} cannot be woven: {error}"
            with WarningsTo(self._listener):
                warn(f"{module.__name__} is imported, but {why}", WeaveWarning)

    def _missing(self) -> list[Term]:
        return [term for term in self._terms if term not in self._found and not self._is_elsewhere(term)]

    def _is_elsewhere(self, term: Term) -> bool:
        """Whether a term is for all in a package that has nothing of its own, but all in the modules below it."""
        means_all = term.exact_module and all(segment.glob == "*" for segment in term.segments)
        return means_all and bool(self._hooks) and not all(map(is_being_imported, modules_of(term)))

    def _weave(self, spots: Spots, terms: set[Term]) -> None:
        """Put the hooks on the spots that were found: all of them or, if one is refused, none."""
        undo: list[Callable[[], None]] = []
        try:
            self._put_all(spots, undo)
            for _, spot in spots:
                if spot.made is None:
                    warn_of(spot.function)
            self._found |= terms  # last: a term that is found must have its hooks
        except BaseException:
            for step in reversed(undo):
                step()
            raise

    @under_lock
    @indexed
    def _put_all(self, spots: Spots, undo: list[Callable[[], None]]) -> None:
        in_place = {(id(plan), id(spot.function)) for plan, spot in spots if spot.made is None}
        for plan, spot in [] if self._removed else spots:
            # The proxy of an inherited static method calls the function, which is left to the hooks in it.
            if spot.made is None or (id(plan), id(spot.function)) not in in_place:
                self._put(plan.wanted, spot, undo)

    def _put(self, several: tuple[Wanted, ...], spot: Spot, undo: list[Callable[[], None]]) -> None:
        """Put hooks on one spot; under the lock."""
        mount = spot.mount()
        for wanted in several:
            row = self._hooks.get(mount, ())
            # A spot that two terms or two marks mean gets the same hook once.
            held = next((one for one in row if one.woven_as == wanted.key), None)
            if held is not None and _acts_for(held, mount, spot.heir, undo):
                continue
            if isinstance(wanted.function, Maker) and not wanted.function.fits(mount):
                continue
            undo.append(partial(self._withdraw, mount, wanted, row, mount.members))
            calls, gate = None, None if self._blocks is None else Predicate(self._blocks)
            if spot.heir is not None:
                calls = Calls(self._blocks)
                calls.add(spot.heir)
                gate = calls.gate(mount.site().signature)
            hook = mount.add_hook(wanted.kind, wanted.function, wanted.types, wanted.options, gate)
            if calls is not None:
                calls.hook = weakref.ref(hook)
            if self._paused:
                mount.set_paused((hook,), paused=True)
            hook.woven_as = wanted.key
            self._hooks[mount] = (*row, hook)
        if spot.loose:
            self._kept.add(mount)

    @under_lock
    def _withdraw(self, mount: MountPoint, wanted: Wanted, row: tuple[Hook, ...], before: tuple[Hook, ...]) -> None:
        """Remove a hook that was added, or that an interrupt has left half added."""
        made = (wanted.kind, identity(mount.unbound(wanted.function)))
        for hook in mount.members:
            if hook not in before and (hook.kind, hook.identity) == made:
                hook.remove()
        mount.tidy()
        if row:
            self._hooks[mount] = row
        else:
            self._hooks.pop(mount, None)
