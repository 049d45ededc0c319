"""Stubs: what an event is, which functions can be one, and which are refused."""

from __future__ import annotations

import copy
import dis
import inspect
import pickle
import re
import subprocess
import sys
import traceback
import types
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookTypeError, MountError, Return, event, explain, hookable, hooks
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


def test_wrong_arguments_raise_the_type_error_of_a_function() -> None:
    for listens in (False, True):
        if listens:
            rang.on(lambda: None)
        with pytest.raises(TypeError, match=r"rang\(\) missing 1 required positional argument: 'who'"):
            rang()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"rang\(\) got an unexpected keyword argument 'whom'"):
            rang("ann", whom=1)  # type: ignore[call-arg]


def test_event_with_parameters_of_every_kind() -> None:
    @event
    def odd(a, /, b=2, *rest, c, d=4, **extra): ...  # type: ignore[no-untyped-def]

    assert odd(1, c=3) == []
    odd.on(lambda b, rest, c, d, extra: (b, rest, c, d, extra))
    assert odd(1, 5, 6, 7, c=3, e=8) == [(5, (6, 7), 3, 4, {"e": 8})]


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


def test_traceback_shows_the_line_that_calls_the_subscriber() -> None:
    def broken() -> None:
        raise ValueError("broken")

    rang.on(broken)
    with pytest.raises(ValueError, match="broken") as caught:
        rang("ann")
    lines = traceback.format_exception(caught.value)
    assert any("answer = on_1()  # broken, test_stub.py:" in line for line in lines)


def test_explain_names_the_subscribers(capsys: pytest.CaptureFixture[str]) -> None:
    rang.on(lambda who: who, name="bell")
    explain(rang)
    assert "answer = on_1(who)  # bell, test_stub.py:" in capsys.readouterr().out


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


def test_stub_under_python_with_optimisation() -> None:
    program = (
        "from aspecthook import event\n@event\ndef e(a):\n    'doc'\nprint(e(1))\n"
        "@event\nasync def f(a):\n    'doc'\nimport asyncio; print(asyncio.run(f(1)))"
    )
    for flags in ([], ["-O"], ["-OO"]):
        done = subprocess.run([sys.executable, *flags, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n[]\n"


@pytest.mark.parametrize("doc", ["Set by a decorator.", object()], ids=["text", "no text"])
def test_stub_whose_doc_was_set_later(doc: Any) -> None:
    def bare() -> None: ...

    def documented() -> None:
        """Do nothing."""

    for stub in (bare, documented):
        stub.__doc__ = doc
        assert event(stub)() == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no type parameters before 3.12")
def test_stub_with_type_parameters() -> None:
    space: dict[str, Any] = {"event": event}
    text = "@event\ndef one[T](x: T) -> T: ...\nclass C[T]:\n    @event\n    def two[U](self, x: T, y: U) -> U: ...\n"
    exec(compile(text, "<stubs>", "exec", dont_inherit=True), space)
    one, two = space["one"], space["C"].two
    assert one(1) == [] and two(None, 1, 2) == []
    one.on(lambda x: x)
    two.on(lambda x, y: (x, y))
    assert one(1) == [1] and two(None, 1, 2) == [(1, 2)] and str(inspect.signature(one)) == "(x: T) -> T"


# Names


_WORDS = """
result answer slips slip late found record site stage handled caught run held inside target moved slot links hooked
instances first linked reach layer_1 changes hook due on_1 on_1_ref on_1_inner on_1_when on_1_admit on_1_failed on_hooks
on_1_to_24 pre_1 post_1 names_1 name_0 argument_0 ANSWERS type Call together returned awaitable
Exception BaseException Args Return revise isinstance _ self
"""
WORDS = _WORDS.split()
ODD = ["a b", "class", "None", "é", "ﬁ", "", ".0", "__debug__", "await", "x\ny", "'", '"""', "{0}", "\ud800"]
ODD += ["call", "exc"]


@pytest.mark.filterwarnings("ignore:.* has a parameter called:aspecthook.HookWarning")
@given(st.lists(st.sampled_from(WORDS + ODD), min_size=1, max_size=5, unique=True), st.data())
def test_any_parameter_name_works(names: list[str], data: st.DataObject) -> None:
    plain = [f"p{place}" for place in range(len(names))]
    cut = data.draw(st.integers(0, len(names)))
    row = plain[:cut] + (["*", *plain[cut:]] if plain[cut:] else [])
    space: dict[str, Any] = {}
    exec(f"def stub({', '.join(row)}): ...", space)
    stub = space["stub"]
    stub.__code__ = stub.__code__.replace(co_varnames=tuple(names))
    gives = data.draw(st.sampled_from([{}, {"first": True}, {"fold": names[0]}]))
    errors = data.draw(st.sampled_from(["raise", "group", "isolate"]))
    said: Any = event(errors=errors, **gives)(stub)
    count = data.draw(st.sampled_from([1, 2, 30]))
    asked = data.draw(st.sampled_from([one for one in names if one in WORDS] or [""]))
    seen: list[Any] = []
    listen: dict[str, Any] = {"seen": seen}
    lead = f"{asked}, " if asked else ""
    exec(f"def listen({lead}args, kwargs): seen.append(({lead}args, kwargs))", listen)
    for _ in range(count):
        said.on(listen["listen"], again=True)
    said.on(lambda call: seen.append(dict(call.arguments)) or Return(5), when=lambda *args, **kwargs: True)
    if data.draw(st.booleans()):
        said.around(lambda proceed: proceed())
    args, kwargs = tuple(range(cut)), {name: place + cut for place, name in enumerate(names[cut:])}
    assert said(*args, **kwargs) == (5 if gives else [5])
    everything = dict(zip(names, range(len(names)), strict=True))
    assert seen == [((everything[asked],) if asked else ()) + (args, kwargs)] * count + [everything]


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
