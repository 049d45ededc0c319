"""The profile of hooks: exact counts, the times of the hooks themselves, and nothing left of it."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading

import pytest

from aspecthook import Args, HookOptionError, Return, hookable, hooks, weave
from aspecthook.record import _profile, profile


class Clock:
    """A clock that only moves when somebody moves it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(_profile, "CLOCK", (made,))
    return made


@pytest.fixture
def total(clock):
    @hookable
    def total(n):
        clock.now += 100.0
        return n

    return total


def costs_of(costs, mount):
    return {(cost.kind, cost.hook): (cost.calls, cost.time) for cost in costs if cost.mount == hooks(mount).name}


def test_each_hook_is_counted_and_measured_by_itself(total, clock):
    @total.pre
    def double(n):
        clock.now += 1.0
        return Args(n=2 * n)

    @total.around
    def around(proceed):
        clock.now += 2.0
        result = proceed()
        clock.now += 0.5
        return result

    @total.around
    def inner():
        clock.now += 4.0
        yield
        clock.now += 0.25

    @total.post
    def negate(result):
        clock.now += 8.0
        return -result

    @total.always(when=lambda n: n > 2)
    def end(exc):
        clock.now += 16.0

    with profile() as costs:
        assert [total(n) for n in range(3)] == [0, -2, -4]
    assert costs_of(costs, total) == {
        ("pre", "double"): (3, 3.0),
        ("around", "around"): (3, 7.5),
        ("around", "inner"): (3, 12.75),
        ("post", "negate"): (3, 24.0),
        ("always", "end"): (1, 16.0),
    }
    assert str(costs).splitlines()[0].split() == ["mount", "point", "kind", "hook", "calls", "time", "a", "call"]
    assert total(1) == -2 and costs_of(costs, total)["pre", "double"] == (3, 3.0)


def test_hooks_that_fail_are_counted_and_the_exception_is_theirs(total, clock):
    @total.pre
    def refuse(n):
        clock.now += 1.0
        raise KeyError(n)

    @total.exception(KeyError)
    def recover(exc):
        clock.now += 2.0
        return Return(str(exc))

    with profile() as costs:
        assert total(1) == "1"
    assert costs_of(costs, total) == {("pre", "refuse"): (1, 1.0), ("exception", "recover"): (1, 2.0)}


def test_of_coroutines_the_time_in_which_they_wait_is_not_counted(clock):
    @hookable
    async def fetch(url):
        clock.now += 100.0
        await asyncio.sleep(0)
        return url

    async def wait():
        clock.now += 50.0

    @fetch.pre
    async def before():
        clock.now += 1.0
        await asyncio.create_task(wait())
        clock.now += 1.0

    @fetch.around
    async def around(proceed):
        clock.now += 2.0
        result = await proceed()
        await asyncio.sleep(0)
        clock.now += 2.0
        return result

    @fetch.around
    async def hands_on(proceed):
        clock.now += 4.0
        return proceed()

    @fetch.around
    async def one_yield():
        clock.now += 8.0
        await asyncio.sleep(0)
        yield
        clock.now += 8.0

    with profile() as costs:
        assert asyncio.run(fetch("a")) == "a"
    assert costs_of(costs, fetch) == {
        ("pre", "before"): (1, 2.0),
        ("around", "around"): (1, 4.0),
        ("around", "hands_on"): (1, 4.0),
        ("around", "one_yield"): (1, 16.0),
    }


def test_around_hooks_of_generators_are_measured_without_the_generator(clock):
    @hookable
    def numbers(n):
        for one in range(n):
            clock.now += 100.0
            yield one

    @numbers.around
    def around(proceed):
        clock.now += 1.0
        for one in proceed():
            clock.now += 1.0
            yield -one

    @numbers.item
    def item(item):
        clock.now += 2.0

    with profile() as costs:
        assert list(numbers(3)) == [0, -1, -2]
    assert costs_of(costs, numbers) == {("around", "around"): (1, 4.0), ("item", "item"): (3, 6.0)}


def test_weak_hooks_hooks_of_instances_and_hooks_added_meanwhile_are_measured(clock):
    class Cart:
        @hookable
        def add(self, item):
            return item

    class Listener:
        def heard(self, item):
            clock.now += 1.0

    cart, other, listener = Cart(), Cart(), Listener()
    hooks(Cart.add).add("pre", listener.heard, weak=True)
    hooks(cart.add).add("post", lambda result: None, name="one")
    with profile() as costs:
        cart.add("tea")
        other.add("tea")
        late = hooks(Cart.add).add("post", lambda result: None, name="late")
        cart.add("rice")
        late.remove()
        cart.add("rice")
    measured = {(cost.hook, cost.calls) for cost in costs if "Cart.add" in cost.mount}
    assert measured == {("heard", 4), ("one", 3), ("late", 1)}
    del listener
    gc.collect()
    assert len(hooks(Cart.add)) == 0


def of_a_module(n):
    return n


def test_hooks_that_gc_freeze_has_hidden_are_measured():
    with weave(of_a_module, pre=lambda: None, name="hidden"):
        of_a_module(1)
        gc.freeze()
        try:
            with profile() as costs:
                of_a_module(1)
        finally:
            gc.unfreeze()
    measured = [cost.hook for cost in costs]
    # Without the GIL, nobody keeps a list of what is hidden.
    assert measured == ["hidden"] or not getattr(sys, "_is_gil_enabled", lambda: True)()


def test_nothing_is_left_of_a_profile(total):
    def before():
        pass

    hook = hooks(total).add("pre", before)
    with profile():
        total(1)
        assert hook.function is not before
    assert hook.function is before and "pre_1" in hooks(total).explain()
    hook.remove()
    assert "hooks" in dir(total) and len(hooks(total)) == 0


def test_a_second_profile_is_refused():
    with profile(), pytest.raises(HookOptionError, match="a profile is being made already"), profile():
        pass
    with profile():
        pass


def test_a_hook_that_is_removed_meanwhile_is_whole_again(total):
    def before():
        pass

    hook = hooks(total).add("pre", before)
    with profile() as costs:
        total(1)
        hooks(total).remove(before)
        total(1)
    assert hook.function is before and costs_of(costs, total)["pre", "before"][0] == 1


def test_all_threads_are_measured_exactly(total):
    total.pre(lambda: None, name="count")
    with profile() as costs:
        threads = [threading.Thread(target=lambda: [total(1) for _ in range(500)]) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert costs_of(costs, total)["pre", "count"][0] == 2_000


def test_of_a_weaving_each_mount_point_has_a_row(total):
    def one():
        return 1

    def two():
        return 2

    def hook():
        pass

    with weave(one, pre=hook), weave(two, pre=hook), profile() as costs:
        one(), two(), two()
        assert [costs_of(costs, target)["pre", "hook"][0] for target in (one, two)] == [1, 2]


def test_when_nothing_has_run_the_table_says_so():
    with profile() as costs:
        assert str(costs) == "no hook has run"
