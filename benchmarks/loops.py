"""From how many hooks of one shape on a loop over a tuple beats unrolled code: what `LOOP_FROM` should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from aspecthook._core.compile import text as _writer

from . import targets
from .results import Contest
from .timing import Contender, Effort, race, shots

SIZES = (4, 8, 12, 16, 24, 32, 48, 64, 100, 200)
FORMS = {"unrolled": 10**9, "loop": 2}
ASKS = {"pre": "x", "post": "result", "always": ""}


@contextmanager
def loop_from(number: int) -> Iterator[None]:
    """Have chains written with another `LOOP_FROM`; only for shapes that were not compiled before."""
    kept, _writer.LOOP_FROM = _writer.LOOP_FROM, number
    try:
        yield
    finally:
        _writer.LOOP_FROM = kept


def loops(effort: Effort) -> list[Contest]:
    """Compare both forms for chains of many lengths, per call and at the first call."""
    short = effort._replace(rounds=max(6, effort.rounds // 5))
    return [_contest(kind, size, short) for kind in ASKS for size in SIZES]


def verdict(contests: list[Contest]) -> Iterator[str]:
    """Return from where on the loop is called faster, and after how many calls unrolled code has repaid itself."""
    for kind in ASKS:
        rows = [contest for contest in contests if contest.title.endswith(f" {kind}")]
        faster = [contest.title for contest in rows if contest.ratio("loop", "unrolled") <= 1]
        yield f"  {kind}: the loop is called faster from {faster[0]} on" if faster else f"  {kind}: never called faster"
        yield "    unrolled is repaid after: " + ", ".join(f"{c.title} {_repaid(c)}" for c in rows)


def _repaid(contest: Contest) -> str:
    saved = contest.time("loop") - contest.time("unrolled")
    spent = contest.time("first unrolled") - contest.time("first loop")
    return f"{spent / saved:,.0f}" if saved > 0 else "never"


def _contest(kind: str, size: int, effort: Effort) -> Contest:
    distinct = [targets.hook(ASKS[kind]) for _ in range(size)]
    contenders = []
    for hooks, what in ((distinct, ""), (targets.like_hooks(ASKS[kind], size), ", one code")):
        for form, number in FORMS.items():
            function = _mounted(kind, hooks)
            with loop_from(number):
                function(1, 2)
            contenders.append(Contender(form + what, "f(1, 2)", {"f": function}))
    times = race(contenders, effort)
    prepared: dict[str, Callable[[], Callable[[], object]]] = {
        f"first {form}": partial(_first_call, kind, distinct, number) for form, number in FORMS.items()
    }
    return Contest("loop", f"{size} {kind}", "µs", times | shots(prepared, effort.rounds), wide=True)


def _mounted(kind: str, hooks: list[Any]) -> Any:
    function = targets.target()
    for hook in hooks:
        getattr(function, kind)(hook)
    targets.forget_shapes()
    return function


def _first_call(kind: str, hooks: list[Any], number: int) -> Callable[[], object]:
    function = _mounted(kind, hooks)

    def act() -> None:
        with loop_from(number):
            function(1, 2)

    return act
