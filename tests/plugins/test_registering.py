"""What a plugin is, and what it is refused for: then nothing of it is left."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from aspecthook import (
    AspecthookError,
    HookOptionError,
    HookOrderError,
    HookSignatureError,
    HookTypeError,
    PluginError,
    on,
    post,
    pre,
)
from aspecthook.plugins import Plugins
from tests.plugins.shop import (
    EVENTS,
    Kiosk,
    Seller,
    Shop,
    Third,
    make_event,
    marked_by,
    message,
    module_of,
    plugin_module,
    unchanged,
)


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


def test_a_module_is_a_plugin_by_what_it_defines_itself(shop: Any, plugins: Plugins) -> None:
    other = plugin_module("plugged_other")
    below, beside = plugin_module("plugged_one.below"), plugin_module("plugged_one_more")
    several = {"below": below.sold, "beside": beside.sold}
    one = plugin_module("plugged_one", imported=other.sold, quote=make_event, Seller=Seller, **several)
    plugins.register(one)
    assert shop.sold("tea") == ["plugged_one tea", "plugged_one.below tea"]
    assert plugins["plugged_one"].object is one
    text = message(PluginError, lambda: plugins.register(module_of(sold=other.sold)))
    assert text.startswith("Shop: plugin 'shop_events' has no marked methods; write @on above its methods for ")


# Refused


class Marked(Seller):
    @on("sold")
    def book(self) -> str:
        return "base"


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "misspelt": (
        marked_by(on, "slod", lambda self: None),
        PluginError,
        f"Shop: plugin 'Wrong': on hook 'slod' (HERE) is for 'slod', but Shop has no event of that name; its events: "
        f"{EVENTS}; did you mean 'sold'?",
    ),
    "private": (
        marked_by(on, "_private", lambda self: None),
        PluginError,
        f"Shop: plugin 'Wrong': on hook '_private' (HERE) is for '_private', but Shop has no event of that name; its "
        f"events: {EVENTS}; names that begin with an underscore are private",
    ),
    "pointcut": (
        marked_by(on, "book", lambda self: None, "shop:*.sold"),
        PluginError,
        f"Shop: plugin 'Wrong': on hook 'book' (HERE) is for 'shop:*.sold', but Shop has no event of that name; its "
        f"events: {EVENTS}; did you mean 'sold'?; weave(plugin) is for pointcuts",
    ),
    "subscriber of what is not an event": (
        marked_by(on, "restock", lambda self: None),
        HookTypeError,
        "Shop.restock is not an event; use pre or post",
    ),
    "priority of the object": (
        type("Wrong", (Seller,), {"priority": "urgent"}),
        HookOptionError,
        "Shop: plugin 'Wrong': on hook 'sold' (HERE) has the priority 'urgent', which does not exist; the names are",
    ),
    "name in the mark": (
        marked_by(on, "sold", lambda self: None, name="mine"),
        PluginError,
        "Shop: plugin 'Wrong': on hook 'sold' (HERE) has name=; all hooks of a plugin have the plugin's name, so "
        "remove it",
    ),
    "not marked": (
        type("Wrong", (), {"sold": lambda self: None}),
        PluginError,
        "Shop: plugin 'Wrong' has 'sold', which is not marked; write @on above it, or rename it",
    ),
    "not marked, as the override of a method for that event": (
        type("Wrong", (Marked,), {"sold": lambda self: "derived"}),
        PluginError,
        "Shop: plugin 'Wrong' has 'sold', which is not marked; write @on above it, or rename it",
    ),
    # It was left out without a word.
    "not marked, as the override of a method with a name of its own": (
        type("Wrong", (type("Middle", (Marked,), {}),), {"book": lambda self: "derived"}),
        PluginError,
        "Shop: plugin 'Wrong' has 'book', which overrides a marked method of Marked and is not marked; "
        "mark it too, or set book = None",
    ),
    "no marks": (
        object,
        PluginError,
        f"Shop: plugin 'object' has no marked methods; write @on above its methods for {EVENTS}",
    ),
    "function": (
        lambda: Seller.sold,
        PluginError,
        f"Shop: plugin 'function' has no marked methods; write @on above its methods for {EVENTS}; a plugin is an "
        "object or a module",
    ),
    "class": (
        lambda: Seller,
        PluginError,
        "Shop: Seller is a class; register an object of it, as in register(Seller())",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plugin_that_does_not_fit_is_refused_and_nothing_is_left_of_it(plugins: Plugins, case: str) -> None:
    make, error, says = REFUSED[case]
    plugin = make()
    with unchanged():
        text = message(error, lambda: plugins.register(plugin))
        assert len(plugins) == 0 and plugin not in plugins
    shown = re.sub(r"\([^()]*(?:shop|test_registering)\.py:\d+\)", "(HERE)", text)
    assert shown == says if error is PluginError else says in shown, shown  # the messages of other rooms in part
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
    ({"before": "Seller"}, HookOrderError, "these hooks cannot be ordered: 'Seller' before 'Seller'"),
]


@pytest.mark.parametrize(("options", "error", "says"), GIVEN)
def test_arguments_of_register_are_checked(
    plugins: Plugins, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    """`before=5` was a TypeError of Python's."""
    with unchanged():
        assert says in message(error, lambda: plugins.register(Seller(), **options))
        assert len(plugins) == 0
    assert plugins.register(Seller(), before=None, after=None, priority=None).name == "Seller"


def test_a_name_or_an_object_can_be_registered_once(plugins: Plugins) -> None:
    seller = Seller()
    plugins.register(seller, "one", enabled=False)
    with unchanged():
        assert message(PluginError, lambda: plugins.register(seller, "two")) == (
            "Shop: plugin 'two' is registered already, as 'one'; unregister it first"
        )
        assert message(PluginError, lambda: plugins.register(Seller(), "one")) == (
            "Shop: plugin 'one' has a name that <tests.plugins.shop.Seller object> has; give another by name=, or "
            "unregister that"
        )
    assert [one.name for one in plugins] == ["one"]
    plugins.unregister("one")
    plugins.register(seller, "two")


@pytest.mark.parametrize("spec", [Shop, Kiosk, "instance"])
def test_all_hooks_are_put_on_or_none(spec: Any) -> None:
    host: Any = Shop() if spec == "instance" else spec
    with unchanged():
        plugins = Plugins(host)
        assert "did you mean 'user'?" in message(HookSignatureError, lambda: plugins.register(Third()))
        assert list(plugins) == []
    # Nothing keeps the name either.
    plugins.register(Seller(), name="Third").unregister()


def test_a_plugin_must_subscribe_to_what_is_required(shop: Any) -> None:
    """Any hook was enough, and the nearest name was looked for where it could not be."""
    plugins = Plugins(shop, required=["sold", "restock"])

    class Wrong:
        @post
        def sold(self) -> None: ...

        @pre
        def restock(self) -> None: ...

        def solt(self) -> None: ...

    assert message(PluginError, lambda: copy.copy(plugins).register(Seller())).startswith(
        "Shop: plugin 'Seller' has no "
    )
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
