"""The command `aspecthook`: trace a program, weave what a file names, and look at mount points and pointcuts.

For maintainers: `_commands` has the commands and their options. A program is run by the interpreter itself, in a
process of its own (`_program`). The folder `_startup` comes first on its PYTHONPATH: Python runs the `sitecustomize`
there as it starts, in that process and in all that it starts, and `_begin` then weaves or records. Calls go to files;
`_live` reads them as they grow, and `_report` shows and saves the calls. `_attach` does the same with a process that
runs already: it sends `_arrival` there, which loads `_attached`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# The help where click, which writes it otherwise, is not installed.
_HELP = """\
Usage: aspecthook COMMAND [ARGS]...

  trace, run, list, explain, match, doctor, attach, detach    need click: pip install click
  train    needs click, NumPy and others, in a checkout: pip install '.[train]'
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return its exit status.

    Example:
        >>> main(["--version"])
        aspecthook ...
        0
    """
    rest = list(sys.argv[1:] if argv is None else argv)
    if argv is None and rest[:1] == ["train"]:
        # The process is ours, and the matrices are small: on a busy machine, threads that wait for each other make the
        # training ten times as slow.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from ._commands import run

        return run(rest)
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        if not rest or rest[0] in ("-h", "--help"):
            print(_HELP, end="")
            return 0
        print("aspecthook: click is not installed: pip install click", file=sys.stderr)
        return 2
