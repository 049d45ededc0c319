"""`check_laws` passes on what keeps the laws and leaves it as it was; what breaks one is told by the law's name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import Args, MountPoint, Return, hookable, hooks, weave
from aspecthook._core.law import order as _order
from aspecthook._core.mount import members as _mount
from aspecthook._core.mount.place import Place
from aspecthook.testing import LawError
from tests.oracle.calls import make_call
from tests.oracle.laws import check_laws
from tests.oracle.rows import ordered, row_of
from tests.properties.test_order import Row, expected, rows


def price() -> Any:
    @hookable
    def price(item: str, qty: int = 1, *rest: int, tax: float = 0.0, **more: int) -> float:
        if item == "gold":
            raise KeyError(item)
        return 2.0 * qty

    @price.pre(priority="HIGH")
    def at_least_one(qty: int) -> Args:
        return Args(qty=max(qty, 1))

    @price.pre(before=at_least_one)
    def guest_list(item: str, call: Any) -> Return[float] | None:
        return Return(0.0) if item == "free" else None

    @price.around
    def twice(proceed: Any) -> Any:
        return proceed(qty=2) + proceed()

    @price.around(when=lambda qty: qty > 5)
    def watched(qty: int) -> Iterator[None]:
        yield

    @price.exception(KeyError)
    def unknown(exc: KeyError) -> Return[float]:
        return Return(0.0)

    @price.post(when=lambda qty: qty > 1)
    def discount(result: float) -> float:
        return result / 2

    @price.always(after="nobody")
    def note(result: float, exc: BaseException | None, args: Any, kwargs: Any) -> None: ...

    return price


CALLS = [("tea",), ("tea", 0), ("tea", 7, 8, 9), ("gold",), ("free", 2)]


@pytest.mark.parametrize("args", CALLS)
def test_the_laws_hold_on_a_chain_of_every_kind(args: tuple[Any, ...]) -> None:
    check_laws(price(), args=args, kwargs={"tax": 1.0, "extra": 2})


class Shelf:
    @hookable
    def take(self, n: int) -> int:
        return n

    @classmethod
    @hookable
    def make(cls, n: int) -> int:
        return n

    @hookable
    async def fetch(self, n: int) -> int:
        return n

    @hookable
    def each(self, n: int) -> Iterator[int]:
        yield from range(n)


def test_the_laws_hold_on_an_instance_whose_class_has_hooks_too() -> None:
    # Broke: the code of the method itself was taken for ours, and each change of it for a trace.
    shelf = Shelf()
    hooks(Shelf.take).add("pre", lambda: None, name="of all")
    hooks(shelf.take).add("pre", lambda: None, name="of one")
    try:
        shelf.take(1)
        check_laws(shelf.take)
        check_laws(Shelf.take)
    finally:
        hooks(Shelf.take).clear()


@pytest.mark.parametrize("name", ["take", "make", "fetch", "each"])
def test_the_laws_hold_on_methods_instances_coroutines_and_generators(name: str) -> None:
    shelf = Shelf()
    method, function = getattr(shelf, name), hooks(getattr(Shelf, name))
    function.add("pre", lambda n: Args(n=n + 1), name="more")
    hooks(method).add("post", lambda result: None, name="look")
    try:
        check_laws(method, lambda trace: trace.before("more", "look"), args=(2,))
    finally:
        hooks(method).clear()
        function.clear()


def test_the_laws_hold_on_what_is_woven() -> None:
    import math

    with weave("math:floor", post=lambda result: result + 1) as weaving:
        check_laws(weaving.mounts[0])
    assert math.floor(1.5) == 1


def test_the_mount_point_is_left_as_it_was() -> None:
    target = price()
    mount = hooks(target)
    members, space = mount.members, dict(vars(target))
    check_laws(target, args=("tea",))
    assert mount.members == members
    assert all(vars(target)[name] is value for name, value in space.items())
    mount.clear()
    code = target.__code__
    check_laws(target, args=("tea",))
    assert target.__code__ is code


def test_the_hooks_and_the_target_run_once() -> None:
    ran: list[str] = []

    @hookable
    def target() -> None:
        ran.append("target")

    target.pre(lambda: ran.append("pre"), name="pre")
    check_laws(target)
    assert not ran
    check_laws(target, args=())
    assert ran == ["pre", "target"]


def test_hooks_with_conditions_isolation_and_wrong_answers_are_no_violations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("aspecthook"), "disabled", True)

    @hookable
    def target(n: int) -> int:
        return n

    def fails() -> None:
        raise ValueError("planned")

    def never() -> Iterator[None]:
        if ran:
            yield

    ran: list[int] = []
    target.pre(fails, isolate=True)
    target.pre(lambda: None, name="seldom", every=2)
    target.post(lambda: None, name="once", once=True)
    for _ in range(3):
        check_laws(target, args=(1,))
    target.post(lambda: Args(n=1), name="wrong")
    target.around(never)
    target.exception(lambda exc: None, name="sees")
    target.always(lambda exc: None, name="ends")
    for _ in range(2):
        check_laws(target, args=(1,))
        ran.append(1)


def test_arguments_that_do_not_fit_are_no_violation() -> None:
    check_laws(price(), args=())


# The naive order is that of the law, told a second time in tests/properties.


@given(rows())
def test_the_naive_order_is_the_one_that_the_law_tells(drawn: list[Row]) -> None:
    handles = {row.number: object() for row in drawn}

    def meant(keys: tuple[Any, ...]) -> list[Any]:
        return [key if isinstance(key, str) else handles.get(key) for key in keys]

    plain = [
        row_of(
            handles[row.number],
            row.kind,
            row.name,
            None,
            dict(priority=row.priority, before=meant(row.before), after=meant(row.after)),
        )
        for row in drawn
    ]
    order, told = ordered(plain), expected(drawn)
    assert (order is None) == (told is None)
    if order is not None and told is not None:
        assert [row.hook for row in order] == [handles[row.number] for row in told]


@given(rows(), st.integers(0, 3))
def test_any_chain_that_was_admitted_keeps_the_laws(drawn: list[Row], argument: int) -> None:
    @hookable
    def target(n: int) -> int:
        return n

    for row in drawn:
        names = [tuple(key for key in keys if isinstance(key, str)) for keys in (row.before, row.after)]
        options: dict[str, Any] = dict(name=row.name, priority=row.priority, before=names[0], after=names[1])
        try:
            target.pre(lambda n: Args(n=n + 1), **options)
        except ValueError:
            continue
    check_laws(target, args=(argument,))


# A user's laws


# Planted bugs of the library


def wrong_order() -> Any:
    @hookable
    def handle(request: int) -> int:
        return request

    handle.pre(lambda: None, name="audit")
    handle.pre(lambda: None, name="auth", priority="LOW")
    return handle


def broken_law(target: Any, *args: Any) -> str:
    with pytest.raises(LawError) as caught:
        check_laws(target, args=args)
    return caught.value.law


def plant_order(monkeypatch: pytest.MonkeyPatch, key: Callable[[Any], Any]) -> None:
    def arrange(members: Any, label: str = "") -> Any:
        return tuple(sorted(members, key=key))

    monkeypatch.setattr(_mount, "arrange", arrange)
    monkeypatch.setattr(_order, "arrange", arrange)


def test_an_order_that_is_not_stable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    target = price()
    target.post(lambda: None, name="later")
    plant_order(monkeypatch, lambda hook: (hook.priority, -hook.added))
    assert broken_law(target) == "order"


def test_an_order_that_ignores_constraints_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    target = price()
    plant_order(monkeypatch, lambda hook: (hook.priority, hook.added))
    assert broken_law(target) == "order"


def test_an_order_that_depends_on_what_has_come_and_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Right on the mount point itself; wrong for hooks that were put on a copy.
    first = wrong_order()
    last = max(hook.added for hook in hooks(first).members)
    plant_order(monkeypatch, lambda hook: (hook.priority, hook.added) if hook.added <= last else -hook.added)
    assert broken_law(first) == "determinism"


def test_a_removal_that_leaves_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    target = wrong_order()
    hooks(target).clear()
    close = Place.close

    def leaving(self: Place) -> None:
        close(self)
        target.__dict__["left"] = 1

    monkeypatch.setattr(Place, "close", leaving)
    assert broken_law(target) == "no trace"


def test_code_that_stays_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    target = wrong_order()
    hooks(target).clear()
    monkeypatch.setattr(Place, "close", lambda self: None)
    monkeypatch.setattr(MountPoint, "_settle", lambda self: None)
    assert broken_law(target) == "no trace"


def test_a_refusal_that_does_not_come_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_order.Mentions, "may_close_cycle", lambda self, hook: False)
    assert broken_law(wrong_order()) == "refusal"


@contextmanager
def bound_with(monkeypatch: pytest.MonkeyPatch, plant: Callable[[Any], None]) -> Iterator[None]:
    bind = Place.bind

    def bound(self: Place, chain: Any, **options: Any) -> Any:
        plant(chain)
        return bind(self, chain, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Place, "bind", bound)
        yield


def drop(kind: str, chain: Any) -> None:
    setattr(chain, kind, getattr(chain, kind)[:-1])


def swap(kind: str, chain: Any) -> None:
    setattr(chain, kind, getattr(chain, kind)[::-1])


@pytest.mark.parametrize(
    ("plant", "args", "what"),
    [
        (partial(drop, "pre"), ("tea", 3), "pre at_least_one should have run instead of"),
        (partial(swap, "pre"), ("tea", 3), "pre guest_list should have run instead of pre at_least_one"),
        (partial(drop, "post"), ("tea", 3), "the `when` of post discount should have been asked before always note"),
        (partial(swap, "around"), ("tea", 7), "around twice should have run instead of around watched"),
        (
            partial(drop, "around"),
            ("tea", 3),
            "the `when` of around watched should have been asked before target price",
        ),
        (partial(drop, "exception"), ("gold",), "exception unknown should have run instead of always note"),
        (partial(drop, "always"), ("tea",), "always note should have run at the end"),
    ],
)
def test_a_call_that_does_something_else_is_found(
    plant: Callable[[Any], None], args: tuple[Any, ...], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = price()
    with bound_with(monkeypatch, plant), pytest.raises(LawError, match=f"breaks the law 'a call': {what}"):
        check_laws(target, args=args)


def test_a_result_that_is_not_the_last_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def other_result(*given: Any) -> Any:
        trace: Any = make_call(*given)
        trace.result = 7.0
        return trace

    monkeypatch.setattr("tests.oracle.laws.make_call", other_result)
    with pytest.raises(LawError, match="it should have returned 6.0"):
        check_laws(price(), args=("tea",))
