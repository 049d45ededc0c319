"""PyTorch's callbacks on gradients and state dicts as events: one entry of ours for each module and kind."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, final

from aspecthook._core.compile.copies import MARK
from aspecthook._core.law.answers import hook_at
from aspecthook._core.law.call import Site
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.signature import Emission
from aspecthook._errors import HookAnswerError, described
from aspecthook._foreign.places import ABSENT

from ._carried import Module, ModuleSlot, Tensor, is_tensor, known_point, label_of, space_of, without
from ._forward import forward_point
from ._own import OwnMountPoint


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
        owner = self.module() if self.place in OF_TENSORS else self.enroll(function)
        if owner is None:
            return
        if self._handle is None:
            self._was_full = space_of(owner).get("_is_full_backward_hook", ABSENT)
            self._handle = getattr(owner, self._row.register)(function)
            if "backward" in self.place:
                # `torch.compile` notices a new forward, but no new callback, and would go on with what it has made.
                self._forward = forward_point(owner, self.name, bypassed=False)
                self._forward.pin(1)
        elif not self.is_displaced():
            rows: dict[int, Any] = getattr(owner, self._row.kept_in)
            held = rows[self._handle.id]
            if self.place == "state_dict_post":
                setattr(function, "_from_public_api", True)  # as PyTorch does when it registers one
            rows[self._handle.id] = function if type(held) is FunctionType else type(held)(function, owner)

    def leave(self) -> None:
        owner = self.module()
        if self._handle is not None:
            self._handle.remove()
        if owner is not None and self.place == "backward":
            self._restore(space_of(owner))
        self._handle = None
        forward, self._forward = self._forward, None
        if forward is not None:
            forward.pin(-1)

    def _restore(self, space: dict[str, Any]) -> None:
        """Restore the flag that registering a full backward hook has set, if no such hook is left."""
        if not space["_backward_hooks"] and self._was_full is not ABSENT:
            space["_is_full_backward_hook"] = self._was_full

    def is_displaced(self) -> bool:
        owner = self.module()
        if owner is None or self._handle is None:
            return False
        return self._handle.id not in (getattr(owner, self._row.kept_in) or ())

    def clean(self, space: dict[str, Any]) -> None:
        if self._handle is not None:
            without(space, self._row.kept_in, self._handle)
            if self.place == "backward":
                self._restore(space)


def _shown(value: Any) -> str:
    """Return an answer as messages show it: for a tensor its shape."""
    if is_tensor(value):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"({', '.join(map(_shown, value))})" if issubclass(type_of(value), tuple) else described(value)


def _unfit(site: Site, function: object, answer: object, why: str) -> HookAnswerError:
    return HookAnswerError(f"{hook_at(site, 'on', function)} answered {_shown(answer)}; {why}")


def _several(site: Site, function: object, answer: Any, before: Any) -> Any:
    """Check a tuple of gradients; instead of a tuple of one, a tensor may be given."""
    given: Any = (answer,) if is_tensor(answer) and len(before) == 1 else answer
    fits = issubclass(type_of(given), tuple) and len(given) == len(before)
    if not fits or not all(new is None or _replaces(new, old) for new, old in zip(given, before, strict=True)):
        raise _unfit(site, function, answer, f"answer None, or gradients in the place of {_shown(before)}")
    return given


def _replaces(new: Any, old: Any) -> bool:
    return is_tensor(new) and (old is None or new.shape == old.shape)


def _one(site: Site, function: object, answer: Any, before: Any) -> Any:
    if not _replaces(answer, before):
        raise _unfit(site, function, answer, f"answer None, or a gradient in the place of {_shown(before)}")
    return answer


def _nothing(site: Site, function: object, answer: Any, _: object) -> Any:
    raise _unfit(site, function, answer, "it must answer None: change in place what you want to change")


class Callback(NamedTuple):
    """One kind of callback of PyTorch: how it is registered, where it is kept, and the event for hooks."""

    register: str
    kept_in: str
    # A function with the parameters of PyTorch's callback, and `name` where there is a tensor alone. Any, since type
    # checkers would bind it.
    stub: Any
    fits: Callable[[Site, Any, Any, Any], Any]
    fold: int | None  # the place of the parameter that an answer replaces; None if things are changed in place

    @property
    def emission(self) -> Emission:
        """How the event treats its hooks."""
        how = Emission(gives="first") if self.fold is None else Emission(gives="fold", fold=self.fold)
        return how._replace(checked=True, word=self.stub.__name__)

    def target(self) -> Callable[..., Any]:
        """Return the target of the chain, which is called without subscribers."""
        fold = self.fold
        return (lambda *_args, **_kwargs: None) if fold is None else (lambda *args, **_kwargs: args[fold])


CALLBACKS: dict[str, Callback] = {}


def _event(register: str, kept_in: str, fits: Callable[..., Any], fold: int | None) -> Callable[[Any], None]:
    def add(stub: Any) -> None:
        CALLBACKS[stub.__name__] = Callback(register, kept_in, stub, fits, fold)

    return add


@_event("register_full_backward_pre_hook", "_backward_pre_hooks", _several, 1)
def backward_pre(module: object, grad_output: object) -> object: ...
@_event("register_full_backward_hook", "_backward_hooks", _several, 1)
def backward(module: object, grad_input: object, grad_output: object) -> object: ...
@_event("register_state_dict_pre_hook", "_state_dict_pre_hooks", _nothing, None)
def state_dict_pre(module: object, prefix: object, keep_vars: object) -> object: ...
@_event("register_state_dict_post_hook", "_state_dict_hooks", _nothing, None)
def state_dict_post(module: object, state_dict: object, prefix: object, local_metadata: object) -> object: ...
@_event("register_load_state_dict_pre_hook", "_load_state_dict_pre_hooks", _nothing, None)
def load_state_dict_pre(
    module: object,
    state_dict: object,
    prefix: object,
    local_metadata: object,
    strict: object,
    missing_keys: object,
    unexpected_keys: object,
    error_msgs: object,
) -> object: ...
@_event("register_load_state_dict_post_hook", "_load_state_dict_post_hooks", _nothing, None)
def load_state_dict_post(module: object, incompatible_keys: object) -> object: ...
@_event("register_hook", "_backward_hooks", _one, 0)
def grad(grad: object, name: object) -> object: ...
@_event("register_post_accumulate_grad_hook", "_post_accumulate_grad_hooks", _nothing, None)
def accumulated(parameter: object, name: object) -> object: ...


OF_TENSORS = ("grad", "accumulated")


def callback_point(module: Module, place: str, name: str) -> OwnMountPoint:
    """Return the mount point of one kind of callback of a module; under the lock."""
    found = known_point(module, place, name)
    if found is not None:
        return found
    row = CALLBACKS[place]
    return OwnMountPoint(
        module,
        row.stub,
        f"{label_of(name, module)}, {place}",
        CallbackSlot(module, place, name),
        target=row.target,
        emission=row.emission,
        provides={"name": f"{MARK}.name"},
        fits=row.fits,
    )


_of_tensors: weakref.WeakValueDictionary[tuple[int, str], OwnMountPoint] = weakref.WeakValueDictionary()


def tensor_point(tensor: Tensor, place: str, name: str) -> OwnMountPoint:
    """Return the mount point of one kind of callback of a tensor; under the lock."""
    found = _of_tensors.get((id(tensor), place))
    if found is not None and found.owner() is tensor:
        return found
    row = CALLBACKS[place]
    label = f"{name or f'a tensor of shape {tuple(tensor.shape)}'}, {place}"
    stub = FunctionType(row.stub.__code__, row.stub.__globals__, place, (name,))
    slot = CallbackSlot(tensor, place, name)
    made = OwnMountPoint(tensor, stub, label, slot, target=row.target, emission=row.emission, fits=row.fits)
    _of_tensors[id(tensor), place] = made
    return made
