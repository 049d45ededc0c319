"""The laws in plain Python: a call is Python's own `try` statement.

It is what compiled calls are compared with, hook by hook; and the table of the guide as a program. It is for sync
functions and generators. Async ones are played again by it too, with hooks and targets that are not async.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from aspecthook._core.law.answers import Args, Return, Values, revise, settled, unnamed_values
from aspecthook._core.law.call import Call, Site
from aspecthook._core.law.guard import Entry
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.invoke import Hooks, Target, checked, invoke, is_due
from aspecthook._core.law.kinds import KINDS, Kind
from aspecthook._core.law.law import finish, leave, recover
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Signature
from aspecthook._core.law.streams import (
    abegin,
    aended,
    afailed,
    alazy,
    arelay,
    astream,
    awithin,
    begin,
    ended,
    failed,
    lazy,
    relay,
    stream,
    within,
)

# For each style of one-yield hook: what begins it, what ends it with a result, and with an exception.
ONE_YIELD: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "generator": (begin, ended, failed),
    "async generator": (abegin, aended, afailed),
}


def kinds_of(signature: Signature) -> list[Kind]:
    """Return the kinds of hooks that can act on such a target."""
    barred = {"item"} if "generator" not in signature.style else set[str]()
    return [kind for kind in KINDS if kind not in barred and (kind != "on" or signature.emission is not None)]


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


def replace(hook: Hook, call: Call, answer: Args) -> None:
    """Replace arguments of the call. Naming an unknown one is a failure of the hook, which may be isolated."""
    try:
        call._values = tuple(revise(call._site, hook.kind, hook.function, answer.changes, call._values))
    except Exception as error:
        if not hook.isolate:
            raise
        hook.failed(error)


# One hook.


def ask(hook: Hook, call: Call, item: object = None, values: tuple[object, ...] | None = None) -> Any:
    """Return the answer of one hook: None if its conditions do not hold.

    A subscriber is given `values`, the arguments as around hooks and the subscribers before it have left them.
    """
    seen = call._values if values is None else values
    try:
        if not is_due(hook, call, seen, item) or not (entry := hook.admit()):
            return None
        try:
            return checked(hook, call, invoke(hook, call, seen, item))
        finally:
            leave(entry)
    except Exception as error:
        if not hook.isolate:
            raise
        return hook.failed(error)


# The inside of a call: the target inside the around hooks, or the subscribers of an event.


def inside(hooks: Hooks, call: Call, inner: Target, values: Values) -> Any:
    """Run `inner` inside the around hooks, the first one outermost."""
    if not hooks:
        return inner(values)
    hook, site = hooks[0], call._site
    inner = partial(inside, hooks[1:], call, inner)
    if not is_due(hook, call, values) or not (entry := hook.admit()):
        return inner(values)

    def proceed(*unnamed: Any, **changes: Any) -> Any:
        return inner(_proceeded(site, hook.function, unnamed, changes, values))

    try:
        answer = invoke(hook, call, values, proceed=proceed)
        if hook.proceeds:
            return settled(site, "around", hook.function, answer)
        begin, ended, failed = ONE_YIELD[hook.style]
        generator = answer
        begin(site, hook.function, generator)
        try:
            result = inner(values)
        except BaseException as exc:
            answer = failed(site, hook.function, generator, exc)
            if answer is None:
                raise
            # In the `except` block: if the answer is refused, the exception is the context of the refusal.
            return settled(site, "around", hook.function, answer)
        answer = ended(site, hook.function, generator, result)
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


def generate(  # an async generator cannot be split: it has no `yield from`
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


# The around hooks of a generator.


def streamed(hooks: Hooks, call: Call, target: Target, values: Values) -> Any:
    """Return the stream of a generator, sync or async, inside its around hooks."""
    site = call._site
    if not hooks:
        args, kwargs = site.signature.split(values)
        return target(*args, **kwargs)
    hook, asynchronous = hooks[0], site.signature.style == "async generator"

    def inner(values: Values) -> Any:
        return streamed(hooks[1:], call, target, values)

    def proceed(*unnamed: Any, **changes: Any) -> Any:
        return inner(_proceeded(site, hook.function, unnamed, changes, values))

    def opened() -> Any:
        if not is_due(hook, call, values) or not (entry := hook.admit()):
            return inner(values)
        try:
            answer = invoke(hook, call, values, proceed=proceed)
            if hook.proceeds:
                source: Any = (astream if asynchronous else stream)(site, hook.function, answer)
            else:
                source = (awithin if asynchronous else within)(site, hook.function, answer, partial(inner, values))
        except BaseException:
            leave(entry)
            raise
        return (arelay if asynchronous else relay)(source, entry.leave) if isinstance(entry, Entry) else source

    if hook.gate is None and hook.when is None and hook.guard is None:
        return opened()
    return alazy(opened) if asynchronous else lazy(opened)


class Tally:
    """The answers and failures of an event's subscribers in one interpreted call; the compiled call does the same."""

    __slots__ = ("_emission", "_site", "answered", "failures", "result", "values")

    def __init__(self, site: Site, values: Values) -> None:
        assert site.signature.emission is not None
        self._site = site
        self._emission = site.signature.emission
        # The arguments for the next subscriber.
        self.values = values
        self.answered = False
        self.failures: list[Exception] = []
        gives = self._emission.gives
        self.result: Any = [] if gives == "list" else values[self._emission.fold] if gives == "fold" else None

    def add_answer(self, hook: Hook, answer: Any) -> bool:
        """Add an answer; return whether no further subscriber runs."""
        if answer is None:
            return False
        value = settled(self._site, "on", hook.function, answer)
        if self._emission.checked and self._site.fits is not None:
            folded = self.result if self._emission.gives == "fold" else None
            value = self._site.fits(self._site, hook.function, value, folded)
        self.answered = True
        if self._emission.gives == "list":
            self.result.append(value)
            return False
        self.result = value
        if self._emission.gives == "fold":
            place = self._emission.fold
            self.values = (*self.values[:place], value, *self.values[place + 1 :])
        return self._emission.gives == "first"

    def add_failure(self, error: Exception) -> None:
        """Keep a failure until all have run, if failures are grouped; else raise it, in its `except` block."""
        try:
            if not self._emission.group:
                raise error
            self.failures.append(error)
        finally:
            del error  # else this frame, which is in its traceback, and the exception would keep each other alive

    def add_failure_of_body(self, error: Exception) -> None:
        """Keep a failure of the stub's body with those of the subscribers; if there are none, raise it as it is."""
        try:
            if not self.failures:
                raise error
            self.failures.append(error)
        finally:
            del error  # for the reason in `add_failure`

    @property
    def wants_body(self) -> bool:
        """Whether the stub's own body runs, because nobody has answered."""
        return self._emission.gives == "first" and self._emission.default and not self.answered

    def close(self) -> Any:
        """Return the result, or raise the failures that were kept."""
        failures, self.failures = self.failures, []
        try:
            if failures:
                raise _together(self._site, failures)
            return self.result
        finally:
            del failures


def _together(site: Site, failures: list[Exception]) -> ExceptionGroup[Exception]:
    """Return one error for all failures of subscribers."""
    count = len(failures)
    return ExceptionGroup(f"{site.label}: {count} subscriber{'s' * (count > 1)} failed", failures)


def _proceeded(
    site: Site, function: object, unnamed: tuple[object, ...], changes: dict[str, object], values: Values
) -> Values:
    """Return the arguments of a call of `proceed`: those of the call, with some replaced by name."""
    if unnamed:
        raise unnamed_values(site, function, unnamed)
    return tuple(revise(site, "around", function, changes, values))
