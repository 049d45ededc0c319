"""Hooks on one instance: they act there and nowhere else, and the instance does not know of them."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from aspecthook import (
    Args,
    MountError,
    Return,
    hookable,
    hooks,
)
from tests.oracle.laws import check_laws


class Account:
    balance = 100

    @hookable
    def withdraw(self, amount: int) -> int:
        return self.balance - amount

    @hookable
    def stream(self, amount: int) -> Iterator[int]:
        yield amount

    @hookable
    async def later(self, amount: int) -> int:
        return amount

    @hookable
    @classmethod
    def make(cls) -> Account:
        return cls()

    def double(self, amount: int) -> Args:
        return Args(amount=amount * 2 + self.balance - 100)


CODE = Account.withdraw.__code__


class Chief(type):
    @hookable
    def name(cls) -> str:
        return cls.__name__


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    for mount in (Account.withdraw, Account.stream, Account.later, Account.make, Chief.name):
        hooks(mount).clear()
    gc.collect()  # the instances of the test, and with them their hooks


@pytest.fixture
def account() -> Iterator[Account]:
    account = Account()
    yield account
    for method in (account.withdraw, account.stream, account.later):
        hooks(method).clear()


def noting(log: list[str], word: str) -> Callable[[], None]:
    def hook() -> None:
        log.append(word)

    hook.__name__ = word
    return hook


@pytest.mark.parametrize(
    "call",
    [
        lambda account, bound: bound(10),
        lambda account, bound: account.withdraw(10),
        lambda account, bound: account.withdraw(amount=10),
        lambda account, bound: Account.withdraw(account, 10),
        lambda account, bound: Account.withdraw(self=account, amount=10),
        lambda account, bound: functools.partial(bound, 10)(),
        lambda account, bound: next(map(bound, [10])),
    ],
)
def test_hooks_of_an_instance_act_through_any_reference(account: Account, call: Callable[..., int]) -> None:
    bound = account.withdraw
    hooks(account.withdraw).post(lambda result: result + 1)
    assert call(account, bound) == 91


def test_nothing_of_the_hooks_is_in_the_instance_or_in_its_copies(account: Account) -> None:
    before = pickle.dumps(account)
    hooks(account.withdraw).post(lambda result: 0)
    assert account.withdraw(10) == 0
    assert vars(account) == {}
    assert pickle.dumps(account) == before
    for copied in (copy.copy(account), copy.deepcopy(account), pickle.loads(pickle.dumps(account))):
        assert copied.withdraw(10) == 90


def test_hooks_do_not_keep_the_instance_and_go_with_it(account: Account) -> None:
    mortal, hook = Account(), lambda result: result
    hooks(mortal.withdraw).post(hook)
    mortal.withdraw(10)
    gone, hook_gone = weakref.ref(mortal), weakref.ref(hook)
    del mortal, hook
    assert gone() is None
    assert Account.withdraw.__code__ is CODE
    gc.collect()
    assert hook_gone() is None


@pytest.mark.parametrize("called", [True, False])
def test_a_hook_that_is_a_method_of_the_instance_does_not_keep_it(called: bool) -> None:
    mortal = Account()
    hooks(mortal.withdraw).pre(mortal.double)
    mortal.balance = 110
    if called:
        assert mortal.withdraw(10) == 80
    assert mortal.double in hooks(mortal.withdraw)
    gone = weakref.ref(mortal)
    del mortal
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("option", ["when", "before", "after"])
def test_a_condition_that_is_a_method_of_the_instance_does_not_keep_it(option: str) -> None:
    # The predicate was kept as it was given, and so was what `before` and `after` name: the instance lived for ever.
    class Counting(Account):
        asked = 0

        def is_due(self, amount: int) -> bool:
            self.asked += 1
            return amount > 1

    account = Counting()
    given: Any = {option: account.is_due}
    hooks(account.withdraw).pre(account.double, **given)
    assert [account.withdraw(1), account.withdraw(2)] == ([99, 96] if option == "when" else [98, 96])
    assert account.asked == (2 if option == "when" else 0)
    ref = weakref.ref(account)
    del account, given
    gc.collect()
    assert ref() is None


def test_hooks_of_an_instance_are_ordered_by_its_methods(account: Account) -> None:
    # They are known without the instance, and what `before` named was the method with it: it meant nothing.
    hooks(account.withdraw).pre(account.double)
    hooks(account.withdraw).pre(lambda amount: Args(amount=amount + 1), before=account.double)
    hooks(account.withdraw).pre(lambda amount: Args(amount=amount + 5), after=[account.double], before=None)
    assert account.withdraw(10) == 100 - (22 + 5)
    check_laws(account.withdraw)


def test_a_method_that_names_its_instance_otherwise_is_a_hook_that_does_not_keep_it() -> None:
    # It was kept, and a positional-only `self` was given the arguments.
    class Odd:
        @hookable
        def run(self) -> None: ...
        def other(this) -> None:
            seen.append(this.number)

        def only(self, /) -> None:
            seen.append(self.number)

        def is_odd(this) -> bool:
            return this.number % 2 == 1

        number = 5

    seen: list[int] = []
    odd = Odd()
    hooks(odd.run).pre(odd.other, when=odd.is_odd)
    hooks(odd.run).pre(odd.only, before=odd.other, after=[odd.is_odd])
    odd.run()
    assert seen == [5, 5]
    gone = weakref.ref(odd)
    del odd
    gc.collect()
    assert gone() is None


def test_a_function_without_a_named_first_parameter_has_no_hooks_of_an_instance() -> None:
    class Odd:
        @hookable
        def method(*args: object) -> int:
            return len(args)

    with pytest.raises(MountError, match="first parameter"):
        hooks(Odd().method)


def test_a_new_instance_where_an_old_one_was_has_none_of_its_hooks() -> None:
    Account.withdraw.pre(lambda: None)  # keeps the function hooked
    kept: Any = None
    for _ in range(200):
        mortal = Account()
        assert mortal.withdraw(10) == 90
        assert hooks(mortal.withdraw) is not kept
        kept = hooks(mortal.withdraw)
        kept.post(lambda result: 0)
        assert mortal.withdraw(10) == 0
        del mortal


@pytest.mark.parametrize("step", ["add", "clear"])
def test_a_mount_point_whose_instance_is_gone_touches_no_other_instance(step: str) -> None:
    # Its hooks ran for a new instance at the same address, or those of the class did not.
    log: list[str] = []
    Account.withdraw.pre(noting(log, "class"))
    mortal = Account()
    mount = hooks(mortal.withdraw)
    mount.pre(noting(log, "gone"))
    mortal.withdraw(1)
    del mortal
    if step == "add":
        with pytest.raises(MountError, match="is gone: nothing refers to the instance any more$"):
            mount.pre(noting(log, "late"))
    else:
        mount.clear()
    del mount
    log.clear()
    others = [Account() for _ in range(1000)]
    for other in others:
        other.withdraw(1)
    assert log == ["class"] * 1000


def test_two_looks_at_one_instance_are_one_mount_point(account: Account) -> None:
    # The hooks that the first look added were lost when the second look added one.
    log: list[str] = []
    first, second = hooks(account.withdraw), hooks(account.withdraw)
    first.pre(noting(log, "first"))
    second.pre(noting(log, "second"))
    account.withdraw(1)
    assert log == ["first", "second"]
    hooks(account.withdraw).clear()
    first.pre(noting(log, "again"))
    hooks(account.withdraw).pre(noting(log, "last"))
    log.clear()
    account.withdraw(1)
    assert log == ["again", "last"]


def test_a_mount_point_of_an_instance_says_displaced(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    # It asked a place of its own, which it never has.
    hooks(account.withdraw).pre(lambda: None)
    monkeypatch.setattr(Account.withdraw, "__code__", (lambda self, amount: 5).__code__)
    assert account.withdraw(1) == 5
    assert hooks(account.withdraw).displaced


def test_many_instances_have_hooks_of_their_own() -> None:
    accounts = [Account() for _ in range(300)]
    for place, account in enumerate(accounts):
        hooks(account.withdraw).post(lambda result, place=place: Return(place))
    assert [account.withdraw(0) for account in accounts] == list(range(300))
    hooks(accounts[7].withdraw).clear()
    del accounts[100:], account
    assert [account.withdraw(0) for account in accounts] == [*range(7), 100, *range(8, 100)]
    accounts.clear()
    gc.collect()
    assert Account.withdraw.__code__ is CODE


def test_a_hook_that_refers_to_its_instance_keeps_it_alive_until_it_is_removed() -> None:
    account = Account()
    hooks(account.withdraw).pre(functools.partial(lambda kept: None, account))
    gone, mount = weakref.ref(account), hooks(account.withdraw)
    del account
    gc.collect()
    assert gone() is not None
    mount.clear()
    gc.collect()
    assert gone() is None


class Alike:
    """All instances are equal."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return type(other) is Alike

    __hash__ = None  # type: ignore[assignment]

    @hookable
    def enter(self) -> str:
        return self.name

    def note(self, result: str) -> str:
        return f"{result}, says {self.name}"


def test_the_method_of_an_equal_instance_is_called_with_that_instance() -> None:
    one, other = Alike("one"), Alike("other")
    hooks(one.enter).add("post", other.note)
    assert (one.enter(), other.enter()) == ("one, says other", "other")


@pytest.mark.parametrize("of_instance", [False, True], ids=["function", "instance"])
def test_from_the_second_call_on_nothing_of_the_package_runs(*, of_instance: bool) -> None:
    # A call that links runs some hundred functions of ours.
    account, entered = Account(), list[str]()
    mount = hooks(account.withdraw) if of_instance else hooks(Account.withdraw)
    mount.add("pre", lambda amount: None)

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("aspecthook."):
            entered.append(frame.f_code.co_qualname)

    account.withdraw(1)
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        account.withdraw(1)
    finally:
        sys.setprofile(before)
    mount.clear()
    assert entered == []
