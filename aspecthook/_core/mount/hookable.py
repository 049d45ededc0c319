"""The entry points: `hookable` makes mount points, `hooks` and `explain` show them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from types import FunctionType, MethodType

from aspecthook._core.compile.copies import MARK, Attributes, carried_by
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.kinds import KINDS, RESERVED, Kind
from aspecthook._core.law.signature import Signature, is_plain
from aspecthook._errors import HookLookupError, MountError, brief, entrance, printable, qualified
from aspecthook._hints import IO, TYPE_CHECKING, Any, TypeAlias, cast, overload

from .instance import for_instance
from .kind_hooks import KindHooks
from .lock import under_lock
from .point import MountPoint, mount_of

if TYPE_CHECKING:
    from aspecthook._typing import AnyClass, AnyMethod, Hookable, Mountable, P, R, ToHookable

    from .everything import AllHooks

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


Provides: TypeAlias = Mapping[str, str] | Iterable[str]
_NOTHING: Any = object()  # not None, which somebody may pass by mistake, and which is then refused


# Classes and static methods are callable too, which is why they come first.
@overload
def hookable(target: AnyClass, /, *, provides: Provides = ...) -> AnyClass: ...  # type: ignore[overload-overlap]
@overload
def hookable(target: AnyMethod, /, *, name: str | None = None, provides: Provides = ...) -> AnyMethod: ...  # type: ignore[overload-overlap]
@overload
def hookable(target: Callable[P, R], /, *, name: str | None = None, provides: Provides = ...) -> Hookable[P, R]: ...
@overload
def hookable(*, name: str | None = None, provides: Provides = ...) -> ToHookable: ...
# Any: callers see the overloads alone.
@entrance
def hookable(
    target: Any = _NOTHING,
    /,
    *,
    name: str | None = None,
    provides: Provides = (),
) -> Any:
    """Turn a function into a mount point, in place, and return the same object.

    This works on functions and methods of every kind, above or below `classmethod`, `staticmethod`, `property` and
    `cached_property`, and on classes, where it mounts all public methods that the class itself defines.

    Args:
        target: The function, method or class.
        name: The name of the mount point in messages; by default ``module:qualname``. Not for classes.
        provides: Attributes of `self` that hooks may ask for as if they were arguments: their names, or a mapping from
            the names that hooks use to paths of attributes (``"engine.state"``; ``""`` is the object itself). They are
            read when the hook is called.

    Raises:
        MountError: The target has no Python code that can carry hooks, or no first argument to read `provides` from.

    Example:
        >>> @hookable
        ... def price(item, qty=1):
        ...     return qty * 2.0
        >>> @price.pre
        ... def at_least_one(qty):
        ...     return Args(qty=max(qty, 1))
        >>> price("tea", 0)
        2.0
    """
    if target is _NOTHING:

        @entrance
        def decorate(later: Any) -> Any:
            return cast("Any", hookable)(later, name=name, provides=provides)

        return decorate
    _mount_all(target, name, provides)
    return target


@under_lock
def _mount_all(target: Any, name: str | None, provides: Provides) -> None:
    of_class = isinstance(target, type)
    functions = _methods(target) if of_class else _functions(target)
    prepared = [(function, _prepare(function, None if of_class else name, provides)) for function in functions]
    for function, mount in prepared:
        _mount(function, mount)
        if isinstance(target, (classmethod, staticmethod)):
            # So that `@make.pre` works in the class body too, where `make` is not yet a method.
            target.__dict__.update(_attributes_of(mount))


def _functions(target: object) -> list[FunctionType]:
    """Return the Python functions that a function, a method or a property consists of.

    Raises:
        MountError: There are none.
    """
    inner = callables_of(target)
    functions = [one for one in inner if type(one) is FunctionType]
    if len(functions) < len(inner) or not functions:
        raise MountError(_why_not(next((one for one in inner if type(one) is not FunctionType), target)))
    return functions


def callables_of(target: object) -> list[object]:
    """Return the callables that a method or a property consists of; for anything else, itself."""
    # Any: isinstance cannot tell what such a method takes and returns.
    method: Any = target
    if isinstance(target, (classmethod, staticmethod, MethodType)):
        return [method.__func__]
    if isinstance(target, property):
        return [one for one in (target.fget, target.fset, target.fdel) if one is not None]
    return [method.func if isinstance(target, cached_property) else target]


def _why_not(target: object) -> str:
    """Return why something cannot be a mount point, and what to mount instead."""
    what = brief(target)
    if isinstance(target, str):
        path = target if ":" in target else ":".join(target.rpartition(".")[::2]).lstrip(":")
        return f"{what} is a string, and hookable takes the function itself; use weave({brief(path)}, pre=...)"
    shown = f"{what} is of type {type(target).__name__}, which has no Python code to put hooks into"
    inner = getattr(target, "__wrapped__", None) or getattr(target, "func", None)
    if isinstance(inner, FunctionType):
        return f"{shown}; put @hookable on the function inside it, nearest to the def ({printable(inner.__qualname__)})"
    if isinstance(target, (type(len), partial)):
        return f"{shown}; call it from a function of your own and make that @hookable"
    if callable(target):
        return f"{shown}; mount what a call of it runs: hookable({type(target).__name__}.__call__)"
    return f"{shown}; give a function, a method or a class"


def _methods(cls: type) -> list[FunctionType]:
    """Return the functions of all public methods that a class itself defines.

    Raises:
        MountError: There are none.
    """
    found: list[FunctionType] = []
    for name, member in list(vars(cls).items()):
        if not name.startswith("_") and isinstance(
            member, (FunctionType, classmethod, staticmethod, property, cached_property)
        ):
            try:
                found += _functions(cast("object", member))
            except MountError:
                continue  # it cannot be mounted: a classmethod over a C function, for example
    if not found:
        raise MountError(
            f"{qualified(cls)} defines no public methods of its own, so there is nothing to mount; "
            f"make the class that defines them hookable, or put @hookable on the methods that you mean"
        )
    return found


def mount_for(function: FunctionType) -> MountPoint:
    """Return the mount point of a function, or a new one that is removed with its last hook; under the lock."""
    found = mount_of(function)
    return found if found is not None else MountPoint(function)  # not `or`: a mount point without hooks is false


def _prepare(function: FunctionType, name: str | None, provides: Provides) -> MountPoint:
    """Return the mount point that a function has or will have; nothing is changed yet.

    Raises:
        MountError: The function has an attribute that hooks need; or it cannot provide what it should.
    """
    found = mount_of(function)
    mount = found if found is not None else MountPoint(function, name)
    if function.__dict__.get("hooks") is not mount:
        # `functools.wraps` copies the attributes of a mounted function, and pickles of it have None in their place.
        _check_free(function, mount, copied=(KindHooks, MountPoint, type(None)))
        signature = Signature.of(mount.code(), mount.emission)
        if provides:
            mount.provides = mount.site().provides = _provided(provides, mount.name, signature)
    return mount


def _provided(provides: Provides, label: str, signature: Signature) -> dict[str, str]:
    """Return the paths of the attributes that hooks may ask for, by the names that hooks use.

    Raises:
        MountError: There is no object to read attributes of, or a name is not an identifier.
    """
    if isinstance(provides, Mapping):
        found = dict(cast("Mapping[str, str]", provides))
    else:
        found = {name: name for name in ([provides] if isinstance(provides, str) else provides)}
    if not signature.positional:
        raise MountError(f"{label} cannot provide {next(iter(found))!r}: it has no first argument to read it from")
    for name, path in found.items():
        odd = next((part for part in (name, *path.split(".")) if part and not is_plain(part)), None)
        if odd is not None or not name or name in RESERVED:
            raise MountError(
                f"{label} cannot provide {name!r} as {path!r}; give identifiers that are not reserved words, since "
                f"hooks ask for them by name"
            )
    return found


def mount_new(function: FunctionType, mount: MountPoint) -> None:
    """Make a function a mount point that was none before.

    Raises:
        MountError: It has an attribute that hooks need.
    """
    _check_free(function, mount)
    _mount(function, mount)


def _check_free(function: FunctionType, mount: MountPoint, copied: tuple[type, ...] = ()) -> None:
    """Refuse a function with an attribute that hooks need, unless it is of one of the types in `copied`."""
    kept = function.__dict__
    for name in (*_kinds_of(mount), "hooks") if kept else ():
        if name in kept and not isinstance(kept[name], copied):
            raise MountError(f"{mount.name} already has an attribute {name!r}, which hooks need; rename it")


def _mount(function: FunctionType, mount: MountPoint) -> None:
    attributes = Attributes.put(function, mount)
    attributes.update(_attributes_of(mount))
    attributes.stay()


def _attributes_of(mount: MountPoint) -> dict[str, Any]:
    """Return the attributes that a mounted function gets: ``pre``, ``post`` and so on, and ``hooks``."""
    return {**{kind: KindHooks(mount, kind) for kind in _kinds_of(mount)}, "hooks": mount}


def _kinds_of(mount: MountPoint) -> tuple[Kind, ...]:
    """Return the kinds of hooks that have an attribute; an item hook is refused with a reason."""
    return _OF_FUNCTIONS if mount.emission is None else KINDS


_OF_FUNCTIONS: tuple[Kind, ...] = tuple([kind for kind in KINDS if kind != "on"])


@overload
def hooks() -> AllHooks: ...
@overload
def hooks(target: Mountable, /) -> MountPoint: ...
# Any: callers see the overloads alone.
@entrance
def hooks(target: Any = _NOTHING, /) -> Any:
    """Return the mount point of a hookable function, method or property; for a bound method, that of its instance only.

    Without an argument, return all mount points of the process that have hooks: print the result for a table, or
    iterate over it. (It leaves out those that `gc.freeze` hides from the garbage collector.)

    Example:
        >>> @hookable
        ... def greet(name):
        ...     return f"hello {name}"
        >>> hooks(greet)
        <mount point aspecthook._core.mount.hookable:greet, 0 hooks>

    Raises:
        HookLookupError: The target is not a mount point.
    """
    if target is _NOTHING:
        from .everything import AllHooks

        return AllHooks()
    if type(target) is FunctionType:
        mount = mount_of(target)
        if mount is not None:
            return mount
    if isinstance(target, MountPoint):
        return target
    own = _of_object(target)
    if own is not None:
        return own
    carried = getattr(type_of(target), MARK, None)
    if isinstance(carried, property):  # a proxy, which stands in the place of a callable without Python code
        return cast("MountPoint", carried.__get__(target))
    if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
        mount = _existing(target.__func__)
        return mount if _is_class_bound(target) else for_instance(mount, target.__self__)
    if isinstance(target, type):
        raise HookLookupError(f"{qualified(target)} is a class; its methods have the hooks, so give one of them")
    _refuse_wrapper(target)
    return _existing(_functions(target)[0])


def _refuse_wrapper(target: object) -> None:
    """Refuse a wrapper that `functools.wraps` has made around a mount point.

    Raises:
        HookLookupError: It is such a wrapper.
    """
    way, inner = "wrapper", target
    for _ in range(20):  # a wrapper may wrap itself
        inner, way = getattr(inner, "__dict__", {}).get("__wrapped__"), f"{way}.__wrapped__"
        mount = mount_of(inner) if isinstance(inner, FunctionType) else None
        if mount is not None:
            raise HookLookupError(
                f"hooks() was given a wrapper around {mount.name}, and the hooks are on what it wraps; write "
                f"hooks({way}), or make the wrapper @hookable too"
            )


def _of_object(target: object) -> MountPoint | None:
    """Return the mount point of one object, given the object or the function that was put there for its hooks."""
    held: Any = target.__func__ if isinstance(target, MethodType) else target
    found = carried_by(getattr(held, "__dict__", None))
    main: object = getattr(found, "main", found)
    return main if isinstance(main, MountPoint) and main.of_object else None


def _existing(function: FunctionType) -> MountPoint:
    mount = mount_of(function)
    if mount is None:
        name = qualified(function)
        raise HookLookupError(
            f"{name} is not a mount point; decorate it with @hookable first, or weave it if it is not yours: "
            f"weave({name!r}, pre=...)"
        )
    return mount


def _is_class_bound(method: MethodType) -> bool:
    """Whether a bound method is a classmethod, and so belongs to no instance."""
    owner = method.__self__
    if not isinstance(owner, type):
        return False
    members = (member for base in owner.__mro__ for member in list(vars(base).values()))
    return any(
        isinstance(member, classmethod) and member.__func__ is method.__func__  # pyright: ignore[reportUnknownMemberType]
        for member in members
    )


def explain(target: Mountable, /, *, file: IO[str] | None = None) -> None:
    """Print what a call of a mount point does: the compiled source, with the name, file and line of each hook.

    Example:
        >>> @hookable
        ... def area(width, height):
        ...     return width * height
        >>> explain(area)
        # aspecthook._core.mount.hookable:area carries no hooks: a call runs the function itself
    """
    print(hooks(target).explain(), end="", file=file or sys.stdout)
