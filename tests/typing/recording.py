"""Recording: what a tape gives, what may be a sink, what redacts."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from aspecthook.record import RecordedCall, Tape, read, record


def price(item: str, qty: int = 1) -> float:
    return qty * 2.0


class Names:
    def __init__(self) -> None:
        self.names: list[str] = []

    def write(self, call: RecordedCall) -> None:
        self.names.append(call.name)

    def close(self) -> None: ...


with record(price, redact=("token", "*secret*"), max_depth=3) as tape:
    price("tea")
assert_type(tape, Tape)
assert_type(tape.find("price", item="tea"), RecordedCall)
assert_type(tape.calls(), list[RecordedCall])
assert_type(len(tape), int)
for call in tape:
    assert_type(call, RecordedCall)
    assert_type(call.duration, float | None)
    assert_type(call.parent, RecordedCall | None)
    assert_type(call.exc, BaseException | None)
for row in tape.functions():
    assert_type(row.p99, float)


def files() -> None:
    record(price, "shop:*", to=Names(), redact=lambda name, value: name == "token" and bool(value))
    record(price, to=Path("calls.jsonl"))
    record(price, to="calls.jsonl")
    assert_type(read("calls.jsonl", Path("more")), Tape)


def wrong() -> None:
    record(price, to=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    record(price, redact=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    record(price, max_depth="all")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
