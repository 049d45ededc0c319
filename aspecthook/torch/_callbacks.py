"""PyTorch's callbacks on gradients as events: one entry of ours for each module, or tensor, and kind."""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any, NamedTuple, final

from aspecthook._core.compile.copies import MARK
from aspecthook._core.law.answers import hook_at
from aspecthook._core.law.call import Site
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.signature import Emission
from aspecthook._errors import HookAnswerError, described
from aspecthook._foreign.places import ABSENT

from ._carried import Module, ModuleSlot, Tensor, is_tensor, known_point, label_of, shown_tensor, space_of, without
from ._forward import forward_point
from ._own import OwnMountPoint


class Callback(NamedTuple):
    """One kind of callback of PyTorch: how it is registered, where it is kept, and the event for hooks."""

    register: str
    kept_in: str
    # A function with the parameters of PyTorch's callback, and `name` where there is a tensor alone. Any, since type
    # checkers would bind it.
    stub: Any
    fold: int  # the place of the parameter that an answer replaces


def backward_pre(module: object, grad_output: object) -> object: ...
def backward(module: object, grad_input: object, grad_output: object) -> object: ...
def grad(grad: object, name: object) -> object: ...


CALLBACKS = {
    "backward_pre": Callback("register_full_backward_pre_hook", "_backward_pre_hooks", backward_pre, 1),
    "backward": Callback("register_full_backward_hook", "_backward_hooks", backward, 1),
    "grad": Callback("register_hook", "_backward_hooks", grad, 0),
}


@final
class CallbackSlot(ModuleSlot):
    """One entry in one of the dicts of callbacks of a module, or of a tensor."""

    __slots__ = ("_forward", "_handle", "_row", "_was_full")

    def __init__(self, owner: Module | Tensor, place: str, name: str) -> None:
        super().__init__(owner, place, name)
        self._row = CALLBACKS[place]
        self._handle: Any = None
        self._was_full: object = ABSENT
        self._forward: OwnMountPoint | None = None

    def put(self, function: FunctionType) -> None:
        # A tensor carries nothing but its callbacks.
        owner = self.module() if self.place == "grad" else self.enroll(function)
        if owner is None:
            return
        if self._handle is None:
            self._was_full = space_of(owner).get("_is_full_backward_hook", ABSENT)
            self._handle = getattr(owner, self._row.register)(function)
            if self.place != "grad":
                # `torch.compile` notices a new forward, but no new callback, and would go on with what it has made.
                self._forward = forward_point(owner, self.name, bypassed=False)
                self._forward.pin(1)
        elif not self.is_displaced():
            getattr(owner, self._row.kept_in)[self._handle.id] = function

    def leave(self) -> None:
        owner = self.module()
        if self._handle is not None:
            self._handle.remove()
        if owner is not None:
            self._restore(space_of(owner))
        self._handle = None
        forward, self._forward = self._forward, None
        if forward is not None:
            forward.pin(-1)

    def _restore(self, space: dict[str, Any]) -> None:
        """Restore the flag that registering a full backward hook has set, if no such hook is left."""
        if self.place == "backward" and not space["_backward_hooks"] and self._was_full is not ABSENT:
            space["_is_full_backward_hook"] = self._was_full

    def is_displaced(self) -> bool:
        owner = self.module()
        if owner is None or self._handle is None:
            return False
        return self._handle.id not in (getattr(owner, self._row.kept_in) or ())

    def clean(self, space: dict[str, Any]) -> None:
        if self._handle is not None:
            without(space, self._row.kept_in, self._handle)
            self._restore(space)


def _fitting(site: Site, function: object, answer: Any, before: Any) -> Any:
    """Check an answer in the place of a gradient, or of a tuple of them; for a tuple of one, a tensor may be given."""
    several = issubclass(type_of(before), tuple)
    given: Any = (answer,) if not several or (is_tensor(answer) and len(before) == 1) else answer
    old = before if several else (before,)
    fits = issubclass(type_of(given), tuple) and len(given) == len(old)
    if not fits or not all(
        (is_tensor(new) and (one is None or new.shape == one.shape)) or (several and new is None)
        for new, one in zip(given, old, strict=True)
    ):
        what = "gradients" if several else "a gradient"
        raise HookAnswerError(
            f"{hook_at(site, 'on', function)} answered {_shown(answer)}; answer None, or {what} in the place of "
            f"{_shown(before)}"
        )
    return given if several else answer


def _shown(value: Any) -> str:
    """Return an answer as messages show it: for a tensor its shape."""
    if is_tensor(value):
        return shown_tensor(value)
    return f"({', '.join(map(_shown, value))})" if issubclass(type_of(value), tuple) else described(value)


_of_tensors: weakref.WeakValueDictionary[tuple[int, str], OwnMountPoint] = weakref.WeakValueDictionary()


def callback_point(owner: Module | Tensor, place: str, name: str) -> OwnMountPoint:
    """Return the mount point of one kind of callback of a module, or of a tensor; under the lock."""
    row, of_tensor = CALLBACKS[place], place == "grad"
    found = _of_tensors.get((id(owner), place)) if of_tensor else known_point(owner, place, name)
    if found is not None and found.owner() is owner:
        if of_tensor and found.stub.__defaults__ == ("",):
            found.stub.__defaults__ = (name,)  # the tensor was woven by itself before
        return found
    stub: Any = row.stub
    if of_tensor:
        stub = FunctionType(stub.__code__, stub.__globals__, place, (name,))  # the name is the default of `name`
    made = OwnMountPoint(
        owner,
        stub,
        f"{name or shown_tensor(owner) if of_tensor else label_of(name, owner)}, {place}",
        CallbackSlot(owner, place, name),
        target=lambda: lambda *args, **_: args[row.fold],  # the event without hooks
        emission=Emission(gives="fold", fold=row.fold, checked=True, word=place),
        provides={} if of_tensor else {"name": f"{MARK}.name"},
        fits=_fitting,
    )
    if of_tensor:
        _of_tensors[id(owner), place] = made
    return made
