"""What an `OracleMachine` draws: each strategy looks at the machine as it is, and makes as few choices as it can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from hypothesis import strategies as st

from aspecthook._core.law.options import Options
from aspecthook.testing._calls import Given
from tests.oracle.candidates import Candidate, conditions
from tests.oracle.guests import Guest
from tests.oracle.machine_state import MachineState
from tests.oracle.rows import Row

T = TypeVar("T")

_BEGIN_WITH = 8
_WAYS = (None, None, None, "name", "function", "handle", "block")


@st.composite
def additions(draw: st.DrawFn) -> Candidate:
    """Draw a hook to be added."""
    return _addition(draw, cast("MachineState", draw(st.runner())))


@st.composite
def beginnings(draw: st.DrawFn) -> list[Candidate]:
    """Draw the hooks that are there from the beginning."""
    machine = cast("MachineState", draw(st.runner()))
    most = min(len(machine.hooks), _BEGIN_WITH)
    begun: list[Candidate] = []
    for _ in range(min(draw(st.integers(0, 3 * most)), most)):  # mostly as many as there may be
        begun.append(_addition(draw, machine, begun))
    return begun


def _addition(draw: st.DrawFn, machine: MachineState, begun: Sequence[Candidate] = ()) -> Candidate:
    # Mostly one that is not there yet: several copies of one hook show little.
    present = {id(one.origin) for one in [*(row.candidate for row in machine.own_rows()), *begun]}
    absent = [one for one in machine.hooks if id(one) not in present]
    candidate = draw(st.sampled_from([*absent, *absent, *absent, *machine.hooks]))
    orders = machine.variants[candidate.kind]
    place = draw(st.integers(0, 2 * len(orders) - 1))  # half of the hooks get no options
    drawn: Options = orders[place] if place < len(orders) else {}
    chosen: dict[str, object] = {name: value for name, value in drawn.items() if candidate.leaves_open(name)}
    is_free = candidate.leaves_open("conditions")
    chosen |= (
        _every_second(draw, conditions(candidate.kind, machine.mount.site().signature.style), {}) if is_free else {}
    )
    rows = [row for row in machine.own_rows() if row.kind == candidate.kind]
    if candidate.leaves_open("before") and not chosen.keys() & {"before", "after"}:
        handle = draw(st.integers(0, 30))
        chosen |= {"before": rows[handle - 1].hook} if 0 < handle <= len(rows) else {}
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
        tuple([draw(small) for _ in range(machine.positional)]), {name: draw(small) for name in machine.keywords}
    )


@st.composite
def guests(draw: st.DrawFn) -> Guest | None:
    """Draw a guest for every second call; where nothing is attached, there is nothing to disturb."""
    machine = cast("MachineState", draw(st.runner()))
    return _every_second(draw, machine.guests, None) if machine.expected.rows else None


@st.composite
def drives(draw: st.DrawFn) -> str:
    """Draw how every second call is made by its caller, if the target is a stream or a coroutine function."""
    return _every_second(draw, cast("MachineState", draw(st.runner())).drives, "")


def _every_second(draw: st.DrawFn, several: Sequence[T], otherwise: T) -> T:
    place = draw(st.integers(0, 2 * len(several))) if several else 0
    return several[place - 1] if 0 < place <= len(several) else otherwise


@st.composite
def own(draw: st.DrawFn) -> Row:
    """Draw one of the hooks that the machine has added."""
    return draw(st.sampled_from(cast("MachineState", draw(st.runner())).own_rows()))


@st.composite
def levels(draw: st.DrawFn) -> str | None:
    """Draw whether the class of an instance is meant, and not the instance."""
    machine = cast("MachineState", draw(st.runner()))
    return "class" if machine.expected.parent is not None and draw(st.integers(0, 2)) == 2 else None


def ways() -> st.SearchStrategy[Any]:
    """Draw how a hook is removed."""
    return st.sampled_from(_WAYS)
