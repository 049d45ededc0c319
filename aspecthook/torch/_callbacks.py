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

from ._carried import ABSENT, Module, ModuleSlot, Tensor, is_tensor, known_point, label_of, space_of, without
from ._forward import forward_point
from ._own import OwnMountPoint


@final
class CallbackSlot(ModuleSlot):
    """One entry in one of a module's dicts of callbacks."""

    __slots__ = ("_forward", "_handle", "_row", "_was_full")

    def __init__(self, module: Module, place: str, name: str) -> None:
        super().__init__(module, place, name)
        self._row = PLACES[place]
        self._handle: Any = None
        self._was_full: object = ABSENT
        self._forward: OwnMountPoint | None = None

    def put(self, function: FunctionType) -> None:
        module = self.enroll(function)
        if module is None:
            return
        rows: dict[int, Any] = getattr(module, self._row.kept_in)
        if self._handle is None:
            self._was_full = space_of(module).get("_is_full_backward_hook", ABSENT)
            self._handle = getattr(module, self._row.register)(function)
            if "backward" in self.place:
                # `torch.compile` notices a new forward, but no new callback, and would go on with what it has made.
                self._forward = forward_point(module, self.name, bypassed=False)
                self._forward.pin(1)
        elif self._handle.id in rows:
            held = rows[self._handle.id]
            if self.place == "state_dict_post":
                setattr(function, "_from_public_api", True)  # as PyTorch does when it registers one
            rows[self._handle.id] = function if type(held) is FunctionType else type(held)(function, module)

    def leave(self) -> None:
        module = self.module()
        if self._handle is not None:
            self._handle.remove()
        if module is not None and self.place == "backward":
            self._restore(space_of(module))
        self._handle = None
        forward, self._forward = self._forward, None
        if forward is not None:
            forward.pin(-1)

    def _restore(self, space: dict[str, Any]) -> None:
        """Restore the flag that registering a full backward hook has set, if no such hook is left."""
        if not space["_backward_hooks"] and self._was_full is not ABSENT:
            space["_is_full_backward_hook"] = self._was_full

    def is_displaced(self) -> bool:
        module = self.module()
        return (
            module is not None
            and self._handle is not None
            and self._handle.id not in getattr(module, self._row.kept_in)
        )

    def clean(self, space: dict[str, Any]) -> None:
        if self._handle is not None:
            without(space, self._row.kept_in, self._handle)
            if self.place == "backward":
                self._restore(space)


@final
class TensorSlot:
    """One callback of a tensor."""

    __slots__ = ("_handle", "_row", "tensor")

    def __init__(self, tensor: Tensor, place: str) -> None:
        self.tensor: Callable[[], Tensor] = weakref.ref(tensor)
        self._row = PLACES[place]
        self._handle: Any = None

    def put(self, function: FunctionType) -> None:
        tensor = self.tensor()
        if tensor is None:
            return
        if self._handle is None:
            self._handle = getattr(tensor, self._row.register)(function)
        else:
            rows = getattr(tensor, self._row.kept_in)
            if rows is not None and self._handle.id in rows:
                rows[self._handle.id] = function

    def leave(self) -> None:
        if self._handle is not None:
            self._handle.remove()
        self._handle = None

    def forget(self) -> None:
        """Do nothing: a tensor carries nothing but its callbacks."""

    def is_displaced(self) -> bool:
        tensor = self.tensor()
        if tensor is None or self._handle is None:
            return False
        return self._handle.id not in (getattr(tensor, self._row.kept_in) or ())


# The stubs of the events have the parameters of PyTorch's callbacks, and `name` where there is a tensor alone.


def _backward_pre(module: Any, grad_output: Any) -> Any: ...
def _backward(module: Any, grad_input: Any, grad_output: Any) -> Any: ...
def _state_dict_pre(module: Any, prefix: Any, keep_vars: Any) -> Any: ...
def _state_dict(module: Any, state_dict: Any, prefix: Any, local_metadata: Any) -> Any: ...
def _load_pre(
    module: Any,
    state_dict: Any,
    prefix: Any,
    local_metadata: Any,
    strict: Any,
    missing_keys: Any,
    unexpected_keys: Any,
    error_msgs: Any,
) -> Any: ...
def _load(module: Any, incompatible_keys: Any) -> Any: ...
def _grad(grad: Any, name: Any) -> Any: ...
def _accumulated(parameter: Any, name: Any) -> Any: ...


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


class Place(NamedTuple):
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


def _named(stub: Any, word: str) -> Any:
    stub.__code__ = stub.__code__.replace(co_name=word, co_qualname=word)
    return stub


def _in_place(word: str, register: str, kept_in: str, stub: Any) -> Place:
    """Return the row of a callback that changes things in place."""
    return Place(register, kept_in, _named(stub, word), _nothing, Emission(gives="first", checked=True, word=word))


def _answered(word: str, register: str, kept_in: str, stub: Any, fits: Any, fold: int) -> Place:
    """Return the row of a callback whose answer replaces one of its arguments."""
    return Place(
        register, kept_in, _named(stub, word), fits, Emission(gives="fold", fold=fold, checked=True, word=word)
    )


_BACKWARD = [
    _answered("backward_pre", "register_full_backward_pre_hook", "_backward_pre_hooks", _backward_pre, _several, 1),
    _answered("backward", "register_full_backward_hook", "_backward_hooks", _backward, _several, 1),
]
_STATE = [
    _in_place("state_dict_pre", "register_state_dict_pre_hook", "_state_dict_pre_hooks", _state_dict_pre),
    _in_place("state_dict_post", "register_state_dict_post_hook", "_state_dict_hooks", _state_dict),
    _in_place("load_state_dict_pre", "register_load_state_dict_pre_hook", "_load_state_dict_pre_hooks", _load_pre),
    _in_place("load_state_dict_post", "register_load_state_dict_post_hook", "_load_state_dict_post_hooks", _load),
]
_TENSOR = [
    _answered("grad", "register_hook", "_backward_hooks", _grad, _one, 0),
    _in_place("accumulated", "register_post_accumulate_grad_hook", "_post_accumulate_grad_hooks", _accumulated),
]
PLACES = {place.emission.word: place for place in (*_BACKWARD, *_STATE, *_TENSOR)}
OF_TENSORS = tuple([place.emission.word for place in _TENSOR])


def callback_point(module: Module, place: str, name: str) -> OwnMountPoint:
    """Return the mount point of one kind of callback of a module; under the lock."""
    found = known_point(module, place, name)
    if found is not None:
        return found
    row = PLACES[place]
    return OwnMountPoint(
        module,
        row.stub,
        f"{label_of(name, module)}, {place}",
        CallbackSlot(module, place, name),
        target=row.target,
        emission=row.emission,
        lends={"name": f"{MARK}.name"},
        fits=row.fits,
    )


_of_tensors: weakref.WeakValueDictionary[tuple[int, str], OwnMountPoint] = weakref.WeakValueDictionary()


def tensor_point(tensor: Tensor, place: str, name: str) -> OwnMountPoint:
    """Return the mount point of one kind of callback of a tensor; under the lock."""
    found = _of_tensors.get((id(tensor), place))
    if found is not None and found.owner() is tensor:
        return found
    row = PLACES[place]
    label = f"{name or f'a tensor of shape {tuple(tensor.shape)}'}, {place}"
    stub = FunctionType(row.stub.__code__, row.stub.__globals__, place, (name,))
    slot = TensorSlot(tensor, place)
    made = OwnMountPoint(tensor, stub, label, slot, target=row.target, emission=row.emission, fits=row.fits)
    _of_tensors[id(tensor), place] = made
    return made
