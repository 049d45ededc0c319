"""Run the code of a page, top to bottom, in one namespace: ``python -m tests.docs.page README.md``.

Each page is a program of its own: what it weaves need not come off at its end.
"""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from types import ModuleType

FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path) -> list[tuple[str, int, str]]:
    """Return the code blocks of a page: language, line, text."""
    found: list[tuple[str, int, str]] = []
    language, start, lines = "", 0, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if lines or language:
                found.append((language, start, "\n".join(lines) + "\n"))
                language, lines = "", []
            elif line != "```":
                language, start = line[3:], number
            continue
        if language:
            lines.append(line)
    return found


def run(page: Path) -> None:
    """Run the code of a page; raise what it raises, or AssertionError where an example prints something else."""
    module = ModuleType("shop")
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for language, line, text in blocks(page):
        if language == "python":
            code = compile("\n" * line + text, str(page), "exec")
            exec(code, vars(module))
        elif language == "pycon":
            test = doctest.DocTestParser().get_doctest(text, vars(module), f"{page.name}:{line}", str(page), line)
            failed, _ = runner.run(test, clear_globs=False)
            assert not failed


if __name__ == "__main__":
    run(Path(sys.argv[1]))
