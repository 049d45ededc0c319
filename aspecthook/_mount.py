"""The mount point: the hooks of one function, and law 5: adding and removing them is safe at any moment.

The invariant: the members are one immutable tuple, and every change goes the same way, under one lock: first the
stand-in code goes in (it asks for the chain at the next call), then the new members are stored, then what is empty is
closed. An interrupt at any point leaves a function that runs either the old chain or the new one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Unpack, cast, final, overload

from ._asks import KINDS, Kind
from ._call import Site
from ._changes import lock
from ._compile import notes_of, render, template
from ._errors import HookLookupError, HookTypeError, nearest
from ._history import History, Recorder
from ._hook import Gate, Hook, Options, identity
from ._inplace import MARK, Place
from ._order import Chain, Mentions, arrange
from ._signature import Emission

if TYPE_CHECKING:
    from ._typing import AnyHook, Types

_added = count()

# Told of every hook that is added, once it is in. Replaced as a whole: adding a hook only looks whether it is empty.
listeners: tuple[Callable[[MountPoint, Hook], None], ...] = ()


@final
class KindHooks(tuple[Hook, ...]):
    """The hooks of one kind, in their order; called as a decorator, it adds one."""

    _mount: MountPoint
    _kind: Kind

    # A class is callable too, which is why the types of exceptions come first.
    @overload
    def __call__(self, /, *types: Types, **options: Unpack[Options]) -> Callable[[AnyHook], AnyHook]: ...
    @overload
    def __call__(self, hook: AnyHook, /, **options: Unpack[Options]) -> AnyHook: ...
    # Any: the overloads say what is taken and given; nobody outside sees this line.
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Add a hook, as the attributes of a hookable function do."""
        return attach(self._mount, self._kind, args, cast("Options", options))

    def __contains__(self, hook: object) -> bool:
        return any(_is_meant(one, self._mount.unbound(hook)) for one in self)


def _is_meant(hook: Hook, meant: object) -> bool:
    """Say whether a hook is the one meant by a `Hook`, a function or a name."""
    if isinstance(meant, str):
        return hook.name == meant
    return hook is meant or (not isinstance(meant, Hook) and identity(meant) in hook.keys)


def attach(mount: MountPoint, kind: Kind, args: tuple[Any, ...], options: Options) -> Any:
    """Add a hook in decorator form: bare, or with options, and for exception hooks with the types they take."""
    types: list[type[BaseException]] = []
    rest = list(args)
    while rest and kind == "exception" and _types(rest[0]):
        types.extend(_types(rest.pop(0)))
    if len(rest) > 1:
        raise HookTypeError(
            f"{mount.name}: .{kind} takes one hook, and its options by name; it was given {len(rest)} things: "
            f"{', '.join(map(repr, rest))[:200]}"
        )

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        mount.add(kind, function, *types, **options)
        return function

    return add(rest[0]) if rest else add


def check_types(kind: Kind, types: tuple[object, ...], label: str) -> None:
    """Refuse what is no exception type.

    Raises:
        HookTypeError: Something is none, or this is no hook for exceptions.
    """
    if types and kind != "exception":
        raise HookTypeError(f"{label}: only exception hooks take exception types, and this is a hook for {kind}")
    unfit: list[object] = [one for one in types if not _types(one) or isinstance(one, tuple)]
    if unfit:
        raise HookTypeError(f"{label}: {unfit[0]!r} is no exception type; give classes such as KeyError")


def _types(value: object) -> tuple[type[BaseException], ...]:
    row = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
    fits = row and all(isinstance(one, type) and issubclass(one, BaseException) for one in row)
    return cast("tuple[type[BaseException], ...]", row) if fits else ()


class Dependent(Protocol):
    """What else runs hooks on the same function, and must be told of changes: the mount point of an instance."""

    @property
    def members(self) -> tuple[Hook, ...]:
        """Give its hooks, in the order in which they were added."""
        ...

    def reset(self, place: Place | None) -> None:
        """Link anew at the next call."""
        ...


class MountPoint:
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

    # Whether it is the one of some object, and not of the function that runs there.
    of_object: ClassVar[bool] = False

    __slots__ = (
        "__weakref__",
        "_chain",
        "_instances",
        "_looks",
        "_members",
        "_mentions",
        "_pauses",
        "_place",
        "_ref",
        "_site",
        "_theirs",
        "emission",
        "history",
        "lends",
        "name",
        "woven",
    )

    def __init__(self, function: FunctionType, name: str | None = None, emission: Emission | None = None) -> None:
        self._ref: Callable[[], FunctionType | None] = weakref.ref(function)
        self.name = name or f"{function.__module__}:{function.__qualname__}"
        self._members: tuple[Hook, ...] = ()
        self._mentions = Mentions()
        self._pauses: frozenset[object] = frozenset()
        self._chain: tuple[object, Chain] | None = None
        self._place: Place | None = None
        self._site: Site | None = None
        self._instances: dict[int, Dependent] = {}
        self._looks: weakref.WeakValueDictionary[int, MountPoint] | None = None
        # The mark of another function's mount point, that functools.wraps has copied.
        self._theirs: object = None
        # Of an event: what it does with its subscribers, and the calls that it keeps for late ones.
        self.emission = emission
        self.history: History | None = None
        # What hooks may ask for besides the parameters.
        self.lends: dict[str, str] = {}
        # What weavings share here; kept by the mount point, so that all of it goes together.
        self.woven: dict[object, Any] = {}

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
        return any(_is_meant(one, self.unbound(hook)) for one in self._members)

    def __getitem__(self, name: str) -> Hook:
        return self._find(name)[0]

    def __repr__(self) -> str:
        return f"<mount point {self.name}, {len(self._members)} hooks>"

    @property
    def pre(self) -> KindHooks:
        """The pre hooks."""
        return self._of("pre")

    @property
    def around(self) -> KindHooks:
        """The around hooks, the outermost first."""
        return self._of("around")

    @property
    def on(self) -> KindHooks:
        """The subscribers, if it is an event."""
        return self._of("on")

    @property
    def item(self) -> KindHooks:
        """The item hooks."""
        return self._of("item")

    @property
    def exception(self) -> KindHooks:
        """The exception hooks."""
        return self._of("exception")

    @property
    def post(self) -> KindHooks:
        """The post hooks."""
        return self._of("post")

    @property
    def always(self) -> KindHooks:
        """The always hooks."""
        return self._of("always")

    @property
    def members(self) -> tuple[Hook, ...]:
        """The hooks in the order in which they were added."""
        return self._members

    def _of(self, kind: Kind) -> KindHooks:
        found = KindHooks(arrange(hook for hook in self._members if hook.kind == kind))
        found._mount, found._kind = self, kind
        return found

    @property
    def displaced(self) -> bool:
        """Whether somebody else has put their code where ours was."""
        return self._place is not None and self._place.displaced

    def explain(self) -> str:
        """Give the source of a call as it is now, beside each hook its name, file and line."""
        chain = self._active()
        if not chain.everything():
            return f"# {self.name} carries no hooks: a call runs the function itself\n"
        site = self._get_site()
        place = self._place
        weak = place is not None and place.opened and place.weak
        text = template(site.signature, chain, free=0, weak=weak).text
        source = render(text, self._code().co_name, notes_of(chain))
        return f"# {self.name}, {len(chain.everything())} hooks\n{source}"

    # Changing

    def add(
        self, kind: Kind, function: Callable[..., object], /, *types: type[BaseException], **options: Unpack[Options]
    ) -> Hook:
        """Add a hook and give its handle.

        Args:
            kind: ``"pre"``, ``"around"``, ``"on"``, ``"item"``, ``"exception"``, ``"post"`` or ``"always"``.
            function: The hook; it is given what its parameters ask for by name.
            types: What an exception hook takes; `Exception` if none is named.
            options: ``name``, ``priority``, ``before``, ``after``, ``when``, ``once``, ``times``, ``every``,
                ``isolate``, ``reentrant``, ``weak``.

        Raises:
            HookSignatureError: It asks for something that the mount point does not offer.
            HookTypeError: It could never work on this target; or an option has the wrong type.
            HookOptionError: An option has a value that it cannot have.
            HookOrderError: Its ``before`` and ``after`` contradict those of others. The chain is as it was.
        """
        return self.admit(kind, function, types, options, None)

    def admit(
        self,
        kind: Kind,
        function: Callable[..., object],
        types: tuple[type[BaseException], ...],
        options: Options,
        gate: Gate | None,
    ) -> Hook:
        """Add a hook that acts only while its gate is open."""
        hook = self.made(kind, function, types, options, gate)
        if self.must_tell(kind):
            self.tell(hook, lambda: self._insert(hook))
        else:
            self._insert(hook)
        self.announce(hook)
        return hook

    def made(
        self,
        kind: Kind,
        function: Callable[..., object],
        types: tuple[type[BaseException], ...],
        options: Options,
        gate: Gate | None,
    ) -> Hook:
        """Make a hook that is yet to be put in."""
        if kind not in KINDS:
            near = nearest(str(kind), list(KINDS))
            raise HookTypeError(f"{self.name}: there are no {kind!r} hooks, only {', '.join(KINDS)}{near}")
        check_types(kind, types, self.name)
        site = self._get_site()
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
        )

    def must_tell(self, kind: Kind) -> bool:
        """Say whether hooks of this kind are told of the past before they are put in."""
        return kind == "on" and self.history is not None

    def tell(self, hook: Hook, insert: Callable[[], None]) -> None:
        """Tell a hook of the past, not under the lock, and then have it put in, under the lock."""
        assert self.history is not None
        with lock:
            self._check_order(hook)  # who cannot be put in is told nothing
        self.history.tell(hook, insert)

    def announce(self, hook: Hook) -> None:
        """Tell who wants to know that a hook is in."""
        for listener in listeners:
            listener(self, hook)

    def _check_order(self, hook: Hook) -> None:
        if self._mentions.may_close_cycle(hook):
            for members in self._chains():
                arrange([*(one for one in members if one.kind == hook.kind), hook], self.name)

    def _insert(self, hook: Hook) -> None:
        if hook.guard is not None and hook.guard.is_spent:
            return  # by what it was told of the past
        with lock:
            self._check_order(hook)
            self._mentions.count(hook, 1)
            self._change(lambda: self._store(lambda members: (*members, hook)))

    def inner(self) -> Callable[..., Any]:
        """Give what a call runs inside of all hooks: the function as it was."""
        place = self._place
        return place.original if place is not None and place.opened else self.function

    def unbound(self, function: Any) -> Any:
        """Give what is kept of a hook; for an instance, its own methods without it."""
        return function

    def _unbinds(self) -> Callable[[Any], Any] | None:
        """Give what takes the instance out of what a hook is made of, if there is one."""
        return None

    def _chains(self) -> Iterator[tuple[Hook, ...]]:
        """Give the members of every chain that a hook added here becomes part of."""
        yield self._members
        for instance in self._instances.values():
            yield self._members + instance.members

    def remove(self, hook: Hook | Callable[..., Any] | str) -> None:
        """Take off a hook: the handle, or every hook of this function or of this name.

        Raises:
            HookLookupError: There is none. (A handle may be removed twice.)
        """
        if isinstance(hook, Hook):
            self._discard((hook,))
            return
        with lock:
            found = tuple(self._matching(hook))
            self._discard(found)
        if not found:
            self._find(hook)  # refuses; not under the lock, since that imports

    def _matching(self, meant: object) -> list[Hook]:
        unbound = self.unbound(meant)
        key = unbound if isinstance(meant, (str, Hook)) else identity(unbound)
        return [hook for hook in self._members if (hook is key if isinstance(meant, Hook) else key in hook.keys)]

    def _find(self, meant: object) -> list[Hook]:
        found = self._matching(meant)
        if not found:
            names = sorted({hook.name for hook in self._members})
            shown = ", ".join(names) or "none at all"
            near = nearest(meant, names) if isinstance(meant, str) else ""
            raise HookLookupError(f"{self.name} has no hook {meant!r}; its hooks: {shown}{near}")
        return found

    def _discard(self, hooks: tuple[Hook, ...]) -> None:
        gone = {id(hook) for hook in hooks}
        with lock:
            self._take_off(gone)

    # A function of its own: CPython 3.13 may handle a signal at a loop's jump back, and leave `with` without its end.
    def _take_off(self, gone: set[int]) -> None:
        off = [hook for hook in self._members if id(hook) in gone]
        if off:
            self._change(lambda: self._store(lambda members: tuple([hook for hook in members if id(hook) not in gone])))
        for hook in off:
            self._mentions.count(hook, -1)

    def clear(self) -> None:
        """Take all hooks off."""
        self._discard(self._members)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Keep the hooks from acting for the length of a ``with`` block, in all threads."""
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

    def _set_pause(self, pause: object, *, on: bool) -> None:
        def store() -> None:
            self._pauses = self._pauses | {pause} if on else self._pauses - {pause}

        with lock:
            self._change(store)

    def set_paused(self, hooks: tuple[Hook, ...], *, paused: bool) -> None:
        """Keep some hooks from acting, or let them act again."""

        def store() -> None:
            for hook in hooks:
                hook.paused = paused

        with lock:
            self._change(store)

    def regate(self, hook: Hook, gate: Gate | None, *, paused: bool) -> None:
        """Change for which calls a hook acts; a gate of the same sort costs nothing but what it does."""

        def store() -> None:
            hook.set_gate(gate)
            hook.paused = paused

        with lock:
            if hook in self._members and (hook.paused != paused or hook.gate is not (gate and gate.holds)):
                self._change(store)

    def tidy(self) -> None:
        """End what an interrupted change has left half done."""
        with lock:
            self._settle()
            function = self._ref()
            left = function is not None and function.__dict__.get(MARK) is self
            if left and not self._members and (self._place is None or not self._place.opened):
                self._forget()

    def ensure(self) -> None:
        """Be where the hooks act; a function always is."""

    def _drop_instance(self, key: int) -> None:
        self._instances.pop(key, None)
        if self._place is not None:
            self._place.instances.pop(key, None)

    # How a change is made; all under the lock. A finalizer, ours or a user's, may come at any allocation and make a
    # change of its own in the middle of one: so nothing is stored that was worked out from what may have changed since.

    def _change(self, store: Callable[[], None]) -> None:
        place = self._place
        if place is not None and place.opened:
            place.hold()
            self._reset_instances(place)
        else:
            self._open()
        store()
        self._chain = None
        self._settle()

    def _store(self, update: Callable[[tuple[Hook, ...]], tuple[Hook, ...]]) -> None:
        """Store new members, with one store, worked out from what they are at that moment."""
        while True:
            before = self._members
            after = update(before)
            if self._members is before:
                self._members = after
                return

    def _settle(self) -> None:
        """Be open if there is something to run, and closed if there is nothing."""
        while self._ref() is not None:
            place = self._place
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
        return bool(self._instances) or (not self._pauses and any(not hook.paused for hook in self._members))

    def _open(self) -> None:
        function = self._ref()
        if function is None:
            return
        while (place := self._place) is None or not place.is_own(function.__code__):
            older = self._place_of(function.__code__)
            if place is not None and older is not None:
                self._place = place.turned_to(older)
                continue
            made = Place(function, self._code(), self._get_site(), self._target())
            if place is not None:
                # A copy of the code of an older place may live on in what we are put over.
                made.under = place.lingering()
            if self._place is place:
                self._place = made
        self._reset_instances(place)
        try:
            if mount_of(function) is None:
                self._theirs = function.__dict__.get(MARK)
                function.__dict__[MARK] = self
            place.open(self._active)
        except BaseException:  # an interrupt: there is nothing to run yet
            if not place.opened:
                self._forget()
            raise

    def _target(self) -> Callable[..., Any] | None:
        """Give what the function only hands its calls to, if that is all it does."""
        return None

    def _reset_instances(self, place: Place) -> None:
        for instance in list(self._instances.values()):
            instance.reset(place)

    def _forget(self) -> None:
        """Leave no trace in the function of a mount point that nobody asked to be there."""
        function = self._ref()
        if function is not None and "hooks" not in function.__dict__ and not self._members:
            if function.__dict__.get(MARK) is self:
                if self._theirs is None:
                    del function.__dict__[MARK]
                else:
                    function.__dict__[MARK] = self._theirs
            self._theirs = None

    def forget(self, key: int) -> None:
        """Take note that an instance which carried hooks has died."""
        with lock:
            gone = self._instances.get(key)
            if gone is not None:
                self._drop_instance(key)
                for hook in gone.members:
                    self._mentions.count(hook, -1)
                self._change(lambda: None)

    def _active(self) -> Chain:
        """Give the chain that runs now, arranged at most once a change."""
        with lock:
            members = self._members
            kept = self._chain
            if kept is None or kept[0] is not members:
                pending = self._chain = (None, Chain(()))
                kept = (members, Chain(self._unpaused(members)))
                if self._chain is pending:  # else a signal handler has changed something meanwhile
                    self._chain = kept
            return kept[1]

    def _unpaused(self, members: tuple[Hook, ...]) -> tuple[Hook, ...]:
        return () if self._pauses else tuple([hook for hook in members if not hook.paused])

    def _code(self) -> CodeType:
        """Give the target's own code, hooked or not."""
        function = cast("FunctionType", self.function)
        place = self._place_of(function.__code__)
        return place.plain if place is not None else function.__code__

    def _place_of(self, code: CodeType) -> Place | None:
        """Find the place that code is of: the one we are in, or an older one whose code somebody has put back."""
        place = self._place
        while place is not None and not place.is_own(code):
            place = place.under
        return place

    def _get_site(self) -> Site:
        if self._place is not None and self._place.opened:
            return self._place.site
        if self._site is None or self._site.model is not self._code():
            record = None if self.history is None else Recorder(self.history)
            self._site = Site(self.name, self._code(), self._ref, _Finder(self), self.emission, record)
            self._site.signature.lends = self.lends
        return self._site


def mount_of(function: FunctionType) -> MountPoint | None:
    """Give the mount point of a function, if it is one."""
    found: object = function.__dict__.get(MARK)
    # functools.wraps copies our mark onto wrappers, which are not what it is about.
    return found if isinstance(found, MountPoint) and found._ref() is function else None


@final
class _Finder:
    """Finds the hook that a function is, for messages."""

    __slots__ = ("_mount",)

    def __init__(self, mount: MountPoint) -> None:
        self._mount = weakref.ref(mount)

    def __call__(self, kind: str, function: object) -> Hook | None:
        mount = self._mount()
        if mount is None:
            return None
        instances = tuple(hook for one in list(mount._instances.values()) for hook in one.members)
        return next((h for h in mount._members + instances if h.kind == kind and h.function is function), None)
