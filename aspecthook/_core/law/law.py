"""Law 1 on async functions and async generators, interpreted plainly: `_law` with `await` in it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial
from types import CoroutineType
from typing import Any

from .answers import Args
from .call import Call
from .hook import Hook
from .law_sync import Hooks, Target, checked, invoke, is_due, leave, open_hook, replaced, streamed
from .order import Chain
from .runtime import (
    Tally,
    Values,
    abegin,
    aend,
    afail,
    awaitable,
    begin,
    cut_off,
    ended,
    failed,
    proceed_with,
    settled,
    start,
)

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


async def aask(hook: Hook, call: Call, item: object = None, values: Values | None = None) -> Any:
    """Give the answer of one hook of an async function, awaited if it can be."""
    seen = call._values if values is None else values
    try:
        holds = is_due(hook, call, seen, item)
        if awaitable(holds):
            holds = await holds
        if not holds or not (run := hook.admit()):
            return None
        try:
            answer = invoke(hook, call, seen, item)
            return checked(hook, call, await answer if awaitable(answer) else answer)
        finally:
            leave(run)
    except Exception as error:
        if not hook.isolate:
            raise
        return hook.failed(error)


async def arecover(hooks: Hooks, call: Call, exc: BaseException) -> Any:
    """Run exception hooks as `recover` does, awaited."""
    call._exc = exc
    try:
        for place, hook in enumerate(hooks):
            if isinstance(exc, hook.types):
                try:
                    answer = await aask(hook, call)
                except BaseException as new:
                    return await arecover(hooks[place + 1 :], call, new)
                if answer is not None:
                    return answer.value
        raise exc
    finally:
        call._exc = None
        del exc, call  # as in `recover`


async def afinish(hooks: Hooks, call: Call, error: BaseException | None = None) -> None:
    """Run always hooks as `finish` does, awaited."""
    if error is not None:
        call._exc, call._result = error, None
    try:
        for place, hook in enumerate(hooks):
            try:
                await aask(hook, call)
            except BaseException as new:
                await afinish(hooks[place + 1 :], call, new)
                raise
    finally:
        call._exc = None
        del error, call  # as in `recover`


# A coroutine: the same, awaited.


async def arun(chain: Chain, call: Call, target: Target) -> Any:
    """Interpret one call of a coroutine function."""
    try:
        try:
            for hook in chain.pre:
                answer = await aask(hook, call)
                if type(answer) is Args:
                    replaced(hook, call, answer)
                elif answer is not None:
                    result = answer.value
                    break
            else:
                result = await _ainside(chain.around, call, _abody(chain.on, call, target), call._values)
        except BaseException as exc:
            result = await arecover(chain.exception, call, exc)
            call._exc = None
        else:
            for hook in chain.post:
                call._result = result
                answer = await aask(hook, call)
                if answer is not None:
                    result = settled(call._site, "post", hook.function, answer)
        call._result = result
        return result
    except BaseException as exc:
        call._exc, call._result = exc, None
        raise
    finally:
        try:
            await afinish(chain.always, call)
        finally:
            call._exc = None


def _abody(hooks: Hooks, call: Call, target: Target) -> Callable[[Values], Any]:
    """Give what a call awaits inside of everything: the target, or the subscribers of an event."""

    async def plain(values: Values) -> Any:
        args, kwargs = call._site.signature.split(values)
        return await target(*args, **kwargs)

    emission = call._site.signature.emission
    if emission is not None and emission.gather:
        return partial(agathered, hooks, call) if hooks else plain
    return partial(_aemit, hooks, call, plain) if hooks else plain


async def _aemit(hooks: Hooks, call: Call, plain: Callable[[Values], Any], values: Values) -> Any:
    """Await the subscribers of an event, one after another."""
    tally = call._tally = Tally(call._site, values)
    for hook in hooks:
        try:
            if tally.take(hook, await aask(hook, call, values=tally.values)):
                break
        except Exception as slip:
            tally.slip(slip)
    try:
        if tally.wants_body:
            tally.result = await plain(values)
    except Exception as slip:
        tally.slip_last(slip)
    return tally.close()


async def agathered(hooks: Hooks, call: Call, values: Values) -> Any:
    """Await the subscribers of an event all at once; their answers come in the order of the subscribers.

    If one fails, the others are cancelled; or, if failures are grouped, run to their end.
    """
    tally = call._tally = Tally(call._site, values)
    answers: dict[Hook, object] = {}
    slips: dict[Hook, Exception] = {}
    left: dict[Hook, BaseException] = {}

    async def one(hook: Hook) -> None:
        try:
            answers[hook] = await aask(hook, call, values=values)
        except Exception as slip:
            tally.slip(slip)
            slips[hook] = slip
        except BaseException as error:
            left[hook] = error
            raise

    from .gather import at_once

    try:
        await at_once([partial(one, hook) for hook in hooks])
        tally.slips = [slips[hook] for hook in hooks if hook in slips]
        if left:  # a task group passes over tasks that were cancelled by themselves
            raise cut_off(call._site, [*left.values(), *tally.slips])
        for hook in hooks:
            tally.take(hook, answers.get(hook))
        return tally.close()
    finally:
        tally.slips = []
        slips.clear()
        left.clear()


async def _whole(answer: Any) -> Any:
    """Await what an async hook has answered, if it is a coroutine."""
    pending: object = answer
    return await answer if type(pending) is CoroutineType else answer


def _aproceed(hook: Hook, call: Call, inner: Target, values: Values, given: list[Any]) -> Target:
    async def proceed(*unnamed: Any, **changes: Any) -> Any:
        result = await inner(tuple(proceed_with(call._site, hook.function, unnamed, changes, values)))
        given.append(result)
        return result

    return proceed


async def _ainside(hooks: Hooks, call: Call, body: Callable[[Values], Any], values: Values) -> Any:
    if not hooks:
        return await body(values)
    hook = hooks[0]

    def inner(values: Values) -> Any:
        return _ainside(hooks[1:], call, body, values)

    holds = is_due(hook, call, values)
    if not (await holds if awaitable(holds) else holds) or not (run := hook.admit()):
        return await inner(values)
    try:
        given: list[Any] = []
        made = open_hook(hook, call, _aproceed(hook, call, inner, values, given), values)
        if hook.flavour == "generator":
            begin(call._site, hook.function, made)
            try:
                result = await inner(values)
            except BaseException as exc:
                answer: Any = failed(call._site, hook.function, made, exc)
                answer = await answer if awaitable(answer) else answer
                if answer is None:
                    raise
                # Here: what is wrong with the answer has the exception as its context.
                return settled(call._site, "around", hook.function, answer)
            answer = ended(call._site, hook.function, made, result)
            answer = await answer if awaitable(answer) else answer
            return result if answer is None else settled(call._site, "around", hook.function, answer)
        if hook.flavour == "async generator":
            await abegin(call._site, hook.function, made)
            try:
                result = await inner(values)
            except BaseException as exc:
                return await afail(call._site, hook.function, made, exc)
            return await aend(call._site, hook.function, made, result)
        answer = await made if awaitable(made) else made
        if not any(answer is one for one in given):
            answer = await _whole(answer)
        return settled(call._site, "around", hook.function, answer)
    finally:
        leave(run)


# An async generator: it has no `yield from`, so the relaying is written out.


async def agrun(  # noqa: PLR0912, PLR0915  # an async generator cannot be split: it has no `yield from`
    chain: Chain, call: Call, target: Target
) -> AsyncGenerator[Any, Any]:
    """Interpret one run of an async generator function."""
    source = None
    try:
        try:
            for hook in chain.pre:
                answer = await aask(hook, call)
                if type(answer) is Args:
                    replaced(hook, call, answer)
                elif answer is not None:
                    result = answer.value
                    break
            else:
                result = None
                source = streamed(chain.around, call, target, call._values)
                step = start(source)
                while True:
                    try:
                        item = await step
                    except StopAsyncIteration:
                        break
                    finally:
                        step = None  # it holds what was thrown
                    for hook in chain.item:
                        answer = await aask(hook, call, item)
                        if answer is not None:
                            item = settled(call._site, "item", hook.function, answer)
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await source.aclose()
                        raise
                    except BaseException as caught:
                        step = source.athrow(caught)
                    else:
                        step = source.asend(sent)
        except BaseException as exc:
            if source is not None:
                await source.aclose()
            result = await arecover(chain.exception, call, exc)
            call._exc = None
        else:
            for hook in chain.post:
                call._result = result
                answer = await aask(hook, call)
                if answer is not None:
                    result = settled(call._site, "post", hook.function, answer)
        call._result = result
    except BaseException as exc:
        call._exc, call._result = exc, None
        raise
    finally:
        try:
            await afinish(chain.always, call)
        finally:
            call._exc = None
