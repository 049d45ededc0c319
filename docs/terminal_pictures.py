"""Take the pictures of a terminal that these pages show: ``make pictures`` writes them anew.

Each command runs in a terminal of its own, a pseudo-terminal, whose screen pyte keeps and rich draws as SVG.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import struct
import sys
from collections.abc import Callable
from fcntl import ioctl
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from termios import TIOCSWINSZ
from typing import Any

WIDTH, HEIGHT = 100, 60

# Of `command.md`.
APP = """\
class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)

    def total(self, token):
        return sum(price(item, token) for item in self.items)


def price(item, token):
    return {"tea": 2.0, "cake": 3.5}[item]


def main(items):
    cart = Cart()
    for item in items:
        cart.add(item)
    print("total:", cart.total(token="4711-0815"))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
"""


def halfway(text: str) -> bool:
    """Whether a training run is shown in the second half of its third epoch, or of a later one.

    A fast run shows some epochs in one frame alone, which may be of any part.
    """
    found = re.search(r"^epoch [3-9]/\d+ +(\d+)/(\d+) ", text, re.MULTILINE)
    return found is not None and int(found[1]) * 2 >= int(found[2])


# The name of each picture, its command, and when it is taken: at the end of the command, unless a predicate says so of
# the text on the screen.
PICTURES: dict[str, tuple[str, Callable[[str], bool] | None]] = {
    "terminal-help": ("aspecthook --help", None),
    "terminal-trace": ("aspecthook trace '__main__:*' --redact '*token*' -o calls.html -- app.py tea cake", None),
    "terminal-train": ("aspecthook train --epochs 6", halfway),
}


# Any: pyte has no types.
def screen_of(command: str, folder: Path, taken: Callable[[str], bool] | None = None) -> Any:
    """Return the screen of a terminal at the end of a command, or as soon as `taken` is true of its text."""
    import pyte

    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.ByteStream(screen)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        # The terminal has its size only when the line below has run; the pages take it from here in any case.
        os.environ.update(TERM="xterm-256color", COLUMNS=str(WIDTH), LINES=str(HEIGHT))
        os.execv(sys.executable, [sys.executable, "-m", *shlex.split(command)])
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    try:
        while not (taken is not None and taken("\n".join(screen.display))):
            stream.feed(os.read(terminal, 1024))
    except OSError:  # the command has ended
        if taken is not None:
            raise RuntimeError(f"{command}: it ended before the picture was taken") from None
    finally:
        os.close(terminal)  # a command that still runs is hung up
        os.waitpid(process, 0)
    return screen


def picture_of(name: str, command: str, screen: Any) -> str:
    """Return a screen as SVG, below the command that it shows."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    console = Console(width=WIDTH, file=StringIO(), record=True, force_terminal=True, legacy_windows=False)
    console.print(Text(f"$ {command}"))
    rows = [screen.buffer[number] for number in range(HEIGHT)]
    while rows and not "".join(rows[-1][column].data for column in range(WIDTH)).strip():
        rows.pop()
    for row in rows:
        line = Text()
        for column in range(WIDTH):
            cell = row[column]
            line.append(cell.data, f"{'bold ' * cell.bold}{_color(cell.fg)}")
        line.rstrip()
        console.print(line)
    console.print()  # the frame would cut the underscores of the last line
    # The fonts of the template come from the net; the reader's own will do.
    template = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="", code_format=template, unique_id=name)


def _color(name: str) -> str:
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return {"default": "", "brown": "yellow"}.get(name, name.replace("bright", "bright_"))


def main() -> None:
    """Write all pictures, or those that are named."""
    for name in sys.argv[1:] or PICTURES:
        command, taken = PICTURES[name]
        with TemporaryDirectory() as folder:
            Path(folder, "app.py").write_text(APP, encoding="utf-8")
            screen = screen_of(command, Path(folder), taken)
        picture = picture_of(name, command, screen)
        Path(__file__).with_name(f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
