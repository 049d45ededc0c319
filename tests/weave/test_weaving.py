"""The handle of a weaving: sharing, states, mounts and hooks, pausing, its block, its end, and what is freed."""

from __future__ import annotations

import contextvars
import enum
import functools
import gc
import os
import sys
import threading
import types
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from aspecthook import (
    HookTypeError,
    Priority,
    Return,
    WeaveError,
    event,
    hookable,
    hooks,
    weave,
)
from tests.threads import at_once

log: list[object] = []


def double(n: int) -> int:
    return 2 * n


@hookable
def mounted(n: int) -> int:
    return n


def triple(n: int) -> int:
    return 3 * n


def count(n: int) -> Iterator[int]:
    yield from range(n)


class Cart:
    def total(self, n: int = 1) -> int:
        return n

    def weight(self) -> int:
        return 7


class Big(Cart):
    pass


def note() -> None:
    log.append("note")


def other() -> None:
    log.append("other")


def traces() -> list[object]:
    """Return what a weaving might leave behind."""
    functions: list[Any] = [double, triple, count, Cart.total, Cart.weight]
    return [
        *((id(one.__code__), id(one.__dict__), dict(one.__dict__)) for one in functions),
        dict(vars(Cart)),
        dict(vars(Big)),
        type(zlib.crc32),
        id(zlib.crc32),
        list(sys.meta_path),
    ]


@pytest.fixture(autouse=True)
def _no_trace() -> Iterator[None]:
    log.clear()
    before = traces()
    yield
    log.clear()
    assert traces() == before


def noted(function: Callable[..., object] = double, *args: object) -> list[object]:
    """Call a function, and give what its hooks have noted."""
    log.clear()
    function(*(args or (1,)))
    return log[:]


# Sharing


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
@pytest.mark.parametrize("target", [double, f"{__name__}:double", "zlib:crc32"], ids=["function", "text", "C"])
def test_the_same_hook_woven_thrice_is_one_until_the_last_weaving_is_removed(
    target: Any, order: tuple[int, ...]
) -> None:
    call: Callable[[], list[object]] = (lambda: noted(zlib.crc32, b"")) if target == "zlib:crc32" else noted
    weavings = [weave(target, pre=note) for _ in range(3)]
    assert call() == ["note"]
    assert len({hook for weaving in weavings for hook in weaving.hooks}) == 1
    for place in order[:2]:
        weavings[place].remove()
        assert call() == ["note"]
    weavings[order[2]].remove()
    assert call() == []


def test_again_makes_a_second_hook() -> None:
    with weave(double, pre=note), weave(double, pre=note, again=True) as second:
        assert noted() == ["note", "note"]
        with weave(double, pre=note, again=True):
            assert noted() == ["note"] * 3
        second.remove()
        assert noted() == ["note"]


def test_a_hook_woven_again_is_not_shared_with_a_later_plain_weaving() -> None:
    with weave(double, pre=note, again=True) as first, weave(double, pre=note):
        assert noted() == ["note", "note"]
        first.remove()
        assert noted() == ["note"]


def test_the_same_hook_twice_in_one_weaving_is_one_unless_again() -> None:
    with weave(double, pre=[note, note]):
        assert noted() == ["note"]
    with weave(double, pre=[note, note], again=True):
        assert noted() == ["note", "note"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"pre": note}, {"post": note}),
        ({"pre": note}, {"pre": note, "priority": 10}),
        ({"pre": note}, {"pre": note, "name": "named"}),
        ({"pre": note}, {"pre": note, "isolate": True}),
        ({"pre": note}, {"pre": note, "when": lambda: True}),
        ({"pre": note}, {"pre": note, "times": 5}),
        ({"pre": note, "when": lambda: True}, {"pre": note, "when": lambda: True}),
        ({"pre": note, "once": True}, {"pre": note, "times": 2}),
    ],
)
def test_another_kind_or_other_options_make_another_hook(first: dict[str, Any], second: dict[str, Any]) -> None:
    with weave(double, **first), weave(double, **second):
        assert noted() == ["note", "note"]


def test_other_exception_types_make_another_hook_and_the_same_do_not() -> None:
    def fails() -> None:
        raise KeyError("key")

    hookable(fails)
    with (
        weave(fails, exception={KeyError: note}),
        weave(fails, exception={LookupError: note}),
        weave(fails, exception={KeyError: note}),
    ):
        with pytest.raises(KeyError):
            fails()
        assert log == ["note", "note"]


# What may be said of a hook, each in several ways that come to the same; the empty one leaves the option out.
SPELLINGS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({}, {"name": "note"}),
    ({}, {"priority": 50}, {"priority": "normal"}, {"priority": Priority.NORMAL}),
    ({}, {"before": ()}, {"before": []}, {"before": None}),
    ({"after": "x"}, {"after": ["x"]}, {"after": ("x", "x")}),
    ({}, {"when": None}),
    ({"once": True}, {"times": 1}, {"once": True, "times": 1}),
    ({}, {"every": None}, {"every": 1}),
    ({}, {"isolate": False}, {"reentrant": True}),
)


@hypothesis.given(st.tuples(*[st.tuples(st.sampled_from(ways), st.sampled_from(ways)) for ways in SPELLINGS]))
def test_options_that_come_to_the_same_are_one_hook(spelled: tuple[tuple[dict[str, Any], dict[str, Any]], ...]) -> None:
    first, second = ({name: value for pair in spelled for name, value in pair[side].items()} for side in (0, 1))
    with weave(double, pre=note, **first), weave(double, pre=note, **second):
        assert len(hooks(double)) == 1
    with hooks(mounted).add("pre", note, **first) as hook:
        assert hooks(mounted).add("pre", note, **second) is hook


@pytest.mark.parametrize("isolate", [True, False])
def test_an_event_that_isolates_its_subscribers_is_one_more_way_to_say_so(isolate: bool) -> None:
    @event(errors="isolate" if isolate else "raise")
    def sold(item: str) -> None: ...

    with weave(sold, on=note), weave(sold, on=note, isolate=isolate):
        assert len(hooks(sold)) == 1
        with weave(sold, on=note, isolate=not isolate):
            assert len(hooks(sold)) == 2


def test_equal_options_are_shared_whatever_their_order() -> None:
    with weave(double, pre=note, priority=3, name="one"), weave(double, pre=note, name="one", priority=3):
        assert noted() == ["note"]


@pytest.mark.parametrize("make", [lambda: ["one", "two"], lambda: tuple("ab"), lambda: {"one", "two"}])
@pytest.mark.parametrize("option", ["before", "after"])
def test_equal_collections_of_names_are_the_same_option(option: str, make: Callable[[], Any]) -> None:
    first: Any = {option: make()}
    second: Any = {option: make()}
    with weave(double, pre=note, **first), weave(double, pre=note, **second):
        assert noted() == ["note"]


def test_an_exception_hook_without_types_is_the_one_for_exception() -> None:
    with weave(double, exception=note), weave(double, exception={Exception: note}):
        assert len(hooks(double)) == 1


def test_a_type_and_a_tuple_of_it_are_the_same_types() -> None:
    with weave(double, exception={KeyError: note}), weave(double, exception={(KeyError,): note}):
        assert len(hooks(double)) == 1


def test_partials_class_methods_and_static_methods_are_known_again_as_hooks() -> None:
    class Holder:
        @classmethod
        def of_class(cls) -> None:
            log.append("class")

        @staticmethod
        def static() -> None:
            log.append("static")

    partial = functools.partial(note)
    given = [Holder.of_class, Holder.static, partial]
    with weave(double, pre=given), weave(double, pre=[Holder.of_class, Holder.static, partial]):
        assert noted() == ["class", "static", "note"]
    class_hook, other_class_hook = Holder.of_class, type("Derived", (Holder,), {}).of_class
    with weave(double, pre=class_hook), weave(double, pre=other_class_hook):
        assert noted() == ["class", "class"]


def test_two_scopes_are_one_hook_that_acts_where_either_wants_it_to() -> None:
    with weave(double, pre=note, scope="context"):
        with weave(double, pre=note):
            assert noted() == ["note"]
            assert contextvars.Context().run(noted) == ["note"]
        assert noted() == ["note"]
        assert contextvars.Context().run(noted) == []
    with weave(double, pre=note, scope="context"), weave(double, pre=note, scope="context"):
        assert noted() == ["note"]


def test_bound_methods_of_one_object_are_one_hook_and_of_equal_objects_two() -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

        def method(self) -> None:
            log.append("method")

    one, two = Equal(), Equal()
    with weave(double, pre=one.method), weave(double, pre=one.method):
        assert noted() == ["method"]
        with weave(double, pre=two.method):
            assert noted() == ["method", "method"]
        assert noted() == ["method"]


def test_a_hook_on_the_class_and_on_the_heir_runs_once_a_call() -> None:
    with weave(f"{__name__}:Big.total", pre=note):
        with weave(Cart.total, pre=note):
            assert noted(Cart().total) == ["note"]
            assert noted(Big().total) == ["note"]
        assert noted(Cart().total) == []
        assert noted(Big().total) == ["note"]
    with weave(f"{__name__}:Big.total", pre=note), weave(f"{__name__}:Big.total", pre=note):
        assert noted(Big().total) == ["note"]
        assert noted(Cart().total) == []


def test_hooks_on_two_instances_are_two() -> None:
    one, two = Cart(), Cart()
    with weave(one.total, pre=note), weave(two.total, pre=note), weave(one.total, pre=note):
        assert noted(one.total) == ["note"]
        assert noted(two.total) == ["note"]
        assert noted(Cart().total) == []


def test_a_shared_hook_that_somebody_takes_off_is_put_on_by_the_next_weaving() -> None:
    with weave(double, pre=note) as first:
        first.hooks[0].remove()
        assert noted() == []
        with weave(double, pre=note):
            assert noted() == ["note"]
            first.remove()
            assert noted() == ["note"]
        assert noted() == []


def test_clearing_the_mount_point_takes_woven_hooks_off_and_removal_is_still_clean() -> None:
    with weave(double, pre=note):
        hooks(double).clear()
        assert noted() == []


def test_a_woven_hook_is_another_than_the_same_function_added_by_hand() -> None:
    function = hookable(lambda n: n)
    function.pre(note)
    with weave(function, pre=note):
        assert noted(function) == ["note", "note"]
    assert noted(function) == ["note"]


def test_removing_the_acting_sharer_leaves_the_paused_one_paused() -> None:
    with weave(double, pre=note) as first:
        second = weave(double, pre=note)
        first.pause()
        second.remove()
        assert noted() == []
        first.resume()
        assert noted() == ["note"]


# States, mounts, hooks


def test_a_weaving_whose_place_somebody_took_is_displaced_and_their_work_stays() -> None:
    module: Any = types.ModuleType("weaving_displaced")
    exec("def f(n): return n", vars(module))
    plain = module.f.__code__
    theirs = (lambda n: -n).__code__
    weaving = weave(module.f, pre=note)
    module.f.__code__ = theirs
    assert weaving.state == "displaced"
    weaving.remove()
    assert module.f.__code__ is theirs
    assert weaving.state == "displaced"
    assert module.f(2) == -2
    assert log == []
    module.f.__code__ = plain
    assert module.f(2) == 2
    assert log == []


@pytest.mark.parametrize("keep", [True, False], ids=["mounts kept", "mounts not kept"])
def test_a_displaced_weaving_says_so_after_its_removal_whoever_holds_its_mounts(keep: bool) -> None:
    plain = double.__code__
    theirs = (lambda n: -n).__code__
    weaving = weave(double, pre=note)
    mounts = weaving.mounts if keep else ()
    try:
        double.__code__ = theirs
        weaving.remove()
        gc.collect()
        assert weaving.state == "displaced"
        assert double.__code__ is theirs
        assert len(mounts) == keep
    finally:
        double.__code__ = plain


def test_mounts_are_each_function_once_and_hooks_each_handle_once() -> None:
    with weave(f"{__name__}:double, {__name__}:triple", pre=[note, other], post=note) as weaving:
        assert {mount.function.__name__ for mount in weaving.mounts} == {"double", "triple"}
        assert len(weaving.mounts) == 2
        assert len(weaving.hooks) == 6
        assert {(hook.kind, hook.name) for hook in weaving.hooks} == {
            ("pre", "note"),
            ("pre", "other"),
            ("post", "note"),
        }
        assert hooks(double) in weaving.mounts


def test_a_mount_counts_only_hooks_that_are_there() -> None:
    with weave(double, pre=note) as weaving, weave(double, pre=other):
        assert len(weaving.hooks) == 1
        assert len(weaving.mounts[0]) == 2


def test_the_repr_names_target_and_state() -> None:
    weaving = weave(f"{__name__}:double", pre=note)
    assert f"{__name__}:double" in repr(weaving)
    assert "woven" in repr(weaving)
    weaving.remove()
    assert "removed" in repr(weaving)


def test_hooks_gives_the_mount_point_of_a_woven_function_and_of_a_proxy() -> None:
    with weave(double, pre=note) as weaving:
        assert hooks(double) is weaving.mounts[0]
        assert [hook.name for hook in hooks(double)] == ["note"]
        assert "note" in hooks(double)
    plain = zlib.crc32
    with weave("zlib:crc32", pre=note) as weaving:
        assert hooks(zlib.crc32) is weaving.mounts[0]
        assert hooks(zlib.crc32).pre[0].function is note
    assert zlib.crc32 is plain


def test_hooks_of_a_woven_method_are_found_from_the_class_and_the_instance() -> None:
    with weave(Cart, pre=note) as weaving:
        assert len(weaving.mounts) == 2
        assert hooks(Cart.total) in weaving.mounts
        assert [hook.name for hook in hooks(Cart.weight)] == ["note"]


def test_a_hook_added_to_a_woven_mount_point_stays_when_the_weaving_goes() -> None:
    with weave(double, pre=note):
        own = hooks(double).add("pre", other)
        assert noted() == ["note", "other"]
    assert noted() == ["other"]
    own.remove()
    assert noted() == []


def test_a_hook_added_to_a_proxy_keeps_the_proxy_until_it_goes() -> None:
    plain = zlib.crc32
    with weave("zlib:crc32", pre=note):
        own = hooks(zlib.crc32).add("pre", other)
    assert noted(zlib.crc32, b"") == ["other"]
    own.remove()
    assert zlib.crc32 is plain
    assert noted(zlib.crc32, b"") == []


@pytest.mark.parametrize("sort", ["lru_cache", "partial", "_generate_next_value_"])
def test_a_weaving_that_is_removed_and_kept_keeps_no_proxy_and_not_its_target(sort: str) -> None:
    # Of rich, woven whole, 69 mount points without hooks stayed.
    class Colour(enum.Enum):
        RED = 1

    module = types.ModuleType("proxied_module")
    module.target = {  # type: ignore[attr-defined]
        "lru_cache": lambda: functools.lru_cache(lambda x: x),
        "partial": lambda: functools.partial(print, end=""),
        "_generate_next_value_": lambda: Colour,
    }[sort]()
    name = "target" if sort != "_generate_next_value_" else f"target.{sort}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "proxied_module", module)
        weaving = weave(f"proxied_module:{name}", pre=note)
        mounts = [weakref.ref(mount) for mount in weaving.mounts]
        weaving.remove()
    gc.collect()
    assert [ref() for ref in mounts] == [None]
    if sort != "_generate_next_value_":
        target = weakref.ref(module.target)
        del module.target
        gc.collect()
        assert target() is None
    assert weaving.state == "removed"


# Blocks


def test_a_block_gives_its_weaving_and_takes_it_off_at_the_end() -> None:
    weaving = weave(double, pre=note)
    with weaving as given:
        assert given is weaving
        assert noted() == ["note"]
    assert noted() == []
    assert weaving.state == "removed"


def test_exception_in_the_block_is_unchanged_and_the_hooks_are_removed() -> None:
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught, weave(double, pre=note):
        raise error
    assert caught.value is error
    assert caught.value.__context__ is None
    assert noted() == []


def test_removing_inside_the_block_is_no_error() -> None:
    with weave(double, pre=note) as weaving:
        weaving.remove()
        assert noted() == []
    assert weaving.state == "removed"


def test_a_weaving_may_be_removed_many_times() -> None:
    weaving = weave(double, pre=note)
    again = weave(double, pre=note)
    for _ in range(3):
        weaving.remove()
    assert noted() == ["note"], "a second removal took the hook from another weaving"
    again.remove()
    assert noted() == []


def test_a_removed_weaving_does_nothing_when_it_is_paused_resumed_or_checked_and_cannot_be_entered() -> None:
    weaving = weave(double, pre=note)
    weaving.remove()
    with pytest.raises(WeaveError, match="weave again"), weaving:
        pass
    weaving.pause()
    weaving.resume()
    weaving.check()
    assert noted() == []
    assert weaving.state == "removed"


def test_a_hook_may_remove_its_own_weaving() -> None:
    weaving = weave(double, pre=lambda: (note(), weaving.remove())[0])
    assert double(2) == 4
    assert log == ["note"]
    assert noted() == []


def test_a_hook_may_remove_its_own_weaving_from_a_proxy() -> None:
    plain = zlib.crc32
    weaving = weave("zlib:crc32", pre=lambda: weaving.remove())
    assert zlib.crc32(b"") == 0
    assert zlib.crc32 is plain
    assert weaving.state == "removed"


def test_a_nested_everywhere_block_of_one_weaving_lasts_until_the_outer_one_ends() -> None:
    weaving = weave(double, pre=note)
    with weaving:
        with weaving:
            assert noted() == ["note"]
        assert noted() == ["note"]
    assert noted() == []


# Pausing


def test_pause_and_resume_are_idempotent() -> None:
    with weave(double, pre=note) as weaving:
        weaving.pause()
        weaving.pause()
        assert noted() == []
        assert weaving.state == "woven"
        weaving.resume()
        assert noted() == ["note"]
        weaving.resume()
        assert noted() == ["note"]


def test_pausing_in_a_hook_counts_from_the_next_call() -> None:
    def pausing() -> None:
        note()
        weaving.pause()

    with weave(double, pre=pausing, post=other) as weaving:
        assert noted() == ["note", "other"]
        assert noted() == []


def test_pausing_one_instance_leaves_another() -> None:
    one, two = Cart(), Cart()
    with weave(one.total, pre=note) as weaving, weave(two.total, pre=note):
        weaving.pause()
        assert noted(one.total) == []
        assert noted(two.total) == ["note"]
        weaving.resume()
        assert noted(one.total) == ["note"]


# Hooks that take themselves off


@pytest.mark.parametrize(("options", "calls"), [({"once": True}, 1), ({"times": 3}, 3), ({"times": 2, "every": 2}, 2)])
def test_a_counted_hook_takes_itself_off_and_leaves_no_trace(options: dict[str, Any], calls: int) -> None:
    code = double.__code__
    with weave(double, pre=note, **options):
        for _ in range(8):
            double(1)
        assert log == ["note"] * calls
        assert double.__code__ is code
        assert not hasattr(double, "__wrapped__")


def test_a_once_hook_on_a_proxy_gives_the_original_back() -> None:
    plain = zlib.crc32
    with weave("zlib:crc32", pre=note, once=True):
        zlib.crc32(b"")
        assert zlib.crc32 is plain
        zlib.crc32(b"")
    assert log == ["note"]


def test_a_once_hook_that_has_gone_can_be_woven_again() -> None:
    with weave(double, pre=note, once=True):
        double(1)
        with weave(double, pre=note, once=True):
            double(1)
            double(1)
    assert log == ["note", "note"]


def test_resuming_does_not_bring_back_a_hook_that_took_itself_off() -> None:
    with weave(double, pre=note, once=True) as weaving:
        double(1)
        weaving.pause()
        weaving.resume()
        double(1)
    assert log == ["note"]


# Together with `hookable`


def test_a_hookable_function_is_woven_and_keeps_its_own_hooks() -> None:
    function = hookable(lambda n: n)
    function.post(lambda result: result + 1)
    code = function.__code__
    with weave(function, post=lambda result: result * 10):
        assert function(1) == 20
    assert function(1) == 2
    assert hooks(function).name
    assert code is not None


def test_a_function_that_becomes_hookable_while_it_is_woven_stays_so() -> None:
    def function(n: int) -> int:
        return n

    code = function.__code__
    with weave(function, pre=note):
        assert hookable(function) is function
        mounted: Any = function
        hook = mounted.pre(other)
        assert hook is other
        assert noted(function) == ["note", "other"]
    assert noted(function) == ["other"]
    hooks(function).clear()
    assert noted(function) == []
    assert function.__code__ is code
    assert hasattr(function, "pre")


def test_a_hookable_class_is_woven() -> None:
    @hookable
    class Shop:
        def sell(self) -> int:
            return 1

    with weave(Shop, post=lambda result: result + 1):
        assert Shop().sell() == 2
    assert Shop().sell() == 1


def test_a_function_that_is_hooked_for_an_instance_is_woven_for_all() -> None:
    one = Cart()
    with weave(one.total, pre=other), weave(Cart.total, pre=note):
        assert noted(Cart().total) == ["note"]
        assert sorted(map(str, noted(one.total))) == ["note", "other"]


def test_wrapped_is_there_only_while_hooks_are() -> None:
    assert not hasattr(double, "__wrapped__")
    with weave(double, pre=note):
        assert double.__wrapped__.__code__ is not double.__code__  # type: ignore[attr-defined]
    assert not hasattr(double, "__wrapped__")


def test_a_wrapped_of_somebody_else_is_left_alone() -> None:
    @functools.wraps(double)
    def wrapper(n: int) -> int:
        return double(n)

    with weave(wrapper, pre=note):
        assert noted(wrapper) == ["note"]
        assert wrapper.__wrapped__ is double  # type: ignore[attr-defined]
    assert wrapper.__wrapped__ is double  # type: ignore[attr-defined]


# What is freed


class Hook:
    def __call__(self) -> None:
        log.append("hook")


def test_a_handle_that_is_dropped_leaves_its_hooks_on() -> None:
    weave(double, pre=note)
    gc.collect()
    try:
        assert noted() == ["note"]
    finally:
        hooks(double).clear()


@pytest.mark.parametrize("kinds", [{"pre": note}, {"pre": note, "scope": "context"}], ids=["everywhere", "context"])
def test_a_closure_that_is_woven_and_dropped_is_freed_with_its_hooks(kinds: dict[str, Any]) -> None:
    class Token:
        pass

    token = Token()

    def hook() -> Token:
        return token

    def make() -> Callable[[], object]:
        held = Token()

        def closure() -> object:
            return held

        return closure

    closure = make()
    weak = [weakref.ref(closure), weakref.ref(closure()), weakref.ref(token), weakref.ref(hook)]
    weaving = weave(closure, always=hook, scope=kinds.get("scope", "everywhere"))
    closure()
    del closure, weaving, hook, token
    gc.collect()
    assert [one() is None for one in weak] == [True] * 4


def test_a_hook_that_refers_to_its_target_is_freed_with_it() -> None:
    def make() -> Any:
        def target() -> int:
            return 1

        def hook() -> None:
            log.append(target.__name__)

        weave(target, pre=hook)
        return target

    target = make()
    target()
    assert log == ["target"]
    weak = weakref.ref(target)
    del target
    gc.collect()
    assert weak() is None


def test_a_class_woven_by_a_method_it_inherits_is_freed_and_its_hook_goes() -> None:
    module = types.ModuleType("weaving_classes")
    sys.modules["weaving_classes"] = module
    weaving = None
    try:

        class Child(Cart):
            pass

        Child.__module__, Child.__qualname__ = "weaving_classes", "Child"
        module.Child = Child  # type: ignore[attr-defined]
        code = Cart.total.__code__
        weaving = weave("weaving_classes:Child.total", pre=note)
        assert noted(Child().total) == ["note"]
        assert noted(Cart().total) == []
        weak = weakref.ref(Child)
        del Child, module.Child  # type: ignore[attr-defined]
        gc.collect()
        assert weak() is None
        assert Cart.total.__code__ is code
        assert type(vars(Cart.total)) is dict and "__aspecthook__" not in vars(Cart.total)
    finally:
        del sys.modules["weaving_classes"]
        if weaving is not None:
            weaving.remove()


def test_the_hooks_are_freed_after_removal() -> None:
    hook = Hook()
    weak = weakref.ref(hook)
    weaving = weave(f"{__name__}:double, zlib:crc32", pre=hook)
    double(1)
    zlib.crc32(b"")
    assert log == ["hook", "hook"]
    weaving.remove()
    del hook, weaving
    gc.collect()
    assert weak() is None


def test_a_context_block_keeps_nothing_alive_after_it() -> None:
    hook = Hook()
    weak = weakref.ref(hook)
    with weave(double, pre=hook, scope="context") as weaving:
        double(1)
    weak_handle = weakref.ref(weaving)
    del hook, weaving
    gc.collect()
    assert weak() is None
    assert weak_handle() is None


@pytest.mark.parametrize("how", ["copied inside the block", "left in another context"])
def test_a_context_that_outlives_a_block_keeps_nothing_of_it_alive(how: str) -> None:
    # A task that a block starts has a copy of its context, and may run for good.
    hook = Hook()
    weak = weakref.ref(hook)
    weaving = weave(double, pre=hook, scope="context")
    context = contextvars.copy_context()
    if how == "copied inside the block":
        with weaving:
            context = contextvars.copy_context()
    else:
        context.run(weaving.__enter__)
        weaving.__exit__(None, None, None)
    context.run(double, 1)
    assert log == []
    assert weaving.state == "removed"
    del hook, weaving
    gc.collect()
    assert weak() is None


# Threads and forks


def test_threads_that_weave_and_remove_the_same_targets_lose_nothing() -> None:
    plain, alias = zlib.crc32, zlib.adler32
    seen: list[list[int]] = [[] for _ in range(8)]
    rounds = 10

    def work(number: int) -> None:
        def mine() -> None:
            if threading.get_ident() == me:
                seen[number].append(1)

        me = threading.get_ident()
        for _ in range(rounds):
            with weave(f"{__name__}:double, {__name__}:Cart.*, zlib:crc32", pre=mine):
                double(1)
                Cart().total()
                zlib.crc32(b"")
            double(1)
            zlib.crc32(b"")

    at_once(*(functools.partial(work, number) for number in range(8)), switching=1e-5)
    assert [len(one) for one in seen] == [3 * rounds] * 8
    assert zlib.crc32 is plain
    assert zlib.adler32 is alias


def test_threads_that_share_one_hook_leave_no_trace() -> None:
    code = double.__code__
    calls: list[int] = []

    def shared() -> None:
        calls.append(1)

    def work() -> None:
        for _ in range(40):
            weaving = weave(double, pre=shared)
            before = len(calls)
            double(1)
            assert len(calls) > before, "the hook was gone while a weaving wanted it"
            weaving.remove()

    at_once(*[work] * 8, switching=1e-5)
    assert double.__code__ is code
    count = len(calls)
    double(1)
    assert len(calls) == count


def test_threads_that_pause_and_resume_and_remove_end_with_nothing() -> None:
    weaving = weave(f"{__name__}:double, zlib:crc32", pre=note)

    def work(act: Callable[[], object]) -> None:
        for _ in range(50):
            act()
            double(1)

    at_once(
        functools.partial(work, weaving.pause),
        functools.partial(work, weaving.resume),
        functools.partial(work, lambda: weaving.state),
    )
    weaving.resume()
    assert noted() == ["note"]
    weaving.remove()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs Unix")
def test_a_fork_while_woven_carries_the_hooks_and_each_side_removes_its_own() -> None:
    code = double.__code__
    plain = zlib.crc32
    with weave(f"{__name__}:double, zlib:crc32", post=lambda result: result + 1) as weaving:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads, as xdist has
            pid = os.fork()
        if pid == 0:
            good = False
            try:
                good = double(1) == 3 and zlib.crc32(b"") == 1
                weaving.remove()
                good = good and double(1) == 2 and zlib.crc32 is plain and double.__code__ is code
            finally:
                os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert double(1) == 3
        assert zlib.crc32(b"") == 1


# How hooks are given


@pytest.mark.parametrize("kind", ["pre", "around", "post", "always"])
def test_each_kind_takes_a_hook_or_a_list_or_a_tuple(kind: str) -> None:
    def first(**_: object) -> None:
        log.append("first")

    def second(**_: object) -> None:
        log.append("second")

    def around(proceed: Callable[[], object]) -> object:
        log.append("first")
        return proceed()

    def inner(proceed: Callable[[], object]) -> object:
        log.append("second")
        return proceed()

    one, two = (around, inner) if kind == "around" else (first, second)
    for given, expected in (
        (one, ["first"]),
        ([one], ["first"]),
        ([one, two], ["first", "second"]),
        ((two, one), ["second", "first"]),
        ([], None),
        (None, None),
    ):
        kinds: Any = {kind: given}
        if expected is None:
            with pytest.raises(WeaveError):
                weave(double, **kinds)
            assert noted() == []
            continue
        with weave(double, **kinds):
            assert noted() == expected


def test_item_takes_a_hook_or_a_list() -> None:
    with weave(count, item=[lambda item: item + 1, lambda item: item * 10]):
        assert list(count(2)) == [10, 20]
    with weave(count, item=lambda item: -item):
        assert list(count(2)) == [0, -1]
    with pytest.raises(HookTypeError):
        weave(double, item=lambda item: item)


def test_exception_takes_a_hook_a_list_and_a_mapping_with_types_and_tuples() -> None:
    def risky(error: BaseException) -> None:
        raise error

    def first(exc: BaseException) -> Return[str] | None:
        log.append("first")
        return Return("first")

    def second(exc: BaseException) -> Return[str] | None:
        log.append("second")
        return Return("second")

    def passing(exc: BaseException) -> None:
        log.append("passing")

    call: Any = risky
    with weave(risky, exception=first):
        assert call(KeyError()) == "first"
        with pytest.raises(KeyboardInterrupt):
            call(KeyboardInterrupt())
    with weave(risky, exception=[passing, first]):
        assert call(KeyError()) == "first"
    with weave(risky, exception={KeyError: first, (OSError, TypeError): [passing, second]}):
        log.clear()
        assert call(KeyError()) == "first"
        assert call(TypeError()) == "second"
        assert call(FileNotFoundError()) == "second"
        with pytest.raises(ValueError, match="other"):
            call(ValueError("other"))
        assert log == ["first", "passing", "second", "passing", "second"]
    with weave(risky, exception={KeyboardInterrupt: first}):
        assert call(KeyboardInterrupt()) == "first"
    with weave(risky, exception=types.MappingProxyType({KeyError: first})):
        assert call(KeyError()) == "first"


def test_a_class_of_hooks_in_one_call_share_options() -> None:
    with weave(double, pre=[note, other], priority="HIGH") as weaving:
        assert {hook.priority for hook in weaving.hooks} == {30}


@pytest.mark.parametrize("where", ["claim", "WovenHook"])
def test_an_interrupt_in_the_middle_of_putting_a_hook_on_leaves_none(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    # What was put on between the admission of the hook and its entry in the weaving stayed for good.
    from aspecthook.weave import _woven

    claim = _woven.WovenHook.claim

    def strike(*_: object) -> None:
        raise KeyboardInterrupt

    def strike_late(*args: Any) -> None:
        claim(*args)
        raise KeyboardInterrupt

    code = double.__code__
    with monkeypatch.context() as patched:
        if where == "claim":
            patched.setattr(_woven.WovenHook, "claim", strike_late)
        else:
            patched.setattr(_woven, "WovenHook", strike)
        with pytest.raises(KeyboardInterrupt):
            weave(double, pre=note)
    assert double.__code__ is code
    assert noted() == []


def test_a_weaving_keeps_no_hook_of_others_on_a_function_that_is_gone() -> None:
    def made() -> Any:
        def price(n: int) -> int:
            return n

        return price

    def theirs() -> None: ...

    price = made()
    weaving = weave(price, pre=lambda: None)
    hooks(price).add("post", theirs)
    kept = weakref.ref(theirs)
    del price, theirs
    gc.collect()
    assert kept() is None and not weaving.mounts
    weaving.remove()
