"""Around hooks with one `yield`, and around hooks of generators, which work on streams, at run time.

Generated code and `law` both call these functions. A stream is a generator, sync or async, with its whole protocol:
`send`, `throw` and `close` go through to the target.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator

from aspecthook._errors import HookAnswerError, described, unblamed
from aspecthook._hints import Any, cast

from .answers import hook_at, settled
from .call import Site

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# What `next` returns instead of an item, when a hook has ended.
ENDED = object()

# A one-yield around hook is run in two steps: begin; then end with the result, or fail with the exception.


def begin(site: Site, function: object, hook: Generator[Any, Any, Any]) -> None:
    """Run the part before the yield."""
    if next(hook, ENDED) is ENDED:
        raise never_yielded(site, function)


def ended(site: Site, function: object, hook: Generator[Any, Any, Any], result: object) -> Any:
    """Send the result to the hook at its yield, and return its answer, which is one by the rules of post."""
    try:
        hook.send(result)
    except StopIteration as stop:
        return stop.value
    hook.close()
    raise _yielded_twice(site, function)


def failed(site: Site, function: object, hook: Generator[Any, Any, Any], error: BaseException) -> Any:
    """Raise the exception at the yield of the hook, and return its answer; None: it did not handle the exception.

    Called in the `except` block of `error`.
    """
    try:
        try:
            hook.throw(error)
        except StopIteration as stop:
            return stop.value
        except RuntimeError as other:
            # A StopIteration that leaves a generator becomes the cause of a RuntimeError (PEP 479).
            if not isinstance(error, StopIteration) or other.__cause__ is not error:
                raise
            return None
        hook.close()
        raise _yielded_twice(site, function)
    finally:
        del error  # else this frame, which is in its traceback, and the exception would keep each other alive


async def abegin(site: Site, function: object, hook: AsyncGenerator[Any, Any]) -> None:
    """Run the part before the yield of an async hook."""
    try:
        await start(hook)
    except StopAsyncIteration:
        raise never_yielded(site, function) from None


async def aended(site: Site, function: object, hook: AsyncGenerator[Any, Any], result: object) -> Any:
    """Send the result to an async hook at its yield; an async generator returns nothing, so its answer is None."""
    try:
        await hook.asend(result)
    except StopAsyncIteration:
        return None
    await hook.aclose()
    raise _yielded_twice(site, function)


async def afailed(site: Site, function: object, hook: AsyncGenerator[Any, Any], error: BaseException) -> Any:
    """Raise the exception at the yield of an async hook, which handles none: an async generator returns no answer."""
    try:
        try:
            await hook.athrow(error)
        except StopAsyncIteration:
            return None
        except RuntimeError as other:
            if not isinstance(error, (StopIteration, StopAsyncIteration)) or other.__cause__ is not error:
                raise
            return None
        await hook.aclose()
        raise _yielded_twice(site, function)
    finally:
        del error  # for the reason in `failed`


def never_yielded(site: Site, function: object) -> HookAnswerError:
    """Return the error for a one-yield hook that ends without its yield."""
    return HookAnswerError(
        f"{hook_at(site, 'around', function)} returned without a yield, so the target did not run; yield "
        f"once, or ask for `proceed` and return a value"
    )


def _yielded_twice(site: Site, function: object) -> HookAnswerError:
    return HookAnswerError(
        f"{hook_at(site, 'around', function)} yielded twice; the call runs at the first yield, so yield once"
    )


# Around hooks of generators work on streams: `proceed()` returns one, and the hook must answer one.


def stream(site: Site, function: object, answer: object) -> Generator[Any, Any, Any]:
    """Return the stream that an around hook of a generator answered: any iterator, or the return value alone."""
    if hasattr(type(answer), "__next__"):
        return _items(site, function, cast("Generator[Any, Any, Any]", answer))
    return _nothing(settled(site, "around", function, cast("Any", answer)))


def astream(site: Site, function: object, answer: object) -> AsyncGenerator[Any, Any]:
    """Return the stream that an around hook of an async generator answered: any async iterable."""
    if hasattr(answer, "asend") and hasattr(answer, "athrow"):
        return cast("AsyncGenerator[Any, Any]", answer)  # it has the whole protocol
    if hasattr(answer, "__aiter__"):
        return _aitems(cast("AsyncIterator[Any]", answer))
    raise HookAnswerError(
        f"{hook_at(site, 'around', function)} answered {described(answer)}; around an async generator, "
        f"answer `proceed()` or another async iterator"
    )


@unblamed
def _items(site: Site, function: object, source: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    # Any iterable works here, not only a generator.
    return settled(site, "around", function, (yield from source))


@unblamed
async def _aitems(source: AsyncIterator[Any]) -> AsyncGenerator[Any, Any]:
    async for item in source:
        yield item


def _nothing(result: object) -> Generator[Any, Any, Any]:
    yield from ()
    return result


def start(source: AsyncGenerator[Any, Any]) -> Awaitable[Any]:
    """Begin the first step of an async stream that runs inside another one, without the event loop knowing of it.

    A loop that shuts down closes all async generators it knows concurrently (`shutdown_asyncgens`). It must not close
    the inner one while the outer one uses it; closing the outer one closes both.
    """
    loops = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
    try:
        return source.asend(None)
    finally:
        sys.set_asyncgen_hooks(*loops)


@unblamed
def lazy(opened: Callable[[], Generator[Any, Any, Any]]) -> Generator[Any, Any, Any]:
    """Open a stream at its first step: that is when the call begins, and when a hook's conditions are checked."""
    return (yield from opened())


@unblamed
def relay(source: Generator[Any, Any, Any], leave: Callable[[], None]) -> Generator[Any, Any, Any]:
    """Pass a stream on, and call `leave` at its end."""
    try:
        return (yield from source)
    finally:
        leave()


@unblamed
def within(
    site: Site, function: object, hook: Generator[Any, Any, Any], opened: Callable[[], Generator[Any, Any, Any]]
) -> Generator[Any, Any, Any]:
    """Open and run a stream at the yield of a one-yield around hook, which begins before the hooks inside it."""
    begin(site, function, hook)
    try:
        result = yield from opened()
    except BaseException as error:
        answer = failed(site, function, hook, error)
        if answer is None:
            raise
        return settled(site, "around", function, answer)
    answer = ended(site, function, hook, result)
    return result if answer is None else settled(site, "around", function, answer)


@unblamed
async def arelay(  # noqa: PLR0912  # the loop of `yield from` (PEP 380), which an async function does not have
    source: Any, leave: Callable[[], None] | None = None, around: tuple[Site, object, Any] | None = None
) -> AsyncGenerator[Any, Any]:
    """Pass an async stream on with `asend`, `athrow` and `aclose`.

    Args:
        source: The stream, or what opens one: an async generator, or a callable that returns one.
        leave: Called at its end.
        around: The one-yield hook at whose yield the stream is opened and runs, with its mount point and its function.
    """
    is_async = around is not None and hasattr(around[2], "asend")
    if around is not None:
        await abegin(*around) if is_async else begin(*around)
    try:
        if around is not None or not hasattr(source, "asend"):
            source = source()
        step = start(source)
        while True:
            try:
                item = await step
            except StopAsyncIteration:
                break
            finally:
                del step  # it refers to the exception that was thrown in
            try:
                sent = yield item
            except GeneratorExit:
                await source.aclose()
                raise
            except BaseException as caught:
                step = source.athrow(caught)
            else:
                step = source.asend(sent)
    except BaseException as error:
        if around is None:
            raise
        answer = await afailed(*around, error) if is_async else failed(*around, error)
        if answer is None:
            raise
        settled(around[0], "around", around[1], answer)  # it goes nowhere, but must be an answer
    else:
        if around is not None:
            answer = await aended(*around, None) if is_async else ended(*around, None)
            settled(around[0], "around", around[1], answer)
    finally:
        if leave is not None:
            leave()
