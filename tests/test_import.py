"""Importing aspecthook loads little: what is heavy or optional waits until somebody uses it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import aspecthook
from aspecthook import Call, Return

HEAVY = ["wrapt", "asyncio", "pytest", "hypothesis", "numpy", "torch", "inspect", "dataclasses", "logging", "ast"]
HEAVY += ["aspecthook.plugins", "tomllib"]
HEAVY += ["annotationlib"]  # it loads `ast`, from 3.14 on


CORE = "from aspecthook import hookable, hooks, weave"


def loaded(program: str) -> set[str]:
    """Return which modules a fresh interpreter has loaded after a program, with only the standard library around."""
    root = str(Path(__file__).parent.parent)
    report = "print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {root!r}); {program}\n{report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_core_loads_nothing_heavy() -> None:
    # Later there may be reasons for these: an event reads annotations, and watches threads.
    assert loaded(CORE).intersection([*HEAVY, "threading", "typing"]) == set()


@pytest.mark.skipif(sys.version_info < (3, 13), reason="`linecache` imports it at once")
def test_importing_the_core_compiles_no_regular_expression() -> None:
    assert "re" not in loaded(CORE)


def test_the_core_is_loaded_when_a_name_of_it_is_used() -> None:
    rooms = {name for name in loaded("import aspecthook") if name.startswith("aspecthook._core.")}
    assert rooms and not {
        name for name in rooms if name.startswith(("aspecthook._core.mount", "aspecthook._core.compile"))
    }
    assert "aspecthook._core.mount.hookable" in loaded("import aspecthook; aspecthook.hookable")


def test_names_that_are_loaded_later_are_listed() -> None:
    assert loaded("import aspecthook; assert {*aspecthook.__all__} <= {*dir(aspecthook)}")


@pytest.mark.parametrize("package", ["aspecthook", "aspecthook.plugins", "aspecthook.training"])
def test_a_name_that_a_package_does_not_have_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError) as caught:
        _ = import_module(package).nothing
    assert str(caught.value) == f"module {package!r} has no attribute 'nothing'"


def test_hooks_with_every_condition_and_an_event_load_nothing_heavy() -> None:
    # From 3.14 on, each class of `typing.NamedTuple` loaded `annotationlib`, and that `ast`.
    program = """
from aspecthook import Args, event, hookable, hooks

@hookable
def price(item: "str", qty: int = 1) -> "float":
    return qty

price.pre(lambda qty: Args(qty=3), priority="HIGH", when=lambda item: True, every=2, reentrant=False)
price.around(lambda proceed: proceed(), name="layer")
price.post(lambda result: None, before="other", isolate=True)
price("tea")
price("tea")

@event
def sold(item: "str") -> "None": ...

sold.on(lambda item: None)
sold("tea")
hooks(price).explain()
hooks(price).clear()
"""
    assert loaded(program).intersection(HEAVY) == set()


def test_recording_to_a_file_loads_neither_pathlib_nor_typing() -> None:
    # They are a tenth of the time in which a traced program starts.
    program = (
        "import json, os; from aspecthook.record import record\nwith record(json.dumps, to=os.devnull): json.dumps(1)"
    )
    assert loaded(program).intersection({"pathlib", "typing", "pkgutil"}) == set()


def test_weaving_python_functions_loads_neither_wrapt_nor_asyncio() -> None:
    program = """
from aspecthook import weave
import json
weave("json:*, shutil:*", pre=lambda: None)
import shutil
json.dumps(1)
"""
    assert loaded(program).intersection({"wrapt", "asyncio", "ssl"}) == set()


def test_the_check_finds_what_is_loaded() -> None:
    assert loaded("import logging") >= {"logging"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("testing.HookMachine", "aspecthook.testing.HookMachine needs hypothesis; pip install hypothesis"),
        ("pytest_plugin.HookLeakWarning", "aspecthook.pytest_plugin needs pytest; pip install pytest"),
        ("torch.capture", "aspecthook.torch.capture needs torch; pip install torch"),
        ("training.data.load_digits", "aspecthook.training.data.load_digits needs numpy; pip install numpy"),
        ("training.numpy.Linear", "aspecthook.training.numpy needs numpy; pip install numpy"),
    ],
)
def test_a_name_whose_library_is_not_installed_says_which_extra_brings_it(name: str, message: str) -> None:
    package, _, attribute = name.rpartition(".")
    said = f"try:\n    from aspecthook.{package} import {attribute}\nexcept ImportError as error:\n    print(error)"
    root = str(Path(__file__).parent.parent)
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {root!r})\n{said}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{message}\n"


# Annotations, which modules of the core write with `aspecthook._hints`.


def public() -> Iterator[tuple[str, Any]]:
    """Yield the public classes and functions, and the functions of the classes."""
    for name in aspecthook.__all__:
        value: Any = getattr(aspecthook, name)
        yield name, value
        for key, one in vars(value).items() if isinstance(value, type) else ():
            function = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
            if isinstance(function, FunctionType) and not key.startswith("_"):
                yield f"{name}.{key}", function


# Their annotations name what only type checkers know: `_typing.pyi`, and classes that are loaded later.
UNREADABLE = {"explain", "hooks", "weave"}


@pytest.mark.parametrize(("name", "value"), [row for row in public() if row[0] not in UNREADABLE])
def test_annotations_of_public_names_can_be_read(name: str, value: Any) -> None:
    hints = get_type_hints(value)
    if isinstance(value, FunctionType):
        assert hints.keys() == value.__annotations__.keys()


def test_annotations_are_read_as_the_nearest_builtin_class() -> None:
    arguments: Any = Call.arguments
    assert get_args(get_type_hints(arguments.fget)["return"]) == (str, object)


def test_return_can_be_subscripted_in_annotations_of_users() -> None:
    def unknown(exc: KeyError) -> Return[float] | None: ...

    hint = get_args(get_type_hints(unknown, localns={"Return": Return})["return"])[0]
    assert (get_origin(hint), get_args(hint)) == (Return, (float,))
    assert Return[int](3) == Return(3)
