"""Stories: the steps that a machine makes. The short ones are played, and any that fails is made minimal.

In the short stories up to four hooks, in each order, are added and called; then one is removed, and the call is made
again. The invariant: nothing here is random. The arguments are drawn by Hypothesis, always the same ones; a law that a
story breaks is broken in every run. A story that fails is made minimal: first its steps, then the arguments of its
calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, permutations
from math import perm
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample, UnsatisfiedAssumption

from aspecthook._errors import HookTypeError, brief

from ._calls import Given
from ._repeat import copy_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_HOOKS = 4  # of which each order is tried
_STORIES = 120  # of one size; if there are more, some that are spread evenly
_LONG = 40  # orders of all hooks, if there are more of them: each order of four is in one of these, or nearly each
# Calls in all stories of one size, if there are few stories; a real function is called, so they are few.
_CALLS = {1: 6, 2: 24, 3: 48, 4: 48}
_FEW = 24  # stories of one size, or fewer: then hooks are removed, of two hooks one after the other
SAMPLES = 12
_STARTS = 3  # from which the arguments of a story are made simple


class Arguments(NamedTuple):
    """What one call is given. Its `repr` is what is written between the parentheses of ``state.call()``."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.args!r}, kwargs={self.kwargs!r}" if self.kwargs else repr(self.args)


class Step(NamedTuple):
    """One step of a story: a method of the machine, and the hook or the arguments that it takes."""

    method: str
    given: Any

    def __repr__(self) -> str:
        return f"state.{self.method}({self.given!r})"


def read_arguments(owner: str, drawn: Any) -> Arguments:
    """Read what a strategy of arguments has drawn.

    Raises:
        HookTypeError: It is not a pair of positional and named arguments.
    """
    row = cast("Sequence[Any]", drawn) if isinstance(drawn, (tuple, list)) else ()
    args, kwargs = row if len(row) == 2 else (None, None)
    if isinstance(args, (tuple, list)) and isinstance(kwargs, Mapping):
        return Arguments(tuple(cast("Sequence[Any]", args)), dict(cast("Mapping[str, Any]", kwargs)))
    shown = brief(cast("object", drawn))
    raise HookTypeError(
        f"{owner}.arguments draws {shown}; it must draw pairs of the positional arguments and a dict of the "
        "named ones, for example st.tuples(st.tuples(st.integers()), st.just({}))"
    )


# Drawing


def samples_of(arguments: st.SearchStrategy[Any]) -> list[Any]:
    """Return what a strategy draws first, the simplest at the head; always the same."""
    found: list[Any] = []

    def note(drawn: Any) -> bool:
        found.append(drawn)
        return False

    _search(arguments, note)
    return found[:SAMPLES]


# Any: arguments of any sort.
def _search(arguments: st.SearchStrategy[Any], is_wanted: Callable[[Any], bool]) -> Any:
    """Return the simplest of the drawn arguments that are wanted; None if none of the first ones is."""
    # Not to be explained: that traces lines, and the machine may be traced already; Hypothesis warns of the second.
    phases = (Phase.generate, Phase.shrink)
    few = settings(max_examples=SAMPLES, phases=phases, database=None, deadline=None, print_blob=False)
    try:
        return find(arguments, is_wanted, settings=few, random=Random(0))
    except NoSuchExample:
        return None


# Playing


# Any: a `HookMachine`, whose module imports this one.
def play_short_stories(machine: type[Any]) -> Any:
    """Play the short stories, and return a machine.

    Raises:
        Exception: What the first story raises that fails, which is the shortest; with a test that repeats it.
    """
    first = machine()
    first.teardown()
    seen: set[tuple[str, ...]] = set()
    for story in _stories(list(first._keys), first._samples):
        played, error = _play(machine, story, seen)
        if error is not None:
            raise _shortest(machine, played, error)
    return first


def _stories(keys: Sequence[str], samples: Sequence[Arguments]) -> Iterator[list[Step]]:
    """Yield the stories, the shortest first."""
    for size in range(1, min(len(keys), _HOOKS) + 1):
        orders = _orders(keys, size)
        turns = max(1, min(len(samples), _CALLS[size] // len(orders)))
        for number, added in enumerate(orders):
            chosen = [(number + turn) % len(samples) if turns < len(samples) else turn for turn in range(turns)]
            # A hook or a target that remembers something shows it when a call is repeated.
            again = chosen[0]
            chosen[-1:] = [again] if 2 < turns < len(samples) else chosen[-1:]
            calls = [Step("call", samples[place]) for place in chosen]
            begun = [Step("add", key) for key in added]
            removed = added[number % size]
            if size > 2 and len(orders) > _FEW:
                yield [*begun, *calls]
                continue
            last = [calls[0]]
            yield [*begun, *calls, Step("remove", removed), *last]
            for key in added if size == 2 and len(keys) < _HOOKS else ():
                if key != removed:
                    yield [*begun, *last, Step("remove", key), *last]


def _orders(keys: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Return the orders in which so many hooks are added."""
    if size == _HOOKS < len(keys):
        shuffle = Random(0).sample
        return [tuple(shuffle(keys, len(keys))) for _ in range(_LONG)]
    return list(islice(permutations(keys, size), 0, None, -(-perm(len(keys), size) // _STORIES)))


def _play(
    machine: type[Any], story: Sequence[Step], seen: set[tuple[str, ...]] | None = None
) -> tuple[list[Step], Exception | None]:
    """Play a story on a new target; return the steps that were played, and what the last of them raised.

    Hooks of different kinds run in one order however they were added. So a story with `seen` is left out where its
    hooks have run in this order already, and what comes after its calls has happened too.
    """
    played: list[Step] = []
    state = machine()
    try:
        for place, step in enumerate(story):
            if step.method == "remove" and step.given not in state._present:
                continue  # it has run as often as it may
            if step.method == "call" and seen is not None and state._is_plain():
                chain = (*state._order(), *(repr(one) for one in story[place:] if one.method == "remove"))
                if chain in seen:
                    break
                seen.add(chain)
                seen = None
            played.append(step)
            getattr(state, step.method)(*_taken(step))
            if step.method == "add" and step.given not in state._present:
                break  # hooks that contradict each other are refused, as they should be
    except UnsatisfiedAssumption:
        return played, None
    except Exception as error:
        return played, error
    finally:
        state.teardown()
    return played, None


def _taken(step: Step) -> tuple[Any, ...]:
    """Return what the method of a step takes; of arguments a copy, since a call may change them."""
    return tuple(copy_of(Given(*step.given))[:2]) if step.method == "call" else (step.given,)


def _shortest(machine: type[Any], story: list[Step], error: Exception) -> Exception:
    """Return what the shortest story raises that fails as this one does, with a test that repeats it.

    That is the error itself, if the story does not fail when it is played again.
    """
    _, again = _play(machine, story)
    if again is None or type(again) is not type(error):
        return error
    steps, found = _minimal(machine, story, again)
    return with_test(found, machine, map(repr, steps))


def _minimal(machine: type[Any], story: list[Step], error: Exception) -> tuple[list[Step], Exception]:
    """Leave out the steps that a failure does not need, and make the arguments of the others simple."""
    best = error

    def fails(steps: list[Step]) -> bool:
        nonlocal best
        _, other = _play(machine, steps)
        if other is None or type(other) is not type(error) or getattr(other, "law", "") != getattr(error, "law", ""):
            return False
        best = other
        return True

    size = len(story) + 1
    while len(story) < size:
        size = len(story)
        for place in reversed(range(size)):
            shorter = [*story[:place], *story[place + 1 :]]
            story = shorter if shorter and fails(shorter) else story
    for given in {repr(step.given): step.given for step in story if step.method == "call"}.values():
        story = _simplest(machine, story, given, fails)
    fails(story)  # so that the error is of this very story
    return story, best


def _simplest(
    machine: type[Any], story: list[Step], given: Arguments, fails: Callable[[list[Step]], bool]
) -> list[Step]:
    """Return a story with the simplest arguments that it fails with, in the place of some that its calls are given.

    Hypothesis makes simple what it finds first, which may lead to a place from where no small step leads further: so
    it begins at several.
    """

    def replaced(drawn: Any) -> list[Step]:
        simpler = read_arguments(machine.__name__, drawn)
        return [step._replace(given=simpler) if step.given == given else step for step in story]

    def search(passed: int) -> tuple[int, Any]:
        asked, first = 0, -1

        def is_wanted(drawn: Any) -> bool:
            nonlocal asked, first
            asked += 1
            wanted = asked > passed and fails(replaced(drawn))
            first = asked if wanted and first < 0 else first
            return wanted

        drawn = _search(machine()._drawn_from, is_wanted)
        return first, drawn

    found = [story]
    passed = 0
    for _ in range(_STARTS):
        passed, drawn = search(passed)
        if drawn is None:
            break
        found.append(replaced(drawn))
    return min(found, key=lambda one: (len(repr(one)), repr(one)))


# A failure, written as a test that repeats it


def with_test(error: Exception, machine: type[Any], lines: Iterable[str]) -> Exception:
    """Add a test that repeats a failure to an error, as a note."""
    test = source_of_test(machine, getattr(error, "law", "") or "story", lines)
    error.add_note(f"To see it again:\n\n{test}\n")
    return error


def source_of_test(machine: type[Any], name: str, lines: Iterable[str]) -> str:
    """Write a test function of these lines, in which ``state`` is the machine."""
    module, path = machine.__module__, machine.__qualname__
    if module == "__main__":  # as another file imports it
        file = getattr(sys.modules[module], "__file__", None)
        module = Path(file).stem if file else module
    words = "".join([char if char.isalnum() else "_" for char in name]).strip("_") or "story"
    test = [f"def test_{words}():", *(f"    {line}" for line in lines), "    state.teardown()"]
    if "<locals>" not in path:
        test.insert(1, f"    state = {path}()")
        return "\n".join([f"from {module} import {path.partition('.')[0]}", "", "", *test])
    # Nobody can import a class that a function makes: the test belongs behind the class, and is called there.
    test.insert(1, f"    state = {machine.__name__}()")
    where = f"# In {path.partition('.<locals>')[0]} of {module}, after the class {machine.__name__}:"
    return "\n".join([where, *test, "", f"test_{words}()"])
