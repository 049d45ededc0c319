"""Events beside a list and a loop, blinker's signals and pluggy's hook calls: emitting, subscribing, memory.

Each library is used as its own documentation shows. Subscribers do nothing; before a rival is timed, subscribers that
note what they are told make sure that all rivals do the same work. What they do beside differs: blinker calls in no
certain order and gives pairs of receiver and answer; pluggy calls the last one first, and takes arguments by keyword
alone; a list and a loop does nothing else at all.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import blinker
import pluggy

from aspecthook import event, hooks, on
from aspecthook.plugins import Plugins

from . import targets
from .contenders import impl, spec
from .results import OURS, Contest, Goal
from .targets import Function
from .timing import Contender, Effort, race, repeated, shots

HAND = "by hand"
LOOP = "a list and a loop"
CELSIUS = 20.0
ASYNC_DEF = "async def"
BATCH = 20  # how often a statement stands in one run of asyncio's loop
MANY = 200


_numbers = count(1)


@dataclass(frozen=True)
class Rival:
    """An emitter: the statement that emits and the names in it, how to subscribe and unsubscribe, what for.

    A subscriber is made of a function with the parameters `asks`. A call gives all answers, one of them, or none.
    """

    statement: str
    names: dict[str, Any]
    put: Callable[[Any], object]
    take: Callable[[Any], object]
    asks: str = "celsius"
    lead: str = "def"
    gives: str = "all"
    made: Callable[[Function], object] = lambda function: function


Rivals = dict[str, Callable[[], Rival]]


def events(effort: Effort) -> list[Contest]:
    """Emit to 0, 1 and 10 subscribers, of each sort of event; subscribe and unsubscribe; what it takes in memory."""
    return [
        *(_contest("emit", EMIT, number, effort, _goals(number)) for number in (0, 1, 10)),
        *(_contest("of an instance", OF_INSTANCE, number, effort) for number in (1, 10)),
        *(_contest("async", ASYNC, number, effort) for number in (1, 10)),
        *(_contest("plugins", PLUGINS, number, effort) for number in (1, 10)),
        *_subscribing(effort),
        _first(effort),
        *_memory(),
    ]


def _goals(number: int) -> list[Goal]:
    goals = [Goal("pluggy", 8, OURS, at_least=True)]
    if number == 0:
        goals.append(Goal(OURS, 0.5, "blinker"))
    if number == 10:
        goals.append(Goal("blinker", 5, OURS, at_least=True))
    return goals


def _contest(
    what: str, rivals: Rivals, number: int, effort: Effort, goals: Iterable[Goal] = (), *, looped: bool = False
) -> Contest:
    contenders: list[Contender] = []
    for name, make in rivals.items():
        _check(name, make, number)
        rival = make()
        kept = [_subscriber(rival) for _ in range(number)]
        for one in kept:
            rival.put(one)
        # Some hold their subscribers weakly, so they are kept.
        chosen = _looped if looped else Contender
        contenders.append(chosen(name, rival.statement, rival.names | {"kept": kept}))
    title = f"{what}, {number} subscriber{'s' if number != 1 else ''}"
    return Contest("events", title, "ns", race(contenders, effort), next(iter(rivals)), [*goals])


def _subscriber(rival: Rival) -> object:
    """Make one that does nothing, with code of its own."""
    source = f"{rival.lead} silent_{next(_numbers)}({rival.asks}):\n    pass\n"
    return rival.made(targets.define(source))


# Checking that all rivals do the same


def _check(name: str, make: Callable[[], Rival], number: int) -> None:
    """See that each subscriber is told once, that the answers are what they should be, and that all come off."""
    told: list[tuple[int, object]] = []
    for answering in (False, True):
        rival = make()
        spies = [rival.made(_spy(rival, place, told, answering=answering)) for place in range(number)]
        for one in spies:
            rival.put(one)
        told.clear()
        given = _emitted(rival)
        for one in spies:
            rival.take(one)
        if not answering and sorted(told) != [(place, CELSIUS) for place in range(number)]:
            raise AssertionError(f"{name} told {told}")
        if answering and not _is_right(rival, given, list(range(number))):
            raise AssertionError(f"{name} makes {given!r} of its answers")
        told.clear()
        _emitted(rival)
        if told:
            raise AssertionError(f"{name} told {told} after all were taken off")


def _spy(rival: Rival, place: int, told: list[tuple[int, object]], *, answering: bool) -> Any:
    def note(value: object) -> int | None:
        told.append((place, value))
        return place if answering else None

    name, last = f"spy_{next(_numbers)}", rival.asks.rpartition(" ")[2]
    spy = targets.define(f"{rival.lead} {name}({rival.asks}):\n    return {name}.note({last})\n")
    spy.note = note
    return spy


def _is_right(rival: Rival, given: Any, places: list[int]) -> bool:
    if rival.gives == "all":
        return sorted(one[1] if isinstance(one, tuple) else one for one in given) == places
    return given in (places if rival.gives == "one" and places else [None, CELSIUS])


def _emitted(rival: Rival) -> Any:
    given = eval(rival.statement.removeprefix("await "), dict(rival.names))
    return _loop().run_until_complete(given) if rival.statement.startswith("await ") else given


# Written by hand

KEEPING = "answer = {call}\n    if answer is not None:\n        answers.append(answer)\n"
LOOPING = "    for listener in {name}.listeners:\n        listener(celsius)\n"
LOOPING_AND_KEEPING = """    answers = []
    for listener in {name}.listeners:
        answer = listener(celsius)
        if answer is not None:
            answers.append(answer)
    return answers
"""


def _written_out(*, keeping: bool = False, lead: str = "def") -> Rival:
    """Call the subscribers one after another: the floor. With `keeping`, give their answers, as an event does."""
    wait = "await " if lead == ASYNC_DEF else ""
    names: dict[str, Any] = {}
    listeners: list[Any] = []

    def write() -> None:
        calls = [f"{wait}{one.__name__}(celsius)\n" for one in listeners]
        lines = ["answers = []\n"] if keeping else []
        lines += [KEEPING.format(call=call.strip()) for call in calls] if keeping else calls
        body = "    ".join(["", *lines, "return answers\n" if keeping else "pass\n"])
        names["f"] = targets.define(f"{lead} direct_{next(_numbers)}(celsius):\n{body}")

    def put(one: Any) -> None:
        listeners.append(one)
        write()

    def take(one: Any) -> None:
        listeners.remove(one)
        write()

    write()
    return Rival(f"{wait}f(20.0)", names, put, take, lead=lead, gives="all" if keeping else "none")


def _list_and_loop(body: str = LOOPING) -> Rival:
    """Do what people write; the list is an attribute of the function."""
    name = f"loop_{next(_numbers)}"
    function = targets.define(f"def {name}(celsius):\n{body.format(name=name)}")
    function.listeners = []
    gives = "none" if body is LOOPING else "all"
    return Rival("f(20.0)", {"f": function}, function.listeners.append, function.listeners.remove, gives=gives)


def _loop_of_object() -> Rival:
    name = f"Sensor{next(_numbers)}"
    loop = "".join(f"    {line}\n" for line in LOOPING.format(name="self").splitlines())
    sensor = targets.define(f"class {name}:\n    def changed(self, celsius):\n{loop}")()
    sensor.listeners = []
    return Rival("o.changed(20.0)", {"o": sensor}, sensor.listeners.append, sensor.listeners.remove, gives="none")


# The libraries


def _stub(asks: str = "celsius", lead: str = "def") -> Any:
    return targets.define(f"{lead} event_{next(_numbers)}({asks}): ...\n")


def _ours(*, weak: bool = False, gives: str = "all", **options: Any) -> Rival:
    """Look at every answer, and run the chain as it is at the moment of the call."""
    emit: Any = event(**options)(_stub())
    put = partial(emit.on, weak=True) if weak else emit.on
    return Rival("f(20.0)", {"f": emit}, put, hooks(emit).remove, gives=gives)


def _methods(rival: Rival) -> Rival:
    """Make each subscriber a bound method, of an object of a class of its own."""
    return replace(rival, asks=f"self, {rival.asks}", made=lambda method: _instance(method).method)


def _instance(method: Function) -> Any:
    return type(f"Listener{next(_numbers)}", (), {"method": method})()


def _ours_by_handle() -> Rival:
    emit: Any = event(_stub())
    mount = hooks(emit)
    handles: list[Any] = []
    return Rival(
        "f(20.0)", {"f": emit}, lambda one: handles.append(mount.add("on", one)), lambda _: handles.pop().remove()
    )


def _blinker(*, weak: bool = True) -> Rival:
    """Send without a sender, which is as fast as it gets."""
    signal = blinker.Signal()
    put = partial(signal.connect, weak=weak)
    return Rival("f(celsius=20.0)", {"f": signal.send}, put, signal.disconnect, asks="sender, celsius")


class Spec:
    """What pluggy's plugins may implement."""

    @spec
    def changed(self, celsius: float) -> None:
        """Receive a new reading."""

    @spec(firstresult=True)
    def asked(self, celsius: float) -> None:
        """Receive, until one answers."""

    @spec
    def sold(self, item: str, price: float) -> None:
        """Receive something sold."""


def _manager() -> Any:
    manager = pluggy.PluginManager("benchmarks")
    manager.add_hookspecs(Spec)
    return manager


def _pluggy(hook: str = "changed", gives: str = "all") -> Rival:
    manager = _manager()
    return Rival(
        "f(celsius=20.0)",
        {"f": getattr(manager.hook, hook)},
        manager.register,
        manager.unregister,
        asks="self, celsius",
        gives=gives,
        made=lambda method: _instance(impl(method, specname=hook)),
    )


EMIT: Rivals = {
    HAND: _written_out,
    f"{HAND}, keeping answers": partial(_written_out, keeping=True),
    LOOP: _list_and_loop,
    f"{LOOP}, keeping answers": partial(_list_and_loop, LOOPING_AND_KEEPING),
    OURS: _ours,
    f"{OURS}, first=True": partial(_ours, gives="one", first=True),
    f"{OURS}, fold=": partial(_ours, gives="one", fold="celsius"),
    f'{OURS}, errors="group"': partial(_ours, errors="group"),
    f"{OURS}, weak=True": partial(_ours, weak=True),
    f"{OURS}, weak=True, methods": lambda: _methods(_ours(weak=True)),
    "blinker": _blinker,
    "blinker, methods": lambda: _methods(_blinker()),
    "blinker, weak=False": partial(_blinker, weak=False),
    "pluggy": _pluggy,
    "pluggy, firstresult": partial(_pluggy, "asked", "one"),
}


# Events of instances


def _sensors() -> tuple[Any, Any]:
    """Make a class with an event, and give two instances."""
    cls = targets.define(f"class Sensor{next(_numbers)}:\n    def changed(self, celsius): ...\n")
    event(cls.changed)
    return cls(), cls()


def _ours_of_class(*, others: int = 0) -> Rival:
    """Listen to all instances; with `others`, so many listen to another instance alone."""
    sensor, other = _sensors()
    for _ in range(others):
        hooks(other.changed).on(targets.hook("celsius"))
    changed = type(sensor).changed
    return Rival("o.changed(20.0)", {"o": sensor, "other": other}, changed.on, hooks(changed).remove)


def _ours_of_instance() -> Rival:
    sensor, _ = _sensors()
    mount = hooks(sensor.changed)
    return Rival("o.changed(20.0)", {"o": sensor}, mount.on, mount.remove)


def _blinker_sender() -> Rival:
    signal, (sensor, _) = blinker.Signal(), _sensors()
    return Rival(
        "s.send(o, celsius=20.0)",
        {"s": signal, "o": sensor},
        partial(signal.connect, sender=sensor),
        signal.disconnect,
        asks="sender, celsius",
    )


OF_INSTANCE: Rivals = {
    LOOP: _loop_of_object,
    f"{OURS}, of the class": _ours_of_class,
    f"{OURS}, of the instance": _ours_of_instance,
    f"{OURS}, of the class; 10 of another": partial(_ours_of_class, others=10),
    "blinker, sender=": _blinker_sender,
}


# Async events. No subscriber waits for anything: what is timed is what emitting adds.


def _ours_async(*, lead: str = ASYNC_DEF) -> Rival:
    emit: Any = event(_stub(lead=ASYNC_DEF))
    return Rival("await f(20.0)", {"f": emit}, emit.on, hooks(emit).remove, lead=lead)


def _blinker_async(*, lead: str = ASYNC_DEF) -> Rival:
    signal = blinker.Signal()
    wrapped = "" if lead == ASYNC_DEF else ", _sync_wrapper=w"
    return Rival(
        f"await f(celsius=20.0{wrapped})",
        {"f": signal.send_async, "w": _made_async},
        signal.connect,
        signal.disconnect,
        asks="sender, celsius",
        lead=lead,
    )


def _made_async(function: Function) -> Function:
    """Make an async function of one that is not, as blinker's documentation does."""

    async def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


ASYNC: Rivals = {
    HAND: partial(_written_out, lead=ASYNC_DEF),
    OURS: _ours_async,
    f"{OURS}, sync subscribers": partial(_ours_async, lead="def"),
    "blinker": _blinker_async,
    "blinker, sync subscribers, wrapped": partial(_blinker_async, lead="def"),
}


_loops: list[asyncio.AbstractEventLoop] = []


def _loop() -> asyncio.AbstractEventLoop:
    if not _loops:
        _loops.append(asyncio.new_event_loop())
    return _loops[0]


def _looped(name: str, statement: str, names: dict[str, Any]) -> Contender:
    """Run a statement in a loop of asyncio, so many times a run that starting it no longer shows."""
    given = ", ".join(names)
    batch = targets.define(f"async def batch_{next(_numbers)}({given}):\n" + f"    {statement}\n" * BATCH)
    return Contender(name, f"run(batch({given}))", {"run": _loop().run_until_complete, "batch": batch, **names}, BATCH)


# Plugins


def _our_host() -> Rival:
    cls = targets.define(f"class Shop{next(_numbers)}:\n    def sold(self, item, price): ...\n")
    event(cls.sold)
    shop = cls()
    plugins = Plugins(shop)
    return Rival(
        'o.sold("tea", 20.0)',
        {"o": shop},
        plugins.register,
        plugins.unregister,
        asks="self, item, price",
        made=lambda method: _instance(on("sold")(method)),
    )


def _pluggy_host() -> Rival:
    manager = _manager()
    return Rival(
        'm.hook.sold(item="tea", price=20.0)',
        {"m": manager},
        manager.register,
        manager.unregister,
        asks="self, item, price",
        made=lambda method: _instance(impl(method, specname="sold")),
    )


PLUGINS: Rivals = {OURS: _our_host, "pluggy": _pluggy_host}


# Subscribing

SUBSCRIBE: Rivals = {
    LOOP: _list_and_loop,
    OURS: _ours,
    f"{OURS}, by its handle": _ours_by_handle,
    f"{OURS}, weak=True": partial(_ours, weak=True),
    f"{OURS}, of an instance": _ours_of_instance,
    f"{OURS}, a plugin": _our_host,
    "blinker": _blinker,
    "pluggy": _pluggy,
}
OTHERS = (0, 10)


def _subscribing(effort: Effort) -> list[Contest]:
    """Subscribe and unsubscribe one beside others; and with a call after each, which ours needs to link its chain."""
    acts: dict[str, Callable[[], object]] = {}
    rows: dict[str, list[str]] = {name: [] for name in SUBSCRIBE}
    for others in OTHERS:
        for name, make in SUBSCRIBE.items():
            _check(name, make, others)
            for what, act in _acts(make(), others).items():
                rows[name].append(f"{others} others: {what}")
                acts[f"{name}: {rows[name][-1]}"] = act
    times = repeated(acts, effort)
    goals = {OURS: [Goal(row, 10e-6) for row in rows[OURS] if row.endswith("on, off")]}
    return [
        Contest(
            "events", name, "µs", {what: times[f"{name}: {what}"] for what in row}, goals=goals.get(name, []), wide=True
        )
        for name, row in rows.items()
    ]


def _acts(rival: Rival, others: int) -> dict[str, Callable[[], object]]:
    *kept, one = [_subscriber(rival) for _ in range(others + 1)]
    for other in kept:
        rival.put(other)
    put, take = rival.put, rival.take
    emit: Callable[[], object] = eval(f"lambda: {rival.statement}", rival.names | {"kept": kept})

    def plain() -> None:
        put(one)
        take(one)

    def emitting() -> None:
        put(one)
        emit()
        take(one)
        emit()

    return {"on, off": plain, "with emits": emitting}


def _first(effort: Effort) -> Contest:
    """Make an event; subscribe for the first time and emit: where nothing of such a shape was seen yet, and later."""
    prepared: dict[str, Callable[[], Callable[[], object]]] = {
        "blinker": lambda: _start(_blinker()),
        "pluggy": lambda: _start(_pluggy()),
        OURS: lambda: _start(_ours()),
        f"{OURS}, a new shape": _new_shape,
        f"{OURS}, @event alone": lambda: partial(event, _stub()),
    }
    return Contest("events", "subscribe for the first time, emit", "µs", shots(prepared, effort.rounds), "blinker")


def _start(rival: Rival) -> Callable[[], object]:
    one = _subscriber(rival)
    emit = eval(f"lambda: {rival.statement}", dict(rival.names))

    def start() -> None:
        rival.put(one)
        emit()

    return start


def _new_shape() -> Callable[[], object]:
    name = f"celsius_{next(_numbers)}"
    emit: Any = event(_stub(name))
    return _start(Rival("f(20.0)", {"f": emit}, emit.on, hooks(emit).remove, asks=name))


# Memory

KEPT: Rivals = {
    LOOP: _list_and_loop,
    OURS: _ours,
    f"{OURS}, weak=True": partial(_ours, weak=True),
    f"{OURS}, of an instance": _ours_of_instance,
    "blinker": _blinker,
    "blinker, weak=False": partial(_blinker, weak=False),
    "pluggy": _pluggy,
}


def _memory() -> list[Contest]:
    """Return the bytes that a subscriber takes, itself left out, on an event that has been emitted since."""
    on_one = f"{MANY} on one"
    sizes = {"1 on each": (MANY, 1), "10 on each": (MANY // 10, 10), on_one: (1, MANY)}
    return [
        Contest(
            "events",
            name,
            "bytes",
            {what: [_grown(make, emitters, each) / MANY] for what, (emitters, each) in sizes.items()},
            goals=[Goal(on_one, 600)] if name == OURS else [],
            wide=True,
        )
        for name, make in KEPT.items()
    ]


def _grown(make: Callable[[], Rival], emitters: int, each: int) -> int:
    """Count what tracemalloc sees of subscribing and emitting once."""
    first, *rest = [
        (rival, [_subscriber(rival) for _ in range(each)]) for rival in (make() for _ in range(emitters + 1))
    ]
    _fill(*first)  # what is made once for all, such as a shape's template, is nobody's share
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for rival, row in rest:
            _fill(rival, row)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def _fill(rival: Rival, row: list[object]) -> None:
    for one in row:
        rival.put(one)
    _emitted(rival)
