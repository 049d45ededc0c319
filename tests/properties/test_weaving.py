"""Law 4 as a state machine over weavings: they come and go beside other patchers of the same places, in any order.

The model keeps no list of what ought to be where: it looks at what is in a place, by identity, and knows of each such
object what it is: what was there from the start, ours (a proxy over something), or theirs, and then what theirs was put
over. From that it says who must see a call. Ours are told by when they appear: what a weaving has put in a place.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

import pytest
import wrapt
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aspecthook import Weaving, hooks, weave

ABSENT: Any = object()
MOCK_CALL = mock.CallableMixin.__call__  # hooks on one mock go in here

log: list[str] = []
serial = itertools.count()

SOURCE = """
import functools

def function(x=2):
    return x + 1

def add(x, y):
    return x + y

part = functools.partial(add, 1)

@functools.lru_cache
def cached(x):
    return x + 1

class Base:
    def inherited(self, x):
        return x + 1

    @staticmethod
    def inherited_static(x):
        return x + 1

    @classmethod
    def inherited_make(cls, x):
        return x + 1

class Thing(Base):
    def method(self, x, *, y=1):
        return x + y

    @classmethod
    def make(cls, x):
        return x + 1

    @staticmethod
    def static(x):
        return x + 1

class Table(dict):
    pass
"""


# The hooks: a few, so that the same one is often woven twice


def a_hook(kind: str, name: str) -> Callable[..., Any]:
    def note() -> None:
        log.append(name)

    def surround(proceed: Callable[[], object]) -> object:
        log.append(name)
        return proceed()

    return surround if kind == "around" else note


HOOKS = {(kind, name): a_hook(kind, name) for kind in ("pre", "around", "post", "always") for name in ("a", "b")}


# The places


@dataclass(eq=False, repr=False)
class Place:
    """A name in a module or a class, and how it is called."""

    owner: Any
    name: str
    form: Literal["function", "method", "class", "static"]
    pointcut: str
    call: Callable[[], object]
    wanted: object = 3
    again: bool = False  # the same thing under another module's name
    first: Any = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.own()

    def __repr__(self) -> str:
        return self.pointcut

    def own(self) -> Any:
        return vars(self.owner).get(self.name, ABSENT)

    def value(self) -> Any:
        """Return what the name finds, unbound."""
        found = self.own()
        return inspect.getattr_static(self.owner, self.name) if found is ABSENT else found

    def set(self, value: object) -> None:
        if value is not ABSENT:
            setattr(self.owner, self.name, value)
        elif self.own() is not ABSENT:
            delattr(self.owner, self.name)


@dataclass
class World:
    """Two modules, made anew: the second knows under other names what is in the first."""

    module: types.ModuleType
    other: types.ModuleType
    places: list[Place]

    @classmethod
    def make(cls) -> World:
        number = next(serial)
        module = types.ModuleType(f"woven_world_{number}")
        other = types.ModuleType(f"woven_alias_{number}")
        sys.modules[module.__name__] = module
        sys.modules[other.__name__] = other
        exec(SOURCE, vars(module))
        vars(module)["root"] = fresh_math().sqrt
        vars(other).update({f"{name}_": vars(module)[name] for name in ("function", "root", "part", "cached")})
        return cls(module, other, list(cls._places(module, other)))

    @staticmethod
    def _places(module: types.ModuleType, other: types.ModuleType) -> Iterator[Place]:
        for name, given in (("function", 2), ("root", 9.0), ("part", 2), ("cached", 2)):
            yield Place(module, name, "function", f"{module.__name__}:{name}", _calls(module, name, given))
            alias = f"{name}_"
            call = _calls(other, alias, given)
            yield Place(other, alias, "function", f"{other.__name__}:{alias}", call, again=True)
        thing: Any = vars(module)["Thing"]
        table: Any = vars(module)["Table"]
        one, rows = thing(), table(a=3)
        forms = {"method": "method", "inherited": "method", "make": "class", "inherited_make": "class"}
        for name, form in {**forms, "static": "static", "inherited_static": "static"}.items():
            yield Place(thing, name, form, f"{module.__name__}:Thing.{name}", _calls(one, name, 2))  # type: ignore[arg-type]
        pointcut = f"{module.__name__}:Table."
        yield Place(table, "__getitem__", "method", f"{pointcut}__getitem__", lambda: rows["a"])
        yield Place(table, "update", "method", f"{pointcut}update", lambda: rows.update(b=4), None)

    def base_calls(self) -> dict[str, Callable[[], object]]:
        """Return the calls through the class that is inherited from, which no weaving of ours is about."""
        base: Any = vars(self.module)["Base"]
        one = base()
        return {name: _calls(one, name, 2) for name in ("inherited", "inherited_static", "inherited_make")}

    def close(self) -> None:
        sys.modules.pop(self.module.__name__, None)
        sys.modules.pop(self.other.__name__, None)

    def snapshot(self) -> list[Any]:
        """Return all that must be as before, to be compared by identity where it matters."""
        classes = [vars(self.module)[name] for name in ("Base", "Thing", "Table")]
        spaces = [(name, id(value)) for one in (self.module, self.other, *classes) for name, value in vars(one).items()]
        functions = [inner(value) for one in (self.module, *classes) for value in vars(one).values()]
        facts = [facts_of(one) for one in (*functions, MOCK_CALL) if isinstance(one, types.FunctionType)]
        return [spaces, facts, list(map(id, sys.meta_path))]


def facts_of(function: types.FunctionType) -> tuple[object, ...]:
    held = [(name, id(value)) for name, value in vars(function).items()]
    code = (id(function.__code__), id(function.__defaults__), id(function.__kwdefaults__))
    return (function.__qualname__, code, id(vars(function)), held, str(inspect.signature(function)), type(function))


def fresh_math() -> Any:
    """Make another `math`: its functions are known to no other module."""
    spec = importlib.util.find_spec("math")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _calls(owner: Any, name: str, given: object) -> Callable[[], object]:
    return lambda: getattr(owner, name)(given)


def inner(value: Any) -> Any:
    """Return the Python function that something is made of, or itself."""
    return value.__func__ if type(value) in (classmethod, staticmethod) else value


# Theirs


@dataclass(eq=False, repr=False)
class Theirs:
    """What another patcher has put in a place."""

    label: str
    place: Place
    under: Any  # what it calls; ABSENT: nothing
    take_off: Callable[[], None] = lambda: None
    deletes: bool = False  # taking it off deletes the name, which fails where it is gone


def replacement(place: Place, label: str, *, through: bool, wraps: bool = False) -> Any:
    """Make something that can stand in a place, and calls what is there now or gives what it would give."""
    target = getattr(place.owner, place.name)

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        log.append(label)
        return target(*args, **kwargs) if through else place.wanted

    if place.form == "class":
        made: Any = lambda cls, /, *args, **kwargs: run(args, kwargs)
    else:
        made = lambda *args, **kwargs: run(args, kwargs)
    if wraps:
        made = functools.wraps(target)(made)
    return {"class": classmethod, "static": staticmethod}.get(place.form, lambda one: one)(made)


def patch_with_mock(place: Place, label: str) -> tuple[Any, Any, Callable[[], None]]:
    def answer(*args: object, **kwargs: object) -> object:
        log.append(label)
        return place.wanted

    patcher = mock.patch.object(place.owner, place.name, new=mock.MagicMock(side_effect=answer))
    return patcher.start(), ABSENT, patcher.stop


def patch_with_monkeypatch(place: Place, label: str) -> tuple[Any, Any, Callable[[], None]]:
    under, patcher = place.value(), pytest.MonkeyPatch()
    patcher.setattr(place.owner, place.name, replacement(place, label, through=True))
    return place.own(), under, patcher.undo


def patch_with_wrapt(place: Place, label: str) -> tuple[Any, Any, Callable[[], None]]:
    kept, under = place.own(), place.value()

    def wrapper(wrapped: Any, instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        log.append(label)
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(place.owner, place.name, wrapper)
    return place.own(), under, lambda: place.set(kept)


def patch_with_wraps(place: Place, label: str) -> tuple[Any, Any, Callable[[], None]]:
    kept, under = place.own(), place.value()
    place.set(replacement(place, label, through=True, wraps=True))
    return place.own(), under, lambda: place.set(kept)


def assign(place: Place, label: str) -> tuple[Any, Any, Callable[[], None]]:
    kept = place.own()
    place.set(replacement(place, label, through=False))
    return place.own(), ABSENT, lambda: place.set(kept)


PATCHERS = {
    "mock": patch_with_mock,
    "monkeypatch": patch_with_monkeypatch,
    "wrapt": patch_with_wrapt,
    "wraps": patch_with_wraps,
    "assigned": assign,
}


# Ours


@dataclass(eq=False, repr=False)
class Carrier:
    """What carries hooks: a Python function (or one mock) in place, or a proxy of ours over something."""

    target: Any
    proxy: Any = ABSENT
    place: Place | None = None  # where the proxy was put first
    inherited: bool = False
    puts: list[Put] = field(default_factory=list)
    was_open: bool = False
    # Whether theirs was in the place when ours had to go; None: either may be said
    stranded: bool | None = False
    # Whether theirs was in the place when the hooks came: then it was never ours
    never_ours: bool = False

    @property
    def open(self) -> bool:
        return any(put.on and any(not one.paused for one, _ in put.claims) for put in self.puts)


@dataclass(eq=False, repr=False)
class Put:
    """One hook on one carrier, and what its weaving claims: all calls, or those of the heir alone."""

    name: str
    claims: list[tuple[Woven, bool]] = field(default_factory=list)
    cleared: bool = False

    @property
    def on(self) -> bool:
        return bool(self.claims) and not self.cleared

    def acts(self, *, of_base: bool) -> bool:
        meant = [one for one, of_heir in self.claims if not (of_heir and of_base)]
        return self.on and any(not one.paused for one in meant)


@dataclass(eq=False, repr=False)
class Woven:
    """One weaving, as the model knows it."""

    weaving: Weaving
    puts: list[tuple[Carrier, Put]] = field(default_factory=list)
    paused: bool = False
    removed: bool = False


class Weavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.theirs: dict[int, Theirs] = {}
        self.applied: list[Theirs] = []
        self.carriers: list[Carrier] = []
        self.woven: list[Woven] = []
        self.kept: list[object] = []  # so that no identity is used twice
        self.world: World | None = None

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        log.clear()
        self.world = World.make()
        self.before = self.world.snapshot()
        everything = self.world.places
        chosen = data.draw(st.lists(st.sampled_from(everything), min_size=1, max_size=4, unique_by=id))
        # A thing is taken with all its names.
        firsts = {id(one.first) for one in chosen if one.form == "function"}
        self.places = [one for one in everything if one in chosen or id(one.first) in firsts]
        self.seen_at: dict[Place, Any] = {}

    # Who sees a call

    def carrier_of(self, value: Any) -> Carrier | None:
        """Return the carrier whose proxy this is."""
        if value is ABSENT:
            return None
        return next((one for one in self.carriers if one.proxy is value), None)

    def in_place(self, value: Any) -> Carrier | None:
        """Return what carries hooks in place in this."""
        target = inner(value)
        return next((one for one in self.carriers if one.proxy is ABSENT and one.target is target), None)

    def expected(self, value: Any, *, of_base: bool = False) -> list[str]:
        """Return what a call of this notes."""
        carrier = self.carrier_of(value)
        if carrier is not None:
            return self.noted(carrier, of_base=of_base) + self.expected(carrier.target)
        own = self.in_place(value)
        found = self.noted(own, of_base=of_base) if own is not None else []
        theirs = self.theirs.get(id(value))
        if theirs is None:
            return found
        under = [] if theirs.under is ABSENT else self.expected(theirs.under)
        return [*found, theirs.label, *under]

    def noted(self, carrier: Carrier, *, of_base: bool) -> list[str]:
        return [put.name for put in carrier.puts if put.acts(of_base=of_base)]

    # What has become of the places

    def contents(self) -> dict[Place, Any]:
        return {place: place.own() for place in self.places}

    @staticmethod
    def is_theirs(held: Any, carrier: Carrier) -> bool:
        """Whether neither our proxy is in its place nor what it stands for."""
        return held is not carrier.proxy and held is not (ABSENT if carrier.inherited else carrier.target)

    def settle(self, before: dict[Place, Any]) -> None:
        """Check a step of ours that began with this in the places."""
        for carrier in self.carriers:
            if carrier.proxy is ABSENT:
                continue
            now_open, place = carrier.open, carrier.place
            assert place is not None
            if now_open and not carrier.was_open:
                carrier.stranded = False
                carrier.never_ours = place.form == "function" and self.is_theirs(before[place], carrier)
                for one in self.places:
                    if place.form == "function":
                        assert one.own() is not carrier.target, f"{one.pointcut} was left out"
            if carrier.was_open and not now_open:
                # What was there before the hooks came has displaced nothing, so that either state may be said.
                carrier.stranded = None if carrier.never_ours else self.is_theirs(before[place], carrier)
                for one in self.places:
                    assert one.own() is not carrier.proxy, f"our proxy stayed in {one.pointcut}"
            carrier.was_open = now_open
        for place, held in before.items():
            after = place.own()
            if after is held:
                continue
            was, now = self.carrier_of(held), self.carrier_of(after)
            if was is None:
                assert now is not None, f"{place.pointcut} held {held!r}, and now {after!r}"
                assert now.open
                assert held is (ABSENT if now.inherited else now.target)
            else:
                assert not was.open
                assert after is (ABSENT if was.inherited else was.target)
        self.kept += [place.own() for place in self.places]

    # Steps of ours

    @rule(data=st.data(), which=st.sampled_from(sorted(HOOKS)))
    def put_ours(self, data: st.DataObject, which: tuple[str, str]) -> None:
        places = data.draw(st.lists(st.sampled_from(self.places), min_size=1, max_size=3, unique_by=id))
        found = [place.value() for place in places]
        self.put(which, ", ".join(one.pointcut for one in places), places, found)

    def put(self, which: tuple[str, str], target: Any, places: list[Place], found: list[Any]) -> None:
        kind, name = which
        before = self.contents()
        hook: Any = {kind: HOOKS[which]}
        woven = Woven(weave(target, **hook))
        self.woven.append(woven)
        for place, value in zip(places, found, strict=True):
            carrier = self.learn(place, value, before)
            of_heir = value is not place.first and before[place] is ABSENT and carrier.proxy is ABSENT
            if any(one is carrier and (woven, of_heir) in put.claims for one, put in woven.puts):
                continue
            put = next((one for other, one in woven.puts if other is carrier), None)
            if put is None:
                put = Put(name)
                carrier.puts.append(put)
                woven.puts.append((carrier, put))
            put.claims.append((woven, of_heir))
        self.settle(before)

    def learn(self, place: Place, value: Any, before: dict[Place, Any]) -> Carrier:
        """Return what carries the hooks that were just woven on what was in a place."""
        after = place.own()
        theirs = after is ABSENT or after is before[place] or id(after) in self.theirs
        target = inner(value)
        if theirs and isinstance(value, wrapt.FunctionWrapper) and self.carrier_of(after) is None:
            target = getattr(value, "__func__", target)  # a wrapper around a class method may be woven inside
        made = Carrier(target) if theirs else Carrier(value, after, place, before[place] is ABSENT)
        in_place = theirs and isinstance(target, (types.FunctionType, mock.NonCallableMock))
        known = self.in_place(target) if in_place else self.carrier_of(after)
        known = self.carrier_of(value) or known
        assert known is not None or in_place or not theirs, f"{place.pointcut} was woven, and nothing was put there"
        if known is not None:
            return known
        self.carriers.append(made)
        return made

    @precondition(lambda self: self.woven)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.take_off(data.draw(st.sampled_from(self.woven)))

    def take_off(self, woven: Woven) -> None:
        before = self.contents()
        woven.weaving.remove()
        woven.weaving.remove()
        self.gone(woven)
        self.settle(before)

    def gone(self, woven: Woven) -> None:
        woven.removed = True
        for _, put in woven.puts:
            put.claims = [claim for claim in put.claims if claim[0] is not woven]

    @precondition(lambda self: self.woven)
    @rule(data=st.data(), on=st.booleans())
    def pause(self, data: st.DataObject, on: bool) -> None:
        woven = data.draw(st.sampled_from(self.woven))
        before = self.contents()
        woven.weaving.pause() if on else woven.weaving.resume()
        woven.paused = on
        self.settle(before)

    @precondition(lambda self: any(put.on for one in self.carriers for put in one.puts))
    @rule(data=st.data())
    def clear(self, data: st.DataObject) -> None:
        carrier = data.draw(st.sampled_from([one for one in self.carriers if any(put.on for put in one.puts)]))
        if isinstance(carrier.target, mock.NonCallableMock) and carrier.proxy is ABSENT:
            return
        before = self.contents()
        hooks(carrier.target if carrier.proxy is ABSENT else carrier.proxy).clear()
        for put in carrier.puts:
            put.cleared = True
        self.settle(before)

    # Steps of others

    @rule(data=st.data(), how=st.sampled_from(sorted(PATCHERS)))
    def put_theirs(self, data: st.DataObject, how: str) -> None:
        place = data.draw(st.sampled_from(self.places))
        label = f"{how} {len(self.theirs)}"
        deletes = how in ("mock", "monkeypatch") and place.own() is ABSENT
        made, under, take_off = PATCHERS[how](place, label)
        theirs = Theirs(label, place, under, take_off, deletes)
        self.theirs[id(made)] = theirs
        self.kept.append(made)
        self.applied.append(theirs)
        self.touched()

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def take_theirs_off(self, data: st.DataObject) -> None:
        self.undo(data.draw(st.sampled_from(self.applied)))

    def undo(self, theirs: Theirs) -> None:
        self.applied.remove(theirs)
        if not (theirs.deletes and theirs.place.own() is ABSENT):
            theirs.take_off()
        elif theirs.label.startswith("mock"):
            with pytest.raises(AttributeError):
                theirs.take_off()
        self.touched()

    @rule(data=st.data())
    def put_the_first_back(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(self.places))
        place.set(place.first)
        self.touched()

    def touched(self) -> None:
        for carrier in self.carriers:
            place = carrier.place
            if place is not None and not carrier.open and not self.is_theirs(place.own(), carrier):
                carrier.stranded = None

    # Looking

    @rule(data=st.data())
    def call(self, data: st.DataObject) -> None:
        self.check_call(data.draw(st.sampled_from(self.places)))

    def check_call(self, place: Place) -> None:
        expected = self.expected(place.value())
        log.clear()
        assert place.call() == place.wanted
        assert sorted(log) == sorted(expected), place.pointcut
        self.touched()

    @rule()
    def call_the_base(self) -> None:
        assert self.world is not None
        for name, call in self.world.base_calls().items():
            log.clear()
            assert call() == 3
            assert log == [], f"Base.{name} is not what was woven"

    @precondition(lambda self: self.woven)
    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        self.check_state(data.draw(st.sampled_from(self.woven)))

    def check_state(self, woven: Woven) -> None:
        answers = [self.answers(carrier) for carrier in {id(one): one for one, _ in woven.puts}.values()]
        state = woven.weaving.state
        usual = {"removed"} if woven.removed else {"woven"}
        if all(put.cleared for _, put in woven.puts):
            usual = {"woven", "removed"}
        allowed: set[str] = set() if {True} in answers else usual
        if any(True in one for one in answers):
            allowed |= {"displaced"}
        assert state in allowed, [(one.place and one.place.pointcut) for one, _ in woven.puts]
        for carrier, _ in woven.puts:
            if not carrier.open:
                for place in self.places:
                    assert carrier.proxy is ABSENT or place.own() is not carrier.proxy, "reading the state heals"

    def answers(self, carrier: Carrier) -> set[bool]:
        """Whether a carrier is displaced; both: either may be said."""
        place = carrier.place
        if place is None:
            return {False}
        held = place.own()
        others = [one.own() for one in self.places if one.first is place.first and one is not place]
        elsewhere = any(id(one) in self.theirs for one in others)
        if carrier.open:
            if held is not carrier.proxy:
                return {True, False} if carrier.never_ours else {True}
            return {True, False} if any(one is not carrier.proxy for one in others) else {False}
        if not self.is_theirs(held, carrier):
            return {True, False} if elsewhere else {False}
        if carrier.stranded is None or elsewhere or id(carrier.target) in self.theirs:
            return {True, False}
        return {carrier.stranded}

    @rule()
    def collect(self) -> None:
        gc.collect(1)

    # The end

    def teardown(self) -> None:
        world = self.world
        if world is None:
            return
        try:
            self.end()
            assert world.snapshot() == self.before
        finally:
            for woven in self.woven:
                woven.weaving.remove()
            for theirs in self.applied:
                with contextlib.suppress(AttributeError):  # what it would delete is gone
                    theirs.take_off()
            world.close()
            log.clear()

    def end(self) -> None:
        """Let all go, ours and theirs by turns; what they leave behind is theirs to take away."""
        ours = [one for one in self.woven if not one.removed]
        while ours or self.applied:
            if ours:
                self.take_off(ours.pop(len(self.kept) % len(ours)))
            if self.applied:
                self.undo(self.applied[len(self.kept) % len(self.applied)])
        for place in self.places:
            self.check_call(place)
        for woven in self.woven:
            self.check_state(woven)
        for place in self.places:
            if id(place.own()) in self.theirs:
                place.set(place.first)
        for woven in self.woven:
            assert woven.weaving.state == "removed" or any(id(one.target) in self.theirs for one, _ in woven.puts)


TestWeavings = Weavings.TestCase
TestWeavings.settings = settings(stateful_step_count=15)  # as many examples as the profile says


# What the machine has found


@pytest.fixture
def world() -> Iterator[World]:
    made = World.make()
    log.clear()
    before = made.snapshot()
    yield made
    try:
        assert made.snapshot() == before
    finally:
        made.close()
        log.clear()


def place_of(world: World, name: str) -> Place:
    return next(one for one in world.places if one.pointcut.endswith((f":{name}", f".{name}")))


def seen(call: Callable[[], object]) -> list[str]:
    log.clear()
    call()
    return list(log)


PROXIED = ["root", "part", "cached", "inherited_static", "__getitem__", "update"]
A, B = HOOKS["pre", "a"], HOOKS["pre", "b"]


@pytest.mark.parametrize("name", ["function", "method"])
def test_a_wraps_wrapper_of_a_woven_function_has_one_mount_point_of_its_own(world: World, name: str) -> None:
    # functools.wraps copies the mark of the mount point, too.
    place = place_of(world, name)
    weaving = weave(place.pointcut, pre=A)
    made, _, take_off = patch_with_wraps(place, "wraps")
    first, second = weave(place.pointcut, post=B), weave(place.pointcut, post=A)
    try:
        assert first.mounts == second.mounts == (hooks(made),)
        gc.collect(1)
        assert seen(place.call) == ["wraps", "a", "b", "a"]
        first.remove()
        assert seen(place.call) == ["wraps", "a", "a"]
        second.remove()
        assert seen(place.call) == ["wraps", "a"]
    finally:
        for one in (first, second, weaving):
            one.remove()
        take_off()


@pytest.mark.parametrize("name", PROXIED)
def test_our_proxy_put_back_after_a_clean_removal_goes_when_the_state_is_read(world: World, name: str) -> None:
    place = place_of(world, name)
    weaving = weave(place.pointcut, pre=A)
    kept = place.own()
    weaving.remove()
    assert place.own() is place.first
    place.set(kept)
    try:
        assert weaving.state == "removed"
        assert place.own() is place.first
    finally:
        place.set(place.first)


@pytest.mark.parametrize("name", PROXIED)
def test_a_displaced_weaving_that_is_removed_heals_when_theirs_is_taken_off(world: World, name: str) -> None:
    place = place_of(world, name)
    weaving = weave(place.pointcut, pre=A)
    made, _, take_off = patch_with_monkeypatch(place, "theirs")
    try:
        assert weaving.state == "displaced"
        weaving.remove()
        assert place.own() is made
        assert seen(place.call) == ["theirs"]
        assert weaving.state == "displaced"
    finally:
        take_off()
    assert weaving.state == "removed"
    assert place.own() is place.first


@pytest.mark.parametrize("again", [A, B], ids=["the same hook", "another hook"])
@pytest.mark.parametrize("name", PROXIED)
def test_weaving_what_somebody_has_put_back_puts_our_proxy_there_again(world: World, name: str, again: Any) -> None:
    place = place_of(world, name)
    with weave(place.pointcut, pre=A) as first:
        place.set(place.first)
        assert first.state == "displaced"
        with weave(place.pointcut, pre=again) as second:
            assert seen(place.call)[-1] == ("a" if again is A else "b")
            assert second.state == "woven"
        place.set(place.first)
    assert first.state == "removed"


@pytest.mark.parametrize("name", ["inherited", "inherited_make"])
def test_a_glob_over_classes_hooks_what_one_inherits_from_another_once(world: World, name: str) -> None:
    # The class that defines it is meant, and the one that inherits it: one call, one hook.
    with weave(f"{world.module.__name__}:*.{name}", pre=A):
        assert seen(place_of(world, name).call) == ["a"]
        assert seen(world.base_calls()[name]) == ["a"]


@pytest.mark.parametrize("name", ["inherited", "inherited_make", "inherited_static"])
def test_weaving_a_wrapt_wrapper_of_what_is_inherited_leaves_the_base_alone(world: World, name: str) -> None:
    place = place_of(world, name)
    _, _, take_off = patch_with_wrapt(place, "wrapt")
    try:
        with weave(place.pointcut, pre=A):
            assert sorted(seen(place.call)) == ["a", "wrapt"]
            assert seen(world.base_calls()[name]) == []
    finally:
        take_off()
