"""The functions that are measured, all on module level, as those of a program are; and the same written by hand.

Where a number of hooks is a parameter, source is written out and executed here, so that the floor really is flat code.
No function is made by ``FunctionType(...)`` or given another ``__code__``: from Python 3.13 on, calls of such functions
are never specialised, and that would slow down whoever is measured with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from aspecthook import Args, Return, hookable
from aspecthook._core.compile import link

Function = Callable[..., Any]

_numbers = count(1)


def define(source: str) -> Any:
    """Execute the source of one function or class in this module, and give what it defines."""
    exec(source, globals())
    head = source.partition("(")[0].partition(":")[0]
    return globals()[head.split()[-1]]


# Targets


def add(x: float, y: float) -> float:
    return x + y


def add_to(self: object, x: float, y: float) -> float:
    return x + y


async def add_later(x: float, y: float) -> float:
    return x + y


def ten_items(x: float) -> Iterator[float]:
    yield from (x, x, x, x, x, x, x, x, x, x)


def failing(x: float, y: float) -> float:
    raise KeyError(x)


def target(source: str = "def {name}(x, y):\n    return x + y\n") -> Any:
    """Make a mount point that no other measurement uses."""
    return hookable(define(source.format(name=f"target_{next(_numbers)}")))


def method_target() -> tuple[Any, Any]:
    """Make a class with one mount point, and give the class and its method."""
    name = f"Adder{next(_numbers)}"
    cls = define(f"class {name}:\n    def add(self, x, y):\n        return x + y\n")
    return cls, hookable(cls.add)


def target_of_new_names() -> Any:
    """Make a mount point with a parameter whose name nothing else has."""
    name = f"y_{next(_numbers)}"
    return target(f"def {{name}}(x, {name}):\n    return x + {name}\n")


def forget_shapes() -> None:
    """Let every shape be new again."""
    link._templates.clear()


# Hooks that do nothing


def hook(asks: str) -> Function:
    """Make a hook with code of its own."""
    function: Function = define(f"def hook_{next(_numbers)}({asks}):\n    pass\n")
    return function


def like_hooks(asks: str, count: int) -> list[Function]:
    """Make hooks that share their code, as those made in a loop do."""
    name = f"hooks_{next(_numbers)}"
    define(f"def {name}():\n    def hook({asks}):\n        pass\n    return hook\n")
    return [globals()[name]() for _ in range(count)]


def nothing(x: float) -> None:
    pass


def seen(result: float) -> None:
    pass


def replaced(x: float) -> float:
    return x


def replaced_in_args(x: float) -> Args:
    return Args(x=x)


def instead(x: float) -> Return[float] | None:
    return Return(x)


def improved(result: float) -> float:
    return result


def rescue(exc: BaseException) -> Return[float] | None:
    return Return(0.0)


def through(proceed: Callable[[], Any]) -> Any:
    return proceed()


def through_with(proceed: Callable[..., Any], x: float) -> Any:
    return proceed(x=x)


def one_yield() -> Iterator[None]:
    yield


def at_last() -> None:
    pass


def each(item: float) -> None:
    pass


# The floor: the same calls, written by hand


def by_hand(pre: list[Function], post: list[Function], *, method: bool = False, looking: bool = False) -> Any:
    """Write out a function, or a method, that calls the hooks, the target, and the hooks after it.

    It drops what hooks answer; with `looking` it looks whether they answer at all, as a program must that lets them.
    """
    number = next(_numbers)
    indent = "        " if method else "    "
    calls = [f"{hook.__name__}(x)" for hook in pre], [f"{hook.__name__}(result)" for hook in post]
    before, after = ("".join(_call(call, indent, looking=looking) for call in row) for row in calls)
    head = f"class Hand{number}:\n    def add(self, x, y):\n" if method else f"def hand_{number}(x, y):\n"
    body = "add_to(self, x, y)" if method else "add(x, y)"
    return define(f"{head}{before}{indent}result = {body}\n{after}{indent}return result\n")


def _call(call: str, indent: str, *, looking: bool) -> str:
    if not looking:
        return f"{indent}{call}\n"
    return f"{indent}answer = {call}\n{indent}if answer is not None:\n{indent}    raise TypeError(answer)\n"


class AdderByHand:
    """A class whose instances may each have hooks of their own."""

    def __init__(self) -> None:
        self.hooks: list[Function] = []

    def add(self, x: float, y: float) -> float:
        for hook in self.hooks:
            hook(x)
        return x + y


def replaced_by_hand(x: float, y: float) -> float:
    x = replaced(x)
    return add(x, y)


def skipped_by_hand(x: float, y: float) -> float:
    answer = instead(x)
    if answer is not None:
        return answer.value
    return add(x, y)


def improved_by_hand(x: float, y: float) -> float:
    return improved(add(x, y))


def rescued_by_hand(x: float, y: float) -> float:
    try:
        return failing(x, y)
    except Exception as exc:
        answer = rescue(exc)
        if answer is None:
            raise
        return answer.value


def proceeding_by_hand(x: float, y: float) -> Any:
    def proceed() -> float:
        return add(x, y)

    return through(proceed)


def proceeding_with_by_hand(x: float, y: float) -> Any:
    def proceed(x: float = x, y: float = y) -> float:
        return add(x, y)

    return through_with(proceed, x)


def yielding_by_hand(x: float, y: float) -> float:
    hook = one_yield()
    next(hook)
    result = add(x, y)
    try:
        next(hook)
    except StopIteration:
        pass
    return result


def finally_by_hand(x: float, y: float) -> float:
    try:
        return add(x, y)
    finally:
        at_last()


def closures() -> tuple[Any, Any]:
    """Make a closure that is a mount point, and one with the hooks written in by hand."""
    offset = 1

    @hookable
    def inner(x: float, y: float) -> float:
        return x + y + offset

    def bare(x: float, y: float) -> float:
        return x + y + offset

    def hand(x: float, y: float) -> float:
        nothing(x)
        result = bare(x, y)
        seen(result)
        return result

    return inner, hand


async def later_by_hand(x: float, y: float) -> float:
    nothing(x)
    result = await add_later(x, y)
    seen(result)
    return result


def items_by_hand(x: float) -> Iterator[float]:
    """Unlike law 1, pass no `send` and no `throw` on to the target."""
    for item in ten_items(x):
        each(item)
        yield item
