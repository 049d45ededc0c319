"""The short stories: up to three hooks, in each order, are added and called; one is removed, and the call made again.

Of few candidates there are also stories of more hooks, and of many candidates not all of the stories: some 200 for two
candidates, 500 to 750 for five or more, which take 1 to 3 seconds (Python 3.11; a target that takes time itself takes
longer). The invariant: nothing here is random. A law that such a story breaks is broken in every run, and the shortest
story is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import cycle, islice, permutations
from math import perm
from typing import Any, TypeVar

from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.options import Options
from aspecthook.testing._calls import quiet
from aspecthook.testing._candidates import put
from aspecthook.testing._stories import with_test
from tests.oracle.candidates import conditions
from tests.oracle.laws import check_refusals, unchanged
from tests.oracle.lifetimes import check_death, check_lifetimes
from tests.oracle.machine_draws import SETTINGS
from tests.oracle.machine_rules import Rules

Story = TypeVar("Story", bound=tuple[str, ...])

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_HOOKS = 3
_MOST = 120  # stories of one size
_FEW = 30  # of more, some that are spread evenly: of hooks of one kind, and of hooks of several kinds
_CALLS = 100  # calls in the stories of one size, with the hooks that were added
_PAIRS = 8  # hooks of which one is named by the other
_CROWD = 25
_CONDITIONED = 20  # stories of a hook with one condition or two
_GUESTS = 60  # stories with a guest


def play_short_stories(machine: type[Rules]) -> None:
    """Play the short stories, and raise what the first, and so the shortest one, raises that fails."""
    before, machine._plays_short_stories = machine._plays_short_stories, True
    try:
        first = machine()
        keys = list(first._keys)
        machine._calls_itself = any(_calls_itself(machine, key) for key in keys)
        _play(machine, _refuse)
        for added, removed, turns in _stories(first):
            _play(machine, partial(_come_and_go, added=added, removed=removed, turns=turns))
        for key in keys[:1]:
            _play(machine, partial(_pause_twice, key=key))
        _play(machine, _let_go)
        check_death(machine)
        for key, other in _some(list(_pairs(first)), _PAIRS):
            _play(machine, partial(_have_twins, key=key, other=other))
            _play(machine, partial(_contradict, key=key, other=other))
            if first._keys[other].leaves_open("priority") and first._keys[key].leaves_open("after"):
                _play(machine, partial(_mean_one_of_two, key=key, other=other))
            if first._expected.parent is not None:
                _play(machine, partial(_share, key=key, other=other))
        for key in keys:
            _play(machine, partial(_change, key=key))
        found = list(_conditioned(first))
        for key, options in found if machine.thorough else _some(found, _CONDITIONED):
            _play(machine, partial(_count, key=key, options=options))
        for kind in KINDS:
            _play(machine, partial(_crowd, kind=kind))
        guests = first._guests
        step = min(len(keys), 1 + len(keys) * len(guests) // (_GUESTS + 1))
        drives = cycle(first._drives)
        for number, key in enumerate(keys):
            for guest in guests[number % step :: step]:  # of many guests, others for each hook
                _play(machine, partial(_have_guest, key=key, guest=guest))
                if first._drives:
                    _play(machine, partial(_have_guest, key=key, guest=guest, drive=next(drives)))
    finally:
        machine._plays_short_stories = before


def _stories(first: Rules) -> Iterator[tuple[tuple[str, ...], str, range]]:
    """Yield the hooks that are added, the one that is removed, and the turns: which of the samples are called with."""
    keys = list(first._keys)
    for size in range(1, len(keys) + 1):
        count = perm(len(keys), size)
        if count <= _MOST:
            stories = list(permutations(keys, size))
        elif size <= _HOOKS:
            stories = [*_alike(first, size), *_mixed(first, size, count)]
        else:
            return
        turns = max(1, min(len(first._samples), _CALLS // len(stories)))
        for number, added in enumerate(stories):
            begin = number if turns < len(first._samples) else 0
            yield added, added[number % size], range(begin, begin + turns)


def _alike(first: Rules, size: int) -> list[tuple[str, ...]]:
    """Return stories of hooks of one kind, whose order is what matters."""
    kinds = [[key for key, one in first._keys.items() if one.kind == kind] for kind in KINDS]
    found = [added for keys in kinds for added in permutations(keys, size)]
    # The kit's own hooks are alike in most of what matters here.
    return found if len(found) <= _MOST and not first._has_kit_hooks else _some(found, _FEW)


def _mixed(first: Rules, size: int, count: int) -> list[tuple[str, ...]]:
    """Return some stories of hooks of several kinds."""
    some = islice(permutations(first._keys, size), 0, None, 1 + count // (2 * _FEW))
    return _some([added for added in some if len({first._keys[key].kind for key in added}) > 1], _FEW)


def _some(stories: list[Story], most: int) -> list[Story]:
    """Return as many of these as there may be, spread evenly."""
    return stories[:: max(1, -(-len(stories) // most))]


def _play(machine: type[Rules], story: Callable[[Rules], None]) -> None:
    state = machine()
    try:
        try:
            story(state)
        finally:
            state.teardown()
    except Exception as error:
        raise with_test(error, machine, state._lines)  # noqa: B904


def _refuse(state: Rules) -> None:
    """Refuse what is wrong on any mount point."""
    with unchanged(state.mount, "refusing hooks"):
        check_refusals(state.mount)


def _come_and_go(state: Rules, added: tuple[str, ...], removed: str, turns: range) -> None:
    for key in added:
        state.add(key)
    for turn in turns:
        state.call(state._samples[turn % len(state._samples)])
    for drive in state._drives if len(added) == 1 else ():
        state.call(state._samples[-1], drive=drive)
    present = {state._key(row) for row in state._own_rows()}
    if len(added) == 2 and len(turns) > 1 and present == {*added}:
        for key in added:
            state.pause(key)
        state.resume(removed)
        state.call(state._samples[0])
    if removed in present:  # else it has acted as often as it may
        state.remove(removed)
        state.call(state._samples[0])


def _pairs(first: Rules) -> Iterator[tuple[str, str]]:
    """Yield for each hook one that it names, or may name, in ``before``."""
    for key, candidate in first._keys.items():
        named: Any = candidate.options.get("before") or candidate.options.get("after") or ()
        alike = [one for one, other in first._keys.items() if other.kind == candidate.kind and one != key]
        meant = [one for one in alike if first._keys[one].name in ((named,) if isinstance(named, str) else named)]
        if meant or (alike and candidate.leaves_open("before")):
            yield key, meant[0] if meant else alike[0]


def _named(state: Rules, key: str, other: str) -> dict[str, Any]:
    """Return the options with which one hook comes before another, unless it has an order of its own."""
    candidate = state._keys[key]
    is_open = candidate.leaves_open("before") and candidate.leaves_open("after")
    return {"before": state._keys[other].name} if is_open else {}


def _have_twins(state: Rules, key: str, other: str) -> None:
    """Add two hooks of one name and one that names them; remove them one by one, and by their name."""
    for _ in range(2):
        state.add(other)
    state.add(key, **_named(state, key, other))
    for _ in range(2):
        state.add(other)
    state.call(state._samples[0])
    for by in ("handle", "block", "name"):
        _remove_if_there(state, other, by)
        state.call(state._samples[0])


def _mean_one_of_two(state: Rules, key: str, other: str) -> None:
    """Add a hook after one of two that have the same name: a handle means that one alone."""
    state.add(other, priority=10)
    state.add(other, priority=90)
    state.add(key, after=state._hook(other))
    state.call(state._samples[0])


def _contradict(state: Rules, key: str, other: str) -> None:
    """Add hooks that contradict each other: they are refused as long as there is something to contradict."""
    state.add(key, **_named(state, key, other))
    state.add(key, **_named(state, key, other))
    contrary = {"before": state._keys[key].name} if state._keys[other].leaves_open("before") else {}
    for _ in range(2):
        state.remove(key)
        state.add(other, **contrary)
    state.call(state._samples[0])


def _remove_if_there(state: Rules, key: str, by: str | None = None) -> None:
    """Remove a hook, unless it has run as often as it may and is removed already."""
    if key in {state._key(row) for row in state._own_rows()}:
        state.remove(key, by=by)


def _share(state: Rules, key: str, other: str) -> None:
    """Add hooks to an instance and to its class: they run as one chain, and may contradict each other."""
    state.add(key)
    state.call(state._samples[0])
    state.add(other, of="class")
    state.call(state._samples[0])
    state.pause_all(of="class")
    state.call(state._samples[0])
    state.resume_all()
    _remove_if_there(state, key)
    state.call(state._samples[0])
    _remove_if_there(state, other)
    if not state._keys[other].leaves_open("before"):
        return
    contrary = {"before": state._keys[key].name}
    for first, second in (("class", None), (None, "class")):
        state.add(key, of=first, **_named(state, key, other))
        state.add(other, of=second, **contrary)
        state.remove(key)


def _let_go(state: Rules) -> None:
    """Drop hooks, and what calls raise: they must be freed."""
    check_lifetimes(state, state._samples[0])


def _pause_twice(state: Rules, key: str) -> None:
    """Pause all hooks twice: they act again when both pauses have ended, also by a failure."""
    state.add(key)
    state.pause_all()
    state.pause_all()
    state.resume_all()
    state.call(state._samples[0])
    state.resume_all(fails=True)
    state.call(state._samples[0])


def _change(state: Rules, key: str) -> None:
    """Add a hook again, as it is and with other options."""
    state.add(key)
    for options in SETTINGS:
        state.repeat(key, options)


def _conditioned(first: Rules) -> Iterator[tuple[str, Options]]:
    """Yield each condition, and each two, with one of the hooks of each kind that may have them."""
    style = first.mount.site().signature.style
    for kind in KINDS:
        free = [key for key, one in first._keys.items() if one.kind == kind and one.leaves_open("conditions")]
        yield from zip(cycle(free), conditions(kind, style), strict=False)


def _count(state: Rules, key: str, options: Options) -> None:
    state.add(key, **options)
    for turn in range(2 * len(state._samples)):
        state.call(state._samples[turn // 2])
    for guest in state._guests:
        if guest.startswith((f"{state._keys[key].kind}: fails", f"{state._keys[key].kind}: again")):
            state.call(state._samples[0], guest=guest)


def _crowd(state: Rules, kind: str) -> None:
    """Add so many hooks of a kind that they are called in a loop; one in the middle goes."""
    keys = [key for key, one in state._keys.items() if one.kind == kind]
    for key in islice(cycle(keys), _CROWD if keys else 0):
        state.add(key)
    for sample in state._samples if keys else ():
        state.call(sample)
    if keys:
        _remove_if_there(state, keys[len(keys) // 2])
        state.call(state._samples[0])


def _have_guest(state: Rules, key: str, guest: str, drive: str = "") -> None:
    state.add(key)
    state.call(state._samples[-1 if drive else 0], guest=guest, drive=drive)


def _calls_itself(machine: type[Rules], key: str) -> bool:
    """Whether a hook, or the target, calls the mount point again, so that its runs cannot be counted."""
    state = machine()
    entered: list[int] = []
    try:
        hook = put(state.mount, state._keys[key])
    except Exception:  # what is wrong with it comes out when it is added
        return False
    try:
        for number, sample in enumerate(state._samples):
            witness = state.mount.add("pre", partial(entered.append, number), name="witness", priority=0)
            with witness, quiet(), suppress(Exception):  # what is wrong with the call itself comes out in the stories
                state._traced(sample)
    finally:
        hook.remove()
        state.teardown()
    return len(entered) > len(set(entered))
