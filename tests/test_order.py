"""Law 2 by examples: how `priority`, `before` and `after` are written, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aspecthook import Hook, HookOrderError, MountPoint, Priority, hookable, hooks


class Line:
    """A mount point whose pre hooks note their names as they run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @hookable(name="shop:price")
        def price() -> None: ...

        self.call = price
        self.mount: MountPoint = hooks(price)

    def noting(self, name: str) -> Callable[[], None]:
        def hook() -> None:
            self.ran.append(name)

        hook.__name__ = name
        return hook

    def add(self, name: str, /, *, kind: str = "pre", **options: Any) -> Hook:
        return self.mount.add(kind, self.noting(name), **options)  # type: ignore[arg-type]

    def order(self) -> str:
        self.ran.clear()
        self.call()
        return " ".join(self.ran)


@pytest.fixture
def line() -> Line:
    return Line()


# Priority


def test_the_lowest_priority_runs_first(line: Line) -> None:
    line.add("last", priority=100)
    line.add("first", priority=0)
    line.add("middle")
    assert line.order() == "first middle last"


def test_among_equals_the_first_added_runs_first(line: Line) -> None:
    for name in ("a", "b", "c"):
        line.add(name, priority=30)
    assert line.order() == "a b c"


def test_a_hook_that_is_added_again_goes_behind_its_equals(line: Line) -> None:
    first = line.add("a")
    line.add("b")
    first.remove()
    line.mount.add("pre", first.function)
    assert line.order() == "b a"


@pytest.mark.parametrize("name", Priority.__members__)
def test_a_priority_is_a_name_in_any_case_or_a_member_or_its_number(line: Line, name: str) -> None:
    number = Priority[name].value
    forms = [name, name.lower(), Priority[name], number]
    assert [line.add("hook", priority=form).priority for form in forms] == [number] * 4


def test_the_names_of_priorities_stand_for_the_numbers_of_the_law() -> None:
    assert {one.name: one.value for one in Priority} == {
        "HIGHEST": 0,
        "VERY_HIGH": 10,
        "HIGH": 30,
        "ABOVE_NORMAL": 40,
        "NORMAL": 50,
        "BELOW_NORMAL": 60,
        "LOW": 70,
        "VERY_LOW": 90,
        "LOWEST": 100,
    }


def test_a_hook_is_of_normal_priority_unless_it_says_so(line: Line) -> None:
    assert line.add("hook").priority == Priority.NORMAL


# What a constraint may name


def test_before_and_after_outrank_priority(line: Line) -> None:
    line.add("a", priority=0)
    line.add("b", priority=100, before="a")
    line.add("c", priority=0, after="b")
    assert line.order() == "b a c"


def test_a_hook_held_back_delays_no_other(line: Line) -> None:
    line.add("a", priority=0, after="z")
    line.add("b", priority=10)
    line.add("z", priority=90)
    assert line.order() == "b z a"


def test_a_hook_is_named_after_its_function_unless_it_is_given_a_name(line: Line) -> None:
    line.add("plain")
    line.add("given", name="other")
    line.add("x", before="plain")
    line.add("y", before="given")  # nobody's name
    line.add("z", before="other")
    assert line.order() == "x plain y z given"


def test_a_constraint_can_name_the_function(line: Line) -> None:
    function = line.noting("a")
    line.mount.add("pre", function, name="renamed")
    line.add("b", before=function)
    assert line.order() == "b a"


def test_a_constraint_can_name_the_handle(line: Line) -> None:
    handle = line.add("a")
    line.add("b", before=handle)
    assert line.order() == "b a"


def test_a_handle_means_that_hook_alone_and_a_function_every_hook_of_it(line: Line) -> None:
    function = line.noting("a")
    line.mount.add("pre", function)
    second = line.mount.add("pre", function)
    line.add("b", before=second)
    assert line.order() == "a b a"
    line.add("c", before=function)
    assert line.order() == "b c a a"  # the first `a` waits for c, which is the last that was added


def test_a_constraint_can_name_a_bound_method(line: Line) -> None:
    class Audit:
        def note(self) -> None:
            line.ran.append("note")

    audit, other = Audit(), Audit()
    line.mount.add("pre", audit.note, name="renamed")
    line.add("x", priority=90, before=other.note)
    line.add("y", before=audit.note)  # a new bound method object, the same method of the same object
    assert line.order() == "y note x"


@pytest.mark.parametrize("several", [list, tuple, set, frozenset])
def test_a_constraint_can_name_several(line: Line, several: Any) -> None:
    function = line.noting("c")
    line.add("a")
    line.mount.add("pre", function)
    line.add("b", before=several(["a", function]))
    assert line.order() == "b a c"


def test_a_name_that_several_bear_means_all_of_them(line: Line) -> None:
    line.add("a", name="log")
    line.add("b", name="log")
    line.add("c", before="log")
    line.add("d", name="log")
    assert line.order() == "c a b d"


def test_a_name_that_nobody_bears_constrains_nothing_until_one_does(line: Line) -> None:
    line.add("a", after="late")
    line.add("b")
    assert line.order() == "a b"
    late = line.add("late")
    assert line.order() == "b late a"
    late.remove()
    assert line.order() == "a b"


def test_a_constraint_looks_at_the_hooks_of_its_own_kind_alone(line: Line) -> None:
    line.add("a", kind="post", after="b")
    line.add("b", before="a")
    line.add("a", before="b", kind="always")
    assert line.order() == "b a a"


def test_a_hook_of_another_mount_point_constrains_nothing(line: Line) -> None:
    stranger = Line().add("stranger")
    line.add("a", before=stranger)
    line.add("b", after=stranger)
    assert line.order() == "a b"


# Cycles


def test_a_cycle_is_refused_and_spelt_out_with_where_to_look(line: Line) -> None:
    line.add("a", before="b")
    line.add("b", before="c")
    with pytest.raises(HookOrderError) as caught:
        line.add("c", before="a")
    message = str(caught.value)
    assert message.startswith("shop:price: ")
    cycles = [" before ".join(map(repr, cycle)) for cycle in ("abca", "bcab", "cabc")]
    assert any(cycle in message for cycle in cycles)
    assert message.count(f"({__file__}:") == 3
    assert line.order() == "a b"


def test_a_hook_that_is_to_run_before_itself_is_refused(line: Line) -> None:
    with pytest.raises(HookOrderError, match="'a' before 'a'"):
        line.add("a", before="a")
    assert len(line.mount) == 0


def test_a_cycle_through_a_name_that_several_bear_is_refused(line: Line) -> None:
    line.add("a", name="log")
    line.add("b", name="log", after="c")
    with pytest.raises(HookOrderError):
        line.add("c", after="log")
    assert line.order() == "a b"


def test_a_refused_hook_is_out_of_the_way_of_the_next(line: Line) -> None:
    line.add("a", before="b")
    with pytest.raises(HookOrderError):
        line.add("b", before="a")
    line.add("b")
    assert line.order() == "a b"


def test_a_cycle_is_refused_with_hooks_that_are_paused(line: Line) -> None:
    first = line.add("a", before="b")
    line.mount.set_paused((first,), paused=True)
    with pytest.raises(HookOrderError):
        line.add("b", before="a")  # else it would be there once `a` is resumed
    assert line.order() == ""


class Shop:
    """A class whose instances carry hooks of their own."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def price(self) -> None: ...


def _noting(name: str) -> Callable[[Shop], None]:
    return lambda self: self.ran.append(name)


@pytest.fixture
def shop() -> Any:
    hookable(Shop.price)
    yield Shop()
    hooks(Shop.price).clear()


def test_the_hooks_of_a_function_and_of_an_instance_run_in_one_order(shop: Shop) -> None:
    hooks(shop.price).add("pre", _noting("own"), name="own", priority=60)
    hooks(Shop.price).add("pre", _noting("equal"), priority=60)
    hooks(Shop.price).add("pre", _noting("late"), priority=70)
    hooks(Shop.price).add("pre", _noting("early"), priority=40)
    hooks(Shop.price).add("pre", _noting("held"), priority=0, after="own")
    shop.price()
    assert shop.ran == ["early", "own", "held", "equal", "late"]


@pytest.mark.parametrize("first_on_instance", [True, False])
def test_a_cycle_between_the_hooks_of_a_function_and_of_an_instance_is_refused(
    shop: Shop, first_on_instance: bool
) -> None:
    mounts = [hooks(shop.price), hooks(Shop.price)][:: 1 if first_on_instance else -1]
    mounts[0].add("pre", _noting("a"), name="a", before="b")
    with pytest.raises(HookOrderError, match=r"before '.' before"):
        mounts[1].add("pre", _noting("b"), name="b", before="a")
    shop.price()
    assert shop.ran == ["a"]
