"""Error messages for what is not woven: what was found in its place, and what to do."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import find_spec
from types import ModuleType

from aspecthook._core.law.callables import type_of
from aspecthook._errors import WeaveError, nearest, qualified
from aspecthook._foreign.places import is_ours
from aspecthook._hints import Any

from ._members import modules
from ._pointcut import Term, is_glob
from ._spots import IMMUTABLE, type_name


def why_empty(target: Any, label: str) -> str:
    """Return why a class or a module has nothing that can be woven."""
    if isinstance(target, type) and target.__flags__ & IMMUTABLE:
        return (
            f"{label} cannot be woven: it is an immutable C type, in which nothing can be replaced; weave a subclass, "
            f"or the functions that call it"
        )
    if isinstance(target, type):
        return (
            f"{label} cannot be woven: it defines no public Python methods of its own; weave the class that does, "
            f"or name one: '{label}.__init__'"
        )
    return (
        f"{label} cannot be woven: it defines no public functions of its own; name what it has, '{label}:...', or "
        f"what is below it, '{label}.*:*'"
    )


def why_nothing(term: Term, module: ModuleType) -> str:
    """Return why a term chooses nothing in a module that is imported."""
    if is_ours(module.__name__):
        return f"{term.text!r} cannot be woven: {module.__name__} is part of what runs the hooks; weave what calls it"
    held: Any = module
    for segment in term.segments:
        held = vars(held).get(segment.glob) if segment.exact and isinstance(held, (ModuleType, type)) else None
    if isinstance(held, type):
        return why_empty(held, qualified(held))
    word = term.segments[0].glob
    names = [one for one in vars(module).copy() if not one.startswith("__") and one != word]
    near = nearest(word.strip("*"), names)
    return (
        f"{term.text!r} chooses nothing: {module.__name__} itself defines no function or class of such a name; spell "
        f"out the name that it imports, or name the module that defines it{near}"
    )


def why_excluded(term: Term) -> str:
    """Return why a term chooses nothing, though there is what it means."""
    return f"{term.text!r} chooses nothing: terms with '!' exclude all of it; take one of the two out"


def refuse_no_module(term: Term) -> None:
    """Refuse a term that names something in `sys.modules` which is not a module, as some libraries put there."""
    loaded: Any = sys.modules.get(term.module)
    if loaded is not None and not issubclass(type_of(loaded), ModuleType):
        kind = type_name(loaded)
        raise WeaveError(
            f"{term.text!r} cannot be woven: {term.module!r} in sys.modules is not a module but of type {kind}; pass "
            f"its functions themselves, as in weave({term.module}.f, ...)"
        )


def why_unknown(term: Term) -> str | None:
    """Return why the module of a term can never be imported; None if it can, or if that is unknown.

    Only the top-level package is looked for: to look for a module below a package is to import the package.
    """
    top = term.module.partition(".")[0]
    if is_glob(top) or top in sys.modules or top in sys.stdlib_module_names:
        return None
    try:
        # Not by `importlib.util.find_spec`, which up to Python 3.13 holds a lock that other threads may wait for.
        if any(one.find_spec(top, None) is not None for one in list(sys.meta_path) if hasattr(one, "find_spec")):
            return None
    except Exception:  # a finder may raise anything
        return None
    return f"there is no module {top!r} to import{nearest(top, _top_level(top), _ALIKE)}"


# How alike a name must be to be suggested, among all that are installed.
_ALIKE = 0.7


def _top_level(top: str) -> list[str]:
    """Return the top-level modules that can be imported, as far as they are known without importing."""
    from pkgutil import iter_modules  # few programs need it, and it loads `typing`

    names = {*sys.stdlib_module_names, *(name.partition(".")[0] for name in list(sys.modules))}
    with suppress(Exception):  # a finder may raise anything
        names.update(one.name for one in iter_modules())
    return sorted(name for name in names if name.startswith("_") == top.startswith("_"))


def why_waiting(term: Term) -> str:
    """Return why a term has chosen nothing yet, for those who expect that it has; refuse one that never can."""
    refuse_no_module(term)
    unknown = why_unknown(term)
    if unknown is not None:
        return unknown
    found = modules(term)
    if found:
        return f"it matches nothing in {found[0].__name__}; write a name that exists"
    parent = term.module.rpartition(".")[0]
    if term.exact_module and parent in sys.modules:
        try:
            there = find_spec(term.module) is not None
        except Exception:  # a finder may raise anything
            there = False
        if not there:
            near = nearest(term.module, [name for name in list(sys.modules) if name != term.module])
            return f"there is no module {term.module!r} to import{near}"
    return f"no module {term.module!r} has been imported; import it, or correct its name"
