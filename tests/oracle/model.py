"""Whether a traced call did what the laws say: the model that all calls of the kit are compared with.

The invariant: nothing here asks the code under test. The order is worked out from plain rows; a call that was made is
played again by the interpreter of law 1, with what each hook and the target answered.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from types import NoneType
from typing import Any, cast

from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.call import Call
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import RESERVED
from aspecthook._core.law.order import Chain
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookAnswerError
from aspecthook._values import shortened
from aspecthook.testing._calls import Given, values_of
from aspecthook.testing._mount import mapped
from aspecthook.testing._steps import TARGET
from tests.oracle import law as _law
from tests.oracle.calls import attempt
from tests.oracle.recording import NotedStep as Step
from tests.oracle.recording import NotedTrace as Trace
from tests.oracle.recording import Resumption, is_iterator
from tests.oracle.replay import Replay
from tests.oracle.rows import Counts, Row
from tests.oracle.traced_call import COUNTED, Admission, TracedCall, chain_of, same_object, site_of


def differs(*calls: TracedCall) -> str | None:
    """Return in what a traced call differs from the laws, or None; several calls were made at once."""
    wrong = [one for one in map(_unfit, calls) if one is not None]
    if wrong:
        return wrong[0] or None
    for one in calls:
        one.counts.has_open_streams = one.counts.has_open_streams or any(map(_leaves_open, one.trace.steps))
    if not all(map(_is_exact, calls)):
        for one in calls:
            one.counts.forget()
        return next(filter(None, [_phases(one.chain, one.trace) for one in calls]), None)
    replays = [Replay(one) for one in calls]
    with ExitStack() as stack:
        contexts = [stack.enter_context(_contexts(one.trace)) for one in calls]
        playing = [replay.playing() for replay in replays]
        while playing:  # in the order in which streams are read at once
            for turn in [*playing]:
                if next(turn, playing) is playing:
                    playing.remove(turn)
        found = next((replay.wrong for replay in replays if replay.wrong is not None), None)
        found = found or next(filter(None, (compare() for compare in contexts)), None)
        found = found or next(filter(None, map(_keeps, calls)), None)
    return found or next(filter(None, map(_changes, calls)), None)


def _keeps(call: TracedCall) -> str | None:
    """Return what is wrong if a call object still refers to the exception of its call."""
    seen = [one for step in call.trace.steps for one in step.given.values() if isinstance(one, Call)]
    kept = next((one.exc for one in seen if one.exc is not None), None)
    return None if kept is None else f"when the call has ended, `call.exc` should be None, and is {shortened(kept)}"


def _unfit(call: TracedCall) -> str | None:
    """Return what is wrong with a call whose arguments do not fit: ``""`` if nothing is, None if they fit."""
    if call.trace.values is not None:
        return None
    fails = not call.trace.steps and isinstance(call.trace.exc, TypeError)
    return "" if fails else "it ran, but its arguments do not fit"


def _leaves_open(step: Step) -> bool:
    """Whether a hook has not read a stream to its end that it was given by `proceed`, nor closed it."""
    last = {id(one.source): one for one in step.events if isinstance(one, Resumption) and one.source is not None}
    return any(one.came == "item" for one in last.values())


def _is_exact(call: TracedCall) -> bool:
    """Whether a call can be played again exactly."""
    is_open = _is_plain(call.trace) and not _is_ambiguous(call.chain, call.counts)
    return is_open and not _is_beyond(call.mount, call.chain)


def _changes(call: TracedCall) -> str | None:
    """Return which step was not given the arguments as pre hooks left them; this uses no code of the library."""
    mount, trace, values = call.mount, call.trace, call.trace.values
    unfit = next((step for step in trace.steps if step.is_unfit), None)
    if unfit is not None:
        return f"{unfit!r} was not called with what it takes"
    if values is None or call.chain.around:  # these may have given it anything
        return None
    now: dict[str, object] = dict(zip(mount.site().signature.names, values, strict=True))
    result: object = _UNKNOWN
    for step in trace.steps:
        # An event may change the arguments between its subscribers.
        expected = now if step.kind not in ("on", "item") else {}
        if step.kind == "post" and result is not _UNKNOWN:
            expected = {**{name: now[name] for name in now if name not in RESERVED}, "result": result}
        for name, value in step.given.items():
            is_meant = name in expected and (name not in RESERVED or step.kind in ("post", TARGET))
            if is_meant and not same_object(value, expected[name]):
                return f"{step!r} should have been given {name}={shortened(expected[name])}"
        if step.kind == TARGET:
            result = step.answer
        elif step.kind in ("pre", "post") and type_of(step.answer) not in (Args, NoneType):
            result = cast("Return[object]", step.answer).value if type_of(step.answer) is Return else step.answer
        if step.kind == "pre" and type(step.answer) is Args:
            if not step.answer.keys() <= now.keys():  # refused, unless the target takes any name
                return _not_refused(call, step)
            now |= step.answer
    return None


def _not_refused(call: TracedCall, wrong: Step) -> str | None:
    """Return what is wrong if the call went on after a pre hook replaced an argument that there is not."""
    site, steps = call.mount.site(), call.trace.steps
    isolated = any(hook.isolate for hook in call.chain.pre if hook.name == wrong.name)
    if site.signature.varkw is not None or site.shown() is not None or isolated:
        return None
    later = steps[steps.index(wrong) + 1 :]
    went_on = next((step for step in later if step.kind in ("pre", TARGET)), None)
    return None if went_on is None else f"{wrong!r} should have been refused, and {went_on!r} ran after it"


_UNKNOWN: Any = object()


def interpreted(
    mount: MountPoint,
    rows: list[Row],
    given: Given,
    counts: Counts,
    came: tuple[object, BaseException | None] | None,
) -> tuple[object, BaseException | None]:
    """Make a call by the interpreter of law 1, on the hooks themselves; return its result and what it raised.

    The target is called, unless it is known what `came` of it.
    """
    values = values_of(mount, given)
    if values is None:
        return None, TypeError()
    chain = mapped(chain_of(rows), lambda hook: _counted(hook, counts))
    place = mount.parent.place if isinstance(mount, InstanceMountPoint) else mount.place
    original = place.original if place is not None and place.opened else mount.function

    def target(*args: Any, **kwargs: Any) -> object:
        if came is None:
            return original(*args, **kwargs)
        if came[1] is not None:
            raise came[1]
        return came[0]

    return attempt(lambda: _law.run(chain, Call(site_of(mount), values), target))


def _counted(hook: Hook, counts: Counts) -> Hook:
    if hook.guard is None and not hook.options.keys() & COUNTED:
        return hook
    double = copy.copy(hook)
    double.guard = cast("Any", Admission(counts, hook, lambda: False))
    return double


def _is_plain(trace: Trace) -> bool:
    """Whether the steps show all that came of them, so that the call can be played again.

    If a hook proceeds several times at once, nothing shows which steps belong to which time. What comes of a stream
    that is left open comes whenever it is collected. Nothing can be sent to an iterator, so none is recorded.
    """
    events = [event for step in trace.steps for event in step.events]
    ended = [event.came if isinstance(event, Resumption) else event.has_ended for event in [*events, *trace.resumed]]
    unseen = any(step.kind == "around" and (is_iterator(step.answer) or _leaves_open(step)) for step in trace.steps)
    return all(ended) and not unseen


def _is_ambiguous(chain: Chain, counts: Counts) -> bool:
    """Whether a hook that may or may not have run has the name of another one, so that nothing shows which ran."""
    names = Counter((hook.kind, hook.name) for hook in chain.hooks)
    unknown = [hook for hook in chain.hooks if counts.is_unknown(hook)]
    if counts.has_open_streams:
        unknown += [hook for hook in chain.hooks if hook.options.get("reentrant") is False]
    gated = [hook for hook in chain.hooks if hook.gate is not None]
    return any(names[hook.kind, hook.name] > 1 for hook in [*unknown, *gated])


def _is_beyond(mount: MountPoint, chain: Chain) -> bool:
    """Whether subscribers run in a way that the steps alone do not show."""
    emission = mount.site().signature.emission
    return emission is not None and bool(chain.on) and bool(chain.around)


def _phases(chain: Chain, trace: Trace) -> str | None:
    """Check the order alone: pre hooks, what is inside, exception and post hooks, always hooks; each in its order."""
    place = {"pre": 0, "around": 1, TARGET: 1, "on": 1, "item": 1, "exception": 2, "post": 3, "always": 4}
    furthest = 0
    for step in trace.steps:
        if place[step.kind] < furthest:
            return f"{step!r} came too late"
        furthest = place[step.kind]
    once = ("pre", "exception", "post", "always") if chain.around else ("pre", "on", "exception", "post", "always")
    for kind in once:
        due = iter([hook.name for hook in getattr(chain, kind)])
        for step in trace.steps:
            if step.kind == kind and step.name not in due:  # `in` moves the iterator on
                return f"{step!r} is not where the order puts it: {[hook.name for hook in getattr(chain, kind)]}"
    return None


@contextmanager
def _contexts(trace: Trace) -> Generator[Callable[[], str | None]]:
    """Clear the contexts of exceptions so that they can be raised again, and restore them at the end.

    Between two exceptions of this call there may be others, which a hook has handled by itself. Those with which an
    answer is refused are made anew.
    """
    errors = [step.raised for step in trace.steps]
    anew = (HookAnswerError, GeneratorExit)
    raised = {id(one): one for one in errors if one is not None and not isinstance(one, anew)}
    before = [(error, error.__context__, error.__traceback__) for error in raised.values()]

    def first(error: BaseException) -> BaseException | None:
        seen: set[int] = {id(error)}
        context = error.__context__
        while context is not None and id(context) not in raised and id(context) not in seen:
            seen.add(id(context))
            context = context.__context__
        return context if context is not None and id(context) in raised else None

    was = {key: first(error) for key, error in raised.items()}
    for error in raised.values():
        error.__context__ = None

    def compare() -> str | None:
        for key, error in raised.items():
            should = first(error)
            if was[key] is not should:
                return f"the __context__ of {shortened(error)} should be {shortened(should)}"
        return None

    try:
        yield compare
    finally:
        for error, context, traceback in before:
            error.__context__ = context
            error.__traceback__ = traceback
