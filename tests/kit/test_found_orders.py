"""Order bugs of users, in systems of every sort: `HookMachine` finds each, in a story of the fewest steps."""

from __future__ import annotations

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


def published() -> Any:
    @event
    def sold(n: int) -> None: ...

    return sold


def one_yield() -> Any:
    yield


async def later_double(result: int) -> int:
    return result * 2


def nothing() -> None: ...


def both(trace: Any, *names: str) -> bool:
    return all(trace.ran(name) for name in names)


# Systems of several mount points: each returns the one that a machine calls, and the hooks for it.


class Sale:
    """What the mount points of a system hand on, with a log that all of them write."""

    def __init__(self, n: int) -> None:
        self.n, self.log = n, list[object]()

    def note(self) -> None:
        self.log.append(self.n)


def noted_last(trace: Any) -> bool:
    return trace.result.log[-1:] in ([], [trace.result.n])


def saved_last(trace: Any) -> bool:
    return not both(trace, "save", "shout") or trace["save"].given["text"] == trace.result


def numbered() -> Any:
    @event
    def sold(sale: Sale) -> None: ...

    def tell(result: Sale) -> None:
        sold(result)

    sold.on(lambda sale: sale.note())
    return hookable(lambda n: Sale(n)), {"post tell": tell, "post number": lambda result: setattr(result, "n", 7)}


def pages() -> Any:
    @hookable
    async def store(sale: Sale) -> None:
        sale.note()

    @hookable
    async def load(n: int) -> Sale:
        return Sale(n)

    async def keep(result: Sale) -> None:
        await store(result)

    async def decode(result: Sale) -> None:
        result.n += 1

    store.pre(nothing)
    return load, {"post keep": keep, "post decode": decode}


def priced() -> Any:
    price = hookable(lambda item: item)
    price.post(lambda result: result * 10)
    return counting(), {"item price": lambda item: price(item), "item cap": lambda item: min(item, 5)}


def audited() -> Any:
    seen: list[int] = []

    class Audit:
        @hookable
        def note(self, n: int) -> None:
            seen.append(n)

    class Account:
        @hookable
        def pay(self, n: int) -> list[int]:
            found = [*seen]
            seen.clear()
            return found

    return Account().pay, {"pre audit": lambda n: Audit().note(n), "pre fee": lambda n: Args(n=n + 1)}


def locked() -> Any:
    held, log = list[int](), list[int]()
    take, give = hookable(lambda: held.append(1)), hookable(lambda: held.pop())
    write = hookable(lambda: log.append(len(held)))

    def lock(proceed: Any) -> Any:
        take()
        try:
            return proceed()
        finally:
            give()

    def writing(proceed: Any) -> Any:
        write()
        return proceed()

    return hookable(lambda n: log[-1:]), {"around write": writing, "around lock": lock}


def edited() -> Any:
    @event(fold="text")
    def edit(text: str) -> str: ...

    save = hookable(lambda text: None)
    return edit, {"on save": lambda text: save(text), "on shout": lambda text: text.upper()}


TEXT = st.text("a<", max_size=3)

CLIP = {"item clip": lambda item: min(item, 5), "item scale": lambda item: item * 10}


def clipped(trace: Any) -> bool:
    return not (trace.ran("clip") or trace.ran("cap")) or max(trace.result, default=0) <= 5


BUGS: dict[str, Bug] = {
    "a file that is closed before it is flushed": Bug(
        "close flush", "(0,)", {"always close": nothing, "always flush": nothing}, before("flush", "close")
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
    "items that are clipped before they are scaled": Bug("clip scale", "(2,)", CLIP, clipped, counting),
    "async items that are clipped before they are scaled": Bug("clip scale", "(2,)", CLIP, clipped, counting_later),
    "a subscriber that is told too late": Bug(
        "mail stock", "(0,)", {"on mail": nothing, "on stock": nothing}, before("stock", "mail"), published
    ),
    # Systems of several mount points.
    "a subscriber of another event that is told before the number is there": Bug(
        "tell number", "(0,)", {}, noted_last, numbered
    ),
    "a page that is kept before it is decoded": Bug("keep decode", "(0,)", {}, noted_last, pages),
    "items that are capped before another function prices them": Bug("cap price", "(2,)", {}, clipped, priced),
    "an audit of another object that misses the fee": Bug(
        "audit fee", "(0,)", {}, lambda trace: trace.result in ([], [trace["pay"].given["n"]]), audited
    ),
    "a log that is written outside of the lock": Bug(
        "write lock", "(0,)", {}, lambda trace: not both(trace, "write", "lock") or trace.result == [1], locked
    ),
    "a text that is saved before its last change": Bug("save shout", "('a',)", {}, saved_last, edited, TEXT),
}


@pytest.mark.parametrize("name", BUGS)
def test_it_is_found_in_the_shortest_story(name: str) -> None:
    bug = BUGS[name]

    class Machine(HookMachine):
        arguments = None if bug.values is None else st.tuples(st.tuples(bug.values), st.just({}))
        it_holds = staticmethod(law(bug.law)) if not isinstance(bug.law, type(before("a", "b"))) else bug.law

        @property
        def candidates(self) -> Any:
            return [Candidate(*key.split()[:1], one, name=key.split()[1]) for key, one in self.functions.items()]  # type: ignore[arg-type]

        def make(self) -> Any:
            made = bug.target()
            made, self.functions = made if isinstance(made, tuple) else (made, bug.functions)
            return made

    with pytest.raises(LawError) as caught:
        Machine.TestCase().runTest()
    lines = [line.strip() for line in caught.value.__notes__[0].splitlines()]
    steps = [line.removeprefix("state.") for line in lines if line.startswith("state.")][:-1]
    keys = {key.split()[1]: key for key in Machine().functions}
    assert steps == [*(f"add('{keys[one]}')" for one in bug.hooks.split()), f"call({bug.call})"]
