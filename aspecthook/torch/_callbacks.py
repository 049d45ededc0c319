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
    stub: Any  # a function, which type checkers would bind
    fits: Callable[[Site, Any, Any, Any], Any]
    emission: Emission

    def target(self) -> Callable[..., Any]:
        """Return the target of the chain, which is called without subscribers."""
        return _unchanged[self.emission.fold if self.emission.gives == "fold" else None]


def _silent(*_args: Any, **_kwargs: Any) -> None: ...


def _first(first: Any, *_rest: Any) -> Any:
    return first


def _second(_: Any, second: Any, *_rest: Any) -> Any:
    return second


_unchanged: dict[int | None, Callable[..., Any]] = {None: _silent, 0: _first, 1: _second}


CALLBACKS: dict[str, Callback] = {}


# The stubs of the events have the parameters of PyTorch's callbacks, and `name` where there is a tensor alone.


def _event(register: str, kept_in: str, fits: Any, emission: Emission) -> Callable[[Any], Any]:
    def add(stub: Any) -> Any:
        word = stub.__name__
        CALLBACKS[word] = Callback(register, kept_in, stub, fits, emission._replace(checked=True, word=word))
        return stub

    return add


def _in_place(register: str, kept_in: str) -> Callable[[Any], Any]:
    """Return a decorator for the stub of a callback that changes things in place."""
    return _event(register, kept_in, _nothing, Emission(gives="first"))


def _answered(register: str, kept_in: str, fits: Any, fold: int) -> Callable[[Any], Any]:
    """Return a decorator for the stub of a callback whose answer replaces one of its arguments."""
    return _event(register, kept_in, fits, Emission(gives="fold", fold=fold))


@_answered("register_full_backward_pre_hook", "_backward_pre_hooks", _several, 1)
def backward_pre(module: Any, grad_output: Any) -> Any: ...
@_answered("register_full_backward_hook", "_backward_hooks", _several, 1)
def backward(module: Any, grad_input: Any, grad_output: Any) -> Any: ...
@_in_place("register_state_dict_pre_hook", "_state_dict_pre_hooks")
def state_dict_pre(module: Any, prefix: Any, keep_vars: Any) -> Any: ...
@_in_place("register_state_dict_post_hook", "_state_dict_hooks")
def state_dict_post(module: Any, state_dict: Any, prefix: Any, local_metadata: Any) -> Any: ...
@_in_place("register_load_state_dict_pre_hook", "_load_state_dict_pre_hooks")
def load_state_dict_pre(
    module: Any,
    state_dict: Any,
    prefix: Any,
    local_metadata: Any,
    strict: Any,
    missing_keys: Any,
    unexpected_keys: Any,
    error_msgs: Any,
) -> Any: ...
@_in_place("register_load_state_dict_post_hook", "_load_state_dict_post_hooks")
def load_state_dict_post(module: Any, incompatible_keys: Any) -> Any: ...
@_answered("register_hook", "_backward_hooks", _one, 0)
def grad(grad: Any, name: Any) -> Any: ...
@_in_place("register_post_accumulate_grad_hook", "_post_accumulate_grad_hooks")
def accumulated(parameter: Any, name: Any) -> Any: ...


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
