"""Hooks on one instance: they are kept by the function, and found by the identity of its first argument."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, cast, final

from ._call import Site
from ._changes import lock
from ._errors import MountError
from ._hook import Hook
from ._inplace import Place
from ._mount import MountPoint
from ._order import Chain


def for_instance(parent: MountPoint, instance: object) -> MountPoint:
    """Give the mount point of one instance: its hooks act only where the first argument is this object.

    Raises:
        MountError: The object cannot be referred to weakly, or the function has no parameter to know it by.
    """
    with lock:
        looks = parent._looks
        if looks is None:
            looks = parent._looks = weakref.WeakValueDictionary()
        found = looks.get(id(instance))
        if not isinstance(found, InstanceMountPoint) or found._instance() is not instance:
            found = looks[id(instance)] = InstanceMountPoint(parent, instance)
        return found


@final
class InstanceMountPoint(MountPoint):
    """The hooks that act for one instance, beside those of the function: in a call they run as one chain, by law 2.

    They are kept by the function, not by the instance: nothing travels with its pickle or its copy. The instance is
    held weakly, and its hooks go when it goes. Iterating shows the hooks of this instance; `explain` shows the whole
    chain.
    """

    __slots__ = ("_instance", "_key", "_parent")

    def __init__(self, parent: MountPoint, instance: object) -> None:
        name = f"{parent.name} of one {type(instance).__name__}"
        super().__init__(cast("FunctionType", parent.function), name, parent.emission)
        signature = parent._get_site().signature
        if not signature.positional:
            raise MountError(f"{parent.name} has no named first parameter to know an instance by; hook the function")
        self._parent = parent
        self._mentions = parent._mentions
        self._key = id(instance)
        try:
            self._instance = weakref.ref(instance, _Gone(parent, self._key))
        except TypeError:
            raise MountError(
                f"{parent.name}: hooks on one {type(instance).__name__} would keep it alive, as it cannot be referred "
                f"to weakly; add '__weakref__' to its __slots__, or hook the function with `when=`"
            ) from None

    def _chains(self) -> Iterator[tuple[Hook, ...]]:
        yield self._parent._members + self._members

    def unbound(self, function: Any) -> Any:
        """Take a method of the instance itself unbound, so that its hooks do not keep it alive."""
        own = type(function) is MethodType and function.__self__ is self._instance()
        return function.__func__ if own and isinstance(function.__func__, FunctionType) else function

    def _unbinds(self) -> Callable[[Any], Any] | None:
        return self.unbound

    @property
    def displaced(self) -> bool:
        """Whether somebody else has put their code where ours was."""
        return self._parent.displaced

    def _get_site(self) -> Site:
        if self._instance() is None:
            raise MountError(f"{self.name} is gone: nothing refers to the instance any more")
        return self._parent._get_site()

    def inner(self) -> Callable[..., Any]:
        """Give what a call runs inside of all hooks."""
        return self._parent.inner()

    def _code(self) -> CodeType:
        return self._parent._code()

    def _active(self) -> Chain:
        active = () if self._pauses else tuple([hook for hook in self._members if not hook.paused])
        parent = self._parent
        inherited = () if parent._pauses else tuple([hook for hook in parent._members if not hook.paused])
        return Chain(inherited + active)

    def _change(self, store: Callable[[], None]) -> None:
        def store_with_parent() -> None:
            if self._instance() is None:
                store()
                return
            parent._instances[self._key] = self
            self.reset(parent._place)
            store()
            if not self._members:
                parent._drop_instance(self._key)

        parent = self._parent
        parent._change(store_with_parent)

    def tidy(self) -> None:
        """End what an interrupted change has left half done."""
        with lock:
            if not self._members and self._parent._instances.get(self._key) is self:
                self._parent._drop_instance(self._key)
            self._parent.tidy()

    def reset(self, place: Place | None) -> None:
        """Let the next call for this instance link its chain anew."""
        if place is not None:
            place.instances[self._key] = _InstanceFirst(self, place)

    def bind(self, place: Place) -> Callable[..., Any]:
        """Give the function that runs the calls of this instance."""
        with lock:
            bound = place.bind(self._active())
            if self._parent._instances.get(self._key) is self:
                place.instances[self._key] = bound
            return bound


@final
class _InstanceFirst:
    """Stands in for the function of an instance until its first call after a change."""

    __slots__ = ("_mount", "_place")

    def __init__(self, mount: InstanceMountPoint, place: Place) -> None:
        self._mount = weakref.ref(mount)
        self._place = weakref.ref(place)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        mount, place = self._mount(), self._place()
        if place is None:
            raise MountError("the mount point that this code belonged to is gone; was its function's __dict__ cleared?")
        return (place.original if mount is None else mount.bind(place))(*args, **kwargs)


@final
class _Gone:
    """Called when an instance that carries hooks dies."""

    __slots__ = ("_key", "_parent")

    def __init__(self, parent: MountPoint, key: int) -> None:
        self._parent = weakref.ref(parent)
        self._key = key

    def __call__(self, _: object, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        parent = self._parent()
        if parent is not None and self._key in parent._instances and not ending():
            parent.forget(self._key)
