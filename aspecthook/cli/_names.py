"""Names: of what tells a program what to do, and of its own file, `__main__`, when it is imported."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import basename, splitext

# The variable of the environment that tells the processes of a program what to do.
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
