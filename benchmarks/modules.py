"""Hooks on modules of PyTorch: calls beside PyTorch's own hooks and code by hand, and what those not hooked pay."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from aspecthook import weave

from .results import OURS, Contest, Goal
from .timing import Contender, Effort, race

HAND = "by hand"
TORCH = "PyTorch's own hooks"


def modules(effort: Effort) -> list[Contest]:
    """A module that gives back its input: beside one that is woven, with 1 + 1 and 10 + 10 hooks."""
    if find_spec("torch") is None:
        print("section torch: PyTorch is not installed, nothing was measured", file=sys.stderr)
        return []
    return [_idle(effort), _chain(1, effort), _chain(10, effort)]


def _idle(effort: Effort) -> Contest:
    kind = _kind()
    alone, beside, used = _kind()(), kind(), kind()
    code, before = kind.forward.__code__, dict(vars(used))
    woven = weave(kind(), post=_after)  # another object of the same class
    weave(used, post=_after).remove()
    times = race(
        [
            Contender("a module", "m(x)", {"m": alone, "x": 1}),
            Contender("one beside a woven one", "m(x)", {"m": beside, "x": 1}),
            Contender("one woven once, not now", "m(x)", {"m": used, "x": 1}),
        ],
        effort,
    )
    facts = {
        "the same forward, with the same __code__": kind.forward.__code__ is code and type(beside) is kind,
        "nothing in the module": vars(used).keys() == before.keys(),
    }
    woven.remove()
    return Contest("torch", "Modules that are not hooked", "ns", times, "a module", facts=facts)


def _chain(count: int, effort: Effort) -> Contest:
    bare, theirs, ours = _kind()(), _kind()(), _kind()()
    for _ in range(count):
        theirs.register_forward_pre_hook(lambda module, args: None)
        theirs.register_forward_hook(lambda module, args, result: None)
    weaving = weave(ours, pre=[_copy(_before) for _ in range(count)], post=[_copy(_after) for _ in range(count)])
    times = race(
        [
            Contender("bare", "m(x)", {"m": bare, "x": 1}),
            Contender(HAND, "m(x)", {"m": _by_hand(count), "x": 1}),
            Contender(OURS, "m(x)", {"m": ours, "x": 1}),
            Contender(TORCH, "m(x)", {"m": theirs, "x": 1}),
        ],
        effort,
    )
    weaving.remove()
    goals = [Goal(OURS, 1.2 if count == 1 else 1.1, HAND), Goal(TORCH, 2.0, OURS, at_least=True)]
    return Contest("torch", f"A call of a module, {count} pre + {count} post, no-op", "ns", times, HAND, goals)


def _kind() -> Any:
    """Make a class of its own, with a code of its own, that gives back its input."""
    import torch

    space: dict[str, Any] = {}
    exec("def forward(self, x):\n    return x\n", space)
    return type("Same", (torch.nn.Module,), {"forward": space["forward"]})


def _by_hand(count: int) -> Any:
    """Make a module whose forward calls the functions itself."""
    import torch

    space: dict[str, Any] = {}
    lines = ["def forward(self, x):"]
    for function in (_before, _after):
        for place in range(count):
            name = f"{function.__name__}_{place}"
            space[name] = _copy(function)
            lines.append(f"    answer = {name}(x)\n    if answer is not None:\n        x = answer")
    exec("\n".join([*lines, "    return x"]), space)
    return type("ByHand", (torch.nn.Module,), {"forward": space["forward"]})()


def _before(x: object) -> None: ...


def _after(result: object) -> None: ...


def _copy(function: Any) -> Any:
    return type(function)(function.__code__, function.__globals__)
