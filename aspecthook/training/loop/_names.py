"""The names of hooks in checkpoints: those that they were given, or else their classes, numbered.

A number says only in which order hooks were registered. So a checkpoint also has a digest of the options of each hook
without a name, by which a run sees that the order is another one now.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import count, islice
from pathlib import PurePath
from typing import Any

from aspecthook._core.law.callables import parameters
from aspecthook._errors import HookOptionError, HookTypeError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any

from ._run import Run

_DEEPEST = 4  # how deep to look into options
_MOST = 20  # how many values of a list or an object to look at
_UNSEEN = "<?>"  # stands for functions, arrays and whatever else cannot be looked into


def named(run: Run) -> list[tuple[str, Any]]:
    """Return the hooks of a run with unique names."""
    taken = set(run.names.values())
    found: list[tuple[str, Any]] = []
    for hook in run.hooks:
        name = run.names.get(id(hook))
        if name is None:
            kind = type(hook).__name__
            numbered = (kind if number == 1 else f"{kind} {number}" for number in count(1))
            name = next(one for one in numbered if one not in taken)
            taken.add(name)
        found.append((name, hook))
    return found


def check_name(run: Run, hook: Any, name: str | None) -> None:
    """Refuse a name that another hook has, and a hook without one that nothing tells apart from another."""
    kind = type(hook).__name__
    if name is not None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"register_hook({kind}, name={brief(name)}): a name is a string")
        if not name or any(name == other for other, one in named(run) if one is not hook):
            raise HookOptionError(
                f"register_hook({kind}, name={name!r}): the name is {'taken' if name else 'empty'}; give another one"
            )
        return
    others = [one for one in run.hooks if one is not hook and type(one) is type(hook) and id(one) not in run.names]
    digest = digest_of(hook) if others else ""
    alike = any(run.options.get(id(one)) == digest for one in others)
    if alike and _UNSEEN in _options(hook) and _has_state(hook):
        raise HookOptionError(
            f"the run has another {kind} whose options, as far as they can be seen, are the same; each has a "
            'state, and a resumed run could not tell them apart; name one: register_hook(hook, name="...")'
        )


def digests_of(run: Run) -> dict[str, str]:
    """Return the digests of the options of the hooks that have no names, by what they are called instead."""
    rows = [(name, run.options.get(id(hook))) for name, hook in named(run) if id(hook) not in run.names]
    return {name: digest for name, digest in rows if digest is not None}


def check_order(run: Run, saved: Mapping[str, str]) -> None:
    """Refuse a state with the digests `saved` if hooks of one class were registered in another order."""
    now = digests_of(run)
    classes = {name: type(hook).__name__ for name, hook in named(run)}
    for kind in dict.fromkeys(classes[name] for name in now):
        ours = {name: digest for name, digest in now.items() if classes[name] == kind}
        theirs = {name: saved[name] for name in saved if name == kind or name.startswith(f"{kind} ")}
        changed = [name for name in ours if name in theirs and ours[name] != theirs[name]]
        moved = any(ours[name] in theirs.values() or theirs[name] in ours.values() for name in changed)
        if moved or len(changed) > 1:
            raise TrainingError(
                f"the checkpoint has the states of hooks of the class {kind} that are registered in another order "
                f"now, or with other options; register them as they were, or name each as the checkpoint does, in "
                f'the order of that run: register_hook(hook, name="..."), with {", ".join(map(repr, theirs))}; '
                "nothing was changed"
            )


def digest_of(hook: Any) -> str:
    """Return a digest of the options of a hook, as far as they can be seen."""
    return sha256(_options(hook).encode(errors="replace")).hexdigest()[:16]


def _options(hook: object) -> str:
    """Return a text of the attributes that are named after the parameters of a class; of all of them, if one is not."""
    try:
        names = [one.name for one in parameters(type(hook)) or ()]
    except Exception:  # annotations are evaluated since 3.14, and may name what does not exist
        names = [""]
    held = _attributes(hook)
    keys = [next((key for key in (name, f"_{name}") if key in held), None) for name in names]
    return _shown(held if None in keys else {str(key): held[str(key)] for key in keys}, _DEEPEST)


def _shown(value: Any, depth: int) -> str:
    """Return a text of a value that is the same in every process; `_UNSEEN` is in it if others may have that too."""
    if is_any(value, PurePath, str, int, float, type(None)):
        return str(value)
    if is_any(value, type):
        return str(value.__qualname__)
    inside = [_UNSEEN]
    if depth > 0:
        if is_any(value, list, tuple, set, frozenset):
            inside = [_shown(one, depth - 1) for one in islice(value, _MOST)]
        else:
            held = value if is_any(value, Mapping) else _attributes(value)
            inside = [f"{key}={_shown(one, depth - 1)}" for key, one in islice(held.items(), _MOST)]
            inside = inside or ([] if is_any(value, Mapping) else [_UNSEEN])
    length = ""
    with suppress(Exception):  # not everything that has a length knows it
        length = str(len(value))
    inside = sorted(inside) if is_any(value, set, frozenset) else inside
    return f"{type(value).__qualname__} {getattr(value, '__qualname__', '')} {length}({', '.join(inside)})"


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if name[:2] != "__"]
    return {**{name: getattr(value, name, None) for name in slots}, **getattr(value, "__dict__", {})}


def _has_state(hook: Any) -> bool:
    if not hasattr(hook, "state_dict"):
        return False
    with suppress(Exception):  # it may have one only when the run has begun
        return bool(hook.state_dict())
    return True
