"""The hooks of a run, with their names and states."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from logging import Logger
from typing import Any, final

from aspecthook._core.law.hook import Hook as Handle
from aspecthook._errors import HookOptionError, HookTypeError, brief, printable
from aspecthook.training._errors import TrainingError


@final
@dataclass(frozen=True, eq=False)  # hooks may be equal, and are still two
class Registered:
    """A hook of a run."""

    hook: Any
    name: str  # in checkpoints
    handles: tuple[Handle, ...]  # of its methods


@final
class HookList(list[Registered]):
    """The hooks of a run, in the order in which they were registered."""

    # Names

    def name_of(self, hook: object, given: object) -> str:
        """Return the name of a hook that is added next; refuse one that would not tell it apart.

        Hooks of one class and without a state are numbered, and the number means nothing: of those with a state, only
        one may go without a name of its own.
        """
        kind, name = type(hook).__name__, self.free_name(hook)
        if given is None:
            if name != kind and _has_state(hook):
                raise HookOptionError(
                    f"the run has another {kind} without a name; each has a state, and a resumed run could not tell "
                    'them apart; name one: register_hook(hook, name="...")'
                )
            return name
        if not isinstance(given, str) or not given:
            raise HookTypeError(f"register_hook({kind}, name={brief(given)}): a name is a string that is not empty")
        if any(one.name == given and one.hook is not hook for one in self):
            raise HookOptionError(f"register_hook({kind}, name={given!r}): the name is taken; give another one")
        return given

    def free_name(self, hook: object) -> str:
        """Return a name for the next hook of a list that is registered whole, so that its order tells hooks apart."""
        kind, taken = type(hook).__name__, {one.name for one in self if one.hook is not hook}
        return next(name for n in count(1) if (name := kind if n == 1 else f"{kind} {n}") not in taken)

    # States

    def states(self) -> dict[str, Any]:
        """Return the states of the hooks, by their names."""
        return {one.name: one.hook.state_dict() for one in self if hasattr(one.hook, "state_dict")}

    def load(self, states: Mapping[str, Any], logger: Logger) -> None:
        """Restore the hooks, each by its name."""
        ours = {one.name for one in self}
        lost = ", ".join(printable(name) for name, state in states.items() if state and name not in ours)
        if lost:
            logger.warning("the checkpoint has the state of hooks that are not registered: %s", lost)
        for one in self:
            if one.name in states and hasattr(one.hook, "load_state_dict"):
                try:
                    one.hook.load_state_dict(states[one.name])
                except Exception as error:
                    raise TrainingError(
                        f"the hook {one.name} cannot load its state from the checkpoint: {type(error).__name__}: "
                        f"{error}; nothing was changed. Give it the options that it had, or remove it from the runner"
                    ) from error

    def note(self, undo: ExitStack) -> None:
        """Note how to make the hooks that have a state again what they are.

        A hook may fail to load the state that it has now, or have none before the run begins; and many only note what
        they were given, until the run begins. So at last the attributes of a hook are what they were.
        """

        def load_again(hook: Any, state: Any) -> None:
            with suppress(Exception):
                hook.load_state_dict(state)

        for hook in (one.hook for one in self):
            if hasattr(hook, "load_state_dict"):
                attributes: dict[str, Any] = getattr(hook, "__dict__", {})
                undo.callback(attributes.update, dict(attributes))
                undo.callback(attributes.clear)
                with suppress(Exception):
                    undo.callback(load_again, hook, deepcopy(hook.state_dict()))


def _has_state(hook: Any) -> bool:
    with suppress(Exception):  # it may have one only when the run has begun
        return hasattr(hook, "state_dict") and bool(hook.state_dict())
    return True
