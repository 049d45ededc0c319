"""Programs in interpreters of their own, and what events change in this one."""

from __future__ import annotations

import asyncio
import gc
import os
import signal as signals
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aspecthook import events

ROOT = Path(__file__).parents[2]

UNIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs Unix")
EVENTS = [getattr(events, name) for name in events.__all__ if name not in ("audit", "signal")]


def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    lead = "import sys\nfrom aspecthook import event, events, hooks\n"
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *options, "-c", lead + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def printed(program: str, *options: str) -> list[str]:
    """Return the lines that a program prints, which ends well and says nothing else."""
    done = run(program, *options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def globals_now() -> tuple[Any, ...]:
    """Return what of the interpreter the events change."""
    return (
        sys.excepthook,
        sys.unraisablehook,
        threading.excepthook,
        *[one for one in gc.callbacks if getattr(one, "__module__", "").startswith("aspecthook")],  # others: Hypothesis
        *map(signals.getsignal, sorted(signals.valid_signals())),
        *sys.meta_path,
        asyncio.base_events.BaseEventLoop.call_exception_handler.__code__,
        sys.modules["importlib"].import_module.__code__,
    )


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def unraisable() -> None:
    """Raise where nobody can catch it."""

    class Failing:
        def __del__(self) -> None:
            raise ValueError("in __del__")

    Failing()


def fail() -> None:
    raise ValueError("in a thread")


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join(30)
