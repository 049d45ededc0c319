"""Law 5 at every call that a change makes: what a signal handler raises or changes there leaves no half a chain.

`tests/stress/interrupts.py` strikes at random instructions. Here a profiler stands in for the handler: CPython runs
handlers where a function is entered, and there the profiler is called.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import aspecthook
from aspecthook import hookable, hooks, weave
from aspecthook._core.mount.lock import is_changing

PACKAGE = str(Path(aspecthook.__file__).parent)

# What strikes in the callback of a weak reference cannot be raised, and Python warns of it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@contextmanager
def entering(act: Callable[[], bool]) -> Iterator[None]:
    """Act wherever the package enters a function, or takes the lock, until the act says that it is done."""

    def profile(frame: FrameType, event: str, called: object) -> None:
        entered = event == "call" or (event == "c_call" and getattr(called, "__name__", "") == "acquire")
        if entered and frame.f_code.co_filename.startswith(PACKAGE):
            sys.setprofile(None)
            if not act():
                sys.setprofile(profile)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


def strikes(work: Callable[[], object]) -> Iterator[Callable[[Callable[[], object]], Callable[[], bool]]]:
    """Yield, for each call that a work makes, what makes an act strike at that call."""
    calls = 0

    def count() -> bool:
        nonlocal calls
        calls += 1
        return False

    with entering(count):
        work()
    for place in range(calls):

        def strike_with(act: Callable[[], object], place: int = place) -> Callable[[], bool]:
            left = iter(range(place + 1))

            def strike() -> bool:
                if next(left, None) != place:
                    return False
                act()
                return True

            return strike

        yield strike_with


def raising() -> None:
    raise KeyboardInterrupt


class Target:
    """A mount point, of its function or of one instance, and what ran in its calls."""

    def __init__(self, *, of_instance: bool) -> None:
        self.log: list[str] = []

        class Shop:
            @hookable
            def price(self) -> None: ...

        self.shop, self.plain = Shop(), Shop.price.__code__
        self.mount: Any = hooks(self.shop.price) if of_instance else hooks(Shop.price)
        self.others: Any = hooks(Shop.price)

    def add(self, kind: Any, name: str) -> Any:
        return self.mount.add(kind, partial(self.log.append, name), name=name)

    def ran(self) -> list[str]:
        """Make a call, and return which hooks ran in it."""
        self.log.clear()
        self.shop.price()
        return self.log.copy()

    def change(self) -> None:
        """Make a change of every sort, and calls between them."""
        one = self.add("pre", "one")
        self.shop.price()
        self.add("post", "two")
        self.shop.price()
        with self.mount.paused():
            self.shop.price()
        one.remove()
        self.shop.price()
        self.mount.clear()

    def check(self) -> None:
        """Check that the mount point is whole: it runs the hooks that it shows, can be changed, and leaves no trace."""
        assert not is_changing()
        assert not self.mount.pauses
        assert self.ran() == [hook.name for hook in (*self.mount.pre, *self.mount.post)]
        handle = self.add("post", "last")
        assert self.ran() == [hook.name for hook in (*self.mount.pre, *self.mount.post)]
        assert self.log[-1] == "last"
        handle.remove()
        self.mount.clear()
        assert self.ran() == []
        assert type(self.shop).price.__code__ is self.plain


@pytest.mark.parametrize("of_instance", [False, True], ids=["function", "instance"])
def test_an_interrupt_at_any_call_of_a_change_leaves_a_whole_chain(*, of_instance: bool) -> None:
    Target(of_instance=of_instance).change()  # what is loaded and cached at the first time
    struck = 0
    for strike_with in strikes(Target(of_instance=of_instance).change):
        target = Target(of_instance=of_instance)
        try:
            with entering(strike_with(raising)):
                target.change()
        except KeyboardInterrupt:
            struck += 1
            target.check()  # the frames of the error live on, as in a debugger
        else:
            target.check()
    assert struck > 100


@pytest.mark.parametrize("of_instance", [False, True], ids=["function", "instance"])
def test_a_change_that_a_signal_handler_makes_in_the_middle_of_another_is_kept(*, of_instance: bool) -> None:
    def work(target: Target) -> None:
        mine = target.add("pre", "mine")
        target.shop.price()
        mine.remove()
        target.shop.price()

    def add(target: Target) -> None:
        theirs.append(target.others.add("always", partial(target.log.append, "theirs"), name="theirs"))
        target.shop.price()

    theirs: list[Any] = []
    work(Target(of_instance=of_instance))
    struck = 0
    for strike_with in strikes(partial(work, Target(of_instance=of_instance))):
        target = Target(of_instance=of_instance)
        with entering(strike_with(partial(add, target))):
            work(target)
        assert target.ran() == [hook.name for hook in theirs]
        if theirs:
            struck += 1
            handle = theirs.pop()
            with entering(strike_with(handle.remove)):
                work(target)
            assert target.ran() == [hook.name for hook in target.others]
            handle.remove()
        target.check()
    assert struck > 100


@pytest.mark.parametrize("of_instance", [False, True], ids=["function", "instance"])
def test_a_hook_that_is_added_while_a_finalizer_drops_the_last_other_one_runs(*, of_instance: bool) -> None:
    """A collection in the middle of a change found an instance with the last hook, and so closed the place.

    The change went on, and left the place open without its mount point: no hook of any instance ran any more.
    """

    def work(target: Target) -> None:
        target.add("pre", "mine")

    def hooked() -> Target:
        """Return a target whose only hook is one of an instance that a collection would free."""
        target = Target(of_instance=of_instance)
        other: Any = type(target.shop)()
        hooks(other.price).add("pre", partial(target.log.append, "theirs"))
        target.shop.price()
        other.itself = other
        return target

    work(hooked())
    struck = 0
    for strike_with in strikes(partial(work, hooked())):
        target = hooked()
        with entering(strike_with(gc.collect)):
            work(target)
        struck += not target.others.instances.keys() - {id(target.shop)}
        assert target.ran() == ["mine"]
        gc.collect()  # where it has not struck
        target.check()
    assert struck > 20


def test_an_interrupt_at_any_call_of_a_weaving_leaves_none_or_one_that_can_be_removed() -> None:
    def work(target: Target) -> None:
        with weave(type(target.shop).price, pre=partial(target.log.append, "woven"), name="woven"):
            target.shop.price()

    work(Target(of_instance=False))
    for strike_with in strikes(partial(work, Target(of_instance=False))):
        target = Target(of_instance=False)
        try:
            with entering(strike_with(raising)):
                work(target)
        except KeyboardInterrupt:
            target.check()
        else:
            target.check()
