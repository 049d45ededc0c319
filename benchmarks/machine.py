"""What the test kit costs: a state machine of the laws, 200 examples of 30 steps."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from aspecthook.testing import HookMachine

from .results import Contest, Goal
from .timing import Effort, shots

EXAMPLES, STEPS = 200, 30


def machine(effort: Effort) -> list[Contest]:
    """Run the machine on its own small target."""
    examples = EXAMPLES // effort.cut
    title = f"HookMachine, {examples} examples of {STEPS} steps"
    chosen = settings(max_examples=examples, stateful_step_count=STEPS, deadline=None, database=None)

    def run() -> None:
        run_state_machine_as_test(HookMachine, settings=chosen)

    times = shots({"all of it": lambda: run}, 1)
    return [Contest("machine", title, "s", times, goals=[Goal("all of it", 10.0 / effort.cut)])]
