"""How hooks are added: the decorator form, and the hooks of one kind, which are decorators too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, Unpack, cast, final, overload

from aspecthook._core.law.asks import Kind
from aspecthook._core.law.callables import identity, name_of
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.options import Adding
from aspecthook._errors import HookTypeError, brief, entrance, printable

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

AnyHook = TypeVar("AnyHook", bound=Callable[..., object])
Types: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...]"


class Adds(Protocol):
    """What hooks can be added to: a mount point."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    def attach(
        self,
        kind: Kind,
        function: Callable[..., object],
        types: tuple[type[BaseException], ...],
        options: Adding,
        *,
        lasting: bool,
    ) -> Hook:
        """Add a hook; one that is `lasting` is meant to stay, as nobody is given its handle."""
        ...

    def unbound(self, function: Any) -> Any:
        """Return the function that is kept for a hook; for an instance, its own methods without it."""
        ...


@final
class KindHooks(tuple[Hook, ...]):
    """The hooks of one kind, in their order; called as a decorator, it adds one."""

    _mount: Adds
    _kind: Kind

    # A class is callable too, which is why the types of exceptions come first.
    @overload
    def __call__(self, /, *types: Types, **options: Unpack[Adding]) -> Callable[[AnyHook], AnyHook]: ...
    @overload
    def __call__(self, hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...
    # Any: the overloads say what is taken and given; nobody outside sees this line.
    @entrance
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Add a hook, as the attributes of a hookable function do."""
        return attach(self._mount, self._kind, args, cast("Adding", options))

    def __contains__(self, hook: object) -> bool:
        return any(is_meant(one, self._mount.unbound(hook)) for one in self)


def is_meant(hook: Hook, meant: object) -> bool:
    """Whether a hook is meant by a handle, a function or a name."""
    if isinstance(meant, str):
        return hook.name == printable(meant)
    return hook is meant or (not isinstance(meant, Hook) and identity(meant) in hook.keys)


def shown_name(meant: object) -> str:
    """Return a handle, a function or a name as messages show it."""
    return repr(meant if isinstance(meant, str) else meant.name if isinstance(meant, Hook) else name_of(meant))


def attach(mount: Adds, kind: Kind, args: tuple[Any, ...], options: Adding) -> Any:
    """Add a hook in decorator form: bare, or with options, and for exception hooks with the types they take."""
    types: list[type[BaseException]] = []
    rest = list(args)
    while rest and kind == "exception" and _types(rest[0]):
        types.extend(_types(rest.pop(0)))
    if len(rest) > 1:
        raise HookTypeError(
            f"{mount.name}: .{kind} takes one hook, and its options by name; it was given {len(rest)} things: "
            f"{', '.join(map(brief, rest))[:200]}"
        )

    @entrance
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        mount.attach(kind, function, tuple(types), {**options}, lasting=True)
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
        raise HookTypeError(f"{label}: {brief(unfit[0])} is no exception type; give classes such as KeyError")


def _types(value: object) -> tuple[type[BaseException], ...]:
    row = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
    fits = row and all(isinstance(one, type) and issubclass(one, BaseException) for one in row)
    return cast("tuple[type[BaseException], ...]", row) if fits else ()
