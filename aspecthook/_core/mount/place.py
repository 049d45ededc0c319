"""Law 4 on functions: code is put into a function, and taken out again without a trace.

The invariant: the `__code__` of a function is the original (`before`), or ours, or a stranger's. A stranger's is never
replaced: ours is inert while it is there, and the handle says `displaced`. Code of ours that a stranger has kept a copy
of is marked (`Moved`): it runs the chain as it is now, or the original once the chain is empty.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType

from aspecthook._core.compile.copies import Attributes
from aspecthook._core.compile.link import Codes, Linker, template
from aspecthook._core.compile.show import FREE_THREADED, hide
from aspecthook._core.law.call import Site
from aspecthook._core.law.callables import signature_of
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Shown, shown_by
from aspecthook._errors import MountError
from aspecthook._hints import Any, cast, final

from .lock import under_lock
from .occupancy import GONE, Occupancy
from .original import copy_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


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


@final
class MountSite(Site):
    """The site of a mount point, which it does not keep alive.

    The stand-in and stale code call it: it returns the function to run this call with.
    """

    __slots__ = ("_mount", "_shown")

    # Any: a mount point, whose module imports this one.
    def __init__(self, mount: Any, model: CodeType, function: Callable[[], FunctionType | None]) -> None:
        super().__init__(mount.name, model, function, mount.emission)
        self.provides: Mapping[str, str] = mount.provides
        self._mount = weakref.ref(mount)
        # What `shown` returns, once it has been read.
        self._shown: tuple[Shown | None] | None = None

    def shown(self) -> Shown | None:
        """Return the parameters that the function shows; None if they are those of its code. It is read once."""
        if self._shown is None:
            mount = self._mount()
            if mount is None:
                return None
            original = None if mount.place is None else mount.place.original
            function = cast("FunctionType | None", self.function())
            self._shown = (shown_by(function, self.signature, original, signature_of),)
        return self._shown[0]

    def who(self, kind: str, function: object) -> str | None:
        """Return the hook of a kind that a function is, as messages describe it; None if it is none any more."""
        mount = self._mount()
        found = [] if mount is None else [hook for hooks in mount.chains() for hook in hooks]
        return next((hook.who for hook in found if hook.kind == kind and hook.function is function), None)

    def __call__(self) -> Callable[..., Any]:
        mount = self._mount()
        if mount is None or mount.place is None or mount.place.site is not self:
            return self._left()
        run: Callable[..., Any] = mount.current()
        return run

    def enter(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run one call that stale code has handed to us."""
        return self()(*args, **kwargs)

    @under_lock
    def _left(self) -> Callable[..., Any]:
        """Return the function as it was; somebody has kept code of ours for longer than the function had hooks."""
        function = cast("FunctionType | None", self.function())
        if function is None:
            raise MountError(
                "the function that this code was put into is gone; keep it for as long as you keep its code"
            )
        if any(const is self for const in function.__code__.co_consts):
            function.__code__ = self.model
        return FunctionType(self.model, function.__globals__, function.__name__, None, function.__closure__)


# Of a place that has had none; it stays empty.
_NO_INSTANCES: dict[int, Callable[..., Any]] = {}


@final
class Place(Occupancy):
    """One function and the code that is in it."""

    __slots__ = (
        "__weakref__",
        "_aside",
        "_codes",
        "_keeps",
        "_ref",
        "_space",
        "_stub_code",
        "_taken_out",
        "before",
        "instances",
        "moved",
        "original",
        "ours",
        "site",
        "weak",
    )

    def __init__(self, function: FunctionType, site: MountSite, target: Callable[..., Any] | None) -> None:
        super().__init__()
        self._ref = weakref.ref(function)
        self.before: CodeType = site.model  # the original code
        self.ours: CodeType = site.model
        self.site: MountSite = site
        # What the chain calls: the function as it was, or what the function itself only hands its calls to.
        self.original: Callable[..., Any] = target if target is not None else copy_of(function, site.model)
        # Whether the function may die before its module; decided when it is opened.
        self.weak: bool = True
        # All code that we have taken out and that is still alive.
        self._taken_out: tuple[weakref.ref[CodeType], ...] = ()
        self.moved: Moved | None = None
        # What runs the calls of each instance that has hooks, by its `id`.
        self.instances: dict[int, Callable[..., Any]] = _NO_INSTANCES
        self._aside: Callable[..., Any] | None = None
        # Where code that is not used any more is still there, or parts of it for ever, it is used again.
        self._codes: Codes | None = weakref.WeakValueDictionary() if FREE_THREADED else None
        self._space = function.__globals__
        # What a change needs, and whether that is kept after the first call: most functions that are hooked are not
        # changed again. It is where code lives until the next collection anyway.
        self._stub_code: CodeType | None = None
        self._keeps = FREE_THREADED

    # Opening and closing

    def open(self) -> None:
        """Begin to carry hooks: put the stand-in in, and let `inspect` find the source."""
        function = self._ref()
        # First: a signal handler that calls the stand-in of a place that is closed would take it out.
        self.opened = True
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
        self.opened: bool = False  # declared anew, with `stranded`: verifytypes takes an assignment for a declaration
        if self._codes is not None:
            self._codes.clear()  # else it would seem that somebody holds them, and the place would be kept for them

    def hold(self) -> None:
        """Put the stand-in in, which links the chain at the next call: the first step of every change.

        From now on, copies of the code that was there until now hand their calls to us.
        """
        self._aside = None
        function, stub = self._ref(), self._stub_code
        if stub is None and self.ours is not self.before:
            self._keeps = True
        self._outdate()
        if function is None or function.__code__ is stub:
            return
        if FREE_THREADED:
            hide(self.ours)
        if stub is None:
            stub = self._linker().stub()
            if not self.opened:
                return  # a collection has dropped the last hook meanwhile, that of an instance, and closed the place
            self._stub_code = stub
        self.stranded: bool = False
        code = function.__code__
        if code is self.before or code is self.ours or self.is_ours(code):
            self.put(stub)

    def _outdate(self) -> None:
        """Let copies of the code that was linked last hand their calls to us."""
        if self.moved is not None:
            self.moved.run, self.moved.links = self.site.enter, None

    # The place, as all places that others may take too

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
            if ours is not self.before and ours is not self._stub_code:
                self._note(ours)
            if self.ours is ours:  # a finalizer may have made a change
                break
        self.ours = value  # first: after an interrupt, code that is there without being ours would be a stranger's
        function.__code__ = value

    def is_ours(self, value: object) -> bool:
        """Whether we have ever put this code into the function, and it is not the original."""
        if value is self.before:
            return False
        if value is self.ours or value is self._stub_code:
            return True
        return any(one() is value for one in self._taken_out)

    def is_own(self, code: CodeType) -> bool:
        """Whether this code is the original, or has ever been put in its place by us."""
        return code is self.before or self.is_ours(code)

    def is_held(self) -> bool:
        """Whether the place is open, or somebody may hold code of ours, such as a stranger's code that lies over it."""
        if self.opened or self.stranded:
            return True
        self._drop_stub()
        if FREE_THREADED and self._is_alive():
            gc.collect()  # without the GIL, code that nobody uses any more lives until the next collection
        return self._is_alive()

    def _is_alive(self) -> bool:
        return any(one() is not None for one in self._taken_out)

    def _note(self, code: CodeType) -> None:
        """Remember code of ours of which others may have made copies, for as long as it lives."""
        taken = weakref.ref(code)  # the same reference each time, as it has no callback
        while True:
            before = self._taken_out
            after = (*[one for one in before if one is not taken and one() is not None], taken)
            if self._taken_out is before:  # a finalizer may have made a change
                self._taken_out = after
                return

    def _drop_stub(self) -> None:
        """Let go the stand-in, which is made again if the hooks change."""
        if self._stub_code is not None:
            self._note(self._stub_code)
            self._stub_code = None

    # Linking

    def current(self, chain: Callable[[], Chain]) -> Callable[..., Any]:
        """Link the chain as it is now, put the code in, and return a function that runs it; under the lock."""
        while True:
            function = self._ref()
            if function is None or not self.opened:
                self.heal()
                return self.original
            now = function.__code__
            if now is not self._stub_code and not self.is_ours(now):
                # A stranger's code is in the function, and calls a copy of ours.
                if self._aside is None:
                    self._aside = self.bind(chain(), instances=bool(self.instances))
                return self._aside
            # Somebody may have called a stand-in that they kept, although there is newer code. Without the GIL, linking
            # looks for older code by functions that may themselves be hooked, and would link them again each time.
            if not FREE_THREADED:
                self._outdate()
            # Made before the chain is read: a signal handler may change or link the chain at any point of what follows.
            # It then marks this code as stale, and the loop begins again.
            moved = self.moved = Moved()
            code, linked = self._link(chain(), moved)
            if self.moved is moved:
                self.moved = linked
            if self.moved is linked and moved.run is None:
                break
            linked.run, linked.links = self.site.enter, None
        before = function.__code__
        if before is self._stub_code or self.is_own(before):
            self.put(code)
            if not self._keeps:
                self._drop_stub()
        return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)

    def _link(self, chain: Chain, moved: Moved) -> tuple[CodeType, Moved]:
        free = len(self.before.co_freevars)
        found = template(self.site.signature, chain, free=free, weak=self.weak, instances=bool(self.instances))
        facts: dict[str, object] = {"moved": moved, "slot": weakref.ref(moved)}
        code, links = self._linker().link(found, chain, self._codes, facts)
        if self._codes is not None:  # code that is used again comes with a `Moved` of its own
            own = next((const for const in code.co_consts if type(const) is Moved), moved)
            if own is not moved:  # else a signal handler may have marked it already, as it changed the chain
                own.run = None
            moved = own
        moved.links = links
        return code, moved

    def _linker(self, target: Callable[..., Any] | None = None, site: Site | None = None) -> Linker:
        site = self.site if site is None else site
        facts: dict[str, object] = {
            "target": self.original if target is None else target,
            "site": site,
            "instances": self.instances,
            "first": self.site,
        }
        return Linker(site.signature, self.before, site.label, facts, self._space)

    def put_instance(self, key: int, run: Callable[..., Any]) -> None:
        """Set what runs the calls of an instance; under the lock."""
        if self.instances is _NO_INSTANCES:
            self.instances = {}
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
        linker = self._linker(target, site)
        found = template(linker.signature, chain, instances=instances, cells=True)
        return linker.make(found, chain, None, {})
