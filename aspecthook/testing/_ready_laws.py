"""Laws that are ready to use, a line each: for `run_laws`, and in the body of a `HookMachine`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import cast, final

from aspecthook._errors import HookLookupError, HookOptionError, HookTypeError, brief, nearest

from ._mount import KINDS, Hooks, MountPoint, members_of
from ._repeat import check_repeatable, ending, in_either_order, repeat, same_outcome, verdict
from ._steps import Trace


@final
@dataclass(frozen=True, repr=False)
class ReadyLaw:
    """A law by name: called with a trace it returns True, or raises an AssertionError that names what is broken."""

    word: str
    names: tuple[str, ...]
    broken: Callable[[Trace], str | None]  # what is wrong with a call

    def __post_init__(self) -> None:
        for name in self.names:
            if not isinstance(cast("object", name), str):
                raise HookTypeError(f"{self.word}() was given {brief(name)}; give the names of hooks")
        if len(set(self.names)) < len(self.names) or not self.names:
            given = ", ".join(map(brief, self.names)) or "no names"
            raise HookOptionError(f"{self.word}() was given {given}; give different names")

    def __call__(self, trace: Trace) -> bool:
        sentence = self.broken(trace)
        if sentence is not None:
            raise AssertionError(sentence)
        return True

    def __repr__(self) -> str:
        return f"{self.word}({', '.join(map(repr, self.names))})"

    def check_names(self, mount: MountPoint) -> None:
        """Refuse names that make no sense on a mount point whose hooks are all there.

        Raises:
            HookLookupError: No hook has such a name.
            HookTypeError: The law is about the order of hooks that are of different kinds.
        """
        rows = members_of(mount)
        names = dict.fromkeys(hook.name for hook in rows)
        target = "" if self.word in _OF_HOOKS_ALONE else mount.function.__name__
        for name in self.names:
            if name not in names and name != target:
                known = [*names, target] if target else list(names)
                raise HookLookupError(
                    f"{mount.name}: the law {self!r} names {name!r}, and no hook has that name; there are "
                    f"{', '.join(known) or 'none'}{nearest(name, known)}"
                )
        if self.word == "commutes":
            first, second = ({hook.kind for hook in rows if hook.name == name} for name in self.names)
            if not first & second:
                raise HookTypeError(
                    f"{mount.name}: the law {self!r} is about two hooks of one kind; {self.names[0]!r} is "
                    f"{' and '.join(sorted(first))} and {self.names[1]!r} is {' and '.join(sorted(second))}, and their "
                    "kinds order them"
                )


_OF_HOOKS_ALONE = ("commutes", "idempotent")


def before(first: str, second: str) -> ReadyLaw:
    """Return the law that one hook runs before another.

    The law does not apply to a call in which one of them did not run. Either may be the target, by its own name.

    Example:
        >>> from aspecthook import hookable
        >>> from aspecthook.testing import LawError, run_laws
        >>> @hookable
        ... def handle(request): ...
        >>> @handle.pre
        ... def audit(): ...
        >>> @handle.pre
        ... def auth(): ...
        >>> run_laws(handle, before("auth", "handle"), args=(1,))
        >>> try:
        ...     run_laws(handle, before("auth", "audit"), args=(1,))
        ... except LawError as error:
        ...     print(str(error).splitlines()[0])
        aspecthook.testing._ready_laws:handle breaks the law "before('auth', 'audit')": 'audit' ran before 'auth'
    """

    def broken(trace: Trace) -> str | None:
        return None if trace.before(first, second) else f"{second!r} ran before {first!r}"

    return ReadyLaw("before", (first, second), broken)


def exactly_once(*names: str) -> ReadyLaw:
    """Return the law that each of these hooks runs exactly once in a call.

    The law does not apply to a hook that is paused or missing. If several hooks share a name, each must run once.
    One of the names may be the name of the target.

    Example:
        >>> from aspecthook import hookable
        >>> from aspecthook.testing import run_laws
        >>> @hookable
        ... def charge(amount): ...
        >>> @charge.always
        ... def record(): ...
        >>> run_laws(charge, exactly_once("charge", "record"), args=(5,))
    """

    def broken(trace: Trace) -> str | None:
        for name in names:
            ran = trace.names.count(name)
            due = [trace._target, *(hook.name for hook in trace._chain.hooks)].count(name)
            if due and ran != due:
                many = f", and {due} hooks have that name" if due > 1 else ""
                return f"{name!r} did not run{many}" if not ran else f"{name!r} ran {_times(ran)}{many}"
        return None

    return ReadyLaw("exactly_once", names, broken)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def always_last(name: str) -> ReadyLaw:
    """Return the law that neither another hook nor the target begins to run after this hook has begun.

    The law does not apply to a call in which the hook did not run.

    Example:
        >>> from aspecthook import hookable
        >>> from aspecthook.testing import run_laws
        >>> @hookable
        ... def save(order): ...
        >>> @save.always
        ... def close(): ...
        >>> @save.post
        ... def publish(order): ...
        >>> run_laws(save, always_last("close"), args=(1,))
    """

    def broken(trace: Trace) -> str | None:
        last = trace.names[-1] if trace.names else name
        return f"{last!r} ran after {name!r}" if trace.ran(name) and last != name else None

    return ReadyLaw("always_last", (name,), broken)


# Laws for which the call is made again


def commutes(first: str, second: str) -> ReadyLaw:
    """Return the law that the outcome of a call does not depend on the order of two hooks of one kind.

    The call is repeated with the two side by side in either order, even if ``before`` or ``after`` forbids one of them;
    the law does not apply where these put another hook between the two.
    So the target and its hooks must be repeatable. Each of these calls gets deep copies of the arguments, and of the
    object of a method, if they can be copied: plain data as it was before the traced call, other objects as that call
    left them. Hooks with ``once``, ``times`` or ``every`` run in each of these calls and are not used up.

    Raises:
        NotRepeatableError: (The law itself.) The same call, in the same order, had two outcomes.

    Example:
        >>> from aspecthook import Args, hookable
        >>> from aspecthook.testing import LawError, run_laws
        >>> @hookable
        ... def total(amount):
        ...     return amount
        >>> @total.post
        ... def tax(result):
        ...     return result * 1.5
        >>> @total.post
        ... def shipping(result):
        ...     return result + 4
        >>> try:
        ...     run_laws(total, commutes("tax", "shipping"), args=(10,))
        ... except LawError as error:
        ...     print(error.__cause__)
        'tax' before 'shipping' gives 19.0, and after it gives 21.0
    """

    def broken(trace: Trace) -> str | None:
        checked = False
        for kind in KINDS:
            row: Hooks = getattr(trace._chain, kind)
            for one, other in combinations(range(len(row)), 2):
                if {row[one].name, row[other].name} != {first, second}:
                    continue
                if not checked:
                    check_repeatable(trace)
                    checked = True
                outcomes = in_either_order(trace, kind, one, other)
                if outcomes is not None:
                    return verdict(row[one].name, row[other].name, outcomes)
        return None

    return ReadyLaw("commutes", (first, second), broken)


def idempotent(name: str) -> ReadyLaw:
    """Return the law that a call has the same outcome if a hook runs twice in a row.

    The call is repeated with the hook doubled, in the way of `commutes`.

    Raises:
        NotRepeatableError: (The law itself.) The same call, in the same order, had two outcomes.

    Example:
        >>> from aspecthook import Args, hookable
        >>> from aspecthook.testing import run_laws
        >>> @hookable
        ... def find(word):
        ...     return word
        >>> @find.pre
        ... def lower(word):
        ...     return Args(word=word.lower())
        >>> run_laws(find, idempotent("lower"), args=("Tea",))
    """

    def broken(trace: Trace) -> str | None:
        once: Trace | None = None
        for kind in KINDS:
            row: Hooks = getattr(trace._chain, kind)
            for place, hook in enumerate(row):
                if hook.name == name:
                    once = once or check_repeatable(trace)
                    doubled = trace._chain.replaced({kind: (*row[: place + 1], *row[place:])})
                    twice = repeat(trace, doubled)
                    if not same_outcome(once, twice):
                        return (
                            f"with {name!r} run twice the call {ending(twice)}, and with it run once it {ending(once)}"
                        )
        return None

    return ReadyLaw("idempotent", (name,), broken)
