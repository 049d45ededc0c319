"""What generated code and the interpreter share: how answers are read, and how a one-yield around hook is driven."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from operator import attrgetter
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, cast, final

from aspecthook._errors import (
    HookAnswerError,
    HookSignatureError,
    article,
    described,
    literal,
    nearest,
    plural,
    printable,
)

from .answers import Args, Return
from .asks import RESERVED, Asks, Kind
from .call import Call, Site
from .hook import code_of, name_of, who_is
from .shown import ABSENT
from .signature import ITERABLE_COROUTINE

if TYPE_CHECKING:
    from .hook import Hook

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Values = tuple[object, ...]

_MAY: dict[str, str] = {
    "pre": "None, Args(...) to replace arguments, or Return(value) to skip the target",
    "around": "the result, or Return(result)",
    "on": "None, an answer, or Return(answer)",
    "item": "None, the item to yield instead, or Return(item)",
    "exception": "None, or Return(value) to handle the exception",
    "post": "None, the new result, or Return(result)",
    "always": "None; what it answers otherwise is ignored, so neither Args(...) nor Return(...) can be meant",
}


def wrong(site: Site, kind: Kind, function: object, answer: object) -> HookAnswerError:
    """Make the error for an answer that a hook of this kind may not give."""
    hint = ""
    if kind == "pre":
        hint = f"; to replace an argument write Args({meant_argument(site, kind, function)}={literal(answer)})"
    elif kind == "on":
        hint = "; to replace arguments, use a pre hook on the event"
    elif kind == "exception":
        hint = "; to give the caller this value write Return(...)"
    return HookAnswerError(
        f"{site.label}: {_who(site, kind, function)} answered {described(answer)}; {article(kind)} {kind} hook may "
        "answer "
        f"{_MAY[kind]}{hint}"
    )


def meant_argument(site: Site, kind: Kind, function: object) -> str:
    """Return the name of the argument that a hook probably means: the one that it asks for, or else the last."""
    # By its code: a hook that has run for the last time is no longer to be found.
    code, shown = code_of(function), site.signature.shown()
    offered = site.signature.names if shown is None else shown.names
    own = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    asked = [name for name in own if name in offered and name not in ("self", "cls")]
    asked = [name for name in asked if kind not in RESERVED.get(name, ())]
    return asked[0] if len(asked) == 1 else (offered or ("name",))[-1]


def proceed_with(
    site: Site, function: object, unnamed: Sequence[object], changes: dict[str, object], values: Values
) -> list[object]:
    """Return the arguments with which a hook that has called `proceed` wants the inside to run.

    Raises:
        HookAnswerError: Some were given without a name, or there is none of that name.
    """
    if unnamed:
        raise _unnamed(site, function, unnamed)
    return revise(site, "around", function, changes, values)


def _unnamed(site: Site, function: object, values: Sequence[object]) -> HookAnswerError:
    names = [name for name in site.signature.names[: site.signature.positional] if name not in ("self", "cls")]
    if len(values) == 1 or len(values) > len(names):
        names = [meant_argument(site, "around", function)]
    pairs = ", ".join(f"{name}={literal(value)}" for name, value in zip(names, values, strict=False))
    return HookAnswerError(
        f"{site.label}: {_who(site, 'around', function)} calls proceed with {plural(len(values), 'value')} without a "
        f"name; proceed takes names: proceed({pairs})"
    )


def who_has_answered(site: Site, function: object) -> str:
    """Describe a subscriber in a message."""
    return _who(site, "on", function)


def _who(site: Site, kind: str, function: object) -> str:
    hook = site.find(kind, function)
    return hook.who if hook is not None else who_is(kind, name_of(function), function)


def revise(site: Site, kind: Kind, function: object, changes: dict[str, object], values: Values) -> list[object]:
    """Give the arguments with some replaced by name.

    Raises:
        HookAnswerError: The target has no parameter of a name, and no ``**kwargs`` to take it.
    """
    index, regular = site.signature.index, site.signature.regular
    revised = list(values)
    for name, value in changes.items():
        place = index.get(name)
        shown = site.signature.shown() if place is None or place >= regular else None
        if shown is not None and name in shown:
            if not shown.replace(name, value, revised):
                raise HookAnswerError(
                    f"{site.label}: {_who(site, kind, function)} replaces the argument {name!r}, for which this call "
                    f"has no place; replace `args` or `kwargs` as a whole"
                )
        elif place is None:
            _revise_extra(site, kind, function, name, value, revised)
        elif place < regular:
            revised[place] = value
        else:
            revised[place] = _unpackable(site, kind, function, name, value, place)
    return revised


def _revise_extra(site: Site, kind: Kind, function: object, name: str, value: object, revised: list[object]) -> None:
    varkw = site.signature.varkw
    if varkw is None:
        shown = site.signature.shown()
        names = list(site.signature.names if shown is None else shown.names)
        raise HookAnswerError(
            f"{site.label}: {_who(site, kind, function)} replaces the argument {name!r}, but {site.label} takes "
            f"{printable(', '.join(names)) or 'no arguments'}{nearest(name, names)}"
        )
    extra: Any = revised[varkw]
    revised[varkw] = {**extra, name: value}


def _unpackable(site: Site, kind: Kind, function: object, name: str, value: object, place: int) -> object:
    """Check what is put in the place of ``*args`` or ``**kwargs`` as a whole."""
    if place == site.signature.varargs:
        if not isinstance(value, (tuple, list)):
            raise HookAnswerError(
                f"{site.label}: {_who(site, kind, function)} replaces *{name} by {described(value)}; give a tuple"
            )
        return tuple(cast("Iterable[object]", value))
    if place == site.signature.varkw:
        given = cast("dict[object, object]", value)  # if it is one
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in given):
            raise HookAnswerError(
                f"{site.label}: {_who(site, kind, function)} replaces **{name} by {described(given)}; give a dict "
                "of names"
            )
        return dict(cast("dict[str, object]", value))
    return value


def returned(site: Site, kind: Kind, function: object, answer: object) -> object:
    """Take the value out of a Return; nothing else will do."""
    if type(answer) is Return:
        return cast("Return[object]", answer).value
    raise wrong(site, kind, function, answer)


def settled(site: Site, kind: Kind, function: object, answer: object) -> object:
    """Read the answer of an around hook: its value is the result."""
    if type(answer) is Return:
        return cast("Return[object]", answer).value
    if type(answer) is Args:
        raise wrong(site, kind, function, answer)
    return answer


def together(site: Site, slips: list[Exception]) -> ExceptionGroup[Exception]:
    """Make one error of all that subscribers have raised."""
    return ExceptionGroup(f"{site.label}: {len(slips)} subscriber{'s' * (len(slips) > 1)} failed", slips)


def cut_off(site: Site, errors: list[BaseException]) -> BaseExceptionGroup[BaseException]:
    """Make one error of what has cut subscribers off, which were to run at once, and of what others have raised."""
    return BaseExceptionGroup(f"{site.label}: a subscriber was cancelled", errors)


@final
class Tally:
    """What becomes of the answers of an event's subscribers; the compiled call does the same."""

    __slots__ = ("_emission", "_site", "answers", "result", "slips", "values")

    def __init__(self, site: Site, values: Values) -> None:
        assert site.signature.emission is not None
        self._site = site
        self._emission = site.signature.emission
        # What the next subscriber is given.
        self.values = values
        self.answers: list[tuple[Hook, object]] = []
        self.slips: list[Exception] = []
        gives = self._emission.gives
        self.result: Any = [] if gives == "list" else values[self._emission.fold] if gives == "fold" else None

    def take(self, hook: Hook, answer: object) -> bool:
        """Take an answer, and say whether it is the last."""
        if answer is None:
            return False
        value = settled(self._site, "on", hook.function, answer)
        if self._emission.checked and self._site.fits is not None:
            folded = self.result if self._emission.gives == "fold" else None
            value = self._site.fits(self._site, hook.function, value, folded)
        self.answers.append((hook, value))
        if self._emission.gives == "list":
            self.result.append(value)
            return False
        self.result = value
        if self._emission.gives == "fold":
            place = self._emission.fold
            self.values = (*self.values[:place], value, *self.values[place + 1 :])
        return self._emission.gives == "first"

    def slip(self, error: Exception) -> None:
        """Keep a failure until all have run; to be called while it is being handled."""
        try:
            if not self._emission.group:
                raise error
            self.slips.append(error)
        finally:
            del error  # else this frame, which is in its traceback, and the exception would keep each other alive

    def slip_last(self, error: Exception) -> None:
        """Keep a failure of the stub's body with those before it; alone it is what it is."""
        try:
            if not self.slips:
                raise error
            self.slips.append(error)
        finally:
            del error  # as in `slip`

    @property
    def wants_body(self) -> bool:
        """Say whether the stub's own body is asked, as nobody has answered."""
        return self._emission.gives == "first" and self._emission.default and not self.answers

    def close(self) -> Any:
        """Give the result, or raise what was kept, and keep it no longer: it holds the frames that hold this."""
        slips, self.slips = self.slips, []
        try:
            if slips:
                raise together(self._site, slips)
            return self.result
        finally:
            del slips


def awaitable(answer: object) -> bool:
    """Say whether `await` takes this; `inspect.isawaitable` says the same."""
    kind = type(answer)
    if kind is CoroutineType or kind is bool:
        return kind is not bool
    if isinstance(answer, GeneratorType):
        return bool(answer.gi_code.co_flags & ITERABLE_COROUTINE)
    return hasattr(type(answer), "__await__")


def without(extra: dict[str, object], names: tuple[str, ...]) -> dict[str, object]:
    """Leave out of the keyword arguments what the hook has asked for by name already."""
    return {name: value for name, value in extra.items() if name not in names}


def shown(site: Site, kind: str, function: object, values: Values, name: str) -> object:
    """Return an argument that a wrapper shows, for a hook that must have it.

    Raises:
        HookSignatureError: This call does not have it.
    """
    found = site.signature.shown()
    value = ABSENT if found is None else found.get(name, values)
    if value is ABSENT:
        raise HookSignatureError(
            f"{site.label}: {_who(site, kind, function)} asks for {name!r}, which {site.label} shows as a parameter, "
            f"and this call has no such argument; give it a default"
        )
    return value


def shown_if_there(site: Site, values: Values, name: str) -> dict[str, object]:
    """Return an argument that a wrapper shows, by its name, if this call has it."""
    found = site.signature.shown()
    value = ABSENT if found is None else found.get(name, values)
    return {} if value is ABSENT else {name: value}


def gather(
    hook: Hook, asks: Asks, call: Call, values: Values, proceed: object = None, item: object = None
) -> tuple[list[object], dict[str, object]]:
    """Gather what a hook asks for, into what it is called with."""
    positional: list[object] = []
    keywords: dict[str, object] = {}
    args, kwargs = call._site.signature.split(values)
    words = {
        "call": call,
        "args": args,
        "kwargs": kwargs,
        "result": call.result,
        "exc": call.exc,
        "proceed": proceed,
        "item": item,
        "arguments": dict(zip(call._site.signature.names, values, strict=True)),
        "shown arguments": call._site.signature.arguments(values),
    }
    for how, what in asks:
        if how == "**":
            assert isinstance(what, tuple)
            keywords.update(without(kwargs, what))
        elif how == "*":
            positional.extend(args)
        elif isinstance(what, str) and what[0] == "?":
            keywords.update(shown_if_there(call._site, values, what[1:]))
        else:
            value: object
            if isinstance(what, str) and what[0] == ":":
                value = shown(call._site, hook.kind, hook.function, values, what[1:])
            else:
                value = values[what] if isinstance(what, int) else _word(cast("str", what), words, values)
            if how == "":
                positional.append(value)
            else:
                keywords[how[1:]] = value
    return positional, keywords


def _word(what: str, words: dict[str, object], values: Values) -> object:
    if what[0] != ".":
        return words[what]
    return attrgetter(what[1:])(values[0]) if what[1:] else values[0]


# A one-yield around hook is driven in three steps: begin; then end with the result, or fail with the exception.


def begin(site: Site, function: object, hook: Generator[Any, Any, Any]) -> None:
    """Run the part before the yield."""
    try:
        next(hook)
    except StopIteration:
        raise _never_yielded(site, function) from None


def end(site: Site, function: object, hook: Generator[Any, Any, Any], result: object) -> object:
    """Give the result to the hook at its yield, and read what it returns by the rules of post."""
    answer = ended(site, function, hook, result)
    return result if answer is None else settled(site, "around", function, answer)


def ended(site: Site, function: object, hook: Generator[Any, Any, Any], result: object) -> object:
    """Give the result to the hook at its yield, and return what it answers."""
    try:
        hook.send(result)
    except StopIteration as stop:
        return stop.value
    hook.close()
    raise _yielded_twice(site, function)


def fail(site: Site, function: object, hook: Generator[Any, Any, Any], error: BaseException) -> object:
    """Raise the exception at the yield of the hook; what the hook then returns, if not None, is the result.

    To be called while `error` is being handled.
    """
    try:
        answer = failed(site, function, hook, error)
        if answer is None:
            raise error
    finally:
        del error  # else this frame, which is in its traceback, and the exception would keep each other alive
    return settled(site, "around", function, answer)


def failed(site: Site, function: object, hook: Generator[Any, Any, Any], error: BaseException) -> object:
    """Raise the exception at the yield of the hook, and return what it answers; None: it has handled nothing."""
    try:
        try:
            hook.throw(error)
        except StopIteration as stop:
            return stop.value
        except RuntimeError as other:
            # Python does not let a StopIteration out of a generator: it comes out as the cause of a RuntimeError.
            if not isinstance(error, StopIteration) or other.__cause__ is not error:
                raise
            return None
        hook.close()
        raise _yielded_twice(site, function)
    finally:
        del error  # as in `fail`


async def abegin(site: Site, function: object, hook: AsyncGenerator[Any, Any]) -> None:
    """Run the part before the yield of an async hook."""
    try:
        await start(hook)
    except StopAsyncIteration:
        raise _never_yielded(site, function) from None


async def aend(site: Site, function: object, hook: AsyncGenerator[Any, Any], result: object) -> object:
    """Give the result to an async hook at its yield; an async generator cannot return anything, so it stays."""
    try:
        await hook.asend(result)
    except StopAsyncIteration:
        return result
    await hook.aclose()
    raise _yielded_twice(site, function)


async def afail(site: Site, function: object, hook: AsyncGenerator[Any, Any], error: BaseException) -> object:
    """Raise the exception at the yield of an async hook; as it can return nothing, the exception then goes on."""
    try:
        try:
            await hook.athrow(error)
        except StopAsyncIteration:
            pass
        except RuntimeError as other:
            if not isinstance(error, (StopIteration, StopAsyncIteration)) or other.__cause__ is not error:
                raise
        else:
            await hook.aclose()
            raise _yielded_twice(site, function)
        raise error
    finally:
        del error  # as in `fail`


def _never_yielded(site: Site, function: object) -> HookAnswerError:
    return HookAnswerError(
        f"{site.label}: {_who(site, 'around', function)} returned without its yield, so the target did not run; yield "
        f"once, or ask for `proceed` and return a value"
    )


def _yielded_twice(site: Site, function: object) -> HookAnswerError:
    return HookAnswerError(
        f"{site.label}: {_who(site, 'around', function)} yielded twice; the call runs at the first yield, so yield once"
    )


# Around hooks of generators work on streams: what `proceed()` gives is one, and what the hook answers must be one.


def stream(site: Site, function: object, answer: object) -> Generator[Any, Any, Any]:
    """Take what an around hook of a generator answered: a generator, any iterator, or the return value alone."""
    if hasattr(type(answer), "__next__"):
        return _items(site, function, cast("Generator[Any, Any, Any]", answer))
    return _nothing(settled(site, "around", function, answer))


def astream(site: Site, function: object, answer: object) -> AsyncGenerator[Any, Any]:
    """Take what an around hook of an async generator answered: an async generator, or any async iterable."""
    if hasattr(answer, "asend") and hasattr(answer, "athrow"):
        return cast("AsyncGenerator[Any, Any]", answer)  # it has the whole protocol
    if hasattr(answer, "__aiter__"):
        return _aitems(cast("AsyncIterator[Any]", answer))
    raise HookAnswerError(
        f"{site.label}: {_who(site, 'around', function)} answered {described(answer)}; around an async generator, "
        "answer "
        f"`proceed()` or another async iterator"
    )


def _items(site: Site, function: object, source: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    # `yield from` takes any iterator.
    return settled(site, "around", function, (yield from source))


async def _aitems(source: AsyncIterator[Any]) -> AsyncGenerator[Any, Any]:
    async for item in source:
        yield item


def _nothing(result: object) -> Generator[Any, Any, Any]:
    yield from ()
    return result


def start(source: AsyncGenerator[Any, Any]) -> Awaitable[Any]:
    """Begin the first step of an async stream that is inside another, which alone the event loop is to know of.

    A loop that shuts down closes all async generators it has seen at once; it must not close one from under another.
    """
    seen = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
    try:
        return source.asend(None)
    finally:
        sys.set_asyncgen_hooks(*seen)


def lazy(opened: Callable[[], Generator[Any, Any, Any]]) -> Generator[Any, Any, Any]:
    """Open a stream at its first step: whether a hook with conditions acts is settled when the call begins."""
    return (yield from opened())


def alazy(opened: Callable[[], AsyncGenerator[Any, Any]]) -> AsyncGenerator[Any, Any]:
    """Open an async stream at its first step."""
    return arelay(opened, lambda: None)


def relay(source: Generator[Any, Any, Any], leave: Callable[[], None]) -> Generator[Any, Any, Any]:
    """Pass a stream on, and note its end."""
    try:
        return (yield from source)
    finally:
        leave()


async def arelay(source: Any, leave: Callable[[], None]) -> AsyncGenerator[Any, Any]:
    """Pass an async stream, or what opens one, on with `asend`, `athrow` and `aclose`, and note its end."""
    # Any: either an async generator or a callable that gives one.
    source = source if hasattr(source, "asend") else source()
    try:
        step = start(source)
        while True:
            try:
                item = await step
            except StopAsyncIteration:
                return
            finally:
                del step  # it holds what was thrown
            try:
                sent = yield item
            except GeneratorExit:
                await source.aclose()
                raise
            except BaseException as caught:
                step = source.athrow(caught)
            else:
                step = source.asend(sent)
    finally:
        leave()


def within(
    site: Site,
    function: object,
    hook: Generator[Any, Any, Any],
    source: Generator[Any, Any, Any],
    leave: Callable[[], None] | None,
) -> Generator[Any, Any, Any]:
    """Run a stream at the yield of a one-yield around hook."""
    try:
        begin(site, function, hook)
        try:
            result = yield from source
        except BaseException as error:
            return fail(site, function, hook, error)
        return end(site, function, hook, result)
    finally:
        if leave is not None:
            leave()


async def awithin(
    site: Site, function: object, hook: Any, source: AsyncGenerator[Any, Any], leave: Callable[[], None] | None
) -> AsyncGenerator[Any, Any]:
    """Run an async stream at the yield of a one-yield around hook, which may be async or not."""
    asynchronous = hasattr(hook, "asend")
    try:
        await abegin(site, function, hook) if asynchronous else begin(site, function, hook)
        try:
            step = start(source)
            while True:
                try:
                    item = await step
                except StopAsyncIteration:
                    break
                finally:
                    del step  # it holds what was thrown
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
            await afail(site, function, hook, error) if asynchronous else fail(site, function, hook, error)
        else:
            await aend(site, function, hook, None) if asynchronous else end(site, function, hook, None)
    finally:
        if leave is not None:
            leave()
