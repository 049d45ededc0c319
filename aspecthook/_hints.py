"""Names of `typing` for the core, and for what `weave` and `record` load: loading `typing` would take as long.

For type checkers they are those of `typing`. At run time nothing here checks anything: bases, decorators and functions
do the least that the modules need, and each special form is the nearest builtin class, so that `typing.get_type_hints`
finds every name: `Any` is `object`, ``Literal["pre"]`` is `str`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # pyright: ignore[reportConstantRedefinition]

if TYPE_CHECKING:
    from typing import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]  # those that are not defined below cannot be imported at run time
else:
    from collections import namedtuple
    from types import GenericAlias

    class _Form:
        __slots__ = ("_meant",)

        def __init__(self, meant):
            self._meant = meant

        def __getitem__(self, given):
            return self._meant(given)

    Any = Never = Self = TypeAlias = object
    IO = _Form(lambda _: object)
    ClassVar = Unpack = _Form(lambda hint: hint)
    Literal = _Form(lambda values: type(values[0] if isinstance(values, tuple) else values))

    def TypeVar(_name, **_):
        return object

    def ParamSpec(_name):
        return ...

    class Generic:
        __slots__ = ()

        def __class_getitem__(cls, parameters):
            return cls if cls is Generic else GenericAlias(cls, parameters)

    Protocol = Generic

    def cast(_hint, value):
        return value

    def final(cls):
        cls.__final__ = True
        return cls

    def overload(function):
        return function

    class TypedDict(dict):
        def __init_subclass__(cls, *, total=True): ...

    class _NamedTuple(type):
        def __new__(mcs, name, bases, space):
            if not bases:
                return super().__new__(mcs, name, bases, space)
            fields = list(space["__annotations__"])
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            for key, value in space.items():
                if key not in ("__module__", "__qualname__"):
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_NamedTuple): ...
