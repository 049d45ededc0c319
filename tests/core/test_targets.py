"""Every sort of function as a mount point: hooks see and alter the call, and nothing else about it changes."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import copy
import functools
import inspect
import operator
import pickle
import types
import typing
from collections import namedtuple
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass

import pytest

from aspecthook import Args, HookLookupError, hookable, hooks

# The targets. Each has one argument that hooks look at and replace.


@hookable
def function(n: int, by: int = 3) -> int:
    """Multiply."""
    return n * by


positional_only = hookable(lambda n, /, by=3: n * by)
keyword_only = hookable(lambda *, n, by=3: n * by)
variadic = hookable(lambda n, *rest, by=3, **extra: n * by + sum(rest) + sum(extra.values()))
recursive = hookable(lambda n: n if n < 2 else n + recursive(n - 2))
closure = hookable((lambda size: lambda n: n * size)(3))


@hookable
async def coroutine(n: int) -> int:
    await asyncio.sleep(0)
    return n * 3


@hookable
def generator(n: int) -> Generator[int, None, int]:
    yield n
    return n * 3


@hookable
async def async_generator(n: int) -> AsyncIterator[int]:
    yield n
    await asyncio.sleep(0)


@hookable
@types.coroutine
def old_coroutine(n: int) -> Generator[None, None, int]:
    yield
    return n * 3


@contextlib.contextmanager
@hookable
def managed(n: int) -> Iterator[int]:
    yield n * 3


@functools.lru_cache
@hookable
def cached(n: int) -> int:
    return n * 3


class Meta(type):
    @hookable
    def of_the_class(cls, n: int) -> int:
        return n * 3


class Base:
    def scaled(self, n: int) -> int:
        return n * 3


class Shop(Base, metaclass=Meta):
    def __init__(self, size: int) -> None:
        self.size = size

    def method(self, n: int) -> int:
        return n * self.size

    @hookable
    def scaled(self, n: int) -> int:
        return super().scaled(n)

    def size_of(self) -> int:
        return self.size

    def count(self, n: int) -> int:
        return n * 3

    def __exit__(self, *_: object) -> None: ...

    __call__ = hookable(lambda self, n: n * self.size)
    __getitem__ = hookable(lambda self, n: n * self.size)
    __getattr__ = hookable(lambda self, n: n * self.size)
    __enter__ = hookable(lambda self: self.size)
    outside_classmethod = hookable(classmethod(lambda cls, n: n * 3))
    inside_classmethod = classmethod(hookable(lambda cls, n: n * 3))
    outside_staticmethod = hookable(staticmethod(lambda n: n * 3))
    inside_staticmethod = staticmethod(hookable(lambda n: n * 3))
    outside_property = hookable(property(lambda self: self.size))
    inside_property = property(hookable(lambda self: self.size))

    @hookable
    @functools.cached_property
    def outside_cached(self) -> int:
        return self.size

    @functools.cached_property
    @hookable
    def inside_cached(self) -> int:
        return self.size


class Made:
    seen: int

    @hookable
    def __new__(cls, n: int) -> Made:
        made = super().__new__(cls)
        made.seen = n * 3
        return made

    @hookable
    def __init_subclass__(cls, n: int = 2) -> None:
        cls.seen = n * 3


class Slotted:
    __slots__ = ("seen",)

    @hookable
    def __init__(self, n: int) -> None:
        self.seen = n * 3


class Abstract(abc.ABC):
    @hookable
    @abc.abstractmethod
    def inner(self, n: int) -> int:
        return n * 3

    @abc.abstractmethod
    @hookable
    def outer(self, n: int) -> int: ...


class Concrete(Abstract):
    def inner(self, n: int) -> int:
        return super().inner(n)

    outer = inner


@dataclass
class Record:
    n: int

    @hookable
    def scaled(self, n: int) -> int:
        return n * 3


@hookable
class Whole:
    def method(self, n: int) -> int:
        return n * 3


Point = namedtuple("Point", "n")  # made by `eval`, which is the point
hookable(Record.__init__)
hookable(Point.__new__)
hookable(Shop.method)


def drained(stream: Generator[object, None, object]) -> list[object]:
    items = []
    while True:
        try:
            items.append(next(stream))
        except StopIteration as stop:
            return [*items, stop.value]


def ran(target: typing.Any) -> object:
    async def awaited() -> object:
        return [item async for item in target(2)] if target is async_generator else await target(2)

    return asyncio.run(awaited())


def entered(manager: contextlib.AbstractContextManager[object]) -> object:
    with manager as value:
        return value


def subclass() -> type[Made]:
    return type("Sub", (Made,), {})


class Case(typing.NamedTuple):
    """A target, a call of it, what comes of it; with its argument replaced; with its result replaced by 7."""

    function: typing.Any
    run: Callable[[], object]
    outcome: object = 6
    replaced: object = 15
    result_7: object = 7
    given: object = 2
    other: object = 5
    asks: str = "n"


small, big = Shop(3), Shop(5)
of_shop = {name: getattr(one, "__func__", one) for name, one in vars(Shop).items()}
own = {"outcome": 3, "replaced": 5, "given": small, "other": big, "asks": "self"}
CASES = {
    "function": Case(function, lambda: function(2)),
    "by keyword": Case(function, lambda: function(n=2)),
    "default": Case(function, lambda: function(4), 12, 20, given=3, asks="by"),
    "positional-only": Case(positional_only, lambda: positional_only(2)),
    "keyword-only": Case(keyword_only, lambda: keyword_only(n=2)),
    "*args, **kwargs": Case(variadic, lambda: variadic(2, 1, z=1), 8, 17),
    "recursion": Case(recursive, lambda: recursive(2), 2, 9),
    "closure": Case(closure, lambda: closure(2)),
    "coroutine": Case(coroutine, lambda: ran(coroutine)),
    "types.coroutine": Case(old_coroutine, lambda: ran(old_coroutine)),
    "generator": Case(generator, lambda: drained(generator(2)), [2, 6], [5, 15], [2, 7]),
    "async generator": Case(async_generator, lambda: ran(async_generator), [2], [5], [2]),
    "contextmanager": Case(managed.__wrapped__, lambda: entered(managed(2)), result_7=6),
    "lru_cache": Case(cached.__wrapped__, lambda: cached(2)),
    "metaclass": Case(Meta.of_the_class, lambda: Shop.of_the_class(2)),
    "method": Case(Shop.method, lambda: small.method(2)),
    "super()": Case(Shop.scaled, lambda: small.scaled(2)),
    "hookable(classmethod)": Case(of_shop["outside_classmethod"], lambda: Shop.outside_classmethod(2)),
    "classmethod(hookable)": Case(of_shop["inside_classmethod"], lambda: small.inside_classmethod(2)),
    "hookable(staticmethod)": Case(of_shop["outside_staticmethod"], lambda: Shop.outside_staticmethod(2)),
    "staticmethod(hookable)": Case(of_shop["inside_staticmethod"], lambda: small.inside_staticmethod(2)),
    "hookable(property)": Case(Shop.outside_property.fget, lambda: small.outside_property, **own),
    "property(hookable)": Case(Shop.inside_property.fget, lambda: small.inside_property, **own),
    "hookable(cached_property)": Case(Shop.outside_cached.func, lambda: small.outside_cached, **own),
    "cached_property(hookable)": Case(Shop.inside_cached.func, lambda: small.inside_cached, **own),
    "__enter__": Case(Shop.__enter__, lambda: entered(small), **own),
    "__call__": Case(of_shop["__call__"], lambda: small(2)),
    "__getitem__": Case(Shop.__getitem__, lambda: small[2]),
    "__getattr__": Case(Shop.__getattr__, lambda: small.a, "aaa", "bbb", given="a", other="b"),
    "__new__": Case(Made.__new__, lambda: getattr(Made(2), "seen", 7)),
    "__init_subclass__": Case(Made.__init_subclass__.__func__, lambda: subclass().seen, result_7=6),
    "__init__ with __slots__": Case(Slotted.__init__, lambda: Slotted(2).seen, result_7=TypeError),
    "abstract method": Case(Abstract.inner, lambda: Concrete().inner(2)),
    "dataclass": Case(Record.scaled, lambda: Record(1).scaled(2)),
    "dataclass __init__": Case(Record.__init__, lambda: Record(2).n, 2, 5, TypeError),
    "namedtuple __new__": Case(Point.__new__, lambda: Point(2), (2,), (5,)),
    "hookable class": Case(Whole.method, lambda: Whole().method(2)),
}
every_target = pytest.mark.parametrize("case", list(CASES.values()), ids=list(CASES))


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    for case in CASES.values():
        hooks(case.function).clear()
    vars(small).pop("outside_cached", None), vars(small).pop("inside_cached", None), cached.cache_clear()


def outcome(case: Case) -> object:
    """Run a case, with nothing in caches."""
    vars(small).pop("outside_cached", None), vars(small).pop("inside_cached", None), cached.cache_clear()
    try:
        return case.run()
    except TypeError as error:
        return type(error)


def looker(case: Case, look: Callable[[object], object]) -> Callable[..., object]:
    """Make a hook that asks for the case's argument, by its name."""
    return eval(f"lambda {case.asks}: look({case.asks})", {"look": look})


@every_target
def test_hooks_see_the_argument_and_the_call_goes_on_as_before(case: Case) -> None:
    seen: list[object] = []
    assert outcome(case) == case.outcome
    for kind in ("pre", "post", "always"):
        getattr(case.function, kind)(looker(case, seen.append))
    assert [outcome(case), outcome(case)] == [case.outcome] * 2
    assert seen[0] == case.given
    assert len(seen) % 6 == 0


@every_target
def test_a_pre_hook_replaces_the_argument(case: Case) -> None:
    case.function.pre(looker(case, lambda given: Args(**{case.asks: case.other}) if given == case.given else None))
    assert [outcome(case), outcome(case)] == [case.replaced] * 2


@every_target
def test_a_post_hook_replaces_the_result(case: Case) -> None:
    case.function.post(lambda result: 7)
    assert [outcome(case), outcome(case)] == [case.result_7] * 2


def answer(ask: Callable[[typing.Any], object], function: typing.Any) -> object:
    try:
        return ask(function)
    except Exception as refusal:
        return type(refusal), str(refusal)


ATTRIBUTES = ("name", "qualname", "module", "doc", "defaults", "kwdefaults", "annotations", "closure", "globals")
QUESTIONS: list[Callable[[typing.Any], object]] = [
    type,
    repr,
    inspect.signature,
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
    inspect.getsource,
    inspect.getdoc,
    inspect.getmodule,
    typing.get_type_hints,
    pickle.dumps,
    copy.copy,
    copy.deepcopy,
    lambda function: inspect.signature(functools.wraps(function)(lambda: None)),
    lambda function: getattr(function, "__isabstractmethod__", None),
    lambda function: bool(function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE),
    *(operator.attrgetter(f"__{name}__") for name in ATTRIBUTES),
    lambda function: [getattr(inspect.unwrap(function), f"__{name}__", None) for name in ATTRIBUTES],
]


@every_target
def test_introspection_of_the_function_sees_no_hooks(case: Case) -> None:
    before = [answer(question, case.function) for question in QUESTIONS]
    case.function.pre(lambda: None)
    added = [answer(question, case.function) for question in QUESTIONS]
    outcome(case)
    called = [answer(question, case.function) for question in QUESTIONS]
    hooks(case.function).clear()
    removed = [answer(question, case.function) for question in QUESTIONS]
    assert [added, called, removed] == [before] * 3


OWNERS = [Meta, Shop, Made, Slotted, Abstract, Record, Point, Whole]


def one_yield() -> Iterator[None]:
    yield


@every_target
def test_removal_leaves_no_trace(case: Case) -> None:
    code, space = case.function.__code__, dict(vars(case.function))
    owned = {(owner, name): member for owner in OWNERS for name, member in vars(owner).items()}
    for remove in (lambda: hooks(case.function).clear(), lambda: hooks(case.function).remove("hook")):
        case.function.around(name="hook")(one_yield)
        assert outcome(case) == case.outcome
        assert case.function.__code__ is not code
        remove()
        assert case.function.__code__ is code
        assert list(vars(case.function)) == list(space)
        assert all(vars(case.function)[name] is value for name, value in space.items())
        now = {(owner, name): member for owner in OWNERS for name, member in vars(owner).items()}
        assert list(now) == list(owned)
        assert all(now[place] is member for place, member in owned.items())
    assert outcome(case) == case.outcome


def test_a_class_is_not_itself_a_mount_point() -> None:
    @hookable
    class Till:
        def open(self) -> None: ...

    with pytest.raises(HookLookupError, match="Till is a class; its methods have the hooks, so give one of them"):
        hooks(Till)


def test_a_class_with_a_method_that_cannot_be_mounted_is_mounted_without_it() -> None:
    @hookable
    class Till:
        parse = classmethod(int)

        def pay(self) -> int:
            return 1

        @classmethod
        def make(cls) -> None: ...

    class Kiosk(Till): ...

    hooks(Till.pay).add("post", lambda result: result * 2)
    assert (Till().pay(), Till.parse.__func__) == (2, int)
    assert hooks(Kiosk.make) is hooks(Till.make)  # of every class that inherits it, and not of one as of an instance
