"""A suite that passes, but depends on the order in which hooks were added: `pytest --hook-orders` names the pair.

Run `pytest examples/hook_orders.py`, which passes, and then `pytest examples/hook_orders.py --hook-orders=all`. The
last sentence of the output tells you what to write; with `after="round"` on `tax` the suite passes in each order.
"""

from __future__ import annotations

from aspecthook import hookable

log: list[float] = []


@hookable
def total(prices: list[float]) -> float:
    return sum(prices)


@total.post(name="round")
def whole(result: float) -> int:
    return round(result)


@total.post
def tax(result: float) -> float:
    return result * 1.25


@total.post
def audit(result: float) -> None:
    log.append(result)


def test_total() -> None:
    assert total([4.9, 4.9]) == 12.5


def test_each_total_is_noted() -> None:
    log.clear()
    total([8])
    assert len(log) == 1
