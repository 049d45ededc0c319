"""Hooks on one instance: the mount point of the function keeps them, by the `id` of the function's first argument.

They are kept for as long as the instance lives, so a hook that refers to the instance keeps it alive. CPython could tie
the lifetime of a hook to that of an instance only with an attribute of the instance, which would be a trace.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType

from aspecthook._core.law.call import Site
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.order import NO_MENTIONS, Chain, Mentions
from aspecthook._errors import MountError
from aspecthook._hints import Any, cast, final

from .lock import is_ending, under_lock
from .place import MountSite, Place
from .point import MountPoint

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@under_lock
def for_instance(parent: MountPoint, instance: object) -> MountPoint:
    """Return the mount point of one instance: its hooks act only where the first argument is this object.

    Raises:
        MountError: The object cannot be referred to weakly, or the function has no positional parameter.
    """
    points = parent.points
    if points is None:
        points = parent.points = weakref.WeakValueDictionary()
    found = points.get(id(instance))
    if not isinstance(found, InstanceMountPoint) or found.instance() is not instance:
        found = points[id(instance)] = InstanceMountPoint(parent, instance)
    return found


@final
class InstanceMountPoint(MountPoint):
    """The hooks that act for one instance, beside those of the function: in a call they run as one chain, by law 2.

    The instance itself keeps nothing, so its copies and pickles have no hooks. It is referred to weakly, and its hooks
    are dropped with it. Iterating shows the hooks of this instance; `explain` shows the whole chain.

    A hook that refers to the instance, or to another one whose hooks lead back to it, keeps it alive until the hook is
    removed. So a hook asks for the instance as an argument (``self``), and refers to others weakly. Methods of the
    instance itself may be given as they are.
    """

    of_instance = True

    __slots__ = ("_key", "instance", "parent")

    def __init__(self, parent: MountPoint, instance: object) -> None:
        name = f"{parent.name} of one {type(instance).__name__}"
        super().__init__(cast("FunctionType", parent.function), name, parent.emission)
        signature = parent.site().signature
        if not signature.positional:
            raise MountError(
                f"{parent.name} has no named first parameter, by which its instances could be told apart; hook the "
                f"function itself"
            )
        self.parent = parent
        if parent.mentions is NO_MENTIONS:
            parent.mentions = Mentions()
        self.mentions = parent.mentions
        self._key = id(instance)
        try:
            self.instance = weakref.ref(instance, _dropping(parent, self._key))
        except TypeError:
            raise MountError(
                f"{parent.name}: hooks on one {type(instance).__name__} would keep it alive, as it cannot be referred "
                f"to weakly; add '__weakref__' to its __slots__, or hook the function with `when=`"
            ) from None

    def chains(self) -> Iterator[tuple[Hook, ...]]:
        """Yield the hooks of every chain that a hook added here becomes part of."""
        yield self.parent.members + self.members

    def unbound(self, function: Any) -> Any:
        """Return a method of the instance unbound, so that its hooks do not keep it alive."""
        own = type(function) is MethodType and function.__self__ is self.instance()
        return function.__func__ if own and isinstance(function.__func__, FunctionType) else function

    @property
    def displaced(self) -> bool:
        """Whether somebody else has put their code where ours was."""
        return self.parent.displaced

    def site(self) -> MountSite:
        if self.instance() is None:
            raise MountError(f"{self.name} is gone: nothing refers to the instance any more")
        return self.parent.site()

    def inner(self) -> Callable[..., Any]:
        """Return what a call runs inside of all hooks."""
        return self.parent.inner()

    def code(self) -> CodeType:
        return self.parent.code()

    def separate(
        self, chain: Chain, target: Callable[..., Any] | None = None, site: Site | None = None
    ) -> Callable[..., Any]:
        return self.parent.separate(chain, target, site)

    def chain(self) -> Chain:
        return Chain(self.parent.acting() + self.acting())

    def is_alive(self) -> bool:
        """Whether the function and the instance are still there."""
        return super().is_alive() and self.instance() is not None

    def _change(self, store: Callable[[], None]) -> None:
        self.parent.change_instance(self._key, self, store)

    def tidy(self) -> None:
        """Complete a change that was interrupted; under the lock."""
        self.parent.tidy()

    def weaken(self) -> None:
        """Take the hooks out of the constants of the function's code; under the lock."""
        self.parent.weaken()

    def reset(self, place: Place) -> None:
        """Link the chain again at the next call for this instance."""
        place.put_instance(self._key, self._run_first)

    def _run_first(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the first call of the instance after a change."""
        return self._bound()(*args, **kwargs)

    @under_lock
    def _bound(self) -> Callable[..., Any]:
        """Return the function that runs the calls of this instance, which their code finds from now on."""
        place = self.parent.place
        if place is None:
            return self.parent.inner()
        while self.parent.instances.get(self._key) is self:
            self.parent.linked = True
            first = self._run_first  # a new object each time: a finalizer that makes a change puts another one there
            place.put_instance(self._key, first)
            bound = place.bind(self.chain())
            if place.instances.get(self._key) is first:
                place.put_instance(self._key, bound)
                return bound
        return place.bind(self.chain())


def _dropping(parent: MountPoint, key: int) -> Callable[[object], None]:
    """Return what is called when an instance that carries hooks dies."""
    ref = weakref.ref(parent)

    def drop(_: object, ending: Callable[[], bool] = is_ending) -> None:
        mount = ref()
        if mount is not None and key in mount.instances and not ending():
            mount.forget_instance(key)

    return drop
