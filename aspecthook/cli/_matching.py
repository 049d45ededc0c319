"""What a pointcut takes of the modules that it names, what it leaves, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from aspecthook._core.law.callables import code_of
from aspecthook._errors import WeaveError, printable
from aspecthook._foreign.places import space_of
from aspecthook.weave._members import Member, find, function_in, is_excluded, modules, path_of
from aspecthook.weave._pointcut import Pointcut, Term, is_glob
from aspecthook.weave._reasons import why_unknown
from aspecthook.weave._spots import spot_of


class Match(NamedTuple):
    """A function that a pointcut takes, or leaves."""

    key: tuple[object, ...]
    label: str
    why: str | None  # why it is left; None if it is taken
    place: str  # its file and line, as far as they are known
    hint: str = ""  # if nobody would expect that it is left: what it is, and how to name it


def match(text: str) -> list[Match]:
    """Return what a pointcut takes and leaves, after importing what it names.

    Raises:
        WeaveError: It is no pointcut, or names what does not exist.
    """
    pointcut = Pointcut(text)
    for term in pointcut.terms:
        _import(term)
    return _found(pointcut)


def left_unexpectedly(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return what pointcuts leave in the imported modules and nobody would expect: the functions, by the hint."""
    found = [one for text in texts for one in _found(Pointcut(text))]
    taken = {one.key for one in found if one.why is None}
    left: dict[str, list[str]] = {}
    for one in found:
        if one.hint and one.key not in taken:
            left.setdefault(one.hint, []).append(one.label)
    return left


def _found(pointcut: Pointcut) -> list[Match]:
    found: dict[object, Match] = {}
    for term in pointcut.terms:
        for module in modules(term):
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
    for member in _others(module, module, (), term):
        if _key(member) not in taken and not is_excluded(member, pointcut):
            why, hint = _why_unmatched(member, module)
            # By the module that was searched: there it can be named, whatever it says of itself.
            label = printable(f"{module.__name__}:{'.'.join(member.path)}")
            yield Match(_key(member), label, why, _place(member.value, member.accessor), hint)


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


_SETTER = "setters and deleters of properties; a glob takes getters alone, so name them"
_FIXTURE = "pytest fixtures; write them as cart = pytest.fixture(make_cart), and name make_cart instead of"
_MOVED = "functions that name another module as theirs; spell out the function or its class"


def _why_unmatched(member: Member, module: ModuleType) -> tuple[str, str]:
    """Return why a glob does not choose a member, and a hint if nobody would expect it."""
    if _is_fixture(member.value):
        return f"one of the {_FIXTURE} {member.name}", _FIXTURE
    if member.accessor != "fget":
        return "a glob takes the getter alone; name it as it stands here", _SETTER
    if member.name.startswith("_"):
        return "its name begins with an underscore; spell that out in the pattern", ""
    top: Any = space_of(module)[member.path[0]]
    home = getattr(top, "__module__", None)
    if home == module.__name__:
        return "its name does not match", ""
    if _is_written_in(module, member.value):
        return f"its __module__ says {home!r}; spell out '{module.__name__}:{member.path[0]}'", _MOVED
    return f"imported from {home}; weave it there", ""


def _others(owner: ModuleType | type[Any], module: ModuleType, path: tuple[str, ...], term: Term) -> Iterator[Member]:
    """Yield the functions of a module, and of the classes that a term opens, also those that it does not choose."""
    depth = len(path)
    for name, value in list(space_of(owner).items()):
        member = Member(owner, name, value, (*path, name))
        if isinstance(value, type):
            opened = depth >= len(term.segments) or term.segments[depth].chooses(name)
            own = value.__module__ == module.__name__ or _is_written_in(module, value)
            if opened and own and path_of(value) == member.path:
                yield from _others(value, module, member.path, term)
        elif _is_dunder(name):
            continue
        elif isinstance(function_in(value, "fget"), FunctionType) or _is_fixture(value):
            yield member
        for word in ("fset", "fdel") if isinstance(value, property) else ():
            if isinstance(getattr(value, word), FunctionType):
                yield member._replace(accessor=word, path=(*member.path, word))


def _is_written_in(module: ModuleType, value: Any) -> bool:
    """Whether the code of a function, a property or a class is that of a module, whatever it says of itself."""
    parts = list(vars(value).values()) if isinstance(value, type) else [value]
    functions = [function_in(one, "fget") for one in parts]
    return any(one is not None and one.__globals__ is space_of(module) for one in functions)


def _is_fixture(value: object) -> bool:
    return type(value).__name__ == "FixtureFunctionDefinition"  # pytest need not be installed


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


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
