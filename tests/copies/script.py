"""Run as a script by `test_pickles`: its classes are of `__main__`, so their methods are pickled with their code."""

from __future__ import annotations

import sys
import threading
from typing import Any

LIBRARY, WAY = sys.argv[1:]
lock = threading.Lock()


def hook() -> None:
    with lock:
        pass


if WAY == "plain":

    def hookable(target: Any) -> Any:
        return target

else:
    from aspecthook import hookable, hooks, weave


@hookable
class Till:
    rate = 2

    def __init__(self, start: int) -> None:
        self.start = start

    def add(self, n: int) -> int:
        return self.start + n * self.rate

    @staticmethod
    def double(n: int) -> int:
        return n * 2


class Table(dict[str, Any]):
    # Nothing of these is Python code: while woven, proxies stand in the class.
    upper = staticmethod(str.upper)


THINGS: dict[str, tuple[Any, Any]] = {
    "Till": (Till, lambda cls: (cls(1).add(2), cls.double(2))),
    "till": (Till(4), lambda till: (till.add(2), till.double(2))),
    "bound": (Till(4).add, lambda f: f(1)),
    "Table": (Table, lambda cls: (cls.upper("x"), cls(a=2)["a"])),
}


def main() -> None:
    functions: list[Any] = [Till.add, Till.double]
    weavings: list[Any] = []
    if WAY in ("hooked", "called", "removed"):
        for function in functions:
            hooks(function).add("pre", hook)
        weavings += [weave(target, pre=hook) for target in (Till.__init__, "__main__:Table.upper")]
    if WAY in ("called", "removed"):
        for thing, use in THINGS.values():
            use(thing), use(thing)
    if WAY == "removed":
        for function in functions:
            hooks(function).clear()
        for weaving in weavings:
            weaving.remove()
    # Otherwise dill leaves out all globals of a function.
    options = {"recurse": True} if LIBRARY == "dill" else {}
    sys.stdout.buffer.write(__import__(LIBRARY).dumps(THINGS, **options))


if __name__ == "__main__":
    main()
