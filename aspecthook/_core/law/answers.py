"""What a hook can answer besides a plain value: `Args` replaces arguments, `Return` sets the outcome."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast, final

from aspecthook._errors import HookAnswerError, literal, plural

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

T_co = TypeVar("T_co", covariant=True)


@final
class Args:
    """The answer of a pre hook that replaces arguments of the call, by name.

    The arguments that are not named stay as they are; everything that runs later in the call sees the new ones.

    Example:
        >>> Args(qty=1)
        Args(qty=1)
    """

    __slots__ = ("changes",)

    changes: dict[str, object]

    # Arguments are objects of any type: only the target knows which.
    def __init__(self, /, *unnamed: Any, **changes: Any) -> None:
        if unnamed:
            raise HookAnswerError(
                f"Args replaces arguments by name, and {plural(len(unnamed), 'value')} given to it "
                f"{'has' if len(unnamed) == 1 else 'have'} none; name it: Args(qty={literal(unnamed[0])})"
            )
        self.changes = changes

    def __repr__(self) -> str:
        return f"Args({', '.join(f'{name}={value!r}' for name, value in self.changes.items())})"

    def __eq__(self, other: object) -> bool:
        return self.changes == other.changes if type(other) is Args else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


@final
class Return(Generic[T_co]):
    """The answer that sets the outcome of the call, also to None.

    From a pre hook: the target does not run, this is the result. From an exception hook: the exception is handled, the
    caller gets this value. From a post hook: the result is this value.

    Example:
        >>> Return(0.0)
        Return(0.0)
    """

    __slots__ = ("value",)

    value: T_co

    def __init__(self, value: T_co) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Return({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return bool(self.value == cast("Return[object]", other).value) if type(other) is Return else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
