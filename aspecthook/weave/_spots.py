"""Spots: where the hooks on a member of a module or a class go, or why there is no such place.

A Python function carries its hooks in place. A callable without Python code is replaced by a proxy wherever it is
known. Anything else, and a place in which nothing can be replaced, is refused with a message that names what to weave
instead.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from functools import cached_property, partial, partialmethod, singledispatchmethod
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)

from aspecthook._core.law.callables import type_of
from aspecthook._core.mount.hookable import mount_for
from aspecthook._core.mount.instance import for_instance
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import MountError, WeaveError, brief, qualified
from aspecthook._foreign.carrier import bind, inspected_style
from aspecthook._foreign.places import is_ours, places, space_of
from aspecthook._foreign.point import mount_in_place, proxied
from aspecthook._foreign.proxies import load_proxies
from aspecthook._foreign.unbound import Binding
from aspecthook._hints import Any, NamedTuple, cast

from ._members import ACCESSORS, CACHING, Member, function_in, member_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_C_METHODS = (MethodDescriptorType, WrapperDescriptorType)
IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
# The builtins that our code calls when hooks run; a test compares them with the code.
_NEEDED = frozenset(
    (
        *("all", "any", "callable", "compile", "dir", "eval", "getattr", "hasattr", "hash", "id", "isinstance"),
        *("issubclass", "iter", "len", "max", "min", "next", "repr", "setattr", "sorted", "sum", "vars"),
    )
)
# Functions whose result depends on the caller's frame, which would be ours.
_LOOKING_BACK = frozenset(
    {("builtins", name) for name in ("locals", "globals", "vars", "dir", "eval", "exec", "super")}
    | {("sys", "_getframe"), ("sys", "_getframemodulename"), ("inspect", "currentframe"), ("inspect", "stack")}
    # Every Protocol has one as its `__subclasshook__` (3.11).
    | {("typing", "Protocol.__init_subclass__.<locals>._proto_hook")}
)


def label_of(value: object) -> str:
    """Return a target as messages show it."""
    return repr(value) if is_ours(type(value).__module__) else brief(value, 200)


class Spot(NamedTuple):
    """A place for hooks."""

    function: Any
    made: Callable[[], MountPoint] | None  # returns the mount point; under the lock. None: that of the function
    heir: type[Any] | None = None  # the class whose calls are meant, if others share the function
    loose: bool = False  # whether a weaving must keep the mount point, as nothing else does while its hooks are paused

    def mount(self) -> MountPoint:
        """Return the mount point; under the lock."""
        return mount_for(self.function) if self.made is None else self.made()


class Chosen(NamedTuple):
    """The spots that were chosen from a model or a tensor of PyTorch, and their description for messages."""

    text: str
    spots: list[Spot]

    def __repr__(self) -> str:
        return self.text


def spot_of(member: Member) -> Spot:
    """Return the spot of a member of a module or a class.

    Raises:
        WeaveError: It can carry no hooks.
    """
    _check_allowed(member.module, getattr(member.owner, "__name__", None), member.name, member)
    mount = proxied(member.value)
    if mount is not None and mount.owner() is (member.heir or member.owner):
        return Spot(mount.original, lambda: mount, loose=True)
    if mount is not None:  # our proxy stands elsewhere for this member: the original is meant
        member = member._replace(value=mount.original)
    function = function_in(member.value, member.accessor)
    spot = _in_place(function, member) if function is not None else None
    if spot is not None:
        _check_allowed(spot.function.__module__, spot.function.__module__, spot.function.__qualname__, member)
        return spot
    if isinstance(member.owner, ModuleType):
        return _in_module(member)
    return _in_class(member, member.heir or member.owner)


def _check_allowed(module: object, home: object, name: str, target: Member | FunctionType) -> None:
    """Refuse what runs the hooks, and a function whose result depends on the frame of its caller."""
    why = "is part of what runs the hooks" if is_ours(module) else ""
    if (home, name) in _LOOKING_BACK:
        why = "looks at its caller, which would be the code of the hooks"
    if why:
        label = target.label if isinstance(target, Member) else qualified(target)
        raise _refusal(label, why, "weave what calls it")


_FIRST = frozenset(("self", "cls", "mcs", "mcls", "metacls"))


def _in_place(function: FunctionType, member: Member) -> Spot | None:
    """Return the spot of a Python function; None if only its calls through a class are meant: a proxy goes there.

    A class may inherit the function, or share it with others. Then the calls are meant whose first argument is of the
    class; but a static method, and an ordinary function called as ``Shop.add(1, 2)``, is not passed one.
    """
    cls, static = member.owner, isinstance(member.value, staticmethod)
    home = (function.__module__, function.__qualname__.rpartition(".")[0])
    if member.heir is None and (not isinstance(cls, type) or home == (cls.__module__, cls.__qualname__)):
        return Spot(function, None)
    first = function.__code__.co_varnames[: min(function.__code__.co_argcount, 1)]
    is_method = type_of(member.value) is not FunctionType or (bool(first) and first[0].strip("_") in _FIRST)
    if member.heir is not None:
        # One that takes only ``*args`` looks there for the instance.
        return None if static or (first and not is_method) else Spot(function, None, member.heir)
    found = member_of(function)
    if found is not None and found.owner is cls:
        return Spot(function, None)
    if isinstance(cls, type) and (member.name == "__new__" or (is_method and not static)):
        return Spot(function, None, cls)
    # A function that no other name leads to was made for this class, as a decorator makes a closure around a method.
    known = found is not None and any(function_in(found.value, word) is function for word in ACCESSORS)
    return None if known else Spot(function, None)


# In a module


def _in_module(member: Member) -> Spot:
    value: Any = member.value
    if not callable(value):
        raise _refusal(member.label, f"is a value, of type {type(value).__name__}", "weave a function that uses it")
    _refuse_streams(value, member)
    instance = _instance(value, member.label)
    if instance is not None:
        return instance
    if member.owner is builtins and member.name in _NEEDED:
        raise _refusal(member.label, "is called whenever hooks run, and would call itself", "weave what calls it")
    if member.name not in space_of(member.owner) and next(places(value), None) is None:
        raise _refusal(member.label, "is made anew at each access", "weave the functions that call it")
    load_proxies()
    return Spot(value, lambda: mount_in_place(value, member.label), loose=True)


def _refuse_streams(value: Any, member: Member) -> None:
    try:
        style = inspected_style(value)
    except Exception as error:  # a proxy without a target, such as `flask.request` outside of a request
        why = f"refers to something that is not available now ({error!r:.60})"
        raise _refusal(member.label, why, "weave what it refers to, or the functions that call it") from None
    if style == "async generator":
        raise _refusal(member.label, "returns an async generator, which no proxy can replace", _inner(value))


def _instance(value: Any, label: str) -> Spot | None:
    """Return the spot of a callable object: the `__call__` of its class, for this instance alone."""
    call = getattr(type_of(value), "__call__", None)  # noqa: B004  # the function, not whether there is one
    if type(call) is not FunctionType or is_ours(call.__module__):
        return None
    return _of_instance(call, value, label)


def _of_instance(function: FunctionType, instance: object, label: str) -> Spot:
    try:
        # Made only to be refused now, if instances of this class can carry no hooks.
        for_instance(MountPoint(function), instance)
    except MountError as error:
        raise WeaveError(f"{label} cannot be woven: {error}") from None
    return Spot(function, lambda: for_instance(mount_for(function), instance))


# In a class


def _in_class(member: Member, cls: type[Any]) -> Spot:
    value: Any = member.value
    binding = _binding(value, member)
    if cls.__flags__ & IMMUTABLE:
        raise _refusal(
            member.label,
            f"belongs to the immutable C type {cls.__name__}, in which nothing can be replaced",
            f"weave a subclass of {cls.__name__}, or the functions that call it",
        )
    if value is vars(object)["__new__"]:
        why = "is that of object, which creates no instance any more once a class has had another one"
        raise _refusal(member.label, why, f"weave '{member.module}:{'.'.join((*member.path[:-1], '__init__'))}'")
    if member.name == "__new__" and getattr(value, "__self__", None) is cls:
        why = f"is how C code makes instances of {cls.__name__}, and CPython does not let it be put back"
        raise _refusal(member.label, why, "weave the functions that call it")
    _refuse_streams(bind(value, None, cls), member)
    load_proxies()
    function = getattr(value, "__func__", value)
    mount = partial(mount_in_place, value, member.label, cls, member.name, binding)
    return Spot(function, mount, loose=True)


def _binding(value: Any, member: Member) -> Binding:
    kind = type(value).__name__
    found: Any = value  # which type checkers do not narrow
    if isinstance(value, property) and getattr(value, member.accessor) is None:
        has = next((word for word in ACCESSORS if getattr(value, word) is not None), "")
        name = member.label.removesuffix(f".{member.accessor}")
        raise _refusal(member.label, f"has no {member.accessor}", f"name what it has: '{name}.{has}'")
    if isinstance(value, (property, MemberDescriptorType, GetSetDescriptorType)) or kind == "_tuplegetter":
        raise _refusal(member.label, "is read without Python code", "weave a method that uses it")
    # A wrapper around another method binds as that method does.
    inner: Any = value.func if isinstance(value, (partialmethod, singledispatchmethod)) else value
    if isinstance(inner, (classmethod, ClassMethodDescriptorType)):
        if isinstance(getattr(cast("object", inner), "__func__", None), property):
            raise _refusal(member.label, "is a property of the class", "weave the function that its getter calls")
        return "class"
    if isinstance(inner, staticmethod):
        return "none"
    if isinstance(value, (partialmethod, singledispatchmethod, CACHING, *_C_METHODS)):
        return "instance"
    get = getattr(type_of(found), "__get__", None)
    if isinstance(value, cached_property) or (not callable(found) and get is not None):
        raise _refusal(member.label, f"is a descriptor of type {kind} without Python code", _inner(found))
    if not callable(found):
        raise _refusal(member.label, f"is a value, of type {kind}", "weave a method that uses it")
    if isinstance(get, FunctionType):
        raise _refusal(member.label, f"is a descriptor of type {kind}, with its own way to bind", _inner(value))
    # A partial binds to nothing up to Python 3.13, where it warns that this will change.
    bare = get is None or (isinstance(value, partial) and sys.version_info < (3, 14))
    return "none" if bare else "instance"


# Given as objects


def spot_of_object(target: Any) -> Spot | None:
    """Return the spot of a callable that was given itself; None if the target is not callable.

    Raises:
        WeaveError: It can carry no hooks.
    """
    mount = proxied(target)
    if mount is not None:
        return Spot(mount.original, lambda: mount, loose=True)
    _refuse_made_anew(target)
    if isinstance(target, MethodType):
        return _method(target)
    if isinstance(target, (*_C_METHODS, ClassMethodDescriptorType)):
        cls: type[Any] = target.__objclass__
        return spot_of(_in_owner(cls, target.__name__, target, cls))
    function = function_in(target, "fget")
    if function is not None:
        _check_allowed(function.__module__, None, "", function)
        return Spot(function, None)
    owner = member_of(target)
    if owner is not None and owner.value is target:
        return spot_of(owner)
    return _anywhere(target) if callable(target) else None


def _refuse_made_anew(target: Any) -> None:
    """Refuse what `functools` makes anew at each access: hooks on it would be dropped with it, and never act."""
    inner: Any = target.__func__ if isinstance(target, MethodType) else target
    if type(inner) is FunctionType:  # of partialmethod, and up to 3.13 of singledispatchmethod
        made = inner.__globals__ is functools.__dict__ and inner.__code__.co_name == "_method"
    else:  # of singledispatchmethod from 3.14 on
        kind = type_of(inner)
        made = kind.__module__ == "functools" and isinstance(getattr(kind, "__call__", None), FunctionType)  # noqa: B004
    if made:
        found = member_of(inner)
        label = found.label if found is not None else label_of(inner)
        instead = f"name it in a pointcut: '{label}'" if found is not None else _inner(inner)
        raise _refusal(label, "is made anew at each access", instead)


def _anywhere(target: Any) -> Spot:
    """Return the spot of a callable whose name does not lead to it: where a module keeps it, or one instance."""
    for module, word in places(target):
        return spot_of(Member(module, word, target, (word,)))
    bound = getattr(target, "__self__", None)
    if isinstance(target, (BuiltinFunctionType, MethodWrapperType)) and not isinstance(bound, (ModuleType, type(None))):
        kind: type[Any] = bound if isinstance(bound, type) else type_of(bound)
        raise _refusal(
            f"{kind.__name__}.{target.__name__}",
            f"is a method of one {kind.__name__}, which has no place for a hook",
            f"weave a subclass of {kind.__name__}, or the functions that call it",
        )
    instance = _instance(target, label_of(target))
    if instance is not None:
        return instance
    raise _refusal(label_of(target), "is in no imported module, so there is nowhere to put a hook", _inner(target))


def _method(target: MethodType) -> Spot | None:
    function: Any = target.__func__
    instance: Any = target.__self__
    label = qualified(function) if hasattr(function, "__qualname__") else type(function).__name__
    no_code = "has no Python code, and so no hooks for one instance"
    if proxied(function) is not None:
        raise _refusal(label, no_code, "weave the method of the class")
    if isinstance(instance, type):
        for base in instance.__mro__:
            for name, member in list(vars(base).items()):
                if isinstance(member, classmethod) and cast("Any", member).__func__ is function:
                    return spot_of(_in_owner(base, name, vars(base)[name], instance))
    if type(function) is not FunctionType:
        raise _refusal(label, no_code, "weave the method of the class")
    return _of_instance(function, instance, label)


def _in_owner(base: type[Any], name: str, member: object, cls: type[Any]) -> Member:
    path = (*cls.__qualname__.split("."), name)
    return Member(base, name, member, path, heir=cls if cls is not base else None)


def _inner(value: Any) -> str:
    inner = getattr(value, "__wrapped__", None) or getattr(value, "func", None) or getattr(value, "fget", None)
    if isinstance(inner, FunctionType):
        return f"weave the function inside it, {qualified(inner)}, itself"
    return "weave the functions that call it"


def _refusal(label: str, why: str, instead: str) -> WeaveError:
    return WeaveError(f"{label} cannot be woven: it {why}; {instead}")
