"""Law 1, interpreted plainly: a call is Python's own `try` statement.

This is the oracle that compiled code is tested against, hook by hook. Compiled calls come here too, but only for what
is rare: the rest of the exception hooks or always hooks after one of them has raised.

This text is for async functions. `law_sync`, the same for sync functions, is made of it by ``make law``: without
`async` and `await`, and with the text after ``# sync:`` in place of a line. (Driving this text with ``send(None)``
would not do: a hook's StopIteration would leave a coroutine as a RuntimeError, PEP 479.)

Names are deleted in `finally` blocks for this reason: a frame is in the traceback of the exceptions that pass through
it. If it refers to such an exception too, the two keep each other alive until the next garbage collection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable  # sync: from collections.abc import Callable, Generator
from functools import partial

from aspecthook._hints import Any

from .answers import Args, Return, Values, proceed_with, settled
from .call import Call
from .hook import Hook
from .invoke import (
    Hooks,
    Target,
    awaitable,  # sync: drop
    checked,
    invoke,
    is_due,
    leave,
    replace,
    whole,  # sync: drop
)
from .order import Chain
from .streams import (
    ONE_YIELD,
    start,  # sync: drop
    streamed,
)
from .tally import Tally

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


# A function.


async def run(chain: Chain, call: Call, target: Target) -> Any:
    """Interpret one call of a function."""
    try:
        try:
            skipped = await before(chain.pre, call)
            inner = body(chain.on, call, target)
            result = skipped.value if skipped else await inside(chain.around, call, inner, call._values)
        except BaseException as exc:
            result = await recover(chain.exception, call, exc)
            call._exc = None
        else:
            result = await after(chain.post, call, result)
        call._result = result
        return result
    except BaseException as exc:
        call._exc, call._result = exc, None
        raise
    finally:
        try:
            await finish(chain.always, call)
        finally:
            call._exc = None


async def before(hooks: Hooks, call: Call) -> Return[Any] | None:
    """Run the pre hooks; return the answer that skips the target, or None."""
    for hook in hooks:
        answer = await ask(hook, call)
        if type(answer) is Args:
            replace(hook, call, answer)
        elif answer is not None:
            skips: Return[Any] = answer
            return skips
    return None


async def after(hooks: Hooks, call: Call, result: Any) -> Any:
    """Run the post hooks; return the result after them."""
    for hook in hooks:
        call._result = result
        answer = await ask(hook, call)
        if answer is not None:
            result = settled(call._site, "post", hook.function, answer)
    return result


async def recover(hooks: Hooks, call: Call, exc: BaseException) -> Any:
    """Run exception hooks on `exc` while it is being handled: return the value of the one that handles it, or raise it.

    An exception that a hook raises takes the place of `exc` for the hooks after it.
    """
    call._exc = exc
    try:
        for place, hook in enumerate(hooks):
            if isinstance(exc, hook.types):
                try:
                    answer = await ask(hook, call)
                except BaseException as new:
                    return await recover(hooks[place + 1 :], call, new)
                if answer is not None:
                    return answer.value
        raise exc
    finally:
        call._exc = None
        del exc, call


async def finish(hooks: Hooks, call: Call, error: BaseException | None = None) -> None:
    """Run always hooks, each as if in a `finally` block of its own: the others run even if one raises.

    Args:
        hooks: The hooks that have not run yet.
        call: The call.
        error: The exception of an always hook before these.
    """
    if error is not None:
        call._exc, call._result = error, None
    try:
        for place, hook in enumerate(hooks):
            try:
                await ask(hook, call)
            except BaseException as new:
                await finish(hooks[place + 1 :], call, new)
                raise
    finally:
        call._exc = None
        del error, call


# One hook.


async def ask(hook: Hook, call: Call, item: object = None, values: Values | None = None) -> Any:
    """Return the answer of one hook: None if its conditions do not hold.

    A subscriber is given `values`, the arguments as around hooks and the subscribers before it have left them.
    """
    seen = call._values if values is None else values
    try:
        holds = await resolved(is_due(hook, call, seen, item))
        if not holds or not (entry := hook.admit()):
            return None
        try:
            return checked(hook, call, await resolved(invoke(hook, call, seen, item)))
        finally:
            leave(entry)
    except Exception as error:
        if not hook.isolate:
            raise
        return hook.failed(error)


async def resolved(answer: Any) -> Any:
    """Return an answer, awaited if it is awaitable."""
    return await answer if awaitable(answer) else answer  # sync: return answer


# The inside of a call: the target inside the around hooks, or the subscribers of an event.


async def inside(hooks: Hooks, call: Call, inner: Target, values: Values) -> Any:
    """Run `inner` inside the around hooks, the first one outermost."""
    if not hooks:
        return await inner(values)
    hook, site = hooks[0], call._site
    inner = partial(inside, hooks[1:], call, inner)
    if not await resolved(is_due(hook, call, values)) or not (entry := hook.admit()):
        return await inner(values)
    results: list[Any] = []

    async def proceed(*unnamed: Any, **changes: Any) -> Any:
        result = await inner(tuple(proceed_with(site, hook.function, unnamed, changes, values)))
        results.append(result)
        return result

    try:
        answer = invoke(hook, call, values, proceed=proceed)
        if hook.proceeds:
            answer = await whole(answer, results)  # sync: drop
            return settled(site, "around", hook.function, answer)
        begin, ended, failed = ONE_YIELD[hook.style]
        generator = answer
        await resolved(begin(site, hook.function, generator))
        try:
            result = await inner(values)
        except BaseException as exc:
            answer = await resolved(failed(site, hook.function, generator, exc))
            if answer is None:
                raise
            # In the `except` block: if the answer is refused, the exception is the context of the refusal.
            return settled(site, "around", hook.function, answer)
        answer = await resolved(ended(site, hook.function, generator, result))
        return result if answer is None else settled(site, "around", hook.function, answer)
    finally:
        leave(entry)


def body(hooks: Hooks, call: Call, target: Target) -> Callable[[Values], Any]:
    """Return the function that runs inside all around hooks: the target, or the subscribers of an event."""

    async def plain(values: Values) -> Any:
        args, kwargs = call._site.signature.split(values)
        return await target(*args, **kwargs)

    if not hooks:
        return plain
    return partial(emit, hooks, call, plain)


async def emit(hooks: Hooks, call: Call, plain: Target, values: Values) -> Any:
    """Run the subscribers of an event, one after another."""
    tally = Tally(call._site, values)
    for hook in hooks:
        try:
            if tally.add_answer(hook, await ask(hook, call, values=tally.values)):
                break
        except Exception as error:
            tally.add_failure(error)
    try:
        if tally.wants_body:
            tally.result = await plain(values)
    except Exception as error:
        tally.add_failure_of_body(error)
    return tally.close()


# A generator: the same law, and every item passes through the item hooks.


async def generate(  # noqa: PLR0912  # an async generator cannot be split: it has no `yield from`
    chain: Chain, call: Call, target: Target
) -> AsyncGenerator[Any, Any]:
    """Interpret one run of a generator function."""
    stream = resume = None
    try:
        try:
            skipped = await before(chain.pre, call)
            if skipped:
                result = skipped.value
            else:
                stream = streamed(chain.around, call, target, call._values)
                resume = partial(start, stream)  # sync: resume = partial(stream.send, None)
                while True:
                    try:
                        item = await resume()
                    except StopAsyncIteration as stop:
                        result = getattr(stop, "value", None)
                        break
                    finally:
                        resume = None  # it refers to the exception that was thrown in
                    for hook in chain.item:
                        answer = await ask(hook, call, item)
                        if answer is not None:
                            item = settled(call._site, "item", hook.function, answer)
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await stream.aclose()
                        raise
                    except BaseException as caught:
                        resume = partial(stream.athrow, caught)
                    else:
                        resume = partial(stream.asend, sent)
        except BaseException as exc:
            if stream is not None:
                await stream.aclose()
            result = await recover(chain.exception, call, exc)
            call._exc = None
        else:
            result = await after(chain.post, call, result)
        call._result = result
        return  # sync: return result
    except BaseException as exc:
        call._exc, call._result = exc, None
        raise
    finally:
        try:
            await finish(chain.always, call)
        finally:
            call._exc = None
