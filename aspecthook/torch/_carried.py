"""What a woven module of PyTorch carries in its `__dict__`, and how copies and replicas are made without it.

The invariant: while there are hooks, the `__dict__` has `forward` or callbacks, put there by slots, and a few
attributes of ours; once the last hook is removed, it is as it was.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeAlias, cast, final

from aspecthook._core.compile.copies import MARK, carried_by
from aspecthook._core.law.callables import type_of
from aspecthook._errors import WeaveError

from ._own import OwnMountPoint

# Any: PyTorch may not be installed, and then its types are unknown.
Module: TypeAlias = Any
Tensor: TypeAlias = Any


def loaded_torch() -> Any:
    """Return PyTorch, if it has been imported; before that there is nothing to weave."""
    found: Any = sys.modules.get("torch")
    return found if hasattr(found, "nn") and hasattr(found, "Tensor") else None  # it may be in the middle of its import


def is_module(value: object) -> bool:
    """Whether a value is a module of PyTorch."""
    found = loaded_torch()
    return found is not None and isinstance(value, found.nn.Module)


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch."""
    found = loaded_torch()
    return found is not None and isinstance(value, found.Tensor)


def space_of(module: Module) -> dict[str, Any]:
    """Return the `__dict__` of a module."""
    return cast("dict[str, Any]", module.__dict__)


def shown_tensor(tensor: Tensor) -> str:
    """Return a tensor as messages show it."""
    return f"a tensor of shape {tuple(tensor.shape)}"


def label_of(name: str, module: Module) -> str:
    """Return a module as messages show it."""
    kind = type(module).__name__
    return f"{name} ({kind})" if name else kind


@final
class Carried:
    """The mount points of one module, and the attributes that are put into its `__dict__` beside them."""

    __slots__ = ("__weakref__", "name", "owner", "points")

    def __init__(self, module: Module, name: str) -> None:
        self.owner: Callable[[], Module] = weakref.ref(module)
        self.name = name  # hooks may ask for it
        self.points: dict[str, OwnMountPoint] = {}

    @property
    def main(self) -> OwnMountPoint | None:
        """The mount point of the module's forward."""
        return self.points.get("forward")

    def keep(self, place: str, mount: OwnMountPoint) -> None:
        """Add a mount point; with the first one come the attributes."""
        module = self.owner()
        if not self.points and module is not None:
            methods = {word: MethodType(function, module) for word, function in _METHODS.items()}
            space_of(module).update({MARK: self, **methods})
        self.points[place] = mount

    def drop(self, place: str) -> None:
        """Drop a mount point; with the last one go the attributes."""
        module = self.owner()
        if self.points.pop(place, None) is not None and not self.points and module is not None:
            remove_attributes(space_of(module))

    # A copy that is made without `__getstate__` shares this object, and must not change it.

    def __deepcopy__(self, memo: object) -> Carried:
        return self

    def __reduce__(self) -> Any:
        return type(None), ()  # one that is pickled without the module's `__getstate__` becomes None


def remove_attributes(space: dict[str, Any]) -> None:
    """Remove what `Carried` has put into the `__dict__` of a module, or came with it into a copy."""
    for word in (MARK, *_METHODS):
        space.pop(word, None)


def carried(module: Module) -> Carried | None:
    """Return what a module carries, unless it came with a copy of another module's `__dict__`."""
    found: object = space_of(module).get(MARK)
    return found if isinstance(found, Carried) and found.owner() is module else None


def known_point(module: Module, place: str, name: str) -> OwnMountPoint | None:
    """Return a mount point that a module carries, and note the module's name if it was unknown."""
    found = carried(module)
    if found is not None and not found.name:
        found.name = name
    return found.points.get(place) if found is not None else None


def _state_without_hooks(module: Module) -> Any:
    """Return the state that is copied and pickled, without hooks."""
    found = carried(module)
    state = cast("Any", type_of(module)).__getstate__(module)
    if found is None or not isinstance(state, dict):
        return state
    space: dict[str, Any] = dict(cast("dict[str, Any]", state))
    for mount in found.points.values():
        mount.slot.clean(space)
    remove_attributes(space)
    return space


def _refusing(what: str) -> Callable[[Module], Any]:
    def refuse(module: Module) -> Any:
        found = carried(module)
        raise WeaveError(f"{label_of(found.name if found is not None else '', module)} cannot be {what}")

    return refuse


_METHODS: dict[str, Callable[[Module], Any]] = {
    "__getstate__": _state_without_hooks,
    # A replica would call the forward of the original.
    "_replicate_for_data_parallel": _refusing(
        "replicated by DataParallel while it is woven; use DistributedDataParallel"
    ),
    "__prepare_scriptable__": _refusing(
        "compiled by torch.jit.script while it is woven, as its hooks would not be part of it; remove the weaving "
        "first, or use torch.compile"
    ),
}


class ModuleSlot:
    """A slot in one module, which carries its mount points; or in a tensor."""

    __slots__ = ("module", "name", "place")

    def __init__(self, owner: object, place: str, name: str) -> None:
        self.module: Callable[[], Any] = weakref.ref(owner)
        self.place = place
        self.name = name

    def enroll(self, function: FunctionType) -> Module:
        """Add the mount point of a function to what the module carries."""
        module = self.module()
        if module is not None:
            found = carried(module)
            if found is None:
                found = Carried(module, self.name)
            found.keep(self.place, cast("OwnMountPoint", carried_by(function.__dict__)))
        return module

    def forget(self) -> None:
        module = self.module()
        found = carried(module) if module is not None else None
        if found is not None:
            found.drop(self.place)


def without(space: dict[str, Any], word: str, handle: Any) -> None:
    """Remove one callback from a copy of a module's `__dict__`, by copying the dict of callbacks."""
    rows = space.get(word)
    if rows is not None and handle.id in rows:
        rows = space[word] = type(rows)(rows)
        del rows[handle.id]
