"""Law 4 on copies: what is copied from a mounted function has no mount point, and changes nothing on it."""

from __future__ import annotations

import copy
import functools
import types
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookLookupError, hookable, hooks, weave
from aspecthook._core.mount.point import mount_of
from tests.copies.makers import MAKERS, WAYS, Made, unpicklable


@hookable
def price(qty: int) -> int:
    return qty * 2


def total(qty: int) -> int:
    return qty * 3


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    hooks(price).clear()


def wrapper(function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapped


class Holder:
    def __init__(self, function: Any) -> None:
        self.function, self.space, self.bound = function, vars(function), functools.partial(function)


def updated(function: Any) -> Any:
    return functools.update_wrapper(functools.partial(function), function)


# Each gives what was made, and the dict in it that was copied from the function's own.
COPIES: dict[str, Callable[[Any], tuple[object, Any]]] = {
    "wraps": lambda function: (made := wrapper(function), vars(made)),
    "wraps of wraps": lambda function: (made := wrapper(wrapper(function)), vars(made)),
    "deepcopy of wraps": lambda function: (made := copy.deepcopy(wrapper(function)), vars(made)),
    "update_wrapper of a partial": lambda function: (made := updated(function), vars(made)),
    "deepcopy of a partial": lambda function: (made := copy.deepcopy(updated(function)), vars(made)),
    "copy of a partial": lambda function: (made := copy.copy(updated(function)), vars(made)),
    "copy": lambda function: (copy.copy(function), {}),
    "deepcopy": lambda function: (copy.deepcopy(function), {}),
    "copy of the space": lambda function: (None, copy.copy(vars(function))),
    "deepcopy of the space": lambda function: (None, copy.deepcopy(vars(function))),
    "copy method of the space": lambda function: (None, vars(function).copy()),
    "unpacked space": lambda function: (None, {**vars(function)}),
    "dict of the space": lambda function: (None, dict(vars(function))),
    "space or another": lambda function: (None, {} | vars(function)),
    "another or the space": lambda function: (None, vars(function) | {}),
    "OrderedDict of the space": lambda function: (None, OrderedDict(vars(function))),
    "UserDict of the space": lambda function: (None, UserDict(vars(function)).data),
    "deepcopy of a holder": lambda function: (made := copy.deepcopy(Holder(function)), made.space),
    "copy of a holder": lambda function: (copy.copy(Holder(function)), {}),
}
WORDS = {"pre", "around", "on", "item", "exception", "post", "always", "hooks", "history"}


def is_ours(value: object) -> bool:
    return type(value).__module__.startswith("aspecthook")


@given(
    st.sampled_from(MAKERS),
    st.lists(st.tuples(st.sampled_from(list(WAYS)), st.sampled_from(list(COPIES))), min_size=1, max_size=3),
)
def test_a_copy_is_that_of_the_plain_function(maker: Callable[[], Made], steps: list[tuple[str, str]]) -> None:
    made = maker()
    function, code, space = made.function, made.function.__code__, vars(made.function)
    before = dict(space)
    kept: list[Any] = []
    for way, copying in steps:
        WAYS[way].put(made)
        mount, now = mount_of(function), vars(function)
        shown, members, what = dict(now), list(mount or ()), function.__code__
        made_copy, copied = COPIES[copying](function)
        kept.append(copied)
        # The function is as it was.
        assert mount_of(function) is mount and vars(function) is now and function.__code__ is what
        assert list(now) == list(shown) and all(now[name] is value for name, value in shown.items())
        assert list(mount or ()) == members
        # The copy has no mount point of its own, and no second one of the function.
        if isinstance(made_copy, types.FunctionType) and made_copy is not function:
            assert mount_of(made_copy) is None
        for name, value in copied.items():
            if is_ours(value):
                # What @hookable offers is offered by a wrapper too, and is the same.
                assert name in WORDS and "hooks" in vars(function) and now[name] is value
        plainly = COPIES[copying](maker().function)[1]
        assert copied.keys() - WORDS == plainly.keys()
        WAYS[way].off(made)
        assert function.__code__ is code or "on" in vars(function)
        if "hooks" not in vars(function):
            assert vars(function) is space and space == before and type(space) is dict
            assert not any(is_ours(value) for one in kept for value in one.values())
    assert made.use(function) == made.use(maker().function)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_mount_point_has_no_second(copied: Callable[[Any], Any]) -> None:
    # A copy was one more mount point on the same function: its hooks ran, and could be neither seen nor removed.
    mount = hooks(price)
    for one in (mount, price.pre, wrapper(price).hooks, wrapper(price).post):
        assert copied(one) is one
    other = copied(functools.update_wrapper(functools.partial(price, 1), price))
    log: list[str] = []
    other.pre(lambda: log.append("pre"))
    assert other() == 2 and log == ["pre"] and len(hooks(price)) == 1
    hooks(price).clear()
    assert other() == 2 and log == ["pre"]


def test_a_handle_that_is_copied_is_the_same_handle() -> None:
    # A copy of a handle took nothing off, without a word.
    hook = hooks(price).add("pre", unpicklable())
    weaving = weave(total, pre=unpicklable())
    twin = copy.deepcopy({"hook": hook, "weaving": weaving, "row": hooks(price).pre})
    assert list(twin["row"]) == [hook]
    twin["hook"].remove()
    twin["weaving"].remove()
    assert len(hooks(price)) == 0 and weaving.state == "removed" and vars(total) == {}


def test_a_copy_has_what_others_have_put_there() -> None:
    def work() -> None: ...

    work.tags, work.twin = ["a"], wrapper(price).pre
    with weave(work, pre=unpicklable()):
        work()
        space = copy.deepcopy(vars(work))
        assert space == {"tags": ["a"], "twin": price.pre} and type(space) is dict
        assert space["tags"] is not work.tags and vars(work).copy()["tags"] is work.tags
        work.itself = vars(work)
        space = copy.deepcopy(vars(work))
        assert space["itself"] is space


READINGS: dict[str, Callable[[dict[str, Any]], object]] = {
    "list": list,
    "reversed": lambda space: list(reversed(space)),
    "reversed keys": lambda space: list(reversed(space.keys())),
    "values": lambda space: list(space.values()),
    "len": len,
    "repr": repr,
    "dict": dict,
    "or": lambda space: space | {"c": 3},
    "or, from the right": lambda space: {"c": 3} | space,
    "stars": lambda space: {**space},
    "fromkeys": dict.fromkeys,
    "copy": dict.copy,
    "equal": lambda space: space == {"a": 1, "b": 2},
    "unequal": lambda space: space != {"a": 1, "b": 2},
}


@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_the_dict_of_a_woven_function_is_read_as_that_of_a_plain_one(read: Callable[[dict[str, Any]], object]) -> None:
    def total() -> int:
        return 1

    vars(total).update(a=1, b=2)
    plain = read(vars(total))
    with weave(total, pre=lambda: None):
        assert read(total.__dict__) == plain


def test_a_decorator_over_a_hookable_function_still_offers_its_hooks() -> None:
    made, log = wrapper(price), []
    made.pre(lambda: log.append("pre"))
    assert made(1) == 2 and log == ["pre"]
    assert {"pre", "hooks"} <= set(dir(made)) & set(dir(price)) & set(vars(price))


def test_function_sharing_the_dict_of_a_woven_one_keeps_nothing_of_ours() -> None:
    def other() -> None: ...

    weaving = weave(total, pre=unpicklable())
    other.__dict__ = vars(total)
    assert mount_of(other) is None
    weaving.remove()
    assert mount_of(other) is None and vars(other) == {} and vars(total) is not vars(other)
    with weave(other, pre=unpicklable()):
        other()
    assert vars(other) == {}


def test_attributes_written_while_woven_stay() -> None:
    def work() -> None: ...

    work.kept, work.changed, work.deleted = 1, 1, 1
    space = vars(work)
    with weave(work, pre=unpicklable()):
        work.changed = vars(work)["new"] = 2
        del work.deleted
        work()
        space["written"] = 3  # by who has taken the dict before
        assert (work.kept, work.changed, work.new, hasattr(work, "deleted")) == (1, 2, 2, False)
    assert vars(work) is space and space == {"kept": 1, "changed": 2, "new": 2, "written": 3}


def test_a_wrapped_attribute_of_others_stays() -> None:
    def work() -> None: ...

    with weave(work, pre=unpicklable()):
        work.__wrapped__ = total
    assert vars(work) == {"__wrapped__": total}
    with weave(work, pre=unpicklable()):
        assert dict(vars(work)) == {"__wrapped__": total}
        del work.__wrapped__
    assert vars(work) == {}


def test_an_attribute_of_the_name_hooks_is_that_of_others() -> None:
    # The mark of the mount point stayed on such a function.
    def work() -> None: ...

    space = vars(work)
    with weave(work, pre=unpicklable()):
        work.hooks = "mine"
    assert vars(work) is space and space == {"hooks": "mine"}


@pytest.mark.parametrize(
    ("made", "way"),
    [
        (lambda: wrapper(price), "hooks(wrapper.__wrapped__)"),
        (lambda: wrapper(wrapper(price)), "hooks(wrapper.__wrapped__.__wrapped__)"),
        (lambda: updated(price), "hooks(wrapper.__wrapped__)"),
    ],
    ids=["wraps", "wraps of wraps", "partial"],
)
def test_hooks_of_a_wrapper_says_where_they_are(made: Callable[[], Any], way: str) -> None:
    # It said that `price`, which it was not asked for, is no mount point, and to make it one.
    with pytest.raises(HookLookupError) as refusal:
        hooks(made())
    assert f"wrapper around {__name__}:price," in str(refusal.value) and f"write {way}," in str(refusal.value)
