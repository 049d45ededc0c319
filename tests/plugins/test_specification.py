"""Hosts: what has events is one, and what the plugins of an instance, a class and a subclass act for."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MethodType, SimpleNamespace
from typing import Any

import pytest

from aspecthook import Args, PluginError, event, hooks, item, post, pre
from aspecthook.plugins import Plugins
from tests.plugins.shop import (
    EVENTS,
    Kiosk,
    Seller,
    Shop,
    Stall,
    make_event,
    message,
    module_of,
    unchanged,
)


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
def test_class_with_events_is_a_specification(kind: str) -> None:
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
        assert Plugins(type("SmallKiosk", (Kiosk,), {})).order("sold") == ("kiosk", "all")
        assert of_stall.order("sold") == ("stall", "all") and of_all.order("sold") == ("all",)
        assert of_kiosk.answers("sold", kiosk, "tea") == [("kiosk", "kiosk"), ("all", "all")]
        for one in (*of_kiosk, *of_stall, *of_all):
            one.unregister()


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


NONE = "has no events, so plugins could do nothing; add @event stubs"

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Plugins(5), f"int {NONE}"),
    (lambda: Plugins(object), f"object {NONE}"),
    (lambda: Plugins(sys), f"sys {NONE}"),
    (lambda: Plugins(Seller()), f"Seller {NONE}"),
    (
        lambda: Plugins(Shop, required="slod"),
        f"Shop requires 'slod', but has no event of that name; its events: {EVENTS}; did you mean 'sold'?",
    ),
    (lambda: Plugins(Shop()).order("slod"), f"Shop has no event 'slod'; its events: {EVENTS}; did you mean 'sold'?"),
    (lambda: Plugins(Shop()).answers("sodl"), f"Shop has no event 'sodl'; its events: {EVENTS}; did you mean 'sold'?"),
    # The whole module was refused for a partial of an event.
    (
        lambda: Plugins(module_of(sold=(sold := make_event()), sold_tea=partial(sold, "tea"), number=5)).order(
            "sold_tea"
        ),
        "shop_events has no event 'sold_tea'; its events: sold; did you mean 'sold'?",
    ),
]


@pytest.mark.parametrize(("act", "says"), REFUSED)
def test_a_host_without_the_event_is_refused(act: Callable[[], object], says: str) -> None:
    assert message(PluginError, act) == says


# Hosts


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


class Managed:
    """A host that keeps its plugins."""

    def __init__(self) -> None:
        self.plugins = Plugins(self, required="sold")
        self.stock = ["tea"]

    @event
    def sold(self, item: str) -> None: ...


def test_hookable_method_of_a_specification_can_be_hooked_by_plugins(shop: Any, plugins: Plugins) -> None:
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
