"""Bad input of every sort is refused with a message that says where, who, what and what to do; it changes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from aspecthook import (
    Args,
    AspecthookError,
    HookAnswerError,
    HookLookupError,
    HookOptionError,
    HookOrderError,
    HookSignatureError,
    HookTypeError,
    MountError,
    hookable,
    hooks,
)


def clamp(qty: int) -> None: ...


HERE = rf"pre hook 'clamp' \({__file__}:{clamp.__code__.co_firstlineno}\)"


@pytest.fixture
def price() -> Any:
    @hookable(name="shop:price")
    def price(item: str, qty: int = 1) -> int:
        return qty

    return price


# The errors themselves


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (HookAnswerError, TypeError),
        (HookOrderError, ValueError),
        (HookSignatureError, TypeError),
        (HookTypeError, TypeError),
        (HookOptionError, ValueError),
        (HookLookupError, LookupError),
        (MountError, TypeError),
    ],
)
def test_each_error_has_the_one_root_and_is_the_nearest_builtin(error: type[Exception], builtin: type) -> None:
    assert issubclass(error, AspecthookError)
    assert issubclass(error, builtin)


# Options


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"priority": "HIHG"}, HookOptionError, "has the priority 'HIHG', which is none of HIGHEST, .* mean 'HIGH'"),
        ({"priority": -1}, HookOptionError, r"has the priority -1; give an int from 0 \(first\) to 100 \(last\)"),
        ({"priority": 101}, HookOptionError, "has the priority 101"),
        ({"priority": 1.5}, HookTypeError, "has a priority of type float; give an int"),
        ({"priority": True}, HookTypeError, "has a priority of type bool"),
        ({"priority": None}, HookTypeError, "has a priority of type NoneType"),
        ({"before": 3}, HookTypeError, "has before=3; give the name of a hook, or the hook itself"),
        ({"after": ["a", 3]}, HookTypeError, "has after=3"),
        ({"when": True}, HookTypeError, "has a `when` that is not callable: True; give a predicate"),
        ({"times": 0}, HookOptionError, "has times=0; give a number from 1 up"),
        ({"every": -2}, HookOptionError, "has every=-2"),
        ({"times": "3"}, HookTypeError, "has times='3'; give a whole number"),
        ({"every": 1.5}, HookTypeError, "has every=1.5"),
        ({"times": True}, HookTypeError, "has times=True"),
        ({"prioritty": 3}, HookTypeError, "has an option 'prioritty', which is none of name, .* mean 'priority'"),
        # A typical mistake, and the string is true; these were accepted.
        ({"once": "no"}, HookTypeError, "has once='no'"),
        ({"isolate": "no"}, HookTypeError, "has isolate='no'"),
        ({"reentrant": "no"}, HookTypeError, "has reentrant='no'"),
        # The names of the parameters of `MountPoint.add`, which said that they were given twice.
        ({"kind": "pre"}, HookTypeError, "has an option 'kind'"),
        ({"function": None}, HookTypeError, "has an option 'function'"),
    ],
    ids=str,
)
def test_a_bad_option_is_refused(price: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with unchanged(price), pytest.raises(error, match=f"^shop:price: {HERE} {message}"):
        price.pre(clamp, **options)


@pytest.mark.parametrize("name", [3, "", b"name"])
def test_a_name_that_is_no_string_is_refused(price: Any, name: Any) -> None:
    with unchanged(price), pytest.raises(HookTypeError, match=f"^shop:price: {HERE} has the name .*; give a string"):
        price.pre(clamp, name=name)


@pytest.mark.parametrize("option", ["name", "before", "after", "when", "times", "every"])
def test_none_is_as_if_an_option_had_not_been_given(price: Any, option: str) -> None:
    price.pre(clamp, **{option: None})
    assert [hook.name for hook in hooks(price)] == ["clamp"]


# Hooks


class unchanged:
    """Check that a mount point is what it was, hooked or not."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def look(self) -> tuple[Any, ...]:
        mount = hooks(self.function)
        return self.function.__code__, dict(self.function.__dict__), list(mount), mount.explain()

    def __enter__(self) -> None:
        self.before = self.look()

    def __exit__(self, *_: object) -> None:
        after = self.look()
        assert after[0] is self.before[0]
        assert after[1:] == self.before[1:]


def two_yields() -> Generator[None, None, None]:
    yield


async def wait() -> None: ...


BAD: dict[str, Callable[[Any], Any]] = {
    "no callable": lambda price: price.pre(3),
    "none": lambda price: price.pre(None),
    "two hooks": lambda price: price.pre(clamp, clamp),
    "an unknown kind": lambda price: hooks(price).add("before", clamp),
    "an item hook": lambda price: price.item(lambda item: None),
    "an async hook": lambda price: price.post(wait),
    "an async predicate": lambda price: price.post(clamp, when=wait),
    "a generator predicate": lambda price: price.post(clamp, when=two_yields),
    "a generator": lambda price: price.pre(two_yields),
    "no proceed": lambda price: price.around(clamp),
    "both proceed and yield": lambda price: price.around(lambda proceed: (yield)),
    "an isolated around hook": lambda price: price.around(lambda proceed: proceed(), isolate=True),
    "an unknown parameter": lambda price: price.pre(lambda qyt: None),
    "an unknown parameter of a predicate": lambda price: price.pre(clamp, when=lambda qyt: None),
    "a cycle": lambda price: price.pre(clamp, before="clamp"),
    "types that are no exceptions": lambda price: hooks(price).add("exception", clamp, "KeyError"),
    "types that are no types": lambda price: hooks(price).add("exception", clamp, KeyError, 3),
    "types of a hook that takes none": lambda price: hooks(price).add("pre", clamp, KeyError),
    "a string in the place of a type": lambda price: price.exception("KeyError", clamp),
    "a name that nobody bears": lambda price: hooks(price).remove("clmap"),
    "a function that is no hook": lambda price: hooks(price).remove(two_yields),
}


@pytest.mark.parametrize("is_hooked", [False, True], ids=["unhooked", "hooked"])
@pytest.mark.parametrize("what", BAD)
def test_what_is_refused_changes_nothing_and_names_the_mount_point(price: Any, what: str, is_hooked: bool) -> None:
    if is_hooked:
        price.post(lambda result: result + 1, name="other")
        price("tea")
    with unchanged(price), pytest.raises(AspecthookError, match=r"^shop:price"):
        BAD[what](price)
    assert price("tea") == 1 + is_hooked


def test_a_name_that_nobody_bears_is_answered_with_the_nearest(price: Any) -> None:
    price.pre(clamp)
    with pytest.raises(HookLookupError, match="shop:price has no hook 'clmap'; its hooks: clamp; did you mean 'clamp'"):
        hooks(price).remove("clmap")


class AsyncObject:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize("hook", [wait, AsyncObject(), AsyncObject().__call__, partial(wait), staticmethod(wait)])
def test_an_async_hook_on_a_sync_function_is_refused(price: Any, hook: Any) -> None:
    # A staticmethod object is what a decorator in a class body is given.
    with unchanged(price), pytest.raises(HookTypeError, match="is async, but shop:price is a sync function"):
        price.pre(hook)


class LikeMock:
    """Has, as `unittest.mock.Mock` has, every attribute, which is its like."""

    looks = 0

    def __getattr__(self, name: str) -> LikeMock:
        LikeMock.looks += 1
        if name.startswith("__"):
            raise AttributeError(name)
        assert LikeMock.looks < 1000, "looking for where the hook is written never ends"
        return LikeMock()

    def __call__(self, qty: int) -> int:
        return qty + 1


def test_a_mock_is_a_hook(price: Any) -> None:
    price.post(LikeMock())
    assert price("tea") == 2


def test_a_parameter_named_underscore_keeps_its_argument() -> None:
    # The generated code of functions that are not at module level unpacked into `_`.
    @hookable
    def f(_: object) -> object:
        return _

    f.pre(lambda: None)
    assert f("given") == "given"


# Answers, in a call


def test_a_refused_answer_names_the_mount_point_and_the_hook(price: Any) -> None:
    price.pre(lambda: 3, name="three")
    with pytest.raises(HookAnswerError, match=rf"^shop:price: pre hook 'three' \({__file__}:\d+\) answered 3; "):
        price("tea")


@pytest.mark.parametrize("where", ["pre", "around"])
def test_an_argument_that_the_target_does_not_take_is_refused_with_the_nearest(price: Any, where: str) -> None:
    hook = (lambda: Args(qyt=2)) if where == "pre" else lambda proceed: proceed(qyt=2)
    hooks(price).add(where, hook, name="clamp")  # type: ignore[arg-type]
    message = "hook 'clamp' .* replaces the argument 'qyt', but shop:price takes item, qty; did you mean 'qty'"
    with pytest.raises(HookAnswerError, match=message):
        price("tea")


@pytest.mark.parametrize(("changes", "message"), [({"rest": 3}, "give a tuple"), ({"extra": {3: 4}}, "dict of names")])
def test_star_args_and_star_kwargs_can_be_replaced_only_by_their_like(changes: dict[str, Any], message: str) -> None:
    f = hookable(lambda *rest, **extra: (rest, extra))
    f.pre(lambda: Args(**changes))
    with pytest.raises(HookAnswerError, match=message):
        f()


@pytest.mark.parametrize(("yields", "message"), [(0, "returned without its yield"), (2, "yielded twice")])
def test_a_one_yield_hook_that_does_not_yield_once_is_refused(price: Any, yields: int, message: str) -> None:
    def hook() -> Generator[None, None, None]:
        for _ in range(yields):
            yield

    price.around(hook)
    with pytest.raises(HookAnswerError, match=f"^shop:price: around hook 'hook' .* {message}"):
        price("tea")


# Mount points


@pytest.mark.parametrize("thing", [3, len, [].append, partial(clamp), Mock(), type("Empty", (), {}), property(len)])
def test_what_has_no_python_code_cannot_be_mounted(thing: Any) -> None:
    with pytest.raises(MountError):
        hookable(thing)


def test_a_function_with_an_attribute_that_hooks_need_cannot_be_mounted_and_is_left_alone() -> None:
    def f() -> None: ...

    f.post = "mine"  # type: ignore[attr-defined]
    with pytest.raises(MountError, match="already has an attribute 'post', which hooks need; rename it"):
        hookable(f)
    assert f.__dict__ == {"post": "mine"}


@pytest.mark.parametrize("as_property", [False, True], ids=["class", "property"])
def test_a_class_or_property_is_mounted_as_a_whole_or_not_at_all(as_property: bool) -> None:
    # The functions before the one that was refused stayed mounted.
    def good(self: object) -> None: ...

    def bad(self: object, value: int = 0) -> None: ...

    bad.pre = 1  # type: ignore[attr-defined]
    with pytest.raises(MountError):
        hookable(property(good, bad) if as_property else type("Shop", (), {"good": good, "bad": bad}))
    assert good.__dict__ == {}


@pytest.mark.parametrize("thing", [3, len, clamp, Mock(), type("Empty", (), {})])
def test_the_hooks_of_what_is_no_mount_point_are_not_found(thing: Any) -> None:
    with pytest.raises((HookLookupError, MountError)):
        hooks(thing)


# Hostile names: code objects can carry any string as the name of a parameter

HOSTILE = r"""
import ast, asyncio, sys
from types import FunctionType

from aspecthook import Args, hookable, hooks

NAMES = ["x); import os; os.abort(", "a b", "class", "None", "", ".0", "__debug__", "gr\xf6\xdfe", "\ufb01", "\ud800",
         "\0aspecthook target", "\0aspecthook slot"]
compiled = []


def spy(event, args):
    if event == "compile":
        source = args[0]
        compiled.append(ascii(ast.dump(source) if isinstance(source, ast.AST) else source))


def function(p, /, q, *rest, k, **extra):
    return p, q, rest, k, extra

async def coroutine(p, /, q, *rest, k, **extra):
    return p, q, rest, k, extra

def generator(p, /, q, *rest, k, **extra):
    return (yield (p, q, rest, k, extra))

async def async_generator(p, /, q, *rest, k, **extra):
    yield p, q, rest, k, extra

def nested():
    def function(p, /, q, *rest, k, **extra):
        return p, q, rest, k, extra
    return function


async def first(stream):
    return [item async for item in stream][0]


def outcome(made):
    if hasattr(made, "__aiter__"):
        return asyncio.run(first(made))
    return asyncio.run(made) if hasattr(made, "__await__") else list(made)[0] if hasattr(made, "send") else made


def renamed(function, slot, name):
    names = list(function.__code__.co_varnames)
    names[slot] = name
    code = function.__code__.replace(co_varnames=tuple(names))
    return FunctionType(code, globals(), "f", function.__defaults__, function.__closure__), names


def check(model, slot, name):
    f, names = renamed(model, slot, name)
    hookable(f)
    seen = []
    asking, _ = renamed(lambda asked: seen.append(asked), 0, name)
    hostile_hook, _ = renamed(lambda k, unused="kept", **others: seen.append((unused, others)), 1, "never; " + name)
    f.pre(lambda: Args(**{names[0]: 10, names[2]: 30}))
    f.pre(asking)
    f.pre(lambda args, kwargs: seen.append((args, kwargs)))
    f.pre(seen.append)
    f.pre(lambda *args, **kwargs: seen.append((args, kwargs)))
    hostile = "hooks" in sys.argv and slot != 2
    if hostile:
        f.pre(hostile_hook)
    f.around(lambda proceed: proceed(**{names[1]: 20}))
    f.always(lambda call: seen.append(dict(call.arguments)))
    result = outcome(f(1, 2, 7, **{names[2]: 3, "z": 4}))
    assert result == (10, 20, (7,), 30, {"z": 4}), (model, names, result)
    values = [10, 2, 30, (7,), {"z": 4}]
    arguments = dict(zip(names, values))
    passed = ((10, 2, 7), {names[2]: 30, "z": 4})
    expected = [values[slot], passed, arguments, passed, *([("kept", {"z": 4})] if hostile else []), arguments]
    assert seen == expected, (model, names, seen)
    hooks(f).explain()


sys.addaudithook(spy)
for name in NAMES:
    for slot in range(5):
        for model in (function, coroutine, generator, async_generator, nested()):
            check(model, slot, name)
assert compiled
for text in compiled:
    for sign in ("abort", "a b", "gr\\xf6", "ufb01", "ud800", "never"):
        assert sign not in text, text
print("done")
"""


@pytest.mark.parametrize("of", ["targets", "hooks"])
def test_the_name_of_a_parameter_that_is_not_plain_works_and_is_never_compiled(of: str) -> None:
    # What a hook asks for by name is left out of its **kwargs: that name of the hook's was written into source.
    done = subprocess.run([sys.executable, "-c", HOSTILE, of], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")
