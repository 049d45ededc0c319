"""What the cases share: how a case is run, and the functions that carry hooks in them."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Callable, Iterable
from typing import Any

from aspecthook import hookable

THREADS = 8
# A case that hangs shows where, and fails. Far more than any case needs.
PATIENCE = 240


def functions() -> Iterable[Any]:
    """Return a function whose code may hold hooks, and one whose code may not, as it may die before its module."""
    return hookable(eval("lambda x=1: x")), hookable(lambda x=1: x)


def for_both(case: Callable[[Any], None]) -> Callable[[], None]:
    """Run a case with each of the functions, and see that it leaves no trace in them."""

    def run_both() -> None:
        for function in functions():
            code = function.__code__
            case(function)
            assert function.__code__ is code, "the function's own code is not back"
            assert function() == 1

    return run_both


def run(cases: dict[str, Callable[[], None]]) -> None:
    """Run the case that the command line names."""
    name = sys.argv[1]
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    sys.setswitchinterval(1e-5)
    cases[name]()
    faulthandler.cancel_dump_traceback_later()
    print(f"{name} holds")
