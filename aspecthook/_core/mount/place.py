"""Law 4 on functions: code is put into a function, and taken out again without a trace.

The invariant: the `__code__` of a function is the original (`plain`), or ours, or a stranger's. A stranger's is never
replaced. Code of ours that a stranger has kept a copy of is marked (`Moved`): it runs the chain as it is now, or the
original once the chain is empty.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType, FunctionType

from aspecthook._core.compile.copies import Attributes
from aspecthook._core.compile.link import Codes, Linker, template
from aspecthook._core.compile.show import FREE_THREADED, hide, show_again
from aspecthook._core.law.call import Site
from aspecthook._core.law.order import Chain
from aspecthook._core.law.weak import is_ending
from aspecthook._hints import TYPE_CHECKING, Any, final

from .lock import under_lock
from .occupancy import GONE, Occupancy
from .original import copy_of
from .site import Mounted, MountSite

if TYPE_CHECKING:
    pass

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


# Linking calls functions itself, and one of them may be the one that is being linked; or a signal handler or a
# finalizer interrupts it and calls something hooked. From this depth on, calls run without hooks.
_DEEPEST = 3
_depth = 0


@final
class Moved:
    """Whether one piece of our code is still where it belongs; and its links, what must not be a constant of the code.

    The place owns it; code with links sees it through a weak reference, except without the GIL. Code objects are
    invisible to the garbage collector, so whatever they hold strongly is never freed if it leads back to the function.
    Functions that live as long as their module may carry constants; closures only hooks that live as long as theirs.
    """

    __slots__ = ("__weakref__", "links", "run")

    def __init__(self) -> None:
        # What stale code hands its calls to; None while the code is where it belongs.
        self.run: Callable[..., Any] | None = None
        # What the code looks up at each call; None once it is stale.
        self.links: tuple[object, ...] | None = None


# Of a place that has had none; it stays empty.
_NO_INSTANCES: dict[int, Callable[..., Any]] = {}


@final
class _TakenOut(weakref.ref[CodeType]):
    """Code of ours that was taken out of its place, which forgets it once it is gone."""

    __slots__ = ("site",)

    site: MountSite


def _forget(taken: Any, ending: Callable[[], bool] = is_ending) -> None:
    """Called when code that was taken out is gone."""
    place = None if ending() else taken.site.place()
    if place is not None:
        place.forget(taken)


@final
class Place(Occupancy):
    """One function and the code that is in it."""

    __slots__ = (
        "__weakref__",
        "_aside",
        "_codes",
        "_hidden",
        "_keeps",
        "_linker",
        "_mount",
        "_ref",
        "_space",
        "_stub_code",
        "_taken_out",
        "instances",
        "moved",
        "original",
        "ours",
        "plain",
        "site",
        "under",
        "weak",
    )

    def __init__(
        self, function: FunctionType, plain: CodeType, site: MountSite, target: Callable[..., Any] | None = None
    ) -> None:
        super().__init__()
        self._ref = weakref.ref(function)
        self.plain: CodeType = plain
        self.ours: CodeType = plain
        self.site: MountSite = site
        # What the chain calls: the function as it was, or what the function itself only hands its calls to.
        self.original: Callable[..., Any] = target if target is not None else copy_of(function, plain)
        # Whether the function may die before its module; decided when it is opened.
        self.weak: bool = True
        # All code that we have taken out and that is still alive.
        self._taken_out: tuple[_TakenOut, ...] = ()
        self.under: Place | None = None
        self.moved: Moved | None = None
        # What runs the calls of each instance that has hooks, by its `id`.
        self.instances: dict[int, Callable[..., Any]] = _NO_INSTANCES
        self._mount: Mounted | None = None
        self._aside: Callable[..., Any] | None = None
        # Where code that is not used any more is still there, or parts of it for ever, it is used again.
        self._codes: Codes | None = None
        if FREE_THREADED:
            self._codes = weakref.WeakValueDictionary()
        self._space = function.__globals__
        # What a change needs, and whether that is kept after the first call: most functions that are hooked are not
        # changed again. It is where code lives until the next collection anyway.
        self._stub_code: CodeType | None = None
        self._linker: Linker | None = None
        self._keeps = FREE_THREADED
        # The source of the stub while there are no hooks.
        self._hidden: object = None

    # Opening and closing

    def open(self, mount: Mounted) -> None:
        """Begin to carry hooks: put the stand-in in, and let `inspect` find the source."""
        function = self._ref()
        self._mount = mount
        # First: a signal handler that calls the stand-in of a place that is closed would take it out.
        self.opened: bool = True
        self.hold()
        if self.opened and function is not None and isinstance(attributes := function.__dict__, Attributes):
            attributes.wrap(self.original)

    def close(self) -> None:
        """Stop carrying hooks: put the original back, unless a stranger has put something there."""
        function = self._ref()
        self.leave()
        if self.moved is not None:
            self.moved.links = None
        if function is not None and isinstance(attributes := function.__dict__, Attributes):
            attributes.unwrap()
        self._mount = None
        self.opened = False
        if self._codes is not None:
            self._codes.clear()  # else it would seem that somebody holds them, and the place would be kept for them
        if not self.stranded and self._stub_code is not None:
            self._hidden = hide(self._stub_code)

    def hold(self) -> None:
        """Put the stand-in in, which links the chain at the next call: the first step of every change.

        From now on, copies of the code that was there until now hand their calls to us.
        """
        self._aside = None
        if self._stub_code is None and self.ours is not self.plain:
            self._keeps = True
        if self.moved is not None:
            self.moved.run, self.moved.links = self._enter, None
        if self._stub_code is None or self.now() is not self._stub_code:
            if FREE_THREADED:
                hide(self.ours)
            self.occupy(self._stub())

    # The place, as all places that others may take too

    @property
    def before(self) -> CodeType:
        """The original code."""
        return self.plain

    def now(self) -> object:
        """Return the code that is in the function."""
        function = self._ref()
        return GONE if function is None else function.__code__

    def put(self, value: Any) -> None:
        """Put code into the function."""
        function = self._ref()
        if function is None:
            return
        while True:
            ours = self.ours
            if ours is not self.plain and ours is not self._stub_code:
                self._note(ours)
            if self.ours is ours:  # a finalizer may have made a change
                break
        self.ours = value  # first: after an interrupt, code that is there without being ours would be a stranger's
        function.__code__ = value

    def is_ours(self, value: object) -> bool:
        """Whether we have ever put this code into the function, and it is not the original."""
        if value is self.plain:
            return False
        return value is self.ours or value is self._stub_code or any(one() is value for one in self._taken_out)

    def is_own(self, code: CodeType) -> bool:
        """Whether this code is the original, or has ever been put in its place by us."""
        return code is self.plain or self.is_ours(code)

    def lingering(self) -> Place | None:
        """Drop the places, from this one down, whose code nobody holds any more; return the newest of the others."""
        place: Place | None = self
        kept: list[Place] = []
        while place is not None:
            if place._is_held():
                kept.append(place)
            place = place.under
        for upper, lower in zip(kept, [*kept[1:], None], strict=False):
            upper.under = lower
        return kept[0] if kept else None

    def _is_held(self) -> bool:
        if not self.opened:
            self._drop_stub()
        return self.opened or self.stranded or any(one() is not None for one in self._taken_out)

    def turned_to(self, older: Place) -> Place:
        """Return `older`, moved to the top of the stack of places."""
        above = self
        while above.under is not older and above.under is not None:
            above = above.under
        above.under, older.under = older.under, self
        return older

    def _note(self, code: CodeType) -> None:
        """Remember code of ours of which others may have made copies."""
        if any(one() is code for one in self._taken_out):
            return  # code that is used again is taken out again
        taken = _TakenOut(code, _forget)
        taken.site = self.site
        while True:
            before = self._taken_out
            after = (*before, taken)
            if self._taken_out is before:  # a finalizer may have made a change
                self._taken_out = after
                return

    @under_lock
    def forget(self, taken: object) -> None:
        """Forget code that is gone."""
        while True:
            before = self._taken_out
            after = tuple([one for one in before if one is not taken])
            if self._taken_out is before:
                self._taken_out = after
                return

    # Linking

    @under_lock
    def current(self) -> Callable[..., Any]:
        """Link the chain as it is now, put the code in, and return a function that runs it."""
        global _depth  # noqa: PLW0603  # under the lock: how many links are under way, each in the middle of another
        before = _depth
        if before == _DEEPEST:
            return self.original
        try:
            _depth = before + 1
            return self._current()
        finally:
            _depth = before

    def _current(self) -> Callable[..., Any]:
        while True:
            function = self._ref()
            if function is None or not self.opened:
                self.heal()
                return self.original
            if self.displaced:
                return self._set_aside()
            # Made before the chain is read: a signal handler may change or link the chain at any point of what follows.
            # It then marks this code as stale, and the loop begins again.
            moved = self.moved = Moved()
            chain = self._chain()
            if not self.instances and not chain.everything():
                # An interrupted change has left this: nothing to run, and the stand-in still in place.
                self.close()
                return self.original
            code, linked = self._link(chain, moved)
            if self.moved is moved:
                self.moved = linked
            if self.moved is linked and moved.run is None:
                break
            linked.run, linked.links = self._enter, None
        if not self.is_theirs():
            self.put(code)
            if not self._keeps:
                self._drop_stub()
        return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)

    def _chain(self) -> Chain:
        return Chain(()) if self._mount is None else self._mount.arranged()

    def _link(self, chain: Chain, moved: Moved) -> tuple[CodeType, Moved]:
        free = len(self.plain.co_freevars)
        found = template(self.site.signature, chain, free=free, weak=self.weak, instances=bool(self.instances))
        linked = self._links().link(found, chain, self._codes, {"moved": moved, "slot": weakref.ref(moved)})
        if self._codes is not None:  # code that is used again comes with a `Moved` of its own
            own = next((const for const in linked.code.co_consts if type(const) is Moved), moved)
            if own is not moved:  # else a signal handler may have marked it already, as it changed the chain
                own.run = None
            moved = own
        moved.links = linked.links
        return linked.code, moved

    def _links(self) -> Linker:
        linker = self._linker
        if linker is None:
            facts: dict[str, object] = {
                "target": self.original,
                "site": self.site,
                "instances": self.instances,
                "first": self.site,
            }
            linker = Linker(self.site.signature, self.plain, self.site.label, facts, self._space)
            if self._keeps:
                self._linker = linker
        return linker

    def _set_aside(self) -> Callable[..., Any]:
        """Return a separate function that runs the chain, as a stranger's code is in the target."""
        if self._aside is None:
            self._aside = self.bind(self._chain(), instances=bool(self.instances))
        return self._aside

    def put_instance(self, key: int, run: Callable[..., Any]) -> None:
        """Set what runs the calls of an instance; under the lock."""
        if self.instances is _NO_INSTANCES:
            self.instances, self._linker = {}, None
        self.instances[key] = run

    def bind(
        self,
        chain: Chain,
        *,
        instances: bool = False,
        target: Callable[..., Any] | None = None,
        site: Site | None = None,
    ) -> Callable[..., Any]:
        """Return a separate function that runs a chain on this target, whatever code the target has."""
        facts = self._links().facts.copy()
        if target is not None:
            facts["target"] = target
        if site is None:
            site = self.site
        else:
            facts["site"] = site
        linker = Linker(site.signature, self.plain, site.label, facts, self._space)
        found = template(site.signature, chain, instances=instances, cells=True)
        return linker.make(found, chain, None, {})

    def _enter(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run one call that stale code has handed to us."""
        return self.current()(*args, **kwargs)

    def _stub(self) -> CodeType:
        if self._stub_code is None:
            found = template(self.site.signature, None, free=len(self.plain.co_freevars))
            self._stub_code = self._links().link(found, Chain(()), None, {}).code
        elif self._hidden is not None:
            show_again(self._stub_code, self._hidden)
        self._hidden = None
        return self._stub_code

    def _drop_stub(self) -> None:
        """Let go the stand-in, which is made again if the hooks change."""
        if self._stub_code is not None:
            self._note(self._stub_code)
            self._stub_code = None
