"""The command `aspecthook`, which passes its arguments on to the subcommand that they name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_USAGE = """\
usage: aspecthook [-h] [--version] COMMAND ...

Hooks before, after and around any Python function.

commands:
  train       train an image classifier; needs pip install 'aspecthook[train]'

options:
  -h, --help  show this help message and exit
  --version   print the version and exit

See aspecthook COMMAND --help for the options of a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return its exit status.

    Example:
        >>> main(["--version"])
        aspecthook ...
        0
    """
    rest = list(sys.argv[1:] if argv is None else argv)
    if rest and rest[0] == "train":
        from .training.job import _command

        if argv is None:  # the process is ours
            _command.use_one_thread()
        return _command.main(rest[1:])
    if not rest or rest[0] in ("-h", "--help"):
        print(_USAGE, end="")
        return 0 if rest else 2
    if rest[0] == "--version":
        from importlib.metadata import version

        print(f"aspecthook {version('aspecthook')}")
        return 0
    from ._errors import nearest

    print(
        f"aspecthook: unknown command {rest[0]!r}{nearest(rest[0], ['train'])}; see aspecthook --help",
        file=sys.stderr,
    )
    return 2
