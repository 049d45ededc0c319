"""Law 5 when a change is interrupted: what is raised in the middle leaves the old chain or the new one, and no lock."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from aspecthook import hooks, weave
from aspecthook._core.mount.lock import is_changing, under_lock
from aspecthook._core.mount.point import mount_of
from tests.stress.cases import for_both, run
from tests.threads import at_once

INTERRUPTS = 1500
SECONDS = 3  # bounds each case, and says nothing of it


@contextmanager
def signalled(handler: Any, chance: random.Random) -> Iterator[None]:
    """Send a signal some microseconds from now, unless the block is over by then."""
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 3e-4))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Another thread may have got a signal that this one has not handled yet, and would in what comes next.
        signal.signal(signal.SIGALRM, lambda *_: None)


def strike(*_: object) -> None:
    raise KeyboardInterrupt


def interrupt(work: Callable[[], None], check: Callable[[], None]) -> None:
    """Interrupt a work again and again; check each time, while the exception is still there, as in a debugger."""
    chance = random.Random(1)
    end = time.monotonic() + SECONDS
    struck = 0
    while struck <= 20 or (struck < INTERRUPTS and time.monotonic() < end):  # on a busy machine fewer strike
        kept = None
        try:
            with signalled(strike, chance):
                for _ in range(50):  # a callback of a weak reference swallows what strikes in it
                    work()
        except KeyboardInterrupt as error:
            kept = error
        signal.setitimer(signal.ITIMER_REAL, 0)
        struck += kept is not None
        check()
        del kept


def elsewhere(work: Callable[[], object]) -> None:
    """Do a work in another thread, which stops here if a lock was left held."""
    raised: list[BaseException] = []

    def begin() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "the lock was left held"
    assert raised == [], raised


def check_consistent(function: Any, log: list[str]) -> None:
    """Check that a call runs what the mount point says it carries, and that it can be changed."""
    mount = hooks(function)
    log.clear()
    function()
    assert log == [hook.name for hook in mount.pre], (log, mount.pre)
    log.clear()
    handle = mount.add("post", lambda: log.append("post"), name="post")
    function()
    assert log == [*(hook.name for hook in mount.pre), "post"], (log, mount.pre)
    handle.remove()


def adding_and_removing(function: Any) -> None:
    # `contextlib` stood between the lock and its release: an interrupt there kept the lock while the exception lived.
    log: list[str] = []

    def work() -> None:
        for name in ("one", "two"):
            function.pre(name=name)(partial(log.append, name))
        function()
        hooks(function).clear()

    def check() -> None:
        check_consistent(function, log)
        elsewhere(partial(check_consistent, function, log))

    interrupt(work, check)
    hooks(function).clear()


def pausing(function: Any) -> None:
    # An interrupt may leave a pause behind, as it may skip any `finally` block, but not half a chain or the lock held.
    log: list[str] = []
    for name in ("one", "two"):
        function.pre(name=name)(partial(log.append, name))

    def work() -> None:
        with hooks(function).paused():
            function()
        function()

    def check() -> None:
        for call in (function, partial(elsewhere, function)):
            log.clear()
            call()
            assert log in ([], ["one", "two"]), log

    interrupt(work, check)
    hooks(function).clear()


def signal_handlers_that_change_the_chain(function: Any) -> None:
    # What a handler had added in the middle of a change, or of a call that links, was lost; what it removed came back.
    mine: list[Any] = []
    seen: list[str] = []
    chance = random.Random(2)
    end = time.monotonic() + SECONDS

    def handler(*_: object) -> None:
        if len(mine) > 3:
            mine.pop(0).remove()
        else:
            name = f"of the handler {len(mine)}"
            mine.append(hooks(function).add("pre", partial(seen.append, name), name=name))

    for _ in range(INTERRUPTS):
        with signalled(handler, chance):
            for _ in range(4):
                hook = hooks(function).add("post", lambda: None, name="of the program")
                function()
                hook.remove()
                function()
        assert set(hooks(function)) == set(mine)
        seen.clear()
        function()
        assert seen == [hook.name for hook in mine], (seen, mine)
        if time.monotonic() > end:
            break
    hooks(function).clear()


def called_by_handlers_too(function: Callable[[], object], *, times: int, seed: int) -> int:
    """Call a function so many times between two signals, whose handler calls it too; return how often it was called."""
    calls = 0
    chance = random.Random(seed)
    end = time.monotonic() + SECONDS

    def handler(*_: object) -> None:
        nonlocal calls
        function()
        calls += 1

    for _ in range(INTERRUPTS):
        with signalled(handler, chance):
            for _ in range(times):
                function()
        calls += times
        if time.monotonic() > end:
            break
    return calls


def signal_handlers_that_call_hooks_that_count(function: Any) -> None:
    # From 3.14 on, a handler may run while the hook's counts are locked: in that very thread, which waited for itself.
    counted: list[int] = []
    function.pre(every=2)(lambda: counted.append(1))
    function.post(times=10**9)(lambda: None)
    calls = called_by_handlers_too(function, times=60, seed=3)
    assert len(counted) == calls // 2
    hooks(function).clear()


def waiting_for_the_lock() -> None:
    # From 3.14 on, an interrupt between taking the lock and the block that releases it left the lock held for good.
    busy = threading.Event()

    def change_all_the_time() -> None:
        # A signal that came to this thread would strike the other one late, when its work is over.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        while not busy.is_set():
            under_lock(time.sleep)(1e-5)

    thread = threading.Thread(target=change_all_the_time, daemon=True)
    thread.start()
    nested = under_lock(under_lock(int))
    try:
        interrupt(under_lock(nested), lambda: elsewhere(nested))
    finally:
        busy.set()
        thread.join(10)
    assert not is_changing() and not thread.is_alive()


def attributes_while_it_is_woven() -> None:
    # Its `__dict__` is ours while it is woven: the one that was there is back, and has what was written meanwhile.
    def function() -> int:
        return 1

    space, code, written = vars(function), function.__code__, 0
    function.before = function.number = written

    def work() -> None:
        nonlocal written
        with weave(function, pre=lambda: None):
            function.number = written + 1
            written += 1
            function()

    def check() -> None:
        weave(function, pre=lambda: None).remove()  # an interrupt may have left a weaving that nobody has
        if mount_of(function) is not None:
            hooks(function).clear()
        assert function.number in (written, written + 1), (function.number, written)
        assert vars(function) is space and space == {"before": 0, "number": function.number}
        assert function.__code__ is code

    interrupt(work, check)


def calling_hooks_that_count(function: Any) -> None:
    # An interrupt left the lock of the counts held, from 3.14 on, and then every call of another thread waited for it.
    function.pre(every=2)(lambda: None)
    function.post(times=10**9)(lambda: None)

    def check() -> None:
        function()
        at_once(function, within=10)

    interrupt(function, check)
    hooks(function).clear()


CASES = {
    "attributes_while_it_is_woven": attributes_while_it_is_woven,
    "adding_and_removing": for_both(adding_and_removing),
    "pausing": for_both(pausing),
    "waiting_for_the_lock": waiting_for_the_lock,
    "calling_hooks_that_count": for_both(calling_hooks_that_count),
    "signal_handlers_that_call_hooks_that_count": for_both(signal_handlers_that_call_hooks_that_count),
    "signal_handlers_that_change_the_chain": for_both(signal_handlers_that_change_the_chain),
}
if __name__ == "__main__":
    run(CASES)
