"""The arguments of the calls in short stories: a few, always the same."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from typing import Any, cast

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ._calls import Given

_SMALL = (0, 1, 3, 2)  # what parameters are given of which nothing is known


def samples_of(arguments: st.SearchStrategy[Any] | None, positional: int, keywords: Sequence[str]) -> list[Given]:
    """Return some arguments: drawn from a strategy if there is one, or else small numbers for all parameters."""
    if arguments is not None:
        return _drawn(arguments)
    if not positional and not keywords:
        return [Given((), {})]
    return [Given((number,) * positional, dict.fromkeys(keywords, number)) for number in _SMALL]


def _drawn(arguments: st.SearchStrategy[Any]) -> list[Given]:
    found: list[Given] = []

    def draw() -> None:
        @settings(
            max_examples=len(_SMALL),
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
        )
        @given(arguments)
        def take(drawn: Any) -> None:
            args, kwargs = drawn
            found.append(Given(tuple(args), dict(kwargs)))

        take()

    # In a thread of its own, since Hypothesis may be running the machine in this one, and would refuse.
    thread = Thread(target=draw)
    thread.start()
    thread.join()
    return found
