"""The hook: one callable on one mount point, with its kind, its place in the order and its conditions."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self, cast, final

from aspecthook._core.mount.lock import under_lock
from aspecthook._errors import HookOptionError, HookTypeError, article, brief, nearest, printable

from .asks import Asks, Kind, Resolver, check_flavour, flavour_of
from .call import Site
from .callables import code_of, identity, name_of, who_is
from .guard import Guard, Run
from .records import NamedTuple, TypedDict
from .weak import Mention, together, weakly, weakly_asked

if TYPE_CHECKING:
    from aspecthook._core.mount.point import MountPoint

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class Priority(IntEnum):
    """The names of priorities; the lowest number runs first.

    Example:
        >>> Priority.HIGH < Priority.NORMAL
        True
    """

    HIGHEST = 0
    VERY_HIGH = 10
    HIGH = 30
    ABOVE_NORMAL = 40
    NORMAL = 50
    BELOW_NORMAL = 60
    LOW = 70
    VERY_LOW = 90
    LOWEST = 100


class Options(TypedDict, total=False):
    """The conditions of a hook, all optional."""

    name: str
    priority: int | str
    before: object
    after: object
    when: Callable[..., object]
    once: bool
    times: int
    every: int
    isolate: bool
    reentrant: bool
    weak: bool


OPTIONS = tuple(Options.__annotations__)


class Adding(Options, total=False):
    """What a hook may be added with: its conditions, and whether it may be added a second time."""

    again: bool


class Gate(NamedTuple):
    """A condition that whoever attaches a hook puts on it, checked before its own `when`."""

    holds: Callable[..., bool]
    asks: Asks = ()


def priority_of(value: object, who: object) -> int:
    """Turn a priority, an int from 0 to 100 or a name in any case, into its number.

    Raises:
        HookTypeError: It is neither an int nor a string.
        HookOptionError: It is out of range, or no priority has that name.
    """
    if isinstance(value, str):
        names = list(Priority.__members__)
        if value.upper() not in names:
            raise HookOptionError(
                f"{who} has the priority {brief(value)}, which is none of "
                f"{', '.join(names)}{nearest(value.upper(), names)}"
            )
        return Priority[value.upper()].value
    if not isinstance(value, int) or isinstance(value, bool):
        raise HookTypeError(f"{who} has a priority of type {type(value).__name__}; give an int from 0 to 100 or a name")
    if not 0 <= value <= 100:
        raise HookOptionError(f"{who} has the priority {brief(value)}; give an int from 0 (first) to 100 (last)")
    return int(value)


@final
class Who:
    """Names a hook in messages; the text is made only if a message is."""

    __slots__ = ("_hook", "_label")

    def __init__(self, label: str, hook: Hook) -> None:
        self._label = label
        self._hook = hook

    def __str__(self) -> str:
        return f"{self._label}: {self._hook.who}"


def check_options(kind: Kind, function: Callable[..., Any], options: Options, label: str) -> None:
    """Say now what is wrong with the options of a hook that is added later.

    Raises:
        HookTypeError: An option is unknown, or has the wrong type.
        HookOptionError: An option has a value that it cannot have.
    """
    hook = Hook.__new__(Hook)
    hook.kind, hook.function, hook.name = kind, function, _name(options, function, kind, label)
    hook.word = kind
    hook._read_options(options, Who(label, hook))


@final
class Hook:
    """One callable on one mount point: what `hooks(f)` gives when it is iterated, and the handle to take it off.

    As a context manager it is taken off at the end of the block. Its ``kind``, ``name``, ``function``, ``priority`` (0
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
        mount: MountPoint,
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
        self.word: str = kind
        self.function = function
        of_instance = when_of_instance = False
        if unbound is not None:
            self.function = unbound(function)
            of_instance = self.function is not function
            when, options = options.get("when"), _unbound(options, unbound)
            when_of_instance = options.get("when") is not when
        self.name = _name(options, function, kind, site.label)
        self.options = options
        self.added = added
        # Whether the same callable may be another hook beside this one. What weavings and plugins put on may: they have
        # books of their own, and take their hooks off without asking whether somebody has added them too.
        self.again = again
        self.types = types
        self.paused = False
        self.failures = 0
        self._mount = weakref.ref(mount)
        who = Who(site.label, self)
        self._read_options(options, who)
        self._resolve(site, who, of_instance=of_instance, when_of_instance=when_of_instance)
        # The parts of a hook that is held weakly.
        self.ref: Callable[[], Any] | None = None
        self.inner: Callable[..., Any] | None = None
        if _flag(options, "weak", who):
            self._hold_weakly(who)
        self.set_gate(gate)

    def _read_options(self, options: Options, who: Who) -> None:
        self.keys: tuple[object, ...] = (self.name, identity(self.function), id(self))
        if not options:
            self.priority = int(Priority.NORMAL)
            self.before: tuple[object, ...] = ()
            self.after: tuple[object, ...] = ()
            self.isolate, self.when, self.when_key, self.guard = False, None, None, None
            return
        unknown = sorted(options.keys() - set(OPTIONS))
        if unknown:
            raise HookTypeError(
                f"{who} has an option {unknown[0]!r}, which is none of {', '.join(OPTIONS)}"
                f"{nearest(unknown[0], list(OPTIONS))}"
            )
        self.priority = priority_of(options.get("priority", Priority.NORMAL), who)
        self.before = _keys(options.get("before"), who, "before")
        self.after = _keys(options.get("after"), who, "after")
        self.isolate = _flag(options, "isolate", who)
        self.when = options.get("when")
        self.when_key = None if self.when is None else identity(self.when)
        if self.when is not None and not callable(self.when):
            raise HookTypeError(f"{who} has a `when` that is not callable: {brief(self.when)}; give a predicate")
        times = _count(options, "times", who)
        if _flag(options, "once", who):
            if times not in (None, 1):
                raise HookOptionError(f"{who} has once=True and times={times}, which contradict each other; give one")
            times = 1
        every = _count(options, "every", who)
        reentrant = _flag(options, "reentrant", who, default=True)
        guarded = times or every or not reentrant
        self.guard = Guard(times, every, reentrant, self) if guarded else None

    def _resolve(self, site: Site, who: Who, *, of_instance: bool, when_of_instance: bool) -> None:
        resolver = Resolver(self.kind, site.label, site.signature, who)
        self.word = resolver.word
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
        """Let it act only while a gate is open."""
        self.gate = gate.holds if gate is not None else None
        self.gate_asks = gate.asks if gate is not None else None
        self.reshape()

    def reshape(self) -> None:
        """Note what the text of its call depends on."""
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
            for key, one in zip(keys, _several(self.options.get(option)), strict=False):
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
        """Say whether the end of each run must be noted, as the hook is not reentrant."""
        return self.guard is not None and not self.guard.reentrant

    @property
    def proceeds(self) -> bool:
        """Say whether this around hook asks for `proceed` (or else yields once)."""
        return any(what == "proceed" for _, what in self.asks)

    def admit(self) -> Run | bool:
        """Say whether the hook's counts let it run now."""
        return self.guard is None or self.guard.admit()

    def failed(self, error: Exception) -> None:
        """Log and count what an isolated hook raised."""
        import logging

        self._count_failure()
        mount = self._mount()
        label = mount.name if mount is not None else "a mount point that is gone"
        logging.getLogger("aspecthook").error("%s: %s failed and was passed over", label, self.who, exc_info=error)

    @under_lock
    def _count_failure(self) -> None:
        self.failures += 1

    def remove(self) -> None:
        """Take this hook off; once it is off, do nothing."""
        mount = self._mount()
        if mount is not None:
            mount._discard((self,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __deepcopy__(self, memo: object) -> Self:
        return self  # a second handle would remove nothing

    def __repr__(self) -> str:
        return f"<{self.who}, priority {self.priority}>"


def _name(options: Options, function: object, kind: str, label: str) -> str:
    name = cast("dict[str, object]", options).get("name")
    if name is None:
        return name_of(function)
    if not isinstance(name, str) or not name:
        who = who_is(kind, name_of(function), function)
        raise HookTypeError(f"{label}: {who} has the name {brief(name)}; give a string")
    return printable(name)


def _unbound(options: Options, unbound: Callable[[Any], Any]) -> Options:
    """Give the options without an instance that they must not keep alive."""
    if options.keys().isdisjoint(("when", "before", "after")):
        return options
    kept = options.copy()
    if options.get("when") is not None:
        kept["when"] = unbound(options.get("when"))
    if options.get("before") is not None:
        kept["before"] = [unbound(one) for one in _several(options.get("before"))]
    if options.get("after") is not None:
        kept["after"] = [unbound(one) for one in _several(options.get("after"))]
    return kept


def _keys(value: object, who: object, option: str) -> tuple[object, ...]:
    """Turn ``before`` or ``after`` (a name, a hook, its function, or several of them) into keys."""
    if value is None:
        return ()
    keys: list[object] = []
    for one in _several(value):
        if not isinstance(one, (str, Hook)) and not callable(one):
            raise HookTypeError(f"{who} has {option}={brief(one)}; give the name of a hook, or the hook itself")
        keys.append(_key(one))
    return tuple(keys)


def _several(value: object) -> tuple[object, ...]:
    several = isinstance(value, (list, tuple, set, frozenset))
    return tuple(cast("Iterable[object]", value)) if several else (value,)


def _key(one: object) -> object:
    return printable(one) if isinstance(one, str) else id(one) if isinstance(one, Hook) else identity(one)


def _mentioned(value: object) -> tuple[object, ...]:
    """Give what ``before`` or ``after`` mean without keeping it alive; it serves as keys too."""
    return tuple([printable(one) if isinstance(one, str) else Mention(one, _key(one)) for one in _several(value)])


def _flag(options: Options, option: str, who: object, *, default: bool = False) -> bool:
    value: object = options.get(option, default)
    if not isinstance(value, bool):
        raise HookTypeError(f"{who} has {option}={brief(value)}; give True or False")
    return value


def _count(options: Options, option: str, who: object) -> int | None:
    value: object = options.get(option)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise HookTypeError(f"{who} has {option}={brief(value)}; give a whole number")
    if value < 1:
        raise HookOptionError(f"{who} has {option}={brief(value)}; give a number from 1 up")
    return value
