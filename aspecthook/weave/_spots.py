"""Spots: where hooks can be put, and why not. Each thing that has a name is one of few cases.

A Python function carries hooks in place. What has none is stood for by a proxy, put where it is known. What is neither,
or is in a place where nothing can be put, is refused with a message that says what to weave instead.
"""

from __future__ import annotations

import builtins
import dis
import sys
import weakref
from collections.abc import Callable
from functools import cached_property, lru_cache, partial, partialmethod, singledispatchmethod
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    DynamicClassAttribute,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, cast

from aspecthook import _proxy
from aspecthook._carrier import style_of
from aspecthook._errors import MountError, WeaveError, brief
from aspecthook._hook import type_of
from aspecthook._hookable import mount_for
from aspecthook._instances import for_instance
from aspecthook._mount import MountPoint
from aspecthook._proxy import space_of

from ._gates import Heir
from ._members import ACCESSORS, CACHING, Member
from ._torch import is_forward, module_point

_C_METHODS = (MethodDescriptorType, WrapperDescriptorType)
_READ = (MemberDescriptorType, GetSetDescriptorType)
IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
# Builtins that calls of hooks are made with; `print` is not, though `explain` prints.
_SPARED = frozenset(("print",))
# What these answer depends on who calls them, and that would be us.
_LOOKING_BACK = frozenset(
    {("builtins", name) for name in ("locals", "globals", "vars", "dir", "eval", "exec", "super")}
    | {("sys", "_getframe"), ("sys", "_getframemodulename"), ("inspect", "currentframe"), ("inspect", "stack")}
)


def kind_of(value: object) -> str:
    """Name the type of something in a message."""
    return type(value).__name__


def shown(value: object) -> str:
    """Show a target in a message."""
    return brief(value, 200)


class Spot(NamedTuple):
    """A place for hooks: what it is told from others by, the function in it, and how its mount point is had."""

    key: object
    function: Any
    mount: Callable[[], MountPoint]  # to be called under the lock
    heir: Heir | None = None
    in_place: bool = False
    place: tuple[ModuleType, str] | None = None  # where something that modules have under many names was named


def spot_of(member: Member) -> Spot:
    """Say where the hooks of a member of a module or a class go.

    Raises:
        WeaveError: There is no place for them.
    """
    _refuse_ours(member.module, member.label)
    if (getattr(member.owner, "__name__", None), member.name) in _LOOKING_BACK:
        raise _refusal(member.label, "looks at who calls it, and that would be the hooks", "weave what calls it")
    mount = _proxy.proxied(member.value)
    if mount is not None and mount.owner() is (member.heir or member.owner):
        return _standing(mount)
    if mount is not None:  # what it stands for is what is meant, as before it stood there
        member = member._replace(value=mount.original)
    function = _function_in(member.value, member.accessor)
    if function is not None and not (member.heir is not None and isinstance(member.value, staticmethod)):
        return _in_place(function, member)
    if isinstance(member.owner, ModuleType):
        return _in_module(member)
    return _in_class(member, member.heir or member.owner)


def _refuse_ours(module: object, label: str) -> None:
    if _proxy.is_ours(module):
        raise _refusal(label, "is part of what runs the hooks", "weave what calls it")


def _standing(mount: _proxy.ProxyMountPoint) -> Spot:
    """Give the place where a proxy stands already; told from others as it was when it had yet to be put there."""
    key = (id(mount.owner()), mount.short) if mount.short else id(mount.original)
    return Spot(key, mount.original, lambda: mount)


def _function_in(value: Any, accessor: str) -> FunctionType | None:
    """Give the Python function that a member is, or is made of."""
    kind = type_of(value)  # a wrapper of wrapt says that it is what it wraps
    if issubclass(kind, (classmethod, staticmethod)):
        value = value.__func__
    elif issubclass(kind, (property, DynamicClassAttribute)):
        value = getattr(value, accessor)
    elif issubclass(kind, cached_property):
        value = value.func
    return value if type(value) is FunctionType else None


def _in_place(function: FunctionType, member: Member) -> Spot:
    _refuse_ours(function.__module__, member.label)
    heir = Heir(member.heir, of_class=isinstance(member.value, classmethod)) if member.heir is not None else None
    # Told from others with the class: a hook that one weaving puts there for two classes acts for both, once a call.
    cls = weakref.ref(member.heir) if member.heir is not None else None
    return Spot((id(function), cls), function, lambda: mount_for(function), heir, in_place=True)


# In a module


def _in_module(member: Member) -> Spot:
    value: Any = member.value
    if not callable(value):
        raise _refusal(member.label, f"is a value, of type {kind_of(value)}", "weave a function that uses it")
    if isinstance(value, type):  # pragma: no cover  # classes are opened before
        raise _refusal(member.label, "is a class", "weave its methods")
    _refuse_streams(value, member)
    if not isinstance(value, (BuiltinFunctionType, partial, CACHING)):
        instance = _instance(value, member.label)
        if instance is not None:
            return instance
    if member.owner is builtins and member.name in _needed():
        raise _refusal(member.label, "is called whenever hooks run, and would call itself", "weave what calls it")
    if member.name not in space_of(member.owner) and next(_proxy.places(value), None) is None:
        raise _refusal(member.label, "is made anew whenever it is asked for", "weave the functions that call it")
    return _aliased(value, member.label, (cast("ModuleType", member.owner), member.name))


def _refuse_streams(value: Any, member: Member) -> None:
    try:
        style = style_of(value)
    except Exception as error:  # of a stand-in for what is not there now, as web frameworks have them
        why = f"stands for something that cannot be had now ({error!r:.60})"
        raise _refusal(member.label, why, "weave what it stands for, or the functions that call it") from None
    if style == "async generator":
        raise _refusal(member.label, "gives an async generator, which no proxy can stand for", _inner(value))


def _instance(value: Any, label: str) -> Spot | None:
    """Give the place for the hooks of a callable object: its class's `__call__`, for it alone."""
    call = getattr(type_of(value), "__call__", None)  # noqa: B004  # the function, not whether there is one
    if type(call) is not FunctionType or _proxy.is_ours(call.__module__):
        return None
    return _of_instance(call, value, label)


def _of_instance(function: FunctionType, instance: object, label: str) -> Spot:
    try:
        # Only to learn now whether it can be done at all.
        for_instance(MountPoint(function), instance)
    except MountError as error:
        raise WeaveError(f"{label} cannot be woven: {error}") from None
    return Spot((id(function), id(instance)), function, lambda: for_instance(mount_for(function), instance))


def _aliased(value: Any, label: str, place: tuple[ModuleType, str]) -> Spot:
    return Spot(id(value), value, lambda: _proxy.mount_in_module(value, label), place=place)


@lru_cache
def _needed() -> frozenset[str]:
    """Give the builtins that the code which runs hooks calls."""
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("aspecthook._"):
            for value in list(vars(module).values()):
                holders = [value, *vars(value).values()] if isinstance(value, type) else [value]
                for holder in holders:
                    function = _function_in(holder, "fget")
                    if function is not None:
                        found |= _names(function.__code__)
    return frozenset(found & vars(builtins).keys()) - _SPARED


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    own = {str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return own.union(*inner)


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
    inner = _proxy.bind(value, None, cls) if binding != "read" else None
    _refuse_streams(inner, member)
    key = (id(cls), member.name)
    function = getattr(value, "__func__", value)
    return Spot(key, function, lambda: _proxy.mount_in_class(value, cls, member.name, member.label, binding))


def _refuse_unread(value: property, member: Member) -> None:
    if getattr(value, member.accessor) is None:
        has = next((word for word in ACCESSORS if getattr(value, word) is not None), "")
        raise _refusal(member.label, f"has no {member.accessor}", f"name what it has: '{member.label}.{has}'")
    if member.accessor != "fget":
        raise _refusal(member.label, "is no Python function", "weave the functions that call it")


def _binding(value: Any, member: Member) -> _proxy.Binding:
    kind = kind_of(value)
    if isinstance(value, property):
        _refuse_unread(value, member)
        return "read"
    if isinstance(value, _READ) or kind == "_tuplegetter":
        if member.name.startswith("__"):
            raise _refusal(member.label, "is what Python itself looks at", "weave a method that uses it")
        return "read"
    # What stands around another method binds as that one does.
    inner: Any = value.func if isinstance(value, (partialmethod, singledispatchmethod)) else value
    if isinstance(inner, (classmethod, ClassMethodDescriptorType)):
        if isinstance(getattr(cast("object", inner), "__func__", None), property):
            raise _refusal(member.label, "is a property of the class", "weave the function that its getter calls")
        return "class"
    if isinstance(inner, staticmethod):
        return "none"
    if isinstance(value, (partialmethod, singledispatchmethod, CACHING, *_C_METHODS)):
        return "instance"
    return _binding_of_other(value, member)


def _binding_of_other(value: Any, member: Member) -> _proxy.Binding:
    kind = kind_of(value)
    if isinstance(value, cached_property) or (not callable(value) and hasattr(type_of(value), "__get__")):
        raise _refusal(member.label, f"is a descriptor of type {kind} without Python code", _inner(value))
    if not callable(value):
        raise _refusal(member.label, f"is a value, of type {kind}", "weave a method that uses it")
    if isinstance(value, type):
        raise _refusal(member.label, "is a class", "weave its methods")
    if hasattr(type_of(value), "__get__") and hasattr(type_of(value), "__set__"):
        return "read"
    get = getattr(type_of(value), "__get__", None)
    if isinstance(get, FunctionType):
        raise _refusal(member.label, f"is a descriptor of type {kind}, with its own way to bind", _inner(value))
    # A partial binds to nothing up to Python 3.13, where it warns that this will change.
    bare = get is None or (isinstance(value, partial) and sys.version_info < (3, 14))
    return "none" if bare else "instance"


# Given as objects


def spot_of_object(target: Any) -> Spot | None:
    """Say where the hooks of a function go that was given itself; None: it is nothing that can be called.

    Raises:
        WeaveError: There is no place for them.
    """
    mount = _proxy.proxied(target)
    if mount is not None:
        return _standing(mount)
    if isinstance(target, MethodType):
        return _method(target)
    if isinstance(target, (*_C_METHODS, ClassMethodDescriptorType, *_READ)):
        cls: type[Any] = target.__objclass__
        return spot_of(_in_owner(cls, target.__name__, target, cls))
    function = _function_in(target, "fget")
    made = _maker_of(function) if function is not None else None
    if made is not None:
        raise _refusal(made.label, "is made anew whenever it is asked for", f"name it in a pointcut: '{made.label}'")
    if function is not None:
        label = f"{function.__module__}:{function.__qualname__}"
        _refuse_ours(function.__module__, label)
        return Spot((id(function), None), function, lambda: mount_for(function), in_place=True)
    owner = _owner_of(target)
    if owner is not None:
        return spot_of(owner)
    return _anywhere(target) if callable(target) else None


def _maker_of(function: FunctionType) -> Member | None:
    """Find the descriptor that makes a function anew whenever it is asked for it."""
    found = _member_of(function)
    makes = found is not None and isinstance(found.value, (partialmethod, singledispatchmethod))
    return found if makes else None


def _anywhere(target: Any) -> Spot:
    """Find a callable that does not say where it is."""
    for module, word in _proxy.places(target):
        return spot_of(Member(module, word, target, (word,)))
    bound = getattr(target, "__self__", None)
    if isinstance(target, (BuiltinFunctionType, MethodWrapperType)) and not isinstance(bound, (ModuleType, type(None))):
        kind: type[Any] = bound if isinstance(bound, type) else type_of(bound)
        raise _refusal(
            f"{kind.__name__}.{target.__name__}",
            f"is a method of one {kind.__name__}, which has no place for a hook",
            f"weave a subclass of {kind.__name__}, or the functions that call it",
        )
    instance = None if isinstance(target, (BuiltinFunctionType, partial, CACHING)) else _instance(target, shown(target))
    if instance is not None:
        return instance
    raise _refusal(shown(target), "is in no imported module, so there is nowhere to put a hook", _inner(target))


def _method(target: MethodType) -> Spot | None:
    function: Any = target.__func__
    instance: Any = target.__self__
    if is_forward(target):
        point = module_point(instance, "", "forward")
        return Spot(point.key, point.function, point.mount)
    label = f"{function.__module__}:{function.__qualname__}" if hasattr(function, "__qualname__") else kind_of(function)
    if _proxy.proxied(function) is not None:
        raise _refusal(label, "has no Python code, and so no hooks for one instance", "weave the method of the class")
    if isinstance(instance, type):
        for base in instance.__mro__:
            for name, member in vars(base).items():
                if isinstance(member, classmethod) and cast("Any", member).__func__ is function:
                    return spot_of(_in_owner(base, name, vars(base)[name], instance))
    if type(function) is not FunctionType:
        raise _refusal(label, "has no Python code, and so no hooks for one instance", "weave the method of the class")
    return _of_instance(function, instance, label)


def _in_owner(base: type[Any], name: str, member: object, cls: type[Any]) -> Member:
    path = (*cls.__qualname__.split("."), name)
    return Member(base, name, member, path, heir=cls if cls is not base else None)


def _owner_of(target: Any) -> Member | None:
    found = _member_of(target)
    return found if found is not None and found.value is target else None


def _member_of(target: Any) -> Member | None:
    """Find what is where the own name of a callable says that it is."""
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    module = sys.modules.get(str(getattr(target, "__module__", None)))
    if not isinstance(name, str) or not isinstance(module, ModuleType) or isinstance(target, type):
        return None
    *outer, last = name.split(".")
    owner: Any = module
    for part in outer:
        owner = space_of(owner).get(part) if isinstance(owner, (ModuleType, type)) else None
    if not isinstance(owner, (ModuleType, type)) or last not in space_of(owner):
        return None
    return Member(owner, last, space_of(owner)[last], tuple(name.split(".")))


def _inner(value: Any) -> str:
    inner = getattr(value, "__wrapped__", None) or getattr(value, "func", None) or getattr(value, "fget", None)
    if isinstance(inner, FunctionType):
        return f"weave the function inside it, {inner.__module__}:{inner.__qualname__}, itself"
    return "weave the functions that call it"


def _refusal(label: str, why: str, instead: str) -> WeaveError:
    return WeaveError(f"{label} cannot be woven: it {why}; {instead}")
