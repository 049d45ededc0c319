"""Stubs: what an event is, which functions can be one, and which are refused."""

from __future__ import annotations

import copy
import dis
import inspect
import pickle
import re
import types
import typing
from typing import Any

import pytest

from aspecthook import HookOptionError, HookTypeError, MountError, event, hookable, hooks
from tests.events.samples import arrived, rang

# An event is its stub


def test_event_is_the_function_of_its_stub() -> None:
    before = rang.__code__
    assert str(inspect.signature(rang)) == "(who: 'str', times: 'int' = 1) -> 'None'"
    assert "Somebody rang." in inspect.getsource(rang) and inspect.getdoc(rang) == "Somebody rang."
    assert typing.get_type_hints(rang) == {"who": str, "times": int, "return": type(None)}
    assert type(rang) is type(lambda: None) and pickle.loads(pickle.dumps(rang)) is rang and copy.copy(rang) is rang
    assert inspect.iscoroutinefunction(arrived) and not inspect.iscoroutinefunction(rang)
    space = dict(vars(rang))
    handle = hooks(rang).add("on", lambda: 1)
    assert rang("ann") == [1] and rang.__code__ is not before and "Somebody rang." in inspect.getsource(rang)
    handle.remove()
    assert rang.__code__ is before and vars(rang) == space


def test_code_of_an_event_has_the_lines_of_its_stub() -> None:
    @event
    def one(n: int) -> None: ...

    @event
    def two(n: int) -> None:
        """Do nothing."""

    for stub in (one, two):
        lines, first = inspect.getsourcelines(stub)
        assert {line for *_, line in stub.__code__.co_lines() if line} <= set(range(first, first + len(lines)))
        dis.dis(stub, file=typing.cast("Any", types.SimpleNamespace(write=lambda text: None)))


# Stubs with and without a body


EMPTY = [
    "pass",
    "pass; pass",
    "...",
    "...; ...",
    "'doc'",
    "'doc'; 'doc'",
    "'doc'; ...",
    "'doc'; 1",
    "x: int",
    "x: int; return None",
    "global G",
    "return",
    "return None",
    "''",
    "if 0: pass",
    "None",
    "(1, 2)",
    "1 + 2",
    "'doc'; (1, 2)",
    "pass\n    pass",  # of the second line a NOP was left
    "if False: print()",
    "while 0: pass",
    "assert True",
]
FULL = [
    "x = None",
    "x = 1",
    "print",
    "y = None; return y",
    "return n",
    "return 5",
    "return ...",
    "return []",
    "G",
    "def g(): ...",
    "lambda: 0",
    "del n",
    "if n: pass",
    "raise NotImplementedError",
    "[]",
    "return 0",
    "return 1000",
    "return 'doc'",
    "'doc'; return 'doc'",
    "assert False",
]


@pytest.mark.parametrize("lead", ["def", "async def"])
@pytest.mark.parametrize("body", EMPTY + FULL)
def test_body_of_a_stub_is_recognised(body: str, lead: str) -> None:
    space: dict[str, Any] = {}
    exec(f"{lead} stub(n):\n    {body}", space)
    code = space["stub"].__code__
    made = event(space["stub"])
    assert (made.__code__ is not code) == (body in EMPTY)
    if body in EMPTY and lead == "def":
        assert made(1) == []


# Names


# Refusals


def plain(value: int) -> None: ...


def with_attributes() -> Any:
    def stub() -> None: ...

    vars(stub).update(on=1)
    return stub


STUBS = [
    (3, "give a function"),
    (len, "give a function"),
    (staticmethod(plain), "nearest to the def"),
    (classmethod(plain), "nearest to the def"),
    (property(plain), "nearest to the def"),
    (hookable(lambda: None), "mount point already"),
    (rang, "mount point already"),
    (lambda: (yield), "contains a yield, and cannot be an event; write a stub: def"),
    (with_attributes(), "already has an attribute 'on'"),
]
OPTIONS: list[tuple[Any, dict[str, Any], str]] = [
    (plain, {"first": True, "fold": "value"}, "use one of the two"),
    (plain, {"fold": "wlu"}, "folds 'wlu', but its parameters are value"),
    (plain, {"fold": "valeu"}, "did you mean 'value'"),
    (lambda *rest: None, {"fold": "rest"}, "its parameters are none"),
    (plain, {"errors": "rise"}, "did you mean 'raise'"),
    (plain, {"first": 1}, "first=1"),
    (plain, {"fold": ["n"]}, "fold="),
    (plain, {"fold": 3}, "fold=3"),
    (plain, {"name": 3}, "plain has name=3"),
    (plain, {"errors": None}, "errors=None"),
]


@pytest.mark.parametrize(
    ("stub", "options", "error", "says"),
    [(stub, {}, MountError, says) for stub, says in STUBS]
    + [(stub, options, HookOptionError, says) for stub, options, says in OPTIONS],
)
def test_refused(stub: Any, options: dict[str, Any], error: type[Exception], says: str) -> None:
    code, space = getattr(stub, "__code__", None), dict(getattr(stub, "__dict__", {}))
    with pytest.raises(error, match=re.escape(says)):
        event(**options)(stub)
    assert getattr(stub, "__code__", None) is code and dict(getattr(stub, "__dict__", {})) == space


def test_a_refusal_names_the_event_by_the_name_that_it_was_given() -> None:
    with pytest.raises(HookOptionError, match=r"^shop\.sold folds 'price'"):

        @event(name="shop.sold", fold="price")
        def sold(item: str) -> str: ...


def test_function_that_is_no_event_takes_no_subscribers() -> None:
    @hookable
    def price() -> None: ...

    assert not hasattr(price, "on") and not hooks(price).on
    with pytest.raises(HookTypeError, match="is not an event; use pre or post, or declare it with @event"):
        hooks(price).add("on", lambda: None)
