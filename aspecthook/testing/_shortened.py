"""How values are shown in reports of tests: in one line of bounded length, whatever their `repr` does."""

from __future__ import annotations

import reprlib

from aspecthook._errors import printable

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def shortened(value: object) -> str:
    """Return the shortened `repr` of a value, or what kept it from being made."""
    try:
        text = _short.repr(value)
    except Exception as error:  # a repr that fails must not hide what happened
        return f"<{printable(type(value).__name__)} whose repr raised {printable(type(error).__name__)}>"
    return printable(" ".join([line.strip() for line in text.splitlines()]))
