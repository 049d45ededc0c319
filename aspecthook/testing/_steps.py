"""A traced call as data: its steps in the order in which they began, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aspecthook._errors import HookLookupError, nearest
from aspecthook._values import shortened

from ._calls import run_to_end
from ._mount import Chain

TARGET = "target"


@dataclass(eq=False, repr=False, slots=True)
class Step:
    """One hook of a traced call, or its target: ``kind``, ``name``, ``given``, its ``answer`` or what it ``raised``.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def double(n):
        ...     return 2 * n
        >>> from aspecthook.testing import trace_of
        >>> trace_of(double)(3)["double"]
        target double(n=3) → 6
    """

    kind: str
    name: str
    given: dict[str, object]
    answer: object = field(init=False, default=None)
    raised: BaseException | None = field(init=False, default=None)

    def __repr__(self) -> str:
        return f"{self.kind} {self.line}"

    @property
    def line(self) -> str:
        """What it was given and what came of it, on one line."""
        given = ", ".join(f"{name}={shortened(value)}" for name, value in self.given.items())
        came = f"raised {shortened(self.raised)}" if self.raised is not None else f"→ {shortened(self.answer)}"
        return f"{self.name}({given}) {came}"

    # As a context manager it records what a block raises.

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.raised = error


@dataclass(eq=False, repr=False, slots=True)
class Trace:
    """What happened in one call: its ``steps`` in the order in which they began, and its ``result`` or ``exc``.

    It also has the arguments of the call, whether or not the target ran: ``args`` and ``kwargs`` as they were passed,
    and ``arguments`` by parameter name, with defaults filled in (empty if they do not fit the target). These are the
    objects themselves: if a hook changes one in place, the trace shows the change.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def double(n):
        ...     return 2 * n
        >>> @double.post
        ... def increase(result):
        ...     return result + 1
        >>> from aspecthook.testing import trace_of
        >>> trace = trace_of(double)(3)
        >>> trace.names, trace.result, trace.before("double", "increase")
        (('double', 'increase'), 7, True)
        >>> trace.args, trace.kwargs, trace.arguments
        ((3,), {}, {'n': 3})
    """

    label: str
    steps: list[Step] = field(init=False, default_factory=list[Step])
    # Any: a law compares them as it likes, and only the target knows their types.
    args: tuple[Any, ...] = field(init=False, default=())
    kwargs: dict[str, Any] = field(init=False, default_factory=dict[str, Any])
    arguments: dict[str, Any] = field(init=False, default_factory=dict[str, Any])
    result: Any = field(init=False, default=None)
    exc: BaseException | None = field(init=False, default=None)
    _target: str = field(init=False, default="")  # its name
    # The hooks that acted in the call, and what makes the same call again with the hooks of a chain.
    _chain: Chain = field(init=False, default_factory=lambda: Chain(()))
    _again: Callable[[Chain], Trace | Awaitable[Trace]] | None = field(init=False, default=None)
    _wait: Callable[[Awaitable[Trace]], Trace] = field(init=False, default=run_to_end)  # how it is awaited then

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in the order in which they began."""
        return tuple(step.name for step in self.steps)

    def ran(self, name: str) -> bool:
        """Whether a hook of this name ran."""
        return name in self.names

    def before(self, first: str, second: str) -> bool:
        """Whether every run of the first began before every run of the second; true if either did not run."""
        earlier = [place for place, name in enumerate(self.names) if name == first]
        later = [place for place, name in enumerate(self.names) if name == second]
        return not earlier or not later or max(earlier) < min(later)

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise HookLookupError(
            f"{self.label}: {name!r} did not run in this call; what ran: {', '.join(self.names) or 'nothing'}"
            f"{nearest(name, list(self.names))}"
        )

    def draw(self) -> str:
        """Draw the call, one line per step."""
        came = f"raised {shortened(self.exc)}" if self.exc is not None else f"→ {shortened(self.result)}"
        width = max((len(step.kind) for step in self.steps), default=0)
        return "\n".join([f"{self.label} {came}", *(f"  {step.kind:<{width}}  {step.line}" for step in self.steps)])

    def __str__(self) -> str:
        return self.draw()

    __repr__ = __str__
