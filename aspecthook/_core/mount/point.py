"""The mount point: the hooks of one function, and law 5: adding and removing them is safe at any moment.

The invariant: the members are one immutable tuple, and every change goes the same way, under one lock: first the
stand-in code goes in (it asks for the chain at the next call), then the new members are stored, then what is empty is
closed. An interrupt at any point leaves a function that runs either the old chain or the new one.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Unpack, cast, final

from aspecthook._core.compile.copies import Attribute, Attributes
from aspecthook._core.compile.link import template
from aspecthook._core.compile.show import origins_of, render
from aspecthook._core.law.asks import KINDS, Kind
from aspecthook._core.law.call import Site
from aspecthook._core.law.callables import identity, signature_of
from aspecthook._core.law.hook import Gate, Hook
from aspecthook._core.law.options import Adding, Options
from aspecthook._core.law.order import Chain, Mentions, arrange
from aspecthook._core.law.shown import Shown, shown_by
from aspecthook._core.law.signature import Emission, Signature
from aspecthook._errors import (
    HookLookupError,
    HookOptionError,
    HookTypeError,
    brief,
    entrance,
    nearest,
    plural,
    printable,
    qualified,
    warn,
)

from .adding import KindHooks, check_types, is_meant, shown_name
from .lock import under_lock
from .place import Place
from .unloading import module_of, watch, watch_hook

if TYPE_CHECKING:
    from aspecthook._core.law.call import Record

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_added = count()


# What completion shows; the other names without an underscore serve the rooms above this one.
_PUBLIC = ("add", "clear", "displaced", "explain", "function", "members", "name", "paused", "remove")


class Dependent(Protocol):
    """What else runs hooks on the same function and must know of changes: the mount point of an instance."""

    @property
    def members(self) -> tuple[Hook, ...]:
        """Its hooks, in the order in which they were added."""
        ...

    def reset(self, place: Place | None) -> None:
        """Link the chain again at the next call."""
        ...


class MountPoint(Attribute):
    """The hooks of one function: what `hooks(f)` gives.

    Iterate it, take its `len`, ask it for ``.pre``, ``.around``, ``.item``, ``.exception``, ``.post`` and ``.always``
    (tuples of `Hook` in the order in which they run; each also adds a hook when called as a decorator).

    Example:
        >>> from aspecthook import hookable, hooks
        >>> @hookable
        ... def double(n):
        ...     return 2 * n
        >>> @double.post
        ... def increase(result):
        ...     return result + 1
        >>> double(2), len(hooks(double)), "increase" in hooks(double)
        (5, 1, True)
        >>> hooks(double).remove(increase)
        >>> double(2)
        4
    """

    # Whether it belongs to one object, and not to the function that runs there.
    of_object: ClassVar[bool] = False

    __slots__ = (
        "__weakref__",
        "_chain",
        "_looks",
        "_members",
        "_mentions",
        "_ref",
        "_site",
        "emission",
        "instances",
        "lends",
        "name",
        "pauses",
        "place",
        "woven",
    )

    # The hooks of each kind, in the order in which they run; properties, set below.
    pre: KindHooks
    around: KindHooks
    on: KindHooks
    item: KindHooks
    exception: KindHooks
    post: KindHooks
    always: KindHooks

    def __init__(self, function: FunctionType, name: str | None = None, emission: Emission | None = None) -> None:
        self._ref: Callable[[], FunctionType | None] = weakref.ref(function)
        self.name = printable(name) if name else qualified(function)
        self._members: tuple[Hook, ...] = ()
        self._mentions = Mentions()
        self.pauses: frozenset[object] = frozenset()
        self._chain: tuple[object, Chain] | None = None
        self.place: Place | None = None
        self._site: Site | None = None
        self.instances: dict[int, Dependent] = {}
        self._looks: weakref.WeakValueDictionary[int, MountPoint] | None = None
        # Of an event: what it does with its subscribers.
        self.emission = emission
        # What hooks may ask for besides the parameters.
        self.lends: dict[str, str] = {}
        # What weavings share here; kept here, so that all of it dies together.
        self.woven: dict[object, Any] = {}

    def found_at(self) -> tuple[FunctionType | None, str]:
        """Return the function whose attribute it is, or None, and the name of the attribute."""
        function = self._ref()
        lasting = function is not None and function.__dict__.get("hooks") is self
        return function if lasting else None, "hooks"

    # Reading

    @property
    def function(self) -> Callable[..., Any]:
        """The mounted function.

        Raises:
            HookLookupError: It is gone.
        """
        function = self._ref()
        if function is None:
            raise HookLookupError(f"{self.name} is gone: nothing refers to the function any more")
        return function

    def __iter__(self) -> Iterator[Hook]:
        return iter(Chain(self._members).everything())

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, hook: object) -> bool:
        return any(is_meant(one, self.unbound(hook)) for one in self._members)

    @entrance
    def __getitem__(self, name: str) -> Hook:
        return self._find(name)[0]

    def __str__(self) -> str:
        """Return the hooks, one a line, with the names in `before` and `after` that none of them bears."""
        lines = [f"{self.name}, {plural(len(self._members), 'hook')}"]
        for hook in self:
            lines.append(f"  {hook.who}, priority {hook.priority}")
            lines += [f"    {option}={shown_name(one)}{why}" for option, one, why in self._unmet(hook)]
        return "\n".join(map(printable, lines))

    def _unmet(self, hook: Hook) -> Iterator[tuple[str, object, str]]:
        """Yield the names in `before` and `after` of a hook that no hook has, and why."""
        others = {one for members in self._chains() for one in members}
        alike = [one for one in others if one.kind == hook.kind]
        borne = {key for one in alike for key in one.keys}
        for option, key, meant in hook.mentioned():
            if key not in borne:
                elsewhere = sorted({one.kind for one in others if key in one.keys})
                near = nearest(meant, [one.name for one in alike if one is not hook]) if isinstance(meant, str) else ""
                why = f"; {' and '.join(elsewhere)} hooks do, which run by themselves" if elsewhere else near
                yield option, meant, f": no {hook.word} hook has that name{why}"

    def __repr__(self) -> str:
        return f"<mount point {self.name}, {plural(len(self._members), 'hook')}>"

    def __dir__(self) -> list[str]:
        return [*KINDS, *_PUBLIC]

    @property
    def members(self) -> tuple[Hook, ...]:
        """The hooks in the order in which they were added."""
        return self._members

    def _of(self, kind: Kind) -> KindHooks:
        found = KindHooks(arrange(hook for hook in self._members if hook.kind == kind))
        found._mount, found._kind = self, kind
        return found

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether somebody else has put their code where ours was."""
        return self.place is not None and self.place.displaced

    def explain(self) -> str:
        """Return the source of a call as it is now, with the name, file and line of each hook beside it."""
        chain = self.chain()
        if not chain.everything():
            return f"# {self.name} carries no hooks: a call runs the function itself\n"
        site = self.site()
        place = self.place
        weak = place is not None and place.opened and place.weak
        text = template(site.signature, chain, free=0, weak=weak).text
        source = render(text, self.code().co_name, origins_of(chain))
        return f"# {self.name}, {plural(len(chain.everything()), 'hook')}\n{source}"

    # Changing

    @entrance
    def add(
        self, kind: Kind, function: Callable[..., object], /, *types: type[BaseException], **options: Unpack[Adding]
    ) -> Hook:
        """Add a hook and return its handle.

        One callable is one hook of its kind: added again with the same options, and for the same exceptions, it is the
        hook that it is already, whose handle is returned.

        Args:
            kind: ``"pre"``, ``"around"``, ``"on"``, ``"item"``, ``"exception"``, ``"post"`` or ``"always"``.
            function: The hook; it is given what its parameters ask for by name.
            types: What an exception hook takes; `Exception` if none is named.
            options: ``name``, ``priority``, ``before``, ``after``, ``when``, ``once``, ``times``, ``every``,
                ``isolate``, ``reentrant``, ``weak``; and ``again=True``, to add a second hook of the same callable.

        Raises:
            HookSignatureError: It asks for something that the mount point does not offer.
            HookTypeError: It could never work on this target; or an option has the wrong type.
            HookOptionError: An option has a value that it cannot have; or the callable is a hook already, with others.
            HookOrderError: Its ``before`` and ``after`` contradict those of others. The chain is as it was.
        """
        return self.attach(kind, function, types, options, lasting=False)

    def attach(
        self,
        kind: Kind,
        function: Callable[..., object],
        types: tuple[type[BaseException], ...],
        options: Adding,
        *,
        lasting: bool,
    ) -> Hook:
        again: object = options.pop("again", False)
        if not isinstance(again, bool):
            raise HookTypeError(f"{self.name}: again={brief(again)}; give True or False")
        return self.admit(kind, function, types, options, None, again=again, direct=True, lasting=lasting)

    def admit(
        self,
        kind: Kind,
        function: Callable[..., object],
        types: tuple[type[BaseException], ...],
        options: Options,
        gate: Gate | None,
        *,
        again: bool = True,
        direct: bool = False,
        lasting: bool = False,
    ) -> Hook:
        """Add a hook that acts only while its gate is open; unless `again`, return the one of the same callable.

        A `direct` hook is added to this function alone, and not woven by a pattern. A `lasting` one is meant to stay:
        nobody is given its handle.
        """
        hook = self.made(kind, function, types, options, gate, again=again)
        for doubt in hook.doubts if direct else ():
            warn(doubt)
        if lasting:
            self.warn_of_lifetime(hook)
        found: list[Hook] = []

        def insert() -> None:
            found.append(self.insert(hook))

        if not self.replays(kind):
            insert()
        elif (older := self._older(hook)) is None:
            self.replay(hook, insert)
        else:
            found.append(older)
        if found[0] is hook:
            self.announce(hook)
        return found[0]

    def made(
        self,
        kind: Kind,
        function: Callable[..., object],
        types: tuple[type[BaseException], ...],
        options: Options,
        gate: Gate | None,
        *,
        again: bool = True,
    ) -> Hook:
        """Return a new hook, which is not added yet."""
        if kind not in KINDS:
            near = nearest(str(kind), list(KINDS))
            raise HookTypeError(f"{self.name}: there are no {brief(kind)} hooks, only {', '.join(KINDS)}{near}")
        check_types(kind, types, self.name)
        site = self.site()
        emission = site.signature.emission
        if kind == "on" and emission is not None and emission.isolate:
            options = {"isolate": True, **options}
        return Hook(
            kind,
            function,
            added=next(_added),
            types=types or (Exception,),
            site=site,
            mount=self,
            options=options,
            unbound=self._unbinds(),
            gate=gate,
            again=again,
        )

    def warn_of_lifetime(self, hook: Hook) -> None:
        """Warn of a hook that would keep alive what it is on."""

    def replays(self, kind: Kind) -> bool:  # noqa: ARG002  # some events look at it
        """Whether hooks of this kind are told of past calls before they are added; those of some events are."""
        return False

    def replay(self, hook: Hook, insert: Callable[[], None]) -> None:  # noqa: ARG002  # likewise
        """Replay past calls to a subscriber, then add it."""
        insert()

    def announce(self, hook: Hook) -> None:
        """Notify the pytest plugin, if pytest has loaded it, of a new hook."""
        # The plugin is loaded into every run of pytest and must not import us, so it is looked up for each hook.
        hook_added = getattr(sys.modules.get("_aspecthook_pytest"), "hook_added", None)
        if hook_added is not None:
            hook_added(self, hook)

    @under_lock
    def check_order(self, hook: Hook) -> None:
        """Refuse a hook whose `before` and `after` contradict those of others.

        Raises:
            HookOrderError: They do.
        """
        if self._mentions.may_close_cycle(hook):
            for members in self._chains():
                arrange([*(one for one in members if one.kind == hook.kind), hook], self.name)

    @under_lock
    def insert(self, hook: Hook) -> Hook:
        """Add a hook and return it; or return the one that its callable is already."""
        if hook.guard is not None and hook.guard.is_spent:
            return hook  # past calls, which were replayed to it, were all that it was for
        older = self._older(hook)
        if older is not None:
            return older
        self.check_order(hook)
        self._mentions.count(hook, 1)
        self._change(lambda: self._store(lambda members: (*members, hook)))
        self._watch((hook,))
        return hook

    def _older(self, hook: Hook) -> Hook | None:
        """Return the hook that the same callable is already.

        Raises:
            HookOptionError: It has other options.
        """
        if hook.again or not self._mentions.may_be_again(hook):
            return None
        older = next((one for one in self._members if not one.again and one.is_again(hook)), None)
        if older is not None and older.settings() != hook.settings():
            were, are = older.settings(), hook.settings()
            others = ", ".join(option for option in are if are[option] != were[option])
            raise HookOptionError(
                f"{self.name}: {older.who} is added already, with another {others}; remove that one first, or give "
                f"again=True to have two"
            )
        return older

    def inner(self) -> Callable[..., Any]:
        """Return what a call runs inside of all hooks: the function as it was."""
        place = self.place
        return place.original if place is not None and place.opened else self.function

    def unbound(self, function: Any) -> Any:
        """Return the hook function, unbound if it is a method of the instance."""
        return function

    def _unbinds(self) -> Callable[[Any], Any] | None:
        """Return what unbinds methods of the instance, if this is the mount point of one."""
        return None

    def _chains(self) -> Iterator[tuple[Hook, ...]]:
        """Yield the members of every chain that a hook added here becomes part of."""
        yield self._members
        for instance in list(self.instances.values()):  # a copy: an instance may die meanwhile
            yield self._members + instance.members

    @entrance
    def remove(self, hook: Hook | Callable[..., Any] | str) -> None:
        """Remove a hook by its handle, or every hook of a function or a name.

        Raises:
            HookLookupError: There is none. (A handle may be removed twice.)
        """
        if isinstance(hook, Hook):
            self.discard((hook,))
            return
        if not self._remove_matching(hook):
            self._find(hook)  # raises; not under the lock, since making the message imports modules

    @under_lock
    def _remove_matching(self, meant: object) -> bool:
        found = tuple(self._matching(meant))
        self.discard(found)
        return bool(found)

    def _matching(self, meant: object) -> list[Hook]:
        unbound = self.unbound(meant)
        key = printable(meant) if isinstance(meant, str) else unbound if isinstance(meant, Hook) else identity(unbound)
        return [hook for hook in self._members if (hook is key if isinstance(meant, Hook) else key in hook.keys)]

    def _find(self, meant: object) -> list[Hook]:
        found = self._matching(meant)
        if not found:
            names = sorted({hook.name for hook in self._members})
            shown = ", ".join(names) or "none at all"
            near = nearest(meant, names) if isinstance(meant, str) else ""
            raise HookLookupError(f"{self.name} has no hook {brief(meant)}; its hooks: {shown}{near}")
        return found

    @under_lock
    def discard(self, hooks: tuple[Hook, ...]) -> None:
        gone = {id(hook) for hook in hooks}
        off = [hook for hook in self._members if id(hook) in gone]
        if off:
            self._change(lambda: self._store(lambda members: tuple([hook for hook in members if id(hook) not in gone])))
        for hook in off:
            self._mentions.count(hook, -1)

    @under_lock
    def count_failure(self, hook: Hook) -> None:
        """Count a failure of an isolated hook."""
        hook.failures += 1

    def clear(self) -> None:
        """Remove all hooks."""
        self.discard(self._members)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause all hooks for the length of a ``with`` block, in all threads."""
        pause = object()
        try:
            self._set_pause(pause, on=True)
            yield
        finally:
            try:
                self._set_pause(pause, on=False)
            except BaseException:  # an interrupt must not leave the hooks paused for good
                self._set_pause(pause, on=False)
                raise

    @under_lock
    def _set_pause(self, pause: object, *, on: bool) -> None:
        def store() -> None:
            self.pauses = self.pauses | {pause} if on else self.pauses - {pause}

        self._change(store)

    @under_lock
    def set_paused(self, hooks: tuple[Hook, ...], *, paused: bool) -> None:
        """Pause some hooks, or resume them."""

        def store() -> None:
            for hook in hooks:
                hook.paused = paused

        self._change(store)

    @under_lock
    def regate(self, hook: Hook, gate: Gate | None, *, paused: bool) -> None:
        """Change for which calls a hook acts."""

        def store() -> None:
            hook.set_gate(gate)
            hook.paused = paused

        if hook in self._members and (hook.paused != paused or hook.gate is not (gate and gate.holds)):
            self._change(store)

    @under_lock
    def tidy(self) -> None:
        """Finish a change that was interrupted."""
        self._settle()
        function = self._ref()
        left = function is not None and mount_of(function) is self
        if left and not self._members and (self.place is None or not self.place.opened):
            self._forget()

    def ensure(self) -> None:
        """Reinstall the proxy if somebody has put the original back. Nothing to do for functions."""

    def _drop_instance(self, key: int) -> None:
        self.instances.pop(key, None)
        if self.place is not None:
            self.place.instances.pop(key, None)

    # How a change is made; all under the lock, which is reentrant: a finalizer, ours or a user's, may run at any
    # allocation and make a change of its own. So nothing is stored that was computed from what may have changed since.

    def _change(self, store: Callable[[], None]) -> None:
        place = self.place
        if place is not None and place.opened:
            place.hold()
            self._reset_instances(place)
        else:
            self._open()
        store()
        self._chain = None
        self._settle()

    def _store(self, update: Callable[[tuple[Hook, ...]], tuple[Hook, ...]]) -> None:
        """Replace the members in one step, by what `update` makes of those at that moment."""
        while True:
            before = self._members
            after = update(before)
            if self._members is before:
                self._members = after
                return

    def _settle(self) -> None:
        """Open the place if there is something to run, and close it if there is nothing."""
        while self._ref() is not None:
            place = self.place
            opened = place is not None and place.opened
            if self._is_needed():
                if opened:
                    return
                self._open()
            elif place is not None and opened:
                place.close()
                self._forget()
            else:
                return

    def _is_needed(self) -> bool:
        return bool(self.instances) or (not self.pauses and any(not hook.paused for hook in self._members))

    def _open(self) -> None:
        function = self._ref()
        if function is None:
            return
        while (place := self.place) is None or not place.is_own(function.__code__):
            older = self._place_of(function.__code__)
            if place is not None and older is not None:
                self.place = place.turned_to(older)
                continue
            made = Place(function, self.code(), self.site(), self._target())
            if place is not None:
                # A copy of the code of an older place may live on in the code that we replace now.
                made.under = place.lingering()
            if self.place is place:
                self.place = made
        self._reset_instances(place)
        try:
            if mount_of(function) is None:
                Attributes.put(function, self)
            module = module_of(function)  # held here, so that it is not unloaded before it is watched
            place.weak = module is None
            if module is not None:
                watch(function, module, self)
            place.open(self.chain)
            self._watch(self._members)
        except BaseException:  # an interrupt, before there is anything to run
            if not place.opened:
                self._forget()
            raise

    def _watch(self, hooks: tuple[Hook, ...]) -> None:
        """Watch the modules that these hooks are written in, which may be unloaded."""
        function = self._ref()
        if function is not None:
            for hook in hooks:
                watch_hook(hook.function, function, self)

    def weaken(self) -> None:
        """Take the hooks out of the constants of the function's code; under the lock."""
        place = self.place
        if place is not None and place.opened and not place.weak:

            def store() -> None:
                place.weak = True

            self._change(store)

    def _target(self) -> Callable[..., Any] | None:
        """Return what the function hands its calls to, if that is all that it does."""
        return None

    def _reset_instances(self, place: Place) -> None:
        for instance in list(self.instances.values()):
            instance.reset(place)

    def _forget(self) -> None:
        """Remove the mount point from a function that was never made hookable."""
        function = self._ref()
        if function is not None and mount_of(function) is self and not self._members:
            cast("Attributes", function.__dict__).leave(function)

    @under_lock
    def forget(self, key: int) -> None:
        """Drop the hooks of an instance that was garbage collected."""
        gone = self.instances.get(key)
        if gone is not None:
            self._drop_instance(key)
            for hook in gone.members:
                self._mentions.count(hook, -1)
            self._change(lambda: None)

    @under_lock
    def chain(self) -> Chain:
        """Return the chain that runs now; it is arranged at most once for each change."""
        members = self._members
        kept = self._chain
        if kept is None or kept[0] is not members:
            pending = self._chain = (None, Chain(()))
            kept = (members, Chain(self._unpaused(members)))
            if self._chain is pending:  # otherwise a signal handler has changed something meanwhile
                self._chain = kept
        return kept[1]

    def _unpaused(self, members: tuple[Hook, ...]) -> tuple[Hook, ...]:
        return () if self.pauses else tuple([hook for hook in members if not hook.paused])

    def code(self) -> CodeType:
        """Return the target's original code, hooked or not."""
        function = cast("FunctionType", self.function)
        place = self._place_of(function.__code__)
        return place.plain if place is not None else function.__code__

    def _place_of(self, code: CodeType) -> Place | None:
        """Return the place that code belongs to: the present one, or an older one whose code somebody has put back."""
        place = self.place
        while place is not None and not place.is_own(code):
            place = place.under
        return place

    def _record(self) -> Record | None:
        """Return what keeps the calls of an event that replays them."""
        return None

    def site(self) -> Site:
        """Return what generated code and messages need to know of the mount point."""
        if self.place is not None and self.place.opened:
            return self.place.site
        site = self._site
        if site is None or site.model is not self.code():
            site = Site(self.name, self.code(), self._ref, _Finder(self), self.emission, self._record())
            site.lends = self.lends
            if not self.of_object:  # the function of one object is no wrapper, and a tracing compiler may read it
                site.shown = cache(partial(_shown_by, weakref.ref(self), site.signature))
            self._site = site  # last: another thread may use it at once
        return site


def _kind_property(kind: Kind) -> property:
    return property(lambda mount: mount._of(kind), doc=f"The {kind} hooks, in the order in which they run.")


for _kind in KINDS:
    setattr(MountPoint, _kind, _kind_property(_kind))


def _shown_by(ref: Callable[[], MountPoint | None], own: Signature) -> Shown | None:
    mount = ref()
    if mount is None:
        return None
    original = None if mount.place is None else mount.place.original
    return shown_by(mount._ref(), own, original, signature_of)


def mount_of(function: FunctionType) -> MountPoint | None:
    """Return the mount point of a function, if it is one."""
    attributes = function.__dict__
    found = attributes.mount if isinstance(attributes, Attributes) else None
    # A function may have been given the `__dict__` of another.
    return found if isinstance(found, MountPoint) and found._ref() is function else None


@final
class _Finder:
    """Finds the hook of a function, for messages."""

    __slots__ = ("_mount",)

    def __init__(self, mount: MountPoint) -> None:
        self._mount = weakref.ref(mount)

    def __call__(self, kind: str, function: object) -> Hook | None:
        mount = self._mount()
        if mount is None:
            return None
        instances = tuple(hook for one in list(mount.instances.values()) for hook in one.members)
        return next((h for h in mount._members + instances if h.kind == kind and h.function is function), None)
