"""How hooks are added: the decorator form, `f.pre(...)`; and the hooks of one kind, which are decorators too."""

from __future__ import annotations

from collections.abc import Callable

from aspecthook._core.law.callables import name_of
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Adding, key_of
from aspecthook._errors import HookTypeError, brief, entrance
from aspecthook._hints import Any, Protocol, Self, TypeAlias, TypeVar, Unpack, cast, final, overload

AnyHook = TypeVar("AnyHook", bound=Callable[..., object])
Types: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...]"


class Adds(Protocol):
    """What hooks can be added to: `Members`, which is defined above this module."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    def add_hook(
        self,
        kind: Kind,
        function: Callable[..., object],
        types: tuple[type[BaseException], ...],
        options: Adding,
        *,
        direct: bool,
    ) -> Hook:
        """Add a hook; see `Members.add_hook`."""
        ...

    def unbound(self, function: Any) -> Any:
        """Return the function that is kept for a hook; for an instance, its own methods without it."""
        ...


@final
class KindHooks(tuple[Hook, ...]):
    """The hooks of one kind, in their order; called as a decorator, it adds one."""

    _mount: Adds
    _kind: Kind

    @classmethod
    def of(cls, hooks: tuple[Hook, ...], mount: Adds, kind: Kind) -> Self:
        """Return the hooks of one kind of a mount point."""
        # Not `__new__`, which `copy` calls with the hooks alone.
        self = cls(hooks)
        self._mount, self._kind = mount, kind
        return self

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

    def __contains__(self, hook: object) -> bool:
        key = key_of(self._mount.unbound(hook))
        return any(key in one.keys for one in self)


def shown_name(meant: object) -> str:
    """Return a handle, a function or a name as messages show it."""
    return repr(meant if isinstance(meant, str) else meant.name if isinstance(meant, Hook) else name_of(meant))


def attach(mount: Adds, kind: Kind, args: tuple[Any, ...], options: Adding) -> Any:
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
