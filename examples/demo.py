"""What a hook library is for, on one screen: a third-party program is traced, repaired and restored.

The program is `json.tool` of the standard library, which pretty-prints a JSON file. It refuses a file with comments.
Its code stays as it is: hooks on its functions find out why it fails, change an argument on the way in and the result
on the way out, and are removed again.

Run `python examples/demo.py` with aspecthook installed. It needs no network.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from json import JSONDecodeError
from json.tool import main as json_tool
from pathlib import Path
from time import perf_counter

from aspecthook import Args, hooks, weave
from aspecthook.record import record

SETTINGS = """\
// written by hand
{"retries": 3, "token": "s3cr3t"}
"""


def step(number: int, what: str) -> None:
    print(f"\n\033[1m{number}. {what}\033[0m" if sys.stdout.isatty() else f"\n{number}. {what}")


def run(settings: Path) -> None:
    """Run the program, as the command `python -m json.tool settings.json neat.json` does, and show what it writes."""
    neat = settings.with_name("neat.json")
    arguments, sys.argv = sys.argv, ["json.tool", str(settings), str(neat)]
    try:
        json_tool()
        print(neat.read_text(encoding="utf-8"), end="")
    except SystemExit as end:  # what the program raises when it refuses a file
        print("it exits with:", end)
    finally:
        sys.argv = arguments


# The hooks. Each asks for the arguments and results that it needs, by their names.


def without_comments(s: str) -> Args:
    """A pre hook: its answer replaces arguments."""
    return Args(s="".join(line for line in s.splitlines(keepends=True) if not line.lstrip().startswith("//")))


def without_secrets(result: dict[str, object]) -> dict[str, object]:
    """A post hook: its answer replaces the result."""
    return {name: "***" if name == "token" else value for name, value in result.items()}


def explained(exc: JSONDecodeError, s: str) -> None:
    """An exception hook: it answers nothing, so it only watches."""
    print("the line that is refused:", s.splitlines()[exc.lineno - 1])


def timed() -> Iterator[None]:
    """An around hook: the call runs at the `yield`."""
    begin = perf_counter()
    yield
    print(f"parsed in {(perf_counter() - begin) * 1e6:.0f} µs")


def main() -> None:
    code = json.loads.__code__
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "settings.json")
        settings.write_text(SETTINGS, encoding="utf-8")

        step(1, "A third-party program fails: python -m json.tool settings.json neat.json")
        run(settings)

        step(2, "Traced: a tree of its calls, with outcomes and times")
        with record("json.tool:main", "json:load", "json:loads", "json:JSONDecoder.*decode", arguments=False) as tape:
            run(settings)
        print(tape)

        step(3, "Woven: a hook shows what goes wrong, and where")
        with weave("json:loads", exception=explained):
            run(settings)

        step(4, "Repaired: hooks change what goes in and what comes out")
        weaving = weave("json:loads", pre=without_comments, post=without_secrets, around=timed)
        run(settings)
        print(hooks(json.loads))

        step(5, "Restored: without hooks, the function is as it was, and fails as it did")
        weaving.remove()
        run(settings)
        print("the same code object as before:", json.loads.__code__ is code)


if __name__ == "__main__":
    main()
