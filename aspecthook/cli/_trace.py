"""`aspecthook trace`: run a program, and record what it calls.

What shows and saves the calls is imported as the program starts, which need not wait for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from aspecthook._foreign.places import is_ours

from ._program import Program

if TYPE_CHECKING:
    from ._report import View


def trace(
    program: Program, options: Mapping[str, Any], *, lines: int, outputs: Iterable[Path], otlp: str | None
) -> int:
    """Trace a program. Return its exit status, below zero for the signal that ended it.

    Args:
        program: What to run.
        options: Those of `record`, and the ``targets``; if there are none, it is the program's own code.
        lines: How many lines of the tree are shown while it runs.
        outputs: The files to write, each in the format that its suffix names.
        otlp: The address of a collector of OpenTelemetry.
    """
    targets = options["targets"] or [own_code(program.path)]
    shown = options["targets"] or [f"what the program has in {program.path}"]
    with TemporaryDirectory(prefix="aspecthook-") as name:
        folder = Path(name)

        @cache
        def view() -> View:
            from ._report import View

            return View(folder, lines)

        status = program.watch({"trace": {**options, "targets": targets, "to": name}}, lambda: view().look())
        if any(folder.glob("*.jsonl")):  # there is none if the program did not start
            view().report(shown, outputs=outputs, otlp=otlp, service=program.name)
    return status


def own_code(folder: str) -> str:
    """Return the pointcut of what runs as `__main__`, and of the modules and packages in a folder."""
    names = [module.name for module in iter_modules([folder]) if not is_ours(module.name)]
    return ", ".join(["__main__:*", *[f"{name}:*, {name}.*:*" for name in names]])
