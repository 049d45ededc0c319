"""Where objects are: the modules that can be searched, and the names in them under which an object is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import repeat
from operator import is_
from types import ModuleType

from aspecthook._core.mount.occupancy import GONE, Occupancy
from aspecthook._hints import Any, ParamSpec, TypeVar, cast, final

P = ParamSpec("P")
T = TypeVar("T")

# What is in a namespace under a name that it does not have.
ABSENT: Any = object()

# What a weaving runs on cannot be woven; what is built on it can.
_OURS = ("aspecthook._", "aspecthook.torch._", "aspecthook.weave", "wrapt.")


def is_ours(module: object) -> bool:
    """Whether the name is that of a module that weaving itself runs on."""
    return isinstance(module, str) and (module in ("aspecthook", "wrapt") or module.startswith(_OURS))


def modules() -> list[tuple[str, ModuleType]]:
    """Return the imported modules by name, except ours. Anything may be put into `sys.modules`."""
    loaded: Any = list(sys.modules.copy().items())
    return [(name, one) for name, one in loaded if issubclass(type(one), ModuleType) and not is_ours(name)]


def space_of(owner: Any) -> dict[str, Any]:
    """Return the namespace of a module or a class, without loading a lazy module."""
    lazy = isinstance(owner, ModuleType)
    return cast("dict[str, Any]", object.__getattribute__(owner, "__dict__") if lazy else vars(owner))


@final
class Entry(Occupancy):
    """One name in the namespace of a module, a class or an object, held weakly."""

    __slots__ = ("before", "name", "ours", "owner")

    def __init__(self, owner: Callable[[], Any], name: str, before: object) -> None:
        super().__init__()
        self.owner = owner
        self.name = name
        self.ours: object = None
        self.before = before  # `ABSENT` if there was nothing

    def now(self) -> object:
        """Return what is there."""
        owner = self.owner()
        return GONE if owner is None else space_of(owner).get(self.name, ABSENT)

    def put(self, value: object) -> None:
        """Put something there."""
        owner = self.owner()
        if value is not self.before:
            self.ours = value
        if isinstance(owner, type):
            type.__delattr__(owner, self.name) if value is ABSENT else type.__setattr__(owner, self.name, value)
        elif owner is not None:
            write_entry(space_of(owner), self.name, value)

    def is_ours(self, value: object) -> bool:
        """Whether this is what we have put there last."""
        return self.ours is not None and value is self.ours


def write_entry(space: dict[str, Any], name: str, value: object) -> None:
    """Write an entry of a namespace, or take it out."""
    if value is ABSENT:
        space.pop(name, None)
    else:
        space[name] = value


# While an indexed function runs: the places of all objects by their `id`, found for the fourth object that is looked
# for; and how many have been looked for.
_index: dict[int, list[tuple[ModuleType, str]]] | None = None
_asked = 0


def places(value: object) -> Iterator[tuple[ModuleType, str]]:
    """Yield every place in an imported module where an object is kept, except in ours."""
    global _asked  # noqa: PLW0603  # under the lock
    _asked += 1
    if _index is None or _asked < 4:
        for _, module in modules():
            space = space_of(module)
            # A program has a hundred thousand names, so that a loop in Python is left to the few modules that have the
            # object. `in` alone would compare with `==`, which an array answers with an array.
            if True in map(is_, list(space.values()), repeat(value)):
                yield from ((module, word) for word, held in list(space.items()) if held is value)
        return
    if not _index:
        for _, module in modules():
            for word, held in list(space_of(module).items()):
                _index.setdefault(id(held), []).append((module, word))
    for module, word in _index.get(id(value), ()):
        if space_of(module).get(word) is value:  # unless the name has been assigned since
            yield module, word


def indexed(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function that may look for the places of many objects; under the lock."""

    @wraps(function)
    def look(*args: P.args, **kwargs: P.kwargs) -> T:
        global _index, _asked  # noqa: PLW0603  # under the lock
        before = _index
        if before is None:
            _index, _asked = {}, 0
        try:
            return function(*args, **kwargs)
        finally:
            _index = before

    return look
