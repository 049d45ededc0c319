"""``python -m aspecthook.training``: the command `aspecthook train`."""

from __future__ import annotations

import sys

from .job._command import alone, main

if __name__ == "__main__":
    alone()
    sys.exit(main(prog="python -m aspecthook.training"))
