"""The variable that holds the settings of a program for its processes, and the names that its file is imported by."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from os.path import basename, splitext

from aspecthook.weave._pointcut import Pointcut

VARIABLE = "ASPECTHOOK_PROGRAM"


def read_words(words: Sequence[str]) -> tuple[str, str, str]:
    """Return the flags among words for Python, how it runs what they name ("m", "c"; "" for a file), and that name."""
    flags, rest = "", iter(words)
    for word in rest:
        if word == "-" or not word.startswith("-"):
            return flags, "", word
        if not word.startswith("--"):
            own, option, value = [*re.split("([cmWX])", word[1:], maxsplit=1), "", ""][:3]
            flags += own
            value = value or (next(rest, "") if option else "")
            if option in ("c", "m"):
                return flags, option, value
    return flags, "", ""


def names_of(words: Sequence[str]) -> list[str]:
    """Return the module names of the file that `python *words` runs."""
    _, option, name = read_words(words)
    if option == "m":
        return [name, f"{name}.__main__"]
    return [] if option or name in ("", "-") else [splitext(basename(name.rstrip("/")))[0]]


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
