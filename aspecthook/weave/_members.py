"""Members of imported modules and their classes, as a pointcut chooses them. Searching imports and changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property, lru_cache, partialmethod, singledispatchmethod
from types import BuiltinFunctionType, DynamicClassAttribute, FunctionType, ModuleType

from aspecthook._core.law.callables import type_of
from aspecthook._errors import WeaveError, nearest, printable, qualified
from aspecthook._foreign.places import modules, space_of
from aspecthook._hints import Any, NamedTuple, TypeAlias, cast

from ._pointcut import Pointcut, Segment, Term

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Owner: TypeAlias = "ModuleType | type[Any]"

CACHING: type[Any] = type(lru_cache(print))
ACCESSORS = ("fget", "fset", "fdel")
_WRAPPERS = (cached_property, partialmethod, singledispatchmethod, CACHING)
_METHODS = (FunctionType, classmethod, staticmethod, property, *_WRAPPERS)


class Member(NamedTuple):
    """An entry in the namespace of a module or a class."""

    owner: Owner
    name: str
    value: object  # from `vars(owner)`, unbound
    path: tuple[str, ...]  # the qualified name in the module
    heir: type[Any] | None = None  # the class that was named, if it inherits the member
    accessor: str = "fget"  # the function of a property that is meant

    @property
    def module(self) -> str:
        """The name of the member's module."""
        return self.owner.__name__ if isinstance(self.owner, ModuleType) else (self.heir or self.owner).__module__

    @property
    def label(self) -> str:
        """The name of the member in messages."""
        return printable(f"{self.module}:{'.'.join(self.path)}")


def modules_of(term: Term) -> list[ModuleType]:
    """Return the imported modules that a term means. A glob does not choose those that weaving itself runs on."""
    if term.exact_module:
        named: Any = sys.modules.get(term.module)
        return [named] if issubclass(type(named), ModuleType) else []
    return list({id(one): one for name, one in modules() if term.in_module(name)}.values())


def find(term: Term, module: ModuleType) -> list[Member]:
    """Return the members of a module that a term means.

    Raises:
        WeaveError: The term names a member that does not exist.
    """
    return list(_expand(module, term.segments, (), term))


def public(owner: Owner, path: tuple[str, ...]) -> list[Member]:
    """Return the public functions that a module or a class itself defines."""
    found = _chosen(owner, Segment("*", exact=False), path)
    return [member for member in found if not _is_class(member.value)]


def is_excluded(member: Member, pointcut: Pointcut) -> bool:
    """Whether a term with ``!`` excludes a member."""
    return any(term.in_module(member.module) and term.covers(member.path) for term in pointcut.excluded)


def _expand(owner: Owner, segments: tuple[Segment, ...], path: tuple[str, ...], term: Term) -> Iterator[Member]:
    first, rest = segments[0], segments[1:]
    if first.exact:
        member = _named(owner, first.glob, path, term)
        found = [member] if member is not None else []
    else:
        found = _chosen(owner, first, path)
    for member in found:
        if _is_class(member.value):
            cls = cast("type[Any]", member.value)
            yield from _expand(cls, rest, member.path, term) if rest else public(cls, member.path)
        elif not rest:
            yield member
        elif isinstance(member.value, property) and len(rest) == 1 and rest[0].glob in ACCESSORS:
            yield member._replace(accessor=rest[0].glob, path=(*member.path, rest[0].glob))
        elif first.exact:
            raise WeaveError(f"{term.text} cannot be woven: {member.label} is {_not_a_class(member, rest[0].glob)}")


def _not_a_class(member: Member, word: str) -> str:
    """Return what a member is in which a term looks for a name, and what to weave instead."""
    value: Any = member.value
    kind = type_of(value)
    if isinstance(value, ModuleType):
        name = member.label.replace(":", ".")
        return f"a module; write '{name if sys.modules.get(name) is value else value.__name__}:{word}'"
    if callable(value) or isinstance(value, property):
        return f"not a class, and has no {word!r}; name it alone: '{member.label}'"
    return (
        f"an object of type {kind.__name__}, not a class; for this object pass its method itself, as in "
        f"weave({member.label.replace(':', '.')}.{word}, ...), for all of its class write '{qualified(kind)}.{word}'"
    )


def _named(owner: Owner, name: str, path: tuple[str, ...], term: Term) -> Member | None:
    """Return the member of a name that a term spells out; None if only one module or class of several lacks it."""
    space = space_of(owner)
    if name in space:
        return Member(owner, name, space[name], (*path, name))
    if isinstance(owner, ModuleType):
        if not term.exact_module:
            return None
        lazy: Any = getattr(owner, name, None)  # a module may define __getattr__
        if lazy is not None:
            return Member(owner, name, lazy, (*path, name))
        near = nearest(name, [one for one in space.copy() if not one.startswith("__")])
        raise WeaveError(f"{term.text} cannot be woven: the module {owner.__name__} has no {name!r}{near}")
    for base in owner.__mro__[1:]:
        if name in vars(base):
            return Member(base, name, vars(base)[name], (*path, name), heir=owner)
    if any(not segment.exact for segment in term.segments) or not term.exact_module:
        return None
    near = nearest(name, [one for base in owner.__mro__ for one in vars(base).copy()])
    raise WeaveError(f"{term.text} cannot be woven: the class {printable(owner.__qualname__)} has no {name!r}{near}")


def _chosen(owner: Owner, segment: Segment, path: tuple[str, ...]) -> list[Member]:
    """Return the members that a glob chooses: classes and functions that are defined here, and not imported."""
    named = [(name, value) for name, value in list(space_of(owner).items()) if segment.chooses(name)]
    return [Member(owner, name, value, (*path, name)) for name, value in named if _is_own(owner, value)]


def _is_class(value: object) -> bool:
    return issubclass(type_of(value), type)


def _is_own(owner: Owner, value: Any) -> bool:
    if isinstance(owner, type) and isinstance(value, _METHODS):
        return True
    if not _is_class(value) and not _is_function(value):
        return False
    if isinstance(owner, type):
        home: object = getattr(value, "__qualname__", "").rpartition(".")[0]
        return bool(value.__module__ == owner.__module__ and home == owner.__qualname__)
    return bool(value.__module__ == owner.__name__)


def _is_function(value: Any) -> bool:
    """Whether a value is a function, in Python or compiled, rather than a callable object."""
    kind = type_of(value)
    if kind is FunctionType or issubclass(kind, (BuiltinFunctionType, CACHING)):
        return True
    call = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    if call is None or issubclass(kind, type) or isinstance(call, FunctionType):
        return False
    try:
        return isinstance(value.__name__, str) and isinstance(value.__module__, str)
    except Exception:  # a proxy without a target, such as `flask.request` outside of a request
        return False


def function_in(value: Any, accessor: str) -> FunctionType | None:
    """Return the Python function that a member is, or is made of."""
    kind = type_of(value)  # not its `__class__`: a wrapper of wrapt shows the class of what it wraps
    if issubclass(kind, (classmethod, staticmethod)):
        value = value.__func__
    elif issubclass(kind, (property, DynamicClassAttribute)):
        value = getattr(value, accessor)
    elif issubclass(kind, cached_property):
        value = value.func
    return value if type(value) is FunctionType else None


def member_of(target: Any) -> Member | None:
    """Return the member that the module and the qualified name of a callable lead to, which may be another object."""
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    module = sys.modules.get(str(getattr(target, "__module__", None)))
    if not isinstance(name, str) or not isinstance(module, ModuleType):
        return None
    *outer, last = name.split(".")
    owner: Any = module
    for part in outer:
        owner = space_of(owner).get(part) if isinstance(owner, (ModuleType, type)) else None
    if not isinstance(owner, (ModuleType, type)) or last not in space_of(owner):
        return None
    return Member(owner, last, space_of(owner)[last], tuple(name.split(".")))
