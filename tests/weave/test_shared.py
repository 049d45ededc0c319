"""A function that several classes have: what is woven on one class acts for that class, and for no other."""

from __future__ import annotations

import _json
import dataclasses
import functools
import gc
import json
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from aspecthook import WeaveError, hooks, weave

HERE = __name__
log: list[object] = []


@pytest.fixture(autouse=True)
def _clean() -> None:
    log.clear()


def note(call: Any) -> None:
    log.append(call.args[0] if call.args else None)


def total(self: Any) -> object:
    return ("total", type(self).__name__)


def make(cls: Any, *args: Any) -> Any:
    return object.__new__(cls)


def add(a: int, b: int) -> int:
    return a + b


def anything(*args: object) -> tuple[object, ...]:
    return args


def name_of(cls: type) -> str:
    return cls.__name__


def shown(self: Any) -> str:
    return f"<{type(self).__name__}>"


def comparable(cls: Any) -> Any:
    """Add methods that all classes share, as decorators do."""

    cls.total = total
    cls.shown = property(shown)
    cls.name = classmethod(name_of)
    cls.add = add
    cls.static = staticmethod(add)
    cls.anything = anything
    cls.cached = functools.cached_property(total)
    cls.cached.__set_name__(cls, "cached")
    cls.remember = functools.lru_cache(total)
    cls.twice = cls.total
    return cls


def closures() -> Callable[[Any], Any]:
    """Return a decorator that adds methods which are known by no name."""

    def total(self: Any) -> object:
        return ("closure", type(self).__name__)

    def decorate(cls: Any) -> Any:
        cls.closure = total
        return cls

    return decorate


close = closures()


@close
@comparable
class One:
    __new__: Any = make


@close
@comparable
class Two:
    __new__: Any = make


class Heir(One):
    pass


class Other:
    def own(self) -> object:
        return "own"

    @staticmethod
    def three(a: int) -> int:
        return a + 3


class Borrower:
    own = Other.own
    three = Other.three


def uses(cls: Any) -> list[object]:
    """Use all that is shared, through one class."""
    one = cls()
    return [
        *(one.total(), one.twice(), one.shown, one.name(), cls.name(), one.cached, one.closure(), one.remember()),
        *(cls.add(1, 2), cls.static(1, 2), one.static(1, 2), cls.anything(None, 2), one.anything()[1:]),
    ]


NAMES = ["total", "twice", "shown", "name", "add", "static", "anything", "cached", "closure", "remember", "__new__"]


@pytest.mark.parametrize("name", NAMES)
def test_a_function_that_classes_share_is_woven_for_the_class_that_was_named(name: str) -> None:
    # It was woven for all of them: a hook on `Color.__new__` ran for every enum of the program.
    plain = uses(One), uses(Heir), uses(Two)
    before = dict(vars(One)), dict(vars(Two)), total.__code__, add.__code__, anything.__code__
    with weave(f"{HERE}:One.{name}", pre=note) as weaving:
        assert uses(Two) == plain[2]
        total(Two()), add(1, 2), anything(1), name_of(int)
        assert log == []
        assert (uses(One), len(log) > 0) == (plain[0], True)
        log.clear()
        assert (uses(Heir), len(log) > 0) == (plain[1], True)
        assert weaving.state == "woven"
    log.clear()
    assert (uses(One), uses(Heir), uses(Two), log) == (*plain, [])
    assert (dict(vars(One)), dict(vars(Two)), total.__code__, add.__code__, anything.__code__) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_hook_on_two_of_the_classes_that_share_a_function_acts_for_both_once_a_call(name: str) -> None:
    with weave(f"{HERE}:One.{name}", pre=note):
        uses(One)
        counted = len(log)
    log.clear()
    with weave(f"{HERE}:One.{name}, {HERE}:Two.{name}, {HERE}:O*.{name}", pre=note):
        uses(One)
        assert len(log) == counted
        uses(Two)
        assert len(log) == 2 * counted


@pytest.mark.parametrize("paused", [[], [0], [1]], ids=["", "the first is paused", "the second is paused"])
@pytest.mark.parametrize("order", [("One", "Heir"), ("Heir", "One"), ("Heir", "Heir"), ("One", "One")])
@pytest.mark.parametrize("name", sorted({*NAMES} - {"static", "add"}))
def test_hooks_on_a_class_and_on_its_heir_act_each_for_its_own_whoever_came_first(
    name: str, order: tuple[str, str], paused: list[int]
) -> None:
    seen: list[int] = []
    plain = uses(One), uses(Heir), uses(Two)
    before = dict(vars(One)), dict(vars(Heir))
    weavings = [
        weave(f"{HERE}:{cls}.{name}", pre=lambda place=place: seen.append(place)) for place, cls in enumerate(order)
    ]
    for place in paused:
        weavings[place].pause()
    acting = [place for place in (0, 1) if place not in paused]
    gc.collect()
    for _ in range(2):
        of_one = [place for place in acting if order[place] == "One"]
        for cls, given, meant in ((One, plain[0], of_one), (Heir, plain[1], acting)):
            seen.clear()
            assert uses(cls) == given
            assert {*seen} == {*meant}
        seen.clear()
        assert (uses(Two), seen) == (plain[2], [])
        for weaving in [weavings[place] for place in paused]:
            weaving.resume()
        acting = [0, 1]
    weavings[0].remove()
    seen.clear()
    uses(Heir)
    assert {*seen} == {1}
    weavings[1].remove()
    assert (dict(vars(One)), dict(vars(Heir))) == before


@pytest.mark.parametrize("name", ["static", "add"])
def test_what_takes_no_instance_is_woven_for_the_heir_that_was_named(name: str) -> None:
    # A hook on an ordinary function that a class inherits, which is called as `Heir.add(1, 2)`, never ran.
    heir, one = getattr(Heir, name), getattr(One, name)
    with weave(f"{HERE}:Heir.{name}", post=lambda: "heir"):
        assert (getattr(Heir, name)(1, 2), one(1, 2), getattr(Two, name)(1, 2)) == ("heir", 3, 3)
    assert getattr(Heir, name) is heir and name not in vars(Heir)


def test_a_borrowed_method_acts_for_the_borrower_and_the_lenders_own_for_all() -> None:
    borrower: Any = Borrower
    with weave(f"{HERE}:Borrower.own, {HERE}:Borrower.three", pre=note):
        Other().own(), Other.three(1)
        assert log == []
        assert (borrower().own(), borrower.three(1), len(log)) == ("own", 4, 2)
    log.clear()
    with weave(f"{HERE}:Other.own", pre=note):
        Other().own(), borrower().own()
        assert len(log) == 2


def test_a_class_that_shares_a_function_is_freed_and_takes_its_hook_with_it() -> None:
    made: Any = comparable(type("Dying", (), {}))
    weaving = weave(made, pre=note)
    made().total()
    assert log
    gone = weakref.ref(made)
    del made
    log.clear()
    gc.collect()
    assert gone() is None
    One().total()
    assert (log, "__aspecthook__" in vars(total)) == ([], False)
    weaving.remove()


def test_a_function_between_classes_is_told_from_one_that_is_the_classs_own() -> None:
    # What a class itself defines costs no look at the class, whatever decorators have made of it.
    with weave(f"{HERE}:Other.own, {HERE}:Plain.*", pre=note) as weaving:
        assert len(weaving.mounts) == 5
        assert {hook.gate for mount in weaving.mounts for hook in mount} == {None}


def loudly(function: Callable[..., Any]) -> Callable[..., Any]:
    def loud(*args: Any) -> Any:
        return function(*args)

    return loud


@dataclasses.dataclass
class Plain:
    size: int = 1

    def own(self) -> int:
        return self.size

    @loudly
    def decorated(self) -> int:
        return self.size

    @functools.wraps(own)
    def wrapped(self) -> int:
        return self.size

    renamed = lambda self: self.size


# What the standard library shares


def test_a_proxy_for_an_ordinary_function_of_a_class_takes_any_first_argument() -> None:
    one: Any = One
    with weave(f"{HERE}:One.anything", pre=note):
        assert one.anything(None, 2) == (None, 2)
        assert log == [None]
        assert len(hooks(vars(One)["anything"])) == 1


# What a class inherits from C code: a proxy in the class must not come before the other bases of an heir


class Bare:
    pass


class Base:
    def __init__(self, *args: object) -> None:
        self.args = args
        super().__init__()

    def __repr__(self) -> str:
        return "a base"

    def __new__(cls, *args: object) -> Any:
        log.append("new")
        return super().__new__(cls)


class Both(Bare, Base):
    pass


class Left(Bare):
    pass


@pytest.mark.parametrize("name", ["__init__", "__repr__"])
def test_a_proxy_for_what_a_class_inherits_leaves_the_other_bases_of_its_heirs_their_turn(name: str) -> None:
    # `sqlalchemy*:*.__init__` put proxies for `object.__init__` into mixins, which ended the chain of `super()`.
    both: Any
    with weave(f"{HERE}:Bare.{name}, {HERE}:Left.{name}", pre=note):
        both = Both(1, 2)
        log.clear()
        assert (Both(3).args, repr(both), both.args) == ((3,), "a base", (1, 2))
        assert [type(one).__name__ for one in log if one != "new"] == ["Both"]
        log.clear()
        left = Left()
        assert (repr(left).startswith("<"), log) == (True, [left])
    assert [name in vars(cls) for cls in (Bare, Left, Both)] == [False] * 3


def test_the_new_of_a_c_class_itself_is_refused_as_it_cannot_be_put_back() -> None:
    # It was woven, and afterwards nothing could make an instance any more: "... is not safe, use object.__new__()".
    with pytest.raises(WeaveError, match="is how C code makes instances of Scanner, and CPython"):
        weave("_json:make_scanner.__new__", pre=note)
    assert _json.make_scanner(json.JSONDecoder())("1", 0) == (1, 1)


class Caching:
    @staticmethod
    @functools.lru_cache
    def half(n: int) -> float:
        return n / 2


def test_a_cached_static_method_is_pickled_while_it_is_woven() -> None:
    # "it's not the same object as Caching.half": each access makes another object, which has its name.
    with weave(f"{HERE}:Caching.half", pre=note):
        assert pickle.loads(pickle.dumps(Caching.half))(3) == 1.5
    assert len(log) == 1


class Taking:
    def take(*args: Any) -> Any:  # type: ignore[misc]
        return args[1:]


class TakingHeir(Taking): ...


def test_a_method_that_takes_its_instance_among_args_acts_for_the_heir_alone() -> None:
    with weave(f"{HERE}:TakingHeir.take", post=lambda result: "heir"):
        assert (TakingHeir().take(1), Taking().take(1), TakingHeir.take(TakingHeir()), Taking.take()) == (
            "heir",
            (1,),
            "heir",
            (),
        )
    with weave(f"{HERE}:TakingHeir.take", post=lambda result: "heir", scope="context"):
        assert (TakingHeir().take(1), Taking().take(1)) == ("heir", (1,))
    assert TakingHeir().take(1) == (1,)
