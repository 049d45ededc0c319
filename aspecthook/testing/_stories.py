"""Stories: the actions that a machine makes. The short ones are played, and any that fails is made minimal.

In the short stories up to four hooks, in each order, are added and called; then one is removed, and the call is made
again. The invariant: nothing here is random. The arguments are drawn by Hypothesis, always the same ones; a law that a
story breaks is broken in every run. A story that fails is made minimal: first its actions, then the arguments of its
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
_SAMPLES = 12
_STARTS = 3  # from which the arguments of a story are made simple


class Arguments(NamedTuple):
    """What one call is given. Its `repr` is what is written between the parentheses of ``state.call()``."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.args!r}, kwargs={self.kwargs!r}" if self.kwargs else repr(self.args)


class Action(NamedTuple):
    """One action of a story: a method of the machine, and the hook or the arguments that it takes."""

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
    return found[:_SAMPLES]


# Any: arguments of any sort.
def _search(arguments: st.SearchStrategy[Any], is_wanted: Callable[[Any], bool]) -> Any:
    """Return the simplest of the drawn arguments that are wanted; None if none of the first ones is."""
    # Not to be explained: that traces lines, and the machine may be traced already; Hypothesis warns of the second.
    phases = (Phase.generate, Phase.shrink)
    few = settings(max_examples=_SAMPLES, phases=phases, database=None, deadline=None, print_blob=False)
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


def _stories(keys: Sequence[str], samples: Sequence[Arguments]) -> Iterator[list[Action]]:
    """Yield the stories, the shortest first."""
    for size in range(1, min(len(keys), _HOOKS) + 1):
        orders = _orders(keys, size)
        turns = max(1, min(len(samples), _CALLS[size] // len(orders)))
        for number, added in enumerate(orders):
            chosen = [(number + turn) % len(samples) if turns < len(samples) else turn for turn in range(turns)]
            # A hook or a target that remembers something shows it when a call is repeated.
            again = chosen[0]
            chosen[-1:] = [again] if 2 < turns < len(samples) else chosen[-1:]
            calls = [Action("call", samples[place]) for place in chosen]
            begun = [Action("add", key) for key in added]
            removed = added[number % size]
            if size > 2 and len(orders) > _FEW:
                yield [*begun, *calls]
                continue
            last = [calls[0]]
            yield [*begun, *calls, Action("remove", removed), *last]
            for key in added if size == 2 and len(keys) < _HOOKS else ():
                if key != removed:
                    yield [*begun, *last, Action("remove", key), *last]


def _orders(keys: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Return the orders in which so many hooks are added."""
    if size == _HOOKS < len(keys):
        shuffle = Random(0).sample
        return [tuple(shuffle(keys, len(keys))) for _ in range(_LONG)]
    return list(islice(permutations(keys, size), 0, None, -(-perm(len(keys), size) // _STORIES)))


def _play(
    machine: type[Any], story: Sequence[Action], seen: set[tuple[str, ...]] | None = None
) -> tuple[list[Action], Exception | None]:
    """Play a story on a new target; return the actions that were played, and what the last of them raised.

    Hooks of different kinds run in one order however they were added. So a story with `seen` is left out where its
    hooks have run in this order already, and what comes after its calls has happened too.
    """
    played: list[Action] = []
    state = machine()
    try:
        for place, action in enumerate(story):
            if action.method == "remove" and action.given not in state._present:
                continue  # it has run as often as it may
            if action.method == "call" and seen is not None and state._is_plain():
                chain = (*state._order(), *(repr(one) for one in story[place:] if one.method == "remove"))
                if chain in seen:
                    break
                seen.add(chain)
                seen = None
            played.append(action)
            getattr(state, action.method)(*_taken(action))
            if action.method == "add" and action.given not in state._present:
                break  # hooks that contradict each other are refused, as they should be
    except UnsatisfiedAssumption:
        return played, None
    except Exception as error:
        return played, error
    finally:
        state.teardown()
    return played, None


def _taken(action: Action) -> tuple[Any, ...]:
    """Return what the method of an action takes; of arguments a copy, since a call may change them."""
    return tuple(copy_of(Given(*action.given))[:2]) if action.method == "call" else (action.given,)


def _shortest(machine: type[Any], story: list[Action], error: Exception) -> Exception:
    """Return what the shortest story raises that fails as this one does, with a test that repeats it.

    That is the error itself, if the story does not fail when it is played again.
    """
    _, again = _play(machine, story)
    if again is None or _sort_of(again) != _sort_of(error):
        return error
    actions, found = _minimal(machine, story, again)
    found.add_note(f"To see it again:\n\n{_source_of_test(machine, _sort_of(found)[1] or 'story', actions)}\n")
    return found


def _sort_of(error: Exception | None) -> tuple[type[Any], str]:
    """Return what makes two failures the same: their type, and the law that is broken."""
    return type(error), getattr(error, "law", "")


def _minimal(machine: type[Any], story: list[Action], error: Exception) -> tuple[list[Action], Exception]:
    """Leave out the actions that a failure does not need, and make the arguments of the others simple."""
    best = error

    def fails(actions: list[Action]) -> bool:
        nonlocal best
        _, other = _play(machine, actions)
        if other is None or _sort_of(other) != _sort_of(error):
            return False
        best = other
        return True

    size = len(story) + 1
    while len(story) < size:
        size = len(story)
        for place in reversed(range(size)):
            shorter = [*story[:place], *story[place + 1 :]]
            story = shorter if shorter and fails(shorter) else story
    for given in {repr(action.given): action.given for action in story if action.method == "call"}.values():
        story = _simplest(machine, story, given, fails)
    fails(story)  # so that the error is of this very story
    return story, best


def _simplest(
    machine: type[Any], story: list[Action], given: Arguments, fails: Callable[[list[Action]], bool]
) -> list[Action]:
    """Return a story with the simplest arguments that it fails with, in the place of some that its calls are given.

    Hypothesis makes simple what it finds first, which may lead to a place from where no small step leads further: so
    it begins at several.
    """

    def replaced(drawn: Any) -> list[Action]:
        simpler = read_arguments(machine.__name__, drawn)
        return [action._replace(given=simpler) if action.given == given else action for action in story]

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


def _source_of_test(machine: type[Any], name: str, story: Iterable[Action]) -> str:
    """Write a failure as a test function that repeats it, in which ``state`` is the machine."""
    module, path = machine.__module__, machine.__qualname__
    if module == "__main__":  # as another file imports it
        file = getattr(sys.modules[module], "__file__", None)
        module = Path(file).stem if file else module
    words = "".join([char if char.isalnum() else "_" for char in name]).strip("_") or "story"
    test = [f"def test_{words}():", *(f"    {action!r}" for action in story), "    state.teardown()"]
    if "<locals>" not in path:
        test.insert(1, f"    state = {path}()")
        return "\n".join([f"from {module} import {path.partition('.')[0]}", "", "", *test])
    # Nobody can import a class that a function makes: the test belongs behind the class, and is called there.
    test.insert(1, f"    state = {machine.__name__}()")
    where = f"# In {path.partition('.<locals>')[0]} of {module}, after the class {machine.__name__}:"
    return "\n".join([where, *test, "", f"test_{words}()"])
