"""Checks of what a runner is given: numbers, a workflow, data."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

from aspecthook._errors import ConfigError, brief, nearest
from aspecthook.training._errors import TrainingError


def positive(name: str, value: Any) -> int | None:
    """Return a number of epochs or iterations from 1 up, or None."""
    if value is not None and not _is_positive(value):
        raise ConfigError(f"Runner({name}={brief(value)}): give a number from 1 up")
    return None if value is None else int(value)


def seed_of(seed: Any) -> int | None:
    """Return a seed that all libraries take, or None."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= index(seed) < 2**63:
        raise ConfigError(f"seed={brief(seed)}: give a whole number from 0 up, below 2**63")
    return index(seed)


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def workflow_of(rows: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    """Return the rows of a workflow: pairs of a mode and the number of epochs or iterations in it."""
    found: list[tuple[str, int]] = []
    for row in rows:
        given: Any = row
        pair: list[Any] = list(given) if isinstance(row, (tuple, list)) else [row]
        if len(pair) != 2 or not _is_positive(pair[1]):
            raise ConfigError(
                f"workflow={brief(given)}: give pairs of a mode and a number from 1 up, such as ('train', 1)"
            )
        if pair[0] not in ("train", "val"):
            near = nearest(str(pair[0]), ["train", "val"])
            raise ConfigError(f"workflow={brief(given)}: the modes of a workflow are 'train' and 'val'{near}")
        found.append((str(pair[0]), int(pair[1])))
    if not any(mode == "train" for mode, _ in found):
        raise ConfigError("a workflow without 'train' never ends; use validate()")
    return tuple(found)


def length_of(loader: Any) -> int | None:
    """Return the number of batches, or None if it is not known."""
    try:
        return len(loader)
    except TypeError:
        return None


def check_loader(loader: Any, name: str = "the loader") -> None:
    """Refuse a loader without batches.

    Args:
        loader: The loader; one without a length is not checked further.
        name: Its name in the message.

    Raises:
        TrainingError: It cannot be iterated, or its length is 0.

    Example:
        >>> from aspecthook.training.data import DataLoader, check_loader
        >>> check_loader(DataLoader([1, 2, 3], 8, drop_last=True), "the train loader")
        Traceback (most recent call last):
        ...
        aspecthook.training.TrainingError: the train loader has no batches: it has 3 samples, fewer than ...
    """
    if not hasattr(loader, "__iter__"):
        raise TrainingError(
            f"{name} is {type(loader).__name__}, which cannot be iterated; give a DataLoader, or a list"
        )
    if length_of(loader) != 0:  # None for an iterator, or a data set that is a stream
        return
    samples, size = _samples_of(loader), getattr(loader, "batch_size", None)
    if samples and size:
        why = f"it has {samples} samples, fewer than one batch of {size}, and drop_last=True leaves those out"
        raise TrainingError(f"{name} has no batches: {why}; give a smaller batch_size, or drop_last=False")
    raise TrainingError(f"{name} has no batches: it is empty; check where its samples come from")


def _samples_of(loader: Any) -> int:
    try:
        return len(loader.sampler if hasattr(loader, "sampler") else loader.dataset)
    except (AttributeError, TypeError):
        return 0
