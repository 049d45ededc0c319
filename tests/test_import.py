"""`import aspecthook` loads little: what is heavy or optional waits until somebody uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = ["wrapt", "asyncio", "pytest", "hypothesis", "numpy", "torch", "inspect", "dataclasses", "logging", "ast"]


def loaded(program: str) -> set[str]:
    """Say which modules a fresh interpreter has loaded after a program, with only the standard library around."""
    root = str(Path(__file__).parent.parent)
    report = "print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {root!r}); {program}; {report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded("import aspecthook").intersection(HEAVY) == set()


def test_hooking_a_function_loads_nothing_heavy() -> None:
    program = "from aspecthook import hookable, hooks; f = hookable(lambda x: x); f.pre(lambda x: None); f(1)"
    program += "; hooks(f).clear()"
    assert loaded(program).intersection(HEAVY) == set()


def test_the_check_finds_what_is_loaded() -> None:
    assert loaded("import logging") >= {"logging"}
