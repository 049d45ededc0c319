"""What a module of PyTorch carries while it is woven, and what keeps its copies and replicas right.

The invariant: beside the `forward` and the callbacks of its seats, a module has a few words of ours in its own
`__dict__` for as long as there are hooks; once the last one is off, all of it is as it was.
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

# Any: PyTorch may not be installed, and its types then are not known.
Module: TypeAlias = Any
Tensor: TypeAlias = Any

ABSENT: Any = object()


def torch() -> Any:
    """Give PyTorch, if it has been imported; nothing that is not there could be woven."""
    found: Any = sys.modules.get("torch")
    return found if hasattr(found, "nn") and hasattr(found, "Tensor") else None  # it may be in the middle of its import


def is_module(value: object) -> bool:
    """Say whether this is a module of PyTorch."""
    found = torch()
    return found is not None and isinstance(value, found.nn.Module)


def is_tensor(value: object) -> bool:
    """Say whether this is a tensor of PyTorch."""
    found = torch()
    return found is not None and isinstance(value, found.Tensor)


def space_of(module: Module) -> dict[str, Any]:
    """Give what a module has by itself."""
    return cast("dict[str, Any]", module.__dict__)


def label_of(name: str, module: Module) -> str:
    kind = type(module).__name__
    return f"{name} ({kind})" if name else kind


@final
class Carried:
    """The mount points of one module, under `__aspecthook__` in its `__dict__`, and what else was put there."""

    __slots__ = ("__weakref__", "_before", "name", "owner", "points")

    def __init__(self, module: Module, name: str) -> None:
        self.owner: Callable[[], Module] = weakref.ref(module)
        self.name = name  # lent to hooks
        self.points: dict[str, OwnMountPoint] = {}
        self._before: dict[str, Any] = {}

    @property
    def main(self) -> OwnMountPoint | None:
        """The mount point of the module's forward."""
        return self.points.get("forward")

    def keep(self, place: str, mount: OwnMountPoint) -> None:
        """Note a mount point; the first one brings the words into the module."""
        module = self.owner()
        if not self.points and module is not None:
            space = space_of(module)
            for word, value in self._words(module).items():
                self._before[word] = space.get(word, ABSENT)
                space[word] = value
        self.points[place] = mount

    def drop(self, place: str) -> None:
        """Forget a mount point; with the last one the words go."""
        module = self.owner()
        if self.points.pop(place, None) is not None and not self.points and module is not None:
            self.clean(space_of(module))
            self._before.clear()

    def _words(self, module: Module) -> dict[str, Any]:
        words = {
            "__getstate__": _state_without_hooks,
            "_replicate_for_data_parallel": _replicate,
            "__prepare_scriptable__": _refuse_to_script,
        }
        return {MARK: self, **{word: MethodType(function, module) for word, function in words.items()}}

    def clean(self, space: dict[str, Any]) -> None:
        """Put back, in the `__dict__` of the module or in a copy of it, what was there before the words."""
        for word, before in self._before.items():
            if _is_ours(space.get(word)):
                put_back(space, word, before)

    # Copies that go past `__getstate__` share what they must not change.

    def __deepcopy__(self, memo: object) -> Carried:
        return self

    def __reduce__(self) -> Any:
        return _gone, ()


def _gone() -> None:
    """Stand for what a module carried where it was pickled past its `__getstate__`."""


def _is_ours(value: object) -> bool:
    return isinstance(value, Carried) or (
        isinstance(value, MethodType) and value.__func__ in (_state_without_hooks, _replicate, _refuse_to_script)
    )


def put_back(space: dict[str, Any], word: str, before: Any) -> None:
    if before is ABSENT:
        space.pop(word, None)
    else:
        space[word] = before


def carried(module: Module) -> Carried | None:
    """Give what a module carries; what a copy of its `__dict__` has brought along is not its own."""
    found: object = space_of(module).get(MARK)
    return found if isinstance(found, Carried) and found.owner() is module else None


def known_point(module: Module, place: str, name: str) -> OwnMountPoint | None:
    """Give a mount point that a module carries; a name is learned if it was not known before."""
    found = carried(module)
    if found is not None and not found.name:
        found.name = name
    return found.points.get(place) if found is not None else None


def _of_class(module: Module, word: str) -> Any:
    """Call a method as if we had put nothing in front of it."""
    found = carried(module)
    before = found._before.get(word, ABSENT) if found is not None else ABSENT
    return getattr(type_of(module), word)(module) if before is ABSENT else before()


def _state_without_hooks(module: Module) -> Any:
    """Give what is copied and pickled: hooks do not travel."""
    state, found = _of_class(module, "__getstate__"), carried(module)
    if found is None or not isinstance(state, dict):
        return state
    space: dict[str, Any] = dict(cast("dict[str, Any]", state))
    for mount in found.points.values():
        cast("SeatInModule", mount.seat).clean(space)
    found.clean(space)
    return space


def _replicate(module: Module) -> Any:
    """Make a replica as `torch.nn.DataParallel` does, on which the hooks of the original act."""
    replica = _of_class(module, "_replicate_for_data_parallel")
    space, found = space_of(replica), carried(module)
    if found is not None:
        kept = space.get(MARK)  # what hooks ask for by `name`
        found.clean(space)
        space[MARK] = kept
        forward = space.get("forward")
        if isinstance(forward, MethodType) and forward.__self__ is module:
            space["forward"] = MethodType(forward.__func__, replica)
    return replica


def _refuse_to_script(module: Module) -> Any:
    found = carried(module)
    label = label_of(found.name if found is not None else "", module)
    raise WeaveError(
        f"{label} cannot be compiled by torch.jit.script while it is woven, as its hooks would not be part of it; "
        f"remove the weaving first, or use torch.compile"
    )


class SeatInModule:
    """A seat in one module; the module is held weakly."""

    __slots__ = ("module", "name", "place")

    def __init__(self, module: Module, place: str, name: str) -> None:
        self.module: Callable[[], Module] = weakref.ref(module)
        self.place = place
        self.name = name

    def enroll(self, function: FunctionType) -> Module:
        """Have the module carry the mount point that a function is of."""
        module = self.module()
        if module is not None:
            found = carried(module)
            if found is None:
                found = Carried(module, self.name)
            found.keep(self.place, cast("OwnMountPoint", carried_by(function.__dict__)))
        return module

    def forget(self) -> None:
        """Have the module carry the mount point no more."""
        module = self.module()
        found = carried(module) if module is not None else None
        if found is not None:
            found.drop(self.place)

    def clean(self, space: dict[str, Any]) -> None:
        """Take what is ours out of a copy of the module's `__dict__`."""
        raise NotImplementedError


def without(space: dict[str, Any], word: str, handle: Any) -> None:
    """Put a dict of callbacks without one of them into a copy of the `__dict__` of a module."""
    rows = space.get(word)
    if rows is not None and handle.id in rows:
        rows = space[word] = type(rows)(rows)
        del rows[handle.id]
