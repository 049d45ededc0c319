"""`pytest --hook-orders`: a suite whose hooks depend on the order of adding fails, and the pair is named."""

from __future__ import annotations

import math
import re
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook.testing._hook_orders import Key, _narrowed

from .test_plugin import outcome

# A bill whose rounding must come before the tax, among hooks whose order does not matter.
BILL = """
    from aspecthook import hookable, hooks
    @hookable
    def bill(amount):
        return amount
    for name in ("log", "count", "see"):
        bill.post(lambda result: None, name=name)
    bill.post(lambda result: round(result), name="round")
    bill.post(lambda result: None, name="audit")
    bill.post(lambda result: result * 1.25, name="tax")
    bill.post(lambda result: None, name="last", priority=90)
"""
SENTENCE = (
    "::{} fails when 'tax' runs before 'round' on kit_bill:bill, and passes in the order of adding; "
    "write after='round' on 'tax'"
)
TOTAL = """
    from kit_bill import bill
    def test_total():
        assert bill(9.8) == 12.5
"""


def test_the_pair_whose_order_matters_is_named_in_one_sentence(shop):
    text = outcome(shop(TOTAL, "--hook-orders=all", kit_bill=BILL), failed=1)
    assert SENTENCE.format("test_total") in text and "hook orders: --hook-orders=all" in text
    assert text.count("to see it again: --hook-orders=all") == 2  # with the test, and at the end


def test_a_seed_gives_the_same_orders_each_time_and_about_half_of_them_find_a_pair(shop):
    found = set()
    for seed in range(10):
        result = shop(TOTAL, f"--hook-orders={seed}", kit_bill=BILL)
        found.add(result.ret)
        assert shop(TOTAL, f"--hook-orders={seed}", kit_bill=BILL).ret == result.ret
        assert result.ret == 0 or SENTENCE.format("test_total") in str(result.stdout)
    assert found == {0, 1}


@pytest.mark.parametrize("mode", ["off", "warn"])
def test_what_a_failed_run_leaves_behind_is_gone_when_the_test_is_run_again(shop, mode):
    leaving = TOTAL.replace("def test_total():", "def test_total():\n        bill.pre(lambda: None, name='left')")
    leaving = leaving.replace("assert bill", "assert len(bill.hooks.pre) == 1 and bill")
    text = str(shop(leaving, "--hook-orders=all", f"--hook-leaks={mode}", kit_bill=BILL).stdout)
    assert SENTENCE.format("test_total") in text
    assert ("has left 1 hook behind" in text) == (mode == "warn")


# Thirty hooks on five mount points, whose constraints say all that matters.
SOUND = """
    from aspecthook import Args, hookable
    log = []
    def step(name):
        def step(n): return n
        step.__qualname__ = step.__name__ = name
        hooked = hookable(step)
        hooked.pre(lambda n: Args(n=n + 1), name="more")
        hooked.pre(lambda n: Args(n=n * 2), name="twice", after="more")
        hooked.pre(lambda n: log.append(n), name="see", before="more")
        hooked.post(lambda result: result * 3, name="thrice")
        hooked.post(lambda result: round(result), name="whole", after="thrice")
        hooked.always(lambda: None, name="close")
        return hooked
    steps = [step(f"step_{number}") for number in range(5)]
"""


def test_a_suite_whose_constraints_say_what_matters_stays_green_under_fifty_seeds(shop):
    test = """
        import kit_sound
        @pytest.mark.parametrize("step", kit_sound.steps, ids=lambda step: step.__name__)
        def test_step(step):
            kit_sound.log.clear()
            assert step(0.25) == 8 and kit_sound.log == [0.25]
    """
    for seed in ("all", *range(50)):
        outcome(shop(test, f"--hook-orders={seed}", kit_sound=SOUND), passed=5)


def test_what_fails_in_the_order_of_adding_too_is_reported_as_ever(shop):
    for seed in ("all", 1):
        text = outcome(
            shop(
                """
                from kit_bill import bill
                runs = []
                def test_wrong():
                    runs.append(0)
                    assert bill(1) == 7
                @pytest.fixture
                def broken():
                    raise OSError("no shop")
                def test_setup(broken): pass
                @pytest.mark.xfail
                def test_known(): assert False
                @pytest.mark.skip
                def test_skipped(): assert False
                """,
                f"--hook-orders={seed}",
                kit_bill=BILL,
            ),
            failed=1,
            errors=1,
            xfailed=1,
            skipped=1,
        )
        assert "fails when" not in text and "no shop" in text


def test_setups_and_teardowns_depend_on_orders_too_and_hooks_of_one_name_are_to_get_names(shop):
    text = outcome(
        shop(
            """
            @aspecthook.hookable
            def f(n): return n
            f.post(lambda result: result + 1)
            f.post(lambda result: result * 2)
            @pytest.fixture
            def before(): assert f(1) == 4
            @pytest.fixture
            def after():
                yield
                assert f(1) == 4
            def test_before(before): pass
            def test_after(after): pass
            """,
            "--hook-orders=all",
        ),
        passed=1,
        errors=2,
    )
    for name in ("before", "after"):
        told = (
            f"test_{name} fails when '<lambda>' runs before '<lambda>' on test_it:f, and passes in the order of adding"
        )
        assert f"{told}; give them names by name=, and the second after= the first" in text


def test_a_test_that_fails_now_and_then_is_not_blamed_on_a_pair(shop):
    text = outcome(
        shop(
            """
            from kit_bill import bill
            runs = []
            def test_flaky():
                bill(1)
                runs.append(0)
                assert len(runs) != 2
            """,
            "--hook-orders=all",
            kit_bill=BILL,
        ),
        failed=1,
    )
    assert "test_flaky fails now and then, whatever the order of its hooks" in text


def test_hooks_of_fixtures_of_instances_of_events_and_of_weavings_are_reordered(shop):
    text = outcome(
        shop(
            """
            from kit_bill import bill
            @pytest.fixture
            def fresh():
                @aspecthook.hookable
                def fresh(n): return n
                return fresh
            def test_fixture(fresh):
                fresh.post(lambda result: result + 1, name="add")
                fresh.post(lambda result: result * 2, name="double")
                assert fresh(1) == 4
            class Cart:
                @aspecthook.hookable
                def size(self): return 1
            def test_instance():
                cart = Cart()
                hooks(cart.size).add("post", lambda result: result + 1, name="one")
                hooks(cart.size).add("post", lambda result: result * 2, name="two")
                assert cart.size() == 4
            def test_event():
                @aspecthook.event(fold="text")
                def written(text: str) -> str: ...
                hooks(written).add("on", lambda text: text + "a", name="a")
                hooks(written).add("on", lambda text: text + "b", name="b")
                assert written("") == "ab"
            def test_woven(weave):
                weave("kit_shop:price", post=lambda result: result + 1, name="first")
                weave("kit_shop:price", post=lambda result: result * 2, name="second")
                assert kit_shop.price("tea") == 7
            """,
            "--hook-orders=all",
            kit_bill=BILL,
        ),
        failed=4,
    )
    for pair in (
        "'double' runs before 'add'",
        "'two' runs before 'one'",
        "'b' runs before 'a'",
        "'second' runs before",
    ):
        assert f"fails when {pair}" in text


def test_plugins_and_async_tests_are_run_in_other_orders(shop):
    pytest.importorskip("pytest_asyncio")
    text = outcome(
        shop(
            """
            from aspecthook.plugins import Plugins
            class Host:
                @aspecthook.event(fold="text")
                def edit(self, text: str) -> str: ...
            class One:
                @aspecthook.on
                def edit(self, text): return text + "1"
            class Two:
                @aspecthook.on
                def edit(self, text): return text + "2"
            def test_plugins():
                host = Host()
                plugins = Plugins(host)
                plugins.register(One())
                plugins.register(Two())
                assert host.edit("") == "12"
            @pytest.mark.asyncio
            async def test_async(weave):
                weave("kit_shop:fetch", post=lambda result: result + "1", name="one")
                weave("kit_shop:fetch", post=lambda result: result + "2", name="two")
                assert await kit_shop.fetch("") == "12"
            """,
            "--hook-orders=all",
            plugins=("asyncio",),
        ),
        failed=2,
    )
    assert "test_plugins fails when" in text
    assert "test_async fails when 'two' runs before 'one' on kit_shop:fetch" in text


def test_the_workers_of_xdist_have_the_seed_of_the_header(shop):
    # Each worker had drawn a seed of its own, and the seed of the header reproduced nothing.
    pytest.importorskip("xdist")
    many = TOTAL + "\n".join(f"    def test_total_{n}(): test_total()" for n in range(6))
    run = shop.pytester.runpytest_subprocess
    together = shop(many, "--hook-orders", "-n2", plugins=("xdist",), how=run, kit_bill=BILL)
    _, seed = str(together.stdout).partition("hook orders: ")[2].split("\n", 1)[0].split("=")
    assert outcome_lines(shop(many, f"--hook-orders={seed}", kit_bill=BILL)) == outcome_lines(together)


def outcome_lines(result) -> set[str]:
    return {line for line in str(result.stdout).splitlines() if "fails when" in line}


def test_the_marker_asks_for_orders_and_forbids_them(shop):
    text = outcome(
        shop(
            """
            from kit_bill import bill
            def check(): assert bill(9.8) == 12.5
            @pytest.mark.hook_orders("all")
            def test_asked(): check()
            @pytest.mark.hook_orders(seed="all")  # which was ignored
            def test_asked_by_name(): check()
            def test_not_asked(): check()
            """,
            kit_bill=BILL,
        ),
        failed=2,
        passed=1,
    )
    assert SENTENCE.format("test_asked") in text and SENTENCE.format("test_asked_by_name") in text
    outcome(
        shop(
            """
            from kit_bill import bill
            @pytest.mark.hook_orders(False)
            def test_never(): assert bill(9.8) == 12.5
            """,
            "--hook-orders=all",
            kit_bill=BILL,
        ),
        passed=1,
    )


def test_a_machine_which_tries_orders_itself_is_left_alone(shop):
    text = outcome(
        shop(
            """
            from aspecthook import hookable, post
            from aspecthook.testing import HookMachine, law
            class Bill(HookMachine):
                def make(self):
                    @hookable
                    def bill(amount: int): return amount
                    return bill
                @post
                def double(self, result): return result * 2
                @post
                def one_more(self, result): return result + 1
                @law
                def in_the_order_of_adding(trace):
                    return trace.before("double", "one_more")
            TestBill = Bill.TestCase
            """,
            "--hook-orders=3",
        ),
        failed=1,
    )
    assert "in_the_order_of_adding" in text and "from the same state" not in text


def test_the_fixture_makes_a_check_in_each_order_and_leaves_that_of_adding(shop):
    text = outcome(
        shop(
            """
            from aspecthook import hookable
            from kit_bill import bill
            def test_right(hook_orders):
                hook_orders(lambda: bill(8))
                assert [hook.name for hook in hooks(bill)][3] == "round"
            def test_wrong(hook_orders):
                def check(): assert bill(9.8) == 12.5
                hook_orders(check)
            def test_none_raised(hook_orders):
                hook_orders(lambda: pytest.raises(ZeroDivisionError, lambda: 1 / (bill(9.8) - 12.5)))
            def test_exit(hook_orders):
                seen = []
                for seed in range(9):
                    with pytest.raises(SystemExit):
                        hook_orders(lambda: exit(seen.append(bill(9.8))), seed=seed)
                    assert bill(9.8) == 12.5
                assert {*seen} == {12.0, 12.5}
            def test_added(hook_orders):
                @hookable
                def f(): ran.append("")
                ran = []
                def check():
                    for name in "abcd": f.pre(lambda name=name: ran.append(name), name=name)
                    f()
                hook_orders(check, seed=1)
                f()
                assert "".join(ran[5:]) == "abcd" != "".join(ran[:4])
            def test_always_wrong(hook_orders):
                def check(): raise OSError("closed")
                hook_orders(check, seed=1)
            """,
            kit_bill=BILL,
        ),
        passed=3,
        failed=3,
    )
    assert SENTENCE.format("test_wrong") in text and "OSError: closed" in text
    assert SENTENCE.format("test_none_raised") in text


def test_the_example_passes_and_has_one_sentence_on_its_bug(shop):
    example = (Path(__file__).parents[2] / "examples" / "hook_orders.py").read_text()
    shop.pytester.makepyfile(example=example)
    run = ("example.py", "-p", "aspecthook.pytest_plugin", "-p", "no:asyncio", "-W", "default")
    outcome(shop.pytester.runpytest_inprocess(*run), passed=2)
    text = outcome(shop.pytester.runpytest_inprocess(*run, "--hook-orders=all"), passed=1, failed=1)
    assert "test_total fails when 'tax' runs before 'round' on example:total, and passes in the order of adding" in text


KEYS = st.integers(2, 9).map(lambda n: [Key("shop:f", "post", 50, f"h{number}", number) for number in range(n)])


@given(KEYS.flatmap(lambda keys: st.tuples(st.permutations(keys), st.permutations(keys))), st.data())
def test_a_pair_is_found_in_logarithmically_many_runs(orders: tuple[list[Key], list[Key]], data: st.DataObject) -> None:
    """The test fails by any of some pairs, each of which the wanted order has the other way round."""
    present, wanted = orders
    turned = [
        (one, other)
        for place, one in enumerate(present)
        for other in present[place + 1 :]
        if wanted.index(other) < wanted.index(one)
    ]
    if not turned:
        return
    guilty = data.draw(st.lists(st.sampled_from(turned), min_size=1, max_size=2))
    added = {key: place for place, key in enumerate(present)}
    runs = count()

    def run(rank):
        next(runs)
        order = sorted(present, key=rank)
        return any(order.index(other) < order.index(one) for one, other in guilty), added

    pair = _narrowed(run, lambda key: wanted.index(key), added)
    assert pair in guilty
    assert next(runs) <= 1 + math.ceil(math.log2(len(turned) + 1))


def test_a_test_that_cannot_be_run_twice_is_not_blamed_on_a_pair(shop):
    test = """
        from kit_bill import bill
        seen = []
        def test_twice():
            seen.append(bill(1))
            assert len(seen) == 1
        """
    for seed in ("all", 1):
        text = outcome(shop(test, f"--hook-orders={seed}", kit_bill=BILL), failed=seed == "all", passed=seed != "all")
        assert ("test_twice passes once, and fails when it is run again: make it start from" in text) == (seed == "all")


def test_the_first_failure_is_shown_if_the_second_run_fails_for_what_the_first_has_left(shop):
    test = """
        from kit_bill import bill
        seen = []
        def test_kept():
            seen.append(bill(1))
            assert seen == [0]
        """
    text = outcome(shop(test, "--hook-orders=1", kit_bill=BILL), failed=1)
    assert "test_kept fails in another way when it is run again in the order of adding" in text
    assert re.search(r"assert \[[\d.]+\] == \[0\]", text)


def test_a_path_is_no_seed(shop):
    done = shop("def test_it(): pass", "--hook-orders", "test_it.py")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    # A word of the marker or the fixture was taken for the seed of one arbitrary order.
    marked = shop("@pytest.mark.hook_orders('al')\ndef test_it(): pass")
    assert marked.ret == pytest.ExitCode.USAGE_ERROR
    text = outcome(shop("def test_it(hook_orders): hook_orders(print, seed='al')"), failed=1)
    assert "hook orders: 'al': give a whole number or 'all'" in text
