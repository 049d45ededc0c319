"""The order of plugins."""

from __future__ import annotations

from typing import Any

from aspecthook import HookOrderError, on
from aspecthook.plugins import Plugins
from tests.plugins.shop import Seller, message, unchanged


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
