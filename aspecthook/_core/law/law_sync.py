"""The law of sync functions, made of `law` by ``make law``: change it there."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from aspecthook._hints import Any

from .answers import Args, Return, Values, proceed_with, settled
from .call import Call
from .hook import Hook
from .invoke import (
    Hooks,
    Target,
    checked,
    invoke,
    is_due,
    leave,
    replace,
)
from .order import Chain
from .streams import (
    ONE_YIELD,
    streamed,
)
from .tally import Tally

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


# A function.


def run(chain: Chain, call: Call, target: Target) -> Any:
    """Interpret one call of a function."""
    try:
        try:
            skipped = before(chain.pre, call)
            inner = body(chain.on, call, target)
            result = skipped.value if skipped else inside(chain.around, call, inner, call._values)
        except BaseException as exc:
            result = recover(chain.exception, call, exc)
            call._exc = None
        else:
            result = after(chain.post, call, result)
        call._result = result
        return result
    except BaseException as exc:
        call._exc, call._result = exc, None
        raise
    finally:
        try:
            finish(chain.always, call)
        finally:
            call._exc = None


def before(hooks: Hooks, call: Call) -> Return[Any] | None:
    """Run the pre hooks; return the answer that skips the target, or None."""
    for hook in hooks:
        answer = ask(hook, call)
        if type(answer) is Args:
            replace(hook, call, answer)
        elif answer is not None:
            skips: Return[Any] = answer
            return skips
    return None


def after(hooks: Hooks, call: Call, result: Any) -> Any:
    """Run the post hooks; return the result after them."""
    for hook in hooks:
        call._result = result
        answer = ask(hook, call)
        if answer is not None:
            result = settled(call._site, "post", hook.function, answer)
    return result


def recover(hooks: Hooks, call: Call, exc: BaseException) -> Any:
    """Run exception hooks on `exc` while it is being handled: return the value of the one that handles it, or raise it.

    An exception that a hook raises takes the place of `exc` for the hooks after it.
    """
    call._exc = exc
    try:
        for place, hook in enumerate(hooks):
            if isinstance(exc, hook.types):
                try:
                    answer = ask(hook, call)
                except BaseException as new:
                    return recover(hooks[place + 1 :], call, new)
                if answer is not None:
                    return answer.value
        raise exc
    finally:
        call._exc = None
        del exc, call


def finish(hooks: Hooks, call: Call, error: BaseException | None = None) -> None:
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
                ask(hook, call)
            except BaseException as new:
                finish(hooks[place + 1 :], call, new)
                raise
    finally:
        call._exc = None
        del error, call


# One hook.


def ask(hook: Hook, call: Call, item: object = None, values: Values | None = None) -> Any:
    """Return the answer of one hook: None if its conditions do not hold.

    A subscriber is given `values`, the arguments as around hooks and the subscribers before it have left them.
    """
    seen = call._values if values is None else values
    try:
        holds = resolved(is_due(hook, call, seen, item))
        if not holds or not (entry := hook.admit()):
            return None
        try:
            return checked(hook, call, resolved(invoke(hook, call, seen, item)))
        finally:
            leave(entry)
    except Exception as error:
        if not hook.isolate:
            raise
        return hook.failed(error)


def resolved(answer: Any) -> Any:
    """Return an answer, awaited if it is awaitable."""
    return answer


# The inside of a call: the target inside the around hooks, or the subscribers of an event.


def inside(hooks: Hooks, call: Call, inner: Target, values: Values) -> Any:
    """Run `inner` inside the around hooks, the first one outermost."""
    if not hooks:
        return inner(values)
    hook, site = hooks[0], call._site
    inner = partial(inside, hooks[1:], call, inner)
    if not resolved(is_due(hook, call, values)) or not (entry := hook.admit()):
        return inner(values)
    results: list[Any] = []

    def proceed(*unnamed: Any, **changes: Any) -> Any:
        result = inner(tuple(proceed_with(site, hook.function, unnamed, changes, values)))
        results.append(result)
        return result

    try:
        answer = invoke(hook, call, values, proceed=proceed)
        if hook.proceeds:
            return settled(site, "around", hook.function, answer)
        begin, ended, failed = ONE_YIELD[hook.style]
        generator = answer
        resolved(begin(site, hook.function, generator))
        try:
            result = inner(values)
        except BaseException as exc:
            answer = resolved(failed(site, hook.function, generator, exc))
            if answer is None:
                raise
            # In the `except` block: if the answer is refused, the exception is the context of the refusal.
            return settled(site, "around", hook.function, answer)
        answer = resolved(ended(site, hook.function, generator, result))
        return result if answer is None else settled(site, "around", hook.function, answer)
    finally:
        leave(entry)


def body(hooks: Hooks, call: Call, target: Target) -> Callable[[Values], Any]:
    """Return the function that runs inside all around hooks: the target, or the subscribers of an event."""

    def plain(values: Values) -> Any:
        args, kwargs = call._site.signature.split(values)
        return target(*args, **kwargs)

    if not hooks:
        return plain
    return partial(emit, hooks, call, plain)


def emit(hooks: Hooks, call: Call, plain: Target, values: Values) -> Any:
    """Run the subscribers of an event, one after another."""
    tally = Tally(call._site, values)
    for hook in hooks:
        try:
            if tally.add_answer(hook, ask(hook, call, values=tally.values)):
                break
        except Exception as error:
            tally.add_failure(error)
    try:
        if tally.wants_body:
            tally.result = plain(values)
    except Exception as error:
        tally.add_failure_of_body(error)
    return tally.close()


# A generator: the same law, and every item passes through the item hooks.


def generate(  # noqa: PLR0912  # an async generator cannot be split: it has no `yield from`
    chain: Chain, call: Call, target: Target
) -> Generator[Any, Any, Any]:
    """Interpret one run of a generator function."""
    stream = resume = None
    try:
        try:
            skipped = before(chain.pre, call)
            if skipped:
                result = skipped.value
            else:
                stream = streamed(chain.around, call, target, call._values)
                resume = partial(stream.send, None)
                while True:
                    try:
                        item = resume()
                    except StopIteration as stop:
                        result = getattr(stop, "value", None)
                        break
                    finally:
                        resume = None  # it refers to the exception that was thrown in
                    for hook in chain.item:
                        answer = ask(hook, call, item)
                        if answer is not None:
                            item = settled(call._site, "item", hook.function, answer)
                    try:
                        sent = yield item
                    except GeneratorExit:
                        stream.close()
                        raise
                    except BaseException as caught:
                        resume = partial(stream.throw, caught)
                    else:
                        resume = partial(stream.send, sent)
        except BaseException as exc:
            if stream is not None:
                stream.close()
            result = recover(chain.exception, call, exc)
            call._exc = None
        else:
            result = after(chain.post, call, result)
        call._result = result
        return result
    except BaseException as exc:
        call._exc, call._result = exc, None
        raise
    finally:
        try:
            finish(chain.always, call)
        finally:
            call._exc = None
