"""The seven kinds of hooks, one row for each: what such a hook is given, and what it may answer.

When the hooks of a kind run is written in `compile.source`, and in `tests/oracle/law.py`, which is law 1 in plain
Python.
"""

from __future__ import annotations

from collections.abc import Iterable

from aspecthook._errors import nearest
from aspecthook._hints import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["pre", "around", "on", "item", "exception", "post", "always"]
Form: TypeAlias = Literal["Args", "Return", "value"]


class Rule(NamedTuple):
    """What the hooks of one kind are given, and what they may answer."""

    # The reserved words that they may ask for, besides those that all hooks may.
    words: tuple[str, ...]
    # What a positional-only parameter, or a builtin without a signature, is given.
    subject: str
    # Which answers they may give besides None; "value" is anything that is neither `Args` nor `Return`.
    answers: tuple[Form, ...]
    # The answers as messages describe them.
    may: str


RULES: dict[Kind, Rule] = {
    "pre": Rule(
        words=(),
        subject="arguments",
        answers=("Args", "Return"),
        may="None, Args(...) to replace arguments, or Return(value) to skip the target",
    ),
    "around": Rule(
        words=("proceed",),
        subject="proceed",
        answers=("Return", "value"),
        may="the result, or Return(result)",
    ),
    "on": Rule(
        words=(),
        subject="arguments",
        answers=("Return", "value"),
        may="None, an answer, or Return(answer)",
    ),
    "item": Rule(
        words=("item",),
        subject="item",
        answers=("Return", "value"),
        may="None, the item to yield instead, or Return(item)",
    ),
    "exception": Rule(
        words=("exc",),
        subject="exc",
        answers=("Return",),
        may="None, or Return(value) to handle the exception",
    ),
    "post": Rule(
        words=("result",),
        subject="result",
        answers=("Return", "value"),
        may="None, the new result, or Return(result)",
    ),
    "always": Rule(
        words=("result", "exc"),
        subject="call",
        answers=("value",),
        may="None; what it answers otherwise is ignored, so neither Args(...) nor Return(...) can be meant",
    ),
}

KINDS: tuple[Kind, ...] = tuple(RULES)

# The names that other libraries have for the kinds: what users write by habit.
_HABITS: dict[Kind, tuple[str, ...]] = {
    "pre": ("before", "enter", "start", "begin", "prefix"),
    "around": ("wrap", "wrapper", "replace", "instead", "middleware", "intercept"),
    "on": ("subscribe", "listen", "connect"),
    "item": ("yield", "each"),
    "exception": ("error", "on_error", "except", "catch", "failure", "raise", "rescue"),
    "post": ("after", "return", "after_returning", "success", "postfix"),
    "always": ("finally", "final", "exit", "end", "cleanup"),
}


def meant_kind(word: str, kinds: Iterable[str] = KINDS) -> str:
    """Return which kind a word that names none was probably meant to be, as the end of a message."""
    found = next((kind for kind, habits in _HABITS.items() if word.lower() in habits), None)
    return nearest(word, list(kinds)) if found is None else f"; did you mean {found!r}?"


# The reserved words, with what they stand for in messages.
WORDS: dict[str, str] = {
    "call": "the call object",
    "args": "the positional arguments",
    "kwargs": "the keyword arguments",
    "result": "the result of the call",
    "exc": "the exception",
    "proceed": "the function that runs the call",
    "item": "the item being yielded",
}

# The reserved words, with the kinds of hooks that may ask for them.
RESERVED: dict[str, frozenset[Kind]] = {
    word: frozenset(kind for kind, rule in RULES.items() if word in ("call", "args", "kwargs", *rule.words))
    for word in WORDS
}
