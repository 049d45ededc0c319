"""The machine against a documentation: the shortest steps after which a library is not what it says of itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

# Two or three are needed; Hypothesis draws on the constants of all code that is imported, so it may stop above that.
FEW = 5

# Every run searches alike: no seed but the code, nothing remembered from an earlier run.
SAME = settings(
    max_examples=2000,  # it stops at the first that refutes
    stateful_step_count=12,
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    # Explaining runs under a trace function, which takes longer than all the rest.
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


class PeerMachine(RuleBasedStateMachine):
    """A library beside its model. The model says what the library does, except for the `believed` claims.

    A claim is a sentence of the documentation that the library does not keep. A machine that believes one is refuted.
    """

    believed: frozenset[str] = frozenset()

    def believes(self, claim: str) -> bool:
        return claim in self.believed


def believing(machine: type[PeerMachine], claim: str) -> type[PeerMachine]:
    """Return the machine whose model takes the documentation's word for one claim."""
    return type(f"{machine.__name__}Believing", (machine,), {"believed": frozenset({claim})})


def refuted(machine: type[PeerMachine], claim: str) -> list[str]:
    """Run a machine that believes the claim, and give the shortest steps on which the library does otherwise."""
    with pytest.raises(AssertionError) as caught:
        run_state_machine_as_test(believing(machine, claim), settings=SAME)
    return steps(caught.value)


def steps(error: BaseException) -> list[str]:
    """Read the steps of the example that Hypothesis has noted on the error, without the checks between them."""
    lines = [line.strip() for note in getattr(error, "__notes__", ()) for line in note.splitlines()]
    found = [line for line in lines if re.search(r"\bstate\.\w+\(", line)]
    return [line for line in found if not re.search(r"state\.(teardown|the_callbacks_\w+)\(\)", line)]


def holds(machine: type[PeerMachine]) -> Any:
    """Return the test case of a machine, with fewer and shorter examples than our own machines have."""
    case: Any = machine.TestCase
    case.settings = settings(max_examples=settings.default.max_examples // 2, stateful_step_count=20)
    return case
