"""blinker against its documentation: who hears a sender, connecting and disconnecting, muting, weak receivers."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from blinker import ANY, Signal
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from .beside import BesidePeer, peer_test, story_of
from .refute import FEW, PeerMachine, holds, refuted

TEMPORARILY = "connected_to temporarily connects the receiver while a with block executes"
MUTED = "muted: no receivers will be called if the signal is sent, until the with block exits"
HAS = "has_receivers_for: there is at least one receiver that will be called with the given sender"
QUICK = "receivers: quickly check if any receivers are connected"
STRONG = "weak=False tracks the receiver without a weak reference"

SENDERS = ("ann", "bob")
NUMBERS = st.integers(0, 2)
WHERE = st.sampled_from([ANY, *SENDERS])


def receiver_of(number: int) -> Callable[..., int]:
    """Return a receiver that answers its number; it is new, so nothing else keeps it alive."""
    return lambda sender: number


class BlinkerMachine(PeerMachine):
    """Receivers connect, disconnect, die and are muted; the model is a set of connections.

    What a send gives is compared as a set: the documentation promises no order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.signal = Signal()
        self.functions: dict[int, Callable[..., int]] = {number: receiver_of(number) for number in range(3)}
        self.connections: set[tuple[int, Any]] = set()
        self.weak: dict[int, bool] = {}  # the receivers that blinker knows
        self.touched: set[Any] = set()  # the senders that blinker keeps an empty set for

    def hearing(self, sender: Any) -> set[int]:
        return {number for number, where in self.connections if where in (ANY, sender)}

    # Connecting

    @rule(number=NUMBERS, where=WHERE, weak=st.booleans())
    def connect(self, number: int, where: Any, weak: bool) -> None:
        assert self.signal.connect(self.functions[number], where, weak) is self.functions[number]
        self.connected(number, where, weak)

    def connected(self, number: int, where: Any, weak: bool) -> None:
        self.connections.add((number, where))
        self.touched.add(where)
        believed = self.believes(STRONG) and not self.weak.get(number, True)
        self.weak[number] = weak and not believed  # the last connection decides for all of them

    @rule(number=NUMBERS, where=WHERE)
    def disconnect(self, number: int, where: Any) -> None:
        self.signal.disconnect(self.functions[number], where)
        self.disconnected(number, where)

    @precondition(lambda self: self.connections)
    @rule(place=st.integers(0, 8))
    def disconnect_what_is_connected(self, place: int) -> None:
        number, where = sorted(self.connections, key=repr)[place % len(self.connections)]
        self.disconnect(number, where)

    def disconnected(self, number: int, where: Any) -> None:
        """From ANY means from all senders; from one sender leaves a connection to ANY as it is."""
        if where is ANY:
            self.weak.pop(number, None)
        else:
            self.touched.add(where)
        self.connections = {one for one in self.connections if one[0] != number or where not in (ANY, one[1])}

    @rule(number=NUMBERS, where=WHERE, sender=st.sampled_from(SENDERS))
    def connect_for_a_block(self, number: int, where: Any, sender: Any) -> None:
        connections, weak = set(self.connections), dict(self.weak)
        with self.signal.connected_to(self.functions[number], where):
            self.connected(number, where, weak=False)
            self.send(sender)
        self.disconnected(number, ANY)
        if self.believes(TEMPORARILY):  # then the receiver is connected as it was before the block
            self.connections = connections
            self.weak.update({one: how for one, how in weak.items() if one == number})
        self.send(sender)

    @rule(number=NUMBERS)
    def forget_a_receiver(self, number: int) -> None:
        """A weakly connected receiver that nobody else holds is disconnected; a strongly connected one is not."""
        found = weakref.ref(self.functions.pop(number))  # its last reference: no collection is needed
        alive = found()
        assert (alive is None) is self.weak.get(number, True)
        self.functions[number] = alive or receiver_of(number)
        if alive is None:
            self.disconnected(number, ANY)

    # Sending and asking

    @rule(sender=st.sampled_from([None, "eve", *SENDERS]))
    def send(self, sender: Any, muted: bool = False) -> None:
        expected = set() if muted else self.hearing(sender)
        results = self.signal.send(sender)
        assert {answer for _, answer in results} == expected
        assert len(results) == len(expected)
        assert all(function is self.functions[answer] for function, answer in results)

    @rule(depth=st.integers(1, 2), sender=st.sampled_from(SENDERS))
    def send_in_muted_blocks(self, depth: int, sender: Any) -> None:
        """The first block that ends ends them all."""
        blocks = [self.signal.muted() for _ in range(depth)]
        for block in blocks:
            block.__enter__()
        self.send(sender, muted=True)
        for left in reversed(range(depth)):
            blocks[left].__exit__(None, None, None)
            self.send(sender, muted=left > 0 and self.believes(MUTED))

    @rule(sender=st.sampled_from(SENDERS))
    def ask_for_receivers_of(self, sender: Any) -> None:
        answer = self.signal.has_receivers_for(sender)
        if self.believes(HAS):
            assert answer is bool(self.hearing(sender))
        else:
            assert answer is (bool(self.weak) and (bool(self.hearing(ANY)) or sender in self.touched))

    @rule()
    def ask_for_any_receiver(self) -> None:
        assert bool(self.signal.receivers) is bool(self.connections if self.believes(QUICK) else self.weak)


TestBlinkerMachine = holds(BlinkerMachine)


# What the machine found


@pytest.mark.parametrize("claim", [TEMPORARILY, MUTED, HAS, QUICK, STRONG])
def test_the_machine_refutes_in_a_few_steps(claim: str) -> None:
    assert len(refuted(BlinkerMachine, claim)) <= FEW


def hears(signal: Signal, sender: Any = None) -> list[Any]:
    return [answer for _, answer in signal.send(sender)]


def test_after_a_disconnect_from_its_only_sender_a_signal_still_says_that_it_has_receivers() -> None:
    signal, receiver = Signal(), receiver_of(1)
    signal.connect(receiver, sender="ann")
    signal.disconnect(receiver, sender="ann")
    assert hears(signal, "ann") == []
    assert signal.receivers
    assert signal.has_receivers_for("ann")


@pytest.mark.parametrize("zero", [0, False])
def test_a_receiver_connected_to_the_sender_0_is_refused_by_an_assertion_and_then_hears_everybody(zero: int) -> None:
    signal, receiver = Signal(), receiver_of(1)
    with pytest.raises(AssertionError):
        signal.connect(receiver, sender=zero)
    assert hears(signal, "anybody") == [1]


def test_senders_that_are_equal_numbers_or_strings_are_one_sender_and_others_are_told_apart_by_identity() -> None:
    signal, receiver = Signal(), receiver_of(1)
    signal.connect(receiver, sender=1)
    assert hears(signal, True) == [1]
    assert hears(signal, 1.0) == []


class Ordered(dict[Any, None]):
    """A set that keeps the order of insertion, as much of one as a signal needs."""

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)

    def copy(self) -> Ordered:
        return Ordered(self)

    def __or__(self, other: Any) -> Ordered:
        return Ordered({**self, **other})


class OrderedSignal(Signal):
    set_class = Ordered  # type: ignore[assignment]


class BlinkerOrder(BesidePeer):
    """A signal with an ordered set: first the receivers of any sender, then those of the one."""

    members: ClassVar[dict[str, dict[str, Any]]] = {"any_a": {}, "any_b": {}, "ann_a": {}, "ann_b": {}}

    def start(self) -> None:
        self.signal = OrderedSignal()

    def join(self, name: str) -> Any:
        def receiver(sender: Any) -> None:
            self.ran.append(name)

        return self.signal.connect(receiver, ANY if name.startswith("any") else "ann", weak=False)

    def leave(self, joined: Any) -> None:
        self.signal.disconnect(joined)

    def act(self) -> None:
        self.signal.send("ann")

    def documented(self, names: list[str]) -> None:
        self.ran.extend(sorted(names, key=lambda name: name.startswith("ann")))


class BlinkerInOrderOfConnecting(BlinkerOrder):
    """set_class: receivers must be dispatched in the order they were connected."""

    def documented(self, names: list[str]) -> None:
        self.ran.extend(names)


TestBlinkerOrder = peer_test(BlinkerOrder)


def test_with_an_ordered_set_the_receivers_of_any_sender_still_go_before_those_of_one() -> None:
    steps = ["state.add('pre ann_a')", "state.add('pre any_a')"]
    assert story_of(BlinkerInOrderOfConnecting).splitlines()[:-2] == steps


def test_exception_of_a_receiver_ends_the_send_and_loses_the_answers_so_far() -> None:
    signal, ran = OrderedSignal(), list[str]()

    def first(sender: Any) -> None:
        ran.append("first")

    def second(sender: Any) -> None:
        raise LookupError

    def third(sender: Any) -> None:
        ran.append("third")

    for receiver in (first, second, third):
        signal.connect(receiver)
    with pytest.raises(LookupError):
        signal.send()
    assert ran == ["first"]


@pytest.mark.parametrize(("where", "heard"), [(ANY, ["first"]), ("ann", ["first", "second"])])
def test_a_receiver_disconnected_in_a_send_still_hears_it_only_if_it_was_disconnected_from_one_sender(
    where: Any, heard: list[str]
) -> None:
    signal, ran = OrderedSignal(), list[str]()

    def first(sender: Any) -> None:
        ran.append("first")
        signal.disconnect(second, where)

    def second(sender: Any) -> None:
        ran.append("second")

    for receiver in (first, second):
        signal.connect(receiver, sender="ann")
    signal.send("ann")
    assert ran == heard


def test_a_receiver_connected_in_a_send_is_first_called_by_the_next() -> None:
    signal, ran = OrderedSignal(), list[str]()

    def second(sender: Any) -> None:
        ran.append("second")

    def first(sender: Any) -> None:
        ran.append("first")
        signal.connect(second)

    signal.connect(first)
    signal.send()
    assert ran == ["first"]
    signal.send()
    assert ran == ["first", "first", "second"]
