"""Signatures of targets, drawn at random, with arguments that fit."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st


@st.composite
def signatures(draw: st.DrawFn, more: Sequence[str] = ()) -> tuple[str, list[str], list[int], dict[str, int]]:
    """Draw the text of a signature, its names, of which some may be given, and arguments that fit."""
    positional_only = draw(st.integers(0, 1))
    regular = draw(st.sampled_from([1, 2, 0]))
    keyword_only = draw(st.sampled_from([1, 2, 0]))
    varargs, varkw = draw(st.booleans()), draw(st.booleans())
    with_default = draw(st.integers(0, positional_only + regular))
    pool = ["a", "b", "c", "answer", "stage", "pre_1", "target", "argument_0", "argument_1", "__tracebackhide__"]
    pool = draw(st.permutations([*pool[:3], *more] if more else pool)) if draw(st.booleans()) else pool
    names = list(pool[: positional_only + regular])
    parts = [
        name + ("=-1" if place >= positional_only + regular - with_default else "") for place, name in enumerate(names)
    ]
    if positional_only:
        parts.insert(positional_only, "/")
    kw_names = list(pool[len(names) : len(names) + keyword_only])
    if varargs:
        parts.append("*rest")
    elif kw_names:
        parts.append("*")
    kw_default = draw(st.booleans())
    parts += [name + ("=-2" if kw_default else "") for name in kw_names]
    if varkw:
        parts.append("**extra")
    required = len(names) - with_default
    count = len(names) - draw(st.integers(0, len(names) - min(required, positional_only)))
    args = list(range(10, 10 + count))
    kwargs = {
        name: 15 for name in names[max(count, positional_only) :] if name in names[:required] or draw(st.booleans())
    }
    kwargs |= {name: 20 for name in kw_names if not kw_default or draw(st.booleans())}
    if varargs and count == len(names):
        args += draw(st.sampled_from([[7, 8], []]))
    if varkw:
        # Where one that is positional-only has its argument, its name is free for another. Where it has its default,
        # it is as well, but `inspect.Signature.bind` refuses such calls on 3.11.
        free = names[: min(positional_only, count)]
        kwargs.update(draw(st.sampled_from([{}, {"zz": 5}, {"extra": 5}, {"rest": 5}, dict.fromkeys(free, 5)])))
    everything = names + kw_names + ["rest"] * varargs + ["extra"] * varkw
    return ", ".join(parts), everything, args, kwargs
