"""The variable that holds the settings of a program for its processes, and the names that its file is imported by."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from os.path import basename, splitext

from aspecthook.weave._pointcut import Pointcut

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


def main_module() -> tuple[str, list[str]]:
    """Return the name of the module that this process runs, and what else the program's file is called."""
    if any("from multiprocessing." in word for word in sys.orig_argv):  # it runs the file again, by a name of its own
        names: list[str] = json.loads(os.environ.get(VARIABLE, "{}")).get("names", [])
        return "__mp_main__", ["__main__", *names]
    return "__main__", names_of(sys.orig_argv[1:])


def of_main(text: str) -> str:
    """Return a pointcut with further terms: what means the program's file by another name means what is run, too."""
    main, names = main_module()
    pointcut = Pointcut(text)
    terms = [("", term) for term in pointcut.terms] + [("!", term) for term in pointcut.excluded]
    more = [
        f"{sign}{main}:{term.text.partition(':')[2]}"
        for sign, term in terms
        if not term.in_module(main) and any(map(term.in_module, names))
    ]
    return ", ".join([text, *more])
