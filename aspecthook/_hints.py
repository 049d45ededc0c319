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
    from operator import itemgetter
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

    # `collections.namedtuple` compiles the source of each class, which would be a tenth of our import time.
    class _Row(tuple):
        __slots__ = ()

        def __new__(cls, *values, **named):
            rest = cls._fields[len(values) :]
            if rest:
                values += tuple([named.pop(field) if field in named else cls._defaults[field] for field in rest])
            if named or len(values) > len(cls._fields):
                raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
            return tuple.__new__(cls, values)

        def __getnewargs__(self):
            return tuple(self)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **changes):
            values = [*map(changes.pop, self._fields, self)]
            return type(self)(*values, **changes)

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

    class _NamedTuple(type):
        def __new__(mcs, name, bases, space):
            if not bases:
                return super().__new__(mcs, name, bases, space)
            fields = tuple(space["__annotations__"])
            defaults = {field: space[field] for field in fields if field in space}
            space |= {field: property(itemgetter(place)) for place, field in enumerate(fields)}
            space |= {"__slots__": (), "__match_args__": fields, "_fields": fields, "_defaults": defaults}
            return type(name, (_Row,), space)

    class NamedTuple(metaclass=_NamedTuple): ...
