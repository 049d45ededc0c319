"""The pytest plugin, run by pytest inside of a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import _aspecthook_pytest

from .conftest import OTHERS

LEAK = """
def test_leak():
    aspecthook.weave("kit_shop:price", pre=lambda qty: None, name="spied")
"""


def outcome(result, **expected):
    result.assert_outcomes(**expected)
    return str(result.stdout)


# weave


def test_weave_fixture_removes_its_hooks_when_a_test_passes_fails_or_its_setup_fails(shop):
    result = shop("""
        plain = kit_shop.price.__code__
        @pytest.fixture
        def doubled(weave):
            return weave("kit_shop:price", post=lambda result: result * 2)
        @pytest.fixture
        def broken(doubled):
            raise OSError
        def test_passes(doubled):
            assert kit_shop.price("tea") == 5 and doubled.state == "woven"
        def test_clean_1():
            assert kit_shop.price.__code__ is plain
        def test_fails(doubled):
            raise KeyError
        def test_clean_2():
            assert kit_shop.price.__code__ is plain
        def test_setup_fails(broken):
            pass
        def test_clean_3():
            assert kit_shop.price.__code__ is plain
    """)
    outcome(result, passed=4, failed=1, errors=1)


def test_it_comes_off_in_reverse_order_and_every_error_is_reported(shop):
    text = outcome(
        shop("""
            import inspect
            order = []
            def test_it(weave, monkeypatch):
                assert inspect.signature(weave) == inspect.signature(aspecthook.weave)
                remove = aspecthook.Weaving.remove
                def failing(weaving):
                    remove(weaving)
                    order.append(weaving.name)
                    if weaving.name != "b":
                        raise OSError(weaving.name)
                monkeypatch.setattr(aspecthook.Weaving, "remove", failing)
                for name in "abc":
                    weave("kit_shop:price", pre=lambda: None, name=name).name = name
            def test_then():
                assert order == ["c", "b", "a"] and not hasattr(kit_shop.price, "hooks")
        """),
        passed=2,
        errors=1,
    )
    assert "not everything that the test has woven could be removed (2 sub-exceptions)" in text


# tape and spy


def test_a_tape_is_stopped_at_the_end_and_a_failed_test_shows_its_tree(shop):
    text = outcome(
        shop("""
            kept = []
            def test_it(tape):
                kept.append(tape.record("kit_shop:checkout, kit_shop:price"))
                kit_shop.checkout(["tea"])
                assert tape.calls("price", item="rice")
            def test_then():
                kit_shop.price("tea")
                assert len(kept[0]) == 2
        """),
        passed=1,
        failed=1,
    )
    assert "- tape -" in text and "  price(item='tea', qty=1) -> 2.5" in text


def test_spies_are_tapes_of_their_own(shop):
    result = shop("""
        def test_it(spy):
            price, charge = spy("kit_shop:price"), spy(kit_shop.charge)
            kit_shop.checkout(["tea"])
            kit_shop.checkout(["tea", "rice"])
            assert (len(price), len(charge)) == (3, 2)
            assert charge.last.arguments == {"amount": 5.0} and charge.last.result == "paid"
        def test_then():
            assert not hasattr(kit_shop.price, "hooks")
    """)
    outcome(result, passed=2)


# inject


def test_faults_by_number_by_predicate_and_by_probability(shop):
    result = shop("""
        import traceback
        def run(n=1, **given):
            found = []
            for _ in range(n):
                try:
                    found.append(kit_shop.price("tea", **given))
                except Exception as error:
                    found.append(error)
            return found
        def test_number(inject):
            error = OSError("down")
            fault = inject("kit_shop:price").fail(error, call=2).fail(KeyError, call={1, 4})
            one, two, three, four, five = run(5)
            assert (two, three, five) == (error, 2.5, 2.5) and type(one) is type(four) is KeyError
            assert (fault.calls, fault.failed, fault.delayed, fault.replaced) == (5, 3, 0, 0)
            assert "5 calls, 3 failed" in repr(fault)
            fault.fail(error)
            traces = [len(traceback.extract_tb(one.__traceback__)) for _ in range(4) for one in run()]
            assert len({*traces[1:]}) == 1  # the first call links the chain
        def test_predicate(inject):
            fault = inject(kit_shop.price).replace(0, when=lambda qty: qty > 1).replace(1, call=3)
            assert run() + run(qty=2) + run() == [2.5, 0, 1] and fault.replaced == 2
        @pytest.mark.parametrize("turn", [1, 2])
        def test_probability(inject, turn, seen={}):
            fault = inject(kit_shop.price).replace(0, probability=0.3, seed=1)
            found = run(100)
            assert seen.setdefault("first", found) == found and found.count(0) == fault.replaced
            assert 10 < fault.replaced < 50
            inject(kit_shop.charge).replace(0, probability=0.3, seed=1, call=range(51, 151))
            charged = [kit_shop.charge(1) for _ in range(150)]
            assert charged == ["paid"] * 50 + ["paid" if one else 0 for one in found]
            inject(kit_shop.total).replace(0, probability=0.3, seed=2)
            assert [kit_shop.total(2.5) for _ in range(100)] != found
        def test_clean():
            assert not hasattr(kit_shop.price, "hooks")
    """)
    outcome(result, passed=5)


def test_faults_are_inside_of_all_other_hooks_and_count_each_attempt(shop):
    result = shop("""
        def again(proceed):
            try:
                return proceed()
            except OSError:
                return proceed()
        def test_it(inject, weave):
            fault = inject("kit_shop:charge").fail(OSError, call={1, 3})
            weave("kit_shop:charge", around=again)
            assert [kit_shop.charge(1), kit_shop.charge(2)] == ["paid", "paid"]
            assert (fault.calls, fault.failed) == (4, 2)
    """)
    outcome(result, passed=1)


def test_a_delay_waits_before_the_target_runs(shop):
    result = shop("""
        import time, asyncio
        def test_sync(inject, monkeypatch):
            waits = []
            monkeypatch.setattr(time, "sleep", waits.append)
            fault = inject("kit_shop:price, kit_shop:numbers").delay(3).delay(4, call=1).fail(OSError, call=3)
            assert kit_shop.price("tea") == 2.5 and list(kit_shop.numbers(2)) == [0, 1]
            with pytest.raises(OSError):
                kit_shop.price("tea")
            assert waits == [3, 4, 3, 3] and (fault.calls, fault.delayed, fault.failed) == (3, 4, 1)
        def test_async(inject):
            # Of two tasks the one that is delayed comes last.
            fault = inject("kit_shop:fetch").delay(0.001, when=lambda url: url == "slow")
            async def both():
                return await asyncio.gather(kit_shop.fetch("slow"), kit_shop.fetch("fast"))
            assert asyncio.run(both()) == ["slow", "fast"]
            assert kit_shop.sent == ["fast", "slow"] and (fault.calls, fault.delayed) == (2, 1)
        def test_stream(inject, monkeypatch):
            kit_shop.sent.clear()
            waits = []
            async def pause(seconds): waits.append(seconds)
            monkeypatch.setattr("aspecthook.testing._inject._pause", pause)
            fault = inject("kit_shop:anumbers").delay(0)
            async def consume():
                stream = kit_shop.anumbers(3)
                found = [await anext(stream), await stream.asend("sent")]
                await stream.aclose()
                with pytest.raises(KeyError):
                    other = kit_shop.anumbers(1)
                    await anext(other)
                    await other.athrow(KeyError())
                return found
            assert asyncio.run(consume()) == [0, 1] and kit_shop.sent == ["sent"]
            assert fault.delayed == 2 and waits == [0, 0]
    """)
    outcome(result, passed=3)


def test_faults_in_coroutines_and_generators(shop):
    result = shop("""
        import asyncio
        async def fake(url):
            return url * 2
        async def stream(n):
            yield n
        def test_coroutine(inject):
            fault = inject("kit_shop:fetch").fail(OSError, call=1).replace(fake, call=2)
            fault.replace("x", call=3).replace(lambda url: 0, call=4)
            async def run():
                with pytest.raises(OSError):
                    await kit_shop.fetch("a")
                return [await kit_shop.fetch("b") for _ in range(4)]
            assert asyncio.run(run()) == ["bb", "x", 0, "b"]
        def test_generator(inject):
            fault = inject("kit_shop:numbers").fail(OSError, call=1)
            fault.replace([7, 8], call=2).replace(lambda n: iter("ab"), call=3)
            with pytest.raises(OSError):
                next(kit_shop.numbers(1))
            assert [list(kit_shop.numbers(1)) for _ in range(3)] == [[7, 8], ["a", "b"], [0]]
        def test_async_generator(inject):
            inject("kit_shop:anumbers").replace([7], call=1).replace(stream, call=2)
            async def run():
                return [[item async for item in kit_shop.anumbers(1)] for _ in range(3)]
            assert asyncio.run(run()) == [[7], [1], [0]]
    """)
    outcome(result, passed=3)


def test_a_fault_that_makes_no_sense_is_refused_at_once(shop):
    result = shop("""
        @pytest.mark.parametrize(("use", "why"), [
            (lambda fault: fault.fail("down"), "'down' cannot be raised"),
            (lambda fault: fault.fail(OSError, call=0), "counted from 1"),
            (lambda fault: fault.fail(OSError, cal=1), "a fault takes call, when, probability and seed, and no 'cal'"),
            (lambda fault: fault.fail(OSError, probability=2), "probability=2 is not between 0 and 1"),
            (lambda fault: fault.delay(-1), "is negative"),
            (lambda fault: fault.fail(OSError, when=lambda itm: True), "did you mean 'item'"),
        ])
        def test_it(inject, use, why):
            with pytest.raises(aspecthook.AspecthookError, match=why):
                use(inject("kit_shop:price"))
            assert kit_shop.price("tea") == 2.5
    """)
    outcome(result, passed=6)


# --hook-leaks


def test_a_test_that_leaves_a_hook_behind_fails_and_is_told_where_it_was_attached(shop):
    more = """
@pytest.fixture(params=["tea"], scope="module")
def kept(request):
    return aspecthook.hookable(lambda: request.param)
def test_wide(kept):
    kept.pre(lambda: None, name="wide")
def test_many():
    for number in range(25):
        kit_shop.total.pre(lambda: None, name=f"hook {number}")
"""
    text = outcome(shop(LEAK + more, "--hook-leaks=error"), passed=3, errors=3)
    assert "test_it.py::test_leak has left 1 hook behind:" in text
    assert "pre hook 'wide' on test_it:kept.<locals>.<lambda>, attached at test_it.py:" in text
    assert "pre hook 'hook 19' on kit_shop:total" in text and "  ... and 5 more" in text and "'hook 20'" not in text
    assert "  pre hook 'spied' on kit_shop:price, attached at test_it.py:5" in text
    assert "ERROR at teardown of test_leak" in text


@pytest.mark.parametrize("args", [(), ("--hook-leaks=off",), ("-W", "error")])
def test_unless_asked_for_nobody_looks_for_leaks(shop, args):
    # It was warned of by default, which failed runs whose warnings are errors, or are counted.
    assert "left" not in outcome(shop(LEAK, *args), passed=1, warnings=0)


def test_the_option_outranks_the_configuration_and_nonsense_is_refused(shop):
    shop.pytester.makeini("[pytest]\nhook_leaks = error")
    outcome(shop(LEAK), passed=1, errors=1)
    outcome(shop(LEAK, "--hook-leaks=off"), passed=1)
    shop.pytester.makeini("[pytest]\nhook_leaks = loud")
    assert "hook_leaks is 'loud'; give one of off, warn, error" in str(shop(LEAK).stderr)


def test_only_hooks_that_are_still_there_on_what_outlives_the_test_are_leaks(shop):
    result = shop(
        """
        kept = []
        @pytest.fixture
        def made():
            @aspecthook.hookable
            def local(): ...
            local.pre(lambda: None)
            return [local]
        @pytest.fixture
        def patient():
            hook = hooks(kit_shop.total).add("pre", lambda: None)
            yield
            hook.remove()
        def test_of_a_fixture(made):
            assert hooks(made[0])
        def test_taken_off_by_a_fixture(patient):
            assert len(hooks(kit_shop.total)) == 2
        def test_taken_off_by_the_test():
            with aspecthook.weave("kit_shop:price", pre=lambda: None):
                pass
        def test_local_that_fails(made):
            @aspecthook.hookable
            def local(): ...
            local.pre(lambda: local)
            assert 0
        def test_one_instance():
            cart = kit_shop.Cart()
            aspecthook.weave(cart.add, pre=lambda item: None)
        def test_local_in_a_cycle():
            def local(): ...
            local.me = local
            aspecthook.weave(local, pre=lambda: local)
        """,
        "--hook-leaks=error",
    )
    outcome(result, passed=5, failed=1)


@pytest.mark.parametrize(("filters", "warnings"), [((), 3), (("-W", "error"), 0)])
def test_a_leak_of_a_test_that_has_failed_is_warned_of_and_is_no_second_error(shop, filters, warnings):
    result = shop(
        """
        @pytest.fixture
        def broken_setup():
            aspecthook.weave("kit_shop:price", pre=lambda: None)
            raise OSError
        @pytest.fixture
        def broken_teardown():
            yield
            aspecthook.weave("kit_shop:charge", pre=lambda: None)
            raise OSError
        def test_setup(broken_setup): ...
        def test_teardown(broken_teardown): ...
        def test_call():
            hooks(kit_shop.total).add("post", lambda: None)
            assert 0
        """,
        "--hook-leaks=error",
        *filters,
    )
    text = outcome(result, passed=1, failed=1, errors=2, warnings=warnings)
    assert text.count("has left 1 hook behind") == warnings


# What is done with an instance that carries a hook, in a test that fails.
RAISING = [
    "raise Odd(cart)",
    """try:
        raise Odd(cart)
    except Odd as error:
        raise KeyError from error""",
    "raise ExceptionGroup('several', [Odd(cart)])",
    """aspecthook.weave(cart.add, pre=lambda: (_ for _ in ()).throw(Odd(cart)))
    cart.add("tea")""",
]


@pytest.mark.parametrize("mode", ["warn", "error"])
@pytest.mark.parametrize("raising", RAISING)
def test_hook_kept_by_the_exception_of_a_failed_test_is_no_leak(shop, raising, mode):
    # pytest leaves the last exception in `sys`, a module, which was taken for something that lasts.
    text = f"""
class Odd(Exception): ...
@pytest.mark.parametrize("mark", [pytest.param(0, marks=pytest.mark.xfail), 1])
def test_it(mark):
    cart = kit_shop.Cart()
    aspecthook.weave(cart.add, pre=lambda item: None)
    {raising}
"""
    assert "behind" not in outcome(shop(text, f"--hook-leaks={mode}"), failed=1, xfailed=1, warnings=0)


def test_looking_for_leaks_runs_no_code_of_the_objects_in_memory(shop):
    # `isinstance` asked each of them for its `__class__`, which evaluates a lazy proxy.
    result = shop(
        """
        class Lazy:
            @property
            def __class__(self):
                raise SystemError
        kept = []
        def test_it():
            def local(): ...
            aspecthook.weave(local, pre=lambda: None)
            lazy = Lazy()
            lazy.local = local
            kept.append(lazy)
        """,
        "--hook-leaks=error",
    )
    outcome(result, passed=1, errors=1)


def test_hooks_of_imports_and_of_wider_fixtures_are_not_the_tests(shop):
    result = shop(
        """
        aspecthook.weave("kit_shop:price", pre=lambda: None)
        def setup_module():
            aspecthook.weave("kit_shop:price", pre=lambda: None)
        @pytest.fixture(scope="session")
        def whole():
            aspecthook.weave("kit_shop:price", pre=lambda: None)
        @pytest.fixture(scope="module", autouse=True)
        def module():
            aspecthook.weave("kit_shop:price", pre=lambda: None)
        @pytest.fixture
        def late(request):
            return request.getfixturevalue("whole")
        def test_session(whole): ...
        def test_late(late):
            import kit_late
            assert len(aspecthook.hooks(kit_shop.price)) == 5
        """,
        "--hook-leaks=error",
        kit_late="""
        import kit_shop, aspecthook
        aspecthook.weave("kit_shop:price", post=lambda: None)
        """,
    )
    outcome(result, passed=2)


# The section


SECTION = """
@aspecthook.hookable
def first(): ...
@aspecthook.hookable
def second(fail=False):
    assert not fail
@aspecthook.hookable
def third(): ...
for function in (first, second, third):
    function.pre(lambda: None)
"""


def chains_in(text):
    """Return the names of the mount points whose chains are shown, in their order."""
    heads = [line.partition(", ")[0] for line in text.splitlines() if line.endswith((" hook", " hooks"))]
    return [head.partition(":")[2] for head in heads if head.startswith(("test_it:", "kit_shop:"))]


# What a test that fails does, and which chains are then shown. All these functions carry hooks before it begins.
CALLED = [
    ("assert 0", []),
    ("assert first() == 1", ["first"]),
    ("assert (third(), first(), second()) == 1", ["third", "second", "first"]),
    ("first.pre(lambda: None)\n    assert second() == 1", ["first", "second"]),
    ("hooks(globals()['second']).add('post', lambda: None)\n    assert 0", ["second"]),
    ("deep(5)", ["second"]),
    ("third.pre(lambda: 1 / 0)\n    third()", ["third"]),
    ("kit_shop.total(1)\n    raise KeyError", ["total"]),
    ("raise KeyError from failed_in(globals()['second'])", ["second"]),
    ("try:\n        globals()['second'](True)\n    except AssertionError:\n        raise KeyError", ["second"]),
    ("raise ExceptionGroup('several', [failed_in(globals()['second'])])", ["second"]),
]


@pytest.mark.parametrize(("body", "shown"), CALLED)
def test_only_the_chains_that_a_failed_test_has_called_or_changed_are_shown_the_newest_first(shop, body, shown):
    # All that the test had touched were, the oldest first, and none that it had only called.
    text = f"""{SECTION}
def deep(depth):
    return deep(depth - 1) if depth else globals()["second"](True)
def failed_in(function):
    try:
        function(True)
    except AssertionError as error:
        return error
def test_it():
    {body}
"""
    assert chains_in(outcome(shop(text), failed=1)) == shown


def test_chains_changed_by_fixtures_of_any_scope_are_shown_for_a_failed_test(shop):
    # Of a fixture of a module only the first test that uses it was shown anything.
    text = f"""{SECTION}
@pytest.fixture(scope="module")
def wide():
    globals()["first"].post(lambda: None)
@pytest.fixture
def narrow():
    globals()["second"].post(lambda: None)
@pytest.fixture
def broken():
    assert third() == ""
def test_one(wide): ...
def test_two(wide): assert 0
def test_three(wide, narrow): assert 0
def test_four(): assert 0
def test_five(broken): ...
"""
    text = outcome(shop(text), passed=1, failed=3, errors=1)
    assert chains_in(text) == ["third", "first", "second", "first"]


HYPOTHESIS = """
from hypothesis import given, settings, strategies as st
from aspecthook.testing import HookMachine, law
brief = settings(max_examples=50, stateful_step_count=5, database=None, deadline=None, derandomize=True)
@brief
@given(st.integers())
def test_property(number):
    @aspecthook.hookable
    def local(n): return n
    local.me = local
    local.post(lambda result: result + 1, name=f"of_{number}")
    assert local(number) < 51
class Handling(HookMachine):
    def make(self):
        return aspecthook.hookable(lambda: 0)
    @aspecthook.pre
    def auth(self): ...
    @law
    def no_auth(trace):
        return not trace.ran("auth")
TestHandling = Handling.TestCase
TestHandling.settings = brief
"""


def test_of_the_examples_of_hypothesis_the_failing_one_is_shown(shop):
    # Hypothesis keeps the exceptions of earlier examples, and so what these have made; the oldest were shown.
    text = outcome(shop(HYPOTHESIS), failed=2)
    shown = chains_in(text)  # the machine's own error draws the call and the chain
    assert shown == ["test_property.<locals>.local"]
    assert "\n  post  of_51\n" in text or "\n  post  of_50\n" in text


HOSTILE = r"""
class Raising:
    def __repr__(self): raise RuntimeError
    def __call__(self): return True
class Failing(Raising):
    def __repr__(self): pytest.fail("in a repr")
class Huge(Raising):
    def __repr__(self): return "x" * 1_500_000
class Unprintable(Raising):
    def __repr__(self): return "a\udc80\x1b[31mb\nnew line"
class Text(str): ...
class Derived(Raising):
    def __repr__(self): return Text("text")
class Lazy(Raising):
    @property
    def __class__(self): raise SystemError
    def __getattr__(self, name): raise SystemError
@pytest.mark.parametrize("kind", Raising.__subclasses__() + [Raising])
def test_it(kind, tape, weave):
    tape.record("kit_shop:price")
    held = [kind()]
    weave("kit_shop:price", pre=lambda qty: None, when=held[0] if kind is not Lazy else None)
    for _ in range(200):
        kit_shop.price(held[0])
    assert 0
"""


def test_repr_that_raises_or_is_huge_changes_no_outcome_and_the_report_is_short(shop):
    # One that raises ended the session with INTERNALERROR, a large one printed 1.5 MB.
    pytest.importorskip("xdist")
    shown = outcome(shop(HOSTILE, "-n1", "--tb=short", plugins=("xdist",)), failed=6)
    assert len(shown) < 6 * 12_000 and max(map(len, shown.splitlines())) <= 200
    assert "(when=<Failing whose repr raised Failed>)" in shown and "when=a??[31mb new line" in shown
    assert "... 160 more calls ..." in shown


# How it is loaded


LOADED = """
import json, sys, pytest
code = pytest.main(sys.argv[2:])
json.dump([int(code), sorted(sys.modules)], open(sys.argv[1], "w"))
"""


def test_a_run_in_which_no_test_uses_it_imports_one_module_more(tmp_path):
    # It imported 97, asyncio and wrapt among them.
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_fails():\n    assert 0\n")

    def modules(*args):
        found = tmp_path / "found.json"
        path = os.pathsep.join([str(Path(_aspecthook_pytest.__file__).parent), os.environ.get("PYTHONPATH", "")])
        env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTHONPATH": path}
        command = [sys.executable, "-c", LOADED, str(found), "-q", "-p", "no:cacheprovider", *args, str(tmp_path)]
        subprocess.run(command, env=env, cwd=tmp_path, check=True, capture_output=True)
        code, names = json.loads(found.read_text())
        assert code == 1
        return set(names)

    assert modules("-p", "_aspecthook_pytest") - modules() == {"_aspecthook_pytest"}


# How it is asked for, whether pytest looks for entry points, and whether the fixtures are there.
ASKED = [
    ((), True, True),
    (("-p", "aspecthook.pytest_plugin"), True, True),
    (("-p", "aspecthook.pytest_plugin"), False, True),
    (("-p", "aspecthook"), True, True),
    (("-p", "aspecthook"), False, True),
    (("-p", "no:aspecthook"), True, False),
]


@pytest.mark.parametrize(("args", "autoload", "there"), ASKED)
def test_it_is_loaded_once_whichever_way_it_is_asked_for(pytester, monkeypatch, args, autoload, there):
    # With the entry point, `-p aspecthook.pytest_plugin` was refused: "already registered under a different name".
    info = pytester.mkdir("installed") / "aspecthook-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aspecthook\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[pytest11]\naspecthook = _aspecthook_pytest\n")
    root = Path(_aspecthook_pytest.__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(info.parent), str(root)]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "" if autoload else "1")
    pytester.makepyfile("def test_it(weave, tape, spy, inject): ...")
    others = [part for name in OTHERS for part in ("-p", f"no:{name}")]
    result = pytester.runpytest_subprocess(*others, *args)
    result.assert_outcomes(passed=int(there), errors=int(not there))


def test_hooks_are_watched_where_the_package_is_first_imported_by_a_test(shop):
    pytester = shop.pytester
    pytester.makepyfile(
        kit_first="def price(): ...",
        test_it="""
        import sys
        def test_chain():
            assert "aspecthook" not in sys.modules
            import aspecthook, kit_first
            aspecthook.weave(kit_first.price, pre=lambda: None, name="spied")
            assert kit_first.price() == 1
        """,
    )
    root = str(Path(_aspecthook_pytest.__file__).parent)
    others = [part for name in OTHERS for part in ("-p", f"no:{name}")]
    args = [*others, "-p", "no:aspecthook", "-p", "_aspecthook_pytest", "-o", f"pythonpath={root} ."]
    text = outcome(pytester.runpytest_subprocess(*args), failed=1)
    assert "kit_first:price, 1 hook" in text and "  pre  spied" in text


# Other plugins


def test_with_anyio_on_asyncio_and_trio(shop):
    pytest.importorskip("anyio")
    pytest.importorskip("trio")
    result = shop(
        """
        pytestmark = pytest.mark.anyio
        @pytest.fixture
        async def slow(inject):
            return inject("kit_shop:fetch, kit_shop:anumbers").delay(0)
        async def test_it(slow, tape):
            tape.record(kit_shop.fetch)
            assert await kit_shop.fetch("a") == "a" and slow.delayed == 1 and tape.last.result == "a"
            assert [item async for item in kit_shop.anumbers(2)] == [0, 1]
        async def test_leak():
            aspecthook.weave("kit_shop:fetch", pre=lambda: None)
        """,
        "--hook-leaks=error",
        plugins=("anyio",),
    )
    assert "attached at test_it.py:13" in outcome(result, passed=4, errors=2)
