"""``python -m aspecthook.training``: the command `aspecthook train`."""

from __future__ import annotations

import sys

from .job._command import main, use_one_thread

if __name__ == "__main__":
    use_one_thread()
    sys.exit(main(prog="python -m aspecthook.training"))
