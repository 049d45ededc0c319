"""`aspecthook trace`: run a program, and record what it calls.

What shows and saves the calls is imported as the program starts, which need not wait for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ._program import Program

if TYPE_CHECKING:
    from ._report import View


def trace(
    program: Program, options: Mapping[str, Any], *, lines: int, outputs: Iterable[Path], otlp: str | None
) -> int:
    """Trace a program. Return its exit status, below zero for the signal that ended it.

    Args:
        program: What to run.
        options: Those of `record`, and the ``targets``.
        lines: How many lines of the tree are shown while it runs.
        outputs: The files to write, each in the format that its suffix names.
        otlp: The address of a collector of OpenTelemetry.
    """
    with TemporaryDirectory(prefix="aspecthook-") as name:
        folder = Path(name)

        @cache
        def view() -> View:
            from ._report import View

            return View(folder, lines)

        status = program.watch({"trace": {**options, "to": name}}, lambda: view().look())
        if any(folder.glob("*.jsonl")):  # there is none if the program did not start
            view().report(options["targets"], outputs=outputs, otlp=otlp, service=program.name)
    return status
