"""What a pointcut takes of the modules that it names, what it leaves, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from aspecthook._core.law.callables import code_of
from aspecthook._errors import WeaveError, nearest
from aspecthook._foreign.places import space_of
from aspecthook.weave._members import Member, find, function_in, is_excluded, modules, path_of
from aspecthook.weave._pointcut import Pointcut, Term, is_glob
from aspecthook.weave._spots import spot_of


class Match(NamedTuple):
    """A function that a pointcut takes, or leaves."""

    label: str
    why: str | None  # why it is left; None if it is taken
    place: str  # its file and line, as far as they are known


def match(text: str) -> list[Match]:
    """Return what a pointcut takes and leaves, after importing what it names.

    Raises:
        WeaveError: It is no pointcut, or names what does not exist.
    """
    pointcut = Pointcut(text)
    found: dict[str, Match] = {}
    for term in pointcut.terms:
        _import(term)
        for module in modules(term):
            for one in _in_module(term, module, pointcut):
                if one.label not in found or found[one.label].why is not None:
                    found[one.label] = one
    return sorted(found.values(), key=lambda one: one.label)


def _in_module(term: Term, module: ModuleType, pointcut: Pointcut) -> Iterator[Match]:
    taken: set[tuple[int, str]] = set()
    for member in find(term, module):
        taken.add((id(member.owner), member.name))
        yield Match(member.label, _why_left(member, pointcut), _place(member.value, member.accessor))
    for member in _others(module, (), term):
        if (id(member.owner), member.name) not in taken:
            yield Match(member.label, _why_unmatched(member), _place(member.value, "fget"))


def _why_left(member: Member, pointcut: Pointcut) -> str | None:
    if is_excluded(member, pointcut):
        return "excluded with '!'"
    try:
        spot_of(member)
    except WeaveError as error:
        return str(error).removeprefix(f"{member.label} cannot be woven: ")
    return None


def _why_unmatched(member: Member) -> str:
    home = getattr(member.value, "__module__", None)
    if isinstance(member.owner, ModuleType) and home != member.owner.__name__:
        return f"imported from {home}; weave it there"
    if member.name.startswith("_"):
        return "its name begins with an underscore; spell that out in the pattern"
    return "its name does not match"


def _others(owner: ModuleType | type[Any], path: tuple[str, ...], term: Term) -> Iterator[Member]:
    """Yield the functions of a module, and of the classes that a term opens, also those that it does not choose."""
    depth = len(path)
    for name, value in list(space_of(owner).items()):
        member = Member(owner, name, value, (*path, name))
        if isinstance(value, type):
            opened = depth >= len(term.segments) or term.segments[depth].chooses(name)
            if opened and value.__module__ == _module_of(owner) and path_of(value) == member.path:
                yield from _others(value, member.path, term)
        elif isinstance(function_in(value, "fget"), FunctionType) and not _is_dunder(name):
            yield member


def _module_of(owner: ModuleType | type[Any]) -> str:
    """Return the name of the module of a module or a class."""
    return owner.__name__ if isinstance(owner, ModuleType) else owner.__module__


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _place(value: Any, accessor: str) -> str:
    function = function_in(value, accessor)
    code = code_of(function) if function is not None else None
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _import(term: Term) -> None:
    """Import the modules that a term means; of a glob, those below the package that it spells out."""
    if term.exact_module:
        _import_one(term.module)
        return
    parts = term.module.split(".")
    spelt = parts[: next(place for place, part in enumerate(parts) if is_glob(part))]
    if not spelt:
        return  # `*:f`: what is imported already
    top = _import_one(".".join(spelt))
    for info in walk_packages(getattr(top, "__path__", ()), f"{top.__name__}.", onerror=str):
        if term.in_module(info.name) and not info.name.endswith(".__main__"):
            try:
                import_module(info.name)
            except Exception as error:
                print(f"{info.name} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)


def _import_one(name: str) -> ModuleType:
    try:
        missing = find_spec(name) is None
    except ModuleNotFoundError:
        missing = True
    if missing:
        raise WeaveError(f"there is no module {name!r} to import{nearest(name, list(sys.modules), 0.7)}")
    return import_module(name)
