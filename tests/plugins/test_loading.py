"""Plugins from entry points, lists of configs and TOML files."""

from __future__ import annotations

import json
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aspecthook import ConfigError, HookOptionError, HookOrderError, HookTypeError, PluginError, on
from aspecthook._errors import described
from aspecthook.plugins import Plugins, Registry
from tests.plugins.shop import BROKEN, GROUP, LOYALTY, Install, Seller, Shop, message, unchanged


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
        "Shop: 2 entry points have the same name: entry point loyalty = plugged_a:Loyalty of one 1.2; entry "
        "point loyalty = plugged_a:Loyalty of two 1.2; uninstall all but one, or leave them out with "
        "exclude='loyalty' and register one yourself"
    )
    assert "plugged_a" not in sys.modules and len(plugins) == 0
    assert plugins.load_entry_points(GROUP, exclude="loyalty") == []
    plugins.register(Seller(), name="loyalty")
    assert plugins.load_entry_points(GROUP) == []


def test_a_group_is_a_name(plugins: Plugins) -> None:
    group: Any
    for group in ("", None, 5):
        text = message(HookTypeError, partial(plugins.load_entry_points, group))
        assert text == f"Shop: load_entry_points is given the group {group!r}; give a string that is not empty"


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
    type = "tests.plugins.shop:Seller"
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


# What else a config is refused for is in test_registry.
WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "misspelt": (
        "Discuont",
        ConfigError,
        "plugins of Shop, entry 2: 'Discuont' is not registered; registered are: 'Discount', 'seller', "
        "'Nothing'; did you "
        "mean 'Discount'?",
    ),
    "no type": (
        {"percent": 5},
        ConfigError,
        "plugins of Shop, entry 2: the config has no 'type'; what it has: 'percent'; say what to build",
    ),
    "no attribute": (
        "tests.plugins.shop:Saller",
        ConfigError,
        "has no 'Saller' for the type 'tests.plugins.shop:Saller'; did you mean 'Seller'?",
    ),
    "a module with options": (
        {"type": "json:", "indent": 2},
        ConfigError,
        "plugins of Shop, entry 2: 'json:' is a module, which takes no 'indent'; remove that, or write 'json:Class'",
    ),
    "a module that is no plugin": ("json:", PluginError, "Shop: plugin 'json' has no marked methods"),
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
        "Shop: plugin 'Discount' has a name that <tests.plugins.test_loading.Discount object> has",
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


@pytest.mark.parametrize("case", WRONG)
def test_one_wrong_entry_of_a_file_leaves_nothing_of_the_others(
    plugins: Plugins, registry: Registry, tmp_path: Path, case: str
) -> None:
    config, error, says = WRONG[case]
    entry = {"type": config} if isinstance(config, str) else config
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
    """Return the lines of a table: its head, and what is in it."""
    return [("", None), *entry.items()]


def test_a_list_is_no_mapping_and_no_text(plugins: Plugins) -> None:
    """A mapping was read key by key, a text letter by letter."""
    wrong: list[Any] = [{"type": "seller"}, "seller", b"seller", 5, None, Seller]
    for config in wrong:
        text = message(ConfigError, partial(plugins.load_config, config))
        assert text.startswith(f"plugins of Shop: {described(config)} is not a list of configs; give a list, with one")


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
        "plugins of Shop, entry 1: the type 'Discount' is a name, and there is no registry to look it up in; give "
        "registry="
    )


def test_exception_of_an_imported_module_is_passed_on_with_a_note(plugins: Plugins, install: Install) -> None:
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
        ("[[plugins]", "plugins", "is not valid TOML"),
        ("x = 1", "plugins", "there is no table 'plugins'"),
        ("[plugins]\ntype = 'seller'", "plugins", "'plugins.type' is not a table; write [[plugins]]"),
        ("plugins = [5]", "plugins", "entry 1 of 'plugins': an int is not a config"),
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
