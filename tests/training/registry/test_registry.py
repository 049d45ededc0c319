"""Registries: what a config builds, whose value counts, and what is said of a config that cannot be built."""

from __future__ import annotations

import copy
import fractions
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import AspecthookError, ConfigError, HookLookupError, HookOptionError, HookTypeError, Priority
from aspecthook._core.law.options import priority_of
from aspecthook.training import Registry
from aspecthook.training.registry._configs import load_config
from tests.plugins.shop import Install, message


class Kept:
    """Keeps what it is built from."""

    priority: object = "HIGH"

    def __init__(self, **options: object) -> None:
        self.options = options


class Ema:
    def __init__(self, momentum: float = 0.1, *, warmup: int = 0) -> None:
        self.momentum = momentum
        self.warmup = warmup


class Ranked:
    """Takes its priority itself."""

    def __init__(self, priority: object = "NORMAL") -> None:
        self.given = priority


class Saver:
    def __init__(self, folder: str, *, every: int) -> None:
        self.folder = folder
        self.every = every


@pytest.fixture
def registry() -> Registry:
    made = Registry("hooks", imports=True)
    for one in (Ema, Ranked, Saver):
        made.register(one)
    return made


def refusal(call: Callable[[], object]) -> AspecthookError | None:
    """Return what a call is refused with."""
    try:
        call()
    except AspecthookError as error:
        return error
    return None


# Laws

some = st.dictionaries(st.sampled_from(["a", "b", "c", "priority"]), st.integers(0, 100))


@given(own=some, defaults=some, config=some)
def test_the_config_goes_before_the_defaults_and_these_before_the_classes_own(
    own: dict[str, int], defaults: dict[str, int], config: dict[str, int]
) -> None:
    class Hook:
        priority = own.get("priority")

        def __init__(self, a: object = own.get("a"), b: object = own.get("b"), *, c: object = own.get("c")) -> None:
            self.a, self.b, self.c = a, b, c

    built = Registry("hooks").build_from_config({"type": Hook, **config}, **defaults)
    expected = {**own, **defaults, **config}
    assert [getattr(built, key) for key in ("a", "b", "c", "priority")] == [
        expected.get(key) for key in ("a", "b", "c", "priority")
    ]


@given(
    value=st.none() | st.booleans() | st.integers(-10, 110) | st.sampled_from(list(Priority)) | st.text() | st.floats()
)
def test_a_priority_that_is_set_is_one_that_hooks_may_have_and_is_kept_as_it_was_given(value: object) -> None:
    def build() -> Any:
        return Registry("hooks").build_from_config({"type": Kept, "priority": value})

    error = refusal(lambda: priority_of(value, "it"))
    if error is not None:
        assert message(type(error), build).startswith(f"registry 'hooks': the type {Kept!r} has ")
    else:
        built = build()
        assert built.priority is value
        assert built.options == {}
    assert Kept.priority == "HIGH"


@given(st.binary() | st.text("[]{}ab='\".,#\n0").map(str.encode))
def test_no_bytes_do_anything_but_read_or_be_refused_by_file(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(raw)
    error = refusal(lambda: load_config(path))
    assert error is None or str(error).startswith(f"{path} is not valid TOML: ")


# Registering


def test_a_name_that_is_taken_is_refused_and_of_several_names_none_is_registered(registry: Registry) -> None:
    assert message(ConfigError, lambda: registry.register(Kept, name=["fresh", "Ema"])) == (
        f"registry 'hooks': {Kept!r} cannot have the name 'Ema': {Ema!r} has it; give another by name=, or replace "
        "that one, as in a dict: registry[name] = ..."
    )
    assert "fresh" not in registry
    assert registry["Ema"] is Ema
    registry.register(name=["fresh", "new"])(Kept)
    registry["Ema"] = Kept
    assert registry["Ema"] is registry["fresh"] is registry["new"] is Kept


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (5, "5 is not callable; register a class or a function"),
        (partial(Ema), "<functools.partial object> has no name of its own; give one by name="),
        ("ema", "'ema' is not callable; register a class or a function; to give a name, write name='ema'"),
    ],
)
def test_registering_refuses_wrong_values(target: Any, expected: str) -> None:
    registry = Registry("hooks")
    assert message(HookTypeError, lambda: registry.register(target)) == f"registry 'hooks': {expected}"
    assert list(registry) == []


def test_a_name_that_is_not_there_is_answered_with_the_nearest_or_with_all(registry: Registry) -> None:
    expected = "registry 'hooks': 'Emma' is not registered; did you mean 'Ema'?"
    assert message(HookLookupError, lambda: registry["Emma"]) == expected
    assert message(ConfigError, lambda: registry.build_from_config("Emma")) == expected
    assert message(HookLookupError, lambda: Registry("empty")["x"]) == (
        "registry 'empty': 'x' is not registered; registered are: nothing"
    )


def test_a_registry_shows_its_names_and_can_be_copied(registry: Registry) -> None:
    assert repr(registry) == "<Registry 'hooks': 'Ema', 'Ranked', 'Saver'>"
    for twin in (copy.deepcopy(registry), pickle.loads(pickle.dumps(registry))):
        assert list(twin) == list(registry) and twin["Ema"] is Ema and twin.imports


# Building


def test_a_factory_function_builds_too_and_what_is_called_need_not_be_registered(registry: Registry) -> None:
    @registry.register
    def pair(left: int, *, right: int) -> tuple[int, int]:
        return left, right

    assert registry.build_from_config({"type": "pair", "left": 1, "right": 2}) == (1, 2)
    assert registry.build_from_config({"type": partial(pair, right=5), "left": 1}) == (1, 5)
    assert registry.build_from_config({"type": "fractions:Fraction", "numerator": 3}) == fractions.Fraction(3)
    assert registry.build_from_config("json:decoder.JSONDecoder").decode("[1]") == [1]
    assert "fractions:Fraction" not in registry


def test_a_constructor_that_takes_a_priority_is_given_it_as_it_is(registry: Registry) -> None:
    built = registry.build_from_config({"type": "Ranked", "priority": 1000})
    assert built.given == 1000
    assert not hasattr(built, "priority")
    assert registry.build_from_config("Ranked").given == "NORMAL"


def test_a_bad_priority_is_refused_before_anything_is_built() -> None:
    built: list[Any] = []
    config = {"type": lambda: built.append(1), "priority": "LOWW"}
    said = message(HookOptionError, lambda: Registry("hooks").build_from_config(config))
    assert said.endswith("; did you mean 'LOW'?")
    said = message(HookTypeError, lambda: Registry("hooks").build_from_config({**config, "priority": None}))
    assert said.endswith("has a priority of type NoneType; give an int from 0 to 100 or a name")
    assert built == []


def test_exception_of_a_constructor_is_passed_on_with_a_note(registry: Registry) -> None:
    raised = KeyError("folder")

    @registry.register
    def broken(size: int) -> None:
        raise raised

    with pytest.raises(KeyError) as caught:
        registry.build_from_config({"type": "broken", "size": 3, "priority": "LOW"})
    assert caught.value is raised
    assert raised.__notes__ == [
        "registry 'hooks': while building {'type': 'broken', 'size': ..., 'priority': ...}",
    ]
    with pytest.raises(AttributeError) as unset:
        registry.build_from_config({"type": dict, "priority": "LOW"})
    assert unset.value.__notes__ == ["registry 'hooks': while building {'type': ..., 'priority': ...}"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, "None is not a config; give a mapping with a 'type', or a name alone"),
        ({}, "the config has no 'type'; what it has: nothing; say what to build"),
        ({"typ": "Ema", "x": 1}, "the config has no 'type'; what it has: 'typ', 'x'; say what to build"),
        (
            {"type": 5},
            "the type is an int, which is not callable; give a registered name, a class or function, or an import path",
        ),
        ({"type": "shop.Law"}, "'shop.Law' is not registered; registered are: 'Ema', 'Ranked', 'Saver'"),
        (
            {"type": "Ema", "momentun": 1},
            "the type 'Ema' takes no 'momentun'; what it takes: 'momentum', 'warmup'; did you mean 'momentum'?",
        ),
        ({"type": "Ema", "self": 1}, "the type 'Ema' takes no 'self'; what it takes: 'momentum', 'warmup'"),
        ({"type": object, "x": 1}, "the type <class 'object'> takes no 'x'; what it takes: nothing"),
        ({"type": "Saver", "folder": "x"}, "the type 'Saver' needs 'every', which the config does not give; add it"),
        ("", "'' is not registered; registered are: 'Ema', 'Ranked', 'Saver'"),
        ("a:b:c", "'a:b:c' is not an import path of the form 'package.module:name'"),
        ("..a:b", "'..a:b' is not an import path of the form 'package.module:name'"),
        ("fractions.x.y:F", "there is no module 'fractions.x' for the path 'fractions.x.y:F'"),
        (
            "fractions:Fractoin",
            "<module 'fractions'> has no 'Fractoin' for the path 'fractions:Fractoin'; did you mean 'Fraction'?",
        ),
        ("sys:maxsize", "the type is an int, which is not callable; give the path of a class or function"),
    ],
)
def test_building_refuses_wrong_configs(registry: Registry, config: Any, expected: str) -> None:
    before = copy.copy(config)
    assert message(ConfigError, lambda: registry.build_from_config(config)) == f"registry 'hooks': {expected}"
    assert config == before


def test_exception_of_a_module_imported_by_path_is_passed_on(registry: Registry, install: Install) -> None:
    install("wreck", {}, {"plugged_a": "1 / 0", "plugged_b": "import plugged_none"})
    with pytest.raises(ZeroDivisionError) as caught:
        registry.build_from_config("plugged_a:A")
    assert caught.value.__notes__ == ["registry 'hooks': while importing 'plugged_a:A'"]
    with pytest.raises(ModuleNotFoundError, match="plugged_none"):
        registry.build_from_config("plugged_b:A")


@pytest.mark.parametrize("kind", ["os:system", "parts", "parts.inner:Own", "parts:"])
def test_a_registry_imports_nothing_unless_it_is_told_to(kind: str) -> None:
    """`Registry("allowed")` ran `os:system`, and imported what it then refused."""
    registry = Registry("allowed")
    registry.register(Ema)
    text = message(ConfigError, lambda: registry.build_from_config({"type": kind, "command": "exit 1"}))
    assert text.startswith("registry 'allowed': ") and "registered" in text
    if ":" in kind:
        assert text.endswith("register it, or allow it: Registry(..., imports=True), if you trust its configs as code")


@pytest.mark.parametrize(
    "config",
    [
        {"type": "Login", "password": "hunter2"},
        {"type": "Login", "pasword": "hunter2"},
        {"type": ["hunter2"]},
        {"type": "Login", "password": "hunter2", "priority": ["hunter2"]},
        ["hunter2"],
        {"password": "hunter2"},
        {b"type": "hunter2"},
    ],
)
def test_no_message_shows_what_a_config_gives(config: Any) -> None:
    registry = Registry("hooks")

    @registry.register
    class Login:
        def __init__(self, password: str, **more: object) -> None:
            raise ValueError("refused")

    with pytest.raises((AspecthookError, ValueError, TypeError)) as caught:
        registry.build_from_config(config)
    said = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "hunter2" not in said and said


# Files

_DEEP = "its values are nested too deeply; correct it"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a = 1\nb = \n", "Invalid value (at line 2, column 5); correct it there"),
        (b"a = 1\nb = 2\n\xff = 3\n", "line 3 is not UTF-8; save it as UTF-8"),
        (b"a = " + b"9" * 5_000, "Exceeds the limit"),
        # A RecursionError came out, of the parser or of what went through the file.
        (b"a = " + b"[" * 20_000, _DEEP),
        (b"a = " + b"[" * 200 + b"]" * 200, _DEEP),
        (b"[" + b"a." * 5000 + b"a]", _DEEP),
        (b"a = " + b"{b=" * 150 + b"1" + b"}" * 150, _DEEP),
    ],
    ids=["syntax", "encoding", "digits", "depth", "arrays", "a table", "tables"],
)
def test_invalid_toml_is_reported_with_file_and_line(tmp_path: Path, raw: bytes, expected: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(raw)
    assert message(ConfigError, partial(load_config, path)).startswith(f"{path} is not valid TOML: {expected}")


@pytest.mark.parametrize("path", ["no\0file", "no\nfile\0", "\ud800/no file"])
def test_invalid_path_is_an_error_of_one_line(path: str) -> None:
    with pytest.raises((ConfigError, FileNotFoundError)) as caught:
        load_config(path)
    if isinstance(caught.value, ConfigError):
        assert "cannot be the path of a file: " in str(caught.value) and str(caught.value).isprintable()
