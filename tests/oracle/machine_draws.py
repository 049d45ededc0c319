"""What a `OracleMachine` draws: each strategy looks at the machine as it is, and makes as few choices as it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import Rule

from aspecthook._core.law.options import Options
from aspecthook.testing._calls import Given
from tests.oracle.candidates import Candidate, conditions, never
from tests.oracle.machine_state import MachineState

# Smaller choices come first, since a failure shrinks to them: no options, no constraints, the first candidate.

# With what a hook is added again: with the first it is the one that is there, with the others it is refused.
SETTINGS: tuple[Options, ...] = (
    *({}, {"priority": 50}, {"priority": "NORMAL"}, {"isolate": False}, {"reentrant": True}, {"before": ()}),
    *({"priority": 1}, {"when": never}, {"times": 9}, {"name": "renamed"}),
)
PRIORITIES = st.sampled_from((50, 10, 90))


# How often each rule is chosen beside the others: hooks mostly come and are called, since a call without hooks shows
# nothing.
_WEIGHTS = {
    "add": 16,
    "call": 10,
    "remove": 3,
    "repeat": 1,
    "move": 16,
    "pause": 1,
    "resume": 4,
    "resume_all": 12,
    "pause_all": 1,
    "rebuild": 1,
    "clear": 1,
}


@st.composite
def steps(draw: st.DrawFn, rules: Sequence[Rule], is_valid: Callable[[Rule], bool]) -> tuple[Rule, dict[str, Any]]:
    """Draw a step with as few choices as can be: Hypothesis takes whole steps out of a failure only while they are few.

    (Its own strategy draws a rule until one is enabled, and which rules are to be enabled at all.)
    """
    valid = [one for one in rules if is_valid(one) for _ in range(_WEIGHTS[one.function.__name__])]
    chosen = valid[draw(st.integers(0, len(valid) - 1))]
    return chosen, {name: draw(strategy) for name, strategy in chosen.arguments_strategies.items()}


def rank(one: Rule) -> int:
    """Return the place of a rule among the others; Hypothesis shrinks towards the first."""
    return list(_WEIGHTS).index(one.function.__name__)


@st.composite
def additions(draw: st.DrawFn) -> Candidate:
    """Draw a hook to be added."""
    return _addition(draw, cast("MachineState", draw(st.runner())))


@st.composite
def beginnings(draw: st.DrawFn) -> list[Candidate]:
    """Draw the hooks that are there from the beginning."""
    machine = cast("MachineState", draw(st.runner()))
    most = min(len(machine._candidates), _BEGIN_WITH)
    begun: list[Candidate] = []
    for _ in range(min(draw(st.integers(0, 3 * most)), most)):  # mostly as many as there may be
        begun.append(_addition(draw, machine, begun))
    return begun


_BEGIN_WITH = 8


def _addition(draw: st.DrawFn, machine: MachineState, begun: Sequence[Candidate] = ()) -> Candidate:
    # Mostly one that is not there yet: several copies of one hook show little.
    present = {id(one.origin) for one in [*(row.candidate for row in machine._own_rows()), *begun]}
    absent = [one for one in machine._candidates if id(one) not in present]
    pool = [*absent, *absent, *absent, *machine._candidates]
    candidate = pool[draw(st.integers(0, len(pool) - 1))]
    orders = machine._variants[candidate.kind]
    place = draw(st.integers(0, 2 * len(orders) - 1))  # half of the hooks get no options
    drawn: Options = orders[place] if place < len(orders) else {}
    chosen: dict[str, object] = {name: value for name, value in drawn.items() if candidate.leaves_open(name)}
    is_free = candidate.leaves_open("conditions")
    several = conditions(candidate.kind, machine.mount.site().signature.style) if is_free else []
    which = draw(st.integers(0, 2 * len(several)))  # half of the hooks have none
    chosen |= several[which - 1] if 0 < which <= len(several) else {}
    rows = [row for row in machine._own_rows() if row.kind == candidate.kind]
    is_open = candidate.leaves_open("before") and not chosen.keys() & {"before", "after"}
    handle = draw(st.integers(0, 30))  # drawn also where it is not used: steps with as many choices shrink better
    chosen |= {"before": rows[handle - 1].hook} if is_open and 0 < handle <= len(rows) else {}
    return candidate.varied(cast("Options", chosen)).on(draw(levels()))


@st.composite
def arguments(draw: st.DrawFn) -> Given:
    """Draw what a call is given."""
    machine = cast("MachineState", draw(st.runner()))
    if machine.arguments is not None:
        args, kwargs = draw(machine.arguments)
        return Given(tuple(args), dict(kwargs))
    small = st.integers(0, 3)
    return Given(
        tuple([draw(small) for _ in range(machine._positional)]), {name: draw(small) for name in machine._keywords}
    )


@st.composite
def guests(draw: st.DrawFn) -> str:
    """Draw a guest for every second call; where nothing is attached, there is nothing to disturb."""
    machine = cast("MachineState", draw(st.runner()))
    guest = _every_second(draw, machine._guests)
    return guest if machine._expected.rows else ""


@st.composite
def drives(draw: st.DrawFn) -> str:
    """Draw how every second call is made by its caller, if the target is a stream or a coroutine function."""
    return _every_second(draw, cast("MachineState", draw(st.runner()))._drives)


def _every_second(draw: st.DrawFn, several: Sequence[str]) -> str:
    place = draw(st.integers(0, 2 * len(several))) if several else 0
    return several[place - 1] if 0 < place <= len(several) else ""


@st.composite
def own(draw: st.DrawFn, *, movable: bool = False) -> str:
    """Draw one of the hooks that the machine has added, as a story names it."""
    machine = cast("MachineState", draw(st.runner()))
    rows = machine._movable() if movable else machine._own_rows()
    return machine._key(rows[draw(st.integers(0, len(rows) - 1))])


@st.composite
def levels(draw: st.DrawFn) -> str | None:
    """Draw whether the class of an instance is meant, and not the instance."""
    machine = cast("MachineState", draw(st.runner()))
    return "class" if machine._expected.parent is not None and draw(st.integers(0, 2)) == 2 else None


@st.composite
def ways(draw: st.DrawFn) -> str | None:
    """Draw how a hook is removed; where the user's own code does that, there is but one way."""
    machine = cast("MachineState", draw(st.runner()))
    way = _WAYS[draw(st.integers(0, len(_WAYS) - 1))]
    return way if all(row.candidate for row in machine._expected.rows) else None


_WAYS = (None, None, None, "name", "function", "handle", "block")
