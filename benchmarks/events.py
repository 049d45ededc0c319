"""Events beside a list and a loop, blinker's signals and pluggy's hook calls: emitting, subscribing, memory.

Each library is used as its own documentation shows, and subscribers do nothing. What the libraries do beside differs:
blinker calls in no certain order and gives pairs of receiver and answer; pluggy calls the last one first, and takes
arguments by keyword alone; a list and a loop does nothing else at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import blinker
import pluggy

from aspecthook import event, hooks

from . import targets
from .contenders import impl, spec
from .results import OURS, Contest, Goal
from .targets import Function
from .timing import Contender, Effort, grown, race, repeated

HAND = "by hand"
LOOP = "a list and a loop"
MANY = 200

_numbers = count(1)


@dataclass(frozen=True)
class Rival:
    """An emitter: the statement that emits, the function in it, and how to subscribe and unsubscribe."""

    statement: str
    emit: Any
    put: Callable[[Any], object]
    take: Callable[[Any], object]
    asks: str = "celsius"  # the parameters of a subscriber
    made: Callable[[Function], object] = lambda function: function

    def subscriber(self) -> object:
        """Make one that does nothing, with code of its own."""
        return self.made(targets.define(f"def silent_{next(_numbers)}({self.asks}):\n    pass\n"))


Rivals = dict[str, Callable[[], Rival]]


def events(effort: Effort) -> list[Contest]:
    """Emit to 0, 1 and 10 subscribers, of each sort of event; subscribe and unsubscribe; what it takes in memory."""
    return [*(_emitting(number, effort) for number in (0, 1, 10)), _subscribing(effort), _memory()]


def _emitting(number: int, effort: Effort) -> Contest:
    contenders: list[Contender] = []
    for name, make in EMIT.items():
        rival = make()
        kept = [rival.subscriber() for _ in range(number)]
        for one in kept:
            rival.put(one)
        # Some hold their subscribers weakly, so they are kept.
        contenders.append(Contender(name, rival.statement, {"f": rival.emit, "kept": kept}))
    goals = [Goal("pluggy", 8, OURS, at_least=True)]
    if number == 0:
        goals.append(Goal(OURS, 0.5, "blinker"))
    if number == 10:
        goals.append(Goal("blinker", 5, OURS, at_least=True))
    title = f"emit, {number} subscriber{'s' if number != 1 else ''}"
    return Contest("events", title, "ns", race(contenders, effort), HAND, goals)


# The rivals


class Written:
    """Calls its subscribers one after another, written out again whenever they change: the floor."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.write()

    def write(self) -> None:
        calls = "".join(f"    {one.__name__}(celsius)\n" for one in self.listeners) or "    pass\n"
        self.function = targets.define(f"def direct_{next(_numbers)}(celsius):\n{calls}")

    def put(self, one: Any) -> None:
        self.listeners.append(one)
        self.write()


def _by_hand() -> Rival:
    written = Written()
    return Rival("f.function(20.0)", written, written.put, written.listeners.remove)


def _list_and_loop() -> Rival:
    """Do what people write; the list is an attribute of the function."""
    name = f"loop_{next(_numbers)}"
    loop = f"def {name}(celsius):\n    for listener in {name}.listeners:\n        listener(celsius)\n"
    function = targets.define(loop)
    function.listeners = []
    return Rival("f(20.0)", function, function.listeners.append, function.listeners.remove)


def _ours(**options: Any) -> Rival:
    """Look at every answer, and run the chain as it is at the moment of the call."""
    emit: Any = event(**options)(targets.define(f"def event_{next(_numbers)}(celsius): ...\n"))
    return Rival("f(20.0)", emit, emit.on, hooks(emit).remove)


def _blinker() -> Rival:
    """Send without a sender, which is as fast as it gets."""
    signal = blinker.Signal()
    return Rival("f(celsius=20.0)", signal.send, signal.connect, signal.disconnect, asks="sender, celsius")


class Spec:
    """What pluggy's plugins may implement."""

    @spec
    def changed(self, celsius: float) -> None:
        """Receive a new reading."""


def _pluggy() -> Rival:
    manager = pluggy.PluginManager("benchmarks")
    manager.add_hookspecs(Spec)

    def made(method: Function) -> object:
        return type(f"Listener{next(_numbers)}", (), {"method": impl(method, specname="changed")})()

    emit = manager.hook.changed
    return Rival("f(celsius=20.0)", emit, manager.register, manager.unregister, asks="self, celsius", made=made)


EMIT: Rivals = {
    HAND: _by_hand,
    LOOP: _list_and_loop,
    OURS: _ours,
    f"{OURS}, first=True": partial(_ours, first=True),
    f"{OURS}, fold=": partial(_ours, fold="celsius"),
    "blinker": _blinker,
    "pluggy": _pluggy,
}
SUBSCRIBE: Rivals = {LOOP: _list_and_loop, OURS: _ours, "blinker": _blinker, "pluggy": _pluggy}


def _subscribing(effort: Effort) -> Contest:
    """Subscribe and unsubscribe one, beside none and beside ten others."""
    acts: dict[str, Callable[[], object]] = {}
    for name, make in SUBSCRIBE.items():
        for others in (0, 10):
            acts[f"{name}, {others} others"] = _coming_and_going(make(), others)
    goals = [Goal(f"{OURS}, {others} others", 8e-6) for others in (0, 10)]
    return Contest("events", "a subscriber comes and goes", "µs", repeated(acts, effort), goals=goals)


def _coming_and_going(rival: Rival, others: int) -> Callable[[], object]:
    *kept, one = [rival.subscriber() for _ in range(others + 1)]
    for other in kept:
        rival.put(other)

    def act(kept: object = kept) -> None:
        rival.put(one)
        rival.take(one)

    return act


def _memory() -> Contest:
    """Return the bytes that one of many subscribers takes, itself left out, on an event that has been emitted since."""

    def each(rival: Rival) -> float:
        row = [rival.subscriber() for _ in range(MANY)]

        def subscribe() -> None:
            for one in row:
                rival.put(one)
            eval(rival.statement, {"f": rival.emit})

        return grown(subscribe) / MANY

    times = {name: [each(make())] for name, make in SUBSCRIBE.items()}
    return Contest("events", f"each of {MANY} subscribers", "bytes", times, goals=[Goal(OURS, 600)])
