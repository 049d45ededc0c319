"""Logged numbers: which values are numbers, and how numbers and durations look as text.

Logs, charts, reports and profiles all use these functions, so that they show the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

# The modes other than training: the names of their numbers begin with the mode, as in `val_loss`.
MODES = ("val", "test", "predict")
PREFIXES = tuple(f"{mode}_" for mode in MODES)


# Any: whatever a model has logged, here and below.
def number_of(value: Any) -> float | None:
    """Return a single number as an int or a float of Python; None if the value is not a number.

    Numbers of NumPy and PyTorch count, and so do their arrays of one element. Booleans and strings do not.

    Example:
        >>> import numpy as np
        >>> [number_of(value) for value in (3, 0.5, np.float32(0.5), np.ones((1, 1)), True, "0.5", np.ones(2))]
        [3, 0.5, 0.5, 1.0, None, None, None]
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "item") and all(size == 1 for size in shape):
        return number_of(value.item())
    return None


def is_of(name: str, mode: str) -> bool:
    """Whether a logged name belongs to a mode: ``"train"`` has the names without a prefix."""
    return not name.startswith(PREFIXES) if mode == "train" else name.startswith(f"{mode}_")


# Any: an optimizer of any library.
def rates_of(optimizer: Any) -> dict[str, float | str]:
    """Return the learning rate and the momentum, if there is one: of the first group, and of each where they differ.

    Example:
        >>> from types import SimpleNamespace
        >>> rates_of(SimpleNamespace(param_groups=[{"lr": 0.1, "betas": (0.9, 0.99)}, {"lr": 0.2, "name": "head"}]))
        {'lr': 0.1, 'lr_head': 0.2, 'momentum': 0.9}
    """
    groups: list[Mapping[str, Any]] = list(getattr(optimizer, "param_groups", ()))
    found: dict[str, float | str] = {}
    for word in ("lr", "momentum"):
        rates = [_rate(group, word) for group in groups]
        if not rates or rates[0] is None or (word == "momentum" and not any(rates)):
            continue
        found[word] = rates[0]
        if any(rate != rates[0] for rate in rates):
            rest = zip(groups[1:], rates[1:], range(1, len(rates)), strict=True)
            found.update((f"{word}_{group.get('name', n)}", rate) for group, rate, n in rest if rate is not None)
    return found


def _rate(group: Mapping[str, Any], word: str) -> float | None:
    if word == "momentum" and "betas" in group and word not in group:  # the first beta of Adam is its momentum
        return number_of(group["betas"][0])
    return number_of(group.get(word))


# As text


def number_text(value: float | str) -> str:
    """Return a number for a line of a log: with four places, or four digits where places would say little.

    Example:
        >>> [number_text(value) for value in (0.53214, 12, 3e-05, float("nan"), 1234567.0, 0.0)]
        ['0.5321', '12', '3.000e-05', 'nan', '1.235e+06', '0.0000']
    """
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, int) or not isfinite(value):
        return str(value)
    return f"{value:.4f}" if not value or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


def short_text(value: float | None) -> str:
    """Return a number for a table or an axis: four digits, without zeros at the end.

    Example:
        >>> [short_text(value) for value in (0.97812, 1234567.0, 3e-05, 12.0, float("nan"), None)]
        ['0.9781', '1,234,567', '3e-05', '12', 'nan', '']
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e12 else f"{value:.4g}"


def duration_text(seconds: float) -> str:
    """Return a duration in the unit that suits it.

    Example:
        >>> [duration_text(seconds) for seconds in (0.0000042, 0.0312, 8.4, 61, 3725, 100000)]
        ['4.2 µs', '31 ms', '8.4 s', '1 min 1 s', '1 h 2 min', '27 h 46 min']
    """
    seconds = min(max(seconds, 0.0), 1e13)  # an estimate may be infinite
    if seconds < 60:
        for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
            if seconds >= size:
                number = seconds / size
                return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
        return f"{seconds * 1e9:.0f} ns" if seconds else "0 s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {rest} s"


def one_line(text: str, encoding: str | None = None) -> str:
    r"""Return a text on one line: without control characters, and without those that an encoding does not have.

    Example:
        >>> one_line("an\nother\x1b[2J"), one_line("Δ loss", "ascii")
        ('an other?[2J', '? loss')
    """
    shown = "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
    return shown.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")
