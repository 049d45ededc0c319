"""Fetches: names of the values of a step, nested in any way. Feeds: values that replace entries of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training.backends._state import is_any, map_leaves, remade
from aspecthook.training.loop._run import Run

# Any: fetches are nested in any way, and batches are whatever the user trains on.

WORDS = ("loss", "global_step", "lr", "iter", "epoch")  # the names without a colon
KINDS = ("param", "grad", "output")


def mapped(fetches: Any, function: Callable[[str], Any], who: str) -> Any:
    """Return fetches with a function applied to each name; refuse what is not a name."""

    def of_name(name: Any) -> Any:
        if name is None:
            return None
        if is_any(name, str):
            return function(name)
        raise HookTypeError(
            f"{who} fetches {brief(name)}; fetch names such as 'loss', or lists, tuples and dicts of names"
        )

    return map_leaves(of_name, fetches)


def names_in(fetches: Any, who: str) -> list[str]:
    """Return the names in fetches."""
    if fetches is None or type(fetches) is str:  # as most are
        return [] if fetches is None else [fetches]
    names: list[str] = []
    mapped(fetches, names.append, who)
    return names


def check_name(name: str, runner: Run, who: str) -> None:
    """Raise unless a step has a value of this name; the message has the nearest name."""
    kind, colon, rest = name.partition(":")
    if name in WORDS:
        return
    if colon and kind in KINDS:
        known = list(_known(kind, runner))
        if rest in known:
            return
        raise HookOptionError(
            f"{who} fetches {name!r}, and {type(runner.model).__name__} has no "
            f"{'layer' if kind == 'output' else 'parameter'} {rest!r}; it has: "
            f"{_listed(known)}{nearest(rest, known)}"
        )
    raise HookOptionError(
        f"{who} fetches {name!r}, which is not a value of a step; the values are {', '.join(WORDS)}, 'param:NAME', "
        f"'grad:NAME' and 'output:LAYER'{_near(name, runner)}"
    )


def _near(name: str, runner: Run) -> str:
    known = {kind: list(_known(kind, runner)) for kind in KINDS}
    exact = [f"{kind}:{name}" for kind in KINDS if name in known[kind]]
    return nearest(name, exact[:1] or [*WORDS, *(f"{kind}:{rest}" for kind in KINDS for rest in known[kind])])


def _known(kind: str, runner: Run) -> Iterable[str]:
    return modules(runner) if kind == "output" else runner.backend.parameters(runner.model)


def modules(runner: Run) -> dict[str, Any]:
    """Return the layers of the model by name; the model itself by the empty name."""
    found: dict[str, Any] = {}
    for prefix, part in runner.backend.parts(runner.model).items():
        for name, module in part.named_modules() if hasattr(part, "named_modules") else ():
            found[f"{prefix}{name}" if name else prefix.removesuffix(".")] = module
    return found


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = [repr(name) for name in names[:most]]
    return ", ".join(shown + [f"{len(names) - most} more"] * (len(names) > most)) or "none"


# Feeds

_PLACES: dict[Any, int] = {"inputs": 0, "targets": 1}


def entry_of(batch: Any, key: Any, who: str) -> Any:
    """Return the name by which `fed` knows an entry of a batch: ``0`` for ``"inputs"``."""
    if is_any(batch, Mapping):
        if key in batch:
            return key
        keys = [str(one) for one in batch]
        raise HookOptionError(
            f"{who} feeds {key!r}, and the batch has no such entry; it has: {_listed(keys)}{nearest(str(key), keys)}"
        )
    if is_any(batch, list, tuple):
        fields: tuple[str, ...] = getattr(batch, "_fields", ())
        place = fields.index(key) if key in fields else _PLACES.get(key, key) if len(batch) == 2 else key
        if type(place) is int and 0 <= place < len(batch):
            return place
        names = ", or a name of its fields" if fields else ", or 'inputs' or 'targets'" if len(batch) == 2 else ""
        raise HookOptionError(
            f"{who} feeds {key!r}, and the batch is a {type(batch).__name__} of {len(batch)}; give a number from 0 to "
            f"{len(batch) - 1}{names}"
        )
    if key == "batch":
        return key
    raise HookOptionError(
        f"{who} feeds {key!r}, and a batch is {type(batch).__name__}, which has no entries; feed 'batch' as a whole"
    )


def fed(batch: Any, feed: Mapping[Any, Any]) -> Any:
    """Return a batch with entries replaced; their names are those that `entry_of` returns."""
    if is_any(batch, Mapping):
        return {**batch, **feed}
    if is_any(batch, list, tuple):
        return remade(batch, [feed.get(place, value) for place, value in enumerate(batch)])
    return feed["batch"]
