"""From what `weave` is given for a model or a tensor of PyTorch to plans: which modules are meant, and why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from aspecthook._errors import WeaveError, nearest
from aspecthook._mount import MountPoint

from ._modules import (
    OF_MODULES,
    OF_TENSORS,
    PLACES,
    Module,
    callback_point,
    forward_point,
    is_module,
    is_tensor,
    label_of,
    modules_of,
    parameters_of,
    tensor_point,
)

WORDS = tuple(PLACES)
Where: TypeAlias = Callable[[Any], object]

# A pattern, a class of modules, or several of them.
Names: TypeAlias = "str | type[Any] | Iterable[str | type[Any]]"


class Point(NamedTuple):
    """A place for hooks in a model: a module or a tensor, its name, and how its mount point is had."""

    key: object
    function: Any
    mount: Callable[[], MountPoint]
    kept: bool = False  # whether nothing of the model keeps the mount point


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


def shown(target: Module, names: Names | None) -> str:
    kind = type(target).__name__
    if names is None:
        return kind
    words = [one if isinstance(one, str) else one.__name__ for one in _terms(names)]
    return f"{', '.join(words)!r} of {kind}"


# Tensors


def _of_tensor(tensor: Any, names: Names | None, word: str) -> Chosen:
    label = f"a tensor of shape {tuple(tensor.shape)}"
    if names is not None:
        raise WeaveError(f"{label} has nothing with a name in it; give the names {names!r} with a model")
    if word not in OF_TENSORS:
        raise WeaveError(f"{label} takes hooks for {', '.join(OF_TENSORS)}, and none for {word}; weave a module")
    return Chosen(label, [_tensor(tensor, word, None)])


def _tensor(tensor: Any, word: str, name: str | None) -> Point:
    label = name or f"a tensor of shape {tuple(tensor.shape)}"
    if not tensor.requires_grad:
        raise WeaveError(f"{label} has no gradient to hook: it does not require one; set requires_grad first")
    if word == "accumulated" and tensor.grad_fn is not None:
        raise WeaveError(f"{label} accumulates no gradient: it was computed from others; weave it with grad=")
    return Point((id(tensor), word), tensor, lambda: tensor_point(tensor, word, name), kept=True)


def _parameters(model: Module, names: Names | None, word: str) -> list[Point]:
    if names is None:
        raise WeaveError(
            f"{word}= hooks the gradients of parameters: name them, as in weave(model, '*.weight', {word}=hook), or "
            f"use backward= for those that go through the {type(model).__name__}"
        )
    found = _select(model, names, list(parameters_of(model)), "parameter")
    learning = [(name, one) for name, one, exact in found if one.requires_grad or exact]
    if not learning:
        raise WeaveError(f"{shown(model, names)} chooses parameters that require no gradient; set requires_grad first")
    return [_tensor(one, word, name) for name, one in learning]


# Modules


def _modules(model: Module, names: Names | None, word: str) -> list[Point]:
    if names is None:
        return [_module(model, "", word, bypassed=type(model).__name__ in _BYPASSED)]
    found = _select(model, names, list(modules_of(model)), "module")
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


def _module(module: Module, name: str, word: str, *, bypassed: bool) -> Point:
    key = (id(module), word)
    if "state_dict" not in word:
        _refuse_never_called(module, name)
    if word in OF_MODULES:
        return Point(key, module, lambda: callback_point(module, word, name))
    return Point(key, module, lambda: forward_point(module, name, bypassed=bypassed))


def _refuse_never_called(module: Module, name: str) -> None:
    import torch

    why = ""
    if isinstance(module, torch.jit.ScriptModule):
        why = (
            "it runs TorchScript, which calls no hooks of Python; weave the module that it was made from, or one that "
            "calls it"
        )
    elif type(module).forward is torch.nn.Module.forward and "forward" not in vars(module):
        held = f"'{name}.*'" if name else "'*'"
        why = f"it has no forward and is never called; weave the modules that it holds, {held}"
    elif type(module).__name__ == "NonDynamicallyQuantizableLinear":
        why = "its MultiheadAttention uses its weights and never calls it; weave the MultiheadAttention"
    if why:
        raise WeaveError(f"{label_of(name, module)} cannot be woven: {why}")


# What a TransformerEncoderLayer may compute without calling it.
_BYPASSED = ("Linear", "LayerNorm", "Dropout", "MultiheadAttention")


def _inside_encoders(model: Module) -> set[int]:
    import torch

    layers = [one for one in model.modules() if isinstance(one, torch.nn.TransformerEncoderLayer)]
    return {id(one) for layer in layers for one in layer.modules() if one is not layer}


# Names


def _select(
    model: Module, names: Names, known: list[tuple[str, Any]], what: str
) -> list[tuple[str, Any, bool]]:
    """Give what is meant, each once, with a name of it, and whether it was named exactly.

    Raises:
        WeaveError: Something that was given chooses nothing.
    """
    found: dict[int, tuple[str, Any, bool]] = {}
    terms = _terms(names)
    barred = [term[1:].strip() for term in terms if isinstance(term, str) and term.startswith("!")]
    for term in terms:
        if isinstance(term, str) and term.startswith("!"):
            continue
        meant = [(name, one) for name, one in known if _means(term, name, one)]
        if not meant:
            raise WeaveError(_why_none(term, model, known, what))
        for name, one in meant:
            if not any(_means(bar, name, one) for bar in barred):
                found.setdefault(id(one), (name, one, name == term))
    if not found:
        raise WeaveError(f"{shown(model, names)} chooses nothing: take something out of what '!' excludes")
    return list(found.values())


def _terms(names: Any) -> list[str | type[Any]]:
    if isinstance(names, str):
        found: list[str | type[Any]] = [part.strip() for part in names.split(",")]
    elif isinstance(names, type):
        found = [names]
    else:
        try:
            found = [term for one in names for term in _terms(one)]
        except TypeError:
            found = []
    if not any(not isinstance(one, str) or not one.startswith("!") for one in found) or "" in found:
        raise WeaveError(
            f"{names!r} names no modules; give a pattern such as 'layer*.conv*', a class such as torch.nn.Conv2d, or a "
            f"list of them; without names the model itself is woven"
        )
    return found


def _means(term: str | type[Any], name: str, one: Any) -> bool:
    return fnmatchcase(name, term) if isinstance(term, str) else isinstance(one, term)


def _why_none(term: str | type[Any], model: Module, known: list[tuple[str, Any]], what: str) -> str:
    kind = type(model).__name__
    names = list(dict.fromkeys(name for name, _ in known))
    if not names:
        return f"{kind} has no {what}s with names; without a name the model itself is woven"
    if isinstance(term, type):
        kinds = list(dict.fromkeys(type(one).__name__ for _, one in known))
        return f"no {what} of {kind} is a {term.__name__}; there are {_listed(kinds)}{nearest(term.__name__, kinds)}"
    near = nearest(term, names)
    return f"{term!r} chooses no {what} of {kind}{near or f'; there are {_listed(names)}'}"


def _listed(names: list[str], most: int = 12) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
