"""What it costs to weave many functions at once, and to call what is woven, beside others who patch at run time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from inspect import signature
from itertools import count
from types import ModuleType
from typing import Any
from unittest import mock

import wrapt

from aspecthook import weave

from . import targets
from .results import OURS, Contest, Goal
from .timing import Contender, Effort, race, shots

MANY = 1_000
SIGNATURES = 200
_numbers = count(1)


def weaving(effort: Effort) -> list[Contest]:
    """Weave 1,000 functions by one pointcut and call each; and calls of single functions that are woven."""
    return [_different(effort), _calls(effort), _decorated(effort), *_accelerated(effort)]


def _functions(module: ModuleType) -> list[str]:
    return [name for name in vars(module) if name.startswith("work_")]


def _woven(module: ModuleType) -> Callable[[], object]:
    return lambda: weave(f"{module.__name__}:*", pre=targets.nothing)


def _wrapper(wrapped: Any, instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    targets.nothing(args[0])
    return wrapped(*args, **kwargs)


def _wrapt(module: ModuleType) -> Callable[[], object]:
    names = _functions(module)
    return lambda: [wrapt.wrap_function_wrapper(module, name, _wrapper) for name in names]


def _different(effort: Effort) -> Contest:
    """Weave functions of many signatures and call each of them once, with shapes that were never seen."""
    ours = f"{OURS}, one pointcut"
    prepared: dict[str, Callable[[], Callable[[], object]]] = {
        ours: lambda: _and_called(_of_signatures(), _woven),
        "wrapt, wrap_function_wrapper each": lambda: _and_called(_of_signatures(), _wrapt),
    }
    times = shots(prepared, max(3, effort.rounds // 5))
    title = f"{MANY:,} functions of {SIGNATURES} signatures, one pre hook, each called once"
    return Contest("weave", title, "ms", times, goals=[Goal(ours, 0.15)])


def _of_signatures() -> ModuleType:
    module = ModuleType(f"signatures_{next(_numbers)}")
    source = "\n".join(f"def work_{place}({_signature(place % SIGNATURES)}):\n    return x" for place in range(MANY))
    exec(source, vars(module))
    sys.modules[module.__name__] = module
    targets.forget_shapes()
    return module


def _signature(number: int) -> str:
    """Return one of many signatures, which have all sorts of parameters."""
    parts = ["x", *(f"option_{number}_{place}={place}" for place in range(number % 5))]
    parts += [f"*rest_{number}"] if number % 3 == 0 else []
    parts += [f"{'' if number % 3 == 0 else '*, '}flag_{number}=None"] if number % 4 == 0 else []
    parts += [f"**extra_{number}"] if number % 7 == 0 else []
    return ", ".join(parts)


def _and_called(module: ModuleType, prepare: Callable[[ModuleType], Callable[[], object]]) -> Callable[[], object]:
    names, act = _functions(module), prepare(module)

    def run() -> None:
        act()
        for name in names:
            getattr(module, name)(1)

    return run


# Calls


def _calls(effort: Effort) -> Contest:
    before, after = targets.hook("x"), targets.hook("result")
    hand = "by hand"

    def wrapper(wrapped: Any, instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before(args[0])
        result = wrapped(*args, **kwargs)
        after(result)
        return result

    ours = _new_function()
    weave(ours, pre=before, post=after)
    module = ModuleType(f"called_{next(_numbers)}")
    setattr(module, "add", _new_function())
    wrapt.wrap_function_wrapper(module, "add", wrapper)
    spied = mock.Mock(wraps=_new_function())
    contenders = [
        Contender(hand, "f(1, 2)", {"f": targets.by_hand([before], [after])}),
        Contender(OURS, "f(1, 2)", {"f": ours}),
        Contender("wrapt", "f(1, 2)", {"f": vars(module)["add"]}),
        Contender("mock, wraps= (calls no hooks)", "f(1, 2)", {"f": spied}),
    ]
    return Contest("weave", "A call of a woven function, 1 + 1", "ns", race(contenders, effort), hand)


def _decorated(effort: Effort) -> Contest:
    """A hook asks by name for an argument of what `functools.wraps` has wrapped in ``*args, **kwargs``."""
    ours, theirs = (_wrapping(_new_function()) for _ in range(2))
    weave(ours, pre=targets.hook("x"))
    contenders = [
        Contender("the wrapper alone", "f(1, 2)", {"f": _wrapping(_new_function())}),
        Contender(OURS, "f(1, 2)", {"f": ours}),
        Contender("wrapt", "f(1, 2)", {"f": wrapt.FunctionWrapper(theirs, _wrapper)}),
    ]
    title = "A call of a woven functools.wraps wrapper, 1 pre"
    return Contest("weave", title, "ns", race(contenders, effort), "the wrapper alone", [Goal(OURS, 1.2, "wrapt")])


def _wrapping(function: Any) -> Any:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def _new_function() -> Any:
    return targets.define(f"def woven_{next(_numbers)}(x, y):\n    return x + y\n")


def _accelerated(effort: Effort) -> Iterator[Contest]:
    """A C function has no code to put hooks into: a proxy stands in its place."""
    yield _of_c("A call of a woven C function, 1 pre", "math:copysign", "f(1.0, -2.0)", 1, effort)
    title = "A call of a woven C function, 1 pre, an argument left out"
    yield _of_c(title, "zlib:crc32", 'f(b"tea")', 2, effort)


def _of_c(title: str, target: str, statement: str, limit: float, effort: Effort) -> Contest:
    module, _, name = target.partition(":")
    bare = getattr(import_module(module), name)
    made = wrapt.FunctionWrapper(bare, _wrapper)
    alone = "the C function alone"
    with weave(target, pre=targets.hook(next(iter(signature(bare).parameters)))):
        proxy: Any = getattr(import_module(module), name)
        contenders = [Contender(one, statement, {"f": f}) for one, f in ((alone, bare), (OURS, proxy), ("wrapt", made))]
        return Contest("weave", title, "ns", race(contenders, effort), alone, [Goal(OURS, limit, "wrapt")])
