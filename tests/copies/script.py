"""Run as a script by `test_pickles`: everything here is of `__main__`, and so is pickled with its code."""

from __future__ import annotations

import asyncio
import functools
import operator
import sys
import threading
import xml  # its submodule is found by name when a function is pickled
import xml.dom.minidom
import zlib
from collections.abc import Iterator
from typing import Any
from zlib import crc32

WAY = sys.argv[-1]
lock = threading.Lock()


def hook() -> None:
    with lock:
        pass


if WAY == "plain":

    def hookable(target: Any) -> Any:
        return target

    def event(stub: Any) -> Any:
        return stub

else:
    from aspecthook import event, hookable, hooks, weave


@hookable
def square(n: int) -> int:
    return n * n


@hookable
def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)


def even(n: int, *, known: bool = True) -> bool:
    return known if n == 0 else odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def make() -> Any:
    total = 0

    @hookable
    def count(n: int) -> int:
        nonlocal total
        total += n
        return total

    return count


count = make()


@hookable
def numbers(n: int) -> Iterator[int]:
    yield from range(n)


@hookable
async def later(n: int) -> int:
    return n + 1


@event
def rang(who: str) -> Any: ...


def parsed(text: str) -> str:
    return xml.dom.minidom.parseString(text).documentElement.tagName


@hookable
class Till:
    rate = 2

    def __init__(self, start: int) -> None:
        self.start = start

    def add(self, n: int) -> int:
        return self.start + n * self.rate

    @classmethod
    def made(cls, n: int) -> Till:
        return cls(n)

    @staticmethod
    def double(n: int) -> int:
        return n * 2

    @property
    def half(self) -> float:
        return self.start / 2


class Account:
    @functools.cached_property
    def number(self) -> int:
        return 7

    @hookable
    def pay(self, n: int) -> int:
        return n + self.number


class Savings(Account):
    def pay(self, n: int) -> int:
        return super().pay(n) * 10


class Table(dict[str, Any]):
    # Nothing of these is Python code: while woven, proxies stand in the class.
    upper = staticmethod(str.upper)
    first = property(operator.itemgetter("a"))
    taken = dict.get


def summed(text: bytes) -> int:
    return crc32(text) + zlib.crc32(text)


def summing() -> Any:
    inner = crc32

    def checksum(text: bytes) -> int:
        return inner(text)

    return checksum


TILL, SAVINGS = Till(4), Savings()
PARTIAL = functools.update_wrapper(functools.partial(square, 3), square)
THINGS: dict[str, tuple[Any, Any]] = {
    "square": (square, lambda f: f(3)),
    "factorial": (factorial, lambda f: f(5)),
    "even": (even, lambda f: (f(4), f(5))),
    "count": (count, lambda f: f(1) - f(0)),
    "numbers": (numbers, lambda f: list(f(3))),
    "later": (later, lambda f: asyncio.run(f(1))),
    "rang": (rang, lambda f: f("ann") or []),
    "parsed": (parsed, lambda f: f("<a/>")),
    "Till": (Till, lambda cls: (cls(1).add(2), cls.made(3).add(1), cls.double(2), cls(3).half)),
    "till": (TILL, lambda till: (till.add(2), till.double(2), till.half)),
    "bound": (TILL.add, lambda f: f(1)),
    "savings": (SAVINGS, lambda savings: savings.pay(1)),
    "partial": (PARTIAL, lambda f: f()),
    "Table": (Table, lambda cls: (cls(a=1).get("a"), cls.upper("x"), cls(a=2).first, cls(a=3).taken("a"))),
    "table": (Table(a=4), lambda table: (table.get("a"), table.first)),
    "summed": (summed, lambda f: f(b"a")),
}
if "dill" in sys.argv:  # it finds no globals of what calls itself, nor submodules, with and without hooks
    del THINGS["factorial"], THINGS["even"], THINGS["parsed"]
if sys.version_info < (3, 12):  # it held a lock, which nobody could pickle
    del Account.number
    Account.number = 7


def put() -> list[Any]:
    functions = [square, factorial, count, numbers, later, rang, Till.add, Till.made, Till.double, Account.pay]
    for function in [*functions, Till.half]:
        hooks(function).add("pre", hook)
        hooks(function).add("always", hook)
    hooks(TILL.add).add("post", hook)
    rang.on(hook)
    woven = (even, odd, parsed, make, summed, "zlib:crc32")
    members = (f"__main__:Table.{name}" for name in ("get", "upper", "first", "taken"))
    return [weave(target, pre=hook, around=lambda proceed: proceed()) for target in (*woven, *members)]


def main(library: str) -> None:
    weavings: list[Any] = put() if WAY in ("hooked", "called", "removed") else []
    THINGS["summing"] = (summing(), lambda f: f(b"a"))
    if WAY in ("called", "removed"):
        for thing, use in THINGS.values():
            use(thing), use(thing)
    if WAY == "removed":
        functions = [square, factorial, count, numbers, later, rang, Till.add, Till.made, Till.double, Account.pay]
        for function in [*functions, Till.half]:
            hooks(function).clear()
        hooks(TILL.add).clear()
        for weaving in weavings:
            weaving.remove()
    if library == "joblib":
        from joblib import Parallel, delayed

        ran = [
            Parallel(n_jobs=2)(delayed(function)(n) for n in range(4)) for function in (square, Till.double, factorial)
        ]
        print(*ran)
    else:
        pickler = __import__(library)
        # Otherwise dill leaves out all globals of a function.
        options = {"recurse": True} if library == "dill" else {}
        sys.stdout.buffer.write(pickler.dumps(THINGS, **options))


if __name__ == "__main__":
    main(sys.argv[1])
