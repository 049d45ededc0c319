"""Members of classes as functions: called with the instance or the class first, they do what the bound member does.

A proxy may stand in a class that only inherits the member. Its calls then go to the next member behind that class in
the MRO, as those of `super` do: with several base classes, it may be another one than the one that was woven.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from inspect import Parameter
from types import FunctionType

from aspecthook._core.law.callables import signature_of, type_of
from aspecthook._core.law.signature import Style
from aspecthook._hints import Any, Literal, TypeAlias

from .carrier import bind, inspected_style
from .proxies import is_proxy

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# How a member of a class becomes callable: by binding to the instance, to the class, or not at all.
Binding: TypeAlias = Literal["instance", "class", "none"]


def as_function(
    original: Any, cls: type[Any] | None, name: str, binding: Binding
) -> tuple[Callable[..., Any], inspect.Signature | None, Style]:
    """Return what does the same as a callable of a module or as the member of a class, its signature and its style."""
    bare = original if cls is None else bind(original, None, cls)
    signature, style = signature_of(bare), inspected_style(bare)
    inherited = cls is not None and name not in vars(cls)
    is_new = inherited and name == "__new__"
    # A function needs no binding.
    if cls is None or (not is_new and (binding == "none" or type(original) is FunctionType)):
        return bare, signature, style
    cls_ref = weakref.ref(cls)

    def bound_to(instance: Any, owner: Any) -> Any:
        """Return the member as it is when it is taken from an instance, or from a class."""
        found = original
        if inherited and (cls := cls_ref()) in owner.__mro__:
            bases = owner.__mro__[owner.__mro__.index(cls) + 1 :]
            behind: list[Any] = [vars(base)[name] for base in bases if name in vars(base)]
            found = next(one for one in behind if not (is_proxy(one) and one.__aspecthook__.inherited))
        return bind(found, instance, owner)

    def call_of_class(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        return bound_to(None, owner)(*(owner,) * is_new, *args, **kwargs)

    def call_of_instance(bound: Any, /, *args: Any, **kwargs: Any) -> Any:
        return bound_to(bound, type_of(bound))(*args, **kwargs)

    def init(bound: Any, /, *args: Any, **kwargs: Any) -> Any:
        # `object.__init__` ignores the arguments of an overridden `__new__` unless the class has an `__init__`, as it
        # has while the proxy is there.
        kind: Any = type_of(bound)
        found = bound_to(bound, kind)
        if getattr(found, "__objclass__", None) is not object or kind.__new__ is object.__new__:
            found(*args, **kwargs)

    if is_new:
        return call_of_class, signature, style
    if binding == "instance":
        return (init if original is vars(object)["__init__"] else call_of_instance), signature, style
    first = Parameter("cls", Parameter.POSITIONAL_ONLY)
    if signature is None or first.name in signature.parameters:
        return call_of_class, None, style
    return call_of_class, inspect.Signature([first, *signature.parameters.values()]), style
