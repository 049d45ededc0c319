"""The names of hooks in checkpoints: those that they were given, or else their classes.

Hooks of one class and without a state are numbered, and the number means nothing: of those with a state, only one may
go without a name of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from itertools import count
from typing import Any

from aspecthook._errors import HookOptionError, HookTypeError, brief

from ._run import Run


def named(run: Run) -> list[tuple[str, Any]]:
    """Return the hooks of a run with unique names."""
    taken = set(run.names.values())
    found: list[tuple[str, Any]] = []
    for hook in run.hooks:
        name = run.names.get(id(hook))
        if name is None:
            name = _first_free(hook, taken)
            taken.add(name)
        found.append((name, hook))
    return found


def name_in_list(run: Run, hook: Any) -> str:
    """Return a name for the next hook of a list that is registered whole, so that its order tells hooks apart."""
    return _first_free(hook, {name for name, _ in named(run)})


def _first_free(hook: Any, taken: Collection[str]) -> str:
    kind = type(hook).__name__
    numbered = (kind if number == 1 else f"{kind} {number}" for number in count(1))
    return next(name for name in numbered if name not in taken)


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
    if others and _has_state(hook):
        raise HookOptionError(
            f"the run has another {kind} without a name; each has a state, and a resumed run could not tell them "
            'apart; name one: register_hook(hook, name="...")'
        )


def _has_state(hook: Any) -> bool:
    if not hasattr(hook, "state_dict"):
        return False
    with suppress(Exception):  # it may have one only when the run has begun
        return bool(hook.state_dict())
    return True
