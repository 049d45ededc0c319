"""Saving a checkpoint of 1 GB beside writing its bytes; and how long training waits for one in the background."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyperf import perf_counter

from .results import Contest, Goal
from .timing import Effort

BYTES = 1_000_000_000
COPY, PLAIN = "a copy of the state", "its bytes, written and synced"
WAITS = "asynchronous, until training continues"


def saving(effort: Effort) -> list[Contest]:
    """Save a state of 1 GB, of which two thirds are those of the optimizer; with less effort, a smaller one."""
    if not all(map(find_spec, ("numpy", "autograd", "safetensors", "xxhash"))):
        return []
    runner = _runner(BYTES // effort.cut)
    arrays = _arrays(runner.state_dict())
    with TemporaryDirectory() as folder:
        path = Path(folder, "state.safetensors")
        steps: dict[str, Callable[[], object]] = {
            PLAIN: lambda: _write(path, arrays),
            "save_checkpoint": lambda: runner.save_checkpoint(path),
            COPY: runner.state_dict,
            WAITS: lambda: runner.save_checkpoint(path, asynchronous=True),
        }
        times: dict[str, list[float]] = {name: [] for name in steps}
        for number in range(max(4, effort.rounds // 10)):
            # In turns: what a step leaves in the caches of the system serves the one after it.
            for name, step in list(steps.items())[:: -1 if number % 2 else 1]:
                begun = perf_counter()
                step()
                times[name].append(perf_counter() - begun)
                runner.finish_saving()
    goals = [Goal("save_checkpoint", 1.1, PLAIN), Goal(WAITS, 1.1, COPY)]
    return [Contest("saving", f"A checkpoint of {BYTES / effort.cut / 1e9:g} GB", "ms", times, PLAIN, goals)]


def _runner(size: int) -> Any:
    import numpy as np

    from aspecthook.training import Runner
    from aspecthook.training import numpy as nn

    side = int((size / 3 / 8 / 4) ** 0.5)  # eight layers of float32, with two moments each
    model = nn.Sequential(*[nn.Linear(side, side) for _ in range(8)])
    optimizer = nn.AdamW(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = np.ones(parameter.shape, np.float32)
    optimizer.step()
    return Runner(model, optimizer=optimizer, loss=nn.mse, max_epochs=1)


def _arrays(state: Any) -> list[Any]:
    import numpy as np

    from aspecthook.training.backends._state import map_leaves

    found: list[Any] = []
    map_leaves(lambda leaf: found.append(leaf) if isinstance(leaf, np.ndarray) else None, state)
    return found


def _write(path: Path, arrays: list[Any]) -> None:
    with path.open("wb", buffering=0) as file:
        for array in arrays:
            rest = memoryview(array.reshape(-1).view("u1"))
            while rest:
                rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
