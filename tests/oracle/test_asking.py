"""Law 3 as a property: what a hook and its `when` are given, by a model that reads `inspect` and not the package."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter as P
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import Args, Call, HookAnswerError, HookSignatureError, HookTypeError, hookable, hooks
from tests.oracle.candidates import NOBODYS
from tests.oracle.guests import MARK, PlannedError
from tests.properties.signatures import signatures

# The words that only some kinds may ask for; and what a positional-only parameter is given.
WORDS = {"around": ["proceed"], "item": ["item"], "exception": ["exc"], "post": ["result"], "always": ["result", "exc"]}
SUBJECTS = {"pre": "arguments", "around": "proceed", "item": "item", "exception": "exc", "post": "result"}
RESERVED = ("call", "args", "kwargs", "proceed", "item", "exc", "result")
LATER = object()


@st.composite
def askings(draw: st.DrawFn, usual: Sequence[str], strange: Sequence[str]) -> list[P]:
    """Draw the parameters of a hook: most ask for what is usual, and some for one thing that is strange."""
    odd = [draw(st.sampled_from(strange))] if draw(st.booleans()) else []
    pool = [*draw(st.permutations([*dict.fromkeys([one for one in usual if one not in odd])])), *odd]
    sizes = draw(st.sampled_from([0, 1, 0, 2])), draw(st.sampled_from([2, 1, 3, 4, 0])), draw(st.integers(0, 3))
    defaults = draw(st.integers(0, sizes[0] + sizes[1])) if draw(st.booleans()) else 0
    found: list[P] = []
    for kind, size in zip((P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY), sizes, strict=True):
        if kind is P.KEYWORD_ONLY and draw(st.booleans()):
            found.append(P("unnamed", P.VAR_POSITIONAL))
        for _ in range(min(size, len(pool))):
            by_place = len(found) >= sizes[0] + sizes[1] - defaults
            has_default = draw(st.booleans()) if kind is P.KEYWORD_ONLY else by_place
            found.append(P(pool.pop(), kind, default=LATER if has_default else P.empty))
    return [*found, P("others", P.VAR_KEYWORD)] if draw(st.booleans()) else found


@dataclass
class Asked:
    """What somebody who asks should be given: the words that there are, and the arguments of the call."""

    kind: str
    bound: inspect.BoundArguments
    words: dict[str, object]

    def given(self, asks: list[P]) -> dict[str, object] | None:
        """Return what the parameters are given; None: they ask for what there is not."""
        subject = self.words.get(SUBJECTS.get(self.kind, "call"), dict(self.bound.arguments))
        found: dict[str, object] = {}
        has_gap = subject_given = False
        for one in asks:
            value: object = None
            if one.kind is P.VAR_POSITIONAL:
                value = P.empty if has_gap else self.bound.args
            elif one.kind is P.VAR_KEYWORD:
                by_name = {other.name for other in asks if other.kind not in (P.POSITIONAL_ONLY, P.VAR_POSITIONAL)}
                value = {name: known for name, known in self.bound.kwargs.items() if name not in by_name}
            elif one.kind is P.POSITIONAL_ONLY:
                value, subject_given = one.default if subject_given else subject, True
            else:
                value = self.named(one)
                if value is LATER and one.name not in RESERVED and asks[-1].kind is P.VAR_KEYWORD:
                    value = self.bound.kwargs.get(one.name, LATER)  # it would have been in the hook's own `**kwargs`
            if value is P.empty:
                return None
            has_gap = has_gap or (value is LATER and one.kind is not P.KEYWORD_ONLY)
            found[one.name] = value
        return found

    def named(self, one: P) -> object:
        """Return what a name stands for."""
        if one.name in self.words:
            return self.words[one.name]
        if one.name in RESERVED and one.name != "item":
            return one.default
        return self.bound.arguments.get(one.name, one.default)


def changed(bound: inspect.BoundArguments, changes: dict[str, Any]) -> dict[str, object] | None:
    """Return the arguments with these changes; None: one of them has no place."""
    values, found = dict(bound.arguments), bound.signature.parameters
    extra = next((name for name, one in found.items() if one.kind is P.VAR_KEYWORD), None)
    for name, value in changes.items():
        if name in found:
            values[name] = value
        elif extra is None:
            return None
        else:
            values[extra] = {**values[extra], name: value}
    return values


def plain(value: object) -> object:
    """Return a value that can be compared: of a call what it shows, of `proceed` that it is one."""
    if isinstance(value, Call):
        return [dict(value.arguments), value.result, value.exc]
    return "proceed" if inspect.isfunction(value) else value


# What a hook returns whose `when` is asked: by whether it is an around hook, and whether it waits.
ACTS = {(False, False): None, (False, True): None, (True, False): "proceed()", (True, True): "await proceed()"}


def throw(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("kind", ["pre", "around", "item", "exception", "post", "always"])
@settings(max_examples=2 * settings().max_examples)
@given(signatures(RESERVED), st.data())
def test_whoever_asks_is_given_what_the_words_and_the_arguments_say(
    kind: Any, drawn: tuple[str, list[str], list[int], dict[str, int]], data: st.DataObject
) -> None:
    text, names, args, kwargs = drawn
    if "extra" in names and data.draw(st.booleans()):
        kwargs = {**kwargs, NOBODYS: 96, "more": 95}
    is_when, is_method = data.draw(st.booleans(), label="when"), data.draw(st.booleans(), label="method")
    # Whether the target is a coroutine function, and whoever asks; what its `when` answers; and whether another hook
    # fails before, so that the rest of the chain is interpreted.
    waits = kind != "item" and data.draw(st.booleans(), label="target waits")
    asker_waits = waits and ((kind == "around" and not is_when) or data.draw(st.booleans(), label="hook waits"))
    holds = not is_when or data.draw(st.booleans(), label="holds")
    is_late = kind in ("exception", "always") and data.draw(st.booleans(), label="late")
    offered = [word for word in WORDS.get(kind, ()) if not (is_when and word == "proceed")]
    strange = [word for word in RESERVED[3:] if word not in offered]
    strange = ["proceed"] if "proceed" in strange and kind == "around" else [*strange, NOBODYS]
    asks = data.draw(askings([*names, *offered, *RESERVED[:3]], strange), label="asks")
    fails = kind == "exception" or (kind == "always" and data.draw(st.booleans(), label="fails"))
    replaced = data.draw(st.permutations([*names, NOBODYS]))[: data.draw(st.integers(0, 3), label="changes")]
    changes: dict[str, Any] = {name: {"rest": (98, 99), "extra": {"yy": 98}}.get(name, 99) for name in replaced}
    changes = changes if kind in ("pre", "around") and not is_when else {}
    error, seen, acted = PlannedError("planned"), list[Any](), list[Any]()

    def note(values: dict[str, Any]) -> Any:
        values.pop("self_", None)
        seen.append({name: plain(value) for name, value in values.items()})
        if kind == "around" and not is_when:
            return next(value for value in values.values() if inspect.isfunction(value))(**changes)
        return holds if is_when else None

    def outcome(values: dict[str, object]) -> object:
        seen.append(values)
        if fails:
            raise error
        return MARK

    space: dict[str, Any] = {"note": note, "outcome": outcome, "changes": changes, "Args": Args, "LATER": LATER}
    space["acted"] = acted
    answer = "note(locals()) or Args(**changes)" if kind == "pre" and changes else "note(locals())"
    answer = f"await {answer}" if asker_waits and kind == "around" and not is_when else answer
    shown = str(inspect.Signature(asks)).replace(repr(LATER), "LATER")
    a = "async " * waits
    exec(f"{a}def target({text}): {'yield' if kind == 'item' else 'return'} outcome(dict(locals()))", space)
    exec(f"{'async ' * asker_waits}def hook{'(self_, ' if is_method else '('}{shown[1:]}: return {answer}", space)
    exec(
        f"{a}def act({'proceed' * (kind == 'around')}):\n acted.append(1)\n return {ACTS[kind == 'around', waits]}",
        space,
    )
    hook = space["hook"].__get__(object()) if is_method else space["hook"]
    bound = inspect.signature(space["target"]).bind(*args, **kwargs)
    bound.apply_defaults()
    result, exc = (None, error) if fails or is_late else (MARK, None)
    call = [dict(bound.arguments), result if kind in ("post", "always") else None, exc]
    words: dict[str, object] = dict(call=call, args=bound.args, kwargs=bound.kwargs)
    known = dict(proceed="proceed", item=MARK, exc=exc, result=result)
    words |= {word: known[word] for word in offered}
    should = Asked("pre" if is_when and kind == "around" else kind, bound, words).given(asks)

    target = hookable(space["target"])
    is_refused = should is None or (kind == "around" and not is_when and "proceed" not in should.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if is_when:
                hooks(target).add(kind, space["act"], when=hook)
            else:
                hooks(target).add(kind, hook)
        except (HookSignatureError, HookTypeError) as error_of_adding:
            assert is_refused and (should is None) == isinstance(error_of_adding, HookSignatureError)  # noqa: PT017
            assert not hooks(target)
            return
    assert should is not None and not is_refused
    after = list[Any]()
    if is_late:
        hooks(target).add(kind, partial(throw, error), priority=0)
    target.always(lambda call, /: after.append(dict(call.arguments)))
    values = changed(bound, changes)
    try:
        made = target(*args, **kwargs)
        made = asyncio.run(made) if waits else made
        assert (list(made) if kind == "item" else made) == ([MARK] if kind == "item" else MARK)
        assert exc is None
    except PlannedError:
        assert exc is error
    except HookAnswerError:
        assert values is None
    steps = [dict(bound.arguments) if values is None else values]
    steps.insert(1 if kind in ("item", "exception", "post", "always") else 0, should)
    assert seen == (steps[:1] if values is None else steps)
    assert len(acted) == (is_when and holds)
    assert after == [values if kind == "pre" and values is not None else dict(bound.arguments)]


STYLES = {"function": "def", "generator": "def", "coroutine": "async def", "async generator": "async def"}


# The styles of around hooks that work on a target, and whether they ask for `proceed`.
AROUND = {
    "function": {("function", True), ("generator", False)},
    "generator": {("function", True), ("generator", False), ("generator", True)},
    "coroutine": {("coroutine", True), ("generator", False), ("async generator", False)},
    "async generator": {
        ("function", True),
        ("generator", False),
        ("async generator", False),
        ("async generator", True),
    },
}


def works(style: str, own: str, role: str) -> bool:
    """Whether a callable of a style can be a hook, or the `when` of one, on a target of another."""
    waits = style in ("coroutine", "async generator")
    if role.startswith("when"):
        return own == "function" or (own == "coroutine" and waits and (style == "coroutine" or role == "when post"))
    if role.startswith("around"):
        return (own, role == "around proceed") in AROUND[style]
    return "generator" not in own and (role != "item" or "generator" in style) and (waits or own == "function")


@pytest.mark.parametrize(
    "role", ["pre", "item", "exception", "always", "around", "around proceed", "when post", "when around"]
)
@pytest.mark.parametrize("own", STYLES)
@pytest.mark.parametrize("style", STYLES)
def test_a_hook_that_could_never_work_is_refused(style: str, own: str, role: str) -> None:
    space: dict[str, Any] = {}
    first, _, last = role.partition(" ")
    for name, how, asks in (("target", style, ""), ("hook", own, "proceed" * (last == "proceed"))):
        exec(f"{STYLES[how]} {name}({asks}): {'yield' if 'generator' in how else 'pass'}", space)
    wait = "await " * (style == "coroutine")
    exec(f"{'async ' * bool(wait)}def around(proceed): return {wait}proceed()\ndef post(): pass", space)
    target = hookable(space["target"])
    kind: Any = last if first == "when" else first
    hook, options = (space[last], {"when": space["hook"]}) if first == "when" else (space["hook"], {})
    if works(style, own, role):
        assert hooks(target).add(kind, hook, **options) in list(hooks(target))
    else:
        with pytest.raises(HookTypeError):
            hooks(target).add(kind, hook, **options)
        assert len(hooks(target)) == 0
