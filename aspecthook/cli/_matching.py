"""What a pointcut selects in the modules that it names, what it leaves out, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from aspecthook._core.law.callables import code_of
from aspecthook._errors import WeaveError, printable
from aspecthook._foreign.places import space_of
from aspecthook.weave._members import Member, find, function_in, is_excluded, modules_of
from aspecthook.weave._pointcut import Pointcut, Term, is_glob
from aspecthook.weave._reasons import why_unknown
from aspecthook.weave._spots import spot_of


class Match(NamedTuple):
    """A function that a pointcut selects, or leaves out."""

    key: tuple[object, ...]
    label: str
    why: str | None  # why it is left; None if it is taken
    place: str  # its file and line, as far as they are known


def match(text: str) -> list[Match]:
    """Return what a pointcut selects and leaves out, after importing the modules that it names.

    Raises:
        WeaveError: It is no pointcut, or names what does not exist.
    """
    pointcut = Pointcut(text)
    for term in pointcut.terms:
        _import(term)
    found: dict[object, Match] = {}
    for term in pointcut.terms:
        for module in modules_of(term):
            for one in _in_module(term, module, pointcut):
                if one.key not in found or found[one.key].why is not None:
                    found[one.key] = one
    return sorted(found.values(), key=lambda one: one.label)


def _in_module(term: Term, module: ModuleType, pointcut: Pointcut) -> Iterator[Match]:
    taken: set[object] = set()
    for member in find(term, module):
        taken.add(_key(member))
        place = _place(member.value, member.accessor)
        yield Match(_key(member), member.label, _why_left(member, pointcut), place)
    for member in _others(module, module, ""):
        if _key(member) not in taken and not is_excluded(member, pointcut):
            hint = "begins with an underscore; spell that out in the pattern"
            why = f"its name {hint if any(name[0] == '_' for name in member.path) else 'does not match'}"
            yield Match(_key(member), member.label, why, "")
    for name, value in list(space_of(module).items()):
        home = getattr(value, "__module__", None)
        if isinstance(value, (type, FunctionType)) and home != module.__name__:
            why = f"its __module__ is {home!r}; weave it there, or spell out '{module.__name__}:{name}'"
            yield Match((id(module), name), printable(f"{module.__name__}:{name}"), why, "")


def _key(member: Member) -> tuple[object, ...]:
    return id(member.heir or member.owner), member.name, member.accessor


def _why_left(member: Member, pointcut: Pointcut) -> str | None:
    if is_excluded(member, pointcut):
        return "excluded with '!'"
    try:
        spot_of(member)
    except WeaveError as error:
        return str(error).removeprefix(f"{member.label} cannot be woven: ")
    return None


def _others(module: ModuleType, owner: ModuleType | type, path: str) -> Iterator[Member]:
    """Yield what a module or a class in it defines, also by private and special names, and what is in its classes."""
    for glob in ("*", "_*", "__*"):
        yield from find(Pointcut(f"{module.__name__}:{path}{glob}").terms[0], module)
    for name, value in list(space_of(owner).items()):
        is_own = isinstance(value, type) and value.__module__ == module.__name__
        if is_own and value.__qualname__.endswith(path + name) and name.isidentifier():
            yield from _others(module, value, f"{path}{name}.")


def _place(value: Any, accessor: str) -> str:
    function = function_in(value, accessor)
    code = code_of(function) if function is not None else None
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _import(term: Term) -> None:
    """Import the modules that a term means; of a glob, those below the package that it spells out."""
    parts = term.module.split(".")
    spelt = parts[: next((place for place, part in enumerate(parts) if is_glob(part)), len(parts))]
    top: ModuleType | None = None
    for count in range(1, len(spelt) + 1):
        unknown = why_unknown(term)
        if unknown is not None:
            raise WeaveError(unknown)
        top = import_module(".".join(spelt[:count]))
    if top is None or term.exact_module:  # `*:f` means what is imported already
        return
    for info in walk_packages(getattr(top, "__path__", ()), f"{top.__name__}.", onerror=str):
        if term.in_module(info.name) and not info.name.endswith(".__main__"):
            try:
                import_module(info.name)
            except Exception as error:
                print(f"{info.name} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)
