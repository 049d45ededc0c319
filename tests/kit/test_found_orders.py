"""Order bugs of users, in systems of every sort: `HookMachine` finds each, in a story of the fewest steps."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from aspecthook import Args, event, hookable
from aspecthook.testing import Candidate, HookMachine, LawError, before, law


class Bug(NamedTuple):
    """Hooks that work in one order, with what must be true of each call, and the shortest story that breaks it."""

    hooks: str  # the names in the wrong order, as the shortest story adds them
    call: str
    functions: dict[str, Any]  # the names with their kinds, and the functions
    law: Callable[..., object]
    target: Callable[[], Any] = lambda: hookable(lambda n: n)
    values: st.SearchStrategy[Any] | None = None


def of_text() -> Any:
    return hookable(lambda text: text)


def failing() -> Any:
    @hookable
    def fail(n: int) -> int:
        raise ValueError(n)

    return fail


def waiting() -> Any:
    @hookable
    async def fetch(n: int) -> int:
        return n

    return fetch


def counting() -> Any:
    @hookable
    def numbers(n: int) -> Any:
        yield from range(n)

    return numbers


def counting_later() -> Any:
    @hookable
    async def numbers(n: int) -> Any:
        for number in range(n):
            yield number

    return numbers


def shop() -> Any:
    postage = hookable(lambda n: n)
    postage.post(lambda result: result + 3, name="postage")

    @hookable
    def order(n: int) -> int:
        return int(postage(n))

    return order


def later_shop() -> Any:
    postage = waiting()
    postage.post(lambda result: result + 3, name="postage")

    @hookable
    async def order(n: int) -> int:
        return int(await postage(n))

    return order


def of_rows() -> Any:
    return hookable(lambda rows: rows)


def notes() -> Any:
    return hookable(lambda n: [])


async def later_add(result: int) -> int:
    return result + 1


def method() -> Any:
    class Account:
        @hookable
        def pay(self, n: int) -> int:
            return n

    return Account().pay


def published() -> Any:
    @event
    def sold(n: int) -> None: ...

    return sold


def refuse(limit: int) -> Callable[..., None]:
    def check(n: int) -> None:
        if n > limit:
            raise PermissionError(n)

    return check


def one_yield() -> Any:
    yield


async def later_double(result: int) -> int:
    return result * 2


async def one_async_yield() -> Any:
    yield


def nothing() -> None: ...


def both(trace: Any, *names: str) -> bool:
    return all(trace.ran(name) for name in names)


TEXT = st.text("a<", max_size=3)
ROWS = st.lists(st.integers(0, 3), max_size=3)
NAMES = st.lists(st.sampled_from(["ann", "Ann", " ann"]), max_size=3)

BUGS: dict[str, Bug] = {
    "a fee that is discounted": Bug(
        "fee discount",
        "(0,)",
        {"post fee": lambda result: result + 5, "post discount": lambda result: result * 0.5},
        lambda trace: not both(trace, "fee", "discount") or trace.result == trace.arguments["n"] * 0.5 + 5,
    ),
    "a limit that is doubled": Bug(
        "limit double",
        "(6,)",
        {"post limit": lambda result: min(result, 10), "post double": lambda result: result * 2},
        lambda trace: not trace.ran("limit") or trace.result <= 10,
    ),
    "a floor that is shifted": Bug(
        "floor shift",
        "(0,)",
        {"post floor": lambda result: max(result, 0), "post shift": lambda result: result - 3},
        lambda trace: not trace.ran("floor") or trace.result >= 0,
    ),
    "a price that is rounded before the tax": Bug(
        "whole tax",
        "(1,)",
        {"post whole": lambda result: round(result), "post tax": lambda result: result * 1.5},
        lambda trace: not trace.ran("whole") or trace.result == int(trace.result),
    ),
    "a check before the change": Bug(
        "check double",
        "(3,)",
        {"pre check": refuse(5), "pre double": lambda n: Args(n=n * 2)},
        lambda trace: trace.exc is not None or not trace.ran("check") or trace["<lambda>"].given["n"] <= 5,
    ),
    "a payment that is counted and refused": Bug(
        "count check",
        "(3,)",
        {"pre count": nothing, "pre check": refuse(2)},
        lambda trace: trace.exc is None or not trace.ran("count"),
    ),
    "markup that is escaped": Bug(
        "break escape",
        "('',)",
        {"post break": lambda result: result + "<br>", "post escape": lambda result: html.escape(result)},
        lambda trace: not trace.ran("break") or trace.result.endswith("<br>"),
        of_text,
        TEXT,
    ),
    "a text that is cut before its end is put on": Bug(
        "cut dots",
        "('',)",
        {"post cut": lambda result: result[:3], "post dots": lambda result: result + "...."},
        lambda trace: not trace.ran("cut") or len(trace.result) <= 3,
        of_text,
        TEXT,
    ),
    "a text that is escaped twice": Bug(
        "escape quote",
        "('<',)",
        {"post escape": lambda result: html.escape(result), "post quote": lambda result: result.replace("&", "+")},
        lambda trace: not trace.ran("escape") or html.unescape(trace.result) == trace.arguments["text"],
        of_text,
        TEXT,
    ),
    "a page of rows that are filtered later": Bug(
        "page positive",
        "([0, 1],)",
        {"post page": lambda result: result[:1], "post positive": lambda result: [one for one in result if one]},
        lambda trace: not both(trace, "page", "positive") or trace.result or not any(trace.arguments["text"]),
        of_text,
        ROWS,
    ),
    "rows that are sorted before they change": Bug(
        "sort negate",
        "([0, 1],)",
        {"post sort": lambda result: sorted(result), "post negate": lambda result: [-one for one in result]},
        lambda trace: not trace.ran("sort") or trace.result == sorted(trace.result),
        of_text,
        ROWS,
    ),
    "names that are told apart before they are stripped": Bug(
        "unique strip",
        "(['ann', ' ann'],)",
        {
            "post unique": lambda result: list(dict.fromkeys(result)),
            "post strip": lambda result: [one.strip() for one in result],
        },
        lambda trace: not trace.ran("unique") or len(trace.result) == len({*trace.result}),
        of_text,
        NAMES,
    ),
    "a failure that is renamed before it is counted": Bug(
        "count rename",
        "(0,)",
        {"exception count": nothing, "exception rename": refuse(-1)},
        lambda trace: not before_("count", "rename", trace),
        failing,
    ),
    "a file that is closed before it is flushed": Bug(
        "close flush",
        "(0,)",
        {"always close": nothing, "always flush": nothing},
        before("flush", "close"),
    ),
    "a transaction around the retries": Bug(
        "transaction retry",
        "(0,)",
        {"around transaction": one_yield, "around retry": one_yield},
        before("retry", "transaction"),
    ),
    "an async result that is doubled first": Bug(
        "double more",
        "(0,)",
        {"post double": later_double, "post more": lambda result: result + 1},
        lambda trace: not trace.ran("double") or trace.result % 2 == 0,
        waiting,
    ),
    "an async transaction around the retries": Bug(
        "transaction retry",
        "(0,)",
        {"around transaction": one_async_yield, "around retry": one_async_yield},
        before("retry", "transaction"),
        waiting,
    ),
    "items that are clipped before they are scaled": Bug(
        "clip scale",
        "(2,)",
        {"item clip": lambda item: min(item, 5), "item scale": lambda item: item * 10},
        lambda trace: not trace.ran("clip") or max(trace.result) <= 5,
        counting,
    ),
    "async items that are clipped before they are scaled": Bug(
        "clip scale",
        "(2,)",
        {"item clip": lambda item: min(item, 5), "item scale": lambda item: item * 10},
        lambda trace: not trace.ran("clip") or max(trace.result) <= 5,
        counting_later,
    ),
    "a method whose audit comes first": Bug(
        "audit auth",
        "(0,)",
        {"pre audit": nothing, "pre auth": nothing},
        before("auth", "audit"),
        method,
    ),
    "a subscriber that is told too late": Bug(
        "mail stock",
        "(0,)",
        {"on mail": nothing, "on stock": nothing},
        before("stock", "mail"),
        published,
    ),
    "a currency that is converted after the limit was checked": Bug(
        "limit convert",
        "(6,)",
        {"pre limit": lambda n: refuse(10)(n), "pre convert": lambda n: Args(n=n * 2)},
        lambda trace: not both(trace, "limit", "convert") or trace.exc is not None or trace.result <= 10,
    ),
    "an error that is reported before it is known what it is": Bug(
        "report explain",
        "(0,)",
        {"exception explain": nothing, "exception report": nothing},
        before("explain", "report"),
        failing,
    ),
    "an order whose gift is added after the limit, with postage of another mount point": Bug(
        "limit gift",
        "(2,)",
        {"post limit": lambda result: min(result, 5), "post gift": lambda result: result + 1},
        lambda trace: not trace.ran("limit") or trace.result <= 5,
        shop,
    ),
    "the same order in async code": Bug(
        "limit gift",
        "(2,)",
        {"post limit": lambda result: min(result, 5), "post gift": later_add},
        lambda trace: not trace.ran("limit") or trace.result <= 5,
        later_shop,
    ),
    "a list that is sealed before its last line": Bug(
        "seal line",
        "(0,)",
        {"post seal": lambda result: result.append(len(result)), "post line": lambda result: result.append("line")},
        lambda trace: not both(trace, "seal", "line") or trace.result[-1] == len(trace.result) - 1,
        notes,
    ),
    "items that are capped before they are raised": Bug(
        "cap add",
        "(2,)",
        {"item cap": lambda item: min(item, 1), "item add": lambda item: item + 1},
        lambda trace: not trace.ran("cap") or max(trace.result, default=0) <= 1,
        counting,
    ),
    "more items than were allowed": Bug(
        "few more",
        "(1,)",
        {"pre few": lambda n: Args(n=min(n, 1)), "pre more": lambda n: Args(n=n + 1)},
        lambda trace: not trace.ran("few") or len(trace.result) <= 1,
        counting_later,
    ),
    "an async limit that is passed by one": Bug(
        "limit add",
        "(4,)",
        {"post limit": lambda result: min(result, 4), "post add": later_add},
        lambda trace: not trace.ran("limit") or trace.result <= 4,
        waiting,
    ),
    "an async argument that is doubled after it was clamped": Bug(
        "clamp double",
        "(3,)",
        {"pre clamp": lambda n: Args(n=min(n, 5)), "pre double": lambda n: Args(n=n * 2)},
        lambda trace: not trace.ran("clamp") or trace.result <= 5,
        waiting,
    ),
    "a bonus that is not halved": Bug(
        "halve bonus",
        "(0,)",
        {"post halve": lambda result: result // 2, "post bonus": lambda result: result + 1},
        lambda trace: not both(trace, "halve", "bonus") or trace.result == (trace.arguments["n"] + 1) // 2,
        method,
    ),
    "a payment that grows after it was checked": Bug(
        "check more",
        "(5,)",
        {"pre check": refuse(5), "pre more": lambda n: Args(n=n + 1)},
        lambda trace: not trace.ran("check") or trace.exc is not None or trace.result <= 5,
        method,
    ),
    "a default that is halved to nothing": Bug(
        "fill halve",
        "(0,)",
        {"pre fill": lambda n: Args(n=n or 1), "pre halve": lambda n: Args(n=n // 2)},
        lambda trace: not trace.ran("fill") or trace.result != 0,
    ),
    "a text that is trimmed before a mark is put on": Bug(
        "trim mark",
        "('',)",
        {"post trim": lambda result: result.strip("<"), "post mark": lambda result: result + "<"},
        lambda trace: not trace.ran("trim") or not trace.result.endswith("<"),
        of_text,
        TEXT,
    ),
    "a first row that is repeated": Bug(
        "head twice",
        "([0],)",
        {"post head": lambda result: result[:1], "post twice": lambda result: result + result},
        lambda trace: not trace.ran("head") or len(trace.result) <= 1,
        of_rows,
        ROWS,
    ),
    "an even number that is counted on": Bug(
        "even next",
        "(0,)",
        {"post even": lambda result: result + result % 2, "post next": lambda result: result + 1},
        lambda trace: not trace.ran("even") or trace.result % 2 == 0,
    ),
    "a size that is made negative": Bug(
        "size less",
        "(0,)",
        {"post size": lambda result: abs(result), "post less": lambda result: result - 2},
        lambda trace: not trace.ran("size") or trace.result >= 0,
    ),
    "a surcharge on large amounts alone": Bug(
        "cap surcharge",
        "(8,)",
        {"post cap": lambda result: min(result, 8), "post surcharge": lambda result: result + 2 * (result > 7)},
        lambda trace: not trace.ran("cap") or trace.result <= 8,
    ),
    "a share of what is left over": Bug(
        "share rest",
        "(1,)",
        {"post share": lambda result: result * 0.5, "post rest": lambda result: result - result % 1},
        lambda trace: not both(trace, "share", "rest") or trace.result == trace.arguments["n"] * 0.5,
    ),
    "one of three in the middle": Bug(
        "a c b",
        "(0,)",
        {"post a": nothing, "post b": nothing, "post c": nothing},
        lambda trace: trace.names[1:] != ("a", "c", "b"),
    ),
}


def before_(first: str, second: str, trace: Any) -> bool:
    return both(trace, first, second) and bool(trace.before(first, second))


@pytest.mark.parametrize("name", BUGS)
def test_it_is_found_in_the_shortest_story(name: str) -> None:
    bug = BUGS[name]
    candidates = {
        key.split()[1]: Candidate(key.split()[0], one, name=key.split()[1]) for key, one in bug.functions.items()
    }  # type: ignore[arg-type]

    class Machine(HookMachine):
        arguments = None if bug.values is None else st.tuples(st.tuples(bug.values), st.just({}))
        it_holds = staticmethod(law(bug.law)) if not isinstance(bug.law, type(before("a", "b"))) else bug.law

        def make(self) -> Any:
            return bug.target()

    Machine.candidates = tuple(candidates.values())
    with pytest.raises(LawError) as caught:
        Machine.TestCase().runTest()
    lines = [line.strip() for line in caught.value.__notes__[0].splitlines()]
    steps = [line.removeprefix("state.") for line in lines if line.startswith("state.")][:-1]
    kinds = {one: candidates[one].kind for one in candidates}
    assert steps == [*(f"add('{kinds[one]} {one}')" for one in bug.hooks.split()), f"call({bug.call})"]
