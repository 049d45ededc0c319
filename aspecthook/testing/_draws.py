"""What a `HookMachine` draws: each strategy looks at the machine as it is, and makes as few choices as it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import Rule

from aspecthook._hook import Options

from ._calls import Given
from ._candidates import Candidate
from ._model import Row

if TYPE_CHECKING:
    from ._machine import HookMachine

AGAIN = "again"


class Calling(Given):
    """A call, and what disturbs it: nothing, a hook that calls again, or one of this kind that fails."""

    def __new__(cls, args: Any, kwargs: Any, disturbance: str | None) -> Calling:
        made = super().__new__(cls, args, kwargs)
        made.disturbance = disturbance
        return made

    disturbance: str | None

    def __repr__(self) -> str:
        how = {None: "", AGAIN: "again=True"}.get(self.disturbance, f"failing={self.disturbance!r}")
        return ", ".join(filter(None, [super().__repr__(), how]))


# What is drawn. Smaller choices come first: nothing said, nothing constrained, the first candidate.

PRIORITIES = st.sampled_from((50, 10, 90))
_SMALL = st.integers(0, 3)


@st.composite
def steps(draw: st.DrawFn, machine: HookMachine, is_valid: Callable[[Rule], bool]) -> tuple[Rule, dict[str, Any]]:
    """Draw a step with as few choices as can be: Hypothesis takes whole steps out of a failure only while they are few.

    (Its own strategy draws a rule until one is enabled, and which rules are to be enabled at all.)
    """
    valid = [one for one in machine.steps if is_valid(one)]
    chosen = valid[draw(st.integers(0, len(valid) - 1))]
    return chosen, {name: draw(strategy) for name, strategy in chosen.arguments_strategies.items()}


@st.composite
def additions(draw: st.DrawFn) -> Candidate:
    """Draw a hook to be added."""
    machine = cast("HookMachine", draw(st.runner()))
    pool = machine._candidates
    candidate = pool[draw(st.integers(0, len(pool) - 1))]
    drawable = machine._variants[candidate.kind]
    options = drawable[draw(st.integers(0, len(drawable) - 1))]
    open_ = [name for name in machine.vary if candidate.leaves_open(name)]
    return candidate.varied(cast("Options", {name: value for name, value in options.items() if name in open_}))


@st.composite
def arguments(draw: st.DrawFn) -> Given:
    """Draw what a call is given."""
    machine = cast("HookMachine", draw(st.runner()))
    if machine.arguments is not None:
        args, kwargs = draw(machine.arguments)
        return Given(tuple(args), dict(kwargs))
    return Given(
        tuple([draw(_SMALL) for _ in range(machine._positional)]), {name: draw(_SMALL) for name in machine._keywords}
    )


@st.composite
def callings(draw: st.DrawFn) -> Calling:
    """Draw a call."""
    machine = cast("HookMachine", draw(st.runner()))
    given = draw(arguments())
    # Most calls are plain; and where nothing is attached, there is nothing to disturb.
    place = draw(st.integers(0, 2 * len(machine.disturb)))
    disturbed = machine._rows and 0 < place <= len(machine.disturb)
    return Calling(given.args, given.kwargs, machine.disturb[place - 1] if disturbed else None)


@st.composite
def own(draw: st.DrawFn, *, movable: bool = False) -> Row:
    """Draw one of the hooks that the machine has added."""
    machine = cast("HookMachine", draw(st.runner()))
    rows = machine._movable() if movable else machine._own_rows()
    return rows[draw(st.integers(0, len(rows) - 1))]
