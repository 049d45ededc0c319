"""The tape: what was called, in which order, inside which; and that recording changes nothing."""

from __future__ import annotations

import gc

import pytest

from aspecthook import weave
from aspecthook.record import Tape
from tests.shop import Declined, charge, checkout, price


class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)
        return self


def prices(n):
    for qty in range(n):
        got = yield price("tea", qty)
        assert got in (None, "sent")
    return "end"


@pytest.fixture
def tape():
    with Tape() as made:
        yield made


def shape(tape):
    return [(call.name, call.depth) for call in tape]


def test_calls_are_in_the_order_in_which_they_began_with_what_was_given_and_what_came_of_it(tape):
    tape.record(checkout).record(price).record(charge)
    checkout(["tea", "rice"])
    assert shape(tape) == [("checkout", 0), ("price", 1), ("price", 1), ("charge", 1)]
    assert tape.calls()[1].arguments == {"item": "tea", "qty": 1}
    assert [call.result for call in tape] == ["paid", 2.5, 2.5, "paid"]
    assert tape.calls()[1].parent is tape.calls()[0] and all(call.ended for call in tape)
    assert tape.last is tape.calls()[3] and len(tape) == 4


def test_the_drawing_shows_who_called_whom_and_what_came_of_it(tape):
    tape.record(checkout).record(price).record(charge)
    checkout(["tea"])
    with pytest.raises(Declined):
        charge(101)
    assert tape.lines(times=False) == [
        "checkout(items=['tea']) -> 'paid'",
        "  price(item='tea', qty=1) -> 2.5",
        "  charge(amount=2.5) -> 'paid'",
        "charge(amount=101) raised Declined: 101",
    ]


def test_a_method_is_named_with_its_class_and_found_by_the_end_of_its_name(tape):
    tape.record(Cart)
    cart = Cart().add("tea")
    assert tape.last.name == "Cart.add" and tape.last.arguments == {"self": cart, "item": "tea"}
    assert tape.calls("add") == tape.calls("Cart.add") == tape.calls(f"{__name__}:Cart.add") == tape.calls()
    assert tape.calls("dd") == [] and tape.lines(times=False)[0].startswith("Cart.add(item='tea')")


def test_after_stop_nothing_is_recorded_and_nothing_is_left_of_the_recorder():
    code, attributes = price.__code__, dict(vars(price))
    tape = Tape().record(price).record(f"{price.__module__}:price")
    assert price.__code__ is not code
    tape.stop()
    tape.stop()
    price("tea")
    assert len(tape) == 0 and price.__code__ is code and vars(price) == attributes
    assert str(tape) == "nothing was called"
    with pytest.raises(LookupError, match="nothing that this tape records"):
        tape.last


def test_recording_the_same_function_twice_records_each_call_once(tape):
    tape.record(price).record(f"{price.__module__}:price, {charge.__module__}:charge")
    price("tea", 5)
    assert shape(tape) == [("price", 0)]


def test_a_generator_has_not_ended_until_it_is_closed(tape):
    tape.record(prices)
    stream = prices(2)
    assert len(tape) == 0
    next(stream)
    assert stream.send("sent") == 2.5
    assert not tape.last.ended and tape.lines(times=False) == ["prices(n=2) … has not ended"]
    del stream
    gc.collect()
    assert tape.last.ended and tape.last.exc is None


def test_a_call_under_way_when_the_tape_stops_is_still_seen_to_end(tape):
    tape.record(price)
    with weave(price, post=lambda: tape.stop()):
        price("tea")
    assert tape.last.ended and tape.last.result == 2.5


def test_a_generator_of_many_turns_keeps_the_time_of_all(tape):
    tape.record(prices)
    list(prices(1_500))
    turns = tape.last.turns
    assert len(turns) == 1_000 and sum(length for _, length in turns) == pytest.approx(tape.last.own)


@pytest.mark.parametrize("leave", ["close", "collect", "throw"])
def test_a_generator_that_is_left_early_has_not_failed(tape, leave):
    """`next(lines)`, or a loop with `break`, counted as an error of the generator."""

    def lines():
        yield 1
        yield 2

    tape.record(lines)
    opened = lines()
    next(opened)
    if leave == "close":
        opened.close()
    elif leave == "throw":
        with pytest.raises(GeneratorExit):
            opened.throw(GeneratorExit)
    del opened
    gc.collect()
    (row,) = tape.functions()
    assert (row.calls, row.errors) == (1, 0) and tape.last.ended and tape.last.exc is None
