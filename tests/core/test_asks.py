"""Law 3: a hook is given what it asks for, by name; what it cannot be given is refused when it is added."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import (
    Args,
    Call,
    HookAnswerError,
    HookSignatureError,
    HookWarning,
    MountError,
    Return,
    event,
    hookable,
    hooks,
    weave,
)
from aspecthook._core.law.order import Chain
from tests.oracle import law as _law
from tests.properties.signatures import signatures

KINDS = ("pre", "around", "item", "exception", "post", "always")
RESERVED = {  # the kinds in which a reserved word can be asked for
    "call": KINDS,
    "args": KINDS,
    "kwargs": KINDS,
    "result": ("post", "always"),
    "exc": ("exception", "always"),
    "proceed": ("around",),
    "item": ("item",),
}


class Shop:
    """The mount point `shop:price`, and one of a generator; `seen` is what hooks note."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

        @hookable(name="shop:price")
        def price(item: object, qty: int = 1, /, *rest: int, rate: float = 1.0, **extra: object) -> object:
            if qty < 0:
                raise ValueError(qty)
            return qty * rate

        @hookable(name="shop:prices")
        def prices(item: object, qty: int = 1, /, *rest: int, rate: float = 1.0, **extra: object) -> Any:
            yield qty * rate

        self.price, self.prices = price, prices

    def run(self, kind: str, hook: Callable[..., Any]) -> Any:
        """Add a hook of a kind, and call the target so that hooks of this kind run: it gives 2.0 or fails."""
        f = self.prices if kind == "item" else self.price
        hooks(f).add(kind, hook)  # type: ignore[arg-type]
        if kind == "exception":
            with pytest.raises(ValueError, match="-1"):
                f("tea", -1, 7, rate=2.0, colour="green")
            return None
        made = f("tea", 1, 7, rate=2.0, colour="green")
        return list(made) if kind == "item" else made

    def note(self, **seen: object) -> None:
        self.seen.append(seen)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def asking(shop: Shop, parameters: str, kind: str) -> Any:
    """Write a hook that notes what its parameters were given."""
    names = [part.strip("*/ ").partition("=")[0] for part in parameters.split(",")]
    given = ", ".join(f"{name}={name}" for name in names if name)
    after = "; return proceed()" if "proceed" in names else ""
    if kind == "around" and "proceed" not in names:
        parameters, after = f"proceed, {parameters}", "; return proceed()"
    space = {"note": shop.note}
    exec(f"def hook({parameters}):\n    note({given}){after}", space)
    return space["hook"]


# The parameters of the target


def test_a_hook_sees_what_earlier_pre_hooks_have_replaced(shop: Shop) -> None:
    shop.price.pre(lambda: Args(qty=5, rest=(8, 9), colour="red"))
    shop.run("post", asking(shop, "qty, rest, extra, args, kwargs", "post"))
    new = dict(rate=2.0, colour="red")
    assert shop.seen == [dict(qty=5, rest=(8, 9), extra={"colour": "red"}, args=("tea", 5, 8, 9), kwargs=new)]


# The reserved words


@pytest.mark.parametrize("kind", KINDS)
def test_call_is_the_call(shop: Shop, kind: str) -> None:
    def look(call: Call) -> None:
        shop.note(
            function=call.function,
            arguments=dict(call.arguments),
            args=call.args,
            kwargs=call.kwargs,
            state=dict(call.state),
        )

    def around(proceed: Any, call: Call) -> Any:
        look(call)
        return proceed()

    f = shop.prices if kind == "item" else shop.price
    f.pre(lambda call: call.state.update(started=3))
    shop.run(kind, around if kind == "around" else look)
    qty = -1 if kind == "exception" else 1
    assert shop.seen == [
        dict(
            function=f,
            arguments=dict(item="tea", qty=qty, rate=2.0, rest=(7,), extra={"colour": "green"}),
            args=("tea", qty, 7),
            kwargs=dict(rate=2.0, colour="green"),
            state=dict(started=3),
        )
    ]


# Defaults, *args and **kwargs, positional-only


@pytest.mark.parametrize(
    ("takes", "given"),
    [
        ("item", 1),
        ("self, item", 2),
        ("item, qty", {"item": 1, "qty": 2}),
        ("*items", {"items": (1,)}),
        ("item, *more", {"item": 1, "more": (2,)}),
        ("item, **more", {"item": 1, "more": {}}),
        ("*, item", 1),
    ],
)
def test_a_subscriber_that_takes_anything_is_given_the_one_argument_of_its_event(takes: str, given: object) -> None:
    space, seen = dict[str, Any](), list[object]()
    exec(f"def sold({takes}): ...", space)
    sold = event(space["sold"])
    sold.on(seen.append)
    sold(item=1) if takes == "*, item" else sold(*[1, 2][: 1 + (", " in takes and "**" not in takes)])
    assert seen == [given]


def test_a_second_positional_only_parameter_without_default_is_refused(shop: Shop) -> None:
    with pytest.raises(HookSignatureError, match="'second', but only one is given"):
        shop.run("post", lambda it, second, /: None)


# Callables of every sort


class Counter:
    """A hook that is a method, an object or a class."""

    def __init__(self, qty: int) -> None:
        self.qty = qty

    def method(self, qty: int) -> Return[object]:
        return Return(("method", self.qty, qty))

    def __call__(self, rate: float) -> Return[object]:
        return Return(("called", self.qty, rate))

    def open(*args: object, rate: float) -> Return[object]:
        return Return((*args[1:], rate))

    @classmethod
    def from_class(cls, rate: float) -> Return[object]:
        return Return((cls.__name__, rate))


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Any:
        return function(*args, **kwargs)

    return wrapper


@hookable
def itself_hookable(rate: float) -> Return[object]:
    return Return(("inner", rate))


HOOKS: dict[str, tuple[Callable[..., Any], object]] = {
    "lambda": (lambda qty: Return(-qty), -1),
    "lambda without parameters": (lambda: Return("none"), "none"),
    "bound method": (Counter(5).method, ("method", 5, 1)),
    "bound method with its object among the rest": (Counter(5).open, ("tea", 1, 7, 2.0)),
    "bound classmethod": (Counter.from_class, ("Counter", 2.0)),
    "staticmethod": (staticmethod(lambda rate: Return(-rate)), -2.0),
    "callable object": (Counter(5), ("called", 5, 2.0)),
    "partial": (partial(lambda a, rate: Return((a, rate)), 3), (3, 2.0)),
    "partial by keyword": (partial(lambda rate, *, a: Return((a, rate)), a=3), (3, 2.0)),
    "partial of a bound method": (partial(Counter(5).method), ("method", 5, 1)),
    "wrapped": (logged(lambda rate: Return(-rate)), -2.0),
    "wrapped twice": (logged(logged(lambda rate: Return(-rate))), -2.0),
    "hookable": (itself_hookable, ("inner", 2.0)),
}


@pytest.mark.parametrize("sort", HOOKS)
def test_a_callable_of_any_sort_is_given_what_its_parameters_ask_for(shop: Shop, sort: str) -> None:
    hook, result = HOOKS[sort]
    assert shop.run("pre", hook) == result


# Refusals


def test_a_method_of_a_class_in_place_of_one_of_an_object_is_refused_with_advice(shop: Shop) -> None:
    class Audit:
        def note(self, qty: int) -> None: ...

    with pytest.raises(HookSignatureError, match="asks for 'self', .* kwargs; add the method of an object, such as"):
        shop.price.pre(Audit.note)


@pytest.mark.parametrize(
    ("hook", "advice"),
    [
        (lambda result: result, r"; write result = proceed\(\) or, in a generator, result = yield$"),
        (lambda exc: exc, r"; write try and except around proceed\(\) or, in a generator, around the yield$"),
    ],
)
def test_an_around_hook_that_asks_for_the_outcome_is_told_where_it_has_it(shop: Shop, hook: Any, advice: str) -> None:
    with pytest.raises(HookSignatureError, match=f"and this is an around hook{advice}"):
        shop.price.around(hook)


@pytest.mark.parametrize("word", ["result", "exc", "proceed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_reserved_word_of_other_kinds_is_refused_with_their_names(kind: Any, word: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def target({word}): yield\ndef hook({word}): pass", space)
    mount = hooks(hookable(space["target"]))
    message = rf"'{word}', which only {' and '.join(RESERVED[word])} .* of that name is call\.arguments\['{word}'\]"
    if kind not in RESERVED[word]:
        with pytest.raises(HookSignatureError, match=f"asks for {message}"):
            mount.add(kind, space["hook"])
        assert len(mount) == 0


def test_a_keyword_only_parameter_may_have_any_name_that_python_allows() -> None:
    # The name cannot be written into source (the compiler would normalise it), and so the hook was refused.
    space: dict[str, Any] = {"Args": Args}
    exec("def area(größe): return größe\ndef clamp(*, größe): return Args(größe=max(größe, 1))", space)
    hookable(space["area"]).pre(space["clamp"])
    assert space["area"](0) == 1


def test_a_c_function_as_a_hook_leaves_nothing_in_its_module() -> None:
    # To read its text signature, `inspect` evaluates the defaults in the module, which leaves `__builtins__` there.
    import zlib

    vars(zlib).pop("__builtins__", None)

    @hookable
    def pack(text: bytes) -> bytes:
        return text

    pack.post(zlib.compress)
    assert zlib.decompress(pack(b"tea")) == b"tea"
    assert "__builtins__" not in vars(zlib)


# What a method provides


class Trainer:
    epoch = 3

    class model:
        name = "net"

    @hookable(provides={"trainer": "", "epoch": "epoch", "name": "model.name"})
    def step(self, batch: int) -> int:
        self.epoch += 1
        return batch


def test_hooks_ask_for_what_a_method_provides() -> None:
    trainer, seen = Trainer(), list[Any]()
    mount = hooks(trainer.step)
    mount.add("pre", lambda trainer, epoch, name: seen.append((trainer, epoch, name)))
    mount.add("pre", lambda: Args(batch=7), when=lambda epoch: epoch == 3)
    mount.add("around", lambda proceed, epoch: proceed() + epoch)
    mount.add("post", lambda result, epoch, *, call: seen.append((result, epoch)))
    mount.add("always", lambda trainer, epoch, name, exc: seen.append((trainer, epoch, name, exc)))
    assert trainer.step(1) == 10
    assert seen == [(trainer, 3, "net"), (10, 4), (trainer, 4, "net", None)]
    mount.add("always", lambda: 1 // 0, priority=0)  # what comes behind it is interpreted
    with pytest.raises(ZeroDivisionError) as caught:
        trainer.step(1)
    assert seen[3:] == [(trainer, 4, "net"), (5, 5), (trainer, 5, "net", caught.value)]


def test_a_method_that_is_woven_already_may_provide() -> None:
    class Woven:
        epoch = 3

        def step(self, batch: int) -> int:
            return batch

    seen: list[int] = []
    with weave(Woven.step, pre=lambda: None):
        hookable(provides="epoch")(Woven.step)
        hooks(Woven.step).add("pre", lambda epoch: seen.append(epoch))
        assert Woven().step(1) == 1
    hooks(Woven.step).add("post", lambda epoch: seen.append(epoch))
    assert Woven().step(1) == 1 and seen == [3, 3, 3]


def test_parameter_outranks_provided_attribute_and_default_does_not() -> None:
    class Shadowed:
        batch, size = "provided", "provided"

        @hookable(provides=["batch", "size"])
        def step(self, batch: str) -> None: ...

    shadowed, seen = Shadowed(), list[Any]()
    hooks(shadowed.step).add("pre", lambda batch, size="kept": seen.append((batch, size)))
    shadowed.step("given")
    assert seen == [("given", "provided")]


@pytest.mark.parametrize(
    "provides", [{"a b": "x"}, {"x": "a-b"}, {"x": "a;b"}, ["call"], ["result"], "3", {"": "x"}, {"class": "x"}]
)
def test_names_that_hooks_could_not_ask_for_cannot_be_provided(provides: Any) -> None:
    def step(self: object) -> None: ...

    with pytest.raises(MountError, match="cannot provide .*; give identifiers that are not reserved words"):
        hookable(provides=provides)(step)
    with pytest.raises(MountError, match="no first argument"):
        hookable(provides="x")(lambda: None)
    assert not vars(step)


# What a wrapper shows


def plainly(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def with_self(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(first: Any, *args: Any, **kwargs: Any) -> Any:
        return function(first, *args, **kwargs)

    return wrapper


def by_position_alone(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def with_hidden_parameters(function: Any) -> Any:  # as beartype makes them
    @functools.wraps(function)
    def wrapper(*args: Any, __hidden: Any = len, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def with_one_of_its_own(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, gift: bool = False, **kwargs: Any) -> Any:
        return function(*args, gift=gift, **kwargs)

    return wrapper


def with_a_signature(function: Any) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return wrapper


WRAPPERS = [plainly, with_self, with_hidden_parameters, with_one_of_its_own, with_a_signature]
WRAPPERS += [lambda function: plainly(plainly(function))]


def test_a_wrapper_of_a_function_without_parameters_shows_none() -> None:
    seen: list[Any] = []
    closed = hookable(plainly(lambda: 0))
    closed.pre(lambda call: seen.append(dict(call.arguments)))
    closed()
    assert seen == [{}]


def sold(item: str, qty: int = 1, *, gift: bool = False) -> tuple[str, int, bool]:
    return item, qty, gift


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("tea",), {}),
        (("tea", 2), {}),
        (("tea",), {"qty": 2}),
        ((), {"item": "tea", "gift": True}),
        (("tea", 2), {"gift": True}),
    ],
    ids=str,
)
def test_hooks_of_a_wrapper_are_given_what_it_shows(wrap: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    # It offered `args` and `kwargs` alone.
    if wrap is with_self and not args:
        pytest.skip("its own parameter has another name")
    seen: list[Any] = []
    sell = hookable(wrap(sold))
    sell.pre(lambda qty, item, gift: seen.append((item, qty, gift)))
    sell.pre(lambda *, gift, qty=7, nothing="kept": seen.append((qty, gift, nothing)))
    sell.pre(lambda call: seen.append(dict(call.arguments)))
    sell.pre(seen.append)
    sell.around(lambda proceed, item: proceed(item=item + "!"), when=lambda item: bool(item))
    sell.post(lambda result, qty: seen.append((result, qty)))
    expected = sold(*args, **kwargs)
    result = ("tea!", *expected[1:])
    assert sell(*args, **kwargs) == result
    arguments = dict(zip(("item", "qty", "gift"), expected, strict=True))
    assert seen == [expected, (*expected[1:], "kept"), arguments, arguments, (result, expected[1])]
    hooks(sell).clear()
    assert sell(*args, **kwargs) == expected
    sell.pre(lambda item: seen.append(item))  # the second time, `hooks` has left its traces
    sell(*args, **kwargs)
    assert seen[-1] == "tea"


@given(signatures(), st.data())
def test_a_hook_of_a_wrapper_is_given_what_one_of_the_function_in_it_is_given(
    drawn: tuple[str, list[str], list[int], dict[str, int]], data: st.DataObject
) -> None:
    text, names, args, kwargs = drawn
    asked = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    default = data.draw(st.sampled_from(["", "='kept'"]))
    changes = {name: {"rest": (98, 99), "extra": {"yy": 98}}.get(name, 99) for name in names}
    changed = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=2)) if names else []
    outcomes = []
    for wrap in (lambda function: function, plainly, with_hidden_parameters):
        seen: list[Any] = []
        space: dict[str, Any] = {"seen": seen}
        exec(f"def target({text}): return {', '.join([*names, 'None'])}", space)
        parameters = ", ".join(name + default for name in asked)
        exec(f"def hook({parameters}): seen.append(({', '.join([*asked, 'None'])}))", space)
        target = hookable(wrap(space["target"]))
        hooks(target).pre(space["hook"])
        hooks(target).pre(lambda: Args(**{name: changes[name] for name in changed}))
        hooks(target).post(space["hook"], again=True)
        seen.append(target(*args, **kwargs))
        real = hooks(target)
        original = real.place.original  # type: ignore[union-attr]
        site = real.site()
        bound = inspect.signature(original, follow_wrapped=False).bind(*args, **kwargs)
        bound.apply_defaults()
        values = tuple(bound.arguments[name] for name in site.signature.names)
        seen.append(_law.run(Chain(tuple(real)), Call(site, values), original))
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][:3] == outcomes[0][3:]


def test_a_wrapper_that_takes_other_arguments_than_it_shows_runs_as_ever() -> None:
    # `mock.patch` adds an argument to the call.
    @mock.patch("math.sqrt")
    def root(n: int, sqrt: Any = None) -> Any:
        return n, sqrt is math.sqrt

    @functools.wraps(sold)
    def shows_more(*args: Any) -> Any:
        return args

    target, seen = hookable(root), []
    target.pre(lambda n, sqrt="mine": seen.append((n, sqrt)))
    assert target(4) == (4, True)
    assert seen == [(4, None)]
    other = hookable(shows_more)
    other.pre(lambda qty=0: seen.append(qty))
    other.pre(lambda item="mine", gift=None: seen.append((item, gift)))
    other.always(lambda call: seen.append(dict(call.arguments)))
    assert other() == () and other(1, 2, 3) == (1, 2, 3)
    assert seen[1:] == [1, ("mine", False), {"qty": 1, "gift": False}, 2, (1, False), {"args": (1, 2, 3)}]


def test_a_hook_that_must_have_what_a_call_of_a_wrapper_does_not_have_fails_with_a_word() -> None:
    @functools.wraps(sold)
    def wrapper(*args: Any) -> Any:
        return args

    target = hookable(wrapper, name="shop:sold")
    target.pre(lambda item: None, name="looks")
    assert target("tea") == ("tea",)
    message = (
        r"^shop:sold: pre hook 'looks' \(.*\) asks for 'item', which shop:sold shows as a parameter, but this call has"
    )
    with pytest.raises(HookSignatureError, match=message):
        target()


@pytest.mark.parametrize(
    ("wrap", "changes", "args"),
    [
        (by_position_alone, {"gift": True}, ("tea",)),
        (by_position_alone, {"rest": 3}, ("tea",)),
        (by_position_alone, {"extra": {"wrap": True}}, ("tea",)),
        (plainly, {"extra": 3}, ("tea",)),
        (plainly, {"rest": 3}, ("tea",)),
        (plainly, {"rest": (3,)}, ()),  # the parameter before it has no argument
    ],
    ids=lambda case: getattr(case, "__name__", str(case)),
)
def test_an_argument_that_a_wrapper_has_no_place_for_is_refused(wrap: Any, changes: Any, args: Any) -> None:
    def many(item: str, *rest: int, gift: bool = False, **extra: bool) -> None: ...

    target = hookable(wrap(many), name="shop:many")
    target.pre(lambda: Args(**changes))
    with pytest.raises(
        HookAnswerError,
        match=f"^shop:many: .* replaces the argument '{next(iter(changes))}', which this call has no place for",
    ):
        target(*args)


def test_a_wrapper_whose_signature_cannot_be_read_offers_its_own_parameters() -> None:
    def wrapper(*args: Any) -> Any:
        return args

    wrapper.__signature__ = "nonsense"  # type: ignore[attr-defined]
    target = hookable(wrapper, name="shop:sold")
    with pytest.raises(HookSignatureError, match="asks for 'item', but shop:sold offers args; "):
        target.pre(lambda item: None)
    target.pre(lambda args: Args(args=(*args, 2)))
    assert target(1) == (1, 2)


# Reserved words that are parameters too


@pytest.mark.parametrize(
    ("kind", "word", "given"),
    [
        ("post", "result", "the result of the call"),
        ("exception", "exc", "the exception"),
        ("pre", "call", "the call object"),
        ("pre", "args", "the positional arguments"),
        ("always", "kwargs", "the keyword arguments"),
        ("around", "proceed", "the function that runs the call"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda function: function, plainly])
def test_a_reserved_word_that_the_target_has_a_parameter_called_like_is_warned_of(
    wrap: Any, kind: Any, word: str, given: str
) -> None:
    # Which of the two it was given was said nowhere.
    space: dict[str, Any] = {}
    exec(f"def target({word}): return {word}", space)
    exec(f"def hook({word}): return None", space)
    target = hookable(wrap(space["target"]), name="shop:price")
    says = [
        f"shop:price: {kind} hook 'hook' (<string>:1){its} asks for '{word}' and is given {given}; shop:price has a "
        f"parameter called '{word}' too, which is call.arguments['{word}']"
        for its in ("", ": its `when`")
    ]
    options = {} if kind == "around" else {"when": space["hook"]}
    with pytest.warns(HookWarning) as caught:
        hooks(target).add(kind, space["hook"], **options)
    assert [str(one.message) for one in caught] == says[: 1 + len(options)]
    assert {one.filename for one in caught} == {__file__}


@pytest.mark.parametrize("lead", ["", "self, "])
@pytest.mark.parametrize("default", ["", "=None"])
def test_what_a_wrapper_shows_is_found_by_position_without_a_search(lead: str, default: str) -> None:
    space: dict[str, Any] = {"wraps": wraps}
    exec(
        "def inner(self, width, height=2): return width\n"
        f"@wraps(inner)\ndef wrapper({lead}*args, **kwargs): return inner({lead}*args, **kwargs)\n"
        f"def hook(self{default}, width{default}, height{default}): seen.append((self, width, height))\n",
        space,
    )
    seen = space["seen"] = []
    mount = hooks(hookable(space["wrapper"]))
    mount.add("pre", space["hook"])
    space["wrapper"](0, 1, 3)
    space["wrapper"](0, 1)
    space["wrapper"](0, height=4, width=1)
    assert seen == [(0, 1, 3), (0, 1, 2), (0, 1, 4)]
    place = 0 if lead else 1
    assert f"args[{place}]" in mount.explain()
    test = f"len(args) > {place}" if place else "args"
    assert f"if {test} else" in mount.explain()
