"""What a plugin is, and what it is refused for: then nothing of it is left."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import (
    Args,
    AspecthookError,
    HookLookupError,
    HookOptionError,
    HookOrderError,
    HookSignatureError,
    HookTypeError,
    PluginError,
    Return,
    always,
    around,
    exception,
    hookable,
    hooks,
    item,
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
    Sums,
    Third,
    make_event,
    marked_by,
    message,
    module_of,
    plugin_module,
    unchanged,
)


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


def test_object_equal_to_everything_is_not_taken_for_a_plugin(plugins: Plugins) -> None:
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


def test_a_module_is_a_plugin_by_what_it_defines_itself(shop: Any, plugins: Plugins) -> None:
    other = plugin_module("plugged_other")
    one = plugin_module("plugged_one", imported=other.sold, quote=make_event, Seller=Seller)
    plugins.register(one)
    assert shop.sold("tea") == ["plugged_one tea"]
    assert plugins["plugged_one"].object is one
    text = message(PluginError, lambda: plugins.register(module_of(sold=other.sold)))
    assert text.startswith("Shop: plugin 'shop_events' has no marked methods; write @on above its methods for ")


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


class Marked(Seller):
    @on("sold")
    def book(self) -> str:
        return "base"


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
        f"events: {EVENTS}; names that begin with an underscore are private",
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
        "tests.plugins.shop:Shop.sold: on hook 'Wrong' (HERE) asks for 'itme', but "
        "tests.plugins.shop:Shop.sold offers self, item, price; an on hook may also ask for call, args, kwargs; "
        "did you mean 'item'?",
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
        "Shop: plugin 'Wrong': on hook 'sold' (HERE) has name=; all hooks of a plugin have the plugin's name, so "
        "remove it",
    ),
    "not marked": (
        type("Wrong", (), {"sold": lambda self: None}),
        PluginError,
        "Shop: plugin 'Wrong' has 'sold', which is not marked; write @on above it, or rename it",
    ),
    "not marked, but another is for that event": (
        type("Wrong", (Seller,), {"sold": lambda self: None, "book": post("sold")(lambda self: None)}),
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
        type("Wrong", (Marked,), {"book": lambda self: "derived"}),
        PluginError,
        "Shop: plugin 'Wrong' has 'book', which overrides a marked method of Marked and is not marked; "
        "mark it too, or set book = None",
    ),
    "not marked and static": (
        type("Wrong", (), {"sold": staticmethod(lambda: None)}),
        PluginError,
        "Shop: plugin 'Wrong' has 'sold', which is not marked; write @on above it, or rename it",
    ),
    "not marked, in the object": (
        lambda: SimpleNamespace(sold=lambda: None),
        PluginError,
        "Shop: plugin 'SimpleNamespace' has 'sold', which is not marked; write @on above it, or rename it",
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
    ({"enabled": "no"}, PluginError, "Shop: plugin 'Seller' has enabled='no'; give True or False"),
    ({"before": "Seller"}, HookOrderError, "these hooks cannot be ordered: 'Seller' before 'Seller'"),
]


@pytest.mark.parametrize(("options", "error", "says"), GIVEN)
def test_arguments_of_register_are_checked(
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
            "Shop: plugin 'one' has a name that <tests.plugins.shop.Seller object> has; give another by name=, or "
            "unregister that"
        )
    assert [one.name for one in plugins] == ["one"]
    plugins.unregister("one")
    plugins.register(seller, "two")


def test_a_plugin_that_comes_too_late_takes_nothing_from_the_one_that_was_faster(shop: Any, plugins: Plugins) -> None:
    class Twice(Seller):
        @property
        def priority(self) -> None:
            if "twice" not in plugins:
                plugins.register(self, name="twice", priority=0)

    text = message(PluginError, lambda: plugins.register(Twice(), name="twice"))
    assert text == "Shop: plugin 'twice' is registered already, as 'twice'; unregister it first"
    assert shop.sold("tea") == ["seller"] and list(plugins["twice"].implements) == ["sold"]


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
    third = Third()
    hooks(shop.sold).on(third.sold, name="Third")  # by hand
    with pytest.raises(HookSignatureError):
        plugins.register(third)
    assert shop.sold("tea") == ["acted"]


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
