"""Law 4 on everything that has no Python code: a wrapt proxy stands in its place while there are hooks.

The invariant: while the mount point is open, the proxy is wherever the original was known (its owner, and for what a
module has, every module that had it under any name); once it is closed, the original is wherever the proxy was. What
others have put in these places is left alone, and the proxy that they may keep passes its calls on.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import wrapt

from ._changes import lock
from ._inplace import MARK
from ._mount import MountPoint
from ._signature import is_plain

# How a member of a class becomes callable: by binding to the instance, to the class, or not at all; `read` is for
# those that give a value.
Binding: TypeAlias = Literal["instance", "class", "none", "read"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_FORMS: dict[Any, str] = {
    inspect.Parameter.KEYWORD_ONLY: "{0}={0}",
    inspect.Parameter.VAR_POSITIONAL: "*{0}",
    inspect.Parameter.VAR_KEYWORD: "**{0}",
}
_ABSENT: Any = object()


if TYPE_CHECKING:
    _Base = wrapt.ObjectProxy[Any]
else:
    _Base = wrapt.ObjectProxy

# The carrier: a Python function with the parameters of the original, that hooks can be put into in place.


def carrier(
    original: Callable[..., Any], signature: inspect.Signature | None, name: str, module: str, style: str
) -> tuple[FunctionType, Callable[..., Any]]:
    """Make a function with these parameters that calls the original with what it was given; and what it calls."""
    names = list(signature.parameters) if signature is not None else []
    if signature is None or not all(is_plain(one) for one in names):
        signature = inspect.Signature(
            [
                inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
            ]
        )
    parameters = list(signature.parameters.values())
    forward = "forward"
    while forward in names:
        forward += "_"
    bare = [one.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty) for one in parameters]
    head = str(inspect.Signature(bare))
    lead = {"async": "return await", "generator": "return (yield from"}.get(style, "return")
    keyword = "async " if style == "async" else ""
    end = ")" if style == "generator" else ""
    code = compile(f"{keyword}def carrier{head}: {lead} {forward}({_passed(parameters)}){end}", "<aspecthook>", "exec")
    body = next(one for one in code.co_consts if isinstance(one, CodeType))
    called = _forwarder(original, parameters)
    made = FunctionType(body.replace(co_name=name, co_qualname=name), {forward: called}, name)
    defaults = [one.default for one in parameters if one.kind in _POSITIONAL and one.default is not one.empty]
    made.__defaults__ = tuple(defaults) or None
    made.__kwdefaults__ = {
        one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is not one.empty
    } or None
    made.__module__ = module
    made.__doc__ = getattr(original, "__doc__", None)
    return made, called


def style_of(original: Any) -> Literal["function", "async", "generator", "async generator"]:
    """Say what a call of a callable gives."""
    if inspect.iscoroutinefunction(original):
        return "async"
    if inspect.isasyncgenfunction(original):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(original) else "function"


def _passed(parameters: list[inspect.Parameter]) -> str:
    return ", ".join(_FORMS.get(one.kind, "{0}").format(one.name) for one in parameters)


def _forwarder(original: Callable[..., Any], parameters: list[inspect.Parameter]) -> Callable[..., Any]:
    """Call the original without the arguments that are only its defaults.

    C functions may tell an argument that is not given from its documented default, and warn of one that is given.
    """
    if all(one.default is one.empty for one in parameters):
        return original
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    defaults = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}

    def forward(*args: Any, **kwargs: Any) -> Any:
        given = [
            (one, value)
            for one, value in zip(positional, args, strict=False)
            if value is not one.default or one.default is one.empty
        ]
        rest = args[len(positional) :]
        kept = {name: value for name, value in kwargs.items() if value is not defaults.get(name, _ABSENT)}
        count = 0
        while count < len(given) and given[count][0] is positional[count]:
            count += 1
        loose = given[count:]
        if rest or any(one.kind not in _NAMED for one, _ in loose):
            return original(*args, **kept)
        return original(*[value for _, value in given[:count]], **{one.name: value for one, value in loose}, **kept)

    return forward


# The proxies


class Proxy(_Base):
    """Stands for a callable, and calls what its mount point makes of it."""

    _self_mount: ProxyMountPoint
    _self_call: Callable[..., Any]

    def __init__(self, original: object, mount: ProxyMountPoint) -> None:
        super().__init__(original)
        self._self_mount = mount
        self._self_call = mount.carrier

    # `hooks` finds the mount point by this.
    __aspecthook__ = property(attrgetter("_self_mount"))

    # Not a method: what is looked up here is called at once, without another Python frame to pass the arguments on.
    __call__: Any = property(attrgetter("_self_call"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__wrapped__.__reduce_ex__(protocol)

    def __reduce__(self) -> Any:
        return self.__wrapped__.__reduce__()

    def __copy__(self) -> Any:
        return _copied(self, "__copy__")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _copied(self, "__deepcopy__", memo)


def _copied(proxy: Any, how: str, *args: Any) -> Any:
    import copy

    wrapped = proxy.__wrapped__
    made = copy.copy(wrapped) if how == "__copy__" else copy.deepcopy(wrapped, *args)
    return proxy if made is wrapped else made


class MethodProxy(Proxy):
    """Stands for a member of a class that gives a callable when it is taken from an instance or the class."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        mount = self._self_mount
        if mount.stranded:
            mount.heal()
        binding = mount.binding
        bound = _bind(self.__wrapped__, instance, owner)
        if binding == "none":
            return self if bound is self.__wrapped__ else BoundProxy(bound, mount.carrier)
        if binding == "class":
            return BoundProxy(bound, partial(mount.carrier, owner if owner is not None else type(instance)))
        if instance is None:
            return self if bound is self.__wrapped__ else BoundProxy(bound, mount.carrier)
        if isinstance(bound, MethodType) and bound.__func__ is self.__wrapped__:
            return MethodType(self, instance)
        return BoundProxy(bound, partial(mount.carrier, instance))


class ReadProxy(Proxy):
    """Stands for a descriptor that gives a value when it is read: a slot, a property without Python code."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        mount = self._self_mount
        if mount.stranded:
            mount.heal()
        return mount.carrier(instance)

    def __set__(self, instance: object, value: object) -> None:
        self.__wrapped__.__set__(instance, value)

    def __delete__(self, instance: object) -> None:
        self.__wrapped__.__delete__(instance)


class BoundProxy(_Base):
    """What a `MethodProxy` gives: like what the original gives, but for the call."""

    _self_call: Callable[..., Any]

    def __init__(self, bound: object, call: Callable[..., Any]) -> None:
        super().__init__(bound)
        self._self_call = call

    __call__: Any = property(attrgetter("_self_call"))


def type_of(value: object) -> type[Any]:
    """Give the type of something, whatever it says its class is."""
    return type(value)


def _bind(descriptor: object, instance: object, owner: type[Any] | None) -> Any:
    get = getattr(type(descriptor), "__get__", None)
    return descriptor if get is None else get(descriptor, instance, owner)


# The mount point


class ProxyMountPoint(MountPoint):
    """The mount point of something without Python code. It is in its places for as long as it carries hooks."""

    __slots__ = ("_cls", "binding", "carrier", "forward", "inherited", "original", "place", "proxy", "stranded")

    def __init__(
        self,
        original: Any,
        name: str,
        made: tuple[FunctionType, Callable[..., Any]],
        place: tuple[Any, str] | None,
        binding: Binding = "none",
    ) -> None:
        super().__init__(made[0], name)
        self.carrier, self.forward = made
        self.original = original
        self.binding: Binding = binding
        # Somebody else's is where our proxy was when it had to go: it may come back.
        self.stranded = False
        owner, self.place = place if place is not None else (None, "")
        self._cls: Callable[[], Any] = weakref.ref(owner) if owner is not None else lambda: None
        in_class = isinstance(owner, type)
        self.inherited = in_class and self.place not in vars(owner)
        shell = (ReadProxy if binding == "read" else MethodProxy) if in_class else Proxy
        self.proxy: Proxy = shell(original, self)

    @property
    def displaced(self) -> bool:
        """Whether somebody else has put theirs where our proxy was."""
        if self.stranded:
            self.heal()
        owner = self._cls()
        opened = self._place is not None and self._place.opened
        away = owner is not None and _space(owner).get(self.place) is not self.proxy
        return self.stranded or (opened and away)

    def heal(self) -> None:
        """Put the original back where somebody has put our proxy back after it had to go."""
        with lock:
            owner = self._cls()
            if self._place is not None and self._place.opened:
                self._strand(stranded=False)
            elif owner is not None and _space(owner).get(self.place) is self.proxy:
                self._take()

    def _target(self) -> Callable[..., Any]:
        return self.forward

    def _strand(self, *, stranded: bool) -> None:
        self.stranded = stranded
        self.proxy._self_call = self._call_and_heal if stranded else self.carrier

    def _call_and_heal(self, /, *args: Any, **kwargs: Any) -> Any:
        self.heal()
        return self.carrier(*args, **kwargs)

    def _open(self) -> None:
        super()._open()
        self._strand(stranded=False)
        owner = self._cls()
        if not isinstance(owner, type):
            _replace(self.original, self.proxy)
        elif _space(owner).get(self.place, _ABSENT) is (_ABSENT if self.inherited else self.original):
            type.__setattr__(owner, self.place, self.proxy)

    def _forget(self) -> None:
        super()._forget()
        self._take()

    def _take(self) -> None:
        owner = self._cls()
        self._strand(stranded=owner is not None and _space(owner).get(self.place) is not self.proxy)
        if not isinstance(owner, type):
            _replace(self.proxy, self.original)
        elif not self.stranded:
            if self.inherited:
                type.__delattr__(owner, self.place)
            else:
                type.__setattr__(owner, self.place, self.original)


def _space(owner: Any) -> dict[str, Any]:
    return cast(
        "dict[str, Any]", object.__getattribute__(owner, "__dict__") if isinstance(owner, ModuleType) else vars(owner)
    )


# What a weaving runs on cannot carry one.
_OURS = frozenset(("aspecthook", "wrapt"))


def is_ours(module: object) -> bool:
    """Say whether a module is one that weaving itself runs on."""
    return isinstance(module, str) and module.partition(".")[0] in _OURS


def modules() -> list[tuple[str, ModuleType]]:
    """Give the imported modules by name, but for our own. Anything may be put into `sys.modules`."""
    loaded: Any = list(sys.modules.items())
    return [(name, one) for name, one in loaded if issubclass(type(one), ModuleType) and not is_ours(name)]


def aliases(value: object) -> Iterator[tuple[dict[str, Any], str]]:
    """Give every place in an imported module where an object is kept, those of this package left out."""
    for _, module in modules():
        space = _space(module)
        for word, held in list(space.items()):
            if held is value:
                yield space, word


def _replace(old: object, new: object) -> None:
    for space, word in aliases(old):
        space[word] = new


_known: weakref.WeakValueDictionary[object, ProxyMountPoint] = weakref.WeakValueDictionary()


def proxied(value: object) -> ProxyMountPoint | None:
    """Give the mount point of one of our proxies; None for anything else."""
    return cast("Any", value)._self_mount if issubclass(type(value), Proxy) else None


def mount_in_module(original: Any, place: tuple[ModuleType, str] | None, name: str) -> ProxyMountPoint:
    """Give the mount point of a callable that modules have under one name or several."""
    with lock:
        found = _known.get(id(original))
        if found is None or found.original is not original:
            module, _, short = name.partition(":")
            made = carrier(original, signature_of(original), short, module, style_of(original))
            found = _known[id(original)] = ProxyMountPoint(original, name, made, place)
        return found


def mount_in_class(original: Any, cls: type[Any], name: str, label: str, binding: Binding) -> ProxyMountPoint:
    """Give the mount point of a member of a class, which the class has itself or inherits."""
    with lock:
        key = (id(cls), name)
        found = _known.get(key)
        if found is None or found.original is not original or found._cls() is not cls:
            module, _, short = label.partition(":")
            call, signature = _as_function(original, cls, binding)
            made = carrier(call, signature, short, module, style_of(_bind(original, None, cls)))
            found = _known[key] = ProxyMountPoint(original, label, made, (cls, name), binding)
        return found


def signature_of(function: Any) -> inspect.Signature | None:
    """Give the parameters of a callable, if it tells."""
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def _as_function(
    original: Any, cls: type[Any], binding: Binding
) -> tuple[Callable[..., Any], inspect.Signature | None]:
    """Give a function that does what the member does, called with what it binds to first."""
    first = inspect.Parameter("cls" if binding == "class" else "self", inspect.Parameter.POSITIONAL_ONLY)
    if binding == "none":
        call = _bind(original, None, cls)
        return call, signature_of(call)

    def read(bound: Any) -> Any:
        return original.__get__(bound, type(bound))

    def call_of_class(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        return original.__get__(None, owner)(*args, **kwargs)

    def call_of_instance(bound: Any, /, *args: Any, **kwargs: Any) -> Any:
        return original.__get__(bound, type(bound))(*args, **kwargs)

    if binding == "read":
        return read, inspect.Signature([first])
    signature = signature_of(_bind(original, None, cls))
    return (call_of_class, _with(first, signature)) if binding == "class" else (call_of_instance, signature)


def _with(first: inspect.Parameter, signature: inspect.Signature | None) -> inspect.Signature | None:
    if signature is None or first.name in signature.parameters:
        return None
    return inspect.Signature([first, *signature.parameters.values()])


assert MARK == "__aspecthook__"  # the name of the property of `Proxy`
