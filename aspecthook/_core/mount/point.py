"""The mount point: the hooks of one function; and law 5: adding and removing them is safe at any moment.

The invariant: the hooks are one immutable tuple, in the order in which they were added, and a change replaces it in one
step. Every change goes the same way (`_change`), under one lock. First the stand-in code goes in, which asks for the
chain at the next call; then the change is stored; then the place is closed if it has become empty. An interrupt at any
point leaves a function that runs either the old chain or the new one.

The lock is reentrant: a finalizer, ours or a user's, or a signal handler may run at any call and make a change of its
own, which closes or opens the place. So nothing is stored that was computed from what may have changed since.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Set
from contextlib import contextmanager
from functools import partial
from itertools import filterfalse
from operator import attrgetter
from types import CodeType, FunctionType

from aspecthook._core.compile.copies import Attribute, Attributes
from aspecthook._core.compile.link import template
from aspecthook._core.compile.show import origins_of, render
from aspecthook._core.law.call import NOTHING_PROVIDED, Site
from aspecthook._core.law.callables import unwrap
from aspecthook._core.law.hook import EXCEPTION, Hook, Predicate
from aspecthook._core.law.kinds import KINDS, RULES, Kind, meant_kind
from aspecthook._core.law.options import Adding, Asking, Options, key_of, meaning
from aspecthook._core.law.order import NO_MENTIONS, ORDERS, Chain, Mentions, arrange
from aspecthook._core.law.signature import Emission
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
from aspecthook._hints import Any, ClassVar, Unpack, cast

from .kind_hooks import KindHooks, check_types
from .lock import under_lock
from .place import MountSite, Place
from .unloading import watch_hook, watch_module

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# What completion shows; the other names without an underscore serve the rooms above this one.
_PUBLIC = ("add", "clear", "displaced", "explain", "function", "members", "name", "paused", "remove")

# In the place of a hook that is missing, most likely because the kind is.
_NO_HOOK: Any = object()
# One for all mount points, as each `frozenset()` is a new one of 216 bytes.
_NONE: frozenset[Any] = frozenset()
_is_paused = attrgetter("paused")
# Of a mount point that has had none; it stays empty.
_NO_INSTANCES: dict[int, MountPoint] = {}

# Linking calls functions itself, and one of them may be the one that is being linked; or a signal handler or a
# finalizer interrupts it and calls something hooked. From this depth on, calls run without hooks.
_DEEPEST = 3
_depth = 0


class MountPoint(Attribute):
    """The hooks of one function: what `hooks(f)` returns.

    Iterate over it, take its `len`, or read ``.pre``, ``.around``, ``.item``, ``.exception``, ``.post`` and ``.always``
    (sequences of `Hook` in the order in which they run, and decorators that add a hook).

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

    __slots__ = (
        "__weakref__",
        "_site",
        "emission",
        "instances",
        "linked",
        "members",
        "mentions",
        "name",
        "pauses",
        "place",
        "points",
        "provides",
        "ref",
    )

    # Whether it belongs to one object, and not to the function that runs there.
    of_object: ClassVar[bool] = False
    # Whether it belongs to one instance, and runs its hooks in the place of the mount point of the function.
    of_instance: ClassVar[bool] = False
    # Whether `hooks()` shows it.
    is_listed: ClassVar[bool] = True
    # What the function hands its calls to, if that is all that it does.
    hands_to: Callable[..., Any] | None = None

    # The hooks of each kind, in the order in which they run; properties, which are set below.
    pre: KindHooks
    around: KindHooks
    on: KindHooks
    item: KindHooks
    exception: KindHooks
    post: KindHooks
    always: KindHooks

    def __init__(self, function: FunctionType, name: str | None = None, emission: Emission | None = None) -> None:
        self.name: str = printable(name) if name else qualified(function)
        # Returns the mounted function; None once it is gone.
        self.ref: Callable[[], FunctionType | None] = weakref.ref(function)
        # The hooks in the order in which they were added.
        self.members: tuple[Hook, ...] = ()
        self.mentions: Mentions = NO_MENTIONS
        # One object for each `paused()` block that is open.
        self.pauses: frozenset[object] = _NONE
        # Of an event: what it does with its subscribers.
        self.emission: Emission | None = emission
        # Paths of attributes that hooks may ask for, by the names that hooks use (`hookable(provides=...)`).
        self.provides: Mapping[str, str] = NOTHING_PROVIDED
        # Where its code is; None before the first hook.
        self.place: Place | None = None
        self._site: MountSite | None = None
        # Whether a call may have linked the chain since a change began.
        self.linked: bool = True
        # The mount points of instances that have hooks, by the `id` of the instance; and all that are in use.
        self.instances: dict[int, MountPoint] = _NO_INSTANCES
        self.points: weakref.WeakValueDictionary[int, MountPoint] | None = None

    # Looking

    @property
    def function(self) -> Callable[..., Any]:
        """The mounted function.

        Raises:
            HookLookupError: The function is gone.
        """
        function = self.ref()
        if function is None:
            raise HookLookupError(f"{self.name} is gone: nothing refers to the function any more")
        return function

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether other code has replaced the code that runs the hooks."""
        return self.place is not None and self.place.displaced

    def __iter__(self) -> Iterator[Hook]:
        return iter(Chain(self.members).hooks)

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, hook: object) -> bool:
        return bool(self._matching(hook))

    @entrance
    def __getitem__(self, name: str) -> Hook:
        return self._find(name)[0]

    def _matching(self, meant: object) -> list[Hook]:
        """Return the hooks that a handle, a function or a name means."""
        if isinstance(meant, Hook):
            return [hook for hook in self.members if hook is meant]
        key = key_of(self.unbound(meant))
        field = "name" if isinstance(key, str) else "identity"
        return [hook for hook in self.members if getattr(hook, field) == key]

    def _find(self, meant: object) -> list[Hook]:
        """Return the hooks that a handle, a function or a name means.

        Raises:
            HookLookupError: There is none.
        """
        found = self._matching(meant)
        if not found:
            names = sorted({hook.name for hook in self.members})
            shown = ", ".join(names) or "none at all"
            near = nearest(meant, names) if isinstance(meant, str) else ""
            raise HookLookupError(f"{self.name} has no hook {brief(meant)}; its hooks: {shown}{near}")
        return found

    def title(self, count: int) -> str:
        """Return what stands above a table of so many hooks."""
        apart = [len(one.members) for one in list(self.instances.values())]
        more = f", and {sum(apart)} on {plural(len(apart), 'instance')}" if apart else ""
        return f"{printable(self.name)}, {plural(count, 'hook')}{more}{', all paused' if self.pauses else ''}"

    def __str__(self) -> str:
        """Return the hooks as a table, in the order in which they run."""
        from .table import rows_of, table_of

        return table_of(self.title(len(self)), rows_of(self, self.chains()))

    def __repr__(self) -> str:
        return f"<mount point {self.title(len(self.members))}>"

    def __dir__(self) -> list[str]:
        return [*KINDS, *_PUBLIC]

    def explain(self) -> str:
        """Return a table of the hooks, followed by the current source of a call, which names each hook."""
        from .table import rows_of, table_of

        chain = self.chain()
        if not chain.hooks:
            no = "paused" if self.members else "no"
            return f"# {self.name} carries {no} hooks: a call runs the function itself\n"
        site = self.site()
        place = self.place
        weak = place is not None and place.opened and place.weak
        text = template(site.signature, chain, free=0, weak=weak).text
        source = render(text, site.signature.names, self.code().co_name, origins_of(chain))
        table = table_of(self.title(len(chain.hooks)), rows_of(chain.hooks, self.chains()))
        return "\n".join([*[f"# {line}" for line in table.split("\n")], source])

    def is_alive(self) -> bool:
        """Whether the function, or the instance, is still there."""
        return self.ref() is not None

    def found_at(self) -> tuple[FunctionType | None, str]:
        """Return the function whose attribute it is, or None, and the name of the attribute."""
        function = self.ref()
        lasting = function is not None and function.__dict__.get("hooks") is self
        return function if lasting else None, "hooks"

    def unbound(self, function: Any) -> Any:
        """Return the function that is kept for a hook: itself, but for a method of the instance that is mounted."""
        return function

    # Adding

    @entrance
    def add(
        self,
        kind: Kind,
        function: Asking = _NO_HOOK,
        /,
        *types: type[BaseException],
        **options: Unpack[Adding],
    ) -> Hook:
        """Add a hook and return its handle.

        If the callable is already a hook of this kind, with the same options and for the same exceptions, you get the
        handle of that hook.

        Args:
            kind: ``"pre"``, ``"around"``, ``"on"``, ``"item"``, ``"exception"``, ``"post"`` or ``"always"``.
            function: The hook, which gets what its parameters name.
            types: The exceptions that an exception hook handles; by default `Exception`.
            options: ``name``, ``priority``, ``before``, ``after``, ``when``, ``once``, ``times``, ``every``,
                ``isolate``, ``reentrant``; and ``again=True``, to add a second hook of the same callable.

        Raises:
            HookSignatureError: The hook asks for something that the mount point does not offer.
            HookTypeError: The hook could never work on this target; or an option has the wrong type.
            HookOptionError: An option has an invalid value; or the callable is a hook already, with other options.
            HookOrderError: ``before`` and ``after`` contradict those of other hooks. The chain stays as it was.
        """
        if function is _NO_HOOK:
            given = repr(kind) if kind in KINDS else "'pre'"
            raise HookTypeError(
                f"{self.name}: add takes the kind and then the hook, as in hooks(f).add({given}, hook); the decorators "
                f"take the hook alone, as in hooks(f).pre(hook)"
            )
        direct: Any = function  # any callable will do, and what it asks for is checked
        return self.add_hook(kind, direct, types, options, direct=True)

    def add_hook(
        self,
        kind: Kind,
        function: Callable[..., object],
        types: tuple[type[BaseException], ...],
        options: Options,
        gate: Predicate | None = None,
        *,
        direct: bool = False,
    ) -> Hook:
        """Add a hook and return it, or the hook that its callable is already.

        Args:
            kind: Its kind.
            function: Its callable.
            types: What an exception hook takes.
            options: Its options.
            gate: While it is closed, the hook does not act.
            direct: Whether a user adds it to this function alone. Otherwise a weaving or a plugin does, which keeps
                lists of its own: then the callable may be another hook beside this one.

        Raises:
            AspecthookError: It could never work here, or contradicts others.
        """
        again: object = cast("Adding", options).pop("again", not direct) if options else not direct
        if not isinstance(again, bool):
            raise HookTypeError(f"{self.name}: again={brief(again)}; give True or False")
        if kind not in RULES:
            raise HookTypeError(
                f"{self.name}: there are no {brief(kind)} hooks, only {', '.join(KINDS)}{meant_kind(str(kind))}"
            )
        if types:
            check_types(kind, types, self.name)
        if kind == "on" and self.emission is not None and self.emission.isolate:
            options = cast("Options", {"isolate": True, **options})
        hook = Hook(kind, function, types or EXCEPTION, options, self, gate, again=again)
        if direct and hook.doubts:
            for doubt in hook.doubts:
                warn(doubt)
        found = self.insert(hook)
        # Not under the lock, as it imports modules. The plugin is itself loaded into every run of pytest and must not
        # import us, so it is looked up here for each hook.
        plugin: Any = sys.modules.get("_aspecthook_pytest")
        if plugin is not None and found is hook and hasattr(plugin, "hook_added"):
            plugin.hook_added(self, hook)
        return found

    @under_lock
    def insert(self, hook: Hook) -> Hook:
        """Put a hook among the others and return it; or return the hook that its callable is already.

        Raises:
            HookOptionError: Its callable is a hook already, with other options.
            HookOrderError: Its `before` and `after` contradict those of others.
        """
        if not hook.again and hook.identity in self.mentions:
            made = hook.kind, hook.identity
            alike = [one for one in self.members if not one.again and (one.kind, one.identity) == made]
            older = next((one for one in alike if {*one.types} == {*hook.types}), None)
            if older is not None:
                were, are = meaning(older.name, older.conditions), meaning(hook.name, hook.conditions)
                if were == are:
                    return older
                others = ", ".join(option for option in are if are[option] != were[option])
                raise HookOptionError(
                    f"{self.name}: {older.who} is added already, with another {others}; remove that one first, or "
                    f"give again=True to have two"
                )
        order = hook.conditions
        if (order.before or order.after or ORDERS in self.mentions) and self.mentions.may_close_cycle(hook):
            for members in self.chains():  # arranging raises if there is a cycle
                arrange([*(one for one in members if one.kind == hook.kind), hook], self.name)

        self.count(hook, 1)
        self._change(partial(self._store, _NONE, hook))
        self.watch(hook)
        return hook

    def _store(self, gone: Set[Hook], *added: Hook) -> None:
        """Store the hooks without some and with others: a new tuple, in one step."""
        while True:  # until no finalizer has made a change meanwhile
            before = self.members
            after = (*(filterfalse(gone.__contains__, before) if gone else before), *added)
            if self.members is before:
                self.members = after
                return

    def count(self, hook: Hook, step: int) -> None:
        """Count what a hook mentions in (1) or out (-1); under the lock."""
        if not hook.again or hook.conditions.before or hook.conditions.after:
            if self.mentions is NO_MENTIONS:
                self.mentions = Mentions()
            self.mentions.count(hook, step)

    # Removing

    @entrance
    def remove(self, hook: Hook | Callable[..., Any] | str) -> None:
        """Remove a hook by its handle, or every hook of a function or a name.

        Raises:
            HookLookupError: There is no such hook (but removing a handle twice is fine), or several modules have one.
        """
        if isinstance(hook, Hook):
            self.discard((hook,))
            return
        found = self._find(hook)
        if len(found) > 1 and len({getattr(unwrap(one.meant), "__module__", None) for one in found}) > 1:
            raise HookLookupError(
                f"{self.name} has hooks {brief(hook)} of several modules: {', '.join([one.who for one in found])}; "
                f"give the function or the handle of the one to remove"
            )
        self.discard(tuple(found))

    @under_lock
    def discard(self, hooks: tuple[Hook, ...]) -> bool:
        """Remove hooks; those that are gone already are skipped. Return whether there were any."""
        gone = {*hooks}
        off = [*filter(gone.__contains__, self.members)]
        if off:
            self._change(partial(self._store, gone))
        for hook in off:
            self.count(hook, -1)
        return bool(off)

    def clear(self) -> None:
        """Remove all hooks."""
        self.discard(self.members)

    # Pausing

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause all hooks for a ``with`` block, in all threads."""
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
        """Pause some hooks, or resume them; those that are removed are skipped."""
        present = [hook for hook in hooks if hook in self.members]

        def store() -> None:
            for hook in present:
                hook.paused = paused

        if present:
            self._change(store)

    @under_lock
    def rearrange(self) -> None:
        """Put the hooks into the order that holds now, at the next call."""
        self._change(lambda: None)

    @under_lock
    def count_failure(self, hook: Hook) -> None:
        """Count a failure of an isolated hook."""
        hook.failures += 1

    # What a call is made of

    def acting(self) -> tuple[Hook, ...]:
        """Return the hooks that are not paused, in the order in which they were added."""
        return () if self.pauses else tuple(filterfalse(_is_paused, self.members))

    def chain(self) -> Chain:
        """Return the chain that runs now."""
        return Chain(self.acting())

    def chains(self) -> Iterator[tuple[Hook, ...]]:
        """Yield the hooks of every chain that a hook added here becomes part of."""
        yield self.members
        for instance in list(self.instances.values()):  # a copy: an instance may die meanwhile
            yield self.members + instance.members

    def code(self) -> CodeType:
        """Return the target's original code, hooked or not."""
        function = self.ref()
        code: CodeType = self.function.__code__ if function is None else function.__code__
        place = self.place
        return place.before if place is not None and place.is_own(code) else code

    def inner(self) -> Callable[..., Any]:
        """Return what a call runs inside of all hooks: the function as it was."""
        place = self.place
        return place.original if place is not None and place.opened else self.function

    def separate(
        self, chain: Chain, target: Callable[..., Any] | None = None, site: Site | None = None
    ) -> Callable[..., Any]:
        """Return a function that makes calls of its own with a chain, around the target or another one."""
        place = self.place
        if place is None or not (place.opened or chain.hooks):
            return self.function if target is None else target
        return place.bind(chain, target=target, site=site)

    def site(self) -> MountSite:
        """Return what generated code and messages need to know of the function as it is now."""
        place, site = self.place, self._site
        if place is not None and place.opened:
            return place.site
        function = self.ref()
        if site is None or function is None or function.__code__ is not site.model:
            code = self.code()
            if site is None or site.model is not code:
                site = self._site = MountSite(self, code, self.ref)
        return site

    @under_lock
    def current(self) -> Callable[..., Any]:
        """Return the function to run a call with, which has met the stand-in or code of ours that others have kept."""
        global _depth  # noqa: PLW0603  # under the lock: how many links are under way, each in the middle of another
        place, before = self.place, _depth
        self.linked = True
        if place is None:
            return self.function
        if before == _DEEPEST:
            return place.original
        try:
            _depth = before + 1
            if place.opened and not self._is_needed():
                self.tidy()  # an interrupted change has left the stand-in in place, with nothing to run
            return place.current(self.chain)
        finally:
            _depth = before

    # How a change is made; all under the lock

    def _change(self, store: Callable[[], None]) -> None:
        """Make a change that `store` stores, so that the next call sees it."""
        if not self._hold():
            self._open()
        store()
        if self.linked:  # a finalizer or a signal handler that has called the function has linked the chain as it was
            self._hold()
        self._settle()

    def _hold(self) -> bool:
        """Let the next call link the chain again; return whether there is a place that is open."""
        place = self.place
        if place is None or not place.opened:
            return False
        self.linked = False
        place.hold()
        for instance in list(self.instances.values()):
            instance.reset(place)
        return True

    def _settle(self) -> None:
        """Open the place if there is something to run, and close it if there is nothing."""
        while self.ref() is not None:
            place = self.place
            opened = place is not None and place.opened
            if self._is_needed():
                if opened:
                    return
                self._open()
            elif place is not None and opened:
                place.close()
                self._forget()
                if not self.members and not self.instances:  # no finalizer has added a hook meanwhile
                    return
            else:
                return

    def _is_needed(self) -> bool:
        if self.instances or self.pauses:
            return bool(self.instances)
        for hook in self.members:  # noqa: SIM110  # each change asks, and mostly the first one acts
            if not hook.paused:
                return True
        return False

    def _open(self) -> None:
        """Put the stand-in into the function, unless a stranger's code lies over ours there."""
        function = self.ref()
        if function is None:
            return
        self.linked = False
        code = function.__code__
        place = self.place
        if place is None or not (place.is_own(code) or place.is_held()):
            # The first hook, or new code in the place of the original, which nobody can undo as nobody holds ours.
            site = self._site
            if site is None or site.model is not code:
                site = self.site()
            made = Place(function, site, self.hands_to)
            if self.place is place:  # a finalizer may have made a change
                self.place = made
            place = self.place or made
        try:
            for instance in list(self.instances.values()):
                instance.reset(place)
            attributes = function.__dict__
            if not isinstance(attributes, Attributes) or (attributes.mount is not self and mount_of(function) is None):
                Attributes.put(function, self)
            module = watch_module(function, self)  # held here, so that it is not unloaded before the place is open
            place.weak = module is None
            place.open()
            for hook in self.members:
                self.watch(hook)
        except BaseException:  # an interrupt, before there is anything to run
            if not place.opened:
                self._forget()
            raise

    def _forget(self) -> None:
        """Remove the mount point from a function that was never made hookable."""
        function = self.ref()
        if function is not None and not self.members:
            attributes = function.__dict__
            if isinstance(attributes, Attributes) and attributes.mount is self:
                attributes.leave(function)

    def tidy(self) -> None:
        """Complete a change that was interrupted; under the lock."""
        for key, instance in list(self.instances.items()):
            if not instance.members:
                self.drop_instance(key)
        self._settle()
        if self.place is None or not self.place.opened:
            self._forget()

    # The weak form

    def watch(self, hook: Hook) -> None:
        """Watch the module that a hook is written in: it may be unloaded."""
        function, place = self.ref(), self.place
        if function is None or (place is not None and place.weak):
            return
        # The module of the function is watched already.
        if type(hook.function) is not FunctionType or hook.function.__globals__ is not function.__globals__:
            watch_hook(hook.function, self)

    def weaken(self) -> None:
        """Take the hooks out of the constants of the function's code; under the lock."""
        place = self.place
        if place is not None and place.opened:

            def store() -> None:
                place.weak = True

            self._change(store)

    # The mount points of instances, which run their hooks in the place of this one

    def reset(self, place: Place) -> None:
        """Link the chain of an instance again at its next call; only the mount points of instances have any."""

    def change_instance(self, key: int, instance: MountPoint, store: Callable[[], None]) -> None:
        """Make a change of the hooks of an instance, which run in the place of this mount point; under the lock."""
        instances: dict[int, MountPoint] = {}

        def put() -> None:
            if instance.is_alive():  # otherwise another object may have its `id` by now
                if self.instances is _NO_INSTANCES:
                    self.instances = instances
                self.instances[key] = instance
                if self.place is not None:
                    instance.reset(self.place)

        def store_here() -> None:
            put()  # first, so that an interrupt leaves no hook that does not act
            store()
            if instance.members:
                put()  # a finalizer may have dropped it while it had none
            elif instance.is_alive():
                self.drop_instance(key)

        self._change(store_here)

    def drop_instance(self, key: int) -> None:
        """Drop the mount point of an instance without hooks; under the lock."""
        self.instances.pop(key, None)
        if self.place is not None:
            self.place.instances.pop(key, None)

    @under_lock
    def forget_instance(self, key: int) -> None:
        """Drop the hooks of an instance that was garbage collected."""
        gone = self.instances.get(key)
        if gone is not None:
            self.drop_instance(key)
            for hook in gone.members:
                self.count(hook, -1)
            self._change(lambda: None)


for _kind in KINDS:
    _hooks = property(partial(KindHooks, kind=_kind), doc=f"The {_kind} hooks, in the order in which they run.")
    setattr(MountPoint, _kind, _hooks)


def mount_of(function: FunctionType) -> MountPoint | None:
    """Return the mount point of a function, if it is one."""
    attributes = function.__dict__
    found = attributes.mount if isinstance(attributes, Attributes) else None
    # A function may have been given the `__dict__` of another.
    return found if isinstance(found, MountPoint) and found.ref() is function else None
