"""Faults: a target that fails, is late or returns something else, by call number, by predicate or at random."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable
from random import Random
from types import MethodType
from typing import Any, Self, TypedDict, Unpack, cast, final

from aspecthook._errors import HookOptionError, HookTypeError
from aspecthook._values import shortened
from aspecthook.weave import Weaving
from aspecthook.weave._steps import astepped

from ._mount import HANDS_ON, Call, Options, Return, under_lock


class Condition(TypedDict, total=False):
    """When a fault acts; every condition that is given must hold."""

    call: int | Collection[int]
    when: Callable[..., object]
    probability: float
    seed: int


@final
class Injection:
    """Faults in one target: what the fixture ``inject`` returns.

    They are nearest to the target, inside all other hooks: to them it is the target that fails, or takes its time. Each
    takes the conditions ``call=`` (the number of the call, from 1 on, since ``inject(target)``; or several),
    ``when=`` (a predicate, given what it asks for by name), and ``probability=`` with ``seed=`` (0 unless given).
    ``calls``, ``failed``, ``delayed`` and ``replaced`` count what happened.

    Example:
        def test_a_second_attempt(inject):
            fault = inject("shop:charge").fail(ConnectionError, call=1)
            assert shop.checkout("tea") == "paid"
            assert (fault.calls, fault.failed) == (2, 1)
    """

    def __init__(self, target: object, weaver: Callable[..., Weaving]) -> None:
        self.calls = self.failed = self.delayed = self.replaced = 0
        self._target = target
        self._weave = weaver
        self._key = f"injection {id(self)}"
        self._add("count", self._count, {})

    def fail(self, exc: BaseException | type[BaseException], /, **condition: Unpack[Condition]) -> Self:
        """Raise this in the target's place."""
        _check_raisable(exc)

        def fail(_proceed: object, _call: Call) -> object:
            raise exc if isinstance(exc, type) else exc.with_traceback(None)

        return self._put("fail", "failed", fail, condition)

    def delay(self, seconds: float, /, **condition: Unpack[Condition]) -> Self:
        """Wait before the target runs; an async target waits without blocking the event loop."""
        if seconds < 0:
            raise HookOptionError(f"a delay of {seconds} seconds is negative; give a number from 0 up")

        def delay(proceed: Callable[[], Any], call: Call) -> object:
            style = call._site.signature.style
            if style == "coroutine":
                return _later(seconds, proceed)
            if style == "async generator":
                return astepped(proceed(), _late(seconds))
            time.sleep(seconds)
            return proceed()

        return self._put("delay", "delayed", delay, condition)

    def replace(self, value: Any, /, **condition: Unpack[Condition]) -> Self:
        """Return this instead of calling the target; a callable is called with the target's arguments.

        In the place of a generator, the value is what it yields: any iterable.
        """

        def replace(_proceed: object, call: Call) -> object:
            style = call._site.signature.style
            made: Any = value(*call.args, **call.kwargs) if callable(value) else value
            if "generator" in style:
                return iter(made) if style == "generator" else _astream(made)
            # An awaitable that a function returns in a coroutine's place is awaited; all else is the result itself.
            return made if style == "coroutine" and callable(value) and hasattr(made, "__await__") else Return(made)

        return self._put("replace", "replaced", replace, condition)

    def __repr__(self) -> str:
        done = f"{self.failed} failed, {self.delayed} delayed, {self.replaced} replaced"
        return f"<injection into {shortened(self._target)}: {self.calls} calls, {done}>"

    def _put(self, name: str, done: str, act: Callable[..., object], condition: Condition) -> Self:
        """Add a fault, which acts in some calls and is counted as what was `done`."""
        acts = _schedule(condition)

        def fault(proceed: Callable[[], object], call: Call) -> object:
            if not acts(cast("int", call.state.get(self._key, 0))):
                return proceed()
            self._tally(done)
            return act(proceed, call)

        options: Options = {"when": condition["when"]} if "when" in condition else {}
        return self._add(name, fault, options)

    def _add(self, name: str, hook: Callable[..., object], options: Options) -> Self:
        # One hook for targets of every style: in a coroutine's place it hands on what `proceed()` gives.
        either: Any = hook.__func__ if isinstance(hook, MethodType) else hook
        either.__dict__[HANDS_ON] = True
        named = Options(name=f"inject.{name}", priority="LOWEST")
        self._weave(self._target, around=hook, **cast("Options", {**named, **options}))
        return self

    def _count(self, proceed: Callable[[], object], call: Call) -> object:
        call.state[self._key] = self._tally("calls")
        return proceed()

    @under_lock
    def _tally(self, what: str) -> int:
        counts: dict[str, int] = vars(self)
        # No call in this line: a signal handler may come at a call, and tally too.
        counts[what] = now = counts[what] + 1
        return now


def _schedule(condition: Condition) -> Callable[[int], bool]:
    """Return what decides by the number of a call whether a fault acts in it, at random in the same way in each run."""
    unknown = condition.keys() - Condition.__annotations__.keys()
    if unknown:
        raise HookTypeError(f"a fault takes call, when, probability and seed, and no {min(unknown)!r}")
    call = condition.get("call")
    calls = {call} if isinstance(call, int) else set(call) if call is not None else None
    if calls is not None and any(number < 1 for number in calls):
        raise HookOptionError(f"call={shortened(call)}: calls are counted from 1 on")
    probability = condition.get("probability", 1.0)
    if not 0 <= probability <= 1:
        raise HookOptionError(f"probability={probability} is not between 0 and 1")
    draw = Random(condition.get("seed", 0)).random
    return lambda number: (calls is None or number in calls) and draw() < probability


async def _pause(seconds: float) -> None:
    import asyncio

    if "anyio" not in sys.modules and asyncio._get_running_loop() is not None:
        await asyncio.sleep(seconds)
        return
    import anyio  # knows whether it is asyncio or trio that runs us

    await anyio.sleep(seconds)


async def _later(seconds: float, proceed: Callable[[], Any]) -> object:
    await _pause(seconds)
    return await proceed()


def _late(seconds: float) -> Callable[..., Any]:
    """Return what makes the steps of an async stream, the first of them late."""
    pauses = iter([seconds])

    async def turn(step: Callable[..., Any], *args: Any) -> Any:
        for pause in pauses:
            await _pause(pause)
        return await step(*args)

    return turn


def _check_raisable(exc: Any) -> None:
    if not (isinstance(exc, BaseException) or (isinstance(exc, type) and issubclass(exc, BaseException))):
        raise HookTypeError(
            f"{shortened(cast('Any', exc))} cannot be raised; give an exception, or a type of exception"
        )


async def _astream(made: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    if isinstance(made, AsyncIterable):
        async for item in made:
            yield item
    else:
        for item in made:
            yield item
