"""Checks of what a runner is given, and its defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aspecthook._errors import ConfigError, brief, nearest
from aspecthook.training._errors import TrainingError

from ._stages import MODES

if TYPE_CHECKING:
    from logging import Logger


def counted(name: str, value: Any) -> int | None:
    """Return a number of epochs or iterations from 1 up, or None.

    Raises:
        ConfigError: The value is something else.
    """
    if value is None:
        return None
    if not _is_count(value):
        raise ConfigError(f"Runner({name}={brief(value)}): give a number from 1 up")
    return int(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def workflow_of(rows: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    """Return the rows of a workflow, each a mode and how often it comes.

    Raises:
        ConfigError: A row is something else, or no row trains.
    """
    found: list[tuple[str, int]] = []
    for row in rows:
        given: Any = row
        pair: list[Any] = list(given) if isinstance(row, (tuple, list)) else [row]
        if len(pair) != 2 or not _is_count(pair[1]):
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


def checked(loader: Any, mode: str) -> Any:
    """Return data that can be iterated. Whether data without a length are empty shows later.

    Raises:
        TrainingError: They cannot be iterated, or are empty.
    """
    assert mode in MODES
    if not hasattr(loader, "__iter__"):
        raise TrainingError(f"the data for {mode} is {type(loader).__name__}, which cannot be iterated; give a loader")
    if length_of(loader) == 0:
        raise TrainingError(f"the data for {mode} has no batches; is the data set empty, or the batch too big?")
    return loader


def length_of(loader: Any) -> int | None:
    """Return the number of batches, or None if it is not known."""
    try:
        return len(loader)
    except TypeError:
        return None


def ranks() -> tuple[int, int]:
    """Return the rank of this process and the number of processes, which torchrun sets."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def default_logger() -> Logger:
    """Return the logger of a run that was not given one."""
    import logging

    return logging.getLogger("aspecthook.training")
