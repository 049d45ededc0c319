"""The hook: one callable on one mount point, with its kind, its place in the order and its conditions.

The invariant: a hook that cannot work where it is added (by what it asks for, by its style or by its options) is
refused here, before anything has changed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count
from types import FunctionType

from aspecthook._errors import HookOptionError, HookTypeError, article, brief, printable
from aspecthook._hints import Any, NamedTuple, Self, final

from .answers import Args, Return
from .asks import Asker, Asks, check_style, plain_asks, resolve
from .call import Site
from .callables import CODE, code_of, identity, name_of, style_of, unwrap, who_is
from .guard import Entry, Guard, guard_for
from .kinds import Kind
from .options import DEFAULTS, Conditions, Handle, Options, meaning, read, read_name, several
from .signature import Style

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


# What an exception hook takes unless it names types; and what all hooks without options have.
EXCEPTION: tuple[type[BaseException], ...] = (Exception,)
_NO_OPTIONS: Options = {}

_added = count()

# Mount points are Any in this module, which theirs imports.


class Predicate(NamedTuple):
    """A condition of a hook: the user's `when`, or the gate of a weaving or a plugin, which is checked first."""

    holds: Callable[..., object]
    asks: Asks = ()
    awaits: bool = False


class Who(NamedTuple):
    """A hook as messages name it; the text is made only when a message is."""

    label: str
    kind: str
    name: str
    function: object

    def __str__(self) -> str:
        return f"{self.label}: {who_is(self.kind, self.name, self.function)}"


def check_options(kind: Kind, function: Callable[..., Any], options: Options, label: str) -> dict[str, object]:
    """Check the options of a hook that is added later, and return what they come to.

    Raises:
        HookTypeError: An option is unknown, or has the wrong type.
        HookOptionError: An option has a value that it cannot have.
    """
    name = read_name(options, function, kind, label)
    conditions = read(options, Who(label, kind, name, function))
    return meaning(name, conditions._replace(when=conditions.when and identity(conditions.when)))


class Maker:
    """The base of what is added as a hook and makes the function that runs, for each mount point anew."""

    kind: Kind = "around"
    # Where its hooks go in the chain; it may be before or after all that users can name.
    priority: int | None = None
    __name__: str

    def __init__(self, given: object) -> None:
        path: object = getattr(unwrap(given), "__qualname__", None)
        self.__name__ = name_of(given)
        if isinstance(path, str) and "<lambda>" not in path:
            # Of what `retry(...)` returns, the function that made it: its own is `retry.<locals>.wrap`.
            self.__name__ = printable(path.partition(".<locals>")[0].rpartition(".")[2])
        self.__dict__[CODE] = code_of(given)

    def fits(self, mount: Any) -> bool:  # noqa: ARG002  # for those that a weaving may leave out
        """Whether a mount point that is woven gets this hook."""
        return True

    def make(self, mount: Any, who: object) -> Callable[..., Any]:
        """Return the function that runs as the hook at a mount point; `who` names it in messages.

        Raises:
            HookTypeError: It could never work there.
        """
        raise NotImplementedError

    def dress(self, made: FunctionType) -> FunctionType:
        """Let a function that was made be known by what made it; return the function."""
        made.__name__ = made.__qualname__ = self.__name__
        setattr(made, CODE, self.__dict__[CODE])
        setattr(made, _MAKER, self)
        return made

    def __call__(self, *_: object, **__: object) -> Any:
        raise HookTypeError(
            f"{self.__name__!r} is {article(self.kind)} {self.kind} hook and no decorator; add it to a mount point, as "
            f"in f.{self.kind}(hook) or weave('shop:price', {self.kind}=hook)"
        )

    def __repr__(self) -> str:
        return f"<{self.kind} hook {self.__name__!r}>"


_MAKER = "__aspecthook_maker__"


def instead_of(value: object, kind: Kind) -> str:
    """Return what to give as a hook of a kind in place of a value that is not callable."""
    if isinstance(value, BaseException):
        return f"a function, or the type {type(value).__name__} for an exception hook of that type"
    if value is None or type(value) in (Args, Return):
        return "the function itself, without calling it"
    return "a function, or exception types such as KeyError" if kind == "exception" else "a function"


@final
class Hook(Handle):
    """One callable on one mount point, and the handle to remove it; `hooks(f)` yields these.

    Used as a context manager, it is removed at the end of the block. You can read its ``kind``, ``name``, ``function``,
    ``priority`` (0 to 100) and ``failures`` (how many of its exceptions were isolated).

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
        "again",
        "asks",
        "conditions",
        "doubts",
        "failures",
        "function",
        "gate",
        "guard",
        "identity",
        "kind",
        "name",
        "options",
        "paused",
        "shape",
        "style",
        "types",
        "when",
        "word",
        "woven_as",
    )

    def __init__(
        self,
        kind: Kind,
        function: Callable[..., Any],
        types: tuple[type[BaseException], ...],
        options: Options,
        mount: Any,
        gate: Predicate | None,
        *,
        again: bool,
    ) -> None:
        site = mount.site()
        if not callable(function):
            raise HookTypeError(
                f"{site.label}: {brief(function)} is not callable and cannot be {article(kind)} {kind} hook; "
                f"give {instead_of(function, kind)}"
            )
        self.kind: Kind = kind
        emission = site.signature.emission
        # What messages call its kind.
        self.word: str = emission.word if kind == "on" and emission is not None else kind
        self.name: str = read_name(options, function, kind, site.label) if options else name_of(function)
        self.types: tuple[type[BaseException], ...] = types
        # Whether the same callable may be another hook beside this one. Weavings and plugins add theirs so: they keep
        # lists of their own, and remove their hooks without asking whether somebody has added them too.
        self.again: bool = again
        self.added: int = next(_added)
        self.gate: Predicate | None = gate
        self.when: Predicate | None = None
        self.guard: Guard | None = None
        self.paused: bool = False
        self.failures: int = 0
        # The key by which a weaving finds a hook that it has added.
        self.woven_as: object = None
        # Warnings for where somebody adds this hook to this function, and not to many by a pattern.
        self.doubts: tuple[str, ...] = ()
        self._mount = weakref.ref(mount)
        self.function: Callable[..., Any] = function
        self.style: Style = "function"
        self.options: Options = options or _NO_OPTIONS
        # What the options come to, with keys in the place of objects.
        self.conditions: Conditions = DEFAULTS
        plain = None if options or mount.of_instance else plain_asks(function, kind, site)
        self.asks: Asks = () if plain is None else plain
        if plain is None:
            self._read(site, mount)
        else:
            # The key of its callable.
            self.identity: Any = _shared(identity(function))
        self.reshape()

    def _read(self, site: Site, mount: Any) -> None:
        """Read the callable and its options, and refuse what could never work here."""
        function, when = self.function, self.options.get("when")
        if mount.of_instance:
            self.function, self.options = mount.unbound(function), _unbound(self.options, mount.unbound)
        who = Who(site.label, self.word, self.name, self.function)
        conditions = self.conditions = read(self.options, who)
        self.identity = _shared(identity(self.function))
        is_method = self.function is not function
        if isinstance(self.function, Maker):
            self._make(self.function, mount, who)
        self.guard = guard_for(conditions, self)
        self.style = style_of(self.function)
        self.asks, self.doubts = resolve(self.function, Asker(self.kind, site, who, of_instance=is_method))
        if hasattr(self.function, _MAKER):
            self.doubts = ()  # what it asks for was not chosen by a user
        check_style(self.kind, self.function, self.style, self.asks, site, who)
        if self.kind == "around" and self.isolate:
            raise HookOptionError(
                f"{who} cannot be isolated: what an around hook raises cannot be distinguished from what the "
                f"target raised through it; catch in the hook itself, or use a pre and a post hook"
            )
        if conditions.when is not None:
            is_method = conditions.when is not when
            asker = Asker(self.kind, site, f"{who}: its `when`", predicate=True, of_instance=is_method)
            self.when = self._resolve_when(conditions.when, asker)
            self.conditions = self.conditions._replace(when=identity(conditions.when))

    def _make(self, maker: Maker, mount: Any, who: Who) -> None:
        """Put the function that runs, which is made for this mount point, in the place of what makes it."""
        if self.kind != maker.kind:
            kind = maker.kind
            raise HookTypeError(f"{who} is made to be {article(kind)} {kind} hook; add it with .{kind}(...) or {kind}=")
        if maker.priority is not None:
            self.conditions = self.conditions._replace(priority=maker.priority)
        self.function = maker.make(mount, who)

    def _resolve_when(self, when: Callable[..., object], asker: Asker) -> Predicate:
        """Return the hook's `when`, with what it asks for, and whether its answer is awaited."""
        asks, doubts = resolve(when, asker)
        self.doubts += doubts
        style = style_of(when)
        awaiting = ("coroutine",) if self.kind == "around" else ("coroutine", "async generator")
        if style != "function" and (style != "coroutine" or asker.site.signature.style not in awaiting):
            shown = "async" if style == "coroutine" else f"{article(style)} {style}"
            raise HookTypeError(f"{asker.who} is {shown}, so its answer would always be true; make it a plain function")
        return Predicate(when, asks, style == "coroutine")

    @property
    def priority(self) -> int:
        """The priority, from 0 to 100: the hook with the lowest one runs first."""
        return self.conditions.priority

    @property
    def isolate(self) -> bool:
        """Whether its failure is logged, and the call goes on."""
        return self.conditions.isolate

    def reshape(self) -> None:
        """Store what the source of its call depends on: hooks of one shape share one text."""
        gates = (self.gate and self.gate[1:], self.when and self.when[1:])
        guard = self.guard
        counts = None if guard is None else (self.skips is None, guard.reentrant)
        # A pre hook whose code has the name probably answers `Args`, or `Return`.
        code = code_of(self.function) if self.kind == "pre" else None
        names = () if code is None else code.co_names
        flags = (self.types == EXCEPTION, self.conditions.isolate, ("Args" in names, "Return" in names))
        self.shape: Any = _shared((self.kind, self.asks, self.style, gates, counts, *flags))

    @property
    def likely_answers(self) -> tuple[bool, bool]:
        """Whether a pre hook probably answers `Args`, and whether `Return`: whether its code has these names."""
        found: tuple[bool, bool] = self.shape[-1]
        return found

    def mentioned(self) -> Iterator[tuple[str, object, object]]:
        """Yield what `before` and `after` name: the option, the key, and the value that was passed."""
        for option, keys in (("before", self.conditions.before), ("after", self.conditions.after)):
            for key, one in zip(keys, several(self.options.get(option)), strict=False):
                yield option, key, one

    @property
    def keys(self) -> tuple[object, ...]:
        """What `before` and `after` of others may name it by."""
        return (self.name, self.identity, id(self))

    @property
    def who(self) -> str:
        """The hook as messages describe it: its kind, its name, its file and line."""
        return who_is(self.word, self.name, self.function)

    @property
    def meant(self) -> Callable[..., Any]:
        """The callable that was added: `function`, unless that was made of it."""
        found: Callable[..., Any] = getattr(self.function, _MAKER, self.function)
        return found

    @property
    def leaves(self) -> bool:
        """Whether the end of each run is recorded, because the hook is not reentrant."""
        return self.guard is not None and not self.guard.reentrant

    @property
    def skips(self) -> Iterator[object] | None:
        """What says of each call whether the hook skips it, if `every` is all that it counts."""
        return self.guard.skips if self.guard is not None and self.guard.counts_every_alone else None

    @property
    def proceeds(self) -> bool:
        """Whether this around hook asks for `proceed`; if not, it yields once."""
        return any(what == "proceed" for _, what in self.asks)

    def admit(self) -> Entry | bool:
        """Whether the hook's counts let it run now; a hook with ``reentrant=False`` returns its entry."""
        return self.guard is None or self.guard.admit()

    def failed(self, error: Exception) -> None:
        """Log and count an exception of an isolated hook."""
        import logging

        mount = self._mount()
        label = "a mount point that is gone" if mount is None else mount.name
        if mount is not None:
            mount.count_failure(self)
        logging.getLogger("aspecthook").error("%s: %s failed and was skipped", label, self.who, exc_info=error)

    def remove(self) -> None:
        """Remove this hook. Further calls do nothing."""
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

    def __dir__(self) -> list[str]:
        # What users may use: the other attributes serve the rooms above this one.
        return ["failures", "function", "kind", "name", "priority", "remove"]


@lru_cache(1024)
def _shared(key: object) -> Any:
    """Return one object for all that are equal: most hooks have one of a few shapes, and many the same callable."""
    return key


def _unbound(options: Options, unbound: Callable[[Any], Any]) -> Options:
    """Return options that do not keep alive the instance whose methods they are."""
    if options.keys().isdisjoint(("when", "before", "after")):
        return options
    kept = options.copy()
    if (when := options.get("when")) is not None:
        kept["when"] = unbound(when)
    if (before := options.get("before")) is not None:
        kept["before"] = [unbound(one) for one in several(before)]
    if (after := options.get("after")) is not None:
        kept["after"] = [unbound(one) for one in several(after)]
    return kept
