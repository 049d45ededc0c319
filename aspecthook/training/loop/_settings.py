"""What a run was set up with. A checkpoint keeps it, and whoever resumes the run is told what differs now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from aspecthook._core.law.callables import parameters
from aspecthook._errors import printable
from aspecthook.training.backends._state import is_any

from ._names import named
from ._run import Run

_PLAIN = (str, int, float, type(None), PurePath)
_FROM_CHECKPOINT = "optimizer"  # its options are part of its state, so a resumed run has those of the checkpoint


def settings_of(run: Run) -> dict[str, str]:
    """Return the options of a run and its parts by name, as texts that are the same in every process.

    Options are the parameters of a class that its objects keep under the same name. Numbers, strings and sequences of
    them count; of other objects, their class and its options.
    """
    found = {"accumulate": repr(run.accumulate), "amp": _text(run.amp)}
    groups: list[dict[str, Any]] = getattr(run.optimizer, "param_groups", [])
    for number, group in enumerate(groups):
        prefix = f"{_FROM_CHECKPOINT}[{number}]" if len(groups) > 1 else _FROM_CHECKPOINT
        found |= {f"{prefix}.{name}": _text(value) for name, value in group.items() if name != "params"}
    found |= dict(_layers(run.model))
    dtypes = {str(parameter.dtype) for parameter in run.backend.parameters(run.model).values()}
    found["model.dtype"] = ", ".join(sorted(dtypes))
    for name, hook in named(run):
        found |= {f"{name}.{option}": text for option, text in _options(hook).items()}
    return {printable(name): text for name, text in found.items()}


def differences(saved: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the names of settings that differ, with their texts then and now; a hook that is new or gone has none."""
    names = [name for name in {**saved, **now} if name.startswith("model") or (name in saved and name in now)]
    rows = [(name, saved.get(name, "-"), now.get(name, "-")) for name in names]
    return [row for row in rows if row[1] != row[2]]


def tell_differences(run: Run, saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Log the settings in which a run differs from its checkpoint, as one table, and note which are in force."""
    run.settings = {**now, **{name: text for name, text in saved.items() if name.startswith(_FROM_CHECKPOINT)}}
    rows = [
        (*row, "the checkpoint's" if row[0].startswith(_FROM_CHECKPOINT) else "this run's")
        for row in differences(saved, now)
    ]
    if rows:
        rows.insert(0, ("setting", "checkpoint", "this run", "in force"))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        run.logger.warning("the run is resumed with other settings:\n%s", "\n".join(lines))


def _layers(model: Any) -> list[tuple[str, str]]:
    """Return the innermost modules of a model, or of its attributes, with the paths to them."""
    wholes = {"": model} if hasattr(model, "named_modules") else getattr(model, "__dict__", {})
    rows: list[tuple[str, str]] = []
    for name, whole in wholes.items():
        modules: dict[str, Any] = dict(whole.named_modules()) if hasattr(whole, "named_modules") else {}
        outer = {path.rpartition(".")[0] for path in modules if path}
        paths = {path: ".".join(filter(None, ("model", name, path))) for path in modules if path not in outer}
        rows += [(path, _text(modules[inner])) for inner, path in paths.items()]
    return rows


def _options(value: object) -> dict[str, str]:
    try:
        names = [one.name for one in parameters(type(value)) or ()]
    except Exception:  # annotations are evaluated since 3.14, and may name what does not exist
        return {}
    kept = {*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())}
    return {name: _text(getattr(value, name, None)) for name in names if name in kept}


def _text(value: Any) -> str:
    if is_any(value, PurePath):
        return str(value)
    if is_any(value, *_PLAIN):
        return repr(value)[:200]
    if is_any(value, tuple, list):
        return f"[{', '.join(map(_text, value[:20]))}]"
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return name
    return f"{type(value).__qualname__}({', '.join(f'{key}={text}' for key, text in _options(value).items())})"
