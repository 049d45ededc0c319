"""What weaving whole libraries, and interrupting it, brought to light; each test says what broke."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import gc
import json
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aspecthook import WeaveError, weave
from aspecthook.weave import _spots
from aspecthook.weave._members import function_in

log: list[object] = []


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    log.clear()
    yield
    assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("aspecthook")]


def note(args: tuple[Any, ...]) -> None:
    log.append(args)


class Neg:
    @functools.singledispatchmethod
    @classmethod
    def of(cls, x: object) -> object:
        return cls.__name__, x

    @functools.singledispatchmethod
    @staticmethod
    def same(x: object) -> object:
        return x

    @classmethod
    def _make(cls, a: int, b: int) -> object:
        return cls.__name__, a, b

    make = functools.partialmethod(_make, 1)

    @staticmethod
    def _pair(a: int, b: int) -> object:
        return a, b

    pair = functools.partialmethod(_pair, 1)


class More(Neg):
    pass


def uses() -> list[object]:
    neg: Any = Neg
    more: Any = More
    return [
        *(neg.of(1), neg().of(1), more.of(1), neg.same(1), neg().same(1), more.same(1)),
        *(neg.make(2), neg().make(2), more.make(2), neg.pair(2), neg().pair(2), more().pair(2)),
    ]


@pytest.mark.parametrize("name", ["of", "same", "make", "pair"])
@pytest.mark.parametrize("cls", [Neg, More])
def test_wrapper_around_a_class_or_static_method_binds_as_that_does(cls: type, name: str) -> None:
    # The instance, or nothing, was passed on as if the inner method took `self`.
    plain = uses()
    with weave(f"{__name__}:{cls.__name__}.{name}", pre=note):
        assert uses() == plain
        assert log
    assert uses() == plain


class OwnWay:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.func = function

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return functools.partial(self.func, owner)

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)


class Owner:
    @OwnWay
    def method(cls: Any, x: int) -> object:
        return cls.__name__, x


def test_a_descriptor_with_its_own_way_to_bind_is_refused() -> None:
    with pytest.raises(WeaveError, match="its own way to bind; weave the function inside it"):
        weave(f"{__name__}:Owner.method", pre=note)


def globals_of(code: types.CodeType) -> set[str]:
    """Return the names of globals that code loads."""
    inner = [globals_of(one) for one in code.co_consts if isinstance(one, types.CodeType)]
    return {str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}.union(*inner)


def test_the_builtins_that_running_hooks_calls_are_known_and_refused() -> None:
    called: set[str] = set()
    for name in [one for one in sys.modules if one.startswith(("aspecthook._core", "aspecthook._foreign"))]:
        for value in list(vars(sys.modules[name]).values()):
            for held in [value, *vars(value).values()] if isinstance(value, type) else [value]:
                function = function_in(held, "fget")
                called |= globals_of(function.__code__) if function is not None else set()
    functions = {name for name, value in vars(builtins).items() if isinstance(value, types.BuiltinFunctionType)}
    # `explain` calls `print`, but no call of a hook does.
    assert (called & functions) - {"print"} <= _spots._NEEDED
    with pytest.raises(WeaveError, match="is called whenever hooks run, and would call itself"):
        weave("builtins:sorted", pre=note)


@pytest.mark.parametrize("name", ["builtins:locals", "builtins:globals", "builtins:eval", "sys:_getframe"])
def test_builtins_that_look_at_their_caller_are_refused(name: str) -> None:
    with pytest.raises(WeaveError, match="looks at its caller"):
        weave(name, pre=note)


@pytest.mark.parametrize(
    "pointcut",
    ["typing:cast", "contextlib:_GeneratorContextManager.__enter__, contextlib:_GeneratorContextManager.__exit__"],
)
def test_functions_that_linking_calls_can_be_woven(pointcut: str) -> None:
    # Each link called it, which had to be linked first, and so on.
    with (
        weave(pointcut, pre=lambda: None, post=lambda result: None),
        weave("json:dumps", post=[lambda result: None] * 3, around=lambda proceed: proceed()),
    ):
        assert json.dumps(1) == "1"
        with contextlib.closing(types.SimpleNamespace(close=lambda: log.append("closed"))):
            pass
    assert log == ["closed"]


def strike_in(name: str, file: str) -> Callable[..., None]:
    """Return a trace function that interrupts the first function of this name in a file."""

    def trace(frame: types.FrameType, event: str, _: object) -> None:
        if frame.f_code.co_name == name and frame.f_code.co_filename.endswith(file):
            sys.settrace(None)
            raise KeyboardInterrupt

    return trace


def interrupted(work: Callable[[], object], name: str, file: str) -> bool:
    before = sys.gettrace()
    sys.settrace(strike_in(name, file))
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


STEPS = [
    ("mounts", "_weaving.py"),
    ("discard", "point.py"),
    ("close", "place.py"),
]
STEPS += [
    ("leave", "occupancy.py"),
    ("restore", "occupancy.py"),
    ("unwrap", "copies.py"),
    ("leave", "copies.py"),
]


@pytest.mark.parametrize(("name", "file"), [*STEPS, ("unwatch", "_imports.py"), ("_change", "point.py")])
def test_an_interrupted_removal_can_be_done_again(name: str, file: str) -> None:
    # It was noted as done before it was, and the hooks stayed for good.
    code = json.dumps.__code__
    weaving = weave("json:dumps", post=lambda result: "hooked")
    assert interrupted(weaving.remove, name, file)
    weaving.remove()
    assert (weaving.state, json.dumps(1)) == ("removed", "1")
    assert json.dumps.__code__ is code
    assert vars(json.dumps) == {} and type(vars(json.dumps)) is dict


OPENING = [("open", "place.py"), ("hold", "place.py"), ("_change", "point.py")]
OPENING += [("put", "copies.py"), ("wrap", "copies.py")]


@pytest.mark.parametrize(("name", "file"), [*OPENING, ("count", "point.py"), ("site", "point.py")])
def test_an_interrupted_weaving_leaves_nothing(name: str, file: str) -> None:
    # The mark of the mount point stayed in the function's __dict__.
    code = json.dumps.__code__
    assert interrupted(lambda: weave("json:dumps", post=lambda result: "hooked"), name, file)
    assert (json.dumps(1), vars(json.dumps)) == ("1", {}) and type(vars(json.dumps)) is dict
    assert json.dumps.__code__ is code


def test_a_spec_is_of_its_own_class_again_though_a_weaving_began_as_its_import_ended() -> None:
    sys.modules.pop("colorsys", None)
    inner: list[Any] = []

    def where(function: object) -> bool:
        if not inner:
            inner.append(weave("colorsys:*", pre=lambda: None))
        return True

    weaving = weave("colorsys:*", post=lambda result: None, where=where)
    import colorsys

    weaving.remove()
    inner[0].remove()
    assert type(colorsys.__spec__).__module__ == "_frozen_importlib"


def shown(value: object) -> str:
    return str(value)


class Made:
    @functools.singledispatchmethod
    def single(self, x: object) -> object:
        return x

    @functools.singledispatchmethod
    @classmethod
    def of_class(cls, x: object) -> object:
        return x

    @functools.singledispatchmethod
    @staticmethod
    def of_nobody(x: object) -> object:
        return x

    def pair(self, a: object, b: object) -> object:
        return a, b

    half = functools.partialmethod(pair, 1)
    loose = functools.partialmethod(shown)
    bare = functools.partialmethod(print, end="")


@pytest.mark.parametrize("of", ["the class", "an instance"])
@pytest.mark.parametrize("name", ["single", "of_class", "of_nobody", "half", "loose", "bare"])
def test_a_method_that_is_made_anew_at_each_access_is_refused_when_it_is_given_itself(name: str, of: str) -> None:
    # From 3.14 on singledispatchmethod makes an object, and not a function: it was woven, died, and nothing acted.
    owner: Any = Made if of == "the class" else Made()
    with pytest.raises(WeaveError, match="made anew at each access; |is in no imported module"):
        weave(getattr(owner, name), pre=note)


class Callbacks:
    @property
    def callback(self) -> Callable[[int], int]:
        return lambda number: number


def test_a_weaving_says_that_it_is_over_when_what_was_given_is_gone() -> None:
    # It said "woven", of a function that a property had made for this call alone.
    weaving = weave(Callbacks().callback, pre=note)
    gc.collect()
    assert (weaving.state, weaving.mounts) == ("removed", ())
