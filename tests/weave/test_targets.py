"""Every sort of target: each is intercepted and then left as it was, or refused with what to weave instead."""

from __future__ import annotations

import _json
import builtins
import contextlib
import copy
import gc
import importlib.util
import inspect
import itertools
import json
import math
import operator
import pickle
import sys
import time
import types
import typing
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from aspecthook import Return, WeaveError, hooks, weave
from aspecthook._foreign.proxies import load_proxies

NAME = "woven_shop"
ELSEWHERE = "woven_elsewhere"
# Modules that are not ours, and are woven too: what a failing test leaves there must not reach the next.
FOREIGN = (builtins, time, math, operator, _json, json, json.encoder)

# Python 3.13 says so whenever a partial in a class is read from an instance, woven or not.
pytestmark = pytest.mark.filterwarnings("ignore:functools.partial will be a method descriptor:FutureWarning")

Shop = typing.Any
Act = Callable[[Shop], object]


@pytest.fixture
def shop() -> Iterator[Shop]:
    """Return a fresh copy of the shop, and beside it a module that has copied its names long ago."""
    spec = importlib.util.spec_from_file_location(NAME, Path(__file__).with_name("shop.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    elsewhere = types.ModuleType(ELSEWHERE)
    finders = list(sys.meta_path)
    before = [(one, dict(vars(one))) for one in FOREIGN]
    sys.modules[NAME] = module
    sys.modules[ELSEWHERE] = elsewhere
    try:
        spec.loader.exec_module(module)
        vars(elsewhere).update({key: value for key, value in vars(module).items() if not key.startswith("__")})
        vars(elsewhere).update(slumber=time.sleep, say=print, unlock=open, quote=_json.encode_basestring_ascii)
        yield module
    finally:
        del sys.modules[NAME], sys.modules[ELSEWHERE]
        sys.meta_path[:] = finders
        for one, names in before:
            for key, value in names.items():
                if vars(one).get(key) is not value:
                    setattr(one, key, value)


# How the targets are used


def drained(generator: typing.Any) -> object:
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            return stop.value


def awaited(coroutine: typing.Any) -> object:
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits for something")


def first(generator: typing.Any) -> object:
    return awaited(anext(generator))


def entered(manager: typing.Any) -> object:
    with manager as value:
        return value


@dataclass
class Case:
    """One target: where it is, how it is called, and what it gives then, plain and woven."""

    at: str  # its name in the shop, or a whole pointcut
    call: Act
    gives: object = 6
    itself: Act | None = None  # the target as an object
    woven: object = "woven"
    answer: object = "woven"  # what the post hook makes of the result
    kind: str = "post"  # of the hook that changes what is given; None: nothing can
    refused: str = ""  # a word of the message, where it cannot be woven
    refused_itself: str = ""  # likewise where it is given as an object
    id: str = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.at

    @property
    def pointcut(self) -> str:
        return self.at if ":" in self.at else f"{NAME}:{self.at}"


def named(at: str, call: Act, gives: object = 6, **more: typing.Any) -> Case:
    """Make the row of a target that can also be given as the object that attribute access finds."""
    take = operator.attrgetter(at)
    return Case(at, call, gives, **{"itself": take, **more})


def kept(at: str, call: Act, gives: object = 6, **more: typing.Any) -> Case:
    """Likewise, of one that is given as what the class has in its `vars`."""
    owner, _, name = at.rpartition(".")
    return Case(at, call, gives, **{"itself": lambda s: vars(operator.attrgetter(owner)(s))[name], **more})


CASES = [
    # Python functions
    named("price", lambda s: s.price(2)),
    named("wrapped", lambda s: s.wrapped(2)),
    named("decorated", lambda s: s.decorated(2)),
    named("coroutine", lambda s: awaited(s.coroutine(2))),
    named("plain_generator", lambda s: drained(s.plain_generator(2))),
    named("async_generator", lambda s: first(s.async_generator(2)), kind="item"),
    named("managed", lambda s: entered(s.managed(2)), answer=contextlib.nullcontext("woven")),
    named("dispatched", lambda s: s.dispatched(2)),
    # What has no Python code
    named("thrice", lambda s: s.thrice(2)),
    named("flow", lambda s: first(s.flow(2)), refused="async_generator"),
    named("cached", lambda s: s.cached(2)),
    named("root", lambda s: s.root(36.0), 6.0),
    named("count_code", lambda s: s.count_code("a"), 1),
    Case("math:sqrt", lambda s: (math.sqrt(36.0), s.root(36.0)), (6.0, 6.0), lambda s: math.sqrt, woven=("woven",) * 2),
    Case("builtins:print", lambda s: print(end=""), None, lambda s: print),
    Case("builtins:open", lambda s: open(s.__file__).close(), None, lambda s: open, woven=None, kind="none"),
    Case(
        "_json:encode_basestring_ascii",
        lambda s: (_json.encode_basestring_ascii("é"), json.encoder.encode_basestring_ascii("é")),
        ('"\\u00e9"', '"\\u00e9"'),
        lambda s: _json.encode_basestring_ascii,
        woven=("woven", "woven"),
    ),
    Case(
        "json:dumps", lambda s: (json.dumps([]), s.dumps([])), ("[]", "[]"), lambda s: json.dumps, woven=("woven",) * 2
    ),
    # Callable objects: that one alone
    named("scale", lambda s: (s.scale(2), s.other_scale(2)), (6, 6), woven=("woven", 6)),
    named("narrow", lambda s: s.narrow(2), refused="__weakref__"),
    # Members of a class
    named("Cart.add", lambda s: s.Cart().add(2)),
    named("Cart.free", lambda s: s.Cart().free(2)),
    named("Cart.make", lambda s: (s.Cart.make(2), s.Cart().make(2)), (6, 6), woven=("woven",) * 2),
    kept("Cart.tax", lambda s: (s.Cart.tax(2), s.Cart().tax(2)), (6, 6), woven=("woven",) * 2),
    kept("Cart.value", lambda s: s.Cart().value),
    Case("Cart.value.fget", lambda s: s.Cart().value, itself=lambda s: s.Cart.value.fget),
    Case("Cart.value.fset", lambda s: setattr(s.Cart(), "value", 3), None, lambda s: s.Cart.value.fset, woven=None),
    Case("Cart.value.fdel", lambda s: delattr(s.Cart(), "value"), None, lambda s: s.Cart.value.fdel, woven=None),
    kept("Cart.only_set", lambda s: setattr(s.Cart(), "only_set", 3), None, refused="fget", refused_itself="property"),
    kept("Cart.once", lambda s: s.Cart().once),
    kept("Cart.half", lambda s: s.Cart().half(2), itself=None),
    kept("Cart.loose", lambda s: (s.Cart.loose(2), s.Cart().loose(2)), (6, 6), woven=("woven",) * 2, itself=None),
    kept("Cart.remember", lambda s: s.Cart().remember(2)),
    kept("Cart.on", lambda s: s.Cart().on(2), itself=None),
    named("Cart.Line.cost", lambda s: s.Cart.Line().cost(2)),
    # Dunder methods
    named("Cart.__init__", lambda s: s.Cart(2).n, 2, woven=2, kind="none"),
    named("Cart.__getitem__", lambda s: s.Cart()[2]),
    named("Cart.__iter__", lambda s: list(s.Cart()), [6], woven=["woven"], kind="item"),
    named("Cart.__hash__", lambda s: hash(s.Cart()), answer=7, woven=7),
    named("Cart.__call__", lambda s: s.Cart()(2)),
    named("Cart.__class_getitem__", lambda s: s.Cart[2]),
    kept("Parent.__init_subclass__", lambda s: type("Child", (s.Parent,), {}).__name__, "Child", woven="Child"),
    kept("Made.__new__", lambda s: s.Made(2).n, 2, answer=types.SimpleNamespace(n="woven")),
    Case("Made.__init__", lambda s: s.Made(2).n, 2, woven=2, kind="none"),  # that of object
    # Inherited: on the named class alone
    named("Cart.total", lambda s: (s.Cart().total(2), s.Base().total(2)), (6, 6), woven=("woven", 6), itself=None),
    named("Cart.build", lambda s: (s.Cart.build(2), s.Base.build(2)), (6, 6), woven=("woven", 6)),
    named("Cart.rate", lambda s: (s.Cart.rate(2), s.Base.rate(2)), (6, 6), woven=("woven", 6), itself=None),
    named("Cart.size", lambda s: (s.Cart().size, s.Base().size), (6, 6), woven=("woven", 6), itself=None),
    named(
        "Cart.inherited_cached",
        lambda s: (s.Cart().inherited_cached(2), s.Base().inherited_cached(2)),
        (6, 6),
        woven=("woven", 6),
        itself=None,
    ),
    named("Cart.__len__", lambda s: (len(s.Cart()), len(s.Base())), (6, 6), woven=(7, 6), answer=7, itself=None),
    # Inherited from C types
    Case("Stock.__getitem__", lambda s: s.Stock(a=6)["a"]),
    Case("Stock.get", lambda s: (s.Stock(a=6).get("a"), {"a": 6}.get("a")), (6, 6), woven=("woven", 6)),
    Case("Stock.fromkeys", lambda s: s.Stock.fromkeys("a", 6), {"a": 6}),
    Case("Stock.__init__", lambda s: dict(s.Stock(a=6)), {"a": 6}, woven={"a": 6}, kind="none"),
    Case("Stock.__new__", lambda s: dict(s.Stock(a=6)), {"a": 6}, woven={"a": 6}, kind="none"),
    Case("Stock.__len__", lambda s: len(s.Stock(a=6)), 1, woven=7, answer=7),
    Case("Begun.__new__", lambda s: s.Begun(2).n, 2, kind="none", refused="object"),
    Case("Empty.__init__", lambda s: type(s.Empty()).__name__, "Empty", woven="Empty", kind="none"),
    Case("Empty.__new__", lambda s: type(s.Empty()).__name__, "Empty", kind="none", refused="object"),
    Case("Empty.__hash__", lambda s: hash(s.Empty()) == 7, False, answer=7, woven=True),
    Case("Empty.__getattribute__", lambda s: s.Empty().__doc__, "Has nothing."),
    Case("Colour.name", lambda s: s.Colour.RED.name, "RED"),
    # Slots, named tuples, enums, dataclasses, abstract classes, metaclasses
    kept("Slotted.n", lambda s: s.Slotted().n, refused="read without Python code", itself=None),
    kept("Pair.left", lambda s: s.Pair(6, 0).left, itself=None, refused="read without Python code"),
    named("Pair._asdict", lambda s: s.Pair(6, 0)._asdict(), {"left": 6, "right": 0}),
    named("Colour.shade", lambda s: s.Colour.RED.shade(2)),
    named("Colour._missing_", lambda s: s.Colour(6).name, "RED", woven="RED", kind="none"),
    named("Item.total", lambda s: s.Item().total(2)),
    named("Abstract.total", lambda s: s.Concrete().total(2)),
    named("Meta.register", lambda s: s.Kind.register(2)),
    kept("Meta.label", lambda s: s.Kind.label, "Kind"),
    # What cannot be woven
    Case("RATE", lambda s: s.RATE, 3, lambda s: s.RATE, refused="value, of type int"),
    Case(
        "CODES",
        lambda s: s.CODES,
        ["a", "b"],
        lambda s: s.CODES,
        refused="value, of type list",
        refused_itself="value, of type list",
    ),
    Case("Colour.RED", lambda s: s.Colour.RED.value, 1, refused="Colour"),
    Case("Empty", lambda s: s.Empty, None, lambda s: s.Empty, refused="Empty"),
    Case("builtins:str.upper", lambda s: "a".upper(), "A", lambda s: str.upper, refused="immutable C type str"),
    Case("builtins:int.real", lambda s: (6).real, 6, refused="read without Python code"),
    Case("builtins:isinstance", lambda s: isinstance(6, int), True, lambda s: isinstance, refused="call itself"),
    Case("builtins:len", lambda s: len("abcdef"), 6, lambda s: len, refused="call itself"),
]
ROWS = [pytest.param(case, id=case.id) for case in CASES]
ALONE = [pytest.param(case, id=case.id) for case in CASES if case.itself is not None]


def other(name: str) -> typing.Any:
    return vars(sys.modules[ELSEWHERE])[name]


# What is as before


def outcome(ask: Callable[[], object]) -> tuple[str, object]:
    """Return what comes of a question, or that it has no answer."""
    try:
        return "gives", ask()
    except Exception:
        return "raises", None


FACTS: dict[str, Callable[[typing.Any], object]] = {
    "signature": inspect.signature,
    "pickle": pickle.dumps,
    "copy": lambda f: copy.copy(f) is f,
    "deepcopy": lambda f: copy.deepcopy(f) is f,
    "coroutine function": inspect.iscoroutinefunction,
    "generator function": inspect.isgeneratorfunction,
    "async generator function": inspect.isasyncgenfunction,
    "__class__": lambda f: f.__class__,
    "__name__": lambda f: f.__name__,
    "__qualname__": lambda f: f.__qualname__,
    "__module__": lambda f: f.__module__,
    "__doc__": lambda f: f.__doc__,
    "source": inspect.getsource,
    "abstract": lambda f: getattr(f, "__isabstractmethod__", None),
}


def facts(shop: Shop, case: Case) -> dict[tuple[int, str], tuple[str, object]]:
    """Return all that is known of a target, as it is seen from each side."""
    seen = enumerate(viewed(shop, case))
    return {(side, name): outcome(lambda: ask(one)) for side, one in seen for name, ask in FACTS.items()}


def differing(now: dict[typing.Any, object], before: dict[typing.Any, object]) -> dict[object, object]:
    return {key: (now.get(key), before.get(key)) for key in now | before if now.get(key) != before.get(key)}


def _pieces(value: typing.Any) -> list[tuple[object, ...]]:
    """Take a function apart, or what it is wrapped in."""
    value = inspect.getattr_static(value, "__func__", value)
    if isinstance(value, property):
        return [piece for one in (value.fget, value.fset, value.fdel) if one is not None for piece in _pieces(one)]
    if type(value) is not types.FunctionType:
        return []
    kept = [(key, id(one)) for key, one in vars(value).items()]
    return [(value.__code__, id(value.__code__), id(value.__defaults__), id(value.__kwdefaults__), *kept)]


def portrait(*owners: typing.Any) -> list[tuple[object, ...]]:
    """Return all that some modules, and the classes in the shop, have: in order, and by identity."""
    found: list[tuple[object, ...]] = []
    for owner in owners:
        for key, value in list(vars(owner).items()):
            if key == "__slotnames__":
                continue  # what pickling and copying note in a class
            found.append((owner.__name__, key, id(value), type(value), *_pieces(value)))
            own = isinstance(value, type) and value.__module__ == NAME and owner.__name__ != ELSEWHERE
            if own and value.__qualname__.rpartition(".")[0] in ("", owner.__name__):
                found += portrait(value)
    return found


def everything(shop: Shop) -> list[tuple[object, ...]]:
    return portrait(shop, sys.modules[ELSEWHERE], *FOREIGN)


def viewed(shop: Shop, case: Case) -> list[object]:
    """Return the target as others see it: from the class, from an instance, from its `vars`."""
    module = sys.modules.get(case.pointcut.partition(":")[0], shop)
    *outer, name = case.pointcut.partition(":")[2].split(".")
    owner = module
    for part in outer:
        owner = getattr(owner, part)
    seen = [inspect.getattr_static(owner, name)]
    seen += [value for kind, value in [outcome(lambda: getattr(owner, name))] if kind == "gives"]
    return seen


class Watch:
    """A pair of hooks: one sees the calls, the other changes what they give."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.seen: list[tuple[object, ...]] = []

    def see(self, args: tuple[object, ...]) -> None:
        self.seen.append(args)

    def change(self) -> object:
        return Return(self.case.answer)

    def change_item(self) -> object:
        return self.case.answer

    @property
    def hooks(self) -> dict[str, typing.Any]:
        change = {"post": {"post": self.change}, "item": {"item": self.change_item}, "none": {}}
        return {"pre": self.see, **change[self.case.kind]}


def check_says_what_to_do(error: WeaveError, word: str) -> None:
    message = str(error)
    assert word in message
    why, semicolon, instead = message.rpartition(";")
    assert semicolon and why
    assert any(verb in instead for verb in ("weave", "name", "give", "hook ", "add")), message


def check(shop: Shop, case: Case, target: object, refused: str) -> None:
    """Weave, use, and take off; or see it refused."""
    plain = case.gives
    if not refused and case.kind == "post" and case.answer is not None and case.woven == "woven":
        assert case.woven != plain
    before, looks = everything(shop), facts(shop, case)
    watch = Watch(case)
    if refused:
        with pytest.raises(WeaveError) as caught:
            weave(target, **watch.hooks)
        check_says_what_to_do(caught.value, refused)
    else:
        with weave(target, **watch.hooks) as weaving:
            assert weaving.state == "woven"
            assert case.call(shop) == case.woven
            assert watch.seen, "the pre hook has not seen the call"
            woven = facts(shop, case)
        # Inherited and pickled by a name, that of the base: what is woven is not what has that name.
        renamed = case.at in ("Cart.rate", "Cart.inherited_cached")
        assert not {key for key in differing(woven, looks) if not (renamed and key[1] == "pickle")}, "while woven"
        assert weaving.state == "removed"
    assert [one for one in itertools.zip_longest(everything(shop), before) if one[0] != one[1]] == []
    assert not differing(facts(shop, case), looks), "after removal"
    seen = len(watch.seen)
    if case.gives is not None:
        assert case.call(shop) == plain
    else:
        case.call(shop)
    assert len(watch.seen) == seen, "a hook that was removed has run"


@pytest.mark.parametrize("case", ROWS)
def test_a_pointcut_intercepts_its_target_and_leaves_no_trace_or_says_what_to_weave(shop: Shop, case: Case) -> None:
    check(shop, case, case.pointcut, case.refused)


@pytest.mark.parametrize("case", ALONE)
def test_a_target_given_itself_is_intercepted_and_left_without_trace_or_refused(shop: Shop, case: Case) -> None:
    assert case.itself is not None
    check(shop, case, case.itself(shop), case.refused_itself or case.refused)


# One instance, one class, one module


def test_a_bound_method_is_woven_for_its_instance_alone(shop: Shop) -> None:
    one, two = shop.Cart(), shop.Cart()
    before = everything(shop)
    with weave(one.add, post=lambda: "woven"):
        assert (one.add(2), two.add(2), shop.Cart.add(one, 2), shop.Cart.add(two, 2)) == ("woven", 6, "woven", 6)
    assert (one.add(2), two.add(2)) == (6, 6)
    assert vars(one) == {"n": 2}
    assert everything(shop) == before


def test_an_instance_that_dies_while_woven_leaves_nothing_behind(shop: Shop) -> None:
    before = everything(shop)
    one = shop.Cart()
    gone = weakref.ref(one)
    weaving = weave(one.add, post=lambda: "woven")
    del one
    gc.collect()
    assert gone() is None
    assert weaving.mounts == () or all(len(mount) == 0 for mount in weaving.mounts)
    assert shop.Cart().add(2) == 6
    weaving.remove()
    assert everything(shop) == before


def test_a_method_of_an_instance_that_cannot_be_referred_to_weakly_is_refused(shop: Shop) -> None:
    before = everything(shop)
    with pytest.raises(WeaveError) as caught:
        weave(shop.Frozen().total, post=lambda: "woven")
    check_says_what_to_do(caught.value, "__weakref__")
    assert everything(shop) == before


def test_a_class_stands_for_its_own_public_methods(shop: Shop) -> None:
    before = everything(shop)
    for target in (shop.Base, f"{NAME}:Base"):
        seen: list[str] = []
        with weave(target, pre=lambda call: seen.append(call.function.__name__.rpartition(".")[2])):
            base = shop.Base()
            assert (base.total(2), shop.Base.build(2), shop.Base.rate(2), base.size, base.weight) == (6,) * 5
            assert (base.inherited_cached(2), len(base)) == (6, 6)
        assert seen == ["total", "build", "rate", "size", "weight", "inherited_cached"]
        assert everything(shop) == before


def test_a_module_stands_for_its_own_public_functions(shop: Shop) -> None:
    before = everything(shop)
    for target in (shop, f"{NAME}:*"):
        with weave(target, post=lambda: "woven", where=lambda f: getattr(f, "__module__", None) == NAME):
            assert (shop.price(2), shop.hidden(2), shop.cached(2), shop.dumps([])) == ("woven", "woven", "woven", "[]")
            assert shop.root(36.0) == 6.0
            in_class = shop.Base().total(2)
            assert in_class == (6 if target is shop else "woven")
        assert everything(shop) == before


def test_one_hook_is_run_once_where_a_static_method_and_its_heir_are_both_named(shop: Shop) -> None:
    seen: list[object] = []
    with weave(f"{NAME}:Base.rate,{NAME}:Cart.rate", pre=lambda: seen.append(1)):
        shop.Cart.rate(2)
    assert seen == [1]


def test_a_call_of_what_has_no_python_code_knows_the_name_of_its_function(shop: Shop) -> None:
    for at, use in (
        ("cached", lambda: shop.cached(2)),
        ("Base.inherited_cached", lambda: shop.Base().inherited_cached(2)),
    ):
        seen: list[object] = []
        with weave(f"{NAME}:{at}", pre=lambda call: seen.append((call.function.__name__, call.function.__qualname__))):
            use()
        assert seen == [(at.rpartition(".")[2], at)]


# C functions


def test_every_module_level_alias_of_a_c_function_is_woven_and_restored(shop: Shop) -> None:
    plain, elsewhere = time.sleep, sys.modules[ELSEWHERE]
    with weave("time:sleep", pre=lambda: Return("woven")):
        assert (time.sleep(9), shop.pause(9), elsewhere.slumber(9), elsewhere.pause(9)) == ("woven",) * 4
        assert hooks(time.sleep) is hooks(shop.pause)
        assert len(hooks(time.sleep)) == 1
    assert time.sleep is shop.pause is elsewhere.slumber is elsewhere.pause is plain


def test_each_alias_is_woven_also_where_many_c_functions_are_woven_at_once(shop: Shop) -> None:
    # For the fourth function that is looked for, all modules are searched once.
    names = ("sqrt", "floor", "ceil", "exp", "cos", "sin")
    plain = {name: getattr(math, name) for name in names}
    vars(shop).update({f"my_{name}": function for name, function in plain.items()})
    with weave(", ".join(f"math:{name}" for name in names), pre=lambda: Return("woven")):
        assert {vars(shop)[f"my_{name}"](1) for name in names} == {"woven"}
    assert all(vars(shop).pop(f"my_{name}") is function is getattr(math, name) for name, function in plain.items())


@pytest.mark.parametrize(
    ("acts", "state"),
    [
        ("theirs pause", "displaced"),
        ("theirs pause pause", "displaced"),
        ("theirs clear pause", "displaced"),
        ("pause theirs resume", "displaced"),
        ("pause theirs resume clear", "displaced"),
        ("clear theirs remove", "removed"),
    ],
)
def test_whoever_takes_the_place_of_a_proxy_while_it_has_hooks_displaces_it(shop: Shop, acts: str, state: str) -> None:
    # Each change of paused hooks opens the place for a moment, which forgot who had taken it.
    space = vars(shop)
    space["root"] = math.sqrt
    weaving = weave(f"{shop.__name__}:root", always=lambda: None)
    mount = hooks(space["root"])
    for act in acts.split():
        if act == "theirs":
            space["root"] = math.cos
        else:
            getattr(mount if act == "clear" else weaving, act)()
    assert weaving.state == state
    weaving.remove()
    assert space.pop("root") is math.cos


def test_a_c_function_woven_by_an_alias_is_not_displaced_when_the_alias_is_gone(shop: Shop) -> None:
    by_alias = weave(f"{NAME}:pause", pre=lambda: Return("woven"))
    by_alias.remove()
    del shop.pause
    with weave("time:sleep", pre=lambda: Return("woven")) as weaving:
        assert weaving.state == "woven"
        del sys.modules[ELSEWHERE].pause
        assert weaving.state == "woven"
    assert weaving.state == "removed"
    assert by_alias.state == "removed"


SHAPES: list[Callable[..., object]] = [
    lambda n, by=3, to=None, *, key=None: None,
    lambda n, by=3, to=None, /: None,
    lambda n=1, by=3, /, to=None: None,
    lambda n=1, /, *rest, key=None: None,
    lambda n, by=3, *rest, **more: None,
    lambda *rest, key, to=None: None,
    lambda n, /, key=None, *, to, _given=4: None,
]


def like_c(function: Callable[..., object], shape: Callable[..., object] = SHAPES[0]) -> Callable[..., object]:
    """Make what stands for a C function: without Python code, with a signature, and it minds how it is called."""
    made = partial(function)
    vars(made)["__signature__"] = inspect.signature(shape)
    return made


def calls_of(shape: Callable[..., object]) -> Iterator[tuple[tuple[object, ...], dict[str, object]]]:
    """Yield calls that fit a signature: each argument by place and by name, as its default and as another object."""
    parameters = inspect.signature(shape).parameters.values()
    usual = {one.name: one.default for one in parameters if one.default is not one.empty}
    defaults = list(usual.values())
    for count in range(4):
        for args in itertools.product((object(), *defaults), repeat=count):
            for names in itertools.chain.from_iterable(itertools.permutations(("n", "key", "to"), k) for k in range(3)):
                for kwargs in (dict.fromkeys(names, object()), {name: usual.get(name) for name in names}):
                    try:
                        shape(*args, **kwargs)
                    except TypeError:
                        continue
                    yield args, kwargs


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(inspect.signature(shape)))
def test_a_c_function_of_any_signature_is_called_just_as_the_caller_called_it(
    shop: Shop, shape: Callable[..., object]
) -> None:
    shop.minds = like_c(lambda *args, **kwargs: (args, list(kwargs.items())), shape)
    calls = list(calls_of(shape))
    assert len(calls) > 10
    inner: list[object] = []

    def calls_it_too(proceed: Callable[[], object]) -> object:
        if not inner:
            inner.append(None)
            inner[:] = [(shop.minds(*args, **kwargs), args, kwargs) for args, kwargs in calls[::7]]
        return proceed()

    with weave(f"{NAME}:minds", pre=lambda: None):
        kept: Callable[..., object] = shop.minds
        for args, kwargs in calls:
            assert shop.minds(*args, **kwargs) == (args, list(kwargs.items()))
    for args, kwargs in calls[::7]:
        assert kept(*args, **kwargs) == (args, list(kwargs.items()))  # its hook is gone
    with weave(f"{NAME}:minds", around=calls_it_too):
        for args, kwargs in calls[::7]:
            inner.clear()
            assert shop.minds(*args, **kwargs) == (args, list(kwargs.items()))
            assert inner == [((args, list(kwargs.items())), args, kwargs) for args, kwargs in calls[::7]]


def test_a_wrong_call_of_a_c_function_is_refused_by_the_function_itself(shop: Shop) -> None:
    shop.copysign = math.copysign
    with weave(f"{NAME}:copysign", pre=lambda: None):
        for args, kwargs in (((), {}), ((1, 2, 3, 4), {}), ((1,), {"n": 2}), ((1,), {"other": 2})):
            with pytest.raises(TypeError, match="copysign"):
                shop.copysign(*args, **kwargs)
    shop.crc32 = zlib.crc32
    with weave(f"{NAME}:crc32", pre=lambda data: None):
        assert shop.crc32(b"tea") == zlib.crc32(b"tea")
        with pytest.raises(TypeError, match="this call has no such argument"):
            shop.crc32()


def test_proxies_are_known_if_somebody_has_dropped_their_module(monkeypatch: pytest.MonkeyPatch) -> None:
    # pytester drops modules that were first imported in its run; a second import made other classes of proxies.
    load_proxies()
    monkeypatch.delitem(sys.modules, "aspecthook._foreign.proxy", raising=False)
    with weave("zlib:adler32", pre=lambda: None), weave("zlib:adler32", post=lambda: None):
        assert len(hooks(zlib.adler32)) == 2
    assert type(zlib.adler32) is type(zlib.crc32)
