"""What does a program do to my files? An audit of the standard library's own functions, and a guard around them.

A small release script packs a directory, moves files around and cleans up after itself; one of its lines would delete
more than it should. The script stays as it is. Instead, an *aspect* is woven: one object whose marked methods are
hooks. They share state through the object and, for one call, through `call.state`. Look for

- marks with pointcuts: globs over a module (`shutil:*`), several targets, exclusion with `!`, C functions of `os`;
- the always hook, which sees how each call ended, even if it failed;
- the pre hook that refuses a call: it raises, and the call fails as if the function itself had raised.

Run `python examples/audit.py` with aspecthook installed. It works in a temporary directory and needs no network.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree  # taken by name, as programs do
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from aspecthook import Call, always, pre, weave

DATA = Path(__file__).parent / "data"

# The script: plain code, unchanged.


def release(work: Path) -> list[str]:
    copytree(DATA, work / "stage")
    (work / "stage" / "VERSION").write_text("1.0\n", encoding="utf-8")
    os.rename(work / "stage" / "README.md", work / "stage" / "ABOUT.md")
    with zipfile.ZipFile(work / "release.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((work / "stage").iterdir()):
            archive.write(path, path.name)
    rmtree(work / "stage")
    shutil.move(work / "release.zip", work / "penguins-1.0.zip")
    try:
        rmtree(work.parent / "penguins-to-keep")  # the mistake: not its to delete
    except PermissionError as error:
        print("The script was stopped:", error)
    return sorted(path.name for path in work.iterdir())


# The aspect


class Audit:
    """Note every call that changes files, and let nothing be deleted outside one directory."""

    def __init__(self, inside: Path, out: Callable[[str], object] = print) -> None:
        self.inside = inside.resolve()
        self.out = out
        self.depth = 0
        self.done: Counter[str] = Counter()

    # All public functions of shutil except those that only look, a method of zipfile, and C functions of os. Other
    # modules call these too: `shutil` and `pathlib` call `os.rename`, and so run the hooks.
    CHANGES = "shutil:*, !shutil:which, !shutil:disk_usage, !shutil:get_*, zipfile:ZipFile.write, os:rename, os:rmdir"

    @pre("shutil:rmtree, os:rmdir", priority="HIGH")  # before `begin`: a refused call never begins
    def guard(self, path: Any) -> None:
        # What `rmtree` calls is part of what was allowed; it passes names relative to a directory to `rmdir`.
        if not Path(os.fsdecode(path)).resolve().is_relative_to(self.inside) and not self.depth:
            raise PermissionError(f"{Path(path).name!r} is outside {self.inside.name!r} and is kept")

    @pre(CHANGES)
    def begin(self, call: Call) -> None:
        call.state["start"] = perf_counter()
        self.depth += 1

    @always(CHANGES)
    def end(self, call: Call, exc: BaseException | None) -> None:
        if "start" not in call.state:
            return  # refused
        self.depth -= 1
        name = getattr(call.function, "__name__", "?")
        self.done[name] += 1
        paths = [self.short(value) for value in call.arguments.values() if isinstance(value, (str, Path))]
        ended = f"failed: {exc!r}" if exc is not None else f"{(perf_counter() - call.state['start']) * 1000:.2f} ms"
        self.out(f"  {'  ' * self.depth}{name}({', '.join(paths)})  {ended}")

    def short(self, value: str | Path) -> str:  # no mark: no hook
        path = Path(value)
        return str(path.relative_to(self.inside)) if path.is_relative_to(self.inside) else path.name


def main() -> None:
    plain = {name: value for name, value in vars(shutil).items() if callable(value)}, os.rename, os.rmdir
    with TemporaryDirectory() as temporary:
        work, keep = Path(temporary, "work"), Path(temporary, "penguins-to-keep")
        work.mkdir()
        keep.mkdir()
        audit = Audit(work)
        print("What the script does, innermost calls first:")
        with weave(audit) as weaving:
            left = release(work)
            print(f"\n{weaving}")
        print("left in the directory:", ", ".join(left), "| kept:", keep.exists())
        print("calls:", ", ".join(f"{name} {times}" for name, times in audit.done.most_common()))
    now = {name: value for name, value in vars(shutil).items() if callable(value)}, os.rename, os.rmdir
    print("Hooks removed. Is everything the same object as before?", now == plain)


if __name__ == "__main__":
    main()
