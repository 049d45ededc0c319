"""A shop as the host of plugins, a plugin, and what the tests of plugins ask about them."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

import pytest

from aspecthook import event, hookable, hooks, on, pre
from aspecthook._core.mount.point import mount_of


class Shop:
    """A host with events of every sort."""

    def __init__(self, name: str = "corner") -> None:
        self.name = name

    @event(first=True)
    def authenticate(self, user: str, password: str = "") -> str | None:
        """Return who this is."""
        return None

    @event
    def sold(self, item: str, price: float = 1.0) -> None:
        """Something was sold."""

    @event(fold="price")
    def quote(self, item: str, price: float) -> None:
        """Make a price."""

    @event
    async def closing(self, reason: str) -> None: ...

    @event
    async def closed(self, reason: str) -> None: ...

    @staticmethod
    @event
    def opened(hour: int) -> None: ...

    @classmethod
    @event
    def moved(cls, street: str) -> None: ...

    @hookable
    def restock(self, item: str) -> str:
        return f"{item} restocked"

    @hookable
    def shelves(self, count: int) -> Iterator[int]:
        yield from range(count)

    @hookable  # type: ignore[prop-decorator]
    @property
    def open(self) -> bool:
        return False

    @hookable  # type: ignore[prop-decorator]
    @cached_property
    def size(self) -> int:
        return 7

    @property
    def broken(self) -> int:
        raise AssertionError("nobody asked for it")

    @event
    def _private(self) -> None: ...

    def plain(self) -> None: ...


class Kiosk(Shop):
    @event
    def shut(self, hour: int) -> None: ...


class Stall(Shop): ...


EVENTS = "authenticate, closed, closing, moved, open, opened, quote, restock, shelves, size, sold"


def functions_of(host: object) -> list[FunctionType]:
    """Find every mounted function of a class and its bases, or of a module."""
    spaces = [vars(one) for one in host.__mro__] if isinstance(host, type) else [vars(host)]
    found: list[FunctionType] = []
    for static in itertools.chain(*(space.values() for space in spaces)):
        shell: Any = static
        for name in ("__func__", "fget", "func"):
            if isinstance(shell, (classmethod, staticmethod, property, cached_property)):
                shell = getattr(shell, name, shell)
        if isinstance(shell, FunctionType) and mount_of(shell) is not None:
            found.append(shell)
    return found


def trace_left(*hosts: object) -> list[tuple[object, ...]]:
    """Return what hooks leave in functions: their code by identity, their attributes, their hooks, of instances too."""
    found: list[tuple[object, ...]] = []
    for host in hosts:
        for function in functions_of(host):
            mount = hooks(function)
            rows = [mount.members, *(one.members for one in mount.instances.values())]
            row = tuple(id(hook) for hooks_of_one in rows for hook in hooks_of_one)
            found.append((function, id(function.__code__), {k: id(vars(function)[k]) for k in vars(function)}, row))
    return found


@contextmanager
def unchanged(*hosts: object) -> Generator[None]:
    before = trace_left(*(hosts or (Shop,)))
    yield
    assert trace_left(*(hosts or (Shop,))) == before


class Seller:
    """Answers what it is called."""

    def __init__(self, answer: Any = "seller") -> None:
        self.answer = answer

    @on
    def sold(self) -> Any:
        return self.answer


class Third:
    """The third of its hooks is wrong."""

    @pre
    def quote(self) -> None: ...

    @on
    def sold(self) -> str:
        return "acted"

    @on
    def authenticate(self, usr: str) -> None: ...


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    @on
    def sold(self) -> None:
        raise self.error


def message(error: type[BaseException], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    assert type(caught.value) is error
    return str(caught.value)


def module_of(**members: Any) -> ModuleType:
    made = ModuleType("shop_events", "A host.")
    for name, value in members.items():
        setattr(made, name, value)
    return made


def make_event() -> Any:
    @event
    def sold(item: str, price: float = 1.0) -> None: ...

    return sold


def fresh_host() -> type[Any]:
    """Make a class of its own for an example, so that what fails leaves the next one alone."""

    class Fresh:
        @event
        def sold(self, item: str, *, price: float = 1.0) -> None: ...

        @event(fold="price")
        def quote(self, item: str, price: float) -> None: ...

        @event(first=True)
        def authenticate(self, user: str) -> str | None:
            return None

    return Fresh


def plugin_module(called: str, **members: Any) -> ModuleType:
    made = ModuleType(called)
    source = """
        from aspecthook import on

        @on
        def sold(item):
            return f"{__name__} {item}"
    """
    exec(textwrap.dedent(source), made.__dict__)
    made.__dict__.update(members)
    return made


def marked_by(kind: Any, name: str, function: Callable[..., Any], /, *args: Any, **options: Any) -> type:
    """Make the class of a plugin with one method."""
    function.__name__ = name
    return type("Wrong", (), {name: kind(*args, **options)(function) if args or options else kind(function)})


LOYALTY = """
    from aspecthook import on

    class Loyalty:
        made = 0

        def __init__(self, points=1):
            Loyalty.made += 1
            self.points = points

        @on
        def sold(self):
            return f"{self.points} points"

    def make():
        return Loyalty(2)

    ready = Loyalty(3)

    @on
    def sold(item):
        return f"module {item}"

    def needy(points): ...
"""


GROUP = "aspecthook.tests.plugins"

Install = Callable[..., None]


# What an entry point names, the modules of its distribution, and why it fails.
BROKEN: dict[str, tuple[str, dict[str, str], type[Exception]]] = {
    "missing": ("plugged_none:A", {}, ModuleNotFoundError),
    "raises": ("plugged_b:A", {"plugged_b": "1 / 0"}, ZeroDivisionError),
    "syntax": ("plugged_b:A", {"plugged_b": "def"}, SyntaxError),
    "attribute": ("plugged_b:A", {"plugged_b": "B = 1"}, AttributeError),
}
