"""What is known of proxies before there is one: how they are called, and that a value is none.

Their classes are loaded when the first is needed. They are wrapt's, which imports asyncio; that takes longer than many
a program runs that weaves Python functions alone.
"""

from __future__ import annotations

from aspecthook._hints import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from types import ModuleType

# How a member of a class becomes callable: by binding to the instance, to the class, or not at all. "read" is for those
# that return a value instead.
Binding: TypeAlias = Literal["instance", "class", "none", "read"]


def bind(descriptor: object, instance: object, owner: type[Any] | None) -> Any:
    """Return what a member of a class is when it is taken from an instance or the class."""
    get = getattr(type(descriptor), "__get__", None)
    return descriptor if get is None else get(descriptor, instance, owner)


_loaded: ModuleType | None = None


def load_proxies() -> None:
    """Load the classes; without the lock, since an import under it could wait for a thread that waits for the lock."""
    global _loaded  # noqa: PLW0603  # once
    if _loaded is None:
        from . import proxy

        _loaded = proxy


def is_proxy(value: object) -> bool:
    """Whether a value is one of our proxies in the place of a callable."""
    return _loaded is not None and issubclass(type(value), _loaded.Proxy)
