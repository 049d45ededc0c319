"""Aspects: objects whose marked methods are hooks, woven whole, sharing state through the object and the call."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import (
    Return,
    WeaveError,
    always,
    around,
    exception,
    hookable,
    hooks,
    item,
    post,
    pre,
    weave,
)

log: list[object] = []
SHOP = "aspect_shop"
SOURCE = """
def save(n):
    return f"saved {n}"

def fails():
    raise ValueError("bad")

def count(n):
    yield from range(n)
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
    functions = [module.save, module.fails, module.count]
    return [
        *((id(one.__code__), id(one.__dict__), dict(one.__dict__)) for one in functions),
        dict(vars(module)),
    ]


# However hooks are given, they are those that `add` puts on


class Given(NamedTuple):
    """One hook: its kind and exception types, its options, and the way in which it is given."""

    kind: str
    types: tuple[Any, ...]
    options: dict[str, Any]
    way: str


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.sampled_from(["HIGH", "LOW"]),
        "when": st.just(lambda n: n is not KeyError),
        "times": st.just(3),
    },
)
MARKS: dict[str, Any] = {"pre": pre, "around": around, "exception": exception, "post": post, "always": always}
TYPES = st.lists(st.sampled_from([KeyError, OSError, ValueError]), max_size=2, unique=True).map(tuple)
# The ways in the order of their hooks: keywords of `weave`, then marks in base classes, in the class, in the object.
WAYS = {
    "keyword": 0,
    "base": 1,
    "method": 2,
    "class method": 2,
    "marked class method": 2,
    "static method": 2,
    "object": 3,
}
GIVEN = st.builds(Given, st.sampled_from([*MARKS, "exception"]), TYPES, OPTIONS, st.sampled_from(list(WAYS)))


def noting(name: str, kind: str, is_bound: bool = False) -> Any:
    """Return a hook that notes its name, as it is written in a class or outside of one."""

    def note(proceed: Any = None) -> Any:
        log.append(name)
        return proceed() if proceed else None

    made: Any = (lambda proceed: note(proceed)) if kind == "around" else lambda: note()
    if is_bound:
        made = (lambda self, proceed: note(proceed)) if kind == "around" else lambda self: note()
    made.__name__ = made.__qualname__ = name
    return made


def risky(n: Any) -> Any:
    if isinstance(n, type):
        raise n
    return n


twin: Any = hookable(types.FunctionType(risky.__code__, globals(), "twin"))


def seen(function: Any, mount: Any) -> list[object]:
    """Return the hooks of a function, and what they note when it returns and when it raises."""
    log.clear()
    for n in (1, KeyError, 2, FileNotFoundError, ValueError, KeyError):
        with contextlib.suppress(ValueError, KeyError, OSError):
            log.append(n)
            function(n)
    return [*((one.kind, one.name, one.priority) for one in mount), *log]


@pytest.mark.parametrize("aim", ["mark", "pointcut", "object"])
@given(st.lists(GIVEN, min_size=1, max_size=4), OPTIONS, st.sampled_from(["everywhere", "context"]))
def test_hooks_are_those_that_add_puts_on_however_they_are_given(
    aim: str, several: list[Given], defaults: dict[str, Any], scope: Any
) -> None:
    spaces: list[dict[str, Any]] = [{}, {"__slots__": ()}, {"__slots__": ()}, {}]
    several = [one._replace(way="method") if aim == "mark" and one.way == "keyword" else one for one in several]
    hooks(twin).clear()
    several.sort(key=lambda one: (WAYS[one.way], one.way == "keyword" and str(one.types)))
    for place, one in enumerate(several):
        name, (kind, types, options, way) = f"hook_{place}", one
        types = types if kind == "exception" else ()
        if way == "keyword":
            rows = spaces[0].setdefault(kind, {} if kind == "exception" else [])
            (rows.setdefault(types or Exception, []) if kind == "exception" else rows).append(noting(name, kind))
            options = {}
        else:
            mark = MARKS[kind](*[f"{__name__}:risky"] * (aim == "mark"), *types, **options)
            function = noting(name, kind, is_bound=way in ("base", "method", "class method", "marked class method"))
            wrap = {"marked class method": classmethod, "static method": staticmethod}.get(way, lambda made: made)
            marked = mark(wrap(function))
            spaces[WAYS[way]][name] = classmethod(marked) if way == "class method" else marked
        hooks(twin).add(kind, noting(name, kind), *types, **{**defaults, **options})
    *_, base, cls, own = spaces
    if own:
        del cls["__slots__"]
    aspect = type("Aspect", (type("Base", (), base),), cls)()
    for name, function in own.items():
        setattr(aspect, name, function)
    given = {"aspect": aspect} if base.keys() | cls.keys() | own.keys() > {"__slots__"} else {}
    target = {"mark": aspect, "pointcut": f"{__name__}:risky", "object": risky}[aim]
    plain = risky.__code__
    with weave(target, **({} if aim == "mark" else given), **spaces[0], **defaults, scope=scope) as weaving:
        assert seen(risky, *weaving.mounts) == seen(twin, hooks(twin))
        if scope == "context":
            log.clear()
            contextvars.Context().run(risky, 1)
            assert log == []
    with pytest.raises(WeaveError, match="chooses nothing"):
        weave(target, **({} if aim == "mark" else given), **spaces[0], where=lambda _: False)
    hooks(twin).clear()
    log.clear()
    assert risky.__code__ is plain


# What is woven


def test_hooks_on_items_and_on_another_function_can_be_marked(shop: Any) -> None:
    class Aspect:
        @item(f"{SHOP}:count")
        def each(self, item: int) -> int:
            return item + 10

        @exception(f"{SHOP}:fails")
        def failed(self, exc: Exception) -> Return[str]:
            return Return(str(exc))

    with weave(Aspect()):
        assert list(shop.count(2)) == [10, 11]
        assert shop.fails() == "bad"


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
