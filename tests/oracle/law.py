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
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.invoke import Hooks, checked, invoke, is_due
from aspecthook._core.law.kinds import KINDS, Kind
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Signature
from aspecthook._core.law.streams import begin, ended, failed, stream


def kinds_of(signature: Signature) -> list[Kind]:
    """Return the kinds of hooks that can act on such a target."""
    barred = {"item"} if "generator" not in signature.style else set[str]()
    return [kind for kind in KINDS if kind not in barred and (kind != "on" or signature.emission is not None)]


def run(chain: Chain, call: Call, target: Callable[..., Any]) -> Any:
    """Interpret one call of a function."""
    with Ending(chain.always, call):
        try:
            skipped = before(chain.pre, call)
            inner = body(chain.on, target)
            result = skipped.value if skipped else inside(chain.around, call, inner, call._values)
        except BaseException as exc:
            result = recover(chain.exception, call, exc)
        else:
            result = after(chain.post, call, result)
        call._exc, call._result = None, result
        return result


class Ending:
    """The end of a call: a block whose `finally` part the always hooks are, each in one of its own."""

    def __init__(self, hooks: Hooks, call: Call) -> None:
        self.hooks, self.call = hooks, call

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.call._exc, self.call._result = error, None
        try:
            finish(self.hooks, self.call)
        finally:
            self.call._exc = None


def finish(hooks: Hooks, call: Call) -> None:
    """Run the always hooks; if one raises, the others run all the same, and see its exception."""
    for place, hook in enumerate(hooks):
        try:
            ask(hook, call)
        except BaseException as error:
            call._exc, call._result = error, None
            finish(hooks[place + 1 :], call)
            raise


def recover(hooks: Hooks, call: Call, exc: BaseException) -> Any:
    """Return the value of the exception hook that handles an exception, or raise it; called while it is handled."""
    call._exc = exc
    for place, hook in enumerate(hooks):
        if isinstance(exc, hook.types):
            try:
                answer = ask(hook, call)
            except BaseException as error:
                return recover(hooks[place + 1 :], call, error)
            if answer is not None:
                return answer.value
    raise exc


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
        call._values = tuple(revise(call._site, hook.kind, hook.function, answer, call._values))
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
        if not is_due(hook, call, seen, item) or not hook.admit():
            return None
        return checked(hook, call, invoke(hook, call, seen, item))
    except Exception as error:
        if not hook.isolate:
            raise
        return hook.failed(error)


# The inside of a call: the target inside the around hooks, or the subscribers of an event.


def inside(hooks: Hooks, call: Call, inner: Callable[..., Any], values: Values) -> Any:
    """Run `inner` inside the around hooks, the first one outermost."""
    if not hooks:
        return inner(call, values)
    hook, site = hooks[0], call._site
    rest = partial(inside, hooks[1:], inner=inner)
    if not is_due(hook, call, values) or not hook.admit():
        return rest(call=call, values=values)

    def proceed(*unnamed: Any, **changes: Any) -> Any:
        changed = _proceeded(site, hook.function, unnamed, changes, values)
        return rest(call=call._revised(changed) if changes else call, values=changed)

    answer = invoke(hook, call, values, proceed=proceed)
    if hook.proceeds:
        return settled(site, "around", hook.function, answer)
    one_yield = answer
    begin(site, hook.function, one_yield)
    try:
        result = rest(call=call, values=values)
    except BaseException as exc:
        answer = failed(site, hook.function, one_yield, exc)
        if answer is None:
            raise
        # In the `except` block: if the answer is refused, the exception is the context of the refusal.
        return settled(site, "around", hook.function, answer)
    answer = ended(site, hook.function, one_yield, result)
    return result if answer is None else settled(site, "around", hook.function, answer)


def body(hooks: Hooks, target: Callable[..., Any]) -> Callable[[Call, Values], Any]:
    """Return the function that runs inside all around hooks: the target, or the subscribers of an event."""

    def plain(call: Call, values: Values) -> Any:
        args, kwargs = call._site.signature.split(values)
        return target(*args, **kwargs)

    return partial(emit, hooks, plain) if hooks else plain


def emit(hooks: Hooks, plain: Callable[..., Any], call: Call, values: Values) -> Any:
    """Run the subscribers of an event, one after another."""
    tally = Tally(call._site, values)
    for hook in hooks:
        if tally.add_answer(hook, ask(hook, call, values=tally.values)):
            break
    return plain(call, values) if tally.wants_body else tally.result


# A generator: the same law, and every item passes through the item hooks.


def generate(chain: Chain, call: Call, target: Callable[..., Any]) -> Generator[Any, Any, Any]:
    """Interpret one run of a generator function."""
    source = None
    with Ending(chain.always, call):
        try:
            skipped = before(chain.pre, call)
            if skipped:
                result = skipped.value
            else:
                source = streamed(chain.around, call, target, call._values)
                result = yield from relayed(chain.item, call, source)
        except BaseException as exc:
            if source is not None:
                source.close()
            result = recover(chain.exception, call, exc)
        else:
            result = after(chain.post, call, result)
        call._exc, call._result = None, result
        return result


def relayed(hooks: Hooks, call: Call, source: Any) -> Generator[Any, Any, Any]:
    """Pass a stream on, each item as the item hooks leave it, and all that is sent or thrown."""
    resume: Any = partial(source.send, None)
    while True:
        try:
            item = resume()
        except StopIteration as stop:
            return getattr(stop, "value", None)
        finally:
            resume = None  # it refers to the exception that was thrown in
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
            resume = partial(source.throw, caught)
        else:
            resume = partial(source.send, sent)


# The around hooks of a generator. In a replay each of them asks for `proceed`, and decides by itself whether it acts.


def streamed(hooks: Hooks, call: Call, target: Callable[..., Any], values: Values) -> Any:
    """Return the stream of a generator inside its around hooks."""
    site = call._site
    if not hooks:
        args, kwargs = site.signature.split(values)
        return target(*args, **kwargs)
    hook = hooks[0]

    def proceed(*unnamed: Any, **changes: Any) -> Any:
        changed = _proceeded(site, hook.function, unnamed, changes, values)
        return streamed(hooks[1:], call._revised(changed) if changes else call, target, changed)

    return stream(site, hook.function, invoke(hook, call, values, proceed=proceed))


class Tally:
    """The answers of an event's subscribers in one interpreted call; the compiled call does the same."""

    __slots__ = ("_emission", "_site", "answered", "result", "values")

    def __init__(self, site: Site, values: Values) -> None:
        assert site.signature.emission is not None
        self._site = site
        self._emission = site.signature.emission
        # The arguments for the next subscriber.
        self.values = values
        self.answered = False
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

    @property
    def wants_body(self) -> bool:
        """Whether the stub's own body runs, because nobody has answered."""
        return self._emission.gives == "first" and self._emission.default and not self.answered


def _proceeded(
    site: Site, function: object, unnamed: tuple[object, ...], changes: dict[str, object], values: Values
) -> Values:
    """Return the arguments of a call of `proceed`: those of the call, with some replaced by name."""
    if unnamed:
        raise unnamed_values(site, function, unnamed)
    return tuple(revise(site, "around", function, changes, values))
