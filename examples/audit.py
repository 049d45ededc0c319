"""What does a program do to my files? An audit of the standard library's own functions, and a guard around them.

A small release script packs a directory, moves things about and cleans up after itself; one of its lines would delete
more than it should. The script is not touched. An *aspect*, one object whose marked methods are hooks, is woven whole:
its methods share what they know through the object, and through `call.state` what belongs to one call. Look for

- marks with pointcuts: globs over a module (`shutil:*`), several targets, exclusion with `!`, C functions of `os`;
- the always hook, which sees how each call ended, also when it failed;
- the pre hook that refuses: it raises, and the call fails as if the function had raised itself.

Run `python examples/audit.py` with aspecthook installed. It works in a temporary directory; no network is used.
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

# The script: plain code, not touched.


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
        rmtree(work.parent / "penguins-to-keep")  # the mistake: not ours to delete
    except PermissionError as error:
        print("The script was stopped:", error)
    return sorted(path.name for path in work.iterdir())


# The aspect


class Audit:
    """Notes every call that changes files, and lets nothing be deleted outside one directory."""

    def __init__(self, inside: Path, out: Callable[[str], object] = print) -> None:
        self.inside = inside.resolve()
        self.out = out
        self.depth = 0
        self.done: Counter[str] = Counter()

    # All public functions of shutil but those that only look, two of zipfile's methods, and C functions of os, which
    # other modules have under names of their own: `shutil` and `pathlib` call `os.rename` and see the hooks.
    CHANGES = "shutil:*, !shutil:which, !shutil:disk_usage, !shutil:get_*, zipfile:ZipFile.write, os:rename, os:rmdir"

    @pre("shutil:rmtree, os:rmdir", priority="HIGH")  # before `begin`: what is refused has never begun
    def guard(self, path: Any) -> None:
        # What `rmtree` does in its turn is part of what was allowed; it gives `rmdir` names relative to a directory.
        if not Path(os.fsdecode(path)).resolve().is_relative_to(self.inside) and not self.depth:
            raise PermissionError(f"{Path(path).name!r} is outside of {self.inside.name!r}, and stays")

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
    print("Hooks off. Is everything the object that it was?", now == plain)


if __name__ == "__main__":
    main()
