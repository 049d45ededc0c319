"""Which numbers an iteration, or a validation, has made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Before the names of numbers that are not of training.
MODES = ("val", "test", "predict")
PREFIXES = tuple(f"{mode}_" for mode in MODES)


def named(logs: Mapping[str, Any], prefixes: Iterable[str]) -> dict[str, float]:
    """Give the numbers of a run's logs whose names begin so."""
    wanted = tuple(prefixes)
    return _numbers((name, value) for name, value in logs.items() if name.startswith(wanted))


def of_training(logs: Mapping[str, Any], optimizer: Any) -> dict[str, float]:
    """Give the numbers of an iteration: what is in the logs and of no validation, and what the optimizer works with."""
    found = _numbers((name, value) for name, value in logs.items() if not name.startswith(PREFIXES))
    return {**found, **rates(optimizer)}


def _numbers(rows: Iterable[tuple[str, Any]]) -> dict[str, float]:
    return {name: number for name, value in rows if (number := _number(value)) is not None}


def _number(value: Any) -> float | None:
    """Give what is a single number as one; NumPy's and PyTorch's are too."""
    if isinstance(value, (int, float)):
        return None if isinstance(value, bool) else float(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return _number(value.item())
    return None


def rates(optimizer: Any) -> dict[str, float]:
    """Give the learning rate and the momentum; of groups that have different ones, the first, lowest and highest."""
    groups: list[Mapping[str, Any]] = list(getattr(optimizer, "param_groups", ()))
    found = _of_groups("lr", [float(group["lr"]) for group in groups if "lr" in group])
    return {**found, **_of_groups("momentum", [value for group in groups if (value := _momentum(group)) is not None])}


def _of_groups(name: str, values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    found, low, high = {name: values[0]}, min(values), max(values)
    if low < values[0]:
        found[f"{name} (lowest)"] = low
    if high > values[0]:
        found[f"{name} (highest)"] = high
    return found


def _momentum(group: Mapping[str, Any]) -> float | None:
    if "momentum" in group:
        return float(group["momentum"])
    return float(group["betas"][0]) if "betas" in group else None
