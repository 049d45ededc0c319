"""Law 4 on functions: code is put into a function in place, and taken out again.

The invariant: a function's `__code__` is either the one it had before (`plain`), or one of ours, or somebody else has
put theirs there. Theirs is never touched; ours then steps aside (`moved`), so that a copy of ours that they kept runs
the chain as it is now, and nothing at all once the chain is empty.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, final

from aspecthook._core.compile.copies import Attributes, Witness
from aspecthook._core.compile.link import FREE_THREADED, Linker, hide, template
from aspecthook._core.law.call import Site
from aspecthook._core.law.order import Chain
from aspecthook._errors import MountError

from .lock import under_lock

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


# Linking itself calls functions, and one of them may be the one that is to be linked. A signal handler or a finalizer
# may also come in the middle and call something hooked; deeper than that, a call is that of linking, and runs bare.
_DEEPEST = 3
_depth = 0


@final
class Moved:
    """Where stale code leaves its calls; None while the code is where it belongs."""

    __slots__ = ("run",)

    def __init__(self) -> None:
        self.run: Callable[..., Any] | None = None


@final
class Slot:
    """Owned by the function, seen by its code through a weak reference: what must not be a constant of the code.

    Code objects are invisible to the garbage collector, so whatever they hold strongly is never freed if it leads
    back to the function. Functions that live as long as their module may carry constants; closures may not.
    """

    __slots__ = ("__weakref__", "links")

    def __init__(self) -> None:
        self.links: tuple[object, ...] = (0,)


@final
class First(Witness):
    """Called by the code that stands in after a change, and by stale code: gives the function to run this call with."""

    __slots__ = ("_function", "_place", "_plain")

    def __init__(self, place: Place, function: FunctionType, plain: CodeType) -> None:
        self._place = weakref.ref(place)
        self._function = weakref.ref(function)
        self._plain = plain

    def __call__(self) -> Callable[..., Any]:
        place = self._place()
        return place.current() if place is not None else self._left()

    @under_lock
    def _left(self) -> Callable[..., Any]:
        """Give the function as it was, where somebody has kept code of ours longer than the function carried hooks."""
        function = self._function()
        if function is None:
            raise MountError(
                "the function that this code was put into is gone; keep it for as long as you keep its code"
            )
        if any(const is self for const in function.__code__.co_consts):
            function.__code__ = self._plain
        return FunctionType(self._plain, function.__globals__, function.__name__, None, function.__closure__)


_makers: dict[int, CodeType] = {}  # by number of free variables


def _maker(code: CodeType) -> CodeType:
    """Give code that makes a function of `code` as a `def` does: from 3.13 on only such calls are specialised."""
    free = len(code.co_freevars)
    made = _makers.get(free)
    if made is None:
        names = ", ".join(f"free_{number}" for number in range(free))
        text = f"def outer({names}):\n def make():\n  def copy():\n   {names or 0}\n  return copy\n return make\n"
        outer = next(one for one in compile(text, "<aspecthook>", "exec").co_consts if isinstance(one, CodeType))
        made = _makers[free] = next(one for one in outer.co_consts if isinstance(one, CodeType))
    consts = tuple([code if isinstance(one, CodeType) else one for one in made.co_consts])
    return made.replace(co_consts=consts, co_freevars=code.co_freevars)


def copy_of(function: FunctionType, code: CodeType) -> FunctionType:
    """Make a function that is as this one was before it was hooked; `inspect` finds it as ``__wrapped__``."""
    copy: FunctionType = FunctionType(_maker(code), function.__globals__, "make", None, function.__closure__)()
    return dressed(copy, function)


def dressed(copy: FunctionType, function: FunctionType) -> FunctionType:
    """Give a function what another one says of itself."""
    copy.__name__ = function.__name__
    if function.__defaults__ is not None:
        copy.__defaults__ = function.__defaults__
    if function.__kwdefaults__ is not None:
        copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    # From 3.14 on annotations are made when first read, which must not happen here.
    annotate = getattr(function, "__annotate__", None)
    if annotate is not None:
        setattr(copy, "__annotate__", annotate)  # not there before 3.14
    else:
        copy.__annotations__ = function.__annotations__
    type_params = getattr(function, "__type_params__", None)
    if type_params is not None:
        setattr(copy, "__type_params__", type_params)  # not there before 3.12
    return copy


@final
class Place:
    """One function and the code that is in it."""

    __slots__ = (
        "__weakref__",
        "_aside",
        "_chain",
        "_codes",
        "_linker",
        "_most",
        "_put_in",
        "_ref",
        "_slot",
        "_space",
        "_stub_code",
        "function",
        "instances",
        "moved",
        "opened",
        "original",
        "ours",
        "plain",
        "site",
        "stranded",
        "under",
        "weak",
    )

    def __init__(
        self, function: FunctionType, plain: CodeType, site: Site, target: Callable[..., Any] | None = None
    ) -> None:
        self._ref = weakref.ref(function)
        self.plain = plain
        self.ours = plain
        self.site = site
        # What the chain calls: the function as it was, or what the function itself only hands its calls to.
        self.original: Callable[..., Any] = target if target is not None else copy_of(function, plain)
        self._space = function.__globals__, function.__name__, None, function.__closure__
        # Whether its code may not hold hooks as constants; settled when it is opened.
        self.weak = True
        self.opened = False
        # Somebody's code was in the function when ours was taken off: a copy of ours may live on in theirs.
        self.stranded = False
        # What has been put in, for as long as it lives; and how long the list may become before it is looked through.
        self._put_in: list[weakref.ref[CodeType]] = []
        self._most = 16
        self.under: Place | None = None
        self.moved = Moved()
        self.instances: dict[int, Callable[..., Any]] = {}
        self._chain: Callable[[], Chain] = lambda: Chain(())
        self._slot = Slot()
        self._aside: Callable[..., Any] | None = None
        # Where the constants of code are never freed (3.13 without the GIL), nor code before the next collection, a
        # code object is made once a shape while there are hooks, not once a change.
        self._codes: dict[int, CodeType] | None = {} if FREE_THREADED else None
        facts: dict[str, object] = {
            "target": self.original,
            "site": site,
            "instances": self.instances,
            "record": site.record,
            "slot": weakref.ref(self._slot),
            "first": First(self, function, plain),
        }
        self._linker = Linker(site.signature, plain, site.label, facts, function.__globals__)
        self._stub_code: CodeType | None = None

    # Opening and closing

    def open(self, chain: Callable[[], Chain]) -> None:
        """Begin to carry hooks: the stand-in code goes in, the way back to the source is noted."""
        function = self._ref()
        self._chain = chain
        self._stub()
        self.opened = True
        self.hold()
        if function is not None and isinstance(attributes := function.__dict__, Attributes):
            attributes.wrap(self.original)

    def close(self) -> None:
        """Carry nothing any more: what was there is there again, unless somebody else has put something there."""
        function = self._ref()
        self.stranded = not self._put(self.plain)
        self._slot.links = (0,)
        if function is not None and isinstance(attributes := function.__dict__, Attributes):
            attributes.unwrap()
        self._chain = lambda: Chain(())
        self.opened = False
        if self._codes is not None:
            self._codes.clear()  # else it would seem that somebody holds them, and the place would be kept for them
        if not self.stranded and self._stub_code is not None:
            hide(self._stub_code)

    def hold(self) -> None:
        """Put the stand-in code in, which links the chain at the next call. The first step of every change.

        Whoever has kept the code that was there until now has code that leaves its calls to us.
        """
        self._aside = None
        self.moved.run = self._enter
        if FREE_THREADED:
            hide(self.ours)
        self._put(self._stub())
        self._slot.links = (0,)

    @property
    def displaced(self) -> bool:
        """Whether somebody else's code is where ours was put, or has been since ours was taken off."""
        function = self._ref()
        return function is not None and (self.opened or self.stranded) and not self._is_ours(function.__code__)

    def is_own(self, code: CodeType) -> bool:
        """Say whether this code is the function's own, or what we have ever put in its place."""
        return code is self.plain or self._is_ours(code)

    def _is_ours(self, code: CodeType) -> bool:
        return code is self.ours or any(one() is code for one in self._put_in)

    def lingering(self) -> Place | None:
        """Forget the places, from this one down, of whose code nobody holds a copy; give the newest of the others."""
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
            self._stub_code = None  # it is made anew if hooks come back here
        return self.opened or self.stranded or any(one() is not None for one in self._put_in)

    def turned_to(self, older: Place) -> Place:
        """Give an older place under this one, with this one under it instead."""
        above = self
        while above.under is not older and above.under is not None:
            above = above.under
        above.under, older.under = older.under, self
        return older

    def heal(self) -> None:
        """Put the function's own code back where somebody has put ours back after we had left."""
        function = self._ref()
        if function is None or self.opened or function.__code__ is self.plain or not self._is_ours(function.__code__):
            return
        function.__code__ = self.ours = self.plain
        self.stranded = False

    def _put(self, code: CodeType) -> bool:
        function = self._ref()
        if function is None or not self.is_own(function.__code__):
            return False
        if code is not self.plain:
            self._note(code)
        function.__code__ = self.ours = code
        return True

    def _note(self, code: CodeType) -> None:
        """Take note that copies of this code may be made from now on."""
        self._put_in.append(weakref.ref(code))
        if len(self._put_in) > self._most:
            # The same code is put in again and again, and has but one reference.
            self._put_in = list({id(one): one for one in self._put_in if one() is not None}.values())
            self._most = 2 * len(self._put_in) + 16

    # Linking

    @under_lock
    def current(self) -> Callable[..., Any]:
        """Give a function that runs the chain as it is now, and put its code in its place."""
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
            # Made before the chain is looked at: a signal handler may change the chain, or link it, at any point of
            # what follows. What it changes marks this code as stale, and it is made anew.
            moved = self.moved = Moved()
            chain = self._chain()
            if not self.instances and not chain.everything():
                # What a change that was interrupted has left: nothing to run, and the stand-in still there.
                self.close()
                return self.original
            code = self._link(chain, moved)
            if moved is self.moved and moved.run is None:
                break
        self._put(code)
        return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)

    def _link(self, chain: Chain, moved: Moved) -> CodeType:
        free = len(self.plain.co_freevars)
        found = template(self.site.signature, chain, free=free, weak=self.weak, instances=bool(self.instances))
        linked = self._linker.link(found, chain, self._codes, {"moved": moved})
        self._slot.links = linked.links
        return linked.code

    def _set_aside(self) -> Callable[..., Any]:
        """Give a function of its own that runs the chain: ours may not go into the target's place now."""
        if self._aside is None:
            self._aside = self.bind(self._chain(), instances=bool(self.instances))
        return self._aside

    def bind(
        self,
        chain: Chain,
        *,
        instances: bool = False,
        target: Callable[..., Any] | None = None,
        site: Site | None = None,
    ) -> Callable[..., Any]:
        """Return a function of its own that runs a chain on this target, whatever is in the target's place."""
        slot = Slot()
        facts = self._linker.facts | {"moved": Moved(), "slot": weakref.ref(slot)}
        if target is not None:
            facts["target"] = target
        if site is None:
            site = self.site
        else:
            facts |= {"site": site, "record": site.record}
        linker = Linker(site.signature, self.plain, site.label, facts, self._linker.space)
        free = len(self.plain.co_freevars)
        found = template(site.signature, chain, free=free, weak=self.weak, instances=instances)
        linked = linker.link(found, chain, None, {})
        slot.links = linked.links
        bound = FunctionType(linked.code, *self._space)
        bound.__dict__["slot"] = slot
        return bound

    def _enter(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run one call that stale code has left to us."""
        return self.current()(*args, **kwargs)

    def _stub(self) -> CodeType:
        found = template(self.site.signature, None, free=len(self.plain.co_freevars))
        if self._stub_code is None:
            self._stub_code = self._linker.link(found, Chain(()), None, {}).code
        elif not self.opened:
            self._linker.show(found, Chain(()), self._stub_code)
        return self._stub_code
