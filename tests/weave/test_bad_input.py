"""What cannot be woven is refused: the message says which target, what is wrong and what to do, and nothing stays."""

from __future__ import annotations

import datetime
import functools
import importlib
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import pytest

import aspecthook
from aspecthook import AspecthookError, HookOptionError, HookTypeError, Return, WeaveError, Weaving, pre, weave
from tests.tracebacks import shown_frames

SHOP = """
    from functools import partial, lru_cache
    def a(n): return n
    def b(n): return n
    seven = partial(int, "7")
    @lru_cache
    def c(n): return n
    def d(n): return n
    def other(m): return m
    value = 5
    class Base:
        @staticmethod
        def fee(n): return n
        def inherited(self, n): return n
    class Till(Base):
        rate = 3
        def total(self, n): return n
        @classmethod
        def make(cls, n): return n
        @property
        def open(self): return 1
        def odd(self, m): return m
    class Call:
        def __call__(self, n): return n
    call = Call()
    async def fetch(n): return n
"""
# What a message may tell to do.
ADVICE = re.compile(
    r"weave[ (]|write |give |call it|is for |make |name |did you mean|as in|only |takes |remove |take |help\("
)


def ten(result: int) -> int:
    return result * 10


def no(n: int) -> None:
    """Ask for what `other` and `odd` do not have."""


Snapshot = dict[str, object]


def state_of(space: types.ModuleType) -> Snapshot:
    """Return all that a weaving could leave a trace in, by identity."""
    found: Snapshot = {"meta_path": [id(finder) for finder in sys.meta_path]}
    for owner in (space, space.Base, space.Till, space.Call):
        for name, value in vars(owner).items():
            where = f"{owner.__name__}.{name}"
            function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
            code = getattr(function, "__code__", None)
            inner = (id(vars(function)), dict(vars(function))) if isinstance(function, types.FunctionType) else None
            found[where] = (id(value), type(value), id(code), inner)
    found["call"] = (type(space.call), dict(vars(space.call)))
    return found


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with some of everything, on which nothing may stay."""
    made: Any = types.ModuleType("ahw_shop")
    exec(textwrap.dedent(SHOP), vars(made))
    monkeypatch.setitem(sys.modules, "ahw_shop", made)
    before = state_of(made)
    yield made
    assert state_of(made) == before


@pytest.fixture
def finders() -> Iterator[None]:
    """Whatever happens, the finders are put back; a test that lets ours stay fails."""
    meta_path, before = sys.meta_path, list(sys.meta_path)
    try:
        yield
        assert sys.meta_path == before
    finally:
        sys.meta_path = meta_path
        sys.meta_path[:] = before


pytestmark = pytest.mark.usefixtures("finders")


def check_refused(
    target: object, given: dict[str, Any], *parts: str, error: type[AspecthookError] = WeaveError
) -> None:
    """Weave, and look at the message with which it is refused; it has these parts, in this order, and advice."""
    made: list[Weaving] = []
    try:
        with pytest.raises(error) as caught:
            made.append(weave(target, **given))
    finally:
        for weaving in made:
            weaving.remove()
    assert shown_frames(caught.value) == []
    message = str(caught.value)
    places = [message.find(part) for part in parts]
    assert -1 not in places and places == sorted(places), message
    assert ADVICE.search(message) and "\n" not in message, message


POINTCUTS: list[tuple[str, tuple[str, ...]]] = [
    *(
        (text, (repr(text), "is empty, or empty between commas; write 'module:name'"))
        for text in ("", " ", ",", "!", "! ", "ahw_shop:a,,")
    ),
    ("ahw_shop", ("'ahw_shop' has no colon; for the functions of a module write 'ahw_shop:*'",)),
    ("ahw_shop.a", ("'ahw_shop.a' has no colon; write 'ahw_shop:a' (or 'ahw_shop.a:*', if ahw_shop.a is a module)",)),
    ("ahw_shop:a, json.dumps", ("has no colon in 'json.dumps'; write 'json:dumps'",)),
    ("json:{dumps,loads}", ("the pointcut 'json:{dumps,loads}' has no colon in 'loads}'",)),
    *((text, (repr(text), "'module:name'")) for text in ("ahw_shop:", ":a", ":", "ahw_shop:a:b", "ahw_shop:a b")),
    *((text, (repr(text), "has an empty name")) for text in ("ahw_shop:Till..total", "ahw_shop:.a")),
    ("!ahw_shop:a", ("only excludes; add a term that chooses, as in 'shop:*, !ahw_shop:a'",)),
    # Nothing of the name
    (
        "ahw_shop:zzz*",
        ("'ahw_shop:zzz*' chooses nothing: ahw_shop itself defines no function or class of such a name",),
    ),
    ("ahw_shop:Till.zzz*", ("chooses nothing",)),
    ("ahw_shop:a*, ahw_shop:zzz*", ("'ahw_shop:zzz*' chooses nothing",)),
    ("ahw_shop:*, !ahw_shop:*", ("chooses nothing: terms with '!' exclude all of it; take one of the two out",)),
    ("ahw_shop:fetsh", ("cannot be woven: the module ahw_shop has no 'fetsh'; did you mean 'fetch'?",)),
    ("ahw_shop:Tll.total", ("did you mean 'Till'?",)),
    ("ahw_shop:Till.totl", ("cannot be woven: the class Till has no 'totl'; did you mean 'total'?",)),
    ("ahw_shop:Till.inherted", ("the class Till has no 'inherted'; did you mean 'inherited'?",)),
    ("ahw_shop:a, ahw_shop:othr", ("did you mean 'other'?",)),
    # Not a function
    ("ahw_shop:value", ("it is a value, of type int; weave a function that uses it",)),
    ("ahw_shop:Till.rate", ("it is a value, of type int; weave a method that uses it",)),
    ("ahw_shop:a.b", ("ahw_shop:a is not a class, and has no 'b'; name it alone: 'ahw_shop:a'",)),
    ("ahw_shop:value.b", ("an object of type int, not a class; for this object pass its method itself",)),
    ("os:environ.get", ("weave(os.environ.get, ...), for all of its class write 'os:_Environ.get'",)),
    ("os:path.join", ("os:path is a module; write 'os.path:join'",)),
    ("ahw_shop:Till.open.x", ("ahw_shop:Till.open is not a class, and has no 'x'; name it alone",)),
    ("ahw_shop:Till.open.fset", ("name what it has: 'ahw_shop:Till.open.fget'",)),
    # Of C, and ours
    ("builtins:dict", ("builtins:dict cannot be woven: it is an immutable C type",)),
    ("builtins:dict.get, builtins:dict.pop", ("dict.get", "weave a subclass", "functions that call it")),
    ("builtins:d*.get", ("weave a subclass",)),
    ("datetime:datetime.isoformat", ("isoformat", "weave a subclass")),
    ("builtins:str.maketrans", ("maketrans", "weave a subclass")),
    (
        "aspecthook:weave",
        ("'aspecthook:weave' cannot be woven: aspecthook is part of what runs the hooks; weave what",),
    ),
    ("wrapt:*", ("is part of what runs the hooks; weave what calls it",)),
]


@pytest.mark.parametrize(("text", "parts"), POINTCUTS, ids=[text for text, _ in POINTCUTS])
def test_a_pointcut_that_is_wrong_is_refused_with_what_to_write(shop: Any, text: str, parts: tuple[str, ...]) -> None:
    check_refused(text, {"post": ten}, *parts)


OBJECTS: list[tuple[Any, str]] = [
    *((value, "it is a value, of type ") for value in (None, 5, True, b"a:b", [], {}, {"a": ten}, object())),
    ([ten], "it is a value, of type list; give a function, a method, a class, a module, a pointcut such as"),
    (types.ModuleType("ahw_empty"), "ahw_empty cannot be woven: it defines no public functions of its own; name what"),
    (type("Empty", (), {"value": 5}), "it defines no public Python methods of its own; weave the class that does, or"),
    (functools.partial(int, "7"), "is in no imported module, so there is nowhere to put a hook"),
    *((kind, "it is an immutable C type, in which nothing can be replaced; weave a subclass") for kind in (dict, type)),
    *((one, "weave a subclass of ") for one in (dict.get, dict.fromkeys, int.__add__, datetime.datetime.now)),
    *((one, "which has no place for a hook; weave a subclass of ") for one in ([].append, "abc".upper)),
    (weave, "is part of what runs the hooks; weave what calls it"),
    (Weaving, "is part of what runs the hooks; weave what calls it"),
    (aspecthook, "aspecthook"),
]


@pytest.mark.parametrize(("target", "message"), OBJECTS, ids=[message[:40] for _, message in OBJECTS])
def test_a_target_that_is_no_function_is_refused_with_what_to_give(target: Any, message: str) -> None:
    check_refused(target, {"post": ten}, message)


ODD = """
    import functools
    class Proxy:
        def __getattr__(self, name): raise RuntimeError("outside of a request")
        def __call__(self): ...
    request = Proxy()
    rate = 3
    class Descriptor:
        def __get__(self, instance, owner): return self
    class Setting(Descriptor):
        def __set__(self, instance, value): ...
        def __call__(self): ...
    class Odd:
        setting = Setting()
        of_class = classmethod(property(lambda cls: 1))
        described = Descriptor()
        rate = 3
        length = property(len, setattr)
        slots = property()
    def __getattr__(name):
        if name == "made":
            return functools.partial(int, "7")
        raise AttributeError(name)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rate", "it is a value, of type int; weave a function that uses it"),
        ("made", "it is made anew at each access; weave the functions that call it"),
        (
            "request",
            "it refers to something that is not available now (RuntimeError('outside of a request')); weave what",
        ),
        ("Odd.rate", "it is a value, of type int; weave a method that uses it"),
        ("Odd.of_class", "it is a property of the class; weave the function that its getter calls"),
        (
            "Odd.described",
            "it is a descriptor of type Descriptor without Python code; weave the functions that call it",
        ),
        (
            "Odd.setting",
            "it is a descriptor of type Setting, with its own way to bind; weave the functions that call it",
        ),
        ("Odd.length.fset", "it is read without Python code; weave a method that uses it"),
        ("Odd.length.fdel", "it has no fdel; name what it has: 'ahw_odd:Odd.length.fget'"),
        ("Odd.__new__", "creates no instance any more once a class has had another one; weave 'ahw_odd:Odd.__init__'"),
    ],
)
def test_a_member_that_can_carry_no_hook_says_why_and_what_to_weave(write: Any, name: str, message: str) -> None:
    write({"ahw_odd.py": ODD})
    importlib.import_module("ahw_odd")
    with pytest.raises(WeaveError) as caught:
        weave(f"ahw_odd:{name}", post=ten)
    assert str(caught.value).startswith(f"ahw_odd:{name} cannot be woven: it ") and message in str(caught.value)


# Options and hooks


class Odd:
    def hook(self, n: int) -> None: ...


# Of a module that is there, and of one that is imported later
TARGETS = pytest.mark.parametrize("target", ["ahw_shop:a", "ahw_later:a"])
GIVEN: list[tuple[dict[str, Any], type[AspecthookError], str]] = [
    *((given, WeaveError, "no hooks are given for ") for given in ({"pre": None}, {"pre": []}, {"exception": {}})),
    ({"per": ten}, WeaveError, "weave takes no 'per'; did you mean 'pre'?"),
    ({"post": ten, "prioritty": 1}, WeaveError, "weave takes no 'prioritty'; did you mean 'priority'?"),
    ({"post": ten, "wheer": 1}, WeaveError, "did you mean 'where'?"),
    ({"xyzzy": ten}, WeaveError, "weave takes no 'xyzzy'; its hooks and options: help(weave)"),
    ({"post": ten, "scope": "thread"}, WeaveError, "scope='thread'; give 'everywhere' or 'context'"),
    ({"post": ten, "where": 3}, WeaveError, "where=3 is not callable; give a predicate on functions"),
    ({"pre": 5}, WeaveError, "pre=5 is not callable, and cannot be a hook on 'ahw_"),
    *(({"item": several}, WeaveError, "item=5 is not callable") for several in ([no, 5], {5}, frozenset([5]))),
    ({"post": Return(1)}, WeaveError, "is not callable, and cannot be a hook on 'ahw_"),
    ({"exception": KeyError}, WeaveError, "is an exception type, and cannot be a hook on 'ahw_"),
    ({"exception": {(): ten}}, WeaveError, "has a hook for no types at all, (); name some, such as KeyError"),
    *(({"exception": {types: no}}, HookTypeError, "is not an exception type") for types in (5, int, (KeyError, int))),
    *(
        ({kind: {KeyError: ten}}, WeaveError, f"{kind}= takes a hook or a list of hooks; only exception= takes a")
        for kind in ("pre", "around", "post")
    ),
    ({"aspect": object()}, WeaveError, "has no marked methods; write @pre(...) above some"),
    ({"aspect": Odd()}, WeaveError, "has no marked methods"),
    ({"aspect": ten}, WeaveError, "is a function; if it makes an aspect, call it: aspect=ten(...)"),
    ({"pre": no, "priority": 101}, HookOptionError, "priority"),
    ({"pre": no, "times": 0}, HookOptionError, "times"),
    ({"pre": no, "when": 5}, HookTypeError, "when"),
    ({"pre": no, "name": 5}, HookTypeError, "name"),
    ({"backward": ten}, WeaveError, "backward= is for modules and tensors of PyTorch, and 'ahw_"),
]


@TARGETS
@pytest.mark.parametrize(("given", "error", "message"), GIVEN, ids=[message[:40] for _, _, message in GIVEN])
def test_what_is_given_wrongly_is_refused_also_while_it_waits(
    shop: Any, target: str, given: dict[str, Any], error: type[AspecthookError], message: str
) -> None:
    check_refused(target, given, message, error=error)


def test_hooks_without_a_name_are_refused(shop: Any) -> None:
    for names, message in (
        ((ten,), "weave takes hooks by name, as in weave(target, pre=hook): <function "),
        (("layer1",), "'layer1' is for modules and tensors of PyTorch, and <function "),
    ):
        with pytest.raises((WeaveError, HookTypeError)) as caught:
            weave(shop.a, *names, **({"post": ten} if names[0] is not ten else {}))
        assert str(caught.value).startswith(message)
    with pytest.raises(WeaveError, match="for several write one string: 'json:dumps, json:loads'"):
        weave("json:dumps", "json:loads", post=ten)


@pytest.mark.parametrize("args", [(3,), (ten, ten), ("ahw_shop:a", ten)])
def test_a_mark_that_is_given_something_else_is_refused(args: tuple[Any, ...]) -> None:
    message = "the mark 'pre' takes a pointcut, for 'exception' also exception types, and options by name; it was given"
    with pytest.raises(WeaveError, match=message):
        pre(*args)


def test_a_block_of_a_weaving_that_has_been_removed_is_refused(shop: Any) -> None:
    weaving = weave("ahw_shop:a", post=ten)
    weaving.remove()
    with (
        pytest.raises(WeaveError, match="ahw_shop:a.* has been removed, and a block of it would do nothing; weave"),
        weaving,
    ):
        pass


# All or none


async def slow(n: int) -> None:
    """An async hook, which no plain function can have."""


def test_a_hook_that_could_never_work_on_one_of_the_targets_leaves_nothing_on_the_others(shop: Any) -> None:
    check_refused("ahw_shop:fetch, ahw_shop:a", {"pre": slow}, "ahw_shop:a", "slow", error=HookTypeError)


def test_a_target_of_which_where_refuses_all_is_refused(shop: Any) -> None:
    for target in ("ahw_shop:*", "ahw_shop:Till.*", shop.a, shop.Till, shop):
        check_refused(
            target,
            {"post": ten, "where": lambda function: False},
            "chooses nothing: take something out of `where`, or of what '!' excludes",
        )


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError, MemoryError])
def test_exception_in_where_is_raised_and_nothing_is_woven(shop: Any, error: type[BaseException]) -> None:
    raised = error("mine")
    asked: list[object] = []

    def where(function: object) -> bool:
        asked.append(function)
        if len(asked) == 3:
            raise raised
        return True

    for target in ("ahw_shop:*", "ahw_later:one, ahw_shop:*", shop, shop.Till):
        asked.clear()
        with pytest.raises(error) as caught:
            weave(target, post=ten, where=where)
        assert caught.value is raised


def fails(*_: object) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("ahw_lazy:rate", {"post": ten}),
        (f"{__name__}:ten", {"post": ten, "where": fails}),
    ],
)
def test_failures_of_what_weaving_calls_are_raised_and_their_tracebacks_show_no_frames_of_ours(
    write: Any, target: Any, given: Any
) -> None:
    write({"ahw_lazy.py": "def __getattr__(name): 1 / (name != 'rate')"})
    importlib.import_module("ahw_lazy")
    with pytest.raises(ZeroDivisionError) as caught:
        weave(target, **given)
    assert shown_frames(caught.value) == []
