"""The state machine that proves the library: random changes of a mount point's hooks, each call compared with a model.

The model is a plain list of rows, in the order in which hooks were added; whatever a user's own rules do, the list
adopts before the next rule. `machine_state` holds it, `machine_calls` makes and checks calls, `machine_rules`
changes hooks at random, and `short_stories` plays the short stories.
"""

from __future__ import annotations

from hypothesis import settings as Settings
from hypothesis.stateful import run_state_machine_as_test

from aspecthook.testing._stories import with_test
from tests.oracle.machine_rules import Rules
from tests.oracle.short_stories import play_short_stories


class OracleMachine(Rules):
    """Adds, removes, moves and pauses hooks of a target, and calls it, also with guests and with odd callers."""


def explore(machine: type[OracleMachine], settings: Settings) -> None:
    """Play the short stories of a machine, then long ones that Hypothesis makes up."""
    play_short_stories(machine)
    try:
        run_state_machine_as_test(machine, settings=settings)
    except Exception as error:
        last = vars(machine).get("_last")
        raise with_test(error, machine, last._lines if last is not None else ())  # noqa: B904
