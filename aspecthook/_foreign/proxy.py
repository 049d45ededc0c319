"""Law 4 on everything that has no Python code: a wrapt proxy stands in its place while there are hooks.

The invariant: while the mount point is open, the proxy is wherever the original was known (its owner, and for what a
module has, every module that had it under any name); once it is closed, the original is wherever the proxy was. What
others have put in these places is left alone, and the proxy that they may keep passes its calls on.
"""

from __future__ import annotations

import copy
import copyreg
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter, itemgetter
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast, final

import wrapt

from aspecthook._core.compile.copies import MARK
from aspecthook._core.law.asks import signature_of
from aspecthook._core.law.hook import type_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint

from .carrier import Carrier, carrier, style_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# How a member of a class becomes callable: by binding to the instance, to the class, or not at all; `read` is for
# those that give a value.
Binding: TypeAlias = Literal["instance", "class", "none", "read"]

_REST, _NAMED_REST = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_ABSENT: Any = object()

T = TypeVar("T")

if TYPE_CHECKING:
    _Base = wrapt.ObjectProxy[Any]
else:
    _Base = wrapt.ObjectProxy

# The proxies. No class has annotations of its own: they would hide those of what a proxy stands for. And until 3.13 a
# class makes an empty dict of them when it is asked for them, if it has nothing of that name in its own namespace.


def _annotate(proxy: Any, annotations: dict[str, Any]) -> None:
    proxy.__wrapped__.__annotations__ = annotations


_ANNOTATIONS: Any = property(attrgetter("__wrapped__.__annotations__"), _annotate)


class _Shell(_Base):
    __annotations__ = _ANNOTATIONS

    def __init_subclass__(cls) -> None:
        cls.__annotations__ = _ANNOTATIONS

    def __init__(self, original: object, call: Callable[..., Any], path: tuple[object, str] | None = None) -> None:
        super().__init__(original)
        self._self_call = call
        self._self_path = path  # where it is found, if not under its own name

    # Not a method: what is looked up here is called at once, without another Python frame to pass the arguments on.
    __call__ = property(attrgetter("_self_call"))

    # These would be those of the class, not of what it stands for.
    __module__ = property(attrgetter("__wrapped__.__module__"))  # pyright: ignore[reportAssignmentType]
    __doc__ = property(attrgetter("__wrapped__.__doc__"))  # pyright: ignore[reportAssignmentType]

    def __reduce_ex__(self, protocol: Any) -> Any:
        reducer: Any = copyreg.dispatch_table.get(type_of(self.__wrapped__))
        if reducer is not None:
            return reducer(self.__wrapped__)
        path = self._self_path
        try:
            by_path = path and type(self.__wrapped__) is FunctionType
            reduced = path if by_path else self.__wrapped__.__reduce_ex__(protocol)
        except TypeError:  # what cannot pickle itself may be known to the pickler, as a property is to cloudpickle
            return itemgetter(0), ((self.__wrapped__,),)
        # A function, or what pickles by name as functions do.
        return (getattr, path) if path and (reduced is path or isinstance(reduced, str)) else reduced

    def __reduce__(self) -> Any:
        return self.__wrapped__.__reduce__()

    def __copy__(self) -> Any:
        return _copied(self, copy.copy(self.__wrapped__))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _copied(self, copy.deepcopy(self.__wrapped__, memo))


def _copied(proxy: Any, made: Any) -> Any:
    """Give the proxy for the copy of something that is its own copy, as functions are."""
    return proxy if made is proxy.__wrapped__ else made


class Proxy(_Shell):
    """Stands for a callable, and calls what its mount point makes of it."""

    def __init__(self, original: object, mount: ProxyMountPoint) -> None:
        super().__init__(original, mount.enter, mount.path)
        self._self_mount = mount

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced = super().__reduce_ex__(protocol)
        # By its name the pickler finds the original again.
        left = isinstance(reduced, str) and not self._self_mount.opened
        return (itemgetter(0), ((self.__wrapped__,),)) if left else reduced

    # `hooks` finds the mount point by this.
    __aspecthook__ = property(attrgetter("_self_mount"))


class FunctionProxy(Proxy):
    """Stands for a callable of a module that binds as functions do, should somebody take it into a class."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        own: Any = self
        bound = bind(self.__wrapped__, instance, owner)
        if bound is self.__wrapped__:
            return self
        plainly = isinstance(bound, MethodType) and bound.__func__ is self.__wrapped__
        return MethodType(own, instance) if plainly else bound


class MethodProxy(Proxy):
    """Stands for a member of a class that gives a callable when it is taken from an instance or the class."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        mount = self._self_mount
        own: Any = self
        enter: Callable[..., Any] = self._self_call
        binding = mount.binding
        bound = bind(self.__wrapped__, instance, owner)
        if binding == "none":
            return self if bound is self.__wrapped__ else _Shell(bound, enter, self._self_path)
        if binding == "class":
            return _Shell(bound, partial(enter, owner if owner is not None else type(instance)))
        if instance is None:
            return self if bound is self.__wrapped__ else _Shell(bound, enter)
        if isinstance(bound, MethodType) and bound.__func__ is self.__wrapped__:
            return MethodType(own, instance)
        return _Shell(bound, partial(enter, instance))


class ReadProxy(Proxy):
    """Stands for a descriptor that gives a value when it is read: a slot, a property without Python code."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        return self if instance is None else self._self_call(instance)

    def __set__(self, instance: object, value: object) -> None:
        self.__wrapped__.__set__(instance, value)

    def __delete__(self, instance: object) -> None:
        self.__wrapped__.__delete__(instance)


def bind(descriptor: object, instance: object, owner: type[Any] | None) -> Any:
    get = getattr(type(descriptor), "__get__", None)
    return descriptor if get is None else get(descriptor, instance, owner)


# The mount point


class _Held(NamedTuple):
    """A place that our proxy was put in: whose, under which name, and what was there."""

    owner: Callable[[], Any]
    name: str
    before: object

    def now(self) -> object:
        """Give what is there; None if the owner is gone."""
        owner = self.owner()
        return None if owner is None else space_of(owner).get(self.name, _ABSENT)

    def put(self, value: object) -> None:
        """Put something there."""
        owner = self.owner()
        if not isinstance(owner, type):
            space_of(owner)[self.name] = value
        elif value is _ABSENT:
            type.__delattr__(owner, self.name)
        else:
            type.__setattr__(owner, self.name, value)


class ProxyMountPoint(MountPoint):
    """The mount point of something without Python code. Its proxy is in its places for as long as it carries hooks."""

    __slots__ = (
        "_held",
        "_named",
        "_stranded",
        "binding",
        "carrier",
        "enter",
        "forward",
        "original",
        "owner",
        "proxy",
        "short",
    )

    def __init__(
        self,
        original: Any,
        name: str,
        made: Carrier,
        place: tuple[type[Any], str] | None = None,
        binding: Binding = "none",
    ) -> None:
        super().__init__(made[0], name)
        self.carrier, self.enter, self.forward = made
        self.original = original
        self.binding: Binding = binding
        # Where our proxy was put, and where somebody else's stood when it had to go: it may come back there.
        self._held: list[_Held] = []
        self._stranded: list[_Held] = []
        # The places of a module's callable that users named; what becomes of its other names is nobody's business.
        self._named: set[tuple[int, str]] = set()
        self.owner: Callable[[], Any] = lambda: None
        self.short = ""
        shell: type[Proxy] = FunctionProxy if hasattr(type_of(original), "__get__") else Proxy
        if place is not None:
            owner, self.short = place
            self.owner = weakref.ref(owner)
            self._held.append(_Held(self.owner, self.short, vars(owner).get(self.short, _ABSENT)))
            shell = ReadProxy if binding == "read" else MethodProxy
        self.proxy: Proxy = shell(original, self)

    @property
    def path(self) -> tuple[object, str] | None:
        """Where it is found, if its own name says another place, that of the class which it is inherited from."""
        inherited = bool(self.short) and self._held[0].before is _ABSENT
        return (self.owner(), self.short) if inherited else None

    @property
    def opened(self) -> bool:
        """Whether it carries hooks."""
        return self._place is not None and self._place.opened

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether somebody else has put theirs where our proxy was."""
        if self.opened:
            return any(self._is_theirs(held) for held in self._held)
        self._heal()
        return bool(self._stranded)

    def ensure(self) -> None:
        """Be wherever the original is: somebody may have put it back."""
        if not self.opened:
            return
        if not self.short:
            known = {(id(held.owner()), held.name) for held in self._held}
            for module, name in list(places(self.original)):
                if (id(module), name) not in known:
                    self._held.append(_Held(weakref.ref(module), name, self.original))
        for held in self._held:
            if held.now() is held.before:
                held.put(self.proxy)

    def moved_on(self, module: ModuleType) -> None:
        """Take note that a module was run anew: what it has now is another object, and nobody has displaced ours."""
        self._held = [held for held in self._held if held.owner() is not module or held.now() is self.proxy]

    def _target(self) -> Callable[..., Any]:
        return self.forward

    def _settle(self) -> None:
        super()._settle()
        self.ensure()

    def _open(self) -> None:
        super()._open()
        self.proxy._self_call = self.enter
        self._stranded = []
        if not self.short:
            self._held = []

    def _forget(self) -> None:
        super()._forget()
        # Who has kept the proxy, and puts it back, is rid of it at the next call.
        self.proxy._self_call = self._call_and_heal
        self._stranded = [held for held in self._held if self._is_theirs(held)]
        self._heal()

    def name_place(self, module: ModuleType, name: str) -> None:
        """Note that this is where it is said to be."""
        self._named.add((id(module), name))

    def _is_theirs(self, held: _Held) -> bool:
        if not self.short and (id(held.owner()), held.name) not in self._named:
            return False
        now = held.now()
        if not self.short and now is _ABSENT:
            return False  # a module has dropped the name
        return now is not self.proxy and now is not None and (self.opened or now is not held.before)

    def _heal(self) -> None:
        """Put back what was there before, wherever our proxy is though it carries no hooks."""
        for held in self._held:
            if held.now() is self.proxy:
                held.put(held.before)
        if not self.short:
            for module, name in list(places(self.proxy)):
                space_of(module)[name] = self.original
        self._stranded = [held for held in self._stranded if self._is_theirs(held)]

    def _call_and_heal(self, /, *args: Any, **kwargs: Any) -> Any:
        self._heal_unless_opened()
        return self.carrier(*args, **kwargs)

    @under_lock
    def _heal_unless_opened(self) -> None:
        if not self.opened:
            self._heal()


def space_of(owner: Any) -> dict[str, Any]:
    """Give what a module or a class has by itself, and wake no module that loads itself lazily."""
    return cast(
        "dict[str, Any]", object.__getattribute__(owner, "__dict__") if isinstance(owner, ModuleType) else vars(owner)
    )


# What a weaving runs on cannot carry one; what is built on it can.
_OURS = ("aspecthook._", "aspecthook.torch._", "aspecthook.weave", "wrapt.")


def is_ours(module: object) -> bool:
    """Say whether a module is one that weaving itself runs on."""
    return isinstance(module, str) and (module in ("aspecthook", "wrapt") or module.startswith(_OURS))


def modules() -> list[tuple[str, ModuleType]]:
    """Give the imported modules by name, but for our own. Anything may be put into `sys.modules`."""
    loaded: Any = list(sys.modules.items())
    return [(name, one) for name, one in loaded if issubclass(type(one), ModuleType) and not is_ours(name)]


# Where things are


def _everything() -> Iterator[tuple[ModuleType, str, object]]:
    for _, module in modules():
        for word, held in list(space_of(module).items()):
            yield module, word, held


@final
class _Look:
    """Many questions where something is, asked in one go: from the fourth on they are answered from an index."""

    __slots__ = ("_asked", "_index")

    def __init__(self) -> None:
        self._asked = 0
        self._index: dict[int, list[tuple[ModuleType, str]]] | None = None

    def places(self, value: object) -> Iterator[tuple[ModuleType, str]]:
        self._asked += 1
        if self._asked < 4:
            yield from _searched(value)
            return
        if self._index is None:
            index: dict[int, list[tuple[ModuleType, str]]] = {}
            for module, word, held in _everything():
                index.setdefault(id(held), []).append((module, word))
            self._index = index
        for module, word in self._index.get(id(value), ()):
            if space_of(module).get(word) is value:  # what has been put there since is known to whoever has put it
                yield module, word


_look: _Look | None = None  # while many things are put or taken; under the lock


def in_one_look(work: Callable[[], T]) -> T:
    """Do what looks for many things, under the lock, without searching all modules for each."""
    global _look  # noqa: PLW0603  # under the lock
    before = _look
    try:
        _look = before if before is not None else _Look()
        return work()
    finally:
        _look = before


def _searched(value: object) -> Iterator[tuple[ModuleType, str]]:
    return ((module, word) for module, word, held in _everything() if held is value)


def places(value: object) -> Iterator[tuple[ModuleType, str]]:
    """Give every place in an imported module where an object is kept, those of this package left out."""
    return _searched(value) if _look is None else _look.places(value)


_known: weakref.WeakValueDictionary[object, ProxyMountPoint] = weakref.WeakValueDictionary()


def proxied(value: object) -> ProxyMountPoint | None:
    """Give the mount point of one of our proxies, or of what one stands for now; None for anything else."""
    if issubclass(type(value), Proxy):
        mount: ProxyMountPoint = cast("Any", value)._self_mount
        return mount
    found = _known.get(id(value))
    return found if found is not None and found.original is value and found.opened else None


@under_lock
def mount_in_module(original: Any, name: str) -> ProxyMountPoint:
    """Give the mount point of a callable that modules have under one name or several."""
    found = _known.get(id(original))
    if found is None or found.original is not original:
        made = carrier(original, signature_of(original), name, style_of(original))
        found = _known[id(original)] = ProxyMountPoint(original, name, made)
    return found


@under_lock
@under_lock
def mount_in_class(original: Any, cls: type[Any], name: str, label: str, binding: Binding) -> ProxyMountPoint:
    """Give the mount point of a member of a class, which the class has itself or inherits."""
    key = (id(cls), name)
    found = _known.get(key)
    if found is None or found.original is not original or found.owner() is not cls:
        call, signature = _as_function(original, cls, name, binding)
        made = carrier(call, signature, label, style_of(bind(original, None, cls)))
        found = _known[key] = ProxyMountPoint(original, label, made, (cls, name), binding)
    return found


def _as_function(
    original: Any, cls: type[Any], name: str, binding: Binding
) -> tuple[Callable[..., Any], inspect.Signature | None]:
    """Give a function that does what the member does, called with what it binds to first."""
    found_for = _behind(original, cls, name)
    first = inspect.Parameter("cls" if binding == "class" else "self", inspect.Parameter.POSITIONAL_ONLY)
    if name == "__new__" and name not in vars(cls):

        def new(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
            return bind(found_for(owner), None, owner)(owner, *args, **kwargs)

        return new, signature_of(bind(original, None, cls))
    if binding == "none" or type(original) is FunctionType:  # which may be called through the class, with anything
        call = bind(original, None, cls)
        return call, signature_of(call)

    def read(bound: Any) -> Any:
        return found_for(type(bound)).__get__(bound, type(bound))

    def call_of_class(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        return found_for(owner).__get__(None, owner)(*args, **kwargs)

    def call_of_instance(bound: Any, /, *args: Any, **kwargs: Any) -> Any:
        return found_for(type(bound)).__get__(bound, type(bound))(*args, **kwargs)

    def init(bound: Any, /, *args: Any, **kwargs: Any) -> Any:
        # It takes what `__new__` has taken, unless somebody has an `__init__` of their own, as we have while woven.
        kind: Any = type_of(bound)
        found = found_for(kind)
        if found is not original or kind.__new__ is object.__new__:
            found.__get__(bound, kind)(*args, **kwargs)

    if original is vars(object)["__init__"]:
        rest = [inspect.Parameter(*one) for one in (("args", _REST), ("kwargs", _NAMED_REST))]
        return init, inspect.Signature([first, *rest])

    if binding == "read":
        return read, inspect.Signature([first])
    signature = signature_of(bind(original, None, cls))
    return (call_of_class, _with(first, signature)) if binding == "class" else (call_of_instance, signature)


def _behind(original: Any, cls: type[Any], name: str) -> Callable[[Any], Any]:
    """Give what finds the member that calls for a class go to: for one that `cls` inherits, that of the MRO behind it.

    In the MRO of a class with several bases, `super()` must find what it would find if `cls` had nothing of that name.
    """
    if name in vars(cls):
        return lambda _: original
    seen = weakref.ref(cls)

    def found_for(kind: Any) -> Any:
        bases = iter(kind.__mro__ if isinstance(kind, type) else ())
        named = seen()
        if any(base is named for base in bases):  # which leaves those behind it
            for base in bases:
                found = vars(base).get(name, _ABSENT)
                stands_in = issubclass(type(found), Proxy) and found._self_mount.path is not None
                if found is not _ABSENT and not stands_in:
                    return found
        return original

    return found_for


def _with(first: inspect.Parameter, signature: inspect.Signature | None) -> inspect.Signature | None:
    if signature is None or first.name in signature.parameters:
        return None
    return inspect.Signature([first, *signature.parameters.values()])


assert MARK == "__aspecthook__"  # the name of the property of `Proxy`
