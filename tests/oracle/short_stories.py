"""The short stories: up to three hooks, in each order, are added and called; one is removed, and the call made again.

Of few candidates there are also stories of more hooks, and of many candidates not all of the stories. The invariant:
nothing here is random. A law that such a story breaks is broken in every run, and the shortest story is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice, permutations
from math import perm
from typing import Any, TypeVar

from hypothesis import settings as Settings
from hypothesis.stateful import run_state_machine_as_test

from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.options import Options
from tests.oracle.candidates import Candidate, conditions
from tests.oracle.guests import AGAIN, Guest
from tests.oracle.machine import OracleMachine

T = TypeVar("T")

_HOOKS = 3
_MOST = 120  # stories of one size
_FEW = 30  # of more, some that are spread evenly: of hooks of one kind, and of hooks of several kinds
_CALLS = 100  # calls in the stories of one size, with the hooks that were added
_PAIRS = 8  # hooks of which one is named by the other
_CROWD = 25
_CONDITIONED = 20  # stories of a hook with one condition or two
_GUESTS = 60  # stories with a guest


def explore(machine: type[OracleMachine], settings: Settings) -> None:
    """Play the short stories of a machine, then long ones that Hypothesis makes up."""
    first = machine()
    machine.plays_short_stories = True
    try:
        for story in _stories(first):
            state = machine()
            try:
                story(state)
            except Exception as error:
                error.add_note(f"in the story {story}")
                raise
            finally:
                state.teardown()
    finally:
        machine.plays_short_stories = False
    run_state_machine_as_test(machine, settings=settings)


def _stories(first: OracleMachine) -> Iterator[Callable[[OracleMachine], None]]:
    """Yield the stories, the shortest first."""
    for added, removed, turns in _comings(first):
        yield partial(_come_and_go, added=added, removed=removed, turns=turns)
    for one, other in _some(list(_pairs(first)), _PAIRS):
        yield partial(_have_twins, one=one, other=other)
        yield partial(_contradict, one=one, other=other, elsewhere=first.hooks)
        yield partial(_pause_twice, one=one, other=other)
        yield partial(_refill, one=one, other=other)
        if other.leaves_open("priority") and one.leaves_open("after"):
            yield partial(_mean_one_of_two, one=one, other=other)
        if first.expected.parent is not None:
            yield partial(_share, one=one, other=other)
    for one, options in _some(list(_conditioned(first)), _CONDITIONED):
        yield partial(_count, one=one, options=options)
    for kind in KINDS:
        alike = [one for one in first.hooks if one.kind == kind]
        if alike:
            yield partial(_crowd, alike=alike)
    step = min(len(first.hooks), 1 + len(first.hooks) * len(first.guests) // (_GUESTS + 1))
    drives = cycle(first.drives or [""])
    for number, one in enumerate(first.hooks):
        for guest in first.guests[number % step :: step]:  # of many guests, others for each hook
            yield partial(_have_guest, one=one, guest=guest)
            if first.drives:
                yield partial(_have_guest, one=one, guest=guest, drive=next(drives))


def _comings(first: OracleMachine) -> Iterator[tuple[tuple[Candidate, ...], Candidate, range]]:
    """Yield the hooks that are added, the one that is removed, and the turns: which of the samples are called with."""
    hooks = first.hooks
    for size in range(1, len(hooks) + 1):
        count = perm(len(hooks), size)
        if count <= _MOST:
            stories = list(permutations(hooks, size))
        elif size <= _HOOKS:
            # Hooks of one kind, whose order is what matters; and some of several kinds.
            alike = [added for added in permutations(hooks, size) if len({one.kind for one in added}) == 1]
            stories = alike if len(alike) <= _MOST and not first.has_own_hooks else _some(alike, _FEW)
            some = islice(permutations(hooks, size), 0, None, 1 + count // (2 * _FEW))
            stories += _some([added for added in some if len({one.kind for one in added}) > 1], _FEW)
        else:
            return
        turns = max(1, min(len(first.samples), _CALLS // len(stories)))
        for number, added in enumerate(stories):
            begin = number if turns < len(first.samples) else 0
            yield added, added[number % size], range(begin, begin + turns)


def _some(stories: list[T], most: int) -> list[T]:
    """Return as many of these as there may be, spread evenly."""
    return stories[:: max(1, -(-len(stories) // most))]


def _come_and_go(state: OracleMachine, added: tuple[Candidate, ...], removed: Candidate, turns: range) -> None:
    for one in added:
        state.add(one)
    for turn in turns:
        state.call(state.samples[turn % len(state.samples)])
    for drive in state.drives if len(added) == 1 else ():
        state.call(state.samples[-1], drive=drive)
    if state.own_rows(removed):  # else it has acted as often as it may
        state.remove(state.own_rows(removed)[0])
        state.call(state.samples[0])


def _pairs(first: OracleMachine) -> Iterator[tuple[Candidate, Candidate]]:
    """Yield for each hook one that it names, or may name, in ``before``."""
    for one in first.hooks:
        named: Any = one.options.get("before") or one.options.get("after") or ()
        alike = [other for other in first.hooks if other.kind == one.kind and other is not one]
        meant = [other for other in alike if other.name in ((named,) if isinstance(named, str) else named)]
        if meant or (alike and one.leaves_open("before")):
            yield one, (meant or alike)[0]


def _before(one: Candidate, other: Candidate) -> Candidate:
    """Return a hook that comes before another, unless it has an order of its own."""
    is_open = one.leaves_open("before") and one.leaves_open("after")
    return one.varied({"before": other.name}) if is_open else one


def _have_twins(state: OracleMachine, one: Candidate, other: Candidate) -> None:
    """Add two hooks of one name and one that names them; remove them one by one, and by their name."""
    for added in (other, other, _before(one, other), other, other):
        state.add(added)
    state.call(state.samples[0])
    for by in ("handle", "block", "name"):
        _remove_if_there(state, other, by)
        state.call(state.samples[0])


def _mean_one_of_two(state: OracleMachine, one: Candidate, other: Candidate) -> None:
    """Add a hook after one of two that have the same name: a handle means that one alone."""
    state.add(other.varied({"priority": 10}))
    state.add(other.varied({"priority": 90}))
    state.add(one.varied({"after": state.own_rows(other)[0].hook}))
    state.call(state.samples[0])


def _contradict(state: OracleMachine, one: Candidate, other: Candidate, elsewhere: list[Candidate]) -> None:
    """Add hooks that contradict each other: they are refused as long as there is something to contradict."""
    contrary = other.varied({"before": one.name}) if other.leaves_open("before") else other
    for added in (_before(one, other), _before(one, other)):
        state.add(added)
    free = next((apart for apart in elsewhere if apart.kind != one.kind and not apart.options), None)
    if free is not None:  # it contradicts nothing of its own kind
        state.add(other)
        state.add(free.varied({"before": one.name, "after": other.name}))
        _remove_if_there(state, other)
    for _ in range(2):
        _remove_if_there(state, one)
        state.add(contrary)
    state.call(state.samples[0])


def _remove_if_there(state: OracleMachine, one: Candidate, by: str | None = None) -> None:
    """Remove a hook, unless it has run as often as it may and is removed already."""
    for row in state.own_rows(one)[:1]:
        state.remove(row, by=by)


def _share(state: OracleMachine, one: Candidate, other: Candidate) -> None:
    """Add hooks to an instance and to its class: they run as one chain, and may contradict each other."""
    state.add(one)
    state.call(state.samples[0])
    state.add(other.on("class"))
    state.call(state.samples[0])
    state.pause_all(of="class")
    state.call(state.samples[0])
    state.resume_all()
    for row in state.own_rows():
        state.pause(row)
        state.call(state.samples[0])
        state.pause(row, paused=False)
    _remove_if_there(state, one)
    state.call(state.samples[0])
    _remove_if_there(state, other)
    if other.leaves_open("before"):
        for first, second in (("class", None), (None, "class")):
            state.add(_before(one, other).on(first))
            state.add(other.varied({"before": one.name}).on(second))
            _remove_if_there(state, one)


def _refill(state: OracleMachine, one: Candidate, other: Candidate) -> None:
    """Remove the first hooks: one that is added after that comes after those that are left."""
    for added in (one, one, other):
        state.add(added)
    for _ in range(2):
        _remove_if_there(state, one)
    state.add(one)
    state.call(state.samples[0])


def _pause_twice(state: OracleMachine, one: Candidate, other: Candidate) -> None:
    """Pause two hooks and resume one; pause all twice: they act when both pauses have ended, also by a failure."""
    state.add(one)
    state.add(other)
    for row in state.own_rows():
        state.pause(row)
    state.pause(state.own_rows()[0], paused=False)
    state.call(state.samples[0])
    state.pause_all()
    state.pause_all()
    state.resume_all()
    state.call(state.samples[0])
    state.resume_all(fails=True)
    state.call(state.samples[0])


def _conditioned(first: OracleMachine) -> Iterator[tuple[Candidate, Options]]:
    """Yield each condition, and each two, with one of the hooks of each kind that may have them."""
    style = first.mount.site().signature.style
    for kind in KINDS:
        free = [one for one in first.hooks if one.kind == kind and one.leaves_open("conditions")]
        yield from zip(cycle(free), conditions(kind, style), strict=False)


def _count(state: OracleMachine, one: Candidate, options: Options) -> None:
    state.add(one.varied(options))
    for turn in range(2 * len(state.samples)):
        state.call(state.samples[turn // 2])
    for guest in state.guests:
        if guest.kind == one.kind and guest.does.startswith(("fails", AGAIN)):
            state.call(state.samples[0], guest)


def _crowd(state: OracleMachine, alike: list[Candidate]) -> None:
    """Add so many hooks of a kind that they are called in a loop; one in the middle goes."""
    for one in islice(cycle(alike), _CROWD):
        state.add(one)
    for sample in state.samples:
        state.call(sample)
    _remove_if_there(state, alike[len(alike) // 2])
    state.call(state.samples[0])


def _have_guest(state: OracleMachine, one: Candidate, guest: Guest, drive: str = "") -> None:
    state.add(one)
    samples = state.samples if guest.does == "swallows" else state.samples[-1:] if drive else state.samples[:1]
    for sample in samples:
        state.call(sample, guest, drive)
