"""The curves of a run, drawn by matplotlib without its global state."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from math import isfinite, nan
from typing import Any, TypeAlias

from aspecthook.training.hooks._monitor import known_rule
from aspecthook.training.logging._numbers import short_text
from aspecthook.training.logging._row import TIMES, Row

Rules: TypeAlias = Mapping[str, str]  # ``"greater"`` or ``"less"``, whichever is better, by name
Curve: TypeAlias = list[tuple[Row, float]]

_LAST = ("lr", "momentum", "grad_norm", *TIMES)  # settings and costs come after results
_MOST_PANELS = 24
_HUGE = 1e300  # greater numbers cannot be drawn
_LONGEST = 40  # characters of a title
_WIDE = 100.0  # the ratio from which a loss has a logarithmic scale, so that its end is not a flat line
_MODES = {"train": "#2563c9", "val": "#d2660a", "test": "#178a54"}


def points(rows: Sequence[Row], name: str) -> Curve:
    """Return the values of a number that is no text, with their rows; greater ones than can be drawn are NaN."""
    found = ((row, row.numbers.get(name)) for row in rows)
    return [(row, v if abs(v) < _HUGE else nan) for row, v in found if v is not None and not isinstance(v, str)]


def best_of(rows: Sequence[Row], name: str, rules: Rules) -> tuple[Row, float] | None:
    """Return the best value of a number, the first of several; None if it is not known which values are better."""
    rule = rules.get(name) or known_rule(name)
    good = [(row, value) for row, value in points(rows, name) if isfinite(value)]
    if rule is None or not good:
        return None
    return (max if rule == "greater" else min)(good, key=lambda point: point[1])


def panels_of(rows: Sequence[Row]) -> dict[str, dict[str, Curve]]:
    """Return the curves by the name of a number and by mode: the loss, then what is validated, then the rest."""
    panels: dict[str, dict[str, Curve]] = {}
    for mode in _MODES:
        ours = [row for row in rows if row.mode == mode]
        for name in dict.fromkeys(name for row in ours for name in row.numbers):
            base = name.removeprefix(f"{mode}_")
            is_rate = base.partition("_")[0] in ("lr", "momentum")
            if (found := points(ours, name)) and not (is_rate and mode != "train"):  # validations repeat the rates
                panels.setdefault(base, {})[mode] = found

    def place(name: str) -> tuple[int, int]:
        word = name if name in _LAST else name.partition("_")[0]
        if word in _LAST:
            return 4, _LAST.index(word)
        return (0 if name == "loss" else 1 if set(panels[name]) != {"train"} else 2 if "loss" in name else 3), 0

    return {name: panels[name] for name in sorted(panels, key=place)}


def drawn(rows: Sequence[Row], kind: str) -> bytes:
    """Return the curves as a file of a kind, ``"png"`` or ``"svg"``."""
    import numpy as np

    panels = list(panels_of(rows).items())[:_MOST_PANELS]
    columns = min(3, max(1, len(panels)))
    lines = max(1, -(-len(panels) // columns))
    # Any: figures of matplotlib, which is imported when something is drawn.
    figure: Any = import_module("matplotlib.figure").Figure((4.4 * columns, 3.0 * lines), layout="constrained")
    for place, (name, curves) in enumerate(panels, 1):
        axes = figure.add_subplot(lines, columns, place)
        title = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
        axes.set_title(title, fontsize=10, loc="left", parse_math=False)
        _draw(axes, name, curves)
    file = io.BytesIO()
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # numbers may be near the largest float
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names of metrics may be in any alphabet
        figure.savefig(file, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def _tick(value: float, _: object) -> str:
    """Return a number as matplotlib writes it beside a tick, wherever that is."""
    return short_text(value)


def _draw(axes: Any, name: str, curves: dict[str, Curve]) -> None:  # Any: axes of matplotlib
    finite = [value for curve in curves.values() for _, value in curve if isfinite(value)]
    for mode, curve in curves.items():
        style = "o-" if mode != "train" or len(curve) == 1 else "-"
        values = [value if isfinite(value) else nan for _, value in curve]
        axes.plot([row.total_iter for row, _ in curve], values, style, color=_MODES[mode], label=mode, markersize=3)
        bad = [row.total_iter for row, value in curve if not isfinite(value)]
        if bad:
            foot = axes.get_xaxis_transform()  # y is relative to the height, on any scale
            axes.plot(bad, [0.02] * len(bad), "^", color="#c62828", transform=foot, label=f"{mode}, not finite")
    if "loss" in name and finite and min(finite) > 0 and max(finite) / min(finite) >= _WIDE:
        axes.set_yscale("log")
    else:
        axes.yaxis.set_major_formatter(_tick)
    axes.set_xlabel("iteration", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, axis="y", alpha=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    if len(curves) > 1 or "train" not in curves:
        axes.legend(fontsize=8, frameon=False)
