"""`NamedTuple` and `TypedDict` for the modules that `import aspecthook` loads.

For type checkers they are those of `typing`. Those check annotations when a class is made, which from 3.14 on imports
`annotationlib` and with it `ast`: a sixth of the time that `import aspecthook` takes. Ours only read the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple", "TypedDict"]

if TYPE_CHECKING:
    from typing import NamedTuple, TypedDict
else:
    from collections import namedtuple

    class _NamedTupleMeta(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(mcs, name, bases, space)
            fields = list(space["__annotations__"])
            defaults = [space.pop(field) for field in fields if field in space]
            base = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            return type(name, (base,), {**space, "__slots__": ()})

    class NamedTuple(metaclass=_NamedTupleMeta):
        """A tuple whose items have names."""

    class TypedDict(dict):
        """A dict whose keys are known."""

        def __init_subclass__(cls, *, total: bool = True) -> None:
            """Accept the keyword that type checkers read."""
