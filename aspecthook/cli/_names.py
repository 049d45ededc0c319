"""The variable that holds the settings of a program for its processes, and the names that its file is imported by."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import basename, splitext

VARIABLE = "ASPECTHOOK_PROGRAM"


def names_of(words: Sequence[str]) -> list[str]:
    """Return what the file that Python runs with these words is called when it is imported."""
    rest = iter(words)
    for word in rest:
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            next(rest, None)
        elif word == "-m":
            name = next(rest, "")
            return [name, f"{name}.__main__"]
        elif word == "-c":
            return []
        elif not word.startswith("-"):
            return [splitext(basename(word.rstrip("/")))[0]]
    return []
