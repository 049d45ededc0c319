"""Bad input of every sort is refused with a message that says where, who, what and what to do; it changes nothing."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Generator
from functools import lru_cache, partial, partialmethod
from itertools import combinations
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import (
    Args,
    AspecthookError,
    HookAnswerError,
    HookLookupError,
    HookOptionError,
    HookTypeError,
    MountError,
    MountPoint,
    Return,
    WeaveError,
    event,
    hookable,
    hooks,
    weave,
)
from aspecthook._errors import brief, described
from aspecthook.record import Tape
from tests.tracebacks import shown_frames


def clamp(qty: int) -> None: ...


HERE = rf"pre hook 'clamp' \({__file__}:{clamp.__code__.co_firstlineno}\)"


@pytest.fixture
def price() -> Any:
    @hookable(name="shop:price")
    def price(item: str, qty: int = 1) -> int:
        return qty

    return price


# Options


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"priority": "HIHG"},
            HookOptionError,
            "has the priority 'HIHG', which does not exist; the names are HIGHEST, .* mean 'HIGH'",
        ),
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
        (
            {"once": True, "times": 2},
            HookOptionError,
            "has once=True and times=2, which contradict each other; remove one of them",
        ),
        (
            {"prioritty": 3},
            HookTypeError,
            "has an option 'prioritty', which does not exist; the options are name, .* mean 'priority'",
        ),
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


BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no callable": (lambda price: price.pre(3), "3 is not callable and cannot be a pre hook; give a function"),
    "an exception type by its name": (
        lambda price: price.exception("KeyError"),
        "'KeyError' is not callable and cannot be an exception hook; give a function, or exception types such as",
    ),
    "an exception": (
        lambda price: price.exception(KeyError("a")),
        "give a function, or the type KeyError for an exception hook of that type",
    ),
    "an answer": (lambda price: price.exception(Return(1)), "give the function itself, without calling it"),
    "none": (
        lambda price: price.item(None),
        "None is not callable and cannot be an item hook; give the function itself",
    ),
    "two hooks": (lambda price: price.pre(clamp, 2), ".pre takes one hook, and its options by name; it was given 2"),
    "an unknown kind": (
        lambda price: hooks(price).add("before", clamp),
        "there are no 'before' hooks, only pre, around, on, item, exception, post, always; did you mean 'pre'?",
    ),
    "no kind": (
        lambda price: hooks(price).add(clamp),
        "add takes the kind and then the hook, as in hooks(f).add('pre', hook); the decorators take the hook alone",
    ),
    "a kind alone": (lambda price: hooks(price).add("post"), "as in hooks(f).add('post', hook); the decorators take"),
    "an item hook": (lambda price: price.item(lambda item: None), "is not a generator and yields no items; use post"),
    "an async hook": (lambda price: price.post(wait), "which cannot await it; make the hook a plain function"),
    "an async predicate": (
        lambda price: price.post(clamp, when=wait),
        "its `when` is async, so its answer would always be true; make it a plain function",
    ),
    "a generator predicate": (
        lambda price: price.post(clamp, when=two_yields),
        "its `when` is a generator, so its answer would always be true; make it a plain function",
    ),
    "a generator": (lambda price: price.pre(two_yields), "so calling it would run nothing; only an around hook may be"),
    "no proceed": (
        lambda price: price.around(clamp),
        "neither asks for `proceed` nor yields, so shop:price would never run; ask for `proceed` and call it, or "
        "write a generator function with one `yield`; to use a decorator, write around.wrap(decorator)",
    ),
    "both proceed and yield": (
        lambda price: price.around(lambda proceed: (yield)),
        "both asks for `proceed` and contains a yield, on a function; do one of the two: call `proceed()`",
    ),
    "an isolated around hook": (
        lambda price: price.around(lambda proceed: proceed(), isolate=True),
        "cannot be isolated: what an around hook raises cannot be distinguished from what the target raised through it",
    ),
    "an isolated around hook that yields": (
        lambda price: price.around(lambda: (yield), isolate=True),
        "cannot be isolated",
    ),
    "an unknown parameter": (
        lambda price: price.pre(lambda qyt: None),
        "asks for 'qyt', but shop:price offers item, qty; a pre hook may also ask for call, args, kwargs; "
        "did you mean 'qty'?",
    ),
    "an unknown parameter of a predicate": (
        lambda price: price.pre(clamp, when=lambda qyt: None),
        "its `when` asks for 'qyt', but shop:price offers item, qty",
    ),
    "args after a name that is not offered": (
        lambda price: price.pre(lambda factor=2, *args: None),
        "has *args after 'factor', which shop:price does not offer; make 'factor' keyword-only (put it after *args)",
    ),
    "a predicate that cannot be called": (
        lambda price: price.pre(clamp, when=3),
        "has a `when` that is not callable: 3; give a predicate",
    ),
    "a cycle": (lambda price: price.pre(clamp, before="clamp"), "cannot be ordered: 'clamp' before 'clamp'; remove a"),
    "types that are no exceptions": (
        lambda price: hooks(price).add("exception", clamp, "KeyError"),
        "'KeyError' is not an exception type; give classes such as KeyError",
    ),
    "types in a tuple": (
        lambda price: hooks(price).add("exception", clamp, (KeyError, OSError)),  # type: ignore[arg-type]
        "(<class 'KeyError'>, <class 'OSError'>) is not an exception type",
    ),
    "types that are no types": (lambda price: hooks(price).add("exception", clamp, KeyError, 3), "3 is not an exc"),
    "a class in the place of an exception's": (lambda price: price.exception(int), "<class 'int'> is not an exception"),
    "types of a hook that takes none": (
        lambda price: hooks(price).add("pre", clamp, KeyError),
        "only exception hooks take exception types, and this is a hook for pre",
    ),
    "a string in the place of a type": (lambda price: price.exception("KeyError", clamp), ".exception takes one hook"),
    "a name that nobody bears": (lambda price: hooks(price).remove("clmap"), "has no hook 'clmap'; its hooks: "),
    "a function that is no hook": (lambda price: hooks(price).remove(two_yields), "test_errors:two_yields>; its hooks"),
}


@pytest.mark.parametrize("is_hooked", [False, True], ids=["unhooked", "hooked"])
@pytest.mark.parametrize("what", BAD)
def test_refusal_changes_nothing_and_names_the_mount_point(price: Any, what: str, is_hooked: bool) -> None:
    if is_hooked:
        price.post(lambda result: result + 1, name="other")
        price("tea")
    act, message = BAD[what]
    with unchanged(price), pytest.raises(AspecthookError, match=rf"^shop:price.*{re.escape(message)}"):
        act(price)
    assert price("tea") == 1 + is_hooked


# The faults of a hook, and what is said of it. Of several, the one that stands first here is told.
FAULTS: dict[str, dict[str, Any]] = {
    "again='yes'; give True or False": {"again": "yes"},
    "there are no 'never' hooks": {"kind": "never"},
    "only exception hooks take exception types": {"types": (KeyError,)},
    "has the name 3": {"name": 3},
    "has an option 'prioritty'": {"prioritty": 3},
    "has the priority 101": {"priority": 101},
    "has before=3": {"before": 3},
    "has times=0": {"times": 0},
    "has once=True and times=2": {"once": True, "times": 2},
    "asks for 'qyt', but": {"asks": "qyt"},
    "is async, but": {"style": "async def"},
    "contains a yield": {"does": "yield"},
    "neither asks for `proceed`": {"kind": "around", "asks": ""},
    "cannot be isolated": {"kind": "around", "asks": "proceed", "isolate": True},
    "its `when` asks for 'nobodys'": {"when": lambda nobodys: True},
    "its `when` is async": {"when": wait},
    "these hooks cannot be ordered": {"after": "hook"},
}


@pytest.mark.parametrize(("first", "second"), [*combinations(FAULTS, 2)])
def test_of_two_faults_the_first_is_told(price: Any, first: str, second: str) -> None:
    if (first, second) == ("contains a yield", "neither asks for `proceed`"):
        pytest.skip("together they are none")
    given = {**FAULTS[first], **FAULTS[second], **FAULTS[first]}
    style, asks, does = given.pop("style", "def"), given.pop("asks", ""), given.pop("does", "pass")
    space: dict[str, Any] = {}
    exec(f"{style} hook({asks}): {does}", space)
    kind, types = given.pop("kind", "pre"), given.pop("types", ())
    with unchanged(price), pytest.raises(AspecthookError, match=f"^shop:price.*{re.escape(first)}"):
        hooks(price).add(kind, space["hook"], *types, **given)


@pytest.mark.parametrize(
    ("habit", "kind"),
    [("after", "post"), ("Error", "exception"), ("finally", "always"), ("wrap", "around"), ("pots", "post")],
)
def test_a_kind_by_the_name_of_another_library_is_answered_with_ours(price: Any, habit: str, kind: str) -> None:
    with pytest.raises(HookTypeError, match=f"there are no '{habit}' hooks, only .*; did you mean '{kind}'"):
        hooks(price).add(habit, clamp)
    if habit != "after":  # an option of hooks
        with pytest.raises(WeaveError, match=f"weave takes no '{habit}'; did you mean '{kind}'"):
            weave(price, **{habit: clamp})


@pytest.mark.parametrize("made", [lambda audit: audit, partial], ids=["function", "partial"])
def test_a_name_of_hooks_of_several_modules_removes_none_of_them(price: Any, made: Any) -> None:
    # It took every module's `audit`.
    audits: list[Any] = []
    for module in ("shop", "tax"):
        space: dict[str, Any] = {"__name__": module}
        exec("def audit(): pass", space)
        audits.append(made(space["audit"]))
        hooks(price).add("pre", audits[-1])
    hooks(price).add("post", audits[0])
    with pytest.raises(HookLookupError, match=r"price has hooks 'audit' of several modules: .*; give the function"):
        hooks(price).remove("audit")
    assert len(hooks(price)) == 3
    hooks(price).remove(audits[1])
    hooks(price).remove("audit")
    assert not hooks(price)


# Answers, in a call


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


def test_what_is_no_stream_is_refused_around_an_async_generator() -> None:
    @hookable(name="shop:prices")
    async def prices() -> AsyncIterator[int]:
        yield 1

    prices.around(lambda proceed: 3, name="three")

    async def collect() -> list[int]:
        return [price async for price in prices()]

    message = (
        "^shop:prices: around hook 'three' .* answered an int; around an async generator, answer `proceed\\(\\)` or "
        "another async iterator$"
    )
    with pytest.raises(HookAnswerError, match=message):
        asyncio.run(collect())


TARGETS = [
    ("def price(): {}", ""),
    ("async def price(): {}", "async "),
    ("def price(): yield {}", ""),
    ("async def price(): yield {}", "async "),
]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("target", "own"), [*TARGETS, *((target, "") for target, own in TARGETS if own)])
@pytest.mark.parametrize(("yields", "message"), [(0, "returned without a yield"), (2, "yielded twice")])
def test_a_one_yield_hook_that_does_not_yield_once_is_refused_and_closed(
    target: str, own: str, yields: int, message: str, fails: bool
) -> None:
    space: dict[str, Any] = {"ended": []}
    exec(target.format(f"1 // {1 - fails}"), space)
    exec(
        f"{own}def hook():\n"
        f" try:\n  for _ in range({yields}):\n   try: yield\n   except ArithmeticError: pass\n"
        f" finally: ended.append(1)\n",
        space,
    )
    price = hookable(name="shop:price")(space["price"])
    price.around(space["hook"])

    async def run() -> None:
        made = price()
        if hasattr(made, "__aiter__"):
            made = [item async for item in made]
        await made if hasattr(made, "__await__") else list(made)

    # In an event loop, which would else close an async hook long after.
    with pytest.raises(HookAnswerError, match=f"^shop:price: around hook 'hook' .* {message}"):
        asyncio.run(run())
    assert space["ended"] == [1]


# Mount points


def test_a_function_with_an_attribute_that_hooks_need_cannot_be_mounted_and_is_left_alone() -> None:
    def f() -> None: ...

    f.post = "mine"  # type: ignore[attr-defined]
    with pytest.raises(MountError, match="already has an attribute 'post', which hooks need; rename it"):
        hookable(f)
    assert f.__dict__ == {"post": "mine"}


def test_a_coroutine_function_around_an_async_generator_is_refused() -> None:
    @hookable(name="shop:prices")
    async def prices() -> AsyncIterator[int]:
        yield 1

    async def wrapped(proceed: Any) -> object:
        return await proceed()

    with pytest.raises(HookTypeError, match="is a coroutine function around the async generator shop:prices, which"):
        prices.around(wrapped)


def test_a_mount_point_whose_function_is_gone_says_so() -> None:
    def mounted() -> MountPoint:
        return hooks(hookable(name="shop:price")(lambda item: item))

    mount = mounted()
    gc.collect()
    with pytest.raises(HookLookupError, match="^shop:price is gone: nothing refers to the function any more$"):
        mount.pre(clamp)


@pytest.mark.parametrize("as_property", [False, True], ids=["class", "property"])
def test_a_class_or_property_is_mounted_as_a_whole_or_not_at_all(as_property: bool) -> None:
    # The functions before the one that was refused stayed mounted.
    def good(self: object) -> None: ...

    def bad(self: object, value: int = 0) -> None: ...

    bad.pre = 1  # type: ignore[attr-defined]
    with pytest.raises(MountError):
        hookable(property(good, bad) if as_property else type("Shop", (), {"good": good, "bad": bad}))
    assert good.__dict__ == {}


# Hostile names: code objects can carry any string as the name of a parameter

HOSTILE = r"""
import ast, asyncio, sys
from types import FunctionType

from aspecthook import Args, hookable, hooks

NAMES = ["x); import os; os.abort(", "a b", "class", "None", "", ".0", "__debug__", "gr\xf6\xdfe", "\ufb01", "\ud800",
         "\1target", "\1slot"]
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
    async def awaiting(proceed):
        return await proceed(**{names[1]: 20})

    f.around(awaiting if model is coroutine else lambda proceed: proceed(**{names[1]: 20}))
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


# What is to be written instead


def refused(kind: str, hook: Any, method: bool = False) -> str:
    """Give the message with which a hook is refused, when it is added or when it runs."""

    @hookable(name="shop:price")
    def price(item: str, qty: int = 1) -> int:
        return qty

    class Shop:
        @hookable(name="shop:Till.sell")
        def sell(self, item: str, qty: int = 1) -> int:
            return qty

    with pytest.raises(AspecthookError) as caught:
        hooks(Shop.sell if method else price).add(kind, hook)  # type: ignore[arg-type]
        Shop().sell("tea") if method else price("tea")
    assert shown_frames(caught.value) == []
    return str(caught.value)


MEANT: list[tuple[str, Any, bool, str]] = [
    ("pre", lambda qty: 2, False, "to replace an argument write Args(qty=2)"),
    ("pre", lambda item: "secret", False, "to replace an argument write Args(item=...)"),
    ("pre", lambda self, item: 2.5, True, "to replace an argument write Args(item=2.5)"),
    ("pre", lambda: 2, False, "to replace an argument write Args(qty=2)"),
    ("pre", lambda item, qty: [1], False, "to replace an argument write Args(qty=...)"),
    ("around", lambda proceed, qty: proceed(3), False, "proceed takes names: proceed(qty=3)"),
    ("around", lambda proceed: proceed("a", 3), False, "proceed takes names: proceed(item=..., qty=3)"),
    ("around", lambda proceed: proceed("a", 3), True, "2 values without a name; proceed takes names: proceed(item=..."),
    ("around", lambda proceed, item: proceed("a", qty=3), False, "proceed takes names: proceed(item=...)"),
    ("around", lambda func, *args, **kw: func(*args, **kw), False, "did you mean 'proceed'?"),
    ("around", lambda wrapped, instance, args, kwargs: wrapped(), True, "did you mean 'proceed'?"),
    ("around", lambda proceed, instance: proceed(), True, "asks for 'instance', .* did you mean 'self'?"),
    ("around", lambda func: func, False, "if it is a decorator, write around.wrap(decorator)"),
    ("around", lru_cache(3), False, "if it is a decorator, write around.wrap(decorator), and if it is a hook, ask for"),
    ("exception", lambda error: None, False, "did you mean 'exc'?"),
    ("post", lambda return_value: None, False, "did you mean 'result'?"),
    ("always", lambda ctx: None, False, "did you mean 'call'?"),
]


@pytest.mark.parametrize(("kind", "hook", "method", "message"), MEANT, ids=[row[3] for row in MEANT])
def test_a_refusal_says_what_to_write_instead(kind: str, hook: Any, method: bool, message: str) -> None:
    # "Args(price=...)" for a hook that asks for `qty`, and "linked.<locals>.layer_1.<locals>.proceed() takes 0 ...".
    found = refused(kind, hook, method)
    assert all(part in found for part in message.split(" .* ")), found
    assert "<locals>" not in found.partition("(")[0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("json.dumps", r"'json.dumps' is a string, .*; use weave\('json:dumps', pre=...\)"),
        ("json:dumps", r"use weave\('json:dumps', pre=...\)"),
        ("dumps", r"use weave\('dumps', pre=...\)"),
        (partial(clamp, 1), r"partial, .*; put @hookable on the function inside it, .* the def \(clamp\)"),
        (partial(len), r"partial, .*; call it from a function of your own and make that @hookable$"),
        (lru_cache(clamp), r"_lru_cache_wrapper, .*; put @hookable on the function inside it, .* the def \(clamp\)"),
        (partialmethod(clamp, 1), r"partialmethod, .*; put @hookable on the function inside it, .* \(clamp\)"),
        (partialmethod(len), r"partialmethod, .*; give a function, a method or a class$"),
        (attrgetter("x"), r"attrgetter, .*; mount what a call of it runs: hookable\(attrgetter.__call__\)"),
        (len, r"; call it from a function of your own and make that @hookable$"),
        (5, r"int, .*; give a function, a method or a class$"),
    ],
    ids=lambda case: None if isinstance(case, str) else type(case).__name__,
)
def test_wrong_argument_of_hookable_is_named_with_what_to_write(target: Any, message: str) -> None:
    with pytest.raises(MountError, match=message):
        hookable(target)


# What messages show of values and names


asked: list[str] = []


class Unshowable:
    """Notes that it was shown."""

    def __repr__(self) -> str:
        asked.append("repr")
        return "shown\n"

    __str__ = __repr__


class Secret(str):
    __slots__ = ()

    def __repr__(self) -> str:
        asked.append("repr")
        return "shown\n"

    def __getitem__(self, _: object) -> str:
        asked.append("item")
        return "shown\n"

    def __len__(self) -> int:
        asked.append("len")
        return 10**6


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.builds(Unshowable)
    | st.builds(Secret, st.text())
    | st.sampled_from([Unshowable, len, sys, clamp, partial(clamp), ValueError(Unshowable()), ...])
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner) | st.builds(KeyError, inner)
    ),
)


@given(anything, st.integers(10, 300))
def test_brief_of_any_value_is_one_short_line_and_runs_no_code_of_users(value: object, most: int) -> None:
    asked.clear()
    text = brief(value, most)
    assert text.isprintable() and 0 < len(text) <= most
    text = described(value)
    assert text.isprintable() and 0 < len(text) < 80
    assert asked == []


def test_brief_of_what_holds_itself_ends_and_a_set_without_items_is_no_dict() -> None:
    error = KeyError()
    error.args = (error,)
    assert brief([error]) == "[KeyError(KeyError(KeyError(KeyError(...))))]"
    assert brief([set(), frozenset(), {}, {1}]) == "[set(), frozenset(), {}, {1}]"


def test_a_repr_of_a_call_shows_names_and_types_and_no_values(price: Any) -> None:
    """`repr(call)` in a log was how passwords came into it."""
    seen: list[str] = []
    price.pre(lambda call: seen.append(repr(call)))
    price("hunter2", Unshowable())
    price(qty=3, item=None)
    assert seen == [
        "<call of shop:price with item: a str of 7 characters, qty: a Unshowable>",
        "<call of shop:price with item: None, qty: an int>",
    ]


@pytest.mark.parametrize("kind", ["pre", "exception"])
@pytest.mark.parametrize("answer", ["hunter2tok", ["hunter2tok"], {"hunter2tok": 1}, Unshowable()])
def test_a_refused_answer_is_not_shown(kind: Any, answer: object) -> None:
    @hookable
    def login() -> None:
        raise KeyError

    hooks(login).add(kind, lambda: answer)
    with pytest.raises(HookAnswerError) as caught:
        login()
    assert "hunter2tok" not in str(caught.value) and f"answered {described(answer)}; " in str(caught.value)


UNPRINTABLE = "evil\x1b[31m\nERROR root: \u202eforged\r\x00"


def test_no_name_reaches_a_message_a_log_or_an_explanation_unprintably(caplog: pytest.LogCaptureFixture) -> None:
    """Names of functions and hooks may be any string, and some come from others."""

    def target(x: int) -> int:
        return x

    def hook(x: int) -> None:
        raise ValueError("no")

    target.__qualname__ = target.__name__ = hook.__name__ = hook.__qualname__ = UNPRINTABLE
    target.__module__ = f"mod\n{UNPRINTABLE}"
    hookable(target)
    mount = hooks(target)
    one = mount.add("pre", hook, isolate=True)
    two = mount.add(
        "post", lambda call: seen.append(repr(call)), name=f"other {UNPRINTABLE}", after=UNPRINTABLE, priority=3
    )
    seen: list[str] = []
    target(1)
    with Tape().record(target) as tape:
        target(2)
    texts = [mount.name, repr(mount), one.name, two.name, repr(one), repr(two), *seen, *str(tape).splitlines()]
    texts += [record.getMessage() for record in caplog.records] + mount.explain().splitlines()
    for wrong in (
        lambda: hooks(target).add("pre", lambda nobody: None),
        lambda: hooks(target).add("pre", lambda: None, name=UNPRINTABLE, before=hook, after=hook),
        lambda: hooks(target).remove("nobody"),
        lambda: hooks(target).add("item", lambda: None),
        lambda: event(target),
    ):
        with pytest.raises(AspecthookError) as caught:
            wrong()
        texts.append(str(caught.value))
    assert [text for text in texts if not text.isprintable()] == []
    assert len(seen) == 2 and len(caplog.records) == 2
    assert mount[UNPRINTABLE] is one and UNPRINTABLE in mount
    mount.remove(UNPRINTABLE)
    assert list(mount) == [two]
