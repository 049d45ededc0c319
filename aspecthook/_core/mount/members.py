"""The hooks of one mount point as users handle them: to look at, add, remove and pause.

The invariant: the hooks are one immutable tuple, in the order in which they were added, and a change replaces it in one
step. How a change reaches the function is the business of `point`, behind `_change`.

The path of a new hook: `add` or a decorator reads how it is added, `add_hook` has a `Hook` made, which refuses what
could not work, and `insert` puts it among the others under the lock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType

from aspecthook._core.compile.copies import Attribute
from aspecthook._core.law.call import NOTHING_PROVIDED, Site
from aspecthook._core.law.callables import unwrap
from aspecthook._core.law.hook import EXCEPTION, Hook, Predicate
from aspecthook._core.law.kinds import KINDS, RULES, Kind, meant_kind
from aspecthook._core.law.options import Adding, Asking, Options, key_of
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
    warn,
)
from aspecthook._hints import Any, ClassVar, TypeAlias, TypeVar, Unpack, cast, final, overload

from .lock import under_lock

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

AnyHook = TypeVar("AnyHook", bound=Callable[..., object])
Types: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...]"

# In the place of a hook that is missing, most likely because the kind is.
_NO_HOOK: Any = object()
_NO_PAUSES: frozenset[object] = frozenset()


class Members(Attribute):
    """The hooks of one mount point, whatever that is and however its function runs them."""

    __slots__ = ("_members", "emission", "mentions", "name", "pauses", "place", "provides")

    # Whether it belongs to one object, and not to the function that runs there.
    of_object: ClassVar[bool] = False
    # Whether it belongs to one instance, and runs its hooks in the place of the mount point of the function.
    of_instance: ClassVar[bool] = False

    # Returns the mounted function; None once it is gone.
    ref: Callable[[], FunctionType | None]
    # The hooks of each kind, in the order in which they run; properties, which are set below.
    pre: KindHooks
    around: KindHooks
    on: KindHooks
    item: KindHooks
    exception: KindHooks
    post: KindHooks
    always: KindHooks

    def __init__(self, name: str, emission: Emission | None) -> None:
        self.name: str = name
        self._members: tuple[Hook, ...] = ()
        self.mentions: Mentions = NO_MENTIONS
        # One object for each `paused()` block that is open.
        self.pauses: frozenset[object] = _NO_PAUSES
        # Of an event: what it does with its subscribers.
        self.emission: Emission | None = emission
        # Paths of attributes that hooks may ask for, by the names that hooks use (`hookable(provides=...)`).
        self.provides: Mapping[str, str] = NOTHING_PROVIDED
        # Where its code is, a `Place`; None before the first hook.
        self.place: Any = None

    # What a subclass decides.

    def site(self) -> Site:
        """Return what generated code and messages need to know of the mount point."""
        raise NotImplementedError

    def _change(self, store: Callable[[], None]) -> None:
        """Make a change that `store` stores, so that the next call sees it; under the lock."""
        raise NotImplementedError

    def chains(self) -> Iterator[tuple[Hook, ...]]:
        """Yield the hooks of every chain that a hook added here becomes part of."""
        raise NotImplementedError

    def arranged(self) -> Chain:
        """Return the chain that runs now, arranged anew."""
        raise NotImplementedError

    def tidy(self) -> None:
        """Complete a change that was interrupted; under the lock."""
        raise NotImplementedError

    def watch(self, hook: Hook) -> None:
        """Watch the module that a hook is written in: it may be unloaded."""
        raise NotImplementedError

    def weaken(self) -> None:
        """Take the hooks out of the constants of the function's code; under the lock."""
        raise NotImplementedError

    def unbound(self, function: Any) -> Any:
        """Return the function that is kept for a hook: itself, but for a method of the instance that is mounted."""
        return function

    # Looking

    @property
    def members(self) -> tuple[Hook, ...]:
        """The hooks in the order in which they were added."""
        return self._members

    def __iter__(self) -> Iterator[Hook]:
        return iter(Chain(self._members).everything())

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, hook: object) -> bool:
        return bool(self._matching(hook))

    @entrance
    def __getitem__(self, name: str) -> Hook:
        return self._find(name)[0]

    def _matching(self, meant: object) -> list[Hook]:
        """Return the hooks that a handle, a function or a name means."""
        key = key_of(self.unbound(meant))
        return [hook for hook in self._members if key in (hook.identity, hook.name, id(hook))]

    def _find(self, meant: object) -> list[Hook]:
        """Return the hooks that a handle, a function or a name means.

        Raises:
            HookLookupError: There is none.
        """
        found = self._matching(meant)
        if not found:
            names = sorted({hook.name for hook in self._members})
            shown = ", ".join(names) or "none at all"
            near = nearest(meant, names) if isinstance(meant, str) else ""
            raise HookLookupError(f"{self.name} has no hook {brief(meant)}; its hooks: {shown}{near}")
        return found

    def acting(self) -> tuple[Hook, ...]:
        """Return the hooks that are not paused, in the order in which they were added."""
        return () if self.pauses else tuple([hook for hook in self._members if not hook.paused])

    def title(self, count: int) -> str:
        """Return what stands above a table of so many hooks."""
        return f"{printable(self.name)}, {plural(count, 'hook')}"

    def __str__(self) -> str:
        """Return the hooks as a table, in the order in which they run."""
        from aspecthook._show.table import as_text

        from .rows import rows_of

        return as_text(self.title(len(self)), rows_of(self, self.chains()))

    def _repr_html_(self) -> str:
        """Return the hooks as a table for notebooks."""
        from aspecthook._show.table import as_html

        from .rows import rows_of

        return as_html(self.title(len(self)), rows_of(self, self.chains()))

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

        One callable is one hook of its kind. If it is added again with the same options, and for the same exceptions,
        the handle of the hook that it is already is returned.

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
        if self.emission is not None:
            options = cast("Options", {**self.defaults(kind), **options})
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

    def defaults(self, kind: Kind) -> Options:
        """Return the options that hooks of a kind have here unless they are added with others."""
        return {"isolate": True} if kind == "on" and self.emission is not None and self.emission.isolate else {}

    @under_lock
    def insert(self, hook: Hook) -> Hook:
        """Put a hook among the others and return it; or return the hook that its callable is already.

        Raises:
            HookOptionError: Its callable is a hook already, with other options.
            HookOrderError: Its `before` and `after` contradict those of others.
        """
        if not hook.again and hook.identity in self.mentions:
            older = next((one for one in self._members if not one.again and one.is_again(hook)), None)
            if older is not None:
                were, are = older.meaning(), hook.meaning()
                if were == are:
                    return older
                others = ", ".join(option for option in are if are[option] != were[option])
                raise HookOptionError(
                    f"{self.name}: {older.who} is added already, with another {others}; remove that one first, or "
                    f"give again=True to have two"
                )

        def store() -> None:
            while True:  # until no finalizer has made a change meanwhile
                before = self._members
                after = (*before, hook)
                if self._members is before:
                    self._members = after
                    return

        if hook.before or hook.after or ORDERS in self.mentions:
            self.check_order(hook)
        self.count(hook, 1)
        self._change(store)
        self.watch(hook)
        return hook

    @under_lock
    def check_order(self, hook: Hook) -> None:
        """Refuse a new hook whose `before` and `after` contradict those of others.

        Raises:
            HookOrderError: They do.
        """
        if self.mentions.may_close_cycle(hook):
            for members in self.chains():
                arrange([*(one for one in members if one.kind == hook.kind), hook], self.name)

    def count(self, hook: Hook, step: int) -> None:
        """Count what a hook mentions in (1) or out (-1); under the lock."""
        if not hook.again or hook.before or hook.after:
            if self.mentions is NO_MENTIONS:
                self.mentions = Mentions()
            self.mentions.count(hook, step)

    # Removing

    @entrance
    def remove(self, hook: Hook | Callable[..., Any] | str) -> None:
        """Remove a hook by its handle, or every hook of a function or a name.

        Raises:
            HookLookupError: There is none. (A handle may be removed twice.) Or hooks of several modules have the name.
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
    def discard(self, hooks: tuple[Hook, ...]) -> None:
        """Remove hooks; those that are gone already are skipped."""
        gone = {*hooks}
        off = [hook for hook in self._members if hook in gone]

        def store() -> None:
            while True:  # as in `insert`
                before = self._members
                after = tuple([hook for hook in before if hook not in gone])
                if self._members is before:
                    self._members = after
                    return

        if off:
            self._change(store)
        for hook in off:
            self.count(hook, -1)

    def clear(self) -> None:
        """Remove all hooks."""
        self.discard(self._members)

    # Pausing

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
    def regate(self, hook: Hook, gate: Predicate | None, *, paused: bool) -> None:
        """Change for which calls a hook acts."""

        def store() -> None:
            hook.gate, hook.paused = gate, paused
            hook.reshape()

        if hook in self._members and (hook.paused, hook.gate) != (paused, gate):
            self._change(store)

    @under_lock
    def count_failure(self, hook: Hook) -> None:
        """Count a failure of an isolated hook."""
        hook.failures += 1


# The decorators


@final
class KindHooks(Attribute):
    """The hooks of one kind as they are now, in the order in which they run; called as a decorator, it adds one."""

    __slots__ = ("_kind", "_mount")

    def __init__(self, mount: Members, kind: Kind) -> None:
        self._mount = mount
        self._kind: Kind = kind

    # A class is callable too, which is why the types of exceptions come first.
    @overload
    def __call__(self, /, *types: Types, **options: Unpack[Adding]) -> Callable[[AnyHook], AnyHook]: ...
    @overload
    def __call__(self, hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...
    # Any: callers see the overloads alone.
    @entrance
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Add a hook of this kind, as ``@f.pre`` or ``@f.pre(priority=...)`` does."""
        return attach(self._mount, self._kind, args, cast("Adding", options))

    def _hooks(self) -> tuple[Hook, ...]:
        return arrange(hook for hook in self._mount.members if hook.kind == self._kind)

    def __iter__(self) -> Iterator[Hook]:
        return iter(self._hooks())

    def __len__(self) -> int:
        return len(self._hooks())

    def __getitem__(self, place: int) -> Hook:
        return self._hooks()[place]

    def __contains__(self, hook: object) -> bool:
        key = key_of(self._mount.unbound(hook))
        return any(key in one.keys for one in self)

    def found_at(self) -> tuple[FunctionType | None, str]:
        """Return the function whose attribute it is, or None, and the name of the attribute."""
        return self._mount.ref(), self._kind

    def __repr__(self) -> str:
        return f"<{self._kind} hooks of {self._mount.name}: {', '.join([hook.name for hook in self]) or 'none'}>"


def attach(mount: Members, kind: Kind, args: tuple[Any, ...], options: Adding) -> Any:
    """Add a hook in decorator form: bare, or with options, and for exception hooks with the types they take."""
    types: tuple[type[BaseException], ...] = ()
    rest = args
    while rest and kind == "exception" and _types(rest[0]):
        types += _types(rest[0])
        rest = rest[1:]
    if len(rest) > 1:
        raise HookTypeError(
            f"{mount.name}: .{kind} takes one hook, and its options by name; it was given {len(rest)} things: "
            f"{', '.join(map(brief, rest))[:200]}"
        )
    if rest:
        if kind == "exception" and isinstance(rest[0], type):  # `@f.exception(int)`: it is meant as a type, not a hook
            check_types(kind, rest, mount.name)
        mount.add_hook(kind, rest[0], types, options, direct=True)
        return rest[0]

    @entrance
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        mount.add_hook(kind, function, types, options.copy(), direct=True)
        return function

    return add


def check_types(kind: Kind, types: tuple[object, ...], label: str) -> None:
    """Refuse types that are not exception types.

    Raises:
        HookTypeError: One is not; or this is not an exception hook, and takes none.
    """
    if types and kind != "exception":
        raise HookTypeError(f"{label}: only exception hooks take exception types, and this is a hook for {kind}")
    unfit: list[object] = [one for one in types if not _types(one) or isinstance(one, tuple)]
    if unfit:
        raise HookTypeError(f"{label}: {brief(unfit[0])} is not an exception type; give classes such as KeyError")


def _types(value: object) -> tuple[type[BaseException], ...]:
    """Return the exception types that a value consists of, one or several; () if it is anything else."""
    row = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
    fits = row and all(isinstance(one, type) and issubclass(one, BaseException) for one in row)
    return cast("tuple[type[BaseException], ...]", row) if fits else ()


def _kind_property(kind: Kind) -> property:
    return property(lambda mount: KindHooks(mount, kind), doc=f"The {kind} hooks, in the order in which they run.")


for _kind in KINDS:
    setattr(Members, _kind, _kind_property(_kind))
