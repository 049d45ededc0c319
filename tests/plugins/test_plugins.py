"""Plugins: what they are refused for, in which order they act, who answered, and that they come off without a trace."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import inspect
import itertools
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import FrameType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import (
    Args,
    AspecthookError,
    ConfigError,
    HookLookupError,
    HookOptionError,
    HookOrderError,
    HookSignatureError,
    HookTypeError,
    MountError,
    PluginError,
    Return,
    always,
    around,
    event,
    exception,
    hookable,
    hooks,
    item,
    on,
    post,
    pre,
)
from aspecthook._core.mount.point import mount_of
from aspecthook._errors import described
from aspecthook.plugins import Plugin, Plugins, Registry
from tests.threads import at_once


class Shop:
    """A host with events of every sort."""

    def __init__(self, name: str = "corner") -> None:
        self.name = name

    @event(first=True)
    def authenticate(self, user: str, password: str = "") -> str | None:
        """Say who this is."""
        return None

    @event
    def sold(self, item: str, price: float = 1.0) -> None:
        """Something was sold."""

    @event(fold="price")
    def quote(self, item: str, price: float) -> None:
        """Make a price."""

    @event
    async def closing(self, reason: str) -> None: ...

    @event(gather=True)
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
    """Tell what hooks leave in functions: their code by identity, their attributes, their hooks, of instances too."""
    found: list[tuple[object, ...]] = []
    for host in hosts:
        for function in functions_of(host):
            mount = hooks(function)
            rows = [mount.members, *(one.members for one in mount.instances.values())]
            row = tuple(id(hook) for hooks_of_one in rows for hook in hooks_of_one)
            found.append((function, id(function.__code__), {k: id(vars(function)[k]) for k in vars(function)}, row))
    return found


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No test may leave a hook on what outlives it, or a path, or a module."""
    before, path, modules = trace_left(Kiosk, Stall), list(sys.path), set(sys.modules)
    yield
    if trace_left(Kiosk, Stall) != before:
        gc.collect()
    assert trace_left(Kiosk, Stall) == before
    assert sys.path == path
    assert not [name for name in sys.modules if name.startswith("plugged_") and name not in modules]


@contextmanager
def unchanged(*hosts: object) -> Generator[None]:
    before = trace_left(*(hosts or (Shop,)))
    yield
    assert trace_left(*(hosts or (Shop,))) == before


@pytest.fixture
def shop() -> Iterator[Any]:
    made = Shop()
    yield made
    for function in functions_of(Shop):  # pytest keeps what a fixture has given
        held = hooks(function).instances.get(id(made))
        if held is not None:
            hooks(MethodType(function, made)).clear()


@pytest.fixture
def plugins(shop: Any) -> Plugins:
    return Plugins(shop)


class Seller:
    """Answers what it is called."""

    def __init__(self, answer: Any = "seller") -> None:
        self.answer = answer

    @on
    def sold(self) -> Any:
        return self.answer


def message(error: type[BaseException], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    assert type(caught.value) is error
    return str(caught.value)


# The specification


def module_of(**members: Any) -> ModuleType:
    made = ModuleType("shop_events", "A host.")
    for name, value in members.items():
        setattr(made, name, value)
    return made


def make_event() -> Any:
    @event
    def sold(item: str, price: float = 1.0) -> None: ...

    return sold


@dataclass
class Equal:
    """Equal to others of its sort, and so without a hash."""

    name: str = "equal"

    @event
    def sold(self, item: str) -> None: ...


def a_module() -> tuple[object, Any, object]:
    sold = make_event()
    host = module_of(sold=sold)
    return host, sold, host


def an_instance_attribute() -> tuple[object, Any, object]:
    sold = make_event()
    host = SimpleNamespace(sold=sold)
    return host, sold, host


SPECS: dict[str, Callable[[], tuple[object, Any, object]]] = {
    "instance": lambda: (one := Shop(), one.sold, Shop),
    "class": lambda: (Shop, Shop().sold, Shop),
    "instance of a subclass": lambda: (one := Kiosk(), one.sold, Shop),
    "subclass": lambda: (Kiosk, Kiosk().sold, Shop),
    "what has no hash": lambda: (one := Equal(), one.sold, Equal),
    "module": a_module,
    "attribute of an instance": an_instance_attribute,
    "what a class has from another object": lambda: (
        type("Facade", (), {"sold": MethodType(Shop.sold, one := Shop())}),
        one.sold,
        Shop,
    ),
}


@pytest.mark.parametrize("kind", SPECS)
def test_what_has_events_is_a_specification(kind: str) -> None:
    spec, sold, holder = SPECS[kind]()
    with unchanged(holder):
        plugins = Plugins(spec)
        plugin = plugins.register(Seller())
        assert sold("tea") == ["seller"]
        assert plugins.order("sold") == ("Seller",) and list(plugin.implements) == ["sold"]
        plugin.disable()
        assert sold("tea") == []
        plugin.enable()
        assert sold("tea") == ["seller"]
        plugin.unregister()
        assert sold("tea") == [] and not plugin.implements and not plugin.hooks


def test_plugins_of_an_instance_are_its_own_and_those_of_a_class_are_of_all() -> None:
    mine: Any = Shop()
    yours: Any = Kiosk()
    own, all_ = Plugins(mine), Plugins(Shop)
    own.register(Seller("mine"), name="mine", priority="HIGH")
    plugin = all_.register(Seller("all"), name="all")
    assert [hook.gate for hook in plugin.hooks] == [None]  # its own events cost no question
    assert mine.sold("tea") == ["mine", "all"] and yours.sold("tea") == ["all"]
    assert own.order("sold") == ("mine", "all") and all_.order("sold") == ("all",)
    assert [one.name for one in own] == ["mine"] and [one.name for one in all_] == ["all"]
    all_.unregister("all")


def test_a_plugin_of_a_subclass_does_not_act_for_the_classes_beside_it() -> None:
    """It did, as they share the event that they inherit."""
    kiosk, stall, corner = Kiosk(), Stall(), Shop()
    sold: Any = [one.sold for one in (kiosk, stall, corner)]
    with unchanged(Kiosk):
        of_kiosk, of_stall, of_all = Plugins(Kiosk), Plugins(Stall), Plugins(Shop)
        of_kiosk.register(Seller("kiosk"), name="kiosk", enabled=False)
        of_stall.register(Seller("stall"), name="stall")
        of_all.register(Seller("all"), name="all")
        assert [one("tea") for one in sold] == [["all"], ["stall", "all"], ["all"]]
        of_kiosk.enable("kiosk")
        assert [one("tea") for one in sold] == [["kiosk", "all"], ["stall", "all"], ["all"]]
        assert of_kiosk.order("sold") == Plugins(kiosk).order("sold") == ("kiosk", "all")
        assert of_stall.order("sold") == ("stall", "all") and of_all.order("sold") == ("all",)
        assert of_kiosk.answers("sold", kiosk, "tea") == [("kiosk", "kiosk"), ("all", "all")]
        for one in (*of_kiosk, *of_stall, *of_all):
            one.unregister()


def test_inherited_class_methods_and_properties_are_those_of_the_subclass_too() -> None:
    class Extra:
        @on
        def moved(self, street: str) -> str:
            return street

        @post
        def open(self) -> bool:
            return True

        @on
        def opened(self, hour: int) -> int:
            return hour

    plugins = Plugins(Kiosk)
    plugins.register(Extra())
    moved: list[Any] = [one.moved for one in (Kiosk, Stall, Shop)]
    assert [one("here") for one in moved] == [["here"], [], []]
    assert plugins.answers("moved", "here") == [("Extra", "here")]
    assert Kiosk().open is True and Stall().open is False
    # A static method is not told of which class it was called.
    assert Kiosk.opened(8) == Stall.opened(8) == [8]
    plugins.unregister("Extra")


def test_a_subclass_adds_events(shop: Any) -> None:
    class Night:
        @on
        def shut(self, hour: int) -> int:
            return hour

    kiosk: Any = Kiosk()
    Plugins(kiosk).register(Night())
    assert kiosk.shut(22) == [22]
    text = message(PluginError, lambda: Plugins(shop).register(Night()))
    assert "is for 'shut', but Shop has no event of that name" in text


def test_an_event_that_a_subclass_overrides_without_saying_so_is_pointed_at() -> None:
    """There was no event of that name, though the base class has it."""

    class Quiet(Shop):
        def sold(self, item: str, price: float = 1.0) -> list[Any]:  # type: ignore[override]
            return super().sold(item, price)

    end = "; Shop has it, but it is overridden: mark that @event too"
    for host in (Quiet, Quiet()):
        plugins = Plugins(host)
        assert message(PluginError, partial(plugins.register, Seller())).endswith(end)
        assert message(PluginError, partial(plugins.order, "sold")).endswith(end)
    plugins = Plugins(Shop)
    plugins.register(Seller())
    quiet: Any = Quiet()
    assert quiet.sold("tea") == ["seller"]
    plugins.unregister("Seller")


def test_static_and_class_method_events_of_an_instance_are_those_of_its_class() -> None:
    class Neighbour:
        @on
        def opened(self, hour: int) -> int:
            return hour

        @on
        def moved(self, cls: type, street: str) -> tuple[type, str]:
            return cls, street

    plugins = Plugins(Kiosk())
    plugins.register(Neighbour())
    moved: Any = Kiosk.moved
    assert Shop.opened(8) == [8] and moved("here") == [(Kiosk, "here")]
    assert plugins.answers("opened", 9) == [("Neighbour", 9)]
    assert plugins.answers("moved", street="there") == [("Neighbour", (Kiosk, "there"))]
    plugins.unregister("Neighbour")


def test_what_is_hookable_can_be_hooked_by_plugins(shop: Any, plugins: Plugins) -> None:
    """A hookable property was none of the events."""

    class Helper:
        @pre
        def restock(self, item: str) -> Args:
            return Args(item=item.upper())

        @item("shelves")
        def double(self, item: int) -> int:
            return item * 2

        @post
        def open(self) -> bool:
            return True

        @post
        def size(self, result: int) -> int:
            return result + 1

    plugin = plugins.register(Helper())
    assert shop.restock("tea") == "TEA restocked" and list(shop.shelves(3)) == [0, 2, 4]
    assert shop.open is True and shop.size == 8
    assert Shop().restock("tea") == "tea restocked" and Shop().open is False and Shop().size == 7
    assert plugin.implements == ("restock", "shelves", "open", "size")
    hooks(shop.restock).always(lambda: None, name="last")
    assert plugins.order("restock") == ("Helper", "last") and plugins.order("open") == ("Helper",)
    plugin.unregister()
    assert shop.restock("tea") == "tea restocked" and shop.open is False


def test_a_class_that_is_hookable_is_a_specification() -> None:
    @hookable
    class Mailer:
        def send(self, to: str) -> str:
            return f"sent to {to}"

    class Loud:
        @post
        def send(self, result: str) -> str:
            return result.upper()

    mailer: Any = Mailer()
    Plugins(mailer).register(Loud())
    assert mailer.send("ann") == "SENT TO ANN" and Mailer().send("ann") == "sent to ann"


def test_a_host_may_be_its_own_plugin() -> None:
    class Self:
        @event
        def sold(self, item: str) -> None: ...

        @on("sold")
        def note(self, item: str) -> str:
            return f"noted {item}"

    host: Any = Self()
    other: Any = Self()
    Plugins(host).register(host)
    assert host.sold("tea") == ["noted tea"] and other.sold("tea") == []
    ref = weakref.ref(host)
    del host
    gc.collect()
    assert ref() is None


def test_a_partial_of_an_event_in_a_module_is_no_event() -> None:
    """The module was refused for it."""
    sold = make_event()
    host = module_of(sold=sold, sold_tea=partial(sold, "tea"), number=5)
    assert message(PluginError, lambda: Plugins(host).order("sold_tea")) == (
        "shop_events has no event 'sold_tea'; its events: sold; did you mean 'sold'?"
    )


def test_a_specification_without_events_is_refused() -> None:
    for spec, name in ((5, "int"), (object, "object"), (sys, "sys"), (Seller(), "Seller")):
        assert message(PluginError, partial(Plugins, spec)) == (
            f"{name} has no events, so there is nothing that plugins could do; add @event stubs"
        )


def test_an_instance_that_cannot_be_referred_to_weakly_is_refused_with_what_to_do() -> None:
    class Slotted:
        __slots__ = ("__dict__",)

        @event
        def sold(self) -> None: ...

    assert "add '__weakref__' to its __slots__" in message(MountError, lambda: Plugins(Slotted()))

    class Better(Slotted):
        __slots__ = ("__weakref__",)

    better: Any = Better()
    Plugins(better).register(Seller())
    assert better.sold() == ["seller"]


def test_what_is_required_must_be_an_event() -> None:
    assert message(PluginError, lambda: Plugins(Shop, required="slod")) == (
        f"Shop requires 'slod', but has no event of that name; its events: {EVENTS}; did you mean 'sold'?"
    )


# What a plugin is


def test_a_plugin_has_hooks_of_every_kind(shop: Any, plugins: Plugins) -> None:
    class Everything:
        def __init__(self) -> None:
            self.trail: list[str] = []

        @pre("sold")
        def before_it(self, item: str) -> Args:
            self.trail.append("pre")
            return Args(item=item.strip())

        @around("sold")
        def around_it(self, proceed: Callable[[], list[Any]]) -> list[Any]:
            self.trail.append("around")
            return [*proceed(), "around"]

        @on
        def sold(self, item: str, price: float) -> str:
            self.trail.append("on")
            return f"{item}{1 / price}"

        @exception("sold", ZeroDivisionError, OverflowError)
        def fails(self, exc: Exception) -> Return[list[str]]:
            self.trail.append("exception")
            return Return([type(exc).__name__])

        @post("sold")
        def after_it(self, result: list[Any]) -> list[Any]:
            self.trail.append("post")
            return [*result, "post"]

        @always("sold")
        def in_the_end(self, result: Any, exc: Any) -> None:
            self.trail.append("always")

    everything = Everything()
    with unchanged():
        plugin = plugins.register(everything, name="all")
        assert shop.sold(" tea ") == ["tea1.0", "around", "post"]
        assert everything.trail == ["pre", "around", "on", "post", "always"]
        everything.trail.clear()
        assert shop.sold("tea", 0) == ["ZeroDivisionError"]
        assert everything.trail == ["pre", "around", "on", "exception", "always"]
        with pytest.raises(TypeError):
            shop.sold("tea", "x")
        assert [hook.kind for hook in plugin.hooks] == ["pre", "around", "on", "exception", "post", "always"]
        assert {hook.name for hook in plugin.hooks} == {"all"} and plugin.implements == ("sold",)
        assert plugin.hooks[3].types == (ZeroDivisionError, OverflowError)
        plugin.disable()
        everything.trail.clear()
        assert shop.sold(" tea ") == [] and everything.trail == []
        plugin.unregister()


def test_a_method_may_have_several_marks(shop: Any, plugins: Plugins) -> None:
    class Both:
        @on("sold", priority="LOW")
        @on("quote")
        @on
        def authenticate(self, args: tuple[object, ...]) -> Any:
            return len(args)

    plugin = plugins.register(Both())
    assert plugin.implements == ("sold", "quote", "authenticate")
    assert [hook.priority for hook in plugin.hooks] == [70, 50, 50]
    assert (shop.sold("tea"), shop.quote("tea", 5), shop.authenticate("ann")) == ([3], 3, 3)


def test_a_mark_may_hold_twice_for_one_event(shop: Any, plugins: Plugins) -> None:
    class Twice:
        @on("sold", priority=10)
        @on("sold", priority=90)
        def say(self, item: str) -> str:
            return item

    plugins.register(Twice())
    plugins.register(Seller())
    assert shop.sold("tea") == ["tea", "seller", "tea"]


def test_a_method_that_has_two_names_acts_once(shop: Any, plugins: Plugins) -> None:
    """It acted twice."""

    class Alias:
        @on
        def sold(self) -> str:
            return "sold"

        also = sold

    plugins.register(Alias())
    assert shop.sold("tea") == ["sold"]


def test_marked_methods_are_inherited_and_overridden(shop: Any, plugins: Plugins) -> None:
    class Base:
        @on
        def sold(self) -> str:
            return "base"

        @on
        def quote(self, price: float) -> float:
            return price + 1

        @on("authenticate")
        def who(self) -> str:
            return "base"

    class Derived(Base):
        @on(priority="HIGH")
        def sold(self) -> str:
            return f"derived of {super().sold()}"

        who = None  # type: ignore[assignment]

    plugin = plugins.register(Derived())
    assert shop.sold("tea") == ["derived of base"] and shop.quote("tea", 1) == 2 and shop.authenticate("ann") is None
    assert set(plugin.implements) == {"sold", "quote"}


@pytest.mark.parametrize("name", ["sold", "book"])
def test_an_override_that_is_not_marked_is_refused(plugins: Plugins, name: str) -> None:
    """One with a name of its own was left out without a word."""

    class Base:
        @on("sold")
        def book(self) -> str:
            return "base"

        @on
        def sold(self) -> str:
            return "base"

    derived = type("Derived", (Base,), {name: lambda self: "derived"})
    with unchanged():
        text = message(PluginError, lambda: plugins.register(derived()))
    assert (
        text
        == {
            "book": "Shop: plugin 'Derived' has 'book', which overrides a method that Base marks, and is not marked; "
            "mark it too, or set book = None",
            "sold": "Shop: plugin 'Derived' has 'sold', which is not marked; write @on above it, or call it otherwise",
        }[name]
    )


def test_static_and_class_methods_and_wrapped_ones_may_be_marked(shop: Any, plugins: Plugins) -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return f"logged {function(*args, **kwargs)}"

        return wrapper

    class Sorts:
        @staticmethod
        @on("sold")
        def first(item: str) -> str:
            return f"static {item}"

        @on("sold")
        @classmethod
        def second(cls, item: str) -> str:
            return f"{cls.__name__} {item}"

        @logged
        @on("sold")
        def third(self, item: str) -> str:
            return item

    plugins.register(Sorts())
    assert shop.sold("tea") == ["static tea", "Sorts tea", "logged tea"]


@dataclass(frozen=True)
class Slotted:
    __slots__ = ("percent",)
    percent: int

    @on
    def quote(self, price: float) -> float:
        return price * self.percent / 100


@dataclass
class Sums:
    total: list[float] = field(default_factory=list)

    @on
    def sold(self, price: float) -> float:
        self.total.append(price)
        return sum(self.total)


def test_slots_and_dataclasses_are_plugins(shop: Any, plugins: Plugins) -> None:
    one, two = Sums(), Sums()
    assert one == two
    plugins.register(Slotted(50))
    plugins.register(one, name="one")
    plugins.register(two, name="two")  # they are equal, but not the same
    assert shop.quote("tea", 4) == 2 and shop.sold("tea", 3.0) == [3.0, 3.0]
    plugins.unregister(two)
    assert shop.sold("tea", 3.0) == [6.0] and [one.name for one in plugins] == ["Slotted", "one"]


class Hostile(Seller):
    """Its attributes and operators fail, as far as they may."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError("nobody should compare it")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise AssertionError("nobody should ask whether it is true")

    def __repr__(self) -> str:
        raise AssertionError("nobody can see it")

    def __dir__(self) -> list[str]:
        raise AssertionError("nobody should list it")

    @property
    def broken(self) -> object:
        raise AssertionError("nobody asked for it")


def test_a_plugin_whose_attributes_and_operators_fail_is_one_as_any(shop: Any, plugins: Plugins) -> None:
    """`in` compared plugins, and looked at what they say they are."""
    hostile = Hostile()
    plugins.register(Seller("one"), name="one")
    plugin = plugins.register(hostile, name="hostile")
    assert hostile in plugins and plugins[hostile] is plugin and Hostile() not in plugins
    assert "'hostile'" in message(PluginError, lambda: plugins.register(hostile, name="again"))
    assert "has a name that <" in message(PluginError, lambda: plugins.register(Seller(), name="hostile"))
    assert shop.sold("tea") == ["one", "seller"]
    plugins.unregister(hostile)
    with pytest.raises(HookLookupError):
        plugins.unregister(hostile)


def test_what_is_equal_to_everything_is_no_plugin(plugins: Plugins) -> None:
    class Same:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = object.__hash__

    plugins.register(Seller())
    assert Same() not in plugins and None not in plugins and Seller() not in plugins
    assert "Seller" in plugins


def test_a_plugin_that_has_every_attribute_is_one_by_its_marks_alone(shop: Any, plugins: Plugins) -> None:
    class Anything(Seller):
        priority = None

        def __getattr__(self, name: str) -> Any:
            return lambda *args: name

    assert plugins.register(Anything()).name == "Anything"
    assert shop.sold("tea") == ["seller"]


@pytest.mark.parametrize("name", ["name", "priority"])
def test_an_attribute_that_fails_is_said_and_can_be_given(plugins: Plugins, name: str) -> None:
    """The error of the attribute came out alone."""

    def fail(self: object) -> object:
        raise ValueError("not yet")

    fragile = type("Fragile", (Seller,), {name: property(fail)})
    with unchanged(), pytest.raises(PluginError) as caught:
        plugins.register(fragile())
    assert f"has an attribute {name!r} that fails with ValueError('not yet'); register it with {name}=" in str(
        caught.value
    )
    assert isinstance(caught.value.__cause__, ValueError)
    given: Any = {name: "HIGH"}
    assert plugins.register(fragile(), **given).implements == ("sold",)


def test_the_name_is_the_one_given_or_that_of_the_object_its_class_or_its_module(plugins: Plugins) -> None:
    for own, called in (("dealer", "dealer"), (5, "Seller"), ("", "Seller")):
        seller: Any = Seller()
        seller.name = own
        with plugins_off(plugins):
            assert plugins.register(seller).name == called
    assert plugins.register(plugin_module("plugged_module", name="i")).name == "plugged_module"
    assert plugins.register(Seller(), "given").name == "given"


@contextmanager
def plugins_off(plugins: Plugins) -> Generator[None]:
    yield
    for plugin in plugins:
        plugin.unregister()


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


def test_a_module_is_a_plugin_by_what_it_defines_itself(shop: Any, plugins: Plugins) -> None:
    other = plugin_module("plugged_other")
    one = plugin_module("plugged_one", imported=other.sold, quote=make_event, Seller=Seller)
    plugins.register(one)
    assert shop.sold("tea") == ["plugged_one tea"]
    assert plugins["plugged_one"].object is one
    text = message(PluginError, lambda: plugins.register(module_of(sold=other.sold)))
    assert text.startswith("Shop: plugin 'shop_events' has no marked methods; write @on above those that are for ")


def test_a_package_has_what_its_modules_define(shop: Any, plugins: Plugins) -> None:
    """It had only what is written in its own file."""
    package = ModuleType("plugged_package")
    package.__dict__["sold"] = plugin_module("plugged_package.inner").sold
    package.__dict__["more"] = plugin_module("plugged_packages").sold
    plugins.register(package)
    assert shop.sold("tea") == ["plugged_package.inner tea"]


def test_a_plugin_may_be_hooked_itself(shop: Any, plugins: Plugins) -> None:
    class Base:
        @hookable
        @on
        def sold(self, item: str) -> str:
            return item

    plugin: Any = Base()
    plugins.register(plugin)
    hooks(plugin.sold).post(lambda result: f"{result}!")
    assert shop.sold("tea") == ["tea!"]


# Refused


def marked_by(kind: Any, name: str, function: Callable[..., Any], /, *args: Any, **options: Any) -> type:
    """Make the class of a plugin with one method."""
    function.__name__ = name
    return type("Wrong", (), {name: kind(*args, **options)(function) if args or options else kind(function)})


async def _awaiting(self: object) -> None: ...


def _many(self: object) -> Iterator[int]:
    yield 1


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "misspelt": (
        marked_by(on, "slod", lambda self: None),
        PluginError,
        f"Shop: plugin 'Wrong': on hook 'slod' (HERE) is for 'slod', but Shop has no event of that name; its events: "
        f"{EVENTS}; did you mean 'sold'?",
    ),
    "misspelt in the mark": (
        marked_by(on, "book", lambda self: None, "qoute"),
        PluginError,
        f"Shop: plugin 'Wrong': on hook 'book' (HERE) is for 'qoute', but Shop has no event of that name; its events: "
        f"{EVENTS}; did you mean 'quote'?",
    ),
    "private": (
        marked_by(on, "_private", lambda self: None),
        PluginError,
        f"Shop: plugin 'Wrong': on hook '_private' (HERE) is for '_private', but Shop has no event of that name; its "
        f"events: {EVENTS}; what begins with an underscore is none of them",
    ),
    "pointcut": (
        marked_by(on, "book", lambda self: None, "shop:*.sold"),
        PluginError,
        f"Shop: plugin 'Wrong': on hook 'book' (HERE) is for 'shop:*.sold', but Shop has no event of that name; its "
        f"events: {EVENTS}; did you mean 'sold'?; weave(plugin) is for pointcuts",
    ),
    "wrong parameter": (
        marked_by(on, "sold", lambda self, itme: None),
        HookSignatureError,
        "tests.plugins.test_plugins:Shop.sold: on hook 'Wrong' (HERE) asks for 'itme', but "
        "tests.plugins.test_plugins:Shop.sold offers self, item, price (and every on hook call, args, kwargs); did you "
        "mean 'item'?",
    ),
    "wrong kind of parameter": (
        marked_by(pre, "sold", lambda self, result: None),
        HookSignatureError,
        "'result', which only post and always hooks are given",
    ),
    "async": (marked_by(on, "sold", _awaiting), HookTypeError, "make the hook a plain function"),
    "generator": (marked_by(on, "sold", _many), HookTypeError, "only an around hook may be a generator"),
    "subscriber of what is not an event": (
        marked_by(on, "restock", lambda self: None),
        HookTypeError,
        "Shop.restock is not an event; use pre or post",
    ),
    "items of what is not a generator": (
        marked_by(item, "sold", lambda self, item: None),
        HookTypeError,
        "yields no items; use post",
    ),
    "unknown option": (
        marked_by(on, "sold", lambda self: None, prioritty=5),
        HookTypeError,
        "on hook 'Wrong' (HERE) has an option 'prioritty'",
    ),
    "priority of the mark": (
        marked_by(on, "sold", lambda self: None, priority="HIHG"),
        HookOptionError,
        "did you mean 'HIGH'?",
    ),
    "priority of the object": (
        type("Wrong", (Seller,), {"priority": "urgent"}),
        HookOptionError,
        "Shop: plugin 'Wrong': on hook 'sold' (HERE) has the priority 'urgent', which does not exist; the names are",
    ),
    "name in the mark": (
        marked_by(on, "sold", lambda self: None, name="mine"),
        PluginError,
        "Shop: plugin 'Wrong': on hook 'sold' (HERE) has a name of its own; hooks of a plugin are called by the "
        "plugin's name",
    ),
    "not marked": (
        type("Wrong", (), {"sold": lambda self: None}),
        PluginError,
        "Shop: plugin 'Wrong' has 'sold', which is not marked; write @on above it, or call it otherwise",
    ),
    "not marked, but another is for that event": (
        type("Wrong", (Seller,), {"sold": lambda self: None, "book": post("sold")(lambda self: None)}),
        PluginError,
        "Shop: plugin 'Wrong' has 'sold', which is not marked; write @on above it, or call it otherwise",
    ),
    "not marked and static": (
        type("Wrong", (), {"sold": staticmethod(lambda: None)}),
        PluginError,
        "Shop: plugin 'Wrong' has 'sold', which is not marked; write @on above it, or call it otherwise",
    ),
    "not marked, in the object": (
        lambda: SimpleNamespace(sold=lambda: None),
        PluginError,
        "Shop: plugin 'SimpleNamespace' has 'sold', which is not marked; write @on above it, or call it otherwise",
    ),
    "no marks": (
        object,
        PluginError,
        f"Shop: plugin 'object' has no marked methods; write @on above those that are for {EVENTS}",
    ),
    "function": (
        lambda: Seller.sold,
        PluginError,
        f"Shop: plugin 'function' has no marked methods; write @on above those that are for {EVENTS}; a plugin is an "
        "object or a module",
    ),
    "class": (
        lambda: Seller,
        PluginError,
        "Shop: plugin 'type' is a class; register an object of it, as in register(Seller())",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plugin_that_does_not_fit_is_refused_and_nothing_is_left_of_it(plugins: Plugins, case: str) -> None:
    make, error, says = REFUSED[case]
    plugin = make()
    with unchanged():
        text = message(error, lambda: plugins.register(plugin))
        assert len(plugins) == 0 and plugin not in plugins
    shown = re.sub(r"\([^()]*test_plugins\.py:\d+\)", "(HERE)", text)
    assert says in shown, shown
    assert isinstance(error("x"), AspecthookError)


GIVEN: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": 5}, PluginError, "Shop: a plugin has the name 5; give a string"),
    ({"name": ""}, PluginError, "Shop: a plugin has the name ''; give a string"),
    ({"priority": 101}, HookOptionError, "Shop: plugin 'Seller' has the priority 101; give an int from 0"),
    ({"priority": "HIHG"}, HookOptionError, "did you mean 'HIGH'?"),
    ({"priority": True}, HookTypeError, "Shop: plugin 'Seller' has a priority of type bool"),
    ({"before": 5}, PluginError, "Shop: plugin 'Seller' has before=5; give the name of another plugin"),
    ({"after": ["x", 5]}, PluginError, "Shop: plugin 'Seller' has after=5; give the name of another plugin"),
    ({"after": b"x"}, PluginError, "Shop: plugin 'Seller' has after=b'x'; give the name of another plugin"),
    ({"enabled": "no"}, PluginError, "Shop: plugin 'Seller' has enabled='no'; give True or False"),
    ({"before": "Seller"}, HookOrderError, "these hooks cannot be ordered: 'Seller' before 'Seller'"),
]


@pytest.mark.parametrize(("options", "error", "says"), GIVEN)
def test_what_is_given_to_register_is_checked(
    plugins: Plugins, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    """`before=5` was a TypeError of Python's, `enabled="no"` was true."""
    with unchanged():
        assert says in message(error, lambda: plugins.register(Seller(), **options))
        assert len(plugins) == 0
    assert plugins.register(Seller(), before=None, after=None, priority=None).name == "Seller"


def test_a_name_or_an_object_can_be_registered_once(plugins: Plugins) -> None:
    seller = Seller()
    plugins.register(seller, "one")
    with unchanged():
        assert message(PluginError, lambda: plugins.register(seller, "two")) == (
            "Shop: plugin 'two' is registered already, as 'one'; unregister it first"
        )
        assert message(PluginError, lambda: plugins.register(Seller(), "one")) == (
            f"Shop: plugin 'one' has a name that <{__name__}.Seller object> has; give another by name=, or "
            "unregister that"
        )
    assert [one.name for one in plugins] == ["one"]
    plugins.unregister("one")
    plugins.register(seller, "two")


def test_a_refused_plugin_leaves_what_was_put_on_by_hand(shop: Any, plugins: Plugins) -> None:
    third = Third()
    hooks(shop.sold).on(third.sold, name="Third")
    with pytest.raises(HookSignatureError):
        plugins.register(third)
    assert shop.sold("tea") == ["acted"]


def test_a_plugin_that_comes_too_late_takes_nothing_from_the_one_that_was_faster(shop: Any, plugins: Plugins) -> None:
    class Twice(Seller):
        @property
        def priority(self) -> None:
            if "twice" not in plugins:
                plugins.register(self, name="twice", priority=0)

    text = message(PluginError, lambda: plugins.register(Twice(), name="twice"))
    assert text == "Shop: plugin 'twice' is registered already, as 'twice'; unregister it first"
    assert shop.sold("tea") == ["seller"] and list(plugins["twice"].implements) == ["sold"]


class Third:
    """The third of its hooks is wrong."""

    @pre
    def quote(self) -> None: ...

    @on
    def sold(self) -> str:
        return "acted"

    @on
    def authenticate(self, usr: str) -> None: ...


@pytest.mark.parametrize("spec", [Shop, Kiosk, "instance"])
def test_all_hooks_are_put_on_or_none(spec: Any) -> None:
    host: Any = Shop() if spec == "instance" else spec
    with unchanged():
        plugins = Plugins(host)
        assert "did you mean 'user'?" in message(HookSignatureError, lambda: plugins.register(Third()))
        assert list(plugins) == []
    # Nothing keeps the name either.
    plugins.register(Seller(), name="Third").unregister()


def test_a_refused_plugin_leaves_those_that_are_there(shop: Any, plugins: Plugins) -> None:
    plugins.register(Seller("there"), name="there")
    code, row = Shop.sold.__code__, plugins.order("sold")
    assert shop.sold("tea") == ["there"]
    with pytest.raises(HookSignatureError):
        plugins.register(Third())
    assert shop.sold("tea") == ["there"] and plugins.order("sold") == row and Shop.sold.__code__ is not code
    plugins.unregister("there")


@given(st.permutations(["pre", "on", "post", "always", "bad"]), st.booleans())
def test_wherever_the_wrong_hook_stands_nothing_is_left(kinds: list[str], of_class: bool) -> None:
    marks: dict[str, Any] = {"pre": pre, "on": on, "post": post, "always": always}
    body: dict[str, Any] = {}
    for kind in kinds:
        method: Any = (lambda self, itme: None) if kind == "bad" else (lambda self: None)
        body[f"{kind}_hook"] = marks.get(kind, on)("sold")(method)
    host: Any = Shop if of_class else Shop()
    plugins = Plugins(host)
    with unchanged():
        with pytest.raises(HookSignatureError):
            plugins.register(type("Drawn", (), body)())
        assert len(plugins) == 0


def test_a_plugin_must_subscribe_to_what_is_required(shop: Any) -> None:
    """Any hook was enough, and the nearest name was looked for where it could not be."""
    plugins = Plugins(shop, required=["sold", "restock"])

    class Wrong:
        @post
        def sold(self) -> None: ...

        @pre
        def restock(self) -> None: ...

        def solt(self) -> None: ...

    with unchanged():
        assert message(PluginError, lambda: plugins.register(Wrong())) == (
            "Shop: plugin 'Wrong' has no @on for 'sold', as every plugin of Shop must; did you mean 'solt'?"
        )
        assert message(PluginError, lambda: plugins.register(Seller())) == (
            "Shop: plugin 'Seller' has no hook on 'restock', as every plugin of Shop must"
        )

    class Right(Seller):
        @pre
        def restock(self) -> None: ...

    assert plugins.register(Right()).implements == ("sold", "restock")


# Order


def test_plugins_are_ordered_by_name_whether_or_not_the_other_is_there_yet(shop: Any, plugins: Plugins) -> None:
    plugins.register(Seller("early"), name="early", before="auth-plugin")
    plugins.register(Seller("late"), name="late", after="auth-plugin", priority="HIGHEST")
    plugins.register(Seller("auth"), name="auth-plugin", priority="LOW")
    plugins.register(Seller("last"), name="last", after=["late", "auth-plugin"], priority=0)
    order = ("early", "auth-plugin", "late", "last")
    assert plugins.order("sold") == order and shop.sold("tea") == ["early", "auth", "late", "last"]
    plugins.unregister("auth-plugin")
    assert plugins.order("sold") == ("late", "last", "early")
    plugins.register(Seller("auth"), name="auth-plugin")
    assert plugins.order("sold") == order


def test_constraints_of_marks_and_of_register_hold_together(plugins: Plugins) -> None:
    class Between:
        @on("sold", before="z", after=None)
        def one(self) -> None: ...

        @on("quote", before=("z",), after={"y"})
        def two(self) -> None: ...

    class Names:
        @on
        def sold(self) -> None: ...

        @on
        def quote(self) -> None: ...

    for name in "zyx":
        plugins.register(Names(), name=name)
    plugins.register(Between(), after=("x",))
    assert plugins.order("sold") == plugins.order("quote") == ("y", "x", "Between", "z")


def test_the_priority_given_wins_over_the_mark_and_the_mark_over_the_object(plugins: Plugins) -> None:
    class Ranked:
        priority = "LOWEST"

        @on(priority="HIGH")
        def sold(self) -> None: ...

        @on
        def quote(self) -> None: ...

    assert [hook.priority for hook in plugins.register(Ranked(), name="one").hooks] == [30, 100]
    assert [hook.priority for hook in plugins.register(Ranked(), name="two", priority=0).hooks] == [0, 0]
    assert plugins.order("sold") == ("two", "one")


def test_a_contradiction_is_refused_and_nothing_is_left(plugins: Plugins) -> None:
    class Quoting(Seller):
        @on
        def quote(self, price: float) -> None: ...

    plugins.register(Seller(), name="one", before="two", after="three")
    with unchanged():
        text = message(HookOrderError, lambda: plugins.register(Quoting(), name="two", before="one"))
        assert "these hooks cannot be ordered: 'one' before 'two' before 'one'; remove a" in text
        assert plugins.order("quote") == () and [one.name for one in plugins] == ["one"]


def test_order_is_that_of_one_event(plugins: Plugins) -> None:
    plugins.register(Seller(), name="seller")
    assert plugins.order("sold") == ("seller",) and plugins.order("quote") == ()
    assert message(PluginError, lambda: plugins.order("slod")) == (
        f"Shop has no event 'slod'; its events: {EVENTS}; did you mean 'sold'?"
    )


# Who answered


def test_who_answered_what_is_visible(shop: Any, plugins: Plugins) -> None:
    class Everywhere:
        def __init__(self, step: int) -> None:
            self.step = step

        @on
        def sold(self, item: str) -> str | None:
            return f"{item} {self.step}" if self.step != 2 else None

        @on
        def quote(self, price: float) -> float:
            return price + self.step

        @on
        def authenticate(self, user: str) -> str | None:
            return f"{user} {self.step}" if self.step > 1 else None

    for step in (1, 2, 3):
        plugins.register(Everywhere(step), name=f"p{step}")
    hooks(shop.sold).on(lambda: Return(None), name="guest")
    assert plugins.answers("sold", "tea") == [("p1", "tea 1"), ("p3", "tea 3"), ("guest", None)]
    assert plugins.answers("quote", "tea", price=10) == [("p1", 11), ("p2", 13), ("p3", 16)]
    assert plugins.answers("authenticate", user="ann") == [("p2", "ann 2")]
    plugins.disable("p2")
    assert plugins.answers("authenticate", "ann") == [("p3", "ann 3")]


def test_nobody_answered_when_nobody_was_asked(shop: Any, plugins: Plugins) -> None:
    done: list[str] = []

    class Host:
        @event
        def sold(self, item: str) -> None:
            done.append(item)

    assert plugins.answers("sold", "tea") == []
    host = Plugins(Host())
    assert host.answers("sold", "tea") == [] and done == ["tea"]
    host.register(Seller())
    assert host.answers("sold", "cake") == [("Seller", "seller")] and done == ["tea"]
    hooks(shop.sold).pre(lambda: Return(["kept"]))
    plugins.register(Seller())
    assert plugins.answers("sold", "tea") == [] and shop.sold("tea") == ["kept"]


def test_looking_at_the_answers_lets_the_event_happen_once_with_all_its_hooks(shop: Any, plugins: Plugins) -> None:
    trail: list[str] = []

    class Kinds:
        @pre("sold")
        def first(self) -> Args:
            trail.append("pre")
            return Args(item="cake")

        @around("sold")
        def second(self) -> Generator[None]:
            trail.append("around")
            yield

        @on(once=True)
        def sold(self, item: str) -> str:
            trail.append("on")
            return item

        @always("sold")
        def last(self) -> None:
            trail.append("always")

    plugin = plugins.register(Kinds())
    assert plugins.answers("sold", "tea") == [("Kinds", "cake")] and trail == ["pre", "around", "on", "always"]
    assert plugins.answers("sold", "tea") == [] and [hook.kind for hook in plugin.hooks] == ["pre", "around", "always"]


def test_answers_takes_what_the_event_takes(plugins: Plugins) -> None:
    class Host:
        @event
        def odd(self, a: int, /, b: int = 2, *rest: int, c: int, event: int = 4, **extra: int) -> None: ...

    class Listens:
        @on
        def odd(self, b: int, rest: Any, c: int, event: int, extra: Any) -> Any:
            return b, rest, c, event, extra

    host: Any = Host()
    odd = Plugins(host)
    odd.register(Listens())
    for args, kwargs in (((1,), {"c": 3}), ((1, 5, 6, 7), {"c": 3, "event": 8, "self": 9, "x": 10})):
        assert [answer for _, answer in odd.answers("odd", *args, **kwargs)] == host.odd(*args, **kwargs)
    for registered in (False, True):
        if registered:
            plugins.register(Seller())
        text = message(TypeError, lambda: plugins.answers("sold"))
        assert text == "Shop.sold() missing 1 required positional argument: 'item'"
    text = message(TypeError, lambda: plugins.answers("sold", "tea", prise=2))
    assert text == "Shop.sold() got an unexpected keyword argument 'prise'"


def test_answers_of_an_event_that_says_it_takes_something_else(plugins: Plugins) -> None:
    """It was read from what `inspect` is told, not from what it takes."""

    def stub(item: str, price: float = 2.0) -> None: ...

    stub.__signature__ = "nonsense"  # type: ignore[attr-defined]
    stub.__annotations__ = {"item": "NoSuchType"}
    odd = Plugins(module_of(sold=event(stub)))

    class Listens:
        @on
        def sold(self, item: str, price: float) -> Any:
            return item, price

    odd.register(Listens())
    assert odd.answers("sold", "tea") == [("Listens", ("tea", 2.0))]


def test_answers_of_a_class_are_those_of_the_instance_too() -> None:
    """Subscribers of the instance were left out, though the event asks them."""
    plugins = Plugins(Shop)
    plugins.register(Seller(), name="all")
    mine: Any = Shop()
    Plugins(mine).register(Seller("mine"), name="mine")
    assert plugins.answers("sold", mine, "tea") == [("all", "seller"), ("mine", "mine")]
    assert mine.sold("tea") == ["seller", "mine"]
    assert plugins.answers("sold", item="tea", self=mine) == [("all", "seller"), ("mine", "mine")]
    assert plugins.answers("sold", Shop(), "tea") == [("all", "seller")]
    plugins.unregister("all")


def test_answers_name_the_right_one_of_two_plugins_with_one_function(plugins: Plugins) -> None:
    class Every:
        @staticmethod
        @on(every=2)
        def sold(item: str) -> str:
            return item

    plugins.register(Every(), name="first")
    assert plugins.answers("sold", "tea") == []
    plugins.register(Every(), name="second")
    named = [[name for name, _ in plugins.answers("sold", "tea")] for _ in range(3)]
    assert named == [["first"], ["second"], ["first"]]


def test_what_is_no_event_has_no_answers(shop: Any, plugins: Plugins) -> None:
    """It was called, and gave an empty list."""
    called: list[str] = []
    hooks(shop.restock).pre(lambda item: called.append(item))
    assert message(PluginError, lambda: plugins.answers("restock", "tea")) == (
        "Shop: 'restock' is hookable but not an event, so nobody answers; call it instead"
    )
    assert not called
    assert "did you mean 'sold'?" in message(PluginError, lambda: plugins.answers("sodl"))


def test_answers_raises_what_the_event_raises(shop: Any, plugins: Plugins) -> None:
    plugins.register(Failing(ValueError("one")))
    for act in (partial(plugins.answers, "sold"), shop.sold):
        with pytest.raises(ValueError, match="one"):
            act("tea")


def fresh_host() -> type[Any]:
    """Make a class of its own for an example, so that what fails leaves the next one alone."""

    class Fresh:
        @event
        def sold(self, item: str) -> None: ...

        @event(fold="price")
        def quote(self, item: str, price: float) -> None: ...

        @event(first=True)
        def authenticate(self, user: str) -> str | None:
            return None

    return Fresh


ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(0, 100),
        "before": st.lists(st.sampled_from("abcdef"), max_size=2),
        "after": st.lists(st.sampled_from("abcdef"), max_size=2),
        "enabled": st.booleans(),
    },
)


class Answering:
    def __init__(self, answer: int | None) -> None:
        self.answer = answer

    @on
    def sold(self) -> Any:
        return self.answer

    @on
    def quote(self, price: float) -> Any:
        return price * 7 + self.answer if self.answer is not None else None

    @on
    def authenticate(self) -> Any:
        return self.answer


@given(st.lists(st.tuples(ORDERS, st.none() | st.integers(0, 5)), max_size=6), st.booleans(), st.data())
def test_answers_are_what_the_event_gives_and_order_is_who_gives_them(
    rows: list[tuple[dict[str, Any], int | None]], of_class: bool, data: st.DataObject
) -> None:
    cls = fresh_host()
    host: Any = cls()
    with unchanged(cls):
        plugins = Plugins(cls if of_class else host)
        first = (host,) if of_class else ()
        for name, (options, answer) in zip("abcdef", rows, strict=False):
            before = trace_left(cls)
            try:
                plugins.register(Answering(answer), name=name, **options)
            except HookOrderError:
                assert trace_left(cls) == before and name not in plugins
        for plugin in plugins:
            match data.draw(st.sampled_from(["keep", "keep", "disable", "enable", "unregister"])):
                case "keep":
                    pass
                case act:
                    getattr(plugin, act)()
        enabled = {one.name: one.object.answer for one in plugins if one.enabled}  # type: ignore[attr-defined]
        order = plugins.order("sold")
        assert set(order) == set(enabled) and len(order) == len(enabled)
        assert order == plugins.order("quote") == plugins.order("authenticate")
        expected = [(name, enabled[name]) for name in order if enabled[name] is not None]
        assert plugins.answers("sold", *first, "tea") == expected
        assert host.sold("tea") == [answer for _, answer in expected]
        firsts = plugins.answers("authenticate", *first, "ann")
        assert firsts == expected[:1] and host.authenticate("ann") == next((answer for _, answer in firsts), None)
        folded = plugins.answers("quote", *first, "tea", 1)
        assert [name for name, _ in folded] == [name for name, _ in expected]
        assert host.quote("tea", 1) == ([1] + [answer for _, answer in folded])[-1]
        for plugin in plugins:
            for constraint, sign in (("before", 1), ("after", -1)):
                options = rows["abcdef".index(plugin.name)][0]
                for other in options.get(constraint, ()):
                    if plugin.name in order and other in order:
                        assert sign * (order.index(other) - order.index(plugin.name)) > 0
        for plugin in plugins:
            plugin.unregister()


@given(st.permutations(list(range(5))), st.lists(st.integers(0, 100), min_size=5, max_size=5, unique=True))
def test_the_order_of_registration_does_not_matter_where_priorities_differ(
    places: list[int], priorities: list[int]
) -> None:
    host: Any = fresh_host()()
    plugins = Plugins(host)
    for place in places:
        plugins.register(Seller(priorities[place]), name=f"p{place}", priority=priorities[place])
    assert host.sold("tea") == sorted(priorities)
    ranked = sorted(range(5), key=lambda place: priorities[place])
    assert plugins.order("sold") == tuple(f"p{place}" for place in ranked)
    assert [one.name for one in plugins] == [f"p{place}" for place in places]


# Enabled, disabled, off


def test_a_disabled_plugin_keeps_its_place(shop: Any, plugins: Plugins) -> None:
    for name in "abc":
        plugins.register(Seller(name), name=name)
    plugins.disable("b")
    assert shop.sold("tea") == ["a", "c"] and plugins["b"].implements == ("sold",)
    assert repr(plugins) == "<plugins of Shop: a, b, c>"
    assert repr(plugins["b"]) == "<plugin 'b' of Shop: sold, disabled>" and [one.enabled for one in plugins] == [
        True,
        False,
        True,
    ]
    plugins.disable(plugins["b"])
    plugins.enable(plugins["b"].object)
    assert shop.sold("tea") == ["a", "b", "c"] and all(one.enabled for one in plugins)
    assert repr(plugins["b"]) == "<plugin 'b' of Shop: sold>"


def test_enabled_cannot_be_set_as_that_would_change_nothing_else(shop: Any, plugins: Plugins) -> None:
    """It could, and did not."""
    plugin: Any = plugins.register(Seller())
    with pytest.raises(AttributeError):
        plugin.enabled = False
    assert plugin.enabled and shop.sold("tea") == ["seller"]


def test_a_plugin_may_be_registered_disabled(shop: Any, plugins: Plugins) -> None:
    plugin = plugins.register(Seller("one"), name="one", enabled=False)
    plugins.register(Seller("two"), name="two")
    assert shop.sold("tea") == ["two"] and plugins.order("sold") == ("two",) and not plugin.enabled
    plugin.enable()
    assert shop.sold("tea") == ["one", "two"]


def test_a_plugin_is_found_by_its_name_its_object_and_its_handle(plugins: Plugins) -> None:
    seller = Seller()
    plugin = plugins.register(seller, name="seller")
    assert [type(plugin), plugin.object, plugin.name] == [Plugin, seller, "seller"]
    for key in ("seller", seller, plugin):
        assert key in plugins and plugins[key] is plugin
    other = Plugins(Shop())
    assert plugin not in other and list(plugins) == [plugin] and len(plugins) == 1
    assert message(HookLookupError, lambda: plugins["sellr"]) == (
        "Shop has no plugin 'sellr'; its plugins: seller; did you mean 'seller'?"
    )
    assert message(HookLookupError, lambda: other.unregister(plugin)) == (
        "Shop has no plugin 'seller'; its plugins: none at all"
    )
    for act in (plugins.disable, plugins.enable, plugins.unregister):
        with pytest.raises(HookLookupError):
            act("nobody")


def test_what_is_off_stays_off(shop: Any, plugins: Plugins) -> None:
    with unchanged():
        plugin = plugins.register(Seller())
        plugins.unregister(plugin)
        plugin.unregister()
        plugin.disable()
        plugin.enable()
        assert shop.sold("tea") == [] and plugin.implements == () and "no events" in repr(plugin)
        with pytest.raises(HookLookupError):
            plugins.unregister(plugin)


def test_a_handle_does_not_take_off_another_of_its_name(shop: Any, plugins: Plugins) -> None:
    first = plugins.register(Seller("first"), name="seller")
    first.unregister()
    plugins.register(Seller("second"), name="seller")
    first.unregister()
    assert shop.sold("tea") == ["second"] and "seller" in plugins


def test_hooks_that_are_spent_or_cleared_are_hooks_no_more(shop: Any, plugins: Plugins) -> None:
    class Once(Seller):
        @on(once=True)
        def sold(self) -> Any:
            return self.answer

        @on
        def quote(self) -> None: ...

    with unchanged():
        plugin = plugins.register(Once())
        assert shop.sold("tea") == ["seller"] and shop.sold("tea") == []
        assert list(plugin.implements) == ["quote"]
        plugin.disable()
        plugin.enable()
        assert shop.sold("tea") == []
        hooks(shop.quote).clear()
        assert not plugin.implements and plugin in plugins
        plugin.unregister()


def test_other_subscribers_stay_as_they_are(shop: Any, plugins: Plugins) -> None:
    hooks(shop.sold).on(lambda: "mine", name="Seller")
    plugin = plugins.register(Seller())
    assert shop.sold("tea") == ["mine", "seller"]
    plugin.disable()
    assert shop.sold("tea") == ["mine"]
    plugin.unregister()
    assert shop.sold("tea") == ["mine"]


# While the event happens


def test_a_plugin_may_register_others_while_the_event_happens(shop: Any, plugins: Plugins) -> None:
    class Parent:
        @on
        def sold(self) -> str:
            if "child" not in plugins:
                plugins.register(Seller("child"), name="child")
            return "parent"

    plugins.register(Parent())
    assert shop.sold("tea") == ["parent"] and shop.sold("tea") == ["parent", "child"]


@pytest.mark.parametrize("act", ["unregister", "disable"])
def test_what_a_plugin_does_to_others_and_itself_holds_from_the_next_call_on(
    shop: Any, plugins: Plugins, act: str
) -> None:
    class Bad:
        @on
        def sold(self) -> str:
            for name in ("bad", "other"):
                if name in plugins:
                    getattr(plugins, act)(name)
            return "bad"

    plugins.register(Bad(), name="bad")
    plugins.register(Seller("other"), name="other")
    assert shop.sold("tea") == ["bad", "other"]
    assert shop.sold("tea") == [] and len(plugins) == (0 if act == "unregister" else 2)


def test_plugins_can_be_looked_through_while_they_come_and_go(plugins: Plugins) -> None:
    for name in "abc":
        plugins.register(Seller(), name=name)
    for plugin in plugins:
        plugin.unregister()
    assert len(plugins) == 0


def test_a_call_in_another_thread_sees_all_hooks_of_a_plugin_or_none() -> None:
    """It saw the first ones of a plugin that was refused for its third."""

    class Pair:
        @on("sold")
        def one(self) -> int:
            return 1

        @on("sold")
        def two(self) -> int:
            return 2

        @post("sold")
        def checked(self, result: list[int]) -> None:
            seen.append(tuple(result))

    class Broken(Pair):
        @on("sold")
        def wrong(self, itme: str) -> None: ...

    host: Any = Shop()
    plugins = Plugins(host)
    seen: list[tuple[int, ...]] = []
    given: list[tuple[int, ...]] = []
    done = threading.Event()

    def change() -> None:
        try:
            for _ in range(200):
                plugin = plugins.register(Pair())
                plugin.disable()
                plugin.enable()
                plugin.unregister()
                with pytest.raises(HookSignatureError):
                    plugins.register(Broken())
        finally:
            done.set()

    def call() -> None:
        while not done.is_set():
            given.append(tuple(host.sold("tea")))

    at_once(change, call)
    assert set(given) <= {(), (1, 2)} and set(seen) <= {(1, 2)}


def test_of_threads_that_register_one_name_one_succeeds(shop: Any, plugins: Plugins) -> None:
    taken: list[str] = []

    def register(answer: int) -> None:
        try:
            plugins.register(Seller(answer), name="seller")
        except PluginError as error:
            taken.append(str(error))

    at_once(*[partial(register, answer) for answer in range(4)])
    assert len(taken) == 3 and len(plugins) == 1 and len(shop.sold("tea")) == 1


def test_threads_that_register_and_unregister_leave_nothing() -> None:
    host: Any = Shop()
    plugins = Plugins(host)

    def work(number: int) -> None:
        for turn in range(25):
            plugin = plugins.register(Seller(number), name=f"{number} {turn}")
            assert host.sold("tea").count(number) == 1
            plugins.unregister(plugin)
            assert number not in host.sold("tea")

    with unchanged():
        at_once(*[partial(work, number) for number in range(4)])
        assert len(plugins) == 0


# Interrupted


def strike_at(entry: int) -> Callable[..., Any]:
    """Give a trace function that interrupts the library as it enters a function for the so-manieth time.

    There Python itself looks for signals; at the lines around a lock it does not. What strikes in a generator that is
    being closed is swallowed.
    """
    left = entry

    def trace(frame: FrameType, what: str, _: object) -> None:
        nonlocal left
        code = frame.f_code
        if f"{os.sep}aspecthook{os.sep}" in code.co_filename and not code.co_flags & inspect.CO_GENERATOR:
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt

    return trace


class Thrice:
    @on
    def sold(self) -> int:
        return 1

    @pre("sold")
    def first(self) -> None: ...

    @on
    def authenticate(self) -> int:
        return 3


@pytest.mark.parametrize("of_class", [True, False])
@pytest.mark.parametrize("act", ["register", "unregister", "disable"])
def test_an_interrupt_leaves_a_plugin_on_or_off_and_what_can_be_done_again(act: str, of_class: bool) -> None:
    """Hooks stayed that nobody could take off, or code that waited for some."""
    cls = fresh_host()
    outcomes: set[tuple[bool, bool]] = set()
    gc.collect()  # what strikes in a finalizer is swallowed too
    for entry in itertools.count(1):
        host: Any = cls()
        plugins = Plugins(cls if of_class else host)
        before, traced = trace_left(cls), sys.gettrace()
        work = partial(plugins.register, Thrice())
        if act != "register":
            work()
            work = partial(getattr(plugins, act), "Thrice")
        struck = False
        sys.settrace(strike_at(entry))
        try:
            work()
        except KeyboardInterrupt:
            struck = True
        finally:
            sys.settrace(traced)
        there = "Thrice" in plugins
        if act == "register":
            assert (host.sold("tea"), host.authenticate("ann")) == (([1], 3) if there else ([], None))
        if act == "disable":
            plugins.disable("Thrice")
            assert host.sold("tea") == []
            plugins.enable("Thrice")
            assert (host.sold("tea"), host.authenticate("ann")) == ([1], 3)
        outcomes.add((struck, there))
        if there:
            plugins.unregister("Thrice")
        assert (host.sold("tea"), host.authenticate("ann")) == ([], None) and trace_left(cls) == before
        if not struck:
            break
    at_once(lambda: Plugins(cls()).register(Thrice()))  # no lock is held
    assert (
        outcomes
        == {
            "register": {(True, False), (False, True)},
            "unregister": {(True, True), (False, False)},
            "disable": {(True, True), (False, True)},
        }[act]
    )


# Async events


class Late:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    @on
    async def closing(self, reason: str) -> str:
        await asyncio.sleep(0)
        return f"{self.answer} {reason}"

    @on
    async def closed(self, reason: str) -> str:
        return f"{self.answer} {reason}"


class Sync:
    @on
    def closing(self) -> str:
        return "sync"

    @on
    def closed(self) -> str:
        return "sync"


def test_plugins_of_async_events_are_awaited_in_order(shop: Any, plugins: Plugins) -> None:
    plugins.register(Late("one"), name="one")
    plugins.register(Sync(), name="sync")
    plugins.register(Late("first"), name="first", before="one")
    for name in ("closing", "closed"):
        answers = asyncio.run(getattr(shop, name)("now"))
        assert answers == ["sync", "first now", "one now"] and plugins.order(name) == ("sync", "first", "one")
        pairs: Any = plugins.answers(name, "now")
        assert not isinstance(pairs, list)
        assert asyncio.run(pairs) == [("sync", "sync"), ("first", "first now"), ("one", "one now")]


def test_gathered_answers_come_in_the_order_of_the_plugins_not_of_their_ends(shop: Any, plugins: Plugins) -> None:
    steps: list[str] = []

    class Slow:
        def __init__(self, name: str, turns: int) -> None:
            self.name, self.turns = name, turns

        @on
        async def closed(self) -> str:
            for _ in range(self.turns):
                await trio.sleep(0)
            steps.append(self.name)
            return self.name

    for name, turns in (("slow", 9), ("quick", 0), ("middle", 4)):
        plugins.register(Slow(name, turns))

    async def main() -> Any:
        return await shop.closed("now"), await plugins.answers("closed", "now")

    plain, pairs = trio.run(main)
    assert plain == ["slow", "quick", "middle"] and pairs == [(name, name) for name in plain]
    assert steps == ["quick", "middle", "slow"] * 2


def test_failures_of_gathered_plugins_are_one_group(shop: Any, plugins: Plugins) -> None:
    class Fails:
        @on
        async def closed(self) -> None:
            raise ValueError("one")

    plugins.register(Fails())
    for act in (shop.closed, partial(plugins.answers, "closed")):
        with pytest.raises(ExceptionGroup) as caught:
            asyncio.run(act("now"))
        assert caught.group_contains(ValueError, match="one")


# Replayed events


def make_replay(**options: Any) -> Any:
    def said(word: str) -> None: ...

    return event(replay=True, **options)(said)


class Hears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @on
    def said(self, word: str) -> str:
        self.heard.append(word)
        return word


def test_a_plugin_is_told_of_the_past_as_it_is_registered() -> None:
    said = make_replay()
    host = module_of(said=said)
    plugins = Plugins(host)
    said("a")
    hears, late = Hears(), Hears()
    with unchanged(host):
        plugin = plugins.register(hears)
        assert plugins.answers("said", "b") == [("Hears", "b")] and hears.heard == ["a", "b"]
        assert [one["word"] for one in said.history] == ["a", "b"]
        disabled = plugins.register(late, name="late", enabled=False)
        said("c")
        assert late.heard == []
        disabled.enable()
        said("d")
        assert late.heard == ["d"] and hears.heard == ["a", "b", "c", "d"]
        plugin.unregister()
        disabled.unregister()
    assert plugins.answers("said", "e") == [] and len(said.history) == 5


def test_a_plugin_that_fails_on_the_past_is_not_registered() -> None:
    said, sold = make_replay(), make_event()
    host = module_of(said=said, sold=sold)
    plugins = Plugins(host)
    said("a")

    class Fails(Seller):
        @on
        def said(self, word: str) -> None:
            assert sold("tea") == ["seller"]
            raise ValueError(word)

        @post("said")
        def never(self) -> None: ...

    with unchanged(host):
        with pytest.raises(ValueError, match="a"):
            plugins.register(Fails())
        assert len(plugins) == 0 and sold("tea") == []


def test_a_plugin_is_told_of_nothing_if_another_hook_of_it_is_wrong() -> None:
    said, sold = make_replay(), make_event()
    host = module_of(said=said, sold=sold)
    said("a")

    class Wrong(Hears):
        @on
        def sold(self, itme: str) -> None: ...

    wrong = Wrong()
    with unchanged(host), pytest.raises(HookSignatureError):
        Plugins(host).register(wrong)
    assert wrong.heard == []


@pytest.mark.parametrize("act", ["unregister", "disable"])
def test_a_plugin_may_be_taken_off_while_it_is_registered(act: str) -> None:
    """Its hooks were put on all the same, and nobody could take them off."""
    said, sold = make_replay(), make_event()
    host = module_of(said=said, sold=sold)
    plugins = Plugins(host)
    said("a")
    heard: list[str] = []

    class Leaves(Seller):
        @on
        def said(self, word: str) -> None:
            heard.append(word)
            getattr(plugins, act)("Leaves")

    plugin = plugins.register(Leaves())
    assert said("b") == [] and sold("tea") == [] and heard == ["a"]
    assert (plugin in plugins) is (act == "disable") and len(plugin.hooks) == (2 if act == "disable" else 0)
    if act == "disable":
        assert not plugin.enabled
        plugin.enable()
        assert sold("tea") == ["seller"] and said("c") == [] and heard == ["a", "c"]


def test_user_code_that_is_told_of_the_past_does_not_run_under_the_lock() -> None:
    said = make_replay()
    host, other = module_of(said=said), Plugins(Shop())
    said("a")
    done: list[str] = []

    class Waits:
        @on
        def said(self, word: str) -> None:
            thread = threading.Thread(target=lambda: done.append(other.register(Seller()).name), daemon=True)
            thread.start()
            thread.join(60)
            assert not thread.is_alive()

    Plugins(host).register(Waits())
    assert done == ["Seller"]
    other.unregister("Seller")  # now: a thread that has ended may keep its frames for a moment


# Plugins that fail


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    @on
    def sold(self) -> None:
        raise self.error


@pytest.mark.parametrize("errors", ["raise", "isolate", "group"])
def test_a_plugin_that_fails_does_what_the_event_says(errors: Any, caplog: pytest.LogCaptureFixture) -> None:
    @event(errors=errors)
    def sold(item: str) -> None: ...

    plugins = Plugins(module_of(sold=sold))
    error = ValueError("broken")
    plugins.register(Failing(error), name="bad")
    plugins.register(Seller("good"), name="good")
    acts: list[tuple[Any, list[Any]]] = [(sold, ["good"]), (partial(plugins.answers, "sold"), [("good", "good")])]
    for act, answers in acts:
        caplog.clear()
        if errors == "isolate":
            assert act("tea") == answers and "on hook 'bad'" in caplog.text
            continue
        with pytest.raises(ExceptionGroup if errors == "group" else ValueError) as caught:
            act("tea")
        raised: BaseException = caught.value
        assert (raised.exceptions[0] if isinstance(raised, ExceptionGroup) else raised) is error
    if errors == "isolate":
        (hook,) = plugins["bad"].hooks
        assert hook.failures == 2


def test_a_mark_may_isolate_one_method(shop: Any, plugins: Plugins, caplog: pytest.LogCaptureFixture) -> None:
    class Careful:
        @on(isolate=True)
        def sold(self) -> None:
            raise ValueError("broken")

    plugins.register(Careful())
    with caplog.at_level(logging.ERROR, logger="aspecthook"):
        assert shop.sold("tea") == []
    assert "Shop.sold of one Shop: on hook 'Careful'" in caplog.text


# Hosts


def test_one_object_may_be_a_plugin_of_two_hosts() -> None:
    mine: Any = Shop()
    yours: Any = Shop()
    sums = Sums()
    one, two = Plugins(mine), Plugins(yours)
    one.register(sums, name="mine")
    two.register(sums, name="yours")
    assert mine.sold("tea", 1.0) == [1.0] and yours.sold("tea", 2.0) == [3.0]
    one.unregister(sums)
    assert mine.sold("tea", 1.0) == [] and yours.sold("tea", 2.0) == [5.0] and two["yours"].object is sums
    assert [pair[0] for pair in two.answers("sold", "tea", 1.0)] == ["yours"]


class Managed:
    """A host that keeps its plugins."""

    def __init__(self) -> None:
        self.plugins = Plugins(self, required="sold")
        self.stock = ["tea"]

    @event
    def sold(self, item: str) -> None: ...


def test_a_host_that_dies_takes_its_plugins_with_it() -> None:
    with unchanged(Managed):
        host: Any = Managed()
        seller = Seller()
        host.plugins.register(seller)
        refs: list[weakref.ref[Any]] = [weakref.ref(one) for one in (host, host.plugins, seller)]
        assert host.sold("tea") == ["seller"]
        del host, seller
        for _ in range(3):  # without the GIL, what one round frees another one finds
            gc.collect()
        assert [ref() for ref in refs] == [None, None, None]


def test_hooks_outlive_the_object_that_knows_the_plugins(shop: Any) -> None:
    Plugins(shop).register(Seller())
    gc.collect()
    assert shop.sold("tea") == ["seller"]


def test_what_knows_the_plugins_keeps_their_host() -> None:
    plugins = Plugins(Shop())
    plugins.register(Seller())
    gc.collect()
    assert plugins.answers("sold", "tea") == [("Seller", "seller")]


def test_a_plugin_that_is_off_is_not_kept(plugins: Plugins) -> None:
    seller = Seller()
    ref = weakref.ref(seller)
    plugins.register(seller)
    plugins.unregister(seller)
    del seller
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize(
    "twin", [copy.deepcopy, lambda host: pickle.loads(pickle.dumps(host))], ids=["deepcopy", "pickle"]
)
def test_a_copy_of_a_host_has_no_plugins_yet(twin: Callable[[Any], Any]) -> None:
    """Its plugins were copied with their hooks, which were on nothing; it could not be pickled at all."""
    host: Any = Managed()
    host.plugins.register(Seller())
    other = twin(host)
    assert other.stock == ["tea"] and other.sold("tea") == [] and host.sold("tea") == ["seller"]
    assert type(other.plugins) is Plugins and len(other.plugins) == 0 and len(host.plugins) == 1
    other.plugins.register(Seller("other"))
    assert other.sold("tea") == ["other"] and host.sold("tea") == ["seller"]
    with pytest.raises(PluginError, match="has no @on for 'sold'"):
        other.plugins.register(marked_by(pre, "sold", lambda self: None)())
    again: Any = twin(host.plugins)
    assert len(again) == 0 and again.order("sold") == ()


def test_a_host_is_pickled_and_copied_as_without_plugins(shop: Any, plugins: Plugins) -> None:
    before, state = pickle.dumps(shop), dict(vars(shop))
    plugins.register(Seller())
    assert pickle.dumps(shop) == before and vars(shop) == state
    for other in (copy.copy(shop), copy.deepcopy(shop), pickle.loads(before)):
        assert other.sold("tea") == [] and other.name == "corner"


# Entry points

GROUP = "aspecthook.tests.plugins"

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put real distributions on the path, whose modules begin with `plugged_`."""

    def install(name: str, points: Mapping[str, str], modules: Mapping[str, str], *, group: str = GROUP) -> None:
        folder = tmp_path / name
        info = folder / f"{name}-1.2.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        lines = [f"{key} = {value}" for key, value in points.items()]
        info.joinpath("entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
        for module, source in modules.items():
            folder.joinpath(f"{module}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(folder))

    yield install
    monkeypatch.undo()
    for module in [one for one in sys.modules if one.startswith("plugged_")]:
        del sys.modules[module]


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


def test_entry_points_may_name_a_class_a_maker_an_object_or_a_module(
    shop: Any, plugins: Plugins, install: Install
) -> None:
    """A function that makes a plugin was registered itself, and refused."""
    values = {"c": ":Loyalty", "d": ":make", "b": ":ready", "a": ""}
    install("loyal", {key: f"plugged_a{value}" for key, value in values.items()}, {"plugged_a": LOYALTY})
    done = plugins.load_entry_points(GROUP)
    assert [one.name for one in done] == ["a", "b", "c", "d"] == [one.name for one in plugins]
    assert shop.sold("tea") == ["module tea", "3 points", "1 points", "2 points"]
    assert plugins.answers("sold", "tea")[0] == ("a", "module tea")


def test_entry_points_are_registered_in_the_order_of_their_names_wherever_they_are(
    shop: Any, plugins: Plugins, install: Install
) -> None:
    """They were registered in the order of folders on a disk."""
    for name in ("zoe", "amy", "mia"):
        install(name, {f"by-{name}": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    plugins.load_entry_points(GROUP)
    assert plugins.order("sold") == ("by-amy", "by-mia", "by-zoe")


def test_loading_entry_points_again_changes_nothing(shop: Any, plugins: Plugins, install: Install) -> None:
    install("loyal", {"loyalty": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    plugins.register(Seller(), name="other")
    (plugin,) = plugins.load_entry_points(GROUP)
    code = Shop.sold.__code__
    assert plugins.load_entry_points(GROUP) == [] and plugins["loyalty"] is plugin and Shop.sold.__code__ is code
    assert sys.modules["plugged_a"].Loyalty.made == 2
    plugin.disable()
    assert plugins.load_entry_points(GROUP) == [] and not plugin.enabled
    plugin.unregister()
    (again,) = plugins.load_entry_points(GROUP)
    assert again is not plugin and shop.sold("tea") == ["seller", "1 points"]


def test_what_is_registered_by_that_name_is_left_and_the_entry_point_is_not_imported(
    shop: Any, plugins: Plugins, install: Install
) -> None:
    install("loyal", {"loyalty": "plugged_a:Loyalty", "fraud": "plugged_b:Fraud"}, {"plugged_b": "1 / 0"})
    plugins.register(Seller(), name="loyalty")
    assert plugins.load_entry_points(GROUP, exclude="fraud") == []
    assert plugins.load_entry_points(GROUP, exclude=iter(["fraud"])) == []
    assert shop.sold("tea") == ["seller"] and not {"plugged_a", "plugged_b"} & set(sys.modules)
    assert plugins.load_entry_points(f"{GROUP}.more") == []


BROKEN = {
    "missing": ("plugged_none:A", {}, ModuleNotFoundError),
    "raises": ("plugged_b:A", {"plugged_b": "1 / 0"}, ZeroDivisionError),
    "syntax": ("plugged_b:A", {"plugged_b": "def"}, SyntaxError),
    "attribute": ("plugged_b:A", {"plugged_b": "B = 1"}, AttributeError),
    "constructor": ("plugged_b:A", {"plugged_b": "class A:\n    def __init__(self): 1 / 0"}, ZeroDivisionError),
    "arguments": ("plugged_a:needy", {}, TypeError),
    "malformed": ("!", {}, Exception),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_entry_point_is_named_and_none_is_registered(plugins: Plugins, install: Install, case: str) -> None:
    """Those before it stayed."""
    value, modules, cause = BROKEN[case]
    install("good", {"a": "plugged_a:Loyalty", "z": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    install("wreck", {"broken": value}, modules)
    with unchanged(), pytest.raises(PluginError) as caught:
        plugins.load_entry_points(GROUP)
    text = str(caught.value)
    assert text.startswith(f"Shop: entry point broken = {value} of wreck 1.2 fails with ")
    assert text.endswith("; mend or uninstall it, or leave it out with exclude='broken'")
    assert isinstance(caught.value.__cause__, cause) and len(plugins) == 0
    assert [one.name for one in plugins.load_entry_points(GROUP, exclude=["broken"])] == ["a", "z"]


def test_an_entry_point_that_does_not_fit_is_named_and_none_is_registered(plugins: Plugins, install: Install) -> None:
    install("good", {"a": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    install("wreck", {"b": "plugged_b:A", "c": "plugged_a:sold"}, {"plugged_b": "class A: ..."})
    for exclude, name, value in (("", "b", "plugged_b:A"), ("b", "c", "plugged_a:sold")):
        with unchanged(), pytest.raises(PluginError) as caught:
            plugins.load_entry_points(GROUP, exclude=exclude)
        assert f"Shop: plugin {name!r} has no marked methods" in str(caught.value)
        assert caught.value.__notes__ == [f"Shop: while registering entry point {name} = {value} of wreck 1.2"]
        assert len(plugins) == 0


def test_one_name_of_two_distributions_is_refused(plugins: Plugins, install: Install) -> None:
    """Which of them was registered was luck."""
    for name in ("one", "two"):
        install(name, {"loyalty": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    assert message(PluginError, lambda: plugins.load_entry_points(GROUP)) == (
        "Shop: 2 entry points have one name: entry point loyalty = plugged_a:Loyalty of one 1.2; entry point loyalty = "
        "plugged_a:Loyalty of two 1.2; uninstall all but one, or leave them out with exclude='loyalty' and register "
        "one yourself"
    )
    assert "plugged_a" not in sys.modules and len(plugins) == 0
    assert plugins.load_entry_points(GROUP, exclude="loyalty") == []
    plugins.register(Seller(), name="loyalty")
    assert plugins.load_entry_points(GROUP) == []


def test_a_group_is_a_name(plugins: Plugins) -> None:
    for group in ("", None, 5):
        load: Any = partial(plugins.load_entry_points, group)  # type: ignore[arg-type]
        text = message(HookTypeError, load)
        assert text == f"Shop: entry points are asked for by the group {group!r}; give a string that is not empty"


# Configs


class Discount:
    def __init__(self, percent: float = 10) -> None:
        self.percent = percent

    @on
    def quote(self, price: float) -> float:
        return price * (100 - self.percent) / 100


class Nothing: ...


@pytest.fixture
def registry() -> Registry:
    made = Registry("shop plugins", imports=True)
    made.register(Discount)
    made.register(Seller, name="seller")
    made.register(Nothing)
    return made


CONFIG = """
    title = "shop"

    [[plugins]]
    type = "Discount"
    name = "sale"
    percent = 50

    [[plugins]]
    type = "Discount"
    name = "staff"
    priority = "HIGH"
    before = ["sale"]
    enabled = false

    [[plugins]]
    type = "tests.plugins.test_plugins:Seller"
    answer = "path"
    after = "plugged_config"

    [[plugins]]
    type = "plugged_config:"

    [more.extra.seller]
    answer = "table"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "shop.toml"
    path.write_text(textwrap.dedent(text))
    return path


@pytest.fixture
def _config_module(install: Install) -> None:
    install("config", {}, {"plugged_config": LOYALTY})


@pytest.mark.usefixtures("_config_module")
def test_a_file_says_which_plugins_there_are(shop: Any, plugins: Plugins, registry: Registry, tmp_path: Path) -> None:
    path = written(tmp_path, CONFIG)
    for where in (path, str(path)):
        done = plugins.load_toml(where, registry=registry)
        assert [one.name for one in done] == ["sale", "staff", "Seller", "plugged_config"]
        assert plugins.order("quote") == ("sale",) and shop.quote("tea", 8) == 4
        plugins.enable("staff")
        assert plugins.order("quote") == ("staff", "sale") and shop.quote("tea", 8) == 8 * 0.9 * 0.5
        assert shop.sold("tea") == ["module tea", "path"]
        assert done[3].object is sys.modules["plugged_config"]
        for one in done:
            one.unregister()
    (other,) = plugins.load_toml(path, table="more.extra", registry=registry)
    assert other.name == "Seller" and shop.sold("tea") == ["table"]


def test_a_table_that_says_its_type_is_called_as_it_is_unless_it_gives_a_name(
    plugins: Plugins, registry: Registry, tmp_path: Path
) -> None:
    """Two of one type had one name."""
    text = """
        [on.now.sale]
        type = "Discount"

        [on.now.staff]
        type = "Discount"
        percent = 50
        after = "sale"

        [on.now.third]
        type = "seller"
        name = "dealer"

        [on.now.Discount]
    """
    done = plugins.load_toml(written(tmp_path, text), table="on.now", registry=registry)
    assert [one.name for one in done] == ["sale", "staff", "dealer", "Discount"]
    assert plugins.order("quote") == ("sale", "staff", "Discount") and done[1].object.percent == 50  # type: ignore[attr-defined]


def test_a_list_says_which_plugins_there_are(shop: Any, plugins: Plugins, registry: Registry) -> None:
    config: Any = {"type": "Discount", "percent": 50, "name": "half", "before": None, "after": None, "priority": None}
    kept = dict(config)
    done = plugins.load_config(iter([config, "seller", {"type": Seller, "name": "own", "answer": "own"}]), registry)
    assert config == kept and [one.name for one in done] == ["half", "Seller", "own"]
    assert shop.quote("tea", 8) == 4 and shop.sold("tea") == ["seller", "own"]
    assert plugins.load_config([]) == []


def test_a_registered_name_goes_before_a_module_of_that_name(shop: Any, plugins: Plugins) -> None:
    registry = Registry("shop plugins")
    registry.register(Seller, name="json")
    (plugin,) = plugins.load_config(["json"], registry)
    assert type(plugin.object) is Seller


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "misspelt": (
        "Discuont",
        ConfigError,
        "plugins of Shop, entry 2: 'Discuont' is not registered; what is: 'Discount', 'seller', 'Nothing'; did you "
        "mean 'Discount'?",
    ),
    "misspelt option": (
        {"type": "Discount", "precent": 5},
        ConfigError,
        "plugins of Shop, entry 2: the type 'Discount' takes no 'precent'; what it takes: 'percent'; did you mean "
        "'percent'?",
    ),
    "no type": (
        {"percent": 5},
        ConfigError,
        "plugins of Shop, entry 2: the config has no 'type'; what it has: 'percent'; say what to build",
    ),
    "no mapping": (
        5,
        ConfigError,
        "plugins of Shop, entry 2: an int is no config; give a mapping with a 'type', or a name alone",
    ),
    "an object": (Seller, ConfigError, "is no config; give a mapping with a 'type', or a name alone"),
    "keys that are none": ({5: 6, "type": "Discount"}, ConfigError, "the config has the key 5"),
    "no module": (
        "tests.plugins.test_plugin:Seller",
        ConfigError,
        "plugins of Shop, entry 2: there is no module 'tests.plugins.test_plugin' for the type "
        "'tests.plugins.test_plugin:Seller'; did you mean 'tests.plugins.test_plugins'?",
    ),
    "no attribute": (
        "tests.plugins.test_plugins:Saller",
        ConfigError,
        "has no 'Saller' for the type 'tests.plugins.test_plugins:Saller'; did you mean 'Seller'?",
    ),
    "a module with options": (
        {"type": "json:", "indent": 2},
        ConfigError,
        "plugins of Shop, entry 2: 'json:' is a module, which takes no 'indent'; take it out, or write 'json:Class'",
    ),
    "a module that is no plugin": ("json:", PluginError, "Shop: plugin 'json' has no marked methods"),
    "no path": ("not a path", ConfigError, "plugins of Shop, entry 2: 'not a path' is not registered"),
    "relative": (".relative", ConfigError, "plugins of Shop, entry 2: '.relative' is not registered"),
    "empty": ("", ConfigError, "plugins of Shop, entry 2: '' is not registered"),
    "what does not fit": ("Nothing", PluginError, "Shop: plugin 'Nothing' has no marked methods"),
    "enabled": (
        {"type": "seller", "enabled": 1},
        PluginError,
        "Shop: plugin 'Seller' has enabled=1; give True or False",
    ),
    "name": ({"type": "seller", "name": 5}, PluginError, "Shop: a plugin has the name 5; give a string"),
    "name that is taken": (
        {"type": "seller", "name": "Discount"},
        PluginError,
        "Shop: plugin 'Discount' has a name that <tests.plugins.test_plugins.Discount object> has",
    ),
    "priority": ({"type": "seller", "priority": "HIHG"}, HookOptionError, "did you mean 'HIGH'?"),
    "before": ({"type": "seller", "before": 5}, PluginError, "Shop: plugin 'Seller' has before=5"),
    "order": (
        {"type": "seller", "name": "two", "before": "good", "after": "good"},
        HookOrderError,
        "these hooks cannot be ordered",
    ),
    "constructor": (
        {"type": "fractions:Fraction", "numerator": 1, "denominator": 0},
        ZeroDivisionError,
        "Fraction(1, 0)",
    ),
}


def said(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


@pytest.mark.parametrize("case", WRONG)
def test_one_wrong_entry_leaves_nothing_of_the_others(plugins: Plugins, registry: Registry, case: str) -> None:
    config, error, says = WRONG[case]
    others: list[Any] = [{"type": "Discount"}, {"type": "seller", "name": "good"}]
    place = 2 if case == "order" else 1
    with unchanged(), pytest.raises(error) as caught:
        plugins.load_config([*others[:place], config, *others[place:]], registry)
    assert len(plugins) == 0
    assert says in said(caught.value) and f"plugins of Shop, entry {place + 1}: " in said(caught.value)


@pytest.mark.parametrize("case", [case for case, row in WRONG.items() if case != "keys that are none"])
def test_one_wrong_entry_of_a_file_leaves_nothing_of_the_others(
    plugins: Plugins, registry: Registry, tmp_path: Path, case: str
) -> None:
    config, error, says = WRONG[case]
    entry = {"type": config} if isinstance(config, str) else config if isinstance(config, dict) else {}
    if not isinstance(config, (str, dict)):
        error, says = ConfigError, "the config has no 'type'"
    entries = [{"type": "Discount"}, {"type": "seller", "name": "good"}, entry]
    lines = [f"{key} = {json.dumps(value)}" if key else "[[plugins]]" for one in entries for key, value in rows_of(one)]
    path = written(tmp_path, "\n".join(lines))
    with unchanged(), pytest.raises(error) as caught:
        plugins.load_toml(path, registry=registry)
    assert len(plugins) == 0
    where = f"plugins of Shop, {path}, entry 3 of 'plugins'"
    assert where in said(caught.value)
    assert says.replace("plugins of Shop, entry 2", where) in said(caught.value)


def rows_of(entry: dict[str, Any]) -> list[tuple[str, Any]]:
    """Give the lines of a table: its head, and what is in it."""
    return [("", None), *entry.items()]


def test_a_list_is_no_mapping_and_no_text(plugins: Plugins) -> None:
    """A mapping was read key by key, a text letter by letter."""
    wrong: list[Any] = [{"type": "seller"}, "seller", b"seller", 5, None, Seller]
    for config in wrong:
        text = message(ConfigError, partial(plugins.load_config, config))
        assert text.startswith(f"plugins of Shop: {described(config)} is no list of configs; give a list, with one")


def test_a_config_of_plugins_imports_nothing_that_no_registry_allows(plugins: Plugins, install: Install) -> None:
    """A bare name was imported, and so was what a path named, though a registry was given."""
    install("own", {}, {"plugged_own": LOYALTY, "plugged_other": "print('imported')"})
    plain, own = Registry("shop plugins"), Registry("shop plugins", imports="plugged_own")
    for kind in ("plugged_other", "plugged_other:", "plugged_other:A"):
        for registry in (None, plain, own):
            assert "; " in message(ConfigError, partial(plugins.load_config, [kind], registry))
    assert not {"plugged_other", "plugged_own"} & set(sys.modules)
    assert "imports" in message(ConfigError, partial(plugins.load_config, ["plugged_own:Loyalty"], plain))
    done = plugins.load_config(["plugged_own:Loyalty", "plugged_own:"], own)
    assert [one.name for one in done] == ["Loyalty", "plugged_own"]
    assert plugins.load_config([{"type": Seller}])[0].name == "Seller"  # what no text can say needs no registry
    assert message(ConfigError, lambda: plugins.load_config(["Discount"])) == (
        "plugins of Shop, entry 1: the type 'Discount' names something, and no registry says what it may be; give "
        "registry="
    )


def test_what_a_module_raises_as_it_is_imported_is_let_through_with_a_note(plugins: Plugins, install: Install) -> None:
    registry = Registry("shop plugins", imports=True)
    install("wreck", {}, {"plugged_a": "1 / 0", "plugged_b": "import plugged_none"})
    with pytest.raises(ZeroDivisionError) as caught:
        plugins.load_config(["plugged_a:"], registry)
    assert caught.value.__notes__ == ["plugins of Shop, entry 1: while importing 'plugged_a:'"]
    with pytest.raises(ModuleNotFoundError, match="plugged_none") as missing:
        plugins.load_config(["plugged_b:"], registry)
    assert missing.value.__notes__ == ["plugins of Shop, entry 1: while importing 'plugged_b:'"]


@pytest.mark.parametrize(
    ("text", "table", "says"),
    [
        ("[[plugins]", "plugins", "is no TOML"),
        ("x = 1", "plugins", "there is no table 'plugins'"),
        ("[[plugin]]", "plugins", "what there is: 'plugin'; did you mean 'plugin'?"),
        ("plugins = 5", "plugins", "'plugins' is no table; write [[plugins]]"),
        ("[plugins]\ntype = 'seller'", "plugins", "'plugins.type' is no table; write [[plugins]]"),
        ("plugins = [5]", "plugins", "entry 1 of 'plugins': an int is no config"),
        ("[[plugins]]", "", "the table is ''; give a string"),
    ],
)
def test_a_file_that_is_wrong_is_named(
    plugins: Plugins, registry: Registry, tmp_path: Path, text: str, table: str, says: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises((ConfigError, HookTypeError)) as caught:
        plugins.load_toml(path, table, registry)
    assert says in str(caught.value) and str(path) in str(caught.value) and len(plugins) == 0


def test_a_file_that_is_not_there_is_what_python_says(plugins: Plugins, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        plugins.load_toml(tmp_path / "none.toml")


# What it costs


def test_importing_aspecthook_does_not_load_plugins() -> None:
    root = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {root!r}); import aspecthook; print(*sys.modules)"
    command = [sys.executable, "-I", "-c", program]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "aspecthook" in loaded and loaded.isdisjoint({"aspecthook.plugins", "tomllib"})
