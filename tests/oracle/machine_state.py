"""What a machine knows: its target, the hooks that it may add, and which of them should be there."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from hypothesis import strategies as st

from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.options import Options
from aspecthook._core.mount.hookable import hookable, hooks
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import AspecthookError
from aspecthook.testing._calls import Given, blank_of, bound_of, finished, quiet
from aspecthook.testing._stories import samples_of
from tests.oracle.candidates import Candidate, Ran, answering_hooks, asking_hooks, silent_hooks, variants
from tests.oracle.drives import drives_of
from tests.oracle.expected_hooks import Expected
from tests.oracle.guests import Guest, PlannedError, PlannedStop, guests_of
from tests.oracle.laws import check_plain, traces
from tests.oracle.rows import Counts, Row

_SMALL = (0, 1, 3, 2)  # what parameters are given of which nothing is known


class MachineState:
    """A target under test, with a plain model of what should be true of it: what the rules and the draws look at."""

    # The hooks that may be added; None: the oracle's own.
    candidates: Sequence[Candidate] | None = None
    arguments: st.SearchStrategy[tuple[Sequence[Any], dict[str, Any]]] | None = None

    _loop: asyncio.Runner | None = None
    _had_hooks = False
    plays_short_stories = False
    # The oracle's own hooks and the arguments of calls, which are made once for all machines of a class.
    _own_hooks: tuple[list[Candidate], Ran]
    _known_samples: list[Given]

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
        if self._loop is None:
            self._loop = asyncio.Runner()
            self._loop.get_loop().set_exception_handler(_pass_over_planned)
        return self._loop.run(finished(awaitable))

    def __init__(self) -> None:
        super().__init__()
        self.target = self.make()
        self.mount: MountPoint = hooks(self.target)
        self.hooks: list[Candidate] = list(self.candidates or ())
        self.has_own_hooks = self.candidates is None
        self.ran = Ran()
        if self.has_own_hooks:
            self.hooks, self.ran = self._make_own_hooks()
        self.expected = Expected(self.mount)
        self.bare = None if self.expected.acting() else traces(self.mount)
        self.pauses: list[tuple[MountPoint, AbstractContextManager[None]]] = []
        self.counts = Counts()
        self.nested: dict[int, list[Callable[[], str | None]]] = {}
        parameters = list(inspect.signature(blank_of(self.mount)).parameters.values())[len(bound_of(self.target)) :]
        by_position = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self.positional = len(by_position)
        self.keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        self.names = [*by_position, *self.keywords]
        self.samples = self._read_samples()

    def _make_own_hooks(self) -> tuple[list[Candidate], Ran]:
        if "_own_hooks" not in vars(type(self)):
            ran = Ran()
            answering = answering_hooks(ran) if type(self).make is MachineState.make else []
            made = [*silent_hooks(self.mount, ran), *asking_hooks(self.mount, ran), *answering]
            type(self)._own_hooks = made, ran
        return type(self)._own_hooks

    def _read_samples(self) -> list[Given]:
        if "_known_samples" not in vars(type(self)):
            if self.arguments is not None:
                drawn = samples_of(self.arguments)[: len(_SMALL)]
                known = [Given(tuple(args), dict(kwargs)) for args, kwargs in drawn]
            else:
                numbers = _SMALL if self.names else _SMALL[:1]
                known = [Given((one,) * self.positional, dict.fromkeys(self.keywords, one)) for one in numbers]
            type(self)._known_samples = known
        return type(self)._known_samples

    def teardown(self) -> None:
        """Remove what the machine has added; what was there before is left."""
        try:
            while self.pauses:
                self.pauses.pop()[1].__exit__(None, None, None)
            for row in self.own_rows():
                row.hook.remove()
            if sys.exc_info()[0] is None:  # else there is a failure already, and this one would hide it
                check_plain(self.mount)
        finally:
            if self._loop is not None:
                with quiet():  # tasks that calls have left behind come to their end
                    self._loop.close()

    # What is drawn: short stories need little of it, and there are many of them.

    @cached_property
    def variants(self) -> dict[str, list[Options]]:
        """Options that place a hook among the others of its kind."""
        return {kind: variants([one for one in self.hooks if one.kind == kind]) for kind in KINDS}

    @cached_property
    def drives(self) -> list[str]:
        """The ways in which a call may be made by its caller."""
        return drives_of(self.mount.site().signature.style)

    @cached_property
    def guests(self) -> list[Guest]:
        """The hooks that a call may have for itself."""
        return [one for one in guests_of(self.mount) if self.names or one.does != "changes"]

    # The model

    def own_rows(self, candidate: Candidate | None = None) -> list[Row]:
        """Return the hooks that the machine has added and that are still there; those of one candidate, if given."""
        own = [row for row in self.expected.rows if row.candidate is not None]
        return [row for row in own if candidate is None or row.candidate.origin is candidate]

    def movable_rows(self) -> list[Row]:
        """Return the hooks whose priority may be drawn."""
        return [row for row in self.own_rows() if row.candidate.leaves_open("priority")]

    def level(self, of: str | None) -> MountPoint:
        """Return the mount point that is meant: ``"class"`` is that of the class of an instance."""
        return self.expected.parent or self.mount if of == "class" else self.mount


def _pass_over_planned(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what an event loop cannot raise, as of a task that nobody awaits; but not what comes of guests in it."""
    if not isinstance(context.get("exception"), (PlannedError, PlannedStop, AspecthookError)):
        loop.default_exception_handler(context)
