"""Checks of what a runner is given: a seed, a workflow, data."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from operator import index
from typing import Any, SupportsIndex

from aspecthook._errors import ConfigError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import whole_number
from aspecthook.training.backends._state import is_any


def seed_of(seed: object) -> int | None:
    """Return a seed that all libraries take, or None."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, SupportsIndex) or not 0 <= index(seed) < 2**63:
        raise ConfigError(f"seed={brief(seed)}: give a whole number from 0 up, below 2**63")
    return index(seed)


def workflow_of(rows: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    """Return the rows of a workflow: pairs of a mode and the number of epochs or iterations in it."""
    found: list[tuple[str, int]] = []
    for row in rows:
        pair: list[Any] = list(row) if is_any(row, tuple, list) else [row]
        if len(pair) != 2 or pair[0] not in ("train", "val"):
            near = nearest(str(pair[0]), ["train", "val"]) if pair else ""
            raise ConfigError(
                f"workflow={brief(row)}: give pairs of 'train' or 'val' and a number, such as ('train', 1){near}"
            )
        found.append((pair[0], whole_number("Runner", f"workflow: the number after {pair[0]!r}", pair[1], 1)))
    if not any(mode == "train" for mode, _ in found):
        raise ConfigError("a workflow without 'train' never ends; use validate()")
    return tuple(found)


def length_of(loader: object) -> int | None:
    """Return the number of batches, or None if it is not known."""
    try:
        return len(loader) if isinstance(loader, Sized) else None
    except TypeError:
        return None


def check_loader(loader: object, name: str) -> None:
    """Refuse a loader without batches; one whose length is not known is not checked further."""
    if not hasattr(loader, "__iter__"):
        raise TrainingError(
            f"{name} is {type(loader).__name__}, which cannot be iterated; give a DataLoader, or a list"
        )
    if length_of(loader) == 0:
        raise TrainingError(
            f"{name} has no batches: it is empty, or has fewer samples than a batch, which drop_last=True leaves out; "
            "check where its samples come from, or give a smaller batch_size"
        )
