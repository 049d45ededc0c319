"""The shapes of generated source, held as snapshots: a change of one is seen in review.

Run with UPDATE_SNAPSHOTS=1 to write them anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aspecthook import Args, event, hookable, hooks
from aspecthook._core.compile.source import Source
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Signature

SNAPSHOTS = Path(__file__).parent / "snapshots"


def price(item: str, /, qty: int = 1, *rest: int, rate: float = 1.0, **extra: float) -> float:
    return qty * rate


async def fetch(url: str) -> str:
    return url


def count(n: int) -> Any:
    yield from range(n)


async def stream(n: int) -> Any:
    yield n


@event
def changed(celsius: float) -> None: ...


@event(first=True)
def changed_first(celsius: float) -> float:
    return celsius


@event(fold="celsius")
def changed_fold(celsius: float) -> None: ...


def one_pre_one_post(mount: Any) -> None:
    mount.add("pre", lambda **kwargs: None)
    mount.add("post", lambda result: None)


def every_kind(mount: Any) -> None:
    mount.add("pre", lambda call: None, when=lambda args: True)

    async def awaits(proceed: Any, call: Any) -> Any:
        return await proceed()

    proceeds: Any = awaits if mount.site().signature.style == "coroutine" else lambda proceed, call: proceed()
    mount.add("around", proceeds, reentrant=False)
    one_yield(mount)
    mount.add("exception", lambda exc: None, KeyError)
    mount.add("exception", lambda exc: None, every=2)
    mount.add("post", lambda result, kwargs: None, isolate=True)
    mount.add("always", lambda exc, result: None)
    mount.add("always", lambda args: None)


def an_around_hook(mount: Any) -> None:
    mount.add("around", lambda proceed: proceed())


def one_yield(mount: Any) -> None:
    def hook() -> Any:
        yield

    mount.add("around", hook)


def replaced_arguments(mount: Any) -> None:
    mount.add("pre", lambda qty: Args(qty=max(qty, 1)))
    mount.add("pre", lambda item, rate: Args(rate=0.5) if item == "tea" else None)


def items(mount: Any) -> None:
    mount.add("item", lambda item: None)


def a_row_of_many(mount: Any) -> None:
    for _ in range(30):
        mount.add("pre", lambda qty: None)
        mount.add("exception", lambda exc: None, KeyError)


def subscribers(mount: Any) -> None:
    mount.add("on", lambda celsius: None)
    mount.add("on", lambda call: None, isolate=True, priority="LOW")
    mount.add("pre", lambda celsius: None)


def a_row_of_subscribers(mount: Any) -> None:
    for _ in range(30):
        mount.add("on", lambda celsius: None)


CASES = [
    (changed, subscribers),
    (changed_first, subscribers),
    (changed_first, a_row_of_subscribers),
    (changed_fold, subscribers),
    (price, one_pre_one_post),
    (price, replaced_arguments),
    (price, an_around_hook),
    (price, one_yield),
    (price, a_row_of_many),
    (fetch, every_kind),
    (count, items),
    (count, every_kind),
    (stream, items),
]


# In the form for targets that may die before their modules, the lines before and after these are others.
IN_A_SLOT = [(price, one_pre_one_post), (stream, items)]


@pytest.mark.parametrize(
    ("target", "adding", "slot"), [*((*case, False) for case in CASES), *((*case, True) for case in IN_A_SLOT)]
)
def test_the_source_of_a_shape_is_as_it_was(target: Any, adding: Callable[[Any], None], *, slot: bool) -> None:
    mount = hooks(target if hasattr(target, "hooks") else hookable(target))
    try:
        adding(mount)
        signature = Signature(mount.code(), mount.emission)
        text = Source(signature, Chain(tuple(mount)), slot=slot).text().shown(signature.names)
    finally:
        mount.clear()
    text = text.replace("= moved.links\n", "= slot().links\n")  # without the GIL
    kept = SNAPSHOTS / f"{target.__name__}_{adding.__name__}{'_in_a_slot' if slot else ''}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        kept.write_text(text)
    assert text == kept.read_text()


def test_no_text_of_a_hook_or_a_hostile_parameter_enters_the_source() -> None:
    def target(a: int, *, b: int = 2) -> int:
        return a + b

    hostile = ("x); import os  #", "class")
    target.__code__ = target.__code__.replace(co_varnames=hostile)
    mount = hooks(target if hasattr(target, "hooks") else hookable(target))
    mount.add("pre", lambda kwargs, call: None, name="'''); boom(")
    try:
        text = Source(Signature(mount.code()), Chain(tuple(mount))).text()
        for source in (*text.compiled(text.pins), text.shown(hostile)):
            assert "import os" not in source
            assert "class" not in source
            assert "boom" not in source
    finally:
        mount.clear()
