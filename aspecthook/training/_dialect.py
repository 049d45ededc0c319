"""How the hooks of all hook systems become hooks on the stages of a run.

A hook system is a `Dialect`, the names of its methods, and a function `bindings(hook, run)` in a module of its own,
which is loaded when the first hook of that system is registered. The function returns several `Binding`: functions, and
the stages that they become hooks on. No system has a list of hooks, an order or a priority of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, final

from aspecthook import hooks
from aspecthook._core.law.hook import Hook as Handle
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import priority_of
from aspecthook._errors import HookSignatureError, nearest

Method: TypeAlias = Callable[..., Any]  # Any: each hook system calls its methods with arguments of its own


class Binding(NamedTuple):
    """A stage, the kind of hook on it, and the function that becomes one."""

    stage: str
    kind: Kind
    function: Method


@final
@dataclass(frozen=True)
class Dialect:
    """The names that a hook system calls the methods of its hooks by."""

    who: str  # the name of its hooks in messages, ``"the session hook"``
    # The class whose methods do nothing; or a function that returns that class for a hook, and None for a hook that has
    # no such base, of which every method counts as overridden.
    base: type | Callable[[object], type | None]
    names: Sequence[str]  # of the methods that are called
    _: KW_ONLY
    general: Mapping[str, str] = field(default_factory=dict[str, str])  # called in a method's place if that is idle
    looks_like: str = "(?!)"  # a method with such a name, which is none of the above, is misspelt
    listing: str = ""  # the names as messages list them; all of them unless given

    def overridden(self, hook: object, name: str) -> Method | None:
        """Return a method of a hook if it is overridden, else the general one if that is, else None."""
        base = self.base if isinstance(self.base, type) else self.base(hook)
        for one in (name, self.general.get(name, "")):
            method: Method | None = getattr(hook, one, None)
            idle = base is not None and getattr(method, "__func__", method) is getattr(base, one, None)
            if callable(method) and not idle:
                return method
        return None

    def methods(self, hook: object) -> dict[str, Method]:
        """Return the overridden methods of a hook, by name."""
        found = {name: self.overridden(hook, name) for name in self.names}
        return {name: method for name, method in found.items() if method is not None}

    def check(self, hook: object) -> None:
        """Raise if a method of a hook looks like one of the system, and would never be called."""
        known = [*dict.fromkeys((*self.names, *self.general.values()))]
        for name in dir(type(hook)):
            is_alike = re.fullmatch(self.looks_like, name) and name not in known
            if is_alike and callable(getattr(hook, name, None)):
                raise HookSignatureError(
                    f"{self.who} {type(hook).__name__} has a method {name!r}, which would never be called; "
                    f"the methods that are called: {self.listing or ', '.join(known)}{nearest(name, known)}"
                )


# The systems


def _having(*methods: str) -> Callable[[object], bool]:
    return lambda hook: all(callable(getattr(hook, name, None)) for name in methods)


# How a hook of each system is recognized, and the module of the package that has `bindings` for it. All other hooks are
# of mm's kind.
is_session_hook = _having("after_create_session", "end")
_SYSTEMS: tuple[tuple[Callable[[object], bool], str], ...] = (
    (_having("set_params", "set_model", "on_train_begin", "on_epoch_end"), "keras._lifecycle"),
    (is_session_hook, "session._protocol"),
    (lambda _: True, "hooks._hook"),
)


def bindings_of(hook: object, run: object) -> Iterable[Binding]:
    """Return the bindings of a hook of any system."""
    module = next(module for is_theirs, module in _SYSTEMS if is_theirs(hook))
    found: Iterable[Binding] = import_module(f"aspecthook.training.{module}").bindings(hook, run)
    return found


def attach(run: object, hook: object, bindings: Iterable[Binding], priority: int | str | None) -> tuple[Handle, ...]:
    """Add bindings to the stages of a run, all of them or none, with a priority or else the hook's own."""
    name = type(hook).__name__
    own = getattr(hook, "priority", "NORMAL") if priority is None else priority
    number = priority_of(own, f"the hook {name}")
    handles: list[Handle] = []
    with ExitStack() as undo:
        for stage, kind, function in bindings:
            # An end by Ctrl-C reaches exception hooks of a run too.
            types = (BaseException,) if kind == "exception" else ()
            mount = hooks(getattr(run, stage))
            handles.append(mount.add(kind, function, *types, name=name, priority=number, again=True))
            undo.callback(handles[-1].remove)
        undo.pop_all()
    return tuple(handles)
