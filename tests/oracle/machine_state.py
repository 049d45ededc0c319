"""What a machine knows: its target, the hooks that it may add, which of them should be there, their names."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, cast

from hypothesis import strategies as st

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.options import Options
from aspecthook._core.mount.hookable import hookable, hooks
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import AspecthookError, HookLookupError, nearest
from aspecthook.testing._calls import Given, blank_of, bound_of, finished, quiet, refuse_running_loop
from aspecthook.testing._candidates import keyed
from aspecthook.testing._stories import samples_of
from tests.oracle.candidates import (
    Candidate,
    Ran,
    answering_hooks,
    asking_hooks,
    later_odd,
    never,
    odd,
    silent_hooks,
    variants,
)
from tests.oracle.drives import drives_of
from tests.oracle.expected_hooks import Expected
from tests.oracle.guests import PlannedError, PlannedStop, guests_of
from tests.oracle.laws import check_plain, traces
from tests.oracle.rows import Counts, Row

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_SMALL = (0, 1, 3, 2)  # what parameters are given of which nothing is known


class MachineState:
    """A target under test, with a plain model of what should be true of it: what the rules and the draws look at."""

    # Any: candidates are of two sorts, arguments of any.
    candidates: Sequence[Any] | None = None
    arguments: st.SearchStrategy[tuple[Sequence[Any], dict[str, Any]]] | None = None

    # What a story is written with: `state.add("pre audit", when=state._odd)`. What is not documented has no public
    # name, since a user's own method might have the same.
    _odd = staticmethod(odd)
    _never = staticmethod(never)
    _later_odd = staticmethod(later_odd)

    thorough = False  # whether all short stories are played

    _loop: asyncio.Runner | None = None
    _had_hooks = False
    _plays_short_stories = False
    _calls_itself = False  # so that nobody can count the calls that its hooks see
    # The newest machine of a class: after a failure, the one that has played the shortest story.
    _last: MachineState | None = None
    _known_samples: list[Given]
    _kit_hooks: tuple[object, list[Candidate], Ran]  # the kit's own

    # To be overridden

    def make(self) -> Any:
        """Return a fresh mount point for each run: a hookable function, or anything that `aspecthook.hooks` takes."""

        @hookable
        def target(a: int, b: int = 1) -> int:
            if a == 3:
                raise PlannedError(a)
            return a + b

        return target

    # Any: an awaitable of anything.
    def wait_for(self, awaitable: Awaitable[Any]) -> Any:
        """Run what a call of an async target returned."""
        refuse_running_loop(awaitable)
        if self._loop is None:
            self._loop = asyncio.Runner()
            self._loop.get_loop().set_exception_handler(_pass_over_planned)
        return self._loop.run(finished(awaitable))

    # Setting up and tearing down

    def __init__(self) -> None:
        super().__init__()
        type(self)._last = self
        self.target = self.make()
        self.mount: MountPoint = hooks(self.target)
        self._lines: list[str] = []
        # What the kit's own hooks note, and whether there are no others.
        self._ran = Ran()
        self._has_kit_hooks = False
        self._candidates = self._read_candidates()
        self._keys: dict[str, Any] = keyed(self._candidates)
        self._expected = Expected(self.mount)
        self._bare = None if self._expected.acting() else traces(self.mount)
        self._pauses: list[tuple[MountPoint, AbstractContextManager[None]]] = []
        self._counts = Counts()
        self._nested: dict[int, list[Callable[[], str | None]]] = {}
        self._read_parameters()
        self._samples = self._read_samples()

    def _read_candidates(self) -> list[Candidate]:
        if self.candidates is not None:
            return list(self.candidates)
        self._has_kit_hooks = True
        return self._read_kit_hooks()

    def _read_kit_hooks(self) -> list[Candidate]:
        """Return the kit's own hooks, made once for all machines of a class whose targets have the same parameters."""
        signature = self.mount.site().signature
        known = vars(type(self)).get("_kit_hooks")
        if known is None or known[0] != (signature.shape, signature.names):
            ran = Ran()
            own = answering_hooks(ran) if type(self).make is MachineState.make else []
            made = [*silent_hooks(self.mount, ran), *asking_hooks(self.mount, ran), *own]
            known = type(self)._kit_hooks = (signature.shape, signature.names), made, ran
        _, made, self._ran = known
        return made

    def _read_parameters(self) -> None:
        parameters = list(inspect.signature(blank_of(self.mount)).parameters.values())[len(bound_of(self.target)) :]
        by_position = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._positional = len(by_position)
        self._keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        self._names = [*by_position, *self._keywords]

    def _read_samples(self) -> list[Given]:
        """Return some arguments for calls, always the same; they are drawn once for all machines of a class."""
        known: list[Given] | None = vars(type(self)).get("_known_samples")
        if known is None:
            if self.arguments is not None:
                known = [Given(tuple(args), dict(kwargs)) for args, kwargs in samples_of(self.arguments)[: len(_SMALL)]]
            else:
                numbers = _SMALL if self._names else _SMALL[:1]
                known = [Given((one,) * self._positional, dict.fromkeys(self._keywords, one)) for one in numbers]
            type(self)._known_samples = known
        return known

    def teardown(self) -> None:
        """Remove what the machine has added; what was there before is left."""
        try:
            while self._pauses:
                self._pauses.pop()[1].__exit__(None, None, None)
            for row in self._own_rows():
                row.hook.remove()
            if sys.exc_info()[0] is None:  # else there is a failure already, and this one would hide it
                check_plain(self.mount)
        finally:
            if self._loop is not None:
                with quiet():  # tasks that calls have left behind come to their end
                    self._loop.close()

    def _write(self, method: str, *args: str, **options: str) -> None:
        shown = [*args, *(f"{name}={value}" for name, value in options.items())]
        self._lines.append(f"state.{method}({', '.join(shown)})")

    # What is drawn: short stories need little of it, and there are many of them.

    @cached_property
    def _variants(self) -> dict[str, list[Options]]:
        return {kind: variants([one for one in self._candidates if one.kind == kind]) for kind in KINDS}

    @cached_property
    def _drives(self) -> list[str]:
        """The ways in which a call may be made by its caller."""
        return drives_of(self.mount.site().signature.style)

    @cached_property
    def _guests(self) -> list[str]:
        found = guests_of(self.mount)
        return [str(one) for one in found if self._names or one.does != "changes"]

    # How a story names hooks

    def _function(self, key: str) -> Callable[..., Any]:
        """Return the function of a candidate: ``"pre audit"``."""
        return self._candidate(key).function

    def _hook(self, key: str) -> Hook:
        """Return the handle of a hook that the machine has added; ``"pre audit#2"`` is the second of that name."""
        return cast("Hook", self._row(key).hook)

    def _candidate(self, key: str) -> Candidate:
        if key not in self._keys:
            raise HookLookupError(f"{type(self).__name__} has no candidate {key!r}{nearest(key, list(self._keys))}")
        return self._keys[key]

    def _row(self, key: str) -> Row:
        known = {self._key(row): row for row in self._own_rows()}
        if key not in known:
            raise HookLookupError(f"the machine has added no {key!r} that is still there{nearest(key, list(known))}")
        return known[key]

    def _key(self, row: Row) -> str:
        alike = [one for one in self._own_rows() if (one.kind, one.name) == (row.kind, row.name)]
        number = next(place for place, one in enumerate(alike, 1) if one.hook is row.hook)
        return repr(row) if number == 1 else f"{row!r}#{number}"

    def _key_of(self, candidate: Candidate) -> str:
        return next(key for key, one in self._keys.items() if one is candidate.origin)

    def _code(self, value: object) -> str:
        """Return source text for the value of an option."""
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self._code, cast('Sequence[object]', value)))}]"
        if value in (odd, never, later_odd):
            return f"state._{cast('Any', value).__name__}"
        if isinstance(value, Hook):
            return f"state._hook({self._key(next(row for row in self._expected.rows if row.hook is value))!r})"
        if callable(value):
            return f"state._function({next(key for key, one in self._keys.items() if one.function == value)!r})"
        return repr(value)

    # The model

    def _own_rows(self) -> list[Row]:
        return [row for row in self._expected.rows if row.candidate is not None]

    def _movable(self) -> list[Row]:
        return [row for row in self._own_rows() if row.candidate.leaves_open("priority")]

    def _level(self, of: str | None) -> MountPoint:
        """Return the mount point that a story means: ``of="class"`` is that of the class of an instance."""
        return self._expected.parent or self.mount if of == "class" else self.mount


def _pass_over_planned(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what an event loop cannot raise, as of a task that nobody awaits; but not what comes of guests in it."""
    if not isinstance(context.get("exception"), (PlannedError, PlannedStop, AspecthookError)):
        loop.default_exception_handler(context)
