"""How numbers, times and names look in lines of text."""

from __future__ import annotations

from datetime import timedelta
from math import isfinite


def number_text(value: float | str) -> str:
    """Show a number with four places, or four digits where these would say little.

    Example:
        >>> [number_text(value) for value in (0.53214, 12, 3e-05, float("nan"), 1234567.0, 0.0)]
        ['0.5321', '12', '3.000e-05', 'nan', '1.235e+06', '0.0000']
    """
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, int) or not isfinite(value):
        return str(value)
    return f"{value:.4f}" if not value or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


def duration_text(seconds: float) -> str:
    """Show how long something takes.

    Example:
        >>> duration_text(75.5), duration_text(3600 * 30)
        ('0:01:15', '1 day, 6:00:00')
    """
    return str(timedelta(seconds=int(min(max(seconds, 0.0), 1e13))))


def took_text(seconds: float) -> str:
    """Show how long something took, which may have been short.

    Example:
        >>> took_text(0.25), took_text(75.5)
        ('0.2s', '0:01:15')
    """
    return f"{seconds:.1f}s" if seconds < 60 else duration_text(seconds)


def one_line(text: str, encoding: str | None = None) -> str:
    r"""Show a text on one line: without control characters, and without those that an encoding has not.

    Example:
        >>> one_line("an\nother\x1b[2J"), one_line("Δ loss", "ascii")
        ('an other?[2J', '? loss')
    """
    shown = "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
    return shown.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")
