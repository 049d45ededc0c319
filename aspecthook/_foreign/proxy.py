"""Proxies: wrapt objects in the place of what has no Python code, which call what its mount point makes of it.

The invariant: a proxy behaves as the original does when it is inspected, copied, pickled or bound.
"""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Callable
from functools import partial
from operator import attrgetter, itemgetter
from types import MethodType
from typing import TYPE_CHECKING, Any, cast

import wrapt

from aspecthook._core.law.callables import type_of

from .carrier import bind

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

if TYPE_CHECKING:
    _Base = wrapt.ObjectProxy[Any]
else:
    _Base = wrapt.ObjectProxy


# No class of proxies may have annotations of its own, as they would hide those of the original. And until 3.13 a class
# that has no such attribute makes an empty dict when somebody asks for it.


_ANNOTATIONS: Any = property(
    attrgetter("__wrapped__.__annotations__"),
    lambda proxy, annotations: setattr(proxy.__wrapped__, "__annotations__", annotations),
)


class _Shell(_Base):
    """Takes the place of an original, and is called as something else."""

    __annotations__ = _ANNOTATIONS
    __slots__ = ("_self_call",)

    # The class that it is read from, and the name there, if it cannot be pickled by its own name.
    _self_path = cast("Any", None)

    def __init_subclass__(cls) -> None:
        cls.__annotations__ = _ANNOTATIONS

    def __init__(self, original: object, call: Callable[..., Any], path: tuple[object, str] | None = None) -> None:
        super().__init__(original)
        self._self_call = call
        if path is not None:
            self._self_path = path

    # Without these two, wrapt answers with those of the class.
    __module__ = property(attrgetter("__wrapped__.__module__"))  # pyright: ignore[reportAssignmentType]
    __doc__ = property(attrgetter("__wrapped__.__doc__"))  # pyright: ignore[reportAssignmentType]

    def __reduce_ex__(self, protocol: Any) -> Any:
        reducer: Any = copyreg.dispatch_table.get(type_of(self.__wrapped__))
        if reducer is not None:
            return reducer(self.__wrapped__)
        try:
            reduced = self.__wrapped__.__reduce_ex__(protocol)
            return (getattr, self._self_path) if isinstance(reduced, str) and self._self_path else reduced
        except TypeError:  # the pickler may know what cannot pickle itself, as cloudpickle knows properties
            return itemgetter(0), ((self.__wrapped__,),)

    def __reduce__(self) -> Any:
        return self.__wrapped__.__reduce__()

    def __copy__(self) -> Any:
        made = copy.copy(self.__wrapped__)
        return self if made is self.__wrapped__ else made  # functions are copies of themselves

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = copy.deepcopy(self.__wrapped__, memo)
        return self if made is self.__wrapped__ else made


# A slot and no method: what it holds is called at once, without a frame that passes the arguments on. Type checkers
# take it for a method.
setattr(_Shell, "__call__", vars(_Shell)["_self_call"])
del _Shell.__slots__  # else it would hide those of the original


class Proxy(_Shell):
    """Takes the place of a callable, and calls what its mount point makes of it."""

    # Any: its mount point, whose module imports this one.
    def __init__(self, original: object, mount: Any) -> None:
        super().__init__(original, mount.enter)
        self._self_mount = mount

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced = super().__reduce_ex__(protocol)
        # By the name the pickler now finds the original, which is not this proxy.
        left = isinstance(reduced, str) and not self._self_mount.opened
        return (itemgetter(0), ((self.__wrapped__,),)) if left else reduced

    # The name of a member that is inherited leads to the class which has it.
    _self_path = property(lambda self: self._self_mount.path if self._self_mount.inherited else None)

    # `hooks` finds the mount point by this name, which is that of `copies.MARK`.
    __aspecthook__ = property(attrgetter("_self_mount"))


class BindingProxy(Proxy):
    """Takes the place of a callable that binds: a member of a class, or what others may put into one."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        mount, own, original = self._self_mount, cast("Any", self), self.__wrapped__
        enter: Callable[..., Any] = self._self_call
        bound = bind(original, instance, owner)
        if bound is original:
            return self
        if isinstance(bound, MethodType) and bound.__func__ is original:
            return MethodType(own, instance)
        if not mount.short:
            return bound  # of a callable of a module, calls of another form are not meant
        if mount.binding == "none":
            return _Shell(bound, enter, mount.path)
        if mount.binding == "class":
            return _Shell(bound, partial(enter, owner if owner is not None else type(instance)))
        return _Shell(bound, enter if instance is None else partial(enter, instance))
