"""Aspects: objects whose marked methods are hooks, woven whole, sharing state through the object and the call."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aspecthook import (
    Return,
    WeaveError,
    always,
    around,
    exception,
    item,
    post,
    pre,
    weave,
)

log: list[object] = []
SHOP = "aspect_shop"
SOURCE = """
import asyncio

def save(n):
    return f"saved {n}"

def load(key):
    return {"tea": 3}[key]

def fails():
    raise ValueError("bad")

async def later(n):
    await asyncio.sleep(0)
    return n

def count(n):
    yield from range(n)

async def acount(n):
    for number in range(n):
        await asyncio.sleep(0)
        yield number

class Cart:
    def save(self, n=1):
        return f"cart saved {n}"

    def drop(self):
        return "dropped"

class Box(Cart):
    def save(self, n=1):
        return "box " + super().save(n)

class Other:
    def drop(self):
        return "other"
"""


def made(name: str) -> Any:
    module: Any = types.ModuleType(name)
    exec(compile(SOURCE, f"<{name}>", "exec"), vars(module))
    return module


@pytest.fixture
def shop() -> Iterator[Any]:
    """Return an imported module, and see that nothing of it is changed in the end."""
    module = made(SHOP)
    sys.modules[SHOP] = module
    before = traces(module)
    try:
        yield module
        assert traces(module) == before
        assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("aspecthook")]
    finally:
        del sys.modules[SHOP]
        log.clear()


def traces(module: Any) -> list[object]:
    """Return what a weaving might leave behind."""
    functions = [module.save, module.load, module.fails, module.later, module.count, module.acount]
    functions += [module.Cart.save, module.Cart.drop, module.Box.save, module.Other.drop]
    classes = [module.Cart, module.Box, module.Other]
    return [
        *((id(one.__code__), id(one.__dict__), dict(one.__dict__)) for one in functions),
        *(dict(vars(one)) for one in classes),
        dict(vars(module)),
    ]


def run(work: Any) -> Any:
    return asyncio.run(work)


# What is woven


def test_every_kind_can_be_marked(shop: Any) -> None:
    class Aspect:
        @pre(f"{SHOP}:count")
        def before(self) -> None:
            log.append("pre")

        @around(f"{SHOP}:count")
        def about(self, proceed: Callable[[], Any]) -> Any:
            log.append("around")
            return proceed()

        @item(f"{SHOP}:count")
        def each(self, item: int) -> int:
            return item + 10

        @post(f"{SHOP}:count")
        def after(self) -> None:
            log.append("post")

        @exception(f"{SHOP}:fails")
        def failed(self, exc: Exception) -> Return[str]:
            return Return(str(exc))

        @always(f"{SHOP}:count")
        def last(self) -> None:
            log.append("always")

    with weave(Aspect()):
        assert list(shop.count(2)) == [10, 11]
        assert shop.fails() == "bad"
    assert log == ["pre", "around", "post", "always"]


def test_two_marks_that_mean_the_same_function_are_one_hook_there(shop: Any) -> None:
    class Aspect:
        @pre(f"{SHOP}:save")
        @pre(f"{SHOP}:s*")
        def note(self) -> None:
            log.append("note")

    with weave(Aspect()):
        shop.save(1)
    assert log == ["note"]


def test_options_given_to_weave_are_the_defaults_of_the_marks(shop: Any) -> None:
    class Aspect:
        @pre(f"{SHOP}:save", priority="HIGH")
        def own(self) -> None: ...

        @pre(f"{SHOP}:save")
        def other(self) -> None: ...

    with weave(Aspect(), priority="LOW") as weaving:
        assert {hook.name: hook.priority for hook in weaving.hooks} == {"own": 30, "other": 70}


def test_marks_are_woven_in_the_order_in_which_they_are_written_those_of_bases_first(shop: Any) -> None:
    class First:
        @pre(f"{SHOP}:save")
        def zulu(self) -> None:
            log.append("zulu")

        @pre(f"{SHOP}:save")
        def alpha(self) -> None:
            log.append("alpha")

    class Second(First):
        @pre(f"{SHOP}:save")
        def aardvark(self) -> None:
            log.append("aardvark")

    with weave(Second()):
        shop.save(1)
    assert log == ["zulu", "alpha", "aardvark"]


def test_options_where_and_scope_hold_for_all_marks(shop: Any) -> None:
    class Aspect:
        @pre(f"{SHOP}:*")
        def note(self, call: Any) -> None:
            log.append(call.function.__name__)

    with weave(Aspect(), where=lambda function: function.__name__ == "save", scope="context") as weaving:
        shop.save(1)
        shop.load("tea")
        thread = threading.Thread(target=shop.save, args=(1,))
        thread.start()
        thread.join()
        assert {mount.function.__name__ for mount in weaving.mounts} == {"save"}
        assert log == ["save"]


# Which methods can be marked


@pytest.mark.parametrize("value", [property(lambda self: None), 3, len, functools.cached_property(lambda self: None)])
def test_mark_on_something_else_than_a_method_is_refused(value: object) -> None:
    with pytest.raises(WeaveError, match="cannot be marked 'pre': it is not a method; put the mark on a function"):
        pre("shop:save")(value)
    with pytest.raises(WeaveError, match="the mark 'pre' takes no exception types; only 'exception' does"):
        pre("shop:*", KeyError)  # type: ignore[call-overload]


# Inheritance


def test_a_method_that_is_overridden_without_a_mark_stays_out(shop: Any) -> None:
    class Base:
        @pre(f"{SHOP}:save")
        def note(self) -> None:
            log.append("base")

        @pre(f"{SHOP}:save")
        def kept(self) -> None:
            log.append("kept")

    class Derived(Base):
        def note(self) -> None:
            log.append("derived")

    with weave(Derived()):
        shop.save(1)
    assert log == ["kept"]


# Which objects


def test_properties_of_an_aspect_are_not_read(shop: Any) -> None:
    class Lazy:
        @property
        def value(self) -> int:
            raise AssertionError("read")

        @functools.cached_property
        def cached(self) -> int:
            raise AssertionError("read")

        @pre(f"{SHOP}:save")
        def note(self) -> None:
            log.append("note")

    with weave(Lazy()):
        shop.save(1)
    assert log == ["note"]


def test_a_class_is_refused_where_an_object_is_meant(shop: Any) -> None:
    class Aspect:
        @pre(f"{SHOP}:save")
        def note(self) -> None:
            log.append("note")

    class Derived(Aspect):
        pass

    for cls in (Aspect, Derived):
        with pytest.raises(WeaveError, match=f"weave an object of it, as in weave\\({cls.__name__}\\(\\)\\)"):
            weave(cls)
        with pytest.raises(WeaveError):
            weave(shop.save, aspect=cls)
    shop.save(1)
    assert log == []


# Marks without a pointcut


def test_marks_without_a_pointcut_go_on_the_target_given(shop: Any) -> None:
    class Aspect:
        @pre
        def before(self, n: int) -> None:
            log.append(("before", n))

        @post()
        def after(self, result: str) -> str:
            return result + "!"

        @exception(KeyError, IndexError)
        def lost(self) -> Return[str]:
            return Return("lost")

        @exception
        def failed(self) -> Return[str]:
            return Return("failed")

    with weave(f"{SHOP}:save", aspect=Aspect()):
        assert shop.save(1) == "saved 1!"
    assert log == [("before", 1)]
    with weave(shop.save, aspect=Aspect()):
        assert shop.save(2) == "saved 2!"
    assert log == [("before", 1), ("before", 2)]


def test_marks_without_a_pointcut_need_a_target(shop: Any) -> None:
    class Aspect:
        @pre(f"{SHOP}:save")
        def somewhere(self) -> None:
            log.append("somewhere")

        @pre
        def nowhere(self) -> None: ...

    with pytest.raises(WeaveError, match=r"nowhere.*weave\(target, aspect=...\)"):
        weave(Aspect())
    shop.save(1)
    assert log == []


# All or nothing


@pytest.mark.parametrize("wrong", [f"{SHOP}:nothing", f"{SHOP}:Cart.nothing", "", ":", f"{SHOP}:", "int:"])
def test_a_wrong_mark_takes_the_others_off(shop: Any, wrong: str) -> None:
    class Aspect:
        @pre(f"{SHOP}:save")
        def first(self) -> None:
            log.append("first")

        @pre(wrong)
        def second(self) -> None:
            log.append("second")

    with pytest.raises(WeaveError):
        weave(Aspect())
    shop.save(1)
    assert log == []
    assert not hasattr(shop.save, "__wrapped__")


# Removal


def test_an_aspect_does_not_weave_its_own_methods() -> None:
    me = sys.modules[__name__]

    class Own:
        @pre(f"{__name__}:helped*")
        def helped_too(self) -> None:
            log.append("hook")

    log.clear()
    with weave(Own()):
        assert me.helped() == "helped"
    assert log == ["hook"]
    log.clear()


def helped() -> str:
    return "helped"
