"""Which methods of a hook mean something in its hook system, which are overridden, and which are misspelt.

A hook system is a `Dialect`: the names of its methods, and what is done for a method that is not overridden, which is
nothing. What becomes of the methods is a list of `Binding`: functions, and the stages that they become hooks on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, final

from aspecthook._errors import HookSignatureError, nearest

from ._stages import Stage

Method: TypeAlias = Callable[..., Any]  # Any: each hook system calls its methods with arguments of its own


class Binding(NamedTuple):
    """A function, and the stage that it becomes a hook on."""

    stage: Stage
    function: Method


@final
class Dialect:
    """The names that a hook system calls the methods of its hooks by.

    Args:
        who: What its hooks are called in messages, ``"the session hook"``.
        base: The class whose methods do nothing; or a function that returns that class for a hook, and None for a hook
            that has no such base, of which every method counts as overridden.
        names: The methods that are called.
        general: For a method, the one that is called in its place unless it is overridden itself.
        looks_like: A pattern. A method whose whole name matches, and is none of `names` or `others`, is a misspelling.
        others: Names that look alike and mean something elsewhere.
        listing: The names as messages list them; all of them unless given.
    """

    def __init__(
        self,
        who: str,
        base: type | Callable[[object], type | None],
        names: Iterable[str],
        *,
        general: Mapping[str, str] | None = None,
        looks_like: str = "(?!)",
        others: Iterable[str] = (),
        listing: str | None = None,
    ) -> None:
        self.who = who
        self.names = tuple(names)
        self._base = base
        self._general = dict(general or {})
        self._known = dict.fromkeys((*self.names, *self._general.values()))
        self._looks_like = re.compile(looks_like)
        self._others = frozenset(others)
        self._listing = listing if listing is not None else ", ".join(self._known)

    def overridden(self, hook: object, name: str) -> Method | None:
        """Return a method of a hook if it does anything: its own, or the general one in its place."""
        return self._own(hook, name) or (self._own(hook, self._general[name]) if name in self._general else None)

    def methods(self, hook: object) -> dict[str, Method]:
        """Return what is to be called of a hook, by name."""
        found = {name: self.overridden(hook, name) for name in self.names}
        return {name: method for name, method in found.items() if method is not None}

    def _own(self, hook: object, name: str) -> Method | None:
        method: Any = getattr(hook, name, None)
        base = self._base if isinstance(self._base, type) else self._base(hook)
        idle = base is not None and getattr(method, "__func__", method) is getattr(base, name, None)
        return method if callable(method) and not idle else None

    def misspelt(self, hook: object) -> str | None:
        """Return a message if a method of a hook looks like one of the system, and would never be called."""
        alike = (name for name in dir(type(hook)) if self._looks_like.fullmatch(name))
        for name in alike:
            if name not in self._known and name not in self._others and callable(getattr(hook, name, None)):
                return (
                    f"{self.who} {type(hook).__name__} has a method {name!r}, which would never be called"
                    f"{nearest(name, list(self._known))}; the methods that are called: {self._listing}"
                )
        return None

    def check(self, hook: object) -> None:
        """Raise if a method of a hook is misspelt.

        Raises:
            HookSignatureError: The message names the nearest method.
        """
        message = self.misspelt(hook)
        if message is not None:
            raise HookSignatureError(message)
