"""What cannot be woven is refused: the message says which target, what is wrong and what to do, and nothing stays."""

from __future__ import annotations

import datetime
import importlib
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import pytest

import aspecthook
from aspecthook import (
    AspecthookError,
    HookOptionError,
    HookTypeError,
    Return,
    WeaveError,
    Weaving,
    aspects,
    pre,
    weave,
)
from aspecthook._errors import brief
from aspecthook.weave._plans import _ASPECTS
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
    r"weave[ (]|write |give |name |remove |did you mean|say |as in|only |make |take |takes |offers|which has"
    r"|refuses"
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


def refused(target: object, *parts: str, error: type[AspecthookError] = WeaveError, **given: Any) -> str:
    """Weave, and give the message with which it is refused; it must have these parts, in this order, and advice."""
    made: list[Weaving] = []
    try:
        with pytest.raises(error) as caught:
            made.append(weave(target, **(given or {"post": ten})))
    finally:
        for weaving in made:
            weaving.remove()
    assert shown_frames(caught.value) == []
    message = str(caught.value)
    places = [message.find(part) for part in parts]
    assert -1 not in places, message
    assert places == sorted(places), message
    assert ADVICE.search(message), message
    assert "\n" not in message
    return message


# Pointcuts


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        ((), {"backward": ten}, "backward= is for modules and tensors of PyTorch, and <function "),
        (("layer1",), {"post": ten}, "'layer1' is for modules and tensors of PyTorch, and <function "),
        ((ten,), {}, "weave takes hooks by name, as in weave(target, pre=hook): "),
    ],
)
def test_what_only_objects_of_pytorch_take_is_refused_for_others(
    shop: Any, names: tuple[Any, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises((WeaveError, HookTypeError)) as caught:
        weave(shop.a, *names, **options)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize("text", ["", " ", ",", "!", "! ", "ahw_shop:a,", ",ahw_shop:a", "ahw_shop:a,,ahw_shop:b"])
def test_an_empty_pointcut_is_refused(shop: Any, text: str) -> None:
    assert repr(text) in refused(text, "empty", "module:name")


def test_a_pointcut_without_a_colon_is_refused_with_one_that_has_it(shop: Any) -> None:
    refused("ahw_shop", "'ahw_shop'", "colon", "'ahw_shop:*'")
    refused("ahw_shop.a", "'ahw_shop.a'", "colon", "'ahw_shop:a'")
    refused("ahw_shop:a, ahw_shop.b", "'ahw_shop.b'", "'ahw_shop:b'")


@pytest.mark.parametrize("text", ["ahw_shop:", ":a", ":", "ahw_shop:a:b", "ahw_shop:a b", "ahw_shop: a", "ahw shop:a"])
def test_a_pointcut_with_half_a_term_is_refused(shop: Any, text: str) -> None:
    assert repr(text) in refused(text, "module:name")


@pytest.mark.parametrize(
    "text", ["ahw_shop:Till..total", "ahw_shop:.a", "ahw_shop:a.", "ahw_shop:+", "ahw_shop:Till++"]
)
def test_a_pointcut_with_an_empty_name_is_refused(shop: Any, text: str) -> None:
    made: list[Weaving] = []
    with pytest.raises(WeaveError, match=re.escape(repr(text))):
        made.append(weave(text, post=ten))
    assert not made


def test_a_pointcut_that_only_excludes_is_refused(shop: Any) -> None:
    refused("!ahw_shop:a", "'!ahw_shop:a'", "excludes", "as in")


@pytest.mark.parametrize(
    "text",
    [
        "ahw_shop:zzz*",
        "ahw_shop:Till.zzz*",
        "ahw_shop:a*, ahw_shop:zzz*",
        "ahw_shop:_*",
        "ahw_shop:*, !ahw_shop:*",
        "ahw_shop:a, !ahw_shop:a",
        "ahw_shop:*.zzz",
    ],
)
def test_a_pointcut_that_chooses_nothing_in_an_imported_module_is_refused(shop: Any, text: str) -> None:
    refused(text, "ahw_shop")


def test_a_pointcut_whose_choice_is_all_refused_by_where_is_refused(shop: Any) -> None:
    assert "where" in refused("ahw_shop:*", "ahw_shop:*", post=ten, where=lambda function: False)
    assert "where" in refused("ahw_shop:a", "ahw_shop:a", post=ten, where=lambda function: False)
    assert "where" in refused(shop.a, post=ten, where=lambda function: False)
    assert "where" in refused(shop.Till, "Till", post=ten, where=lambda function: False)
    assert "where" in refused(shop, "ahw_shop", post=ten, where=lambda function: False)
    message = refused("ahw_shop:Till.*", "ahw_shop:Till.*", post=ten, where=lambda function: False)
    assert message.endswith("chooses nothing: take something out of `where`, or of what '!' excludes")


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("ahw_shop:seveen", "seven"),
        ("ahw_shop:Tll", "Till"),
        ("ahw_shop:Tll.total", "Till"),
        ("ahw_shop:Till.totl", "total"),
        ("ahw_shop:Till.inherted", "inherited"),
        ("ahw_shop:Till+.totl", "total"),
        ("ahw_shop:a, ahw_shop:othr", "other"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest(shop: Any, text: str, near: str) -> None:
    refused(text, "ahw_shop", f"did you mean {near!r}?")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ahw_shop:value", "value"),
        ("ahw_shop:Till.rate", "value"),
        ("ahw_shop:a.b", "not a class"),
        ("ahw_shop:value.b", "an object of type int, not a class; for this object pass its method itself"),
        ("os:environ.get", "weave(os.environ.get, ...), for all of its class write 'os:_Environ.get'"),
        ("os:path.join", "os:path is a module; write 'os.path:join'"),
        ("ahw_shop:Till.open.fgett", "fget"),
        ("ahw_shop:Till.open.fset", "name what it has: 'ahw_shop:Till.open.fget'"),
        ("ahw_shop:Till.total.x", "not a class"),
    ],
)
def test_a_name_of_something_that_is_no_function_is_refused(shop: Any, text: str, why: str) -> None:
    refused(text, text.split(":", maxsplit=1)[0], why)


# Targets that are values


@pytest.mark.parametrize("target", [None, 5, 2.5, True, b"a:b", [], (), {}, {"a": ten}, object()])
def test_a_target_that_is_a_value_is_refused(target: object) -> None:
    message = refused(target, brief(target), type(target).__name__)
    assert "cannot be woven: it is a value, of type " in message and "; give a function, a method, a class" in message


@pytest.mark.parametrize("target", [[ten], (ten, refused), {ten}])
def test_several_targets_in_one_are_refused(target: object) -> None:
    refused(target, "a weaving has one target; weave each of them, or name them in one pointcut")


def test_a_module_without_functions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = types.ModuleType("ahw_empty")
    monkeypatch.setitem(sys.modules, "ahw_empty", empty)
    refused(empty, "ahw_empty", "no public functions")
    refused("ahw_empty:*", "ahw_empty:*")


def test_a_class_without_methods_is_refused() -> None:
    class Empty:
        value = 5

    refused(Empty, "Empty", "no public", "__init__")


def test_a_function_that_is_in_no_module_and_has_no_python_code_is_refused() -> None:
    from functools import partial

    refused(partial(int, "7"), "partial", "no imported module")


# What is written in C and cannot be changed


@pytest.mark.parametrize(
    "target", [dict, int, str, object, type, datetime.datetime, "builtins:dict", "builtins:object"]
)
def test_an_immutable_c_type_is_refused(target: object) -> None:
    name = target.__name__ if isinstance(target, type) else str(target)
    refused(target, name)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (dict.get, "dict.get"),
        (dict.fromkeys, "fromkeys"),
        (str.upper, "str.upper"),
        (int.__add__, "int.__add__"),
        (object.__init__, "object.__init__"),
        ([].append, "list.append"),
        ("abc".upper, "str.upper"),
        ((5).__add__, "int"),
        (datetime.datetime.now, "datetime.now"),
        ("builtins:dict.get", "dict.get"),
        ("builtins:dict.get, builtins:dict.pop", "dict.get"),
        ("builtins:d*.get", "get"),
        ("datetime:datetime.now", "datetime.now"),
        ("datetime:datetime.isoformat", "isoformat"),
        ("builtins:str.maketrans", "maketrans"),
    ],
)
def test_a_method_of_an_immutable_c_type_is_refused_with_what_to_weave_instead(target: object, name: str) -> None:
    message = refused(target, name, "weave a subclass")
    assert "functions that call it" in message


def test_modules_of_aspecthook_and_wrapt_are_refused() -> None:
    refused("builtins:isinstance", "builtins:isinstance", "weave what calls it")
    refused("aspecthook:weave", "aspecthook", "weave what calls it")
    refused(weave, "weave", "weave what calls it")
    refused(Weaving, "Weaving")
    refused(aspecthook, "aspecthook")
    refused("wrapt:*", "wrapt")


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


def test_a_method_of_one_object_of_c_is_refused_with_what_to_weave_instead() -> None:
    refused([].append, "list.append", "is a method of one list, which has no place for a hook", "a subclass of list")


# Options and hooks


def test_no_hooks_at_all_are_refused(shop: Any) -> None:
    for given in ({"pre": None}, {"pre": []}, {"pre": ()}, {"exception": {}}, {"priority": 5}):
        refused(shop.a, "no hooks", "pre=hook", **given)
        refused("ahw_shop:a", "no hooks", "'ahw_shop:a'", "pre=hook", **given)
    refused("ahw_later:a", "no hooks", "'ahw_later:a'", pre=[])


@pytest.mark.parametrize(
    ("option", "near"),
    [("prority", "priority"), ("exeption", "exception"), ("pots", "post"), ("scop", "scope"), ("wheer", "where")],
)
@pytest.mark.parametrize("target", ["ahw_shop:a", "ahw_later:a"])
def test_an_unknown_option_is_refused_with_the_nearest(shop: Any, target: str, option: str, near: str) -> None:
    refused(target, repr(option), f"did you mean {near!r}?", pre=no, **{option: 5})


@pytest.mark.parametrize("target", ["ahw_shop:a", "ahw_later:a"])
def test_a_scope_or_predicate_that_is_none_is_refused(shop: Any, target: str) -> None:
    refused(target, "'task'", "'everywhere'", "'context'", pre=no, scope="task")
    refused(target, "where=5", pre=no, where=5)
    refused(target, "scope=", pre=no, scope=[])


@pytest.mark.parametrize("target", ["ahw_shop:a", "ahw_later:a"])
@pytest.mark.parametrize("kind", ["pre", "around", "item", "exception", "post", "always"])
@pytest.mark.parametrize("hook", [5, "name", [no, 5], (None,), object(), Return(1)])
def test_a_hook_that_cannot_be_called_is_refused_also_while_it_waits(
    shop: Any, target: str, kind: str, hook: object
) -> None:
    message = refused(target, f"{kind}=", "not callable", **{kind: hook})
    assert target in message


@pytest.mark.parametrize("kind", ["pre", "around", "item", "post", "always"])
def test_only_exception_takes_a_mapping(shop: Any, kind: str) -> None:
    refused("ahw_shop:a", f"{kind}=", "exception=", **{kind: {KeyError: no}})


@pytest.mark.parametrize("target", ["ahw_shop:a", "ahw_later:a"])
@pytest.mark.parametrize("types", [5, "KeyError", int, None, (KeyError, 5), (KeyError, int), (), KeyError("a")])
def test_a_mapping_of_exceptions_with_a_wrong_key_is_refused(shop: Any, target: str, types: Any) -> None:
    made: list[Weaving] = []
    try:
        with pytest.raises(AspecthookError, match="exception"):
            made.append(weave(target, exception={types: lambda exc: None}))
    finally:
        for weaving in made:
            weaving.remove()


@pytest.mark.parametrize("target", ["ahw_shop:a", "ahw_later:a"])
@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("priority", 101, HookOptionError),
        ("priority", "HIHG", HookOptionError),
        ("priority", 2.5, HookTypeError),
        ("times", 0, HookOptionError),
        ("every", "two", HookTypeError),
        ("once", 1, HookTypeError),
        ("isolate", "yes", HookTypeError),
        ("when", 5, HookTypeError),
        ("name", 5, HookTypeError),
        ("before", 5, HookTypeError),
    ],
)
def test_an_option_with_a_value_that_it_cannot_have_is_refused_when_it_is_given(
    shop: Any, target: str, option: str, value: object, error: type[AspecthookError]
) -> None:
    message = refused(target, option, error=error, pre=lambda n: None, **{option: value})
    assert "hook" in message


async def slow(n: int) -> None:
    """An async hook, which no plain function can have."""


def test_a_hook_that_could_never_work_on_one_of_the_targets_leaves_nothing_on_the_others(shop: Any) -> None:
    refused("ahw_shop:fetch, ahw_shop:a", "ahw_shop:a", "slow", error=HookTypeError, pre=slow)


# All or none


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


# Order


# Aspects


# Modules that fail, and what imports while it weaves


# The errors themselves


def test_a_hook_without_a_name_is_refused(shop: Any) -> None:
    with pytest.raises(TypeError, match="takes hooks by name, as in weave.*pre=.*ten"):
        weave(shop.a, ten)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="positional"):
        weave(shop.a, "a", ten)  # type: ignore[call-arg]


# Used as something else


def test_a_weaving_that_is_used_as_a_decorator_says_what_to_write_and_leaves_nothing_on(shop: Any) -> None:
    # It said "'Weaving' object is not callable", and the hooks stayed on for good.
    with pytest.raises(
        WeaveError, match=r"weave is not a decorator, .* removed again: .* inside mine; .* write @hookable"
    ):

        @weave("ahw_shop:a", post=ten)
        def mine() -> None: ...

    assert shop.a(1) == 1


def test_a_second_pointcut_is_refused_with_how_to_write_two() -> None:
    with pytest.raises(WeaveError, match="for several write one string: 'json:dumps, json:loads'"):
        weave("json:dumps", "json:loads", post=ten)


def test_the_aspects_that_a_refused_option_may_mean_are_there() -> None:
    assert set(_ASPECTS) <= set(aspects.__all__)


@pytest.mark.parametrize(
    ("target", "given", "message"),
    [
        ("ahw_shop:a", {"per": ten}, "weave takes no 'per'; did you mean 'pre'?"),
        ("ahw_shop:a", {"retry": ten}, "weave takes no 'retry'; it is an aspect: weave(target, aspect=retry(...)), wi"),
        ("ahw_shop:a", {"post": ten, "prioritty": 1}, "weave takes no 'prioritty'; did you mean 'priority'?"),
        ("ahw_shop:a", {"xyzzy": ten}, "weave takes no 'xyzzy'; its hooks and options: help(weave)"),
        ("ahw_shop.a", {"post": ten}, "the pointcut 'ahw_shop.a' has no colon; write 'ahw_shop:a'"),
        ("ahw_shop:a, json.dumps", {"post": ten}, "has no colon in 'json.dumps'; write 'json:dumps'"),
        ("json:{dumps,loads}", {"post": ten}, "'json:{dumps,loads}' has braces; write one term for each name"),
        ("ahw_shop", {"post": ten}, "has no colon; for the functions of a module write 'ahw_shop:*'"),
        ("", {"post": ten}, "the pointcut '' is empty, or empty between commas; write 'module:name'"),
        ("ahw_shop:a,,", {"post": ten}, "is empty, or empty between commas"),
        ("!ahw_shop:a", {"post": ten}, "only excludes; add a term that chooses, as in 'shop:*, !ahw_shop:a'"),
        ("ahw_shop:Till..total", {"post": ten}, "has an empty name between dots in 'ahw_shop:Till..total'"),
        ("ahw_shop:fetsh", {"post": ten}, "cannot be woven: the module ahw_shop has no 'fetsh'; did you mean 'fetch'?"),
        ("ahw_shop:Till.totl", {"post": ten}, "cannot be woven: the class Till has no 'totl'; did you mean 'total'?"),
        ("ahw_shop:Till.inherit", {"post": ten}, "the class Till has no 'inherit'; did you mean 'inherited'?"),
        ("ahw_shop:Till.open.x", {"post": ten}, "a property, which has fget, fset and fdel, and has no 'x'; name it"),
        ("ahw_shop:a.b", {"post": ten}, "ahw_shop:a is not a class, and has no 'b'; name it alone: 'ahw_shop:a'"),
        ("ahw_shop:a", {"exception": KeyError}, "is an exception type, and cannot be a hook on 'ahw_shop:a'; give the"),
        ("ahw_shop:a", {"post": ten, "scope": "thread"}, "scope='thread'; give 'everywhere' or 'context'"),
        ("ahw_shop:a", {"post": ten, "where": 3}, "where=3 is not callable; give a predicate on functions"),
        ("ahw_shop:a", {"exception": {(): ten}}, "has a hook for no types at all, (); name some, such as KeyError"),
        ("ahw_shop:a", {"post": {KeyError: ten}}, "post= takes a hook or a list of hooks; only exception= takes a map"),
        ("ahw_shop:a", {"aspect": object()}, "has no marked methods; write @pre(...) above some"),
        ("ahw_shop:a", {"aspect": ten}, "is a function; if it makes an aspect, call it: aspect=ten(...)"),
    ],
)
def test_a_misspelt_weaving_is_refused_with_the_nearest_thing(
    shop: Any, target: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(WeaveError) as caught:
        weave(target, **given)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (lambda shop: shop.a, "<function ahw_shop:a> is not woven: `where` refuses it"),
        (lambda shop: shop.Till, "ahw_shop:Till is not woven: `where` refuses all of it, 4 functions"),
    ],
    ids=["function", "class"],
)
def test_a_target_that_where_refuses_is_not_woven(shop: Any, target: Any, message: str) -> None:
    with pytest.raises(WeaveError, match=f"^{re.escape(message)}$"):
        weave(target(shop), post=ten, where=lambda function: False)


def test_a_block_of_a_weaving_that_has_been_removed_is_refused(shop: Any) -> None:
    weaving = weave("ahw_shop:a", post=ten)
    weaving.remove()
    with (
        pytest.raises(WeaveError, match="ahw_shop:a.* has been removed, and a block of it would do nothing; weave"),
        weaving,
    ):
        pass


@pytest.mark.parametrize("args", [(3,), (ten, ten), ("ahw_shop:a", ten)])
def test_a_mark_that_is_given_something_else_is_refused(args: tuple[Any, ...]) -> None:
    message = "the mark 'pre' takes a pointcut, for 'exception' also exception types, and options by name; it was given"
    with pytest.raises(WeaveError, match=message):
        pre(*args)


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
