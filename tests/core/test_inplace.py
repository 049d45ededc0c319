"""Law 4 on functions: every reference sees the hooks, what was there comes back, and others' work is left alone."""

from __future__ import annotations

import functools
import gc
import operator
import sys
import types
from collections.abc import Callable, Iterator

import pytest
import wrapt

from aspecthook import MountError, hookable, hooks, weave
from aspecthook._core.compile.show import FREE_THREADED

log: list[str] = []
INNER: list[Callable[..., int]] = []


@hookable
def lasting_stream(x: int = 1) -> Iterator[int]:
    yield x
    yield x


def make(*, lasting: bool = False) -> types.FunctionType:
    """Make a function that seems to live as long as its module, or one that does not (strong and weak mode)."""
    return hookable(eval("lambda x=1: x")) if lasting else hookable(lambda x=1: x)


@pytest.fixture(params=["lasting", "passing"])
def target(request: pytest.FixtureRequest) -> types.FunctionType:
    return make(lasting=request.param == "lasting")


@pytest.fixture(params=["called", "not called"])
def warm(request: pytest.FixtureRequest) -> bool:
    """Whether the function is called between the adding of hooks and what happens then."""
    return request.param == "called"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    hooks(lasting_stream).clear()
    log.clear()
    INNER.clear()


def noting(word: str) -> Callable[[], None]:
    def hook() -> None:
        log.append(word)

    hook.__name__ = word
    return hook


def noted(function: Callable[..., object]) -> list[str]:
    """Call a function and give what its hooks noted."""
    log.clear()
    function()
    return list(log)


class Theirs:
    """Another library that puts its code into a function, and calls what was there before."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function, self.before = function, function.__code__
        INNER.append(types.FunctionType(self.before, globals(), "inner", (1,)))
        source = f"lambda x=1: log.append('theirs') or INNER[{len(INNER) - 1}](x)"
        self.code = function.__code__ = eval(source).__code__

    def take_off(self) -> None:
        self.function.__code__ = self.before


# In place


def test_nothing_attached_is_the_very_code_that_the_compiler_made() -> None:
    def function() -> int:
        return 1

    code = function.__code__
    assert hookable(function) is function
    assert function.__code__ is code
    function.pre(noting("hook"))
    assert function.__code__ is not code
    with hooks(function).paused():
        assert function.__code__ is code
    hooks(function).clear()
    assert function.__code__ is code


class Shop:
    @hookable
    def price(self) -> int:
        return 1


class Stall(Shop):
    def price(self) -> int:
        return super().price()

    alias = Shop.price


def reference(way: str, function: types.FunctionType) -> Callable[[], object]:
    return {
        "alias": function,
        "partial": functools.partial(function, 1),
        "map": lambda mapped=map(function, range(9)): next(mapped),
        "methodcaller": functools.partial(operator.methodcaller("call"), types.SimpleNamespace(call=function)),
        "wraps": functools.wraps(function)(lambda: function()),
        "wrapt": wrapt.FunctionWrapper(function, lambda wrapped, _, args, kwargs: wrapped(*args, **kwargs)),
    }[way]


@pytest.mark.parametrize("way", ["alias", "partial", "map", "methodcaller", "wraps", "wrapt"])
def test_a_reference_taken_before_sees_the_hooks(target: types.FunctionType, way: str) -> None:
    taken = reference(way, target)
    target.pre(noting("hook"))
    assert noted(taken) == ["hook"]
    assert noted(taken) == ["hook"]
    hooks(target).clear()
    assert noted(taken) == []


def test_a_hook_is_displaced_where_somebody_puts_the_original_code_back() -> None:
    def price(n: int) -> int:
        return n

    plain = price.__code__
    with weave(price, post=lambda result: result + 1) as weaving:
        assert (price(1), weaving.state) == (2, "woven")
        price.__code__ = plain
        assert (price(1), weaving.state) == (1, "displaced")
    assert price.__code__ is plain and vars(price) == {}


def test_the_frame_that_calls_a_hook_of_a_closure_shows_the_variables_of_the_closure_to_debuggers() -> None:
    rate, seen = 2, []

    @hookable
    def price(n: int) -> int:
        return n * rate

    price.pre(lambda: seen.append(sys._getframe(1).f_locals))
    assert (price(3), seen[0]["n"], seen[0]["rate"]) == (6, 3, 2)


def test_a_hookable_class_mounts_the_public_methods_that_it_defines() -> None:
    class Whole(Stall):
        def method(self) -> None: ...
        def _private(self) -> None: ...

        made = classmethod(lambda cls: cls)
        helped = staticmethod(lambda: 1)
        size = property(lambda self: 1, lambda self, value: None)

    members = dict(vars(Whole))
    assert hookable(Whole) is Whole
    assert list(vars(Whole).items()) == list(members.items())
    mounted = {name for name, one in members.items() if hasattr(getattr(one, "__func__", one), "pre")}
    assert mounted == {"method", "made", "helped"}
    assert hasattr(Whole.size.fget, "pre") and hasattr(Whole.size.fset, "pre")
    assert not hasattr(Stall.price, "pre")


# When a change counts


@pytest.mark.parametrize("sort", [classmethod, staticmethod])
def test_a_method_that_has_its_sort_already_offers_its_hooks_in_the_class_body(sort: Callable[..., Any]) -> None:
    class Shop:
        price = hookable(sort(lambda *_: 1))

        @price.post
        def more(result: int) -> int:
            return result + 1

    assert Shop.price() == Shop().price() == 2


def test_a_hook_added_or_removed_during_a_call_counts_from_the_next_call(target: types.FunctionType) -> None:
    def swap() -> None:
        hooks(target).remove("old")
        target.post(noting("new"))

    target.pre(priority=0)(swap)
    target.pre(noting("old"))
    assert noted(target) == ["old"]
    hooks(target).remove(swap)
    assert noted(target) == ["new"]


def test_a_function_whose_hooks_are_gone_has_no_wrapped_any_more(target: types.FunctionType, warm: bool) -> None:
    before = list(vars(target).items())
    hook = hooks(target).add("pre", noting("hook"))
    assert target.__wrapped__ is not target
    if warm:
        target()
    hook.remove()
    assert not hasattr(target, "__wrapped__")
    assert list(vars(target).items()) == before


def test_pauses_count_each_for_itself(target: types.FunctionType) -> None:
    one, two = hooks(target).add("pre", noting("one")), hooks(target).add("pre", noting("two"))
    with hooks(target).paused():
        with hooks(target).paused():
            pass
        assert noted(target) == []
    hooks(target).set_paused((one, two), paused=True)
    hooks(target).set_paused((two,), paused=False)
    assert noted(target) == ["two"]


# Others in the same place


def test_monkeypatched_code_goes_back_and_the_hooks_run_again(target: types.FunctionType, warm: bool) -> None:
    code = target.__code__
    target.pre(noting("hook"))
    noted(target) if warm else None
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(target, "__code__", (lambda x=1: 5).__code__)
        assert hooks(target).displaced
        assert target() == 5
    assert not hooks(target).displaced
    assert noted(target) == ["hook"]
    hooks(target).clear()
    assert target.__code__ is code


def test_removal_under_others_code_says_displaced(target: types.FunctionType, warm: bool) -> None:
    # Was False: the mount point asked its place only while that was open.
    target.pre(noting("one"))
    noted(target) if warm else None
    Theirs(target)
    hooks(target).clear()
    assert hooks(target).displaced


def test_our_code_put_back_by_others_after_the_removal_is_replaced_by_the_original(
    target: types.FunctionType, warm: bool
) -> None:
    # Our code, put back by them when no hook was left, stayed in the function for good.
    code = target.__code__
    target.pre(noting("one"))
    noted(target) if warm else None
    theirs = Theirs(target)
    hooks(target).clear()
    theirs.take_off()
    assert noted(target) == []
    assert target.__code__ is code


def test_hooks_added_under_others_code_act_inside_it_and_are_displaced(target: types.FunctionType, warm: bool) -> None:
    # The place that the older code belonged to was garbage, so that a call failed with MountError or AttributeError.
    target.pre(noting("one"))
    noted(target) if warm else None
    Theirs(target)
    hooks(target).clear()
    target.pre(noting("two"))
    gc.collect()
    assert noted(target) == ["theirs", "two"]
    assert hooks(target).displaced
    target.pre(noting("three"))
    assert noted(target) == ["theirs", "two", "three"]


def test_hooks_act_again_when_others_have_put_the_functions_own_code_back(
    target: types.FunctionType, warm: bool
) -> None:
    # The next hook was silently a no-op: the place took the function's own code for somebody else's.
    code = target.__code__
    target.pre(noting("one"))
    noted(target) if warm else None
    target.__code__ = code
    hooks(target).clear()
    target.pre(noting("two"))
    assert noted(target) == ["two"]
    assert not hooks(target).displaced


def test_a_copy_of_our_code_is_inert_once_the_hooks_are_gone(target: types.FunctionType, warm: bool) -> None:
    # Code with the hooks as constants went on running them.
    target.pre(noting("one"))
    noted(target) if warm else None
    copy = types.FunctionType(target.__code__, globals(), "copy", (1,))
    target.pre(noting("two"))
    noted(target)
    assert noted(copy) == ["one", "two"]
    hooks(target).clear()
    assert noted(copy) == []


def test_two_that_patch_out_of_order_around_our_leaving_find_the_function_as_it_was(
    target: types.FunctionType, warm: bool
) -> None:
    # The place that was left cleanly was forgotten, and the copy of its code in `second` had nowhere to go: a
    # MountError, or an AttributeError once the function had been called. One example in 45,000 of test_removal.
    code = target.__code__
    target.pre(noting("hook"))
    noted(target) if warm else None
    first, second = Theirs(target), Theirs(target)
    first.take_off()
    noted(target) if warm else None
    hooks(target).clear()
    assert target.__code__ is code
    third = Theirs(target)
    target.pre(noting("other"))
    hooks(target).clear()
    assert target.__code__ is third.code
    second.take_off()
    gc.collect()
    assert noted(target) == ["theirs"]
    third.take_off()
    assert noted(target) == []
    assert target.__code__ is code


def test_our_code_put_back_long_after_the_removal_is_replaced_too(target: types.FunctionType, warm: bool) -> None:
    # It stayed: a place that was left cleanly did not know its own code any more.
    code = target.__code__
    target.pre(noting("hook"))
    noted(target) if warm else None
    kept = target.__code__
    hooks(target).clear()
    target.__code__ = kept
    assert noted(target) == []
    assert target.__code__ is code
    target.__code__ = kept
    target.pre(noting("again"))
    assert noted(target) == ["again"]
    hooks(target).clear()
    assert target.__code__ is code


def test_kept_code_is_stale_although_a_kept_stand_in_has_had_newer_code_linked_since() -> None:
    # The code that the second call had replaced was never told of the removal, and ran the hook for ever.
    target = make(lasting=True)
    hook = hooks(target).add("pre", noting("hook"))
    stand_in = types.FunctionType(target.__code__, globals(), argdefs=(1,))
    noted(stand_in)
    kept = types.FunctionType(target.__code__, globals(), argdefs=(1,))
    noted(stand_in)
    hook.remove()
    assert noted(kept) == []


def test_arguments_may_be_named_as_ours_are_when_stale_code_leaves_its_calls_to_us() -> None:
    # `self` was refused: "got multiple values for argument".
    def function(**fields: int) -> dict[str, int]:
        return fields

    code = hookable(function).__code__
    function.pre(noting("one"))
    function()
    monkeypatch = pytest.MonkeyPatch()
    INNER.append(types.FunctionType(function.__code__, globals()))
    monkeypatch.setattr(function, "__code__", eval("lambda **fields: INNER[0](**fields)").__code__)
    function.pre(noting("two"))
    assert function(self=1, args=2, kwargs=3) == {"self": 1, "args": 2, "kwargs": 3}
    monkeypatch.undo()
    hooks(function).clear()
    assert function.__code__ is code


@pytest.mark.skipif(FREE_THREADED, reason="code keeps its function alive there")
def test_code_that_outlives_its_function_says_that_the_function_is_gone() -> None:
    def other(item: object) -> object:
        return item

    def put() -> None:
        price = hookable(lambda item: item)
        price.pre(lambda: None)
        price(1)
        other.__code__ = price.__code__

    put()
    gc.collect()
    with pytest.raises(MountError, match="was put into is gone; keep it for as long as you keep its code"):
        other(1)


def test_a_function_with_two_parameters_of_one_name_cannot_be_mounted() -> None:
    def price(item: object, qty: object) -> object:
        return item

    price.__code__ = price.__code__.replace(co_varnames=("item", "item"))
    with pytest.raises(MountError, match=r"two of its parameters have the same name: \('item', 'item'\)"):
        hookable(price)


def test_the_dict_of_a_mounted_function_reads_as_a_dict() -> None:
    price = hookable(lambda item: item, name="shop:price")
    price.__dict__["mine"] = 3
    space = dict(price.__dict__)
    shown = price.__dict__
    assert list(shown.values()) == [shown[name] for name in shown]
    assert (shown == {**space}, shown != {**space}, shown != {}) == (True, False, True)
    assert repr(shown).startswith("{'pre': <pre hooks of shop:price: none>, ") and "'mine': 3" in repr(shown)


def test_the_defaults_of_a_hooked_function_are_the_objects_that_they_were() -> None:
    """Without the GIL CPython replaced them by equal constants: our copy had the tuple among its own."""
    half = float("2.5")

    def price(amount: float = half) -> float:
        return amount

    constant, defaults = 2.5, price.__defaults__
    mounted = hookable(price)
    hooks(mounted).pre(lambda: None)
    assert price() == constant
    hooks(mounted).clear()
    assert price() is half and price.__defaults__ is defaults and defaults is not None and defaults[0] is half


def test_a_block_that_raises_removes_its_hook(target: types.FunctionType) -> None:
    with pytest.raises(KeyError), hooks(target).add("pre", noting("block")):
        raise KeyError
    assert not hooks(target).members
