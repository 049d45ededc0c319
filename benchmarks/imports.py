"""What importing the core of aspecthook costs, in processes of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

from pyperf import perf_counter

from .results import Contest, Goal
from .timing import Effort

ROOT = str(Path(__file__).resolve().parents[1])
HEAVY = "wrapt asyncio pytest hypothesis numpy torch inspect dataclasses ast logging typing importlib.metadata"
FIND = f"import sys; sys.path.insert(0, {ROOT!r}); sys.dont_write_bytecode = False"
OURS = "; from aspecthook import hookable, weave"  # more than `import aspecthook`, which loads no core


def imports(effort: Effort) -> list[Contest]:
    """Start processes that import aspecthook, and processes that do not, in turn; give the difference."""
    bare, added = "an interpreter that imports nothing", "importing hookable and weave adds"
    times: dict[str, list[float]] = {bare: [], added: []}
    with TemporaryDirectory() as folder:
        cached = ("-X", f"pycache_prefix={folder}", "-c")
        _start(*cached, FIND + OURS)  # writes the .pyc files, which an installed package has
        for _ in range(max(15, effort.rounds // 2)):
            times[bare].append(_start(*cached, FIND))
            times[added].append(_start(*cached, FIND + OURS) - times[bare][-1])
    loaded = set(_start_and_read("-I", "-S", "-c", FIND + OURS + "; print(*sys.modules)").split())
    facts = {f"{name} is not imported": name not in loaded for name in HEAVY.split()}
    return [Contest("import", "Import time", "ms", times, goals=[Goal(added, 15e-3)], facts=facts)]


def _start(*arguments: str) -> float:
    begun = perf_counter()
    run([sys.executable, *arguments], check=True)
    return float(perf_counter() - begun)


def _start_and_read(*arguments: str) -> str:
    return run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout
