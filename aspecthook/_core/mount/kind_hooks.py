"""The hooks of one kind, such as ``f.pre``: a sequence of them, and the decorator that adds one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType

from aspecthook._core.compile.copies import Attribute
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Adding, key_of
from aspecthook._core.law.order import arrange
from aspecthook._errors import HookTypeError, brief, entrance
from aspecthook._hints import Any, TypeAlias, TypeVar, Unpack, cast, final, overload

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

AnyHook = TypeVar("AnyHook", bound=Callable[..., object])
Types: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...]"


@final
class KindHooks(Attribute):
    """The hooks of one kind as they are now, in the order in which they run; called as a decorator, it adds one."""

    __slots__ = ("_kind", "_mount")

    # Any: a mount point, whose module imports this one.
    def __init__(self, mount: Any, kind: Kind) -> None:
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
        """Add a hook of this kind, as ``@f.pre`` or ``@f.pre(priority=...)`` does.

        The options are those of `add`. An exception hook takes the types that it is for before them.
        """
        mount, kind = self._mount, self._kind
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
            if kind == "exception" and isinstance(rest[0], type):  # `@f.exception(int)`: a type is meant, not a hook
                check_types(kind, rest, mount.name)
            mount.add_hook(kind, rest[0], types, options, direct=True)
            return rest[0]

        @entrance
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            mount.add_hook(kind, function, types, options.copy(), direct=True)
            return function

        return add

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


def check_types(kind: Kind, types: tuple[object, ...], label: str) -> None:
    """Refuse types that are not exception types.

    Raises:
        HookTypeError: One is not; or this is not an exception hook, and takes none.
    """
    if kind != "exception":
        raise HookTypeError(f"{label}: only exception hooks take exception types, and this is a hook for {kind}")
    unfit: list[object] = [one for one in types if not _types(one) or isinstance(one, tuple)]
    if unfit:
        raise HookTypeError(f"{label}: {brief(unfit[0])} is not an exception type; give classes such as KeyError")


def _types(value: object) -> tuple[type[BaseException], ...]:
    """Return the exception types that a value consists of, one or several; () if it is anything else."""
    row = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
    fits = row and all(isinstance(one, type) and issubclass(one, BaseException) for one in row)
    return cast("tuple[type[BaseException], ...]", row) if fits else ()
