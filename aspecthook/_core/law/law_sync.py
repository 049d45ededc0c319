"""Law 1, interpreted plainly: a call is Python's own `try` statement.

This is the oracle that the compiled code is tested against, hook by hook. Compiled calls come here too, but only for
what is rare: the rest of the exception or always hooks after one of them has raised.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from .answers import Args, Return
from .call import Call
from .guard import Run
from .hook import Hook
from .order import Chain
from .runtime import (
    Tally,
    Values,
    alazy,
    arelay,
    astream,
    awithin,
    begin,
    end,
    fail,
    gather,
    lazy,
    proceed_with,
    relay,
    revise,
    settled,
    stream,
    within,
    wrong,
)

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Hooks = tuple[Hook, ...]
Target = Callable[..., Any]


def checked(hook: Hook, call: Call, answer: Any) -> Any:
    """Refuse what a hook of this kind may not answer."""
    allowed = {
        "pre": type(answer) in (Args, Return),
        "exception": type(answer) is Return,
        "always": type(answer) not in (Args, Return),
    }
    if answer is not None and not allowed.get(hook.kind, type(answer) is not Args):
        raise wrong(call._site, hook.kind, hook.function, answer)
    return answer


def invoke(hook: Hook, call: Call, values: Values, item: object) -> Any:
    args, kwargs = gather(hook, hook.asks, call, values, item=item)
    return hook.function(*args, **kwargs)


def is_due(hook: Hook, call: Call, values: Values, item: object = None) -> Any:
    """Say whether the hook's gate is open, and give the answer of its `when`."""
    if hook.gate is not None:
        assert hook.gate_asks is not None
        args, kwargs = gather(hook, hook.gate_asks, call, values, item=item)
        if not hook.gate(*args, **kwargs):
            return False
    if hook.when is None:
        return True
    assert hook.when_asks is not None
    args, kwargs = gather(hook, hook.when_asks, call, values, item=item)
    return hook.when(*args, **kwargs)


def leave(run: Run | bool) -> None:
    """Note that a hook which is not reentrant has run."""
    if isinstance(run, Run):
        run.leave()


def ask(hook: Hook, call: Call, item: object = None, values: Values | None = None) -> Any:
    """Give the answer of one hook; a hook whose conditions do not hold has answered None.

    A subscriber sees the `values` that have come as far as to it, which around hooks and others may have changed.
    """
    seen = call._values if values is None else values
    try:
        if not is_due(hook, call, seen, item) or not (run := hook.admit()):
            return None
        try:
            return checked(hook, call, invoke(hook, call, seen, item))
        finally:
            leave(run)
    except Exception as error:
        if not hook.isolate:
            raise
        return hook.failed(error)


# The parts that the four kinds of target share: what is not "in order" here is Python's own semantics.


def recover(hooks: Hooks, call: Call, exc: BaseException) -> Any:
    """Run exception hooks on `exc`, while it is being handled: give what handled it, or raise what is left."""
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
        del exc, call  # else this frame, which is in its traceback, and the exception would keep each other alive


def finish(hooks: Hooks, call: Call, error: BaseException | None = None) -> None:
    """Run always hooks, each as if in a `finally` block of its own: one that raises keeps no other from running.

    `error` is what an always hook before these has raised.
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
        del error, call  # as in `recover`


def replaced(hook: Hook, call: Call, answer: Args) -> None:
    """Replace arguments; an isolated hook that names one which is not there has answered None."""
    try:
        call._values = tuple(revise(call._site, hook.kind, hook.function, answer.changes, call._values))
    except Exception as error:
        if not hook.isolate:
            raise
        hook.failed(error)


def _proceed(hook: Hook, call: Call, inner: Target, values: Values) -> Target:
    def proceed(*unnamed: Any, **changes: Any) -> Any:
        return inner(tuple(proceed_with(call._site, hook.function, unnamed, changes, values)))

    return proceed


def open_hook(hook: Hook, call: Call, proceed: Target, values: Values) -> Any:
    """Call an around hook: what it answers, or the generator that it is."""
    args, kwargs = gather(hook, hook.asks, call, values, proceed=proceed)
    return hook.function(*args, **kwargs)


# A function.


def run(chain: Chain, call: Call, target: Target) -> Any:
    """Interpret one call of a function."""
    try:
        try:
            for hook in chain.pre:
                answer = ask(hook, call)
                if type(answer) is Args:
                    replaced(hook, call, answer)
                elif answer is not None:
                    result = answer.value
                    break
            else:
                result = _inside(chain.around, call, _body(chain.on, call, target), call._values)
        except BaseException as exc:
            result = recover(chain.exception, call, exc)
            call._exc = None
        else:
            for hook in chain.post:
                call._result = result
                answer = ask(hook, call)
                if answer is not None:
                    result = settled(call._site, "post", hook.function, answer)
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


def _body(hooks: Hooks, call: Call, target: Target) -> Callable[[Values], Any]:
    """Give what a call runs inside of everything: the target, or the subscribers of an event."""

    def plain(values: Values) -> Any:
        args, kwargs = call._site.signature.split(values)
        return target(*args, **kwargs)

    return partial(_emit, hooks, call, plain) if hooks else plain


def _emit(hooks: Hooks, call: Call, plain: Callable[[Values], Any], values: Values) -> Any:
    """Run the subscribers of an event."""
    tally = call._tally = Tally(call._site, values)
    record = call._site.record
    late = () if record is None else record(values, hooks)
    for hook in hooks:
        try:
            if tally.take(hook, ask(hook, call, values=tally.values)):
                break
        except Exception as slip:
            tally.slip(slip)
    try:
        if tally.wants_body:
            tally.result = plain(values)
    except Exception as slip:
        tally.slip_last(slip)
    missed(late, Call(call._site, values), tally.slips)
    return tally.close()


def missed(hooks: Hooks, call: Call, slips: list[Exception] | None = None) -> None:
    """Tell subscribers that came too late for a call what they have missed; what they answer comes too late too.

    `slips` is where the failures of the others wait, if they do; None: there are no others.
    """
    tally = Tally(call._site, call._values)
    try:
        for hook in hooks:
            try:
                ask(hook, call)
            except Exception as slip:
                tally.slip(slip)
        if slips is None:
            tally.close()
        else:
            slips += tally.slips
    finally:
        del tally, slips  # they hold what this frame is in the traceback of


def _inside(hooks: Hooks, call: Call, body: Callable[[Values], Any], values: Values) -> Any:
    """Run the body inside the around hooks, the first one outermost."""
    if not hooks:
        return body(values)
    hook = hooks[0]

    def inner(values: Values) -> Any:
        return _inside(hooks[1:], call, body, values)

    if not is_due(hook, call, values) or not (run := hook.admit()):
        return inner(values)
    try:
        made = open_hook(hook, call, _proceed(hook, call, inner, values), values)
        if hook.flavour != "generator":
            return settled(call._site, "around", hook.function, made)
        begin(call._site, hook.function, made)
        try:
            result = inner(values)
        except BaseException as exc:
            return fail(call._site, hook.function, made, exc)
        return end(call._site, hook.function, made, result)
    finally:
        leave(run)


# A generator: the same, with every item on its way out made to the item hooks.


def grun(chain: Chain, call: Call, target: Target) -> Generator[Any, Any, Any]:
    """Interpret one run of a generator function."""
    try:
        try:
            for hook in chain.pre:
                answer = ask(hook, call)
                if type(answer) is Args:
                    replaced(hook, call, answer)
                elif answer is not None:
                    result = answer.value
                    break
            else:
                source: Generator[Any, Any, Any] = streamed(chain.around, call, target, call._values)
                result = yield from (_relay(chain.item, call, source) if chain.item else source)
        except BaseException as exc:
            result = recover(chain.exception, call, exc)
            call._exc = None
        else:
            for hook in chain.post:
                call._result = result
                answer = ask(hook, call)
                if answer is not None:
                    result = settled(call._site, "post", hook.function, answer)
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


def _relay(hooks: Hooks, call: Call, source: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Do what `yield from` does (PEP 380), with each item given to the item hooks."""
    sent: Any = None
    thrown: BaseException | None = None
    try:
        while True:
            try:
                if thrown is None:
                    item = source.send(sent)
                else:
                    error, thrown = thrown, None
                    item = source.throw(error)
            except StopIteration as stop:
                result: Any = stop.value
                return result
            for hook in hooks:
                answer = ask(hook, call, item)
                if answer is not None:
                    item = settled(call._site, "item", hook.function, answer)
            try:
                sent = yield item
            except GeneratorExit:
                source.close()
                raise
            except BaseException as caught:
                thrown = caught
    finally:
        error = None  # type: ignore[assignment]  # else the frame and its exception keep each other alive
        source.close()


def streamed(hooks: Hooks, call: Call, target: Target, values: Values) -> Any:
    """Open the stream of a generator, sync or async, inside its around hooks."""
    if not hooks:
        args, kwargs = call._site.signature.split(values)
        return target(*args, **kwargs)
    hook, site = hooks[0], call._site

    def inner(values: Values) -> Any:
        return streamed(hooks[1:], call, target, values)

    def opened() -> Any:
        if not is_due(hook, call, values) or not (run := hook.admit()):
            return inner(values)
        return _opened(hook, call, inner, values, run)

    if hook.gate is None and hook.when is None and hook.guard is None:
        return opened()
    return alazy(opened) if site.signature.style == "async generator" else lazy(opened)


def _opened(hook: Hook, call: Call, inner: Target, values: Values, run: Run | bool) -> Any:
    """Open the stream of an around hook that acts."""
    site = call._site
    asynchronous = site.signature.style == "async generator"
    done = run.leave if isinstance(run, Run) else None
    source: Any = None
    try:
        made = open_hook(hook, call, _proceed(hook, call, inner, values), values)
        if hook.proceeds:
            source = (astream if asynchronous else stream)(site, hook.function, made)
    except BaseException:
        leave(run)
        raise
    if not hook.proceeds:
        return (awithin if asynchronous else within)(site, hook.function, made, inner(values), done)
    return source if done is None else (arelay if asynchronous else relay)(source, done)
