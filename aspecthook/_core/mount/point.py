"""The mount point: how its hooks get into the function; and law 5: adding and removing them is safe at any moment.

The invariant: every change goes the same way, under one lock. First the stand-in code goes in, which asks for the chain
at the next call; then the change is stored; then the place is closed if it has become empty. An interrupt at any point
leaves a function that runs either the old chain or the new one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType

from aspecthook._core.compile.copies import Attributes
from aspecthook._core.compile.link import template
from aspecthook._core.compile.show import origins_of, render
from aspecthook._core.law.call import Site
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Emission
from aspecthook._errors import HookLookupError, plural, printable, qualified
from aspecthook._hints import Any, cast

from .lock import under_lock
from .members import Members
from .place import MountSite, Place
from .unloading import watch_hook, watch_module

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# What completion shows; the other names without an underscore serve the rooms above this one.
_PUBLIC = ("add", "clear", "diagram", "displaced", "explain", "function", "members", "name", "paused", "remove")


# Of a mount point that has had none; it stays empty.
_NO_INSTANCES: dict[int, MountPoint] = {}


class MountPoint(Members):
    """The hooks of one function: what `hooks(f)` returns.

    Iterate it, take its `len`, ask it for ``.pre``, ``.around``, ``.item``, ``.exception``, ``.post`` and ``.always``
    (sequences of `Hook` in the order in which they run; each also adds a hook when called as a decorator).

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

    # What the function hands its calls to, if that is all that it does.
    hands_to: Callable[..., Any] | None = None

    __slots__ = ("__weakref__", "_chain", "_site", "instances", "points", "ref")

    place: Place | None

    def __init__(self, function: FunctionType, name: str | None = None, emission: Emission | None = None) -> None:
        super().__init__(printable(name) if name else qualified(function), emission)
        self.ref: Callable[[], FunctionType | None] = weakref.ref(function)
        # The chain as it was last arranged, with the members that it was made of; None: arrange it anew.
        self._chain: tuple[object, Chain] | None = None
        self._site: MountSite | None = None
        # The mount points of instances that have hooks, by the `id` of the instance; and all that are in use.
        self.instances: dict[int, MountPoint] = _NO_INSTANCES
        self.points: weakref.WeakValueDictionary[int, MountPoint] | None = None

    def found_at(self) -> tuple[FunctionType | None, str]:
        """Return the function whose attribute it is, or None, and the name of the attribute."""
        function = self.ref()
        lasting = function is not None and function.__dict__.get("hooks") is self
        return function if lasting else None, "hooks"

    # Looking

    @property
    def function(self) -> Callable[..., Any]:
        """The mounted function.

        Raises:
            HookLookupError: It is gone.
        """
        function = self.ref()
        if function is None:
            raise HookLookupError(f"{self.name} is gone: nothing refers to the function any more")
        return function

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether somebody else has put their code where ours was."""
        return self.place is not None and self.place.displaced

    def explain(self) -> str:
        """Return the hooks as a table, and below it the source of a call as it is now, which names each hook."""
        from aspecthook._show.table import as_text

        from .rows import rows_of

        chain = self.chain()
        acting = chain.everything()
        if not acting:
            return f"# {self.name} carries no hooks: a call runs the function itself\n"
        site = self.site()
        place = self.place
        weak = place is not None and place.opened and place.weak
        text = template(site.signature, chain, free=0, weak=weak).text
        source = render(text, site.signature.names, self.code().co_name, origins_of(chain))
        table = as_text(self.title(len(acting)), rows_of(acting, self.chains()))
        return "\n".join([*[f"# {line}" for line in table.split("\n")], source])

    def diagram(self) -> str:
        """Return a diagram of a call as it is now, from the caller to the target and back: SVG, as text.

        Notebooks show it as an image. It is light or dark as its reader's screen is, and needs nothing else.

        Example:
            >>> from aspecthook import hookable, hooks
            >>> @hookable
            ... def price(item): ...
            >>> price.post(print)
            <built-in function print>
            >>> "post hook print" in hooks(price).diagram()
            True
        """
        from aspecthook._show.diagram import draw

        from .rows import rows_of

        return draw(self.name, rows_of(self.chain().everything(), self.chains()))

    def __repr__(self) -> str:
        return f"<mount point {self.title(len(self._members))}>"

    def title(self, count: int) -> str:
        """Return what stands above a table of so many hooks."""
        apart = [len(one.members) for one in list(self.instances.values())]
        more = f", and {sum(apart)} on {plural(len(apart), 'instance')}" if apart else ""
        return f"{super().title(count)}{more}"

    def is_listed(self) -> bool:
        """Whether it has hooks that run when somebody calls its function."""
        return bool(self._members) and self.is_alive()

    def __dir__(self) -> list[str]:
        return [*KINDS, *_PUBLIC]

    # What a call is made of

    @under_lock
    def chain(self) -> Chain:
        """Return the chain that runs now; until the next change it is kept, for those who ask often."""
        members = self._members
        kept = self._chain
        if kept is None or kept[0] is not members:
            pending = self._chain = (None, Chain(()))
            kept = (members, self.arranged())
            if self._chain is pending:  # otherwise a signal handler has changed something meanwhile
                self._chain = kept
        return kept[1]

    def arranged(self) -> Chain:
        """Return the chain that runs now, arranged anew."""
        return Chain(self.acting())

    def chains(self) -> Iterator[tuple[Hook, ...]]:
        """Yield the hooks of every chain that a hook added here becomes part of."""
        yield self._members
        for instance in list(self.instances.values()):  # a copy: an instance may die meanwhile
            yield self._members + instance.members

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
        owner = cast("MountPoint", getattr(self, "parent", self))  # the code of an instance's is in its class
        if owner.place is None or not (owner.place.opened or chain.everything()):
            return self.function if target is None else target
        return owner.place.bind(chain, target=target, site=site)

    def site(self) -> MountSite:
        """Return what generated code and messages need to know of the function as it is now."""
        place, site = self.place, self._site
        if place is not None and place.opened:
            return place.site
        code = self.code()
        if site is None or site.model is not code:
            site = self._site = MountSite(self, code, self.ref)
        return site

    # How a change is made; all under the lock, which is reentrant: a finalizer, ours or a user's, may run at any
    # allocation and make a change of its own. So nothing is stored that was computed from what may have changed since.

    def _change(self, store: Callable[[], None]) -> None:
        if not self._hold():
            self._open()
        store()
        self._chain = None
        self._hold()  # a finalizer or a signal handler that has called the function has linked the chain as it was
        self._settle()

    def _hold(self) -> bool:
        """Let the next call link the chain again; return whether there is a place that is open."""
        place = self.place
        if place is None or not place.opened:
            return False
        place.hold()
        if self.instances:
            self._reset_instances(place)
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
            else:
                return

    def _is_needed(self) -> bool:
        if self.instances or self.pauses:
            return bool(self.instances)
        for hook in self._members:  # noqa: SIM110  # each change asks, and mostly the first one acts
            if not hook.paused:
                return True
        return False

    def _open(self) -> None:
        """Put the stand-in into the function, unless a stranger's code lies over ours there."""
        function = self.ref()
        if function is None:
            return
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
        if self.instances:
            self._reset_instances(place)
        try:
            attributes = function.__dict__
            if not isinstance(attributes, Attributes) or (attributes.mount is not self and mount_of(function) is None):
                Attributes.put(function, self)
            module = watch_module(function, self)  # held here, so that it is not unloaded before the place is open
            place.weak = module is None
            place.open(self)
            for hook in self._members:
                self.watch(hook)
        except BaseException:  # an interrupt, before there is anything to run
            if not place.opened:
                self._forget()
            raise

    def _forget(self) -> None:
        """Remove the mount point from a function that was never made hookable."""
        function = self.ref()
        if function is not None and not self._members and mount_of(function) is self:
            attributes: Any = function.__dict__
            attributes.leave(function)

    def tidy(self) -> None:
        """Complete a change that was interrupted; under the lock."""
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

    @under_lock
    def rearrange(self) -> None:
        """Put the hooks into the order that holds now, at the next call."""
        self._change(lambda: None)

    # The mount points of instances, which run their hooks in the place of this one

    def is_alive(self) -> bool:
        """Whether the function, or the instance, is still there."""
        return self.ref() is not None

    def reset(self, place: Place | None) -> None:
        """Link the chain of an instance again at its next call."""

    def change_instance(self, key: int, instance: MountPoint, store: Callable[[], None]) -> None:
        """Make a change of the hooks of an instance, which run in the place of this mount point; under the lock."""
        instances: dict[int, MountPoint] = {}

        def store_here() -> None:
            alive = instance.is_alive()  # otherwise another object may have its `id` by now
            if alive:
                if self.instances is _NO_INSTANCES:
                    self.instances = instances
                self.instances[key] = instance
                instance.reset(self.place)
            store()
            if alive and not instance.members:
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

    def _reset_instances(self, place: Place) -> None:
        for instance in list(self.instances.values()):
            instance.reset(place)


def mount_of(function: FunctionType) -> MountPoint | None:
    """Return the mount point of a function, if it is one."""
    attributes = function.__dict__
    found = attributes.mount if isinstance(attributes, Attributes) else None
    # A function may have been given the `__dict__` of another.
    return found if isinstance(found, MountPoint) and found.ref() is function else None
