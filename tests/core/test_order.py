"""Law 2 by examples: how `priority`, `before` and `after` are written, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import pytest

from aspecthook import (
    Hook,
    HookOptionError,
    HookOrderError,
    HookTypeError,
    MountPoint,
    Priority,
    hookable,
    hooks,
    weave,
)


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


@pytest.mark.parametrize("name", Priority.__members__)
def test_a_priority_is_a_name_in_any_case_or_a_member_or_its_number(line: Line, name: str) -> None:
    number = Priority[name].value
    forms = [name, name.lower(), Priority[name], number]
    assert [line.add("hook", priority=form).priority for form in forms] == [number] * 4


# What a constraint may name


def test_a_hook_is_named_after_its_function_unless_it_is_given_a_name(line: Line) -> None:
    line.add("plain")
    line.add("given", name="other")
    line.add("x", before="plain")
    line.add("y", before="given")  # nobody's name
    line.add("z", before="other")
    assert line.order() == "x plain y z given"


def test_a_handle_means_that_hook_alone_and_a_function_every_hook_of_it(line: Line) -> None:
    function = line.noting("a")
    line.mount.add("pre", function)
    second = line.mount.add("pre", function, again=True)
    line.add("b", before=second)
    assert line.order() == "a b a"
    line.add("c", before=function)
    assert line.order() == "b c a a"  # the first `a` waits for c, which is the last that was added
    line.mount.remove(second)
    assert line.order() == "b c a"


def test_a_constraint_can_name_a_bound_method(line: Line) -> None:
    class Audit:
        def note(self) -> None:
            line.ran.append("note")

    audit, other = Audit(), Audit()
    line.mount.add("pre", audit.note, name="renamed")
    line.add("x", priority=90, before=other.note)
    line.add("y", before=audit.note)  # a new bound method object, the same method of the same object
    assert line.order() == "y note x"


# Cycles


def test_a_constraint_holds_among_hooks_of_one_kind(line: Line) -> None:
    line.add("a", before="b")
    line.add("b", kind="post", before="a", after="c")  # no cycle: `a` is no post hook
    assert line.order() == "a b"


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


# One callable is one hook


class Observer:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def note(self, n: int) -> None:
        self.seen.append(n)


@hookable
def counted(n: int) -> int:
    return n


@pytest.fixture
def point() -> Iterator[MountPoint]:
    yield hooks(counted)
    hooks(counted).clear()


def same_function() -> Callable[[], Any]:
    seen: list[int] = []

    def note(n: int) -> None:
        seen.append(n)

    return lambda: note


def same_method() -> Callable[[], Any]:
    observer = Observer()
    return lambda: observer.note  # a new bound method each time


def same_builtin() -> Callable[[], Any]:
    seen: list[object] = []
    return lambda: seen.append


@pytest.mark.parametrize("look", [same_function, same_method, same_builtin])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"priority": 10},
        {"before": "x", "after": ["y", "z"]},
        {"when": bool, "times": 3, "every": 2},
    ],
    ids=str,
)
def test_a_callable_that_is_added_twice_is_one_hook(
    point: MountPoint, look: Callable[[], Callable[[], Any]], options: Any
) -> None:
    # It ran twice in each call.
    made = look()
    assert point.pre(made(), **options) == made()
    first = point.pre[0]
    assert point.add("pre", made(), **options) is first
    assert point.add(cast("Any", "".join(("p", "re"))), made(), **options) is first  # an equal string, not the same
    assert point.pre(**options)(made()) == made()
    assert [*point] == [first]
    again = point.add("pre", made(), again=True, **options)
    assert [*point] == [first, again]
    more = point.pre(again=True, **options)
    assert more(made()) == more(made()) == made() and len(point) == 4
    first.remove()
    assert point.add("pre", made(), **options) is not first


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"priority": 10}, "priority"),
        ({"name": "other"}, "name"),
        ({"before": "x"}, "before"),
        ({"after": ["x"], "times": 2}, "after, times"),
        ({"when": bool}, "when"),
        ({"once": True}, "times"),
        ({"isolate": True, "reentrant": False}, "reentrant, isolate"),
    ],
    ids=str,
)
def test_a_callable_that_is_added_again_with_other_options_is_refused(
    point: MountPoint, options: dict[str, Any], named: str
) -> None:
    observer = Observer()
    point.pre(observer.note)
    before = [*point]
    message = rf"pre hook 'note' .* is added already, with another {named}; .* again=True"
    with pytest.raises(HookOptionError, match=message):
        point.pre(observer.note, **options)
    assert [*point] == before
    point.pre(observer.note, again=True, **options)
    assert len(point) == 2


SPELLINGS: list[list[dict[str, Any]]] = [
    [
        {},
        {"every": 1, "before": []},
        {"every": None, "after": None, "when": None},
        {"priority": "normal", "times": None},
    ],
    [{"priority": 50}, {"priority": Priority.NORMAL}, {"once": False, "isolate": False, "reentrant": True}],
    [{"before": ["x", "y"]}, {"before": ("y", "x")}, {"before": {"x", "y"}}, {"before": frozenset("xy")}],
    [{"after": print}, {"after": [print, print]}, {"after": frozenset([print])}],
    [{"once": True}, {"times": 1}, {"once": True, "times": 1}],
]


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda spellings: str(spellings[0]))
def test_options_that_come_to_the_same_make_one_hook(point: MountPoint, spellings: list[dict[str, Any]]) -> None:
    handles = [point.add("exception", bool, KeyError, OSError, **one) for one in spellings]
    handles += [point.add("exception", bool, OSError, KeyError, **one) for one in spellings]
    assert {*handles} == {*point} and len(point) == 1
    assert type(handles[0].priority) is int
    assert point.add("exception", bool, KeyError, **spellings[0]) not in handles
    assert point.add("post", bool, **spellings[0]) not in handles
    assert len(point) == 3


def test_a_method_of_the_instance_itself_that_is_added_twice_is_one_hook() -> None:
    class Shop:
        sold = 0

        @hookable
        def sell(self) -> None: ...

        def note(self) -> None:
            self.sold += 1

    shop = Shop()
    first = hooks(shop.sell).add("pre", shop.note)
    assert hooks(shop.sell).add("pre", shop.note) is first
    shop.sell()
    assert shop.sold == 1


def test_callable_added_and_woven_is_two_hooks_removed_separately(point: MountPoint) -> None:
    observer = Observer()
    with weave(counted, pre=observer.note, priority=10):
        point.pre(observer.note)
        counted(1)
        assert observer.seen == [1, 1]
    counted(2)
    assert observer.seen == [1, 1, 2]


def test_a_callable_that_threads_add_at_once_is_one_hook(point: MountPoint) -> None:
    observer = Observer()
    with ThreadPoolExecutor(8) as pool:
        handles = {*pool.map(lambda _: point.add("pre", observer.note), range(200))}
    assert handles == {*point} and len(point) == 1


@pytest.mark.parametrize("again", ["yes", 1, None])
def test_again_is_true_or_false(point: MountPoint, again: Any) -> None:
    with pytest.raises(HookTypeError, match="again=.*; give True or False"):
        point.pre(print, again=again)


# Names that nobody bears


def test_unknown_names_in_before_and_after_are_printed_with_the_nearest_name(point: MountPoint) -> None:
    # A misspelt name showed nowhere.
    def audit() -> None: ...

    def log() -> None: ...

    def gone() -> None: ...

    point.pre(audit, after=gone)
    point.pre(log, before=["audti", "audit"], after="cleanup")
    point.post(lambda: None, name="cleanup")
    lines = str(point).splitlines()
    assert lines[0].endswith(":counted, 3 hooks")
    assert [line.strip() for line in lines if line.startswith("      ")] == [
        "before='audti': no pre hook has that name; did you mean 'audit'?",
        "after='cleanup': no pre hook has that name; post hooks do, which run by themselves",
        "after='gone': no pre hook has that name",
    ]
    assert [line.split()[1:3] for line in lines[2:] if not line.startswith("      ")] == [
        ["pre", "log"],
        ["pre", "audit"],
        ["post", "cleanup"],
    ]
    assert "before='audti' (?) before='audit' after='cleanup' (?)" in lines[2] and "after='gone' (?)" in str(point)
    point.pre(gone)
    assert "gone' (?)" not in str(point) and "gone':" not in str(point)


def test_a_name_of_a_hook_of_the_function_is_borne_for_those_of_an_instance() -> None:
    class Shop:
        @hookable
        def sell(self) -> None: ...

    shop = Shop()
    hooks(Shop.sell).pre(lambda: None, name="audit")
    hooks(shop.sell).pre(lambda: None, name="log", before="audit", after="adit")
    assert "before='audit' after='adit' (?)" in str(hooks(shop.sell))
    assert "after='adit': no pre hook has that name; did you mean 'audit'?" in str(hooks(shop.sell))


def test_members_are_in_the_order_in_which_they_were_added() -> None:
    @hookable
    def target() -> None: ...

    late = hooks(target).add("pre", lambda: None, name="late", priority=90)
    early = hooks(target).add("pre", lambda: None, name="early", priority=10)
    other = hooks(target).add("always", lambda: None, name="other", priority=0)
    assert hooks(target).members == (late, early, other) and list(hooks(target)) == [early, late, other]
    assert list(target.pre) == [target.pre[0], target.pre[-1]] == [early, late] and len(target.pre) == 2
    for hook in (early, late, other):
        assert {one in target.pre for one in (hook, hook.name, hook.function)} == {hook is not other}


def test_pausing_one_hook_leaves_those_that_were_added_after_it() -> None:
    ran: list[str] = []

    @hookable
    def target() -> None: ...

    first, _ = [hooks(target).add("pre", partial(ran.append, name), name=name) for name in ("first", "second")]
    hooks(target).set_paused((first,), paused=True)
    target()
    assert ran == ["second"]
