"""The same work in each library: N hooks before and N hooks after one function, all of which do nothing.

Each library is used as its own documentation shows, and each hook gets what a hook of ours gets: `x` before, the result
after. What the libraries do beside calling the hooks differs, and is said for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import aspectlib
import blinker
import pluggy
import wrapt

from .targets import Function, add, hook, target
from .timing import Contender

CALL = "f(1, 2)"


def bare() -> Contender:
    """The function alone."""
    return Contender("bare function, no hooks", CALL, {"f": add})


def ours(pre: list[Function], post: list[Function]) -> Contender:
    """Does all of law 1: looks at every answer, and runs the chain as it is at the moment of the call."""
    function = target()
    for one in pre:
        function.pre(one)
    for one in post:
        function.post(one)
    return Contender("aspecthook", CALL, {"f": function})


def wrapt_nested(pre: list[Function], post: list[Function]) -> Contender:
    """Wrappers that know nothing of each other, N deep; each may change arguments and result.

    Takes `x` from the positional arguments alone: a wrapper that found arguments by name would have to bind them first.
    """
    function: Any = add
    for before, after in zip(pre, post, strict=True):
        function = wrapt.FunctionWrapper(function, _wrapper(before, after))
    return Contender("wrapt", CALL, {"f": function})


def _wrapper(before: Function, after: Function) -> Function:
    def wrapper(wrapped: Function, instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before(args[0])
        result = wrapped(*args, **kwargs)
        after(result)
        return result

    return wrapper


def wrapt_once(pre: list[Function], post: list[Function]) -> Contender:
    """One wrapper with all hooks in two lists: what one would write who owns them all. No goal is held against it."""

    def wrapper(wrapped: Function, instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for before in pre:
            before(args[0])
        result = wrapped(*args, **kwargs)
        for after in post:
            after(result)
        return result

    return Contender("wrapt, one wrapper that loops", CALL, {"f": wrapt.FunctionWrapper(add, wrapper)})


def aspectlib_nested(pre: list[Function], post: list[Function]) -> Contender:
    """N aspects, one on the other, each a generator; each may change arguments and result, and sees exceptions."""
    function: Any = add
    for before, after in zip(pre, post, strict=True):
        function = aspectlib.Aspect(_advice(before, after))(function)
    return Contender("aspectlib", CALL, {"f": function})


def _advice(before: Function, after: Function) -> Function:
    def advice(x: float, y: float) -> Iterator[Any]:
        before(x)
        result = yield
        after(result)

    return advice


spec = pluggy.HookspecMarker("benchmarks")
impl = pluggy.HookimplMarker("benchmarks")


class Spec:
    """What pluggy's plugins may implement."""

    @spec(firstresult=True)
    def add(self, x: float, y: float) -> float:
        """Add two numbers."""


class Implementation:
    """The function itself, as a plugin."""

    @impl
    def add(self, x: float, y: float) -> float:
        return x + y


class Wrapping:
    """A plugin that wraps the function (pluggy's new-style wrapper)."""

    def __init__(self, before: Function, after: Function) -> None:
        self.before = before
        self.after = after

    @impl(wrapper=True)
    def add(self, x: float, y: float) -> Any:
        self.before(x)
        result = yield
        self.after(result)
        return result


def pluggy_wrappers(pre: list[Function], post: list[Function]) -> Contender:
    """N wrappers around one implementation; each may change the result, and sees exceptions; arguments go by name.

    That the call itself goes through pluggy is how pluggy works: there is no function that one could call instead.
    """
    manager: Any = pluggy.PluginManager("benchmarks")
    manager.add_hookspecs(Spec)
    for plugin in (Implementation(), *(Wrapping(*pair) for pair in zip(pre, post, strict=True))):
        manager.register(plugin)
    return Contender("pluggy", "f(x=1, y=2)", {"f": manager.hook.add})


def blinker_signals(count: int) -> tuple[Contender, list[Callable[..., None]]]:
    """Two signals sent by hand, N receivers each, called in no certain order; what they return changes nothing.

    Receivers are called with the sender as well, so they are functions of their own; they too do nothing. Signals hold
    them weakly, so they are given back, to be kept.
    """
    before, after = blinker.Signal(), blinker.Signal()
    heard = [hook("sender, x") for _ in range(count)] + [hook("sender, result") for _ in range(count)]
    for receiver in heard[:count]:
        before.connect(receiver)
    for receiver in heard[count:]:
        after.connect(receiver)

    def sending(x: float, y: float) -> float:
        before.send(add, x=x)
        result = add(x, y)
        after.send(add, result=result)
        return result

    return Contender("blinker", CALL, {"f": sending}), heard


def hooks(count: int) -> tuple[list[Function], list[Function]]:
    """Make hooks that do nothing, each with code of its own."""
    return [hook("x") for _ in range(count)], [hook("result") for _ in range(count)]
