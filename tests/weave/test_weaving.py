"""The handle of a weaving: sharing, states, mounts and hooks, pausing, its block, its end, and what is freed."""

from __future__ import annotations

import contextvars
import enum
import functools
import gc
import sys
import types
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import hookable, hooks, weave

log: list[object] = []


def double(n: int) -> int:
    return 2 * n


class Cart:
    def total(self, n: int = 1) -> int:
        return n

    def weight(self, n: int = 7) -> int:
        return n


class Big(Cart):
    pass


def note() -> None:
    log.append("note")


def other() -> None:
    log.append("other")


def fail(kind: type[Exception]) -> None:
    raise kind


def traces() -> list[object]:
    """Return what a weaving might leave behind."""
    functions: list[Any] = [double, Cart.total, Cart.weight]
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


# States, mounts, hooks


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


def test_one_hook_is_given_for_several_types_of_exceptions() -> None:
    with weave(fail, exception={KeyError: note, ValueError: note}) as weaving:
        for kind in (KeyError, ValueError):
            with pytest.raises(kind):
                fail(kind)
        assert log == ["note"] * 2 and len(weaving.hooks) == 2


# Together with `hookable`


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


# What is freed


class Hook:
    def __call__(self) -> None:
        log.append("hook")


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


def test_an_interrupt_in_the_middle_of_putting_a_hook_on_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    # What was put on between the admission of the hook and its entry in the weaving stayed for good.
    def strike(*_: object) -> None:
        raise KeyboardInterrupt

    code = double.__code__
    with monkeypatch.context() as patched:
        patched.setattr(weakref.WeakKeyDictionary, "__setitem__", strike)
        with pytest.raises(KeyboardInterrupt):
            weave(double, pre=note)
    assert double.__code__ is code
    assert noted() == []


# Whose methods each weaving covers
OVERLAPPING = {
    f"{__name__}:Cart.total": {"total"},
    f"{__name__}:Cart.*": {"total", "weight"},
    f"{__name__}:Cart.*, !{__name__}:Cart.t*": {"weight"},
    f"{__name__}:Cart, !{__name__}:Cart.w*": {"total"},
}


@given(
    st.lists(st.sampled_from([*OVERLAPPING]), max_size=4).flatmap(
        lambda chosen: st.tuples(st.just(chosen), st.permutations(range(len(chosen))))
    ),
    st.booleans(),
)
def test_weavings_that_overlap_are_removed_in_any_order_also_by_a_block_that_fails(
    rows: tuple[list[str], list[int]], by_block: bool
) -> None:
    chosen, order = rows
    before, left = traces(), [*range(len(chosen))]
    with ExitStack() as undo:
        weavings = [weave(target, pre=lambda number=number: log.append(number)) for number, target in enumerate(chosen)]
        for weaving in weavings:
            undo.callback(weaving.remove)
        for removed in (None, *order):
            if removed is not None:
                left.remove(removed)
                with suppress(ZeroDivisionError), weavings[removed] if by_block else ExitStack():
                    fail(ZeroDivisionError) if by_block else weavings[removed].remove()
            for name in ("total", "weight"):
                expected = [number for number in left if name in OVERLAPPING[chosen[number]]]
                assert noted(getattr(Big(), name)) == expected
    assert traces() == before
