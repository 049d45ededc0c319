"""What `pytest --hook-orders` does: run a test with hooks in another order, and find the pair whose order matters.

The orders are those that adding the same hooks in another sequence would produce: priorities, ``before`` and ``after``
hold, and a rank decides between hooks of one priority. A rank belongs to what a hook is (its mount point, kind and
name), not to the object: a fixture makes it anew for each run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, permutations, zip_longest
from random import Random
from typing import NamedTuple, final
from weakref import WeakKeyDictionary

import pytest
from _pytest.runner import runtestprotocol  # what other plugins use that run a test again

from _aspecthook_pytest import ORDERS

from ._mount import Hook, MountPoint, ties_broken_by
from ._repeat import swaps

_MOST = 120  # orders that "all" tries: those of five hooks
_LEFT = "make it start from the same state in each run, since what a module or a session holds stays"


class Key(NamedTuple):
    """What a hook is in each run of a test: where it is, its kind, priority and name, and which of that name."""

    label: str
    kind: str
    priority: int
    name: str
    number: int


@final
class Ranks:
    """The order of one run of a test: the rank of each hook, and which hooks there were."""

    def __init__(self, rank: Callable[[Key], float]) -> None:
        self._rank = rank
        self._keys: WeakKeyDictionary[Hook, Key] = WeakKeyDictionary()
        self._counts: Counter[tuple[object, ...]] = Counter()
        self.added: dict[Key, int] = {}

    def key_of(self, hook: Hook) -> Key:
        """Return what a hook is in each run."""
        key = self._keys.get(hook)
        if key is None:
            mount = hook._mount()
            parts = ("" if mount is None else mount.name, hook.kind, hook.priority, hook.name)
            counted = (id(mount), *parts)  # another mount point of that name may be left from an earlier run
            key = self._keys[hook] = Key(*parts, self._counts[counted])
            self._counts[counted] += 1
        return key

    def __call__(self, hook: Hook) -> float:
        """Return the rank of a hook among those of its priority, and note that its chain was linked in this run."""
        key = self.key_of(hook)
        self.added[key] = hook.added
        return self._rank(key)


@contextmanager
def ordered(ranks: Ranks, mounts: Iterable[MountPoint]) -> Generator[None]:
    """Run the hooks of all mount points by the ranks inside the `with` block, and as before after it."""
    several = [mount for mount in mounts if len(mount) > 1]
    for hook in sorted((hook for mount in several for hook in mount.members), key=lambda hook: hook.added):
        ranks.key_of(hook)
    try:
        with ties_broken_by(ranks):
            for mount in several:
                mount.rearrange()
            yield
    finally:
        for mount in (*several, *[mount for mount in mounts if len(mount) > 1]):
            mount.rearrange()


class Pair(NamedTuple):
    """Two hooks that must run in the order in which they were added."""

    first: Key
    second: Key

    def sentence(self, test: str) -> str:
        """Return what is wrong, and what to write."""
        first, second = self
        advice = f"write after={first.name!r} on {second.name!r}"
        if first.name == second.name:
            advice = "give them names by name=, and the second after= the first"
        return (
            f"{test} fails when {second.name!r} runs before {first.name!r} on {first.label}, and passes in the order "
            f"of adding; {advice}"
        )


# Runs the test by a rank for each hook; returns whether it has failed, and which hooks there were.
Run = Callable[[Callable[[Key], float]], tuple[bool, Mapping[Key, int]]]


def _by_seed(seed: str, test: str) -> Callable[[Key], float]:
    """Return the ranks of a test: always the same ones for a seed."""
    return lambda key: Random(f"{seed} {test} {key}").random()


def _by_adding(key: Key) -> float:  # noqa: ARG001
    """Return the rank that leaves the order of adding as it is."""
    return 0.0


def _by_place(keys: Sequence[Key]) -> Callable[[Key], float]:
    places = {key: place for place, key in enumerate(keys)}
    return lambda key: places.get(key, len(places))


def _all_orders(added: Mapping[Key, int]) -> Iterator[Callable[[Key], float]]:
    """Yield the ranks for each order of the hooks of each mount point, those of the others as they were added."""
    rows: dict[tuple[str, str, int], list[Key]] = {}
    for key in sorted(added, key=added.__getitem__):
        rows.setdefault((key.label, key.kind, key.priority), []).append(key)
    # By turns, so that the shorter ones come to an end before the longer ones use up what is tried.
    for turn in zip_longest(*(islice(permutations(row), 1, None) for row in rows.values())):
        yield from (_by_place(order) for order in turn if order is not None)


def _narrowed(run: Run, rank: Callable[[Key], float], added: Mapping[Key, int]) -> Pair | None:
    """Return the pair whose order decides, of a test that fails by this rank and passes in the order of adding.

    The way from one order to the other goes by swaps of two neighbours. Somewhere on it the test begins to fail; a
    binary search finds such a place. None if the test fails no more.
    """
    order = sorted(added, key=added.__getitem__)
    places = list(swaps(order, sorted(order, key=rank)))

    def after(count: int) -> list[Key]:
        made = [*order]
        for place in places[:count]:
            made[place : place + 2] = made[place + 1], made[place]
        return made

    passes, fails = 0, len(places)
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if run(_by_place(after(middle)))[0]:
            fails = middle
        else:
            passes = middle
    if not places or not run(_by_place(after(fails)))[0]:
        return None
    place = places[fails - 1]
    return Pair(*after(fails - 1)[place : place + 2])


def failing(run: Run, seed: str, test: str) -> str | None:
    """Run a test in other orders of hooks; return what is wrong, if it fails in one and not in that of adding.

    Return None if the test fails in the order of adding at once. With 'all', a test that first passes in that order and
    later fails is reported as depending on an earlier run.
    """
    ranks: Iterable[Callable[[Key], float]] = (_by_seed(seed, test),)
    if seed == "all":
        failed, added = run(_by_adding)
        if failed:
            return None
        ranks = islice(_all_orders(added), _MOST)
    for rank in ranks:
        failed, added = run(rank)
        if failed:
            if len(added) < 2:
                return None
            if run(_by_adding)[0]:
                return None if seed != "all" else f"{test} passes once, and fails when it is run again: {_LEFT}"
            pair = _narrowed(run, rank, added)
            flaky = f"{test} fails now and then, whatever the order of its hooks"
            return flaky if pair is None else pair.sentence(test)
    return None


# For pytest


def run_item(
    item: pytest.Item,
    nextitem: pytest.Item | None,
    seed: str,
    mounts: Iterable[MountPoint],
    remove_added: Callable[[], None],
) -> None:
    """Run a test of a suite in another order of hooks, and report it once."""
    runs: list[list[pytest.TestReport]] = []

    def run(rank: Callable[[Key], float]) -> tuple[bool, Mapping[Key, int]]:
        if runs:
            remove_added()
        ranks = Ranks(rank)
        with ordered(ranks, mounts):
            runs.append(runtestprotocol(item, log=False, nextitem=nextitem))
        return has_failed(runs[-1]), ranks.added

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    sentence = failing(run, seed, item.nodeid)
    failed = [*filter(has_failed, runs)]
    reports = runs[-1] if not failed else failed[-1]
    if sentence is None and len(failed) == 2 and _why(failed[0]) != _why(failed[1]):
        reports = failed[0]
        sentence = f"{item.nodeid} fails in another way when it is run again in the order of adding: {_LEFT}"
    for report in reports:
        if sentence is not None and report.failed:
            report.sections.insert(0, (ORDERS, f"{sentence}\nto see it again: --hook-orders={seed}"))
            sentence = None
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _why(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return the messages of what a failed run of a test has raised."""
    crashes = [getattr(report.longrepr, "reprcrash", None) for report in reports if report.failed]
    return [getattr(crash, "message", "") for crash in crashes]


def has_failed(reports: Iterable[pytest.TestReport]) -> bool:
    """Whether a run of a test has failed, or its setup or teardown."""
    return any(report.failed for report in reports)


def check_orders(check: Callable[[], object], seed: str, test: str, mounts: Iterable[MountPoint]) -> None:
    """Raise an `AssertionError` if a check fails in an order of hooks, and passes in that of adding."""
    errors: list[BaseException] = []

    def run(rank: Callable[[Key], float]) -> tuple[bool, Mapping[Key, int]]:
        ranks, before = Ranks(rank), len(errors)
        with ordered(ranks, mounts):
            try:
                check()
            except (Exception, pytest.fail.Exception) as error:
                errors.append(error)
        return len(errors) > before, ranks.added

    sentence = failing(run, seed, test)
    if errors:
        raise errors[-1] if sentence is None else AssertionError(sentence) from errors[-1]
