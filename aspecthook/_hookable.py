"""The ways in: `hookable` makes mount points, `hooks` and `explain` look at them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import FunctionType, MethodType
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast, final, overload

from ._asks import KINDS, RESERVED, Kind
from ._errors import HookLookupError, MountError
from ._hook import Options
from ._inplace import MARK
from ._instances import for_instance
from ._mount import MountPoint, attach, mount_of
from ._signature import Signature, is_plain

if TYPE_CHECKING:
    from ._typing import AnyClass, AnyMethod, Hookable, Mountable, P, R, ToHookable


@final
class Adder:
    """One of ``f.pre``, ``f.post`` and so on: a decorator, bare or with options, that adds a hook and gives it back."""

    __slots__ = ("_kind", "_mount")

    def __init__(self, mount: MountPoint, kind: Kind) -> None:
        self._mount = mount
        self._kind: Kind = kind

    def __call__(self, *args: Any, **options: Any) -> Any:
        return attach(self._mount, self._kind, args, cast("Options", options))

    def __repr__(self) -> str:
        return f"<adds {self._kind} hooks to {self._mount.name}>"


Lends: TypeAlias = Mapping[str, str] | Iterable[str]
_NOTHING: Any = object()  # None is a target too: one to be refused


# Classes and static methods are callable too, which is why they come first.
@overload
def hookable(target: AnyClass, /, *, only: tuple[str, ...] | None = None, lends: Lends = ...) -> AnyClass: ...  # type: ignore[overload-overlap]
@overload
def hookable(target: AnyMethod, /, *, name: str | None = None, lends: Lends = ...) -> AnyMethod: ...  # type: ignore[overload-overlap]
@overload
def hookable(target: Callable[P, R], /, *, name: str | None = None, lends: Lends = ...) -> Hookable[P, R]: ...
@overload
def hookable(*, name: str | None = None, only: tuple[str, ...] | None = None, lends: Lends = ...) -> ToHookable: ...
# Any: the overloads say what is taken and given; nobody outside sees this line.
def hookable(
    target: Any = _NOTHING,
    /,
    *,
    name: str | None = None,
    only: tuple[str, ...] | None = None,
    lends: Mapping[str, str] | Iterable[str] = (),
) -> Any:
    """Make a function a mount point, in place: what is given back is the very same object.

    Works on functions and methods of every sort, on `classmethod`, `staticmethod`, `property` and `cached_property` in
    either order of decorators, and on classes: all public methods that the class itself defines.

    Args:
        target: What to mount.
        name: How messages call the mount point; ``module:qualname`` unless given. Not for classes.
        only: For a class, the names of the methods to mount instead of all public ones; special methods too.
        lends: Attributes of the object whose method it is, that hooks may ask for by name as if they were arguments:
            their names, or a mapping from the names that hooks use to the attributes, with dots and all, ``""`` being
            the object itself. They are read when the hook is called.

    Raises:
        MountError: It has no Python code that hooks could be put into, or cannot lend what it should.

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

        def decorate(later: Any) -> Any:
            return cast("Any", hookable)(later, name=name, only=only, lends=lends)

        return decorate
    if isinstance(target, type):
        _mount_class(target, only, lends)
    else:
        prepared = [(function, _prepare(function, name, lends)) for function in _functions(target)]
        for function, mount in prepared:
            _mount(function, mount)
            if isinstance(target, (classmethod, staticmethod)):
                # So that `@make.pre` works in the class body too, where `make` is not yet a method.
                target.__dict__.update(_words(mount))
    return target  # pyright: ignore[reportUnknownVariableType]  # what isinstance has left of Any


def _functions(target: object) -> list[FunctionType]:
    """Find the Python functions in what was given, or refuse it.

    Raises:
        MountError: There are none.
    """
    inner = _inside(target)
    functions = [one for one in inner if type(one) is FunctionType]
    if len(functions) < len(inner) or not functions:
        raise MountError(_why_not(next((one for one in inner if type(one) is not FunctionType), target)))
    return functions


def _inside(target: object) -> list[object]:
    """Give the functions that a method of any sort is made of; of anything else, itself."""
    # Any: isinstance cannot tell what such a method takes and gives.
    method: Any = target
    if isinstance(target, (classmethod, staticmethod, MethodType)):
        return [method.__func__]
    if isinstance(target, property):
        return [one for one in (target.fget, target.fset, target.fdel) if one is not None]
    return [method.func if isinstance(target, cached_property) else target]


def _why_not(target: object) -> str:
    """Say why something is no mount point, and what to mount instead."""
    shown = f"{target!r} is of type {type(target).__name__}, which has no Python code to put hooks into"
    if isinstance(target, type(len)):
        return f"{shown}; call it from a function of your own and make that @hookable"
    wrapped = getattr(target, "__wrapped__", None) or getattr(target, "func", None)
    if isinstance(wrapped, FunctionType):
        return f"{shown}; put @hookable on the function inside it, nearest to the def ({wrapped.__qualname__})"
    if callable(target):
        return f"{shown}; mount what a call of it runs: hookable({type(target).__name__}.__call__)"
    return f"{shown}; give a function, a method or a class"


def _mount_class(cls: type, only: tuple[str, ...] | None, lends: Lends) -> None:
    names = [name for name in vars(cls) if not name.startswith("_")] if only is None else list(only)
    found: list[FunctionType] = []
    for name in names:
        member = vars(cls).get(name)
        if only is not None:
            if member is None:
                raise MountError(f"{cls.__qualname__} itself defines no {name!r}; mount it where it is defined")
            found += _functions(member)
        elif isinstance(member, (FunctionType, classmethod, staticmethod, property, cached_property)):
            try:
                found += _functions(vars(cls)[name])
            except MountError:
                continue  # a classmethod over a C function, say: nothing that could be mounted
    if not found:
        raise MountError(
            f"{cls.__module__}:{cls.__qualname__} defines no public methods of its own, so there is nothing to mount; "
            f"make the class that defines them hookable, or name them: hookable(only=(...))"
        )
    for function, mount in [(function, _prepare(function, None, lends)) for function in found]:
        _mount(function, mount)


def mount_for(function: FunctionType) -> MountPoint:
    """Give the mount point that a function has, or a new one that goes with its last hook; under the lock."""
    found = mount_of(function)
    return found if found is not None else MountPoint(function)  # one without hooks is false


def _prepare(function: FunctionType, name: str | None, lends: Lends) -> MountPoint:
    """Give the mount point that a function has or is to have; refuse it before anything is changed."""
    found = mount_of(function)
    mount = found if found is not None else MountPoint(function, name)  # one without hooks is false
    held: object = function.__dict__.get("hooks")
    if held is not mount:
        words = _words(mount)
        kept = function.__dict__
        taken = [word for word in words if not isinstance(kept.get(word), (Adder, MountPoint, type(None)))]
        if taken:
            raise MountError(f"{mount.name} already has an attribute {taken[0]!r}, which hooks need; rename it")
        signature = mount._get_site().signature
        if lends:
            mount.lends = signature.lends = _lent(lends, mount.name, signature)
    return mount


def _lent(lends: Lends, label: str, signature: Signature) -> dict[str, str]:
    """Read what a method lends to its hooks.

    Raises:
        MountError: It has no object to lend from, or a name is none.
    """
    if isinstance(lends, Mapping):
        found = dict(cast("Mapping[str, str]", lends))
    else:
        found = {name: name for name in ([lends] if isinstance(lends, str) else lends)}
    if not signature.positional:
        raise MountError(f"{label} cannot lend {next(iter(found))!r}: it has no first argument whose attribute that is")
    for name, path in found.items():
        odd = next((part for part in (name, *path.split(".")) if part and not is_plain(part)), None)
        if odd is not None or not name or name in RESERVED:
            raise MountError(f"{label} cannot lend {name!r} as {path!r}: hooks could not ask for it; give plain names")
    return found


def mount_new(function: FunctionType, mount: MountPoint) -> None:
    """Mount a function that was no mount point before.

    Raises:
        MountError: It has an attribute that hooks need.
    """
    taken = [word for word in _words(mount) if word in function.__dict__]
    if taken:
        raise MountError(f"{mount.name} already has an attribute {taken[0]!r}, which hooks need; rename it")
    _mount(function, mount)


def _mount(function: FunctionType, mount: MountPoint) -> None:
    function.__dict__.update(_words(mount))
    function.__dict__[MARK] = mount


def _words(mount: MountPoint) -> dict[str, Any]:
    barred = "" if mount.emission is not None else "on"  # an item hook is refused with a reason
    return {**{kind: Adder(mount, kind) for kind in KINDS if kind != barred}, "hooks": mount}


def hooks(target: Mountable, /) -> MountPoint:
    """Give the mount point of a hookable function, method or property; of a bound method, that of its instance alone.

    Example:
        >>> @hookable
        ... def greet(name):
        ...     return f"hello {name}"
        >>> hooks(greet)
        <mount point aspecthook._hookable:greet, 0 hooks>

    Raises:
        HookLookupError: It is no mount point.
    """
    if isinstance(target, MountPoint):
        return target
    own = _of_object(target)
    if own is not None:
        return own
    carried = getattr(type(target), MARK, None)
    if isinstance(carried, property):  # a proxy stands in the place of what has no Python code
        return cast("MountPoint", carried.__get__(target))
    if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
        mount = _existing(target.__func__)
        return mount if _is_class_bound(target) else for_instance(mount, target.__self__)
    if isinstance(target, type):
        raise HookLookupError(
            f"{target.__module__}:{target.__qualname__} is a class: its methods carry the hooks, so ask for one of them"
        )
    return _existing(_functions(target)[0])


def _of_object(target: object) -> MountPoint | None:
    """Give the mount point that an object carries by itself, or that what it has put there is of."""
    held: Any = target.__func__ if isinstance(target, MethodType) else target
    found: object = getattr(held, "__dict__", {}).get(MARK)
    main: object = getattr(found, "main", found)
    return main if isinstance(main, MountPoint) and main.of_object else None


def _existing(function: FunctionType) -> MountPoint:
    mount = mount_of(function)
    if mount is None:
        name = f"{function.__module__}:{function.__qualname__}"
        raise HookLookupError(
            f"{name} is not a mount point; decorate it with @hookable first, or weave it if it is not yours: "
            f"weave({name!r}, pre=...)"
        )
    return mount


def _is_class_bound(method: MethodType) -> bool:
    """Say whether a bound method is a classmethod, and so no instance's own."""
    owner = method.__self__
    if not isinstance(owner, type):
        return False
    members = (member for base in owner.__mro__ for member in vars(base).values())
    return any(
        isinstance(member, classmethod) and member.__func__ is method.__func__  # pyright: ignore[reportUnknownMemberType]
        for member in members
    )


def explain(target: Mountable, /, *, file: IO[str] | None = None) -> None:
    """Print what a call of a mount point does now: its compiled source, and beside each hook its name, file and line.

    Example:
        >>> @hookable
        ... def area(width, height):
        ...     return width * height
        >>> explain(area)
        # aspecthook._hookable:area carries no hooks: a call runs the function itself
    """
    print(hooks(target).explain(), end="", file=file or sys.stdout)
