"""Plugins from entry points."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from aspecthook import HookSignatureError, HookTypeError, PluginError
from aspecthook.plugins import Plugins
from tests.plugins.shop import BROKEN, GROUP, LOYALTY, Install, Seller, message, unchanged


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


def test_registered_plugin_is_kept_and_an_entry_point_of_its_name_not_imported(
    shop: Any, plugins: Plugins, install: Install
) -> None:
    install("loyal", {"loyalty": "plugged_a:Loyalty", "fraud": "plugged_b:Fraud"}, {"plugged_b": "1 / 0"})
    plugins.register(Seller(), name="loyalty")
    assert plugins.load_entry_points(GROUP, exclude="fraud") == []
    assert plugins.load_entry_points(GROUP, exclude=iter(["fraud"])) == []
    assert shop.sold("tea") == ["seller"] and not {"plugged_a", "plugged_b"} & set(sys.modules)
    assert plugins.load_entry_points(f"{GROUP}.more") == []


UNBUILT: dict[str, tuple[str, dict[str, str], type[Exception]]] = {
    "constructor": ("plugged_b:A", {"plugged_b": "class A:\n    def __init__(self): 1 / 0"}, ZeroDivisionError),
    "arguments": ("plugged_a:needy", {}, TypeError),
}


@pytest.mark.parametrize("case", BROKEN | UNBUILT)
def test_a_broken_entry_point_is_named_and_none_is_registered(plugins: Plugins, install: Install, case: str) -> None:
    """Those before it stayed."""
    value, modules, cause = (BROKEN | UNBUILT)[case]
    install("good", {"a": "plugged_a:Loyalty", "z": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    install("wreck", {"broken": value}, modules)
    with unchanged(), pytest.raises(PluginError) as caught:
        plugins.load_entry_points(GROUP)
    text = str(caught.value)
    assert text.startswith(f"Shop: entry point broken = {value} of wreck 1.2 fails with ")
    assert text.endswith("; fix or uninstall it, or leave it out with exclude='broken'")
    assert isinstance(caught.value.__cause__, cause) and len(plugins) == 0
    assert [one.name for one in plugins.load_entry_points(GROUP, exclude=["broken"])] == ["a", "z"]


def test_a_malformed_entry_point_is_named_and_nothing_is_registered(plugins: Plugins, install: Install) -> None:
    install("good", {"a": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    install("wreck", {"broken": "!"}, {})
    said = r"entry point broken = ! of wreck 1\.2 fails with "
    if sys.version_info >= (3, 15):  # Python reads none if one is malformed
        said = (
            "Python cannot read the entry points that are installed, since one of them is malformed: .*'!'.*; fix or "
            "uninstall its distribution"
        )
    with unchanged(), pytest.raises(PluginError, match=f"^Shop: .*{said}"):
        plugins.load_entry_points(GROUP)


def test_one_name_of_two_distributions_is_refused(plugins: Plugins, install: Install) -> None:
    """Which of them was registered was luck."""
    for name in ("one", "two"):
        install(name, {"loyalty": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    assert message(PluginError, lambda: plugins.load_entry_points(GROUP)) == (
        "Shop: 2 entry points have the same name: entry point loyalty = plugged_a:Loyalty of one 1.2; entry "
        "point loyalty = plugged_a:Loyalty of two 1.2; uninstall all but one, or leave them out with "
        "exclude='loyalty' and register one yourself"
    )
    assert "plugged_a" not in sys.modules and len(plugins) == 0
    assert plugins.load_entry_points(GROUP, exclude="loyalty") == []
    plugins.register(Seller(), name="loyalty")
    assert plugins.load_entry_points(GROUP) == []


def test_an_entry_point_that_does_not_fit_is_named_and_none_is_registered(plugins: Plugins, install: Install) -> None:
    install("good", {"a": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    install("wreck", {"b": "plugged_b:A", "c": "plugged_a:sold"}, {"plugged_b": "class A: ..."})
    for exclude, name, value in (("", "b", "plugged_b:A"), ("b", "c", "plugged_a:sold")):
        with unchanged(), pytest.raises(PluginError) as caught:
            plugins.load_entry_points(GROUP, exclude=exclude)
        assert f"Shop: plugin {name!r} has no marked methods" in str(caught.value)
        assert caught.value.__notes__ == [f"Shop: while registering entry point {name} = {value} of wreck 1.2"]
        assert len(plugins) == 0


def test_an_entry_point_whose_hook_asks_for_what_there_is_not_is_named_and_none_is_registered(
    plugins: Plugins, install: Install
) -> None:
    install("good", {"a": "plugged_a:Loyalty"}, {"plugged_a": LOYALTY})
    install("wreck", {"b": "plugged_b"}, {"plugged_b": LOYALTY.replace("(item)", "(items)")})
    with unchanged(), pytest.raises(HookSignatureError, match="asks for 'items'"):
        plugins.load_entry_points(GROUP)
    assert len(plugins) == 0


def test_a_group_without_a_name_is_refused(plugins: Plugins) -> None:
    assert message(HookTypeError, lambda: plugins.load_entry_points("")) == (
        "Shop: load_entry_points is given the group ''; give a name"
    )
