"""Names of modules and parameters in a model of PyTorch, and which of them a user means. Wrappers have no names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from aspecthook._core.law.callables import type_of
from aspecthook._errors import WeaveError, brief, nearest

from ._carried import Module, Tensor

# A pattern, a class of modules, or several of them.
Names: TypeAlias = "str | type[Any] | Iterable[str | type[Any]]"


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
    return f"{word!r} chooses no {what} of {kind}{nearest(word, words) or f'; there are {_listed(words)}'}"


def _listed(names: list[str], most: int = 12) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
