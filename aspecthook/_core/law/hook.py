"""The hook: one callable on one mount point, with its kind, its place in the order and its conditions."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self, final

from aspecthook._errors import HookOptionError, HookTypeError, article, brief, printable

from .asks import Asks, Kind, Resolver, check_flavour, flavour_of
from .call import Site
from .callables import code_of, identity, name_of, who_is
from .guard import Entry, Guard
from .options import Handle, Options, key_of, read, read_name, several
from .records import NamedTuple
from .weak import Mention, together, weakly, weakly_asked

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class Gate(NamedTuple):
    """A condition that whoever attaches a hook puts on it, checked before its own `when`."""

    holds: Callable[..., bool]
    asks: Asks = ()


@final
class Who:
    """A hook as messages name it; the text is made only if a message is."""

    __slots__ = ("_function", "_kind", "_label", "_name")

    def __init__(self, label: str, kind: str, name: str, function: object) -> None:
        self._label = label
        self._kind = kind
        self._name = name
        self._function = function

    def __str__(self) -> str:
        return f"{self._label}: {who_is(self._kind, self._name, self._function)}"


def check_options(kind: Kind, function: Callable[..., Any], options: Options, label: str) -> None:
    """Check the options of a hook that is added later.

    Raises:
        HookTypeError: An option is unknown, or has the wrong type.
        HookOptionError: An option has a value that it cannot have.
    """
    read(options, Who(label, kind, read_name(options, function, kind, label), function))


class Owner(Protocol):
    """What a hook knows of its mount point."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    def discard(self, hooks: tuple[Hook, ...]) -> None:
        """Remove hooks; those that are gone already are passed over."""
        ...

    def count_failure(self, hook: Hook) -> None:
        """Count a failure of an isolated hook."""
        ...


@final
class Hook(Handle):
    """One callable on one mount point: what iterating `hooks(f)` yields, and the handle to remove it by.

    As a context manager it is removed at the end of the block. Its ``kind``, ``name``, ``function``, ``priority`` (0
    to 100) and ``failures`` (how often it failed isolated) can be read.

    Example:
        >>> from aspecthook import hookable, hooks
        >>> @hookable
        ... def double(n):
        ...     return 2 * n
        >>> hook = hooks(double).add("post", lambda result: result + 1, name="increase", priority="LOW")
        >>> hook.kind, hook.name, hook.priority, double(2)
        ('post', 'increase', 70, 5)
        >>> hook.remove()
        >>> double(2)
        4
    """

    __slots__ = (
        "__weakref__",
        "_mount",
        "added",
        "after",
        "again",
        "asks",
        "before",
        "doubts",
        "failures",
        "flavour",
        "function",
        "gate",
        "gate_asks",
        "guard",
        "inner",
        "isolate",
        "keys",
        "kind",
        "name",
        "options",
        "paused",
        "priority",
        "ref",
        "shape",
        "types",
        "when",
        "when_asks",
        "when_awaits",
        "when_key",
        "word",
    )

    def __init__(
        self,
        kind: Kind,
        function: Callable[..., Any],
        *,
        added: int,
        types: tuple[type[BaseException], ...],
        site: Site,
        mount: Owner,
        options: Options,
        unbound: Callable[[Any], Any] | None = None,
        gate: Gate | None = None,
        again: bool = True,
    ) -> None:
        if not callable(function):
            raise HookTypeError(
                f"{site.label}: {brief(function)} is not callable and cannot be {article(kind)} {kind} hook; give a "
                "function"
            )
        self.kind: Kind = kind
        emission = site.signature.emission
        # What messages call its kind.
        self.word: str = emission.word if kind == "on" and emission is not None else kind
        self.function = function
        of_instance = when_of_instance = False
        if unbound is not None:
            self.function = unbound(function)
            of_instance = self.function is not function
            when, options = options.get("when"), _unbound(options, unbound)
            when_of_instance = options.get("when") is not when
        self.name = read_name(options, function, kind, site.label)
        self.options = options
        self.added = added
        # Whether the same callable may be another hook beside this one. What weavings and plugins put on may: they have
        # books of their own, and take their hooks off without asking whether somebody has added them too.
        self.again = again
        self.types = types
        self.paused = False
        self.failures = 0
        self._mount = weakref.ref(mount)
        who = Who(site.label, self.word, self.name, self.function)
        conditions = read(options, who)
        self.keys: tuple[object, ...] = (self.name, identity(self.function), id(self))
        self.priority = conditions.priority
        self.before, self.after = conditions.before, conditions.after
        self.isolate = conditions.isolate
        self.when = conditions.when
        self.when_key = None if self.when is None else identity(self.when)
        counts = conditions.times, conditions.every, conditions.reentrant
        self.guard = None if counts == (None, None, True) else Guard(*counts, self)
        self._resolve(site, who, of_instance=of_instance, when_of_instance=when_of_instance)
        # The parts of a hook that is held weakly.
        self.ref: Callable[[], Any] | None = None
        self.inner: Callable[..., Any] | None = None
        if conditions.weak:
            self._hold_weakly(who)
        self.set_gate(gate)

    def _resolve(self, site: Site, who: Who, *, of_instance: bool, when_of_instance: bool) -> None:
        resolver = Resolver(self.kind, site.label, site.signature, who)
        self.flavour = flavour_of(self.function)
        self.asks: Asks = resolver.resolve(self.function, of_instance=of_instance)
        # What is to be warned of where somebody adds this hook to this function, and not to many by a pattern.
        self.doubts = tuple(resolver.doubts())
        check_flavour(self.kind, self.function, self.flavour, self.asks, site.signature, site.label, resolver.who)
        if self.kind == "around" and self.isolate:
            raise HookOptionError(
                f"{resolver.who} cannot be isolated: what an around hook raises cannot be told from what the target "
                f"raised through it; catch in the hook itself, or use a pre and a post hook"
            )
        self.when_asks: Asks | None = None
        self.when_awaits = False
        when_flavour = "plain"
        if self.when is not None:
            of_when = Resolver(self.kind, site.label, site.signature, f"{who}: its `when`", predicate=True)
            self.when_asks = of_when.resolve(self.when, of_instance=when_of_instance)
            when_flavour = flavour_of(self.when)
            awaiting = ("coroutine",) if self.kind == "around" else ("coroutine", "async generator")
            if when_flavour != "plain" and (when_flavour != "async" or site.signature.style not in awaiting):
                raise HookTypeError(f"{of_when.who} is {when_flavour}, and its answer would always be true")
            self.when_awaits = when_flavour == "async"
            self.doubts += tuple(of_when.doubts())

    def _hold_weakly(self, who: Who) -> None:
        if self.kind == "around":
            raise HookOptionError(
                f"{who} cannot be weak: once it is gone, nothing would run the target; use pre and post hooks"
            )
        seen = weakref.ref(self)

        def gone(_: object, ending: Callable[[], bool] = sys.is_finalizing) -> None:
            hook = seen()
            if hook is not None and not ending():
                hook.remove()

        function = self.function
        self.ref, self.inner, self.function = weakly(function, name_of(function), code_of(function), who, gone)
        # What it gives once it is gone cannot be awaited: whoever calls it looks first.
        self.flavour = "plain"
        options = self.options.copy()
        when = options.get("when")
        if when is not None:
            self.when = options["when"] = weakly_asked(
                when, self.ref(), name_of(when), code_of(when), awaits=self.when_awaits
            )
        if self.before:
            self.before = options["before"] = _mentioned(options.get("before"))
        if self.after:
            self.after = options["after"] = _mentioned(options.get("after"))
        self.options = options

    def set_gate(self, gate: Gate | None) -> None:
        """Let the hook act only while a gate is open; None: always."""
        self.gate = gate.holds if gate is not None else None
        self.gate_asks = gate.asks if gate is not None else None
        self.reshape()

    def reshape(self) -> None:
        """Store what the source of its call depends on."""
        self.shape = (
            self.kind,
            self.asks,
            self.flavour,
            self.types == (Exception,),
            self.gate_asks,
            self.when_asks,
            self.when_awaits,
            self.guard is not None,
            self.isolate,
            self.leaves,
            self.ref is not None,
            self.inner is not None,
        )

    def settings(self) -> dict[str, object]:
        """Return what the options come to, so that two hooks of one callable can be compared."""
        guard = self.guard
        return {
            "name": self.name,
            "priority": self.priority,
            "before": frozenset(self.before),
            "after": frozenset(self.after),
            "when": self.when_key,
            "times": guard and guard.times,
            "every": guard and guard.every,
            "reentrant": guard is None or guard.reentrant,
            "isolate": self.isolate,
            "weak": self.ref is not None,
        }

    def is_again(self, other: Hook) -> bool:
        """Whether another hook is made of the same callable, and is of the same kind and for the same exceptions."""
        same = self.kind == other.kind and self.keys[1] == other.keys[1] and {*self.types} == {*other.types}
        return same and (self.ref is None or self.ref() is not None)  # else the key is that of something else by now

    def mentioned(self) -> Iterator[tuple[str, object, object]]:
        """Return what `before` and `after` name: the option, the key, and what was given."""
        for option, keys in (("before", self.before), ("after", self.after)):
            for key, one in zip(keys, several(self.options.get(option)), strict=False):
                yield option, key, one() if isinstance(one, Mention) else one

    @property
    def who(self) -> str:
        """Describe the hook as messages do: its kind, its name, its file and line."""
        return who_is(self.word, self.name, self.function)

    @property
    def meant(self) -> Callable[..., Any]:
        """What was added: `function`, or what that calls if the hook is weak and it is still there."""
        owner = self.ref() if self.ref is not None else None
        return self.function if owner is None else owner if self.inner is None else together(owner, self.inner)

    @property
    def leaves(self) -> bool:
        """Whether the end of each run must be noted, as the hook is not reentrant."""
        return self.guard is not None and not self.guard.reentrant

    @property
    def proceeds(self) -> bool:
        """Whether this around hook asks for `proceed` (or else yields once)."""
        return any(what == "proceed" for _, what in self.asks)

    def admit(self) -> Entry | bool:
        """Whether the hook's counts let it run now; a hook with ``reentrant=False`` returns its entry."""
        return self.guard is None or self.guard.admit()

    def failed(self, error: Exception) -> None:
        """Log and count what an isolated hook raised."""
        import logging

        mount = self._mount()
        label = "a mount point that is gone"
        if mount is not None:
            label = mount.name
            mount.count_failure(self)
        logging.getLogger("aspecthook").error("%s: %s failed and was passed over", label, self.who, exc_info=error)

    def remove(self) -> None:
        """Remove this hook; if it was removed before, do nothing."""
        mount = self._mount()
        if mount is not None:
            mount.discard((self,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __deepcopy__(self, memo: object) -> Self:
        return self  # a second handle would remove nothing

    def __repr__(self) -> str:
        return f"<{self.who}, priority {self.priority}>"


def _unbound(options: Options, unbound: Callable[[Any], Any]) -> Options:
    """Return the options without an instance that they must not keep alive."""
    if options.keys().isdisjoint(("when", "before", "after")):
        return options
    kept = options.copy()
    if options.get("when") is not None:
        kept["when"] = unbound(options.get("when"))
    if options.get("before") is not None:
        kept["before"] = [unbound(one) for one in several(options.get("before"))]
    if options.get("after") is not None:
        kept["after"] = [unbound(one) for one in several(options.get("after"))]
    return kept


def _mentioned(value: object) -> tuple[object, ...]:
    """Return what ``before`` or ``after`` mean without keeping it alive; it serves as keys too."""
    return tuple([printable(one) if isinstance(one, str) else Mention(one, key_of(one)) for one in several(value)])
