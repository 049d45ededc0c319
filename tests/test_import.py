"""`import aspecthook` loads little: what is heavy or optional waits until somebody uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = ["wrapt", "asyncio", "pytest", "hypothesis", "numpy", "torch", "inspect", "dataclasses", "logging", "ast"]
HEAVY += ["aspecthook.plugins", "tomllib"]
HEAVY += ["annotationlib"]  # it loads `ast`, from 3.14 on


def loaded(program: str) -> set[str]:
    """Return which modules a fresh interpreter has loaded after a program, with only the standard library around."""
    root = str(Path(__file__).parent.parent)
    report = "print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {root!r}); {program}\n{report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    # `typing` and `re` are needed by events alone (see `aspecthook._hints`), `re` before 3.13 also by `linecache`.
    assert loaded("import aspecthook").intersection([*HEAVY, "threading", "typing"]) == set()


def test_hooking_a_function_loads_nothing_heavy() -> None:
    program = "from aspecthook import hookable, hooks; f = hookable(lambda x: x); f.pre(lambda x: None); f(1)"
    program += "; hooks(f).clear()"
    assert loaded(program).intersection(HEAVY) == set()


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


def test_the_check_finds_what_is_loaded() -> None:
    assert loaded("import logging") >= {"logging"}
