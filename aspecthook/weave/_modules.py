"""Modules and tensors of PyTorch as places for hooks. PyTorch is never imported for it: what is given has done so.

The invariant: a module that carries hooks has, in its own `__dict__`, a `forward` that runs them, which is where
`torch.nn.Module.__call__` goes, and the few words that keep its copies and replicas right; hooks on gradients and on
state dicts are one entry each in PyTorch's own dict of callbacks. Once the last hook is off, all of it is as it was.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from inspect import Parameter, getattr_static
from inspect import Signature as Parameters
from types import FunctionType, MethodType
from typing import Any, NamedTuple, TypeAlias, cast, final

from aspecthook._asks import signature_of
from aspecthook._call import Site
from aspecthook._carrier import carrier
from aspecthook._errors import HookAnswerError, WeaveError
from aspecthook._inplace import MARK
from aspecthook._own import OwnMountPoint
from aspecthook._runtime import who_has_answered
from aspecthook._signature import Emission, is_plain

# Any: PyTorch may not be installed, and its types then are not known.
Module: TypeAlias = Any
Tensor: TypeAlias = Any

_ABSENT: Any = object()


def _torch() -> Any:
    found: Any = sys.modules.get("torch")
    return found if hasattr(found, "nn") and hasattr(found, "Tensor") else None  # it may be in the middle of its import


def is_module(value: object) -> bool:
    """Say whether this is a module of PyTorch."""
    torch = _torch()
    return torch is not None and isinstance(value, torch.nn.Module)


def is_tensor(value: object) -> bool:
    """Say whether this is a tensor of PyTorch."""
    torch = _torch()
    return torch is not None and isinstance(value, torch.Tensor)


# What a module carries


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
            space = vars(module)
            for word, value in self._words(module).items():
                self._before[word] = space.get(word, _ABSENT)
                space[word] = value
        self.points[place] = mount

    def drop(self, place: str) -> None:
        """Forget a mount point; with the last one the words go."""
        module = self.owner()
        if self.points.pop(place, None) is not None and not self.points and module is not None:
            self.clean(vars(module))
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
                _put_back(space, word, before)

    # Copies that go past `__getstate__` share what they must not change.

    def __deepcopy__(self, memo: object) -> Carried:
        return self

    def __reduce__(self) -> Any:
        return _gone, ()


def _gone() -> None:
    """Stand for what a module carried where it was pickled past its `__getstate__`."""


def _is_ours(value: object) -> bool:
    return isinstance(value, Carried) or (
        isinstance(value, MethodType)
        and value.__func__ in (_state_without_hooks, _replicate, _refuse_to_script)
    )


def _put_back(space: dict[str, Any], word: str, before: Any) -> None:
    if before is _ABSENT:
        space.pop(word, None)
    else:
        space[word] = before


def carried(module: Module) -> Carried | None:
    """Give what a module carries; what a copy of its `__dict__` has brought along is not its own."""
    found: object = vars(module).get(MARK)
    return found if isinstance(found, Carried) and found.owner() is module else None


def _of_class(module: Module, word: str) -> Any:
    """Call a method as if we had put nothing in front of it."""
    found = carried(module)
    before = found._before.get(word, _ABSENT) if found is not None else _ABSENT
    return (getattr(type(module), word).__get__(module) if before is _ABSENT else before)()


def _state_without_hooks(module: Module) -> Any:
    """Give what is copied and pickled: hooks do not travel."""
    state, found = _of_class(module, "__getstate__"), carried(module)
    if found is None or not isinstance(state, dict):
        return state
    space: dict[str, Any] = dict(cast("dict[str, Any]", state))
    for mount in found.points.values():
        cast("_OfModule", mount.seat).clean(space)
    found.clean(space)
    return space


def _replicate(module: Module) -> Any:
    """Make a replica as `torch.nn.DataParallel` does, on which the hooks of the original act."""
    replica = _of_class(module, "_replicate_for_data_parallel")
    space, found = vars(replica), carried(module)
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


# Seats


class _OfModule:
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
            found.keep(self.place, function.__dict__[MARK])
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


@final
class ForwardSeat(_OfModule):
    """The name `forward` in the `__dict__` of a module."""

    __slots__ = ("_before", "_flag", "_function", "_left", "bypassed")

    def __init__(self, module: Module, name: str, *, bypassed: bool) -> None:
        super().__init__(module, "forward", name)
        # Whether a TransformerEncoderLayer calls it only if it has hooks that PyTorch knows of.
        self.bypassed = bypassed
        self._flag: Any = None
        self._before: Any = _ABSENT
        self._function: FunctionType | None = None
        # What stood there when ours had to go, and somebody else's was in its place.
        self._left: FunctionType | None = None

    def put(self, function: FunctionType) -> None:
        module = self.enroll(function)
        if module is None:
            return
        space = vars(module)
        if self._function is None:
            self._before, self._left = space.get("forward", _ABSENT), None
        elif not self._stands(space):
            return  # somebody else's is there, and may call ours
        self._function = function
        space["forward"] = MethodType(function, module)
        self.raise_flag()

    def raise_flag(self) -> None:
        """Have a `TransformerEncoderLayer` call the module."""
        module = self.module()
        if self.bypassed and self._flag is None and module is not None and self._function is not None:
            self._flag = module.register_forward_pre_hook(_no_change)

    def leave(self) -> None:
        module = self.module()
        if module is not None and self._function is not None:
            if self._stands(vars(module)):
                _put_back(vars(module), "forward", self._before)
            else:
                self._left = self._function
        if self._flag is not None:
            self._flag.remove()
        self._function = self._flag = None
        self._before = _ABSENT if self._left is None else self._before

    def is_displaced(self) -> bool:
        module = self.module()
        if module is None:
            return False
        if self._function is not None:
            return not self._stands(vars(module))
        if self._left is None:
            return False
        now = vars(module).get("forward", _ABSENT)
        if _holds(now, self._left):  # they have put ours back after we had left
            _put_back(vars(module), "forward", self._before)
            now = self._before
        if now is self._before:
            self._left, self._before = None, _ABSENT
        return self._left is not None

    def clean(self, space: dict[str, Any]) -> None:
        if self._stands(space):
            _put_back(space, "forward", self._before)
        if self._flag is not None:
            without(space, "_forward_pre_hooks", self._flag)

    def _stands(self, space: dict[str, Any]) -> bool:
        return self._function is not None and _holds(space.get("forward"), self._function)


def _no_change(module: Module, args: object) -> None:
    """Be a hook that PyTorch knows of."""


def without(space: dict[str, Any], word: str, handle: Any) -> None:
    """Put a dict of callbacks without one of them into a copy of the `__dict__` of a module."""
    rows = space.get(word)
    if rows is not None and handle.id in rows:
        rows = space[word] = type(rows)(rows)
        del rows[handle.id]


def _holds(value: object, function: FunctionType) -> bool:
    return isinstance(value, MethodType) and value.__func__ is function


@final
class CallbackSeat(_OfModule):
    """One entry in one of a module's own dicts of callbacks."""

    __slots__ = ("_handle", "_row", "_was_full")

    def __init__(self, module: Module, place: str, name: str) -> None:
        super().__init__(module, place, name)
        self._row = PLACES[place]
        self._handle: Any = None
        self._was_full: object = _ABSENT

    def put(self, function: FunctionType) -> None:
        module = self.enroll(function)
        if module is None:
            return
        rows: dict[int, Any] = getattr(module, self._row.kept_in)
        if self._handle is None:
            self._was_full = vars(module).get("_is_full_backward_hook", _ABSENT)
            self._handle = getattr(module, self._row.register)(function)
        elif self._handle.id in rows:
            held = rows[self._handle.id]
            if self._row.public:
                setattr(function, "_from_public_api", True)  # as registering does
            rows[self._handle.id] = function if type(held) is FunctionType else type(held)(function, module)

    def leave(self) -> None:
        module = self.module()
        if self._handle is not None:
            self._handle.remove()
        if module is not None and self._row.full:
            self._restore(vars(module))
        self._handle = None

    def _restore(self, space: dict[str, Any]) -> None:
        """Put back what registering a full backward hook has noted, if there is none any more."""
        if not space["_backward_hooks"] and self._was_full is not _ABSENT:
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
            if self._row.full:
                self._restore(space)


@final
class TensorSeat:
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
        """Nothing is kept in a tensor but its callbacks."""

    def is_displaced(self) -> bool:
        tensor = self.tensor()
        if tensor is None or self._handle is None:
            return False
        return self._handle.id not in (getattr(tensor, self._row.kept_in) or ())


# Events: what PyTorch calls back


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
def _grad(grad: Any) -> Any: ...
def _named_grad(grad: Any, name: Any) -> Any: ...
def _accumulated(parameter: Any) -> Any: ...
def _named_accumulated(parameter: Any, name: Any) -> Any: ...


def _shown(value: Any) -> str:
    """Show an answer in a message: of a tensor its shape, as its numbers say nothing."""
    if is_tensor(value):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, cast('tuple[Any, ...]', value)))})"
    return repr(value)[:80]


def _unfit(site: Site, function: object, answer: object, why: str) -> HookAnswerError:
    return HookAnswerError(f"{site.label}: {who_has_answered(site, function)} answered {_shown(answer)}; {why}")


def _several(site: Site, function: object, answer: Any, before: Any) -> Any:
    """Check gradients that are a tuple; where there is one, a tensor will do."""
    given: Any = (answer,) if is_tensor(answer) and len(before) == 1 else answer
    if not isinstance(given, tuple) or len(cast("tuple[Any, ...]", given)) != len(before):
        raise _unfit(site, function, answer, f"answer None, or a tuple that replaces {_shown(before)}")
    for new, old in zip(cast("tuple[Any, ...]", given), before, strict=True):
        if new is not None:
            _one(site, function, new, old)
    return given


def _one(site: Site, function: object, answer: Any, before: Any) -> Any:
    if not is_tensor(answer) or (before is not None and answer.shape != before.shape):
        raise _unfit(site, function, answer, f"answer None, or a gradient that replaces {_shown(before)}")
    return answer


def _nothing(site: Site, function: object, answer: Any, before: Any) -> Any:
    raise _unfit(site, function, answer, "it may answer nothing: change in place what is to be changed")


class Place(NamedTuple):
    """One sort of callback of PyTorch: how it is registered, where it is kept, and the event that it is for hooks."""

    word: str
    register: str
    kept_in: str
    stub: FunctionType
    fits: Callable[[Site, Any, Any, Any], Any]
    fold: int | None = None
    full: bool = False
    public: bool = False
    named: FunctionType | None = None

    @property
    def emission(self) -> Emission:
        """What becomes of answers."""
        if self.fold is None:
            return Emission(gives="first", checked=True)
        return Emission(gives="fold", fold=self.fold, checked=True)

    def target(self) -> Callable[..., Any]:
        """Give what is called if nobody listens."""
        return _unchanged[self.fold]


_unchanged: dict[int | None, Callable[..., Any]] = {
    None: lambda *_, **__: None,
    0: lambda first, *_: first,
    1: lambda _, second, *__: second,
}

PLACES: dict[str, Place] = {
    "backward_pre": Place(
        "backward_pre", "register_full_backward_pre_hook", "_backward_pre_hooks", cast("FunctionType", _backward_pre),
        _several, 1,
    ),
    "backward": Place(
        "backward", "register_full_backward_hook", "_backward_hooks", cast("FunctionType", _backward), _several, 1,
        full=True,
    ),
    "state_dict_pre": Place(
        "state_dict_pre", "register_state_dict_pre_hook", "_state_dict_pre_hooks",
        cast("FunctionType", _state_dict_pre), _nothing,
    ),
    "state_dict_post": Place(
        "state_dict_post", "register_state_dict_post_hook", "_state_dict_hooks", cast("FunctionType", _state_dict),
        _nothing, public=True,
    ),
    "load_state_dict_pre": Place(
        "load_state_dict_pre", "register_load_state_dict_pre_hook", "_load_state_dict_pre_hooks",
        cast("FunctionType", _load_pre), _nothing,
    ),
    "load_state_dict_post": Place(
        "load_state_dict_post", "register_load_state_dict_post_hook", "_load_state_dict_post_hooks",
        cast("FunctionType", _load), _nothing,
    ),
    "grad": Place(
        "grad", "register_hook", "_backward_hooks", cast("FunctionType", _grad), _one, 0,
        named=cast("FunctionType", _named_grad),
    ),
    "accumulated": Place(
        "accumulated", "register_post_accumulate_grad_hook", "_post_accumulate_grad_hooks",
        cast("FunctionType", _accumulated), _nothing, named=cast("FunctionType", _named_accumulated),
    ),
}
OF_MODULES = tuple(word for word in PLACES if "state_dict" in word or "backward" in word)
OF_TENSORS = tuple(word for word in PLACES if word not in OF_MODULES)


# Mount points; all under the lock


def label_of(name: str, module: Module) -> str:
    kind = type(module).__name__
    return f"{name} ({kind})" if name else kind


def forward_point(module: Module, name: str, *, bypassed: bool) -> OwnMountPoint:
    """Give the mount point of the forward of one module."""
    found = carried(module)
    if found is not None and "forward" in found.points:
        seat = cast("ForwardSeat", found.points["forward"].seat)
        seat.bypassed = seat.bypassed or bypassed
        seat.raise_flag()
        return found.points["forward"]
    model, reach = _forward_of(module, name)
    return OwnMountPoint(
        module,
        model,
        label_of(name, module),
        ForwardSeat(module, name, bypassed=bypassed),
        target=reach,
        lends={"module": "", "name": f"{MARK}.name"},
    )


def _forward_of(module: Module, name: str) -> tuple[FunctionType, Callable[[], Callable[..., Any]]]:
    """Give a function with the parameters of a forward, and what gives the target that is called with the module."""
    seen = weakref.ref(module)
    before = vars(module).get("forward", _ABSENT)
    label = f"{type(module).__module__}:{type(module).__qualname__}.forward"
    if before is not _ABSENT:
        inner = getattr(vars(module).get("_modules", {}).get("_orig_mod"), "forward", before)
        model = carrier(before, _with_self(signature_of(inner)), label, "function").function
        return model, lambda: _without_self(seen)
    function: Any = getattr_static(type(module), "forward")
    if not isinstance(function, FunctionType):
        raise WeaveError(
            f"{label_of(name, module)} cannot be woven: its forward is of type {type(function).__name__}, and no Python "
            f"function; weave the module that calls it"
        )
    if hasattr(type(module), "recompile"):  # of torch.fx: its forward is made anew
        return function, lambda: _looked_up
    if function.__dict__.keys() & {"__wrapped__", "__signature__"}:
        model = carrier(function, signature_of(function), label, "function").function
        return model, lambda: function
    return function, lambda: function


def _looked_up(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    return type(module).forward(module, *args, **kwargs)


def _without_self(seen: Callable[[], Module]) -> Callable[..., Any]:
    forward = vars(seen())["forward"]
    return lambda _, /, *args, **kwargs: forward(*args, **kwargs)


def _with_self(signature: Parameters | None) -> Parameters:
    first = Parameter("self", Parameter.POSITIONAL_ONLY)
    if signature is None or "self" in signature.parameters or not all(map(is_plain, signature.parameters)):
        rest = (Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD))
        return Parameters([first, *rest])
    return Parameters([first, *signature.parameters.values()])


def callback_point(module: Module, place: str, name: str) -> OwnMountPoint:
    """Give the mount point of one sort of callback of a module."""
    found = carried(module)
    if found is not None and place in found.points:
        return found.points[place]
    row = PLACES[place]
    return OwnMountPoint(
        module,
        row.stub,
        f"{label_of(name, module)}, {place}",
        CallbackSeat(module, place, name),
        target=row.target,
        emission=row.emission,
        lends={"name": f"{MARK}.name"},
        fits=row.fits,
    )


_of_tensors: weakref.WeakValueDictionary[tuple[int, str], OwnMountPoint] = weakref.WeakValueDictionary()


def tensor_point(tensor: Tensor, place: str, name: str | None) -> OwnMountPoint:
    """Give the mount point of one sort of callback of a tensor."""
    found = _of_tensors.get((id(tensor), place))
    if found is not None and found.owner() is tensor:
        return found
    row = PLACES[place]
    stub = row.stub
    if name is not None and row.named is not None:
        # PyTorch calls it with the gradient alone.
        stub = FunctionType(row.named.__code__, row.named.__globals__, place, (name,))
    shape = tuple(tensor.shape)
    label = f"{name or f'a tensor of shape {shape}'}, {place}"
    made = OwnMountPoint(
        tensor, stub, label, TensorSeat(tensor, place), target=row.target, emission=row.emission, fits=row.fits
    )
    _of_tensors[id(tensor), place] = made
    return made


def modules_of(model: Module) -> Iterator[tuple[str, Module]]:
    """Give the modules of a model by name, its own left out, as often as they have names; wrappers are seen through."""
    for name, module in model.named_modules(remove_duplicate=False):
        bare = _bare_name(model, name)
        if bare:
            yield bare, module


def parameters_of(model: Module) -> Iterator[tuple[str, Tensor]]:
    """Give the parameters of a model by name, as often as they have names."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        yield _bare_name(model, name), parameter


# What PyTorch calls the model inside a wrapper.
_WRAPPED = frozenset(("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))


def _bare_name(model: Module, name: str) -> str:
    parts: list[str] = []
    held: Any = model
    for part in name.split("."):
        parallel = type(held).__name__ in ("DistributedDataParallel", "DataParallel") and part == "module"
        if part not in _WRAPPED and not parallel:
            parts.append(part)
        held = getattr(held, "_modules", {}).get(part)
    return ".".join(parts)
