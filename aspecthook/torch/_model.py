"""From what `weave` is given for a model or a tensor of PyTorch to plans: which modules are meant, and why not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, NamedTuple, TypeAlias

from aspecthook._core.law.callables import type_of
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import WeaveError, WeaveWarning, brief, qualified, warn
from aspecthook.weave._members import subclasses

from ._callbacks import OF_TENSORS, PLACES, callback_point, tensor_point
from ._carried import Module, is_module, is_tensor, label_of, space_of, torch
from ._forward import forward_point
from ._names import Names, modules_of, parameters_of, select, shown

WORDS = tuple(PLACES)
Where: TypeAlias = Callable[[Any], object]


class Point(NamedTuple):
    """A place for hooks in a model: a module or a tensor, its name, and how its mount point is had."""

    key: object
    function: Any
    mount: Callable[[], MountPoint]


class Chosen:
    """The modules or tensors that one sort of hooks goes on."""

    def __init__(self, text: str, points: list[Point]) -> None:
        self.text = text
        self.points = points

    def __repr__(self) -> str:
        return self.text


def is_of_torch(target: object) -> bool:
    """Say whether a target is a module or a tensor of PyTorch."""
    return is_module(target) or is_tensor(target)


def is_forward(method: MethodType) -> bool:
    """Say whether a bound method is the forward of a module: hooks on it are hooks on the module."""
    if not is_module(method.__self__):
        return False
    inner: Any = method.__func__
    return getattr(inner, "__wrapped__", inner) is getattr(type(method.__self__), "forward", None)


def warn_of_compiled(function: Any) -> None:
    """Warn that what was compiled before will not see hooks on the forward of a class."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    if getattr(function, "__name__", "") != "forward" or dynamo is None or not _is_class_forward(function):
        return
    codes: Any = getattr(getattr(dynamo, "convert_frame", None), "input_codes", None)
    if getattr(codes, "seen", True):  # what has been compiled since it was last reset
        cls = function.__qualname__.removesuffix(".forward")
        message = (
            f"torch.compile does not see hooks on {qualified(function)}, a method of a class: "
            f"what it has compiled runs without them; weave the modules, as in weave(model, {cls})"
        )
        warn(message, WeaveWarning)


def _is_class_forward(function: object) -> bool:
    """Say whether a function is the forward of a class of modules."""
    return any(vars(cls).get("forward") is function for cls in subclasses(torch().nn.Module))


def choose(target: Any, names: Names | None, words: Iterable[str], where: Where | None) -> dict[str, Chosen]:
    """Give, for each word of ``forward``, ``backward``, ``grad`` and so on, where its hooks go.

    Raises:
        WeaveError: There is no such place.
    """
    if is_tensor(target):
        return {word: _of_tensor(target, names, word) for word in words}
    found: dict[str, Chosen] = {}
    for word in words:
        row = _parameters(target, names, word) if word in OF_TENSORS else _modules(target, names, word)
        chosen = [one for one in row if where is None or where(one.function)]
        if not chosen:
            raise WeaveError(f"{shown(target, names)} is not woven: `where` refuses all {len(row)} of what it chooses")
        found[word] = Chosen(shown(target, names), chosen)
    return found


# Tensors


def _of_tensor(tensor: Any, names: Names | None, word: str) -> Chosen:
    label = f"a tensor of shape {tuple(tensor.shape)}"
    if names is not None:
        raise WeaveError(f"{label} has nothing with a name in it; give the names {brief(names)} with a model")
    if word not in OF_TENSORS:
        raise WeaveError(f"{label} takes hooks for {', '.join(OF_TENSORS)}, and none for {word}; weave a module")
    return Chosen(label, [_tensor(tensor, word, "")])


def _tensor(tensor: Any, word: str, name: str) -> Point:
    label = name or f"a tensor of shape {tuple(tensor.shape)}"
    if not tensor.requires_grad:
        raise WeaveError(f"{label} has no gradient to hook: it does not require one; set requires_grad first")
    if word == "accumulated" and tensor.grad_fn is not None:
        raise WeaveError(f"{label} accumulates no gradient: it was computed from others; weave it with grad=")
    return Point((id(tensor), word), tensor, lambda: tensor_point(tensor, word, name))


def _parameters(model: Module, names: Names | None, word: str) -> list[Point]:
    if names is None:
        raise WeaveError(
            f"{word}= hooks the gradients of parameters: name them, as in weave(model, '*.weight', {word}=hook), or "
            f"use backward= for those that go through the {type(model).__name__}"
        )
    found = select(model, names, list(parameters_of(model)), "parameter")
    fsdp = _sharded(model)
    if fsdp:
        raise WeaveError(
            f"{word}= on {shown(model, names)} would never run: {fsdp} computes gradients for gathered copies of the "
            f"parameters; use backward= on modules"
        )
    learning = [(name, one) for name, one, exact in found if one.requires_grad or exact]
    if not learning:
        raise WeaveError(f"{shown(model, names)} chooses parameters that require no gradient; set requires_grad first")
    return [_tensor(one, word, name) for name, one in learning]


def _sharded(model: Module) -> str:
    """Name what shards the parameters of a model, if anything does."""
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    kinds = [getattr(fsdp, name, None) for name in ("FSDPModule", "FullyShardedDataParallel")]
    sharding = tuple([kind for kind in kinds if isinstance(kind, type)])
    return next((type(one).__name__ for one in model.modules() if isinstance(one, sharding)), "")


# Modules


def _modules(model: Module, names: Names | None, word: str) -> list[Point]:
    if names is None:
        # What torch.compile wraps around a model sets on the model what says that there are backward hooks.
        inner = getattr(model, "_orig_mod", None) if "backward" in word else None
        return [module_point(model if inner is None else inner, "", word)]
    found = select(model, names, list(modules_of(model)), "module")
    inside = _inside_encoders(model)
    points: list[Point] = []
    refused: WeaveError | None = None
    for name, module, exact in found:
        try:
            points.append(_module(module, name, word, bypassed=id(module) in inside))
        except WeaveError as error:
            if exact:
                raise
            refused = refused or error  # a pattern passes over what has no place for hooks
    if not points and refused is not None:
        raise refused
    return points


def module_point(module: Module, name: str, word: str) -> Point:
    """Give the place for hooks of a module of which nobody knows what it is in."""
    return _module(module, name, word, bypassed=type(module).__name__ in _BYPASSED)


def _module(module: Module, name: str, word: str, *, bypassed: bool) -> Point:
    key = (id(module), word)
    if "state_dict" not in word:
        _refuse_never_called(module, name)
    if word in PLACES:
        return Point(key, module, lambda: callback_point(module, word, name))
    return Point(key, module, lambda: forward_point(module, name, bypassed=bypassed))


def _refuse_never_called(module: Module, name: str) -> None:
    why = ""
    if isinstance(module, torch().jit.ScriptModule):
        why = (
            "it runs TorchScript, which calls no hooks of Python; weave the module that it was made from, or one that "
            "calls it"
        )
    elif type_of(module).forward is torch().nn.Module.forward and "forward" not in space_of(module):
        held = f"'{name}.*'" if name else "'*'"
        why = f"it has no forward and is never called; weave the modules that it holds, {held}"
    elif type(module).__name__ == "NonDynamicallyQuantizableLinear":
        why = "its MultiheadAttention uses its weights and never calls it; weave the MultiheadAttention"
    if why:
        raise WeaveError(f"{label_of(name, module)} cannot be woven: {why}")


# What a TransformerEncoderLayer may compute without calling it.
_BYPASSED = ("Linear", "LayerNorm", "Dropout", "MultiheadAttention")


def _inside_encoders(model: Module) -> set[int]:
    layers = [one for one in model.modules() if isinstance(one, torch().nn.TransformerEncoderLayer)]
    return {id(one) for layer in layers for one in layer.modules() if one is not layer}
