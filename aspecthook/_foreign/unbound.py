"""Members of classes as functions: called with the instance or the class first, they do what the bound member does."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from inspect import Parameter
from types import FunctionType

from aspecthook._core.law.callables import signature_of, type_of
from aspecthook._hints import Any

from .binding import Binding, bind
from .places import ABSENT
from .proxies import is_proxy

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def as_function(
    original: Any, cls: type[Any], name: str, binding: Binding
) -> tuple[Callable[..., Any], inspect.Signature | None]:
    """Return a function that does what the member does, and the signature of it."""
    found_for = _behind(original, cls, name)
    first = Parameter("cls" if binding == "class" else "self", Parameter.POSITIONAL_ONLY)
    bare = bind(original, None, cls)
    signature = signature_of(bare)
    if name == "__new__" and name not in vars(cls):

        def new(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
            return bind(found_for(owner), None, owner)(owner, *args, **kwargs)

        return new, signature
    if binding == "none" or type(original) is FunctionType:  # a function can be called through the class, too
        return bare, signature

    def call_of_class(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        return found_for(owner).__get__(None, owner)(*args, **kwargs)

    def call_of_instance(bound: Any, /, *args: Any, **kwargs: Any) -> Any:
        return found_for(type(bound)).__get__(bound, type(bound))(*args, **kwargs)

    def init(bound: Any, /, *args: Any, **kwargs: Any) -> Any:
        # `object.__init__` ignores the arguments of an overridden `__new__` unless the class has an `__init__`, as it
        # has while the proxy is there.
        kind: Any = type_of(bound)
        found = found_for(kind)
        if found is not original or kind.__new__ is object.__new__:
            found.__get__(bound, kind)(*args, **kwargs)

    if original is vars(object)["__init__"]:
        rest = [Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)]
        return init, inspect.Signature([first, *rest])

    if binding == "instance":
        return call_of_instance, signature
    if signature is None or first.name in signature.parameters:
        return call_of_class, None
    return call_of_class, inspect.Signature([first, *signature.parameters.values()])


def _behind(original: Any, cls: type[Any], name: str) -> Callable[[Any], Any]:
    """Return a function that finds, for a class, the member that a call goes to.

    If `cls` inherits the member, that is the next one behind `cls` in the MRO of the class: with several bases,
    `super()` must find what it would find if no proxy stood in `cls`.
    """
    if name in vars(cls):
        return lambda _: original
    seen = weakref.ref(cls)

    def found_for(kind: Any) -> Any:
        bases = iter(kind.__mro__ if isinstance(kind, type) else ())
        named = seen()
        if any(base is named for base in bases):  # the iterator then has the classes behind it
            for base in bases:
                found = vars(base).get(name, ABSENT)
                stands_in = is_proxy(found) and found.__aspecthook__.path is not None
                if found is not ABSENT and not stands_in:
                    return found
        return original

    return found_for
