"""Every sort of target that weaving may meet, in one module; the tests load a fresh copy of it for each test."""

from __future__ import annotations

import abc
import contextlib
import enum
import functools
import json
import math
import time
import typing
from collections import namedtuple
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass

import wrapt

# Functions of a module

RATE = 3
CODES = ["a", "b"]


def price(n: int, by: int = 3) -> int:
    """Multiply."""
    return n * by


def hidden(n: int) -> int:
    return n * 3


def plain_generator(n: int) -> Generator[int, None, int]:
    yield n
    return n * 3


async def coroutine(n: int) -> int:
    return n * 3


async def async_generator(n: int) -> AsyncIterator[int]:
    yield n * 3


@contextlib.contextmanager
def managed(n: int) -> Iterator[int]:
    yield n * 3


def logged(function: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(function)
    def wrapper(*args: int, **kwargs: int) -> int:
        return function(*args, **kwargs)

    return wrapper


@logged
def wrapped(n: int) -> int:
    """Know what it wraps."""
    return n * 3


@wrapt.decorator
def through(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs)


@through
def decorated(n: int) -> int:
    """Stand behind a wrapt proxy."""
    return n * 3


thrice = functools.partial(price, by=3)
flow = functools.partial(async_generator)


@functools.lru_cache(maxsize=9)
def cached(n: int) -> int:
    """Remember."""
    return n * 3


@functools.singledispatch
def dispatched(n: object) -> int:
    return 0


@dispatched.register
def _(n: int) -> int:
    return n * 3


class Scale:
    """Callable."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, n: int) -> int:
        return n * self.size


class Narrow:
    """Callable, and cannot be referred to weakly."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, n: int) -> int:
        return n * self.size


scale = Scale(3)
other_scale = Scale(3)
narrow = Narrow(3)
count_code = CODES.count
root = math.sqrt
pause = time.sleep
dumps = json.dumps


# Members of classes


class Base:
    """What Cart inherits."""

    def total(self, n: int) -> int:
        return n * 3

    @classmethod
    def build(cls, n: int) -> int:
        return n * 3

    @staticmethod
    def rate(n: int) -> int:
        return n * 3

    @property
    def size(self) -> int:
        return 6

    @functools.cached_property
    def weight(self) -> int:
        return 6

    @functools.lru_cache(maxsize=9)  # noqa: B019  # one of the forms to be woven
    def inherited_cached(self, n: int) -> int:
        return n * 3

    def __len__(self) -> int:
        return 6


class Cart(Base):
    """Members of every sort, of its own and inherited."""

    def __init__(self, n: int = 2) -> None:
        self.n = n

    def add(self, n: int, /, by: int = 3) -> int:
        """Add."""
        return n * by

    def free(*args: typing.Any) -> int:
        return args[1] * 3

    @classmethod
    def make(cls, n: int) -> int:
        """Make."""
        return n * 3

    @staticmethod
    def tax(n: int) -> int:
        """Tax."""
        return n * 3

    @property
    def value(self) -> int:
        """Its value."""
        return self.n * 3

    @value.setter
    def value(self, n: int) -> None:
        self.n = n

    @value.deleter
    def value(self) -> None:
        self.n = 0

    only_set = property(None, lambda self, n: setattr(self, "n", n))

    @functools.cached_property
    def once(self) -> int:
        """Compute once."""
        return self.n * 3

    half = functools.partialmethod(add, by=3)
    loose = staticmethod(functools.partial(price, by=3))

    @functools.lru_cache(maxsize=9)  # noqa: B019  # one of the forms to be woven
    def remember(self, n: int) -> int:
        """Remember."""
        return n * 3

    @functools.singledispatchmethod
    def on(self, n: object) -> int:
        return 0

    @on.register
    def _(self, n: int) -> int:
        return n * 3

    def __getitem__(self, n: int) -> int:
        return n * 3

    def __iter__(self) -> Iterator[int]:
        yield 6

    def __hash__(self) -> int:
        return 6

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, n: int) -> int:
        return n * 3

    def __class_getitem__(cls, n: int) -> int:
        return n * 3

    class Line:
        """Nested."""

        def cost(self, n: int) -> int:
            return n * 3


class Made:
    """Has a `__new__`, and the `__init__` of object."""

    def __new__(cls, n: int) -> Made:
        made = super().__new__(cls)
        made.n = n
        return made

    n: int


class Begun:
    """Has an `__init__`, and the `__new__` of object."""

    def __init__(self, n: int) -> None:
        self.n = n


class Stock(dict):
    """A dict of its own."""


class Slotted:
    """Has slots."""

    __slots__ = ("__weakref__", "n")

    def __init__(self, n: int = 6) -> None:
        self.n = n


Pair = namedtuple("Pair", "left right")


class Colour(enum.Enum):
    """An enum with a method."""

    RED = 1

    def shade(self, n: int) -> int:
        return n * 3

    @classmethod
    def _missing_(cls, value: object) -> Colour | None:
        return cls.RED if value == 6 else None


@dataclass
class Item:
    """A dataclass."""

    n: int = 2

    def total(self, n: int) -> int:
        return n * 3


@dataclass(frozen=True, slots=True)
class Frozen:
    """A frozen dataclass with slots."""

    n: int = 6

    def total(self, n: int) -> int:
        return n * 3


class Abstract(abc.ABC):
    """An abstract class."""

    @abc.abstractmethod
    def total(self, n: int) -> int:
        return n * 3


class Concrete(Abstract):
    """Calls the abstract one."""

    def total(self, n: int) -> int:
        return super().total(n)


class Meta(type):
    """A metaclass."""

    def register(cls, n: int) -> int:
        return n * 3

    @property
    def label(cls) -> str:
        return cls.__name__


class Kind(metaclass=Meta):
    """Has methods by its metaclass."""


class Empty:
    """Has nothing."""


class Parent:
    """Looks its subclasses over."""

    seen: typing.ClassVar[list[str]] = []

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
