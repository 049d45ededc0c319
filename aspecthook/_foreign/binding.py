"""How a member of a class becomes callable, and what it is when it is taken from an instance or the class."""

from __future__ import annotations

from aspecthook._hints import Any, Literal, TypeAlias

# How a member of a class becomes callable: by binding to the instance, to the class, or not at all.
Binding: TypeAlias = Literal["instance", "class", "none"]


def bind(descriptor: object, instance: object, owner: type[Any] | None) -> Any:
    """Return what a member of a class is when it is taken from an instance or the class."""
    get = getattr(type(descriptor), "__get__", None)
    return descriptor if get is None else get(descriptor, instance, owner)
