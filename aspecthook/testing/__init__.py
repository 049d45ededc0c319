"""The test kit: see what a call did, and property-test the order of hooks.

`HookMachine` needs Hypothesis; the fixtures need pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._candidates import Candidate
    from ._laws import LawError, law, run_laws
    from ._machine import HookMachine
    from ._orders import Underconstrained, assert_order_free, orders_of, underconstrained
    from ._ready_laws import (
        always_last,
        before,
        commutes,
        exactly_once,
        idempotent,
    )
    from ._repeat import NotRepeatableError
    from ._steps import Step, Trace
    from ._trace import assert_order, trace_of

__all__ = [
    "Candidate",
    "HookMachine",
    "LawError",
    "NotRepeatableError",
    "Step",
    "Trace",
    "Underconstrained",
    "always_last",
    "assert_order",
    "assert_order_free",
    "before",
    "commutes",
    "exactly_once",
    "idempotent",
    "law",
    "orders_of",
    "run_laws",
    "trace_of",
    "underconstrained",
]

# Each is loaded when it is asked for: who only traces does not wait for hypothesis.
load_lazily(
    __name__,
    {
        "_candidates": "Candidate",
        "_laws": "LawError law run_laws",
        "_machine": "HookMachine",
        "_orders": "Underconstrained assert_order_free orders_of underconstrained",
        "_ready_laws": "always_last before commutes exactly_once idempotent",
        "_repeat": "NotRepeatableError",
        "_steps": "Step Trace",
        "_trace": "assert_order trace_of",
    },
)
