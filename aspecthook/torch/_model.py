"""How models and tensors of PyTorch are woven: which modules or parameters are meant, or why they cannot be."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from types import MethodType
from typing import Any

from aspecthook._core.law.callables import type_of
from aspecthook._errors import WeaveError, WeaveWarning, brief, nearest, qualified, warn
from aspecthook.weave import Names
from aspecthook.weave._finding import Where
from aspecthook.weave._spots import Chosen, Spot

from ._callbacks import CALLBACKS, callback_point
from ._carried import Module, Tensor, is_module, is_tensor, label_of, loaded_torch, shown_tensor, space_of
from ._forward import forward_point


def takes(target: object) -> bool:
    """Whether a target takes hooks in the way of PyTorch."""
    return is_module(target) or is_tensor(target)


def choose(target: Any, names: Names | None, words: Iterable[str], where: Where | None) -> dict[str, Chosen]:
    """Return where the hooks of each word go; "call" stands for the kinds that every function takes.

    Raises:
        WeaveError: There is no such place.
    """
    if is_tensor(target):
        return {word: _of_tensor(target, names, word) for word in words}
    found: dict[str, Chosen] = {}
    for word in words:
        spots = _parameters(target, names) if word == "grad" else _modules(target, names, word)
        chosen = [spot for spot in spots if where is None or where(spot.function)]
        if not chosen:
            what = shown(target, names)
            raise WeaveError(f"{what} is not woven: `where` refuses all {len(spots)} of what it chooses")
        found[word] = Chosen(shown(target, names), chosen)
    return found


def spot_of_method(method: MethodType) -> Spot | None:
    """Return the spot of a module, if the method is its forward: hooks on it are hooks on the module."""
    module: Any = method.__self__
    inner: Any = method.__func__
    if is_module(module) and getattr(inner, "__wrapped__", inner) is getattr(type_of(module), "forward", None):
        return _module_alone(module, "call")
    return None


def warn_of(function: Any) -> None:
    """Warn that compiled code does not see hooks on the forward of a class."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    if dynamo is None or not _is_forward_of_class(function):
        return
    codes: Any = getattr(getattr(dynamo, "convert_frame", None), "input_codes", None)
    if getattr(codes, "seen", True):  # what has been compiled since it was last reset
        cls = function.__qualname__.removesuffix(".forward")
        message = (
            f"torch.compile does not see hooks on {qualified(function)}, a method of a class: "
            f"what it has compiled runs without them; weave the modules, as in weave(model, {cls})"
        )
        warn(message, WeaveWarning)


def _is_forward_of_class(function: object, cls: type[Any] | None = None) -> bool:
    """Whether a class of modules, or one below it, has this function as its ``forward``."""
    below: list[type[Any]] = type.__subclasses__(cls or loaded_torch().nn.Module)
    return any(vars(one).get("forward") is function or _is_forward_of_class(function, one) for one in below)


# Tensors


def _of_tensor(tensor: Any, names: Names | None, word: str) -> Chosen:
    label = shown_tensor(tensor)
    if names is not None:
        raise WeaveError(f"{label} has nothing with a name in it; give the names {brief(names)} with a model")
    if word != "grad":
        refused = "forward" if word == "call" else word
        raise WeaveError(f"{label} takes hooks for grad, and none for {refused}; weave a module")
    return Chosen(label, [_tensor(tensor, "")])


def _tensor(tensor: Any, name: str) -> Spot:
    label = name or shown_tensor(tensor)
    if not tensor.requires_grad:
        raise WeaveError(f"{label} has no gradient to hook: it does not require one; set requires_grad first")
    if hasattr(tensor, "full_tensor"):
        raise WeaveError(
            f"{label} is divided among ranks (fully_shard), and PyTorch calls no hooks on its gradient; weave the "
            "module that has it, with backward="
        )
    return Spot(tensor, lambda: callback_point(tensor, "grad", name), loose=True)


def _parameters(model: Module, names: Names | None) -> list[Spot]:
    if names is None:
        raise WeaveError(
            "grad= hooks the gradients of parameters: name them, as in weave(model, '*.weight', grad=hook), or use "
            f"backward= for those that go through the {type(model).__name__}"
        )
    found = select(model, names, list(parameters_of(model)), "parameter")
    learning = [(name, one) for name, one, exact in found if one.requires_grad or exact]
    if not learning:
        raise WeaveError(f"{shown(model, names)} chooses parameters that require no gradient; set requires_grad first")
    return [_tensor(one, name) for name, one in learning]


# Modules


def _modules(model: Module, names: Names | None, word: str) -> list[Spot]:
    if names is None:
        # A wrapper of torch.compile sets on the model inside the flag that registering a backward hook sets.
        inner = getattr(model, "_orig_mod", None) if "backward" in word else None
        return [_module_alone(model if inner is None else inner, word)]
    found = select(model, names, list(modules_of(model)), "module")
    inside = _inside_encoders(model)
    spots: list[Spot] = []
    refused: WeaveError | None = None
    for name, module, exact in found:
        try:
            spots.append(_module(module, name, word, bypassed=id(module) in inside))
        except WeaveError as error:
            if exact:
                raise
            refused = refused or error  # a pattern passes over modules that take no hooks
    if not spots and refused is not None:
        raise refused
    return spots


def _module_alone(module: Module, word: str) -> Spot:
    """Return the spot of a module without its parent, which may be an encoder layer that computes these itself."""
    nn = loaded_torch().nn
    may_be_bypassed = isinstance(module, (nn.Linear, nn.LayerNorm, nn.Dropout, nn.MultiheadAttention))
    return _module(module, "", word, bypassed=may_be_bypassed)


def _module(module: Module, name: str, word: str, *, bypassed: bool) -> Spot:
    _refuse_never_called(module, name)
    if word in CALLBACKS:
        return Spot(module, lambda: callback_point(module, word, name))
    return Spot(module, lambda: forward_point(module, name, bypassed=bypassed))


def _refuse_never_called(module: Module, name: str) -> None:
    why = ""
    if isinstance(module, loaded_torch().jit.ScriptModule):
        why = (
            "it runs TorchScript, which calls no hooks of Python; weave the module that it was made from, or one that "
            "calls it"
        )
    elif type_of(module).forward is loaded_torch().nn.Module.forward and "forward" not in space_of(module):
        held = f"'{name}.*'" if name else "'*'"
        why = f"it has no forward and is never called; weave the modules that it holds, {held}"
    elif type(module).__name__ == "NonDynamicallyQuantizableLinear":
        why = "its MultiheadAttention uses its weights and never calls it; weave the MultiheadAttention"
    if why:
        raise WeaveError(f"{label_of(name, module)} cannot be woven: {why}")


def _inside_encoders(model: Module) -> set[int]:
    layers = [one for one in model.modules() if isinstance(one, loaded_torch().nn.TransformerEncoderLayer)]
    return {id(one) for layer in layers for one in layer.modules() if one is not layer}


# The names of modules and parameters in a model, and which of them a user means. Wrappers have no names.


def modules_of(model: Module) -> Iterator[tuple[str, Module]]:
    """Yield the names and modules of a model, without its own; a shared module comes once for each name.

    A wrapper is left out: its name is that of the module inside it.
    """
    held = dict(model.named_modules(remove_duplicate=False))
    wrappers = {name.rpartition(".")[0] for name in held if name and _is_wrapped(held, name)}
    for name, module in held.items():
        bare = _bare_name(held, name)
        if bare and name not in wrappers:
            yield bare, module


def parameters_of(model: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and parameters of a model; a shared parameter comes once for each name."""
    held = dict(model.named_modules(remove_duplicate=False))
    for name, parameter in model.named_parameters(remove_duplicate=False):
        yield _bare_name(held, name), parameter


# The attribute in which a wrapper keeps its module. That of the parallel wrappers, `module`, is a common name.
_WRAPPED = frozenset(("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"))
_PARALLEL = ("DistributedDataParallel", "DataParallel")


def _is_wrapped(held: dict[str, Module], name: str) -> bool:
    path, _, last = name.rpartition(".")
    return last in _WRAPPED or (last == "module" and type(held.get(path)).__name__ in _PARALLEL)


def _bare_name(held: dict[str, Module], name: str) -> str:
    parts = name.split(".")
    return ".".join([part for place, part in enumerate(parts) if not _is_wrapped(held, ".".join(parts[: place + 1]))])


def shown(target: Module, names: Names | None) -> str:
    """Return a model, and what is meant in it, as messages show them."""
    kind = type(target).__name__
    if names is None:
        return kind
    words = [one if isinstance(one, str) else one.__name__ for one in _terms(names)]
    return f"{', '.join(words)!r} of {kind}"


def select(model: Module, names: Names, known: list[tuple[str, Any]], what: str) -> list[tuple[str, Any, bool]]:
    """Return what is meant, each once: its name, itself, and whether it was named exactly.

    Raises:
        WeaveError: One of the names chooses nothing.
    """
    found: dict[int, tuple[str, Any, bool]] = {}
    terms = _terms(names)
    barred = [term[1:].strip() for term in terms if isinstance(term, str) and term.startswith("!")]
    for term in [term for term in terms if not (isinstance(term, str) and term.startswith("!"))]:
        meant = [(name, one) for name, one in known if _means(term, name, one)]
        if not meant:
            raise WeaveError(_why_none(term, model, known, what))
        for name, one in meant:
            if not any(_means(bar, name, one) for bar in barred):
                first, _, exact = found.get(id(one), (name, one, False))
                found[id(one)] = (first, one, exact or name == term)
    if not found:
        raise WeaveError(f"{shown(model, names)} chooses nothing: take something out of what '!' excludes")
    return list(found.values())


def _terms(names: Any) -> list[str | type[Any]]:
    found = list(_flat(names))
    if "" in found or all(isinstance(one, str) and one.startswith("!") for one in found):
        raise WeaveError(
            f"{brief(names)} names no modules; give a pattern such as 'layer*.conv*', a class such as torch.nn.Conv2d, "
            "or a list of them; without names the model itself is woven"
        )
    return found


def _flat(names: Any) -> Iterator[str | type[Any]]:
    if isinstance(names, str):
        yield from [part.strip() for part in names.split(",")]
    elif isinstance(names, type):
        yield names
    elif issubclass(type_of(names), Iterable):
        for one in names:
            yield from _flat(one)
    else:
        yield ""


def _means(term: str | type[Any], name: str, one: Any) -> bool:
    return fnmatchcase(name, term) if isinstance(term, str) else isinstance(one, term)


def _why_none(term: str | type[Any], model: Module, known: list[tuple[str, Any]], what: str) -> str:
    kind, by_class = type(model).__name__, isinstance(term, type)
    if not known:
        return f"{kind} has no {what}s with names; without a name the model itself is woven"
    word = term.__name__ if isinstance(term, type) else term
    words = list(dict.fromkeys(type(one).__name__ if by_class else name for name, one in known))
    listed = ", ".join([*words[:12], *([f"and {len(words) - 12} more"] if len(words) > 12 else [])])
    return f"{word!r} chooses no {what} of {kind}{nearest(word, words) or f'; there are {listed}'}"
