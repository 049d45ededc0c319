"""Law 4 on pickles: what takes a mounted function apart, code and all, sends the plain function."""

from __future__ import annotations

import dis
import functools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import hookable, hooks, weave
from tests.copies.makers import MAKERS, WAYS, Made, Unhashable, unpicklable

PICKLERS = ["cloudpickle", "dill"]


@pytest.fixture(params=PICKLERS)
def library(request: pytest.FixtureRequest) -> Any:
    found = pytest.importorskip(request.param)
    try:
        found.dumps(lambda: None)
    except AttributeError:
        pytest.skip(f"{request.param} does not know the code objects of this Python")
    return found


def check_plain(arrived: Any, made: Made, plain: Made) -> None:
    """Check that what has arrived is the function that was not decorated."""
    assert arrived is not made.function and type(arrived) is FunctionType
    code, other = arrived.__code__, plain.function.__code__
    if made.decorate is hookable:
        # From 3.1.3 on cloudpickle names the file of all code that it makes "<dynamic-code>".
        assert code.co_filename in (other.co_filename, "<dynamic-code>")
        assert (code.co_code, code.co_names) == (other.co_code, other.co_names)
    assert type(code.co_consts) is tuple and "aspecthook" not in repr(code.co_consts)
    space = {name: value for name, value in vars(arrived).items() if name != "__wrapped__"}
    # An entry that says nothing is all that may be left where the code was ours.
    assert space.pop("__aspecthook__", None) is None and type(vars(arrived)) is dict
    assert space == {name: value for name, value in vars(plain.function).items() if name != "__wrapped__"}
    assert made.use(arrived) == plain.use(plain.function)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_pickled_function_arrives_as_the_plain_one(library: Any, maker: Callable[[], Made], way: str) -> None:
    # Each raised "cannot pickle 'weakref' object", or that of whatever the hooks held.
    made = maker()
    code = made.function.__code__
    WAYS[way].put(made)
    hooked, members = made.function.__code__, list(getattr(made.function, "hooks", ()))
    check_plain(library.loads(library.dumps(made.function)), made, maker())
    check_plain(library.loads(library.dumps([made.function, vars(made.function)]))[0], made, maker())
    # It is sent again from there, and may be hooked there.
    there = library.loads(library.dumps(made.function))
    check_plain(library.loads(library.dumps(there)), made, maker())
    log: list[str] = []
    with weave(there, pre=lambda: log.append("pre")):
        made.use(there)
    assert log
    check_plain(there, made, maker())
    assert made.function.__code__ is hooked and list(getattr(made.function, "hooks", ())) == members
    WAYS[way].off(made)
    assert made.function.__code__ is code or made.decorate is not hookable
    check_plain(library.loads(library.dumps(made.function)), made, maker())


@given(
    st.lists(st.tuples(st.sampled_from(MAKERS), st.sampled_from(list(WAYS))), min_size=2, max_size=5),
    st.randoms(use_true_random=False),
)
def test_functions_that_are_pickled_together(drawn: list[tuple[Callable[[], Made], str]], chance: Any) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    case = [maker() for maker, _ in drawn]
    for made, (_, way) in zip(case, drawn, strict=True):
        WAYS[way].put(made)
    sent: list[Any] = [[place, thing(made.function)] for place, made in enumerate(case) for thing in THINGS]
    chance.shuffle(sent)
    for place, arrived in cloudpickle.loads(cloudpickle.dumps(sent)):
        if isinstance(arrived, FunctionType):
            check_plain(arrived, case[place], drawn[place][0]())
    for made, (_, way) in zip(case, drawn, strict=True):
        WAYS[way].off(made)


THINGS: list[Callable[[Any], object]] = [
    lambda function: function,
    vars,
    lambda function: functools.update_wrapper(functools.partial(function), function),
    lambda function: getattr(function, "pre", None),
    lambda function: getattr(function, "hooks", None),
]


@hookable
def price(qty: int) -> int:
    return qty * 2


def total(qty: int) -> int:
    return qty * 3


@pytest.mark.parametrize("function", [price, total])
def test_function_pickled_by_name_is_the_one_of_the_receiver(function: Any) -> None:
    # Whoever pickles the `__dict__` alone must not have the code of the function taken out.
    weaving = weave(function, pre=(seen := []).append and (lambda: seen.append("pre")))
    function(1)
    code, picklers = function.__code__, [pickle, *(pytest.importorskip(name) for name in PICKLERS)]
    for library in picklers:
        partial = functools.update_wrapper(functools.partial(function, 1), function)
        space, arrived, same = library.loads(library.dumps([vars(function), partial, function]))
        assert space == {} and same is function and arrived.func is function and arrived() == function(1)
        assert function.__code__ is code
        assert getattr(arrived, "pre", None) == getattr(function, "pre", None)
    weaving.remove()
    assert len(seen) == 1 + 2 * len(picklers)


def test_pickling_it_by_name_needs_nothing_else() -> None:
    # `pickle.dumps` of a partial that has the attributes of a hookable function raised.
    partial = functools.update_wrapper(functools.partial(price, 1), price)
    price.pre(name="mine")(unpicklable())
    arrived = pickle.loads(pickle.dumps(partial))
    assert arrived() == 2 and "mine" in arrived.hooks and arrived.hooks is hooks(price)
    assert pickle.loads(pickle.dumps(hooks(price))) is hooks(price)
    hooks(price).clear()


def test_a_code_that_holds_hooks_without_a_hash_can_be_a_key() -> None:
    price.pre(Unhashable())
    price(1)
    assert {price.__code__: 1}[price.__code__] == 1
    hooks(price).clear()


def test_code_that_is_pickled_by_itself_can_be_shown_where_it_arrives(library: Any) -> None:
    price.pre(lambda: None)
    price(1)
    arrived = library.loads(library.dumps(price.__code__))
    assert [one.opname for one in dis.get_instructions(arrived)] == [
        one.opname for one in dis.get_instructions(price.__code__)
    ]
    hooks(price).clear()


SCRIPT = Path(__file__).parent / "script.py"
ARRIVAL = """
import asyncio, sys
arrived = __import__(sys.argv[1]).loads(sys.stdin.buffer.read())
shown = {name: use(thing) for name, (thing, use) in arrived.items()}
assert "aspecthook" not in sys.modules
print(shown)
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def python(*args: object, **options: Any) -> Any:
    done = subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, env=environment(), timeout=120, check=False, **options
    )
    assert done.returncode == 0, done.stderr.decode()[-6000:]
    return done.stdout


def test_methods_and_classes_sent_by_a_script_need_no_aspecthook_where_they_arrive(library: Any) -> None:
    name = library.__name__
    ways = ("plain", "decorated", "hooked", "called", "removed")
    shown = {way: python("-c", ARRIVAL, name, input=python(SCRIPT, name, way)) for way in ways}
    assert shown == dict.fromkeys(ways, shown["plain"]) and b"Till" in shown["plain"]
