"""Error messages for what is not woven: what was found in its place, and what to do."""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType

from aspecthook._core.law.callables import type_of
from aspecthook._errors import WeaveError, nearest, qualified
from aspecthook._foreign.places import is_ours, space_of
from aspecthook._hints import Any

from ._imports import is_being_imported
from ._members import find, modules_of
from ._pointcut import Term, is_glob
from ._spots import IMMUTABLE


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
    if find(term, module):
        return f"{term.text!r} chooses nothing: terms with '!' exclude all of it; take one of the two out"
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


def refuse_module(term: Term) -> None:
    """Refuse a term that names a module of ours, or something in `sys.modules` which is not a module."""
    if is_ours(term.module):
        raise WeaveError(
            f"{term.text!r} cannot be woven: {term.module} is part of what runs the hooks; weave what calls it"
        )
    loaded: Any = sys.modules.get(term.module)
    if loaded is not None and not issubclass(type_of(loaded), ModuleType):
        kind = type(loaded).__name__
        raise WeaveError(
            f"{term.text!r} cannot be woven: {term.module!r} in sys.modules is not a module but of type {kind}; pass "
            f"its functions themselves, as in weave({term.module}.f, ...)"
        )


def why_unknown(term: Term) -> str | None:
    """Return why the module of a term can never be imported; None if it can, or if that is unknown.

    The first part of its name that is not imported is looked for: to look further is to import that part.
    """
    parent: ModuleType | None = None
    name = ""
    for part in term.module.split("."):
        name = f"{name}.{part}".removeprefix(".")
        if name not in sys.modules:
            break
        parent = sys.modules[name]
    else:
        return None
    if is_glob(name) or name in sys.stdlib_module_names:
        return None
    # A module of another type may load itself, or its modules, when it is asked for them.
    if parent is not None and (type(parent) is not ModuleType or is_being_imported(parent)):
        return None
    space = {} if parent is None else space_of(parent)
    path: list[str] | None = space.get("__path__")
    try:
        # Not by `importlib.util.find_spec`, which up to Python 3.13 holds a lock that other threads may wait for.
        finders = [one for one in list(sys.meta_path) if hasattr(one, "find_spec")]
        if (parent is None or path is not None) and any(one.find_spec(name, path) is not None for one in finders):
            return None
    except Exception:  # a finder may raise anything
        return None
    missing = f"there is no module {name!r} to import"
    if parent is not None and part in space:  # of a class, or another object
        inner, _, names = term.text.removeprefix(f"{parent.__name__}.").partition(":")
        return f"{missing}; write '{parent.__name__}:{inner}.{names}'"
    # Among all that are installed, some are always a little alike.
    return f"{missing}{nearest(name, _siblings(name, path or []), 0.7)}"


def _siblings(name: str, path: list[str]) -> list[str]:
    """Return the modules that can be imported beside one, in its package's `path`, as far as that is known."""
    from pkgutil import iter_modules  # few programs need it, and it loads `typing`

    package, dot, last = name.rpartition(".")
    names = set[str]() if package else {*sys.stdlib_module_names}
    with suppress(Exception):  # a finder may raise anything
        names.update(one.name for one in iter_modules(path if package else None))
    return sorted(package + dot + one for one in names if one.startswith("_") == last.startswith("_"))


def why_waiting(term: Term) -> str:
    """Return why a term has chosen nothing yet, for those who expect that it has; refuse one that never can."""
    refuse_module(term)
    unknown = why_unknown(term)
    if unknown is not None:
        return unknown
    found = modules_of(term)
    if found:
        return f"it matches nothing in {found[0].__name__}; write a name that exists"
    return f"no module {term.module!r} has been imported; import it, or correct its name"
