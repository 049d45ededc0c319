"""The state machine: random hooks come, go, pause, move and run on one mount point, and the laws hold throughout.

The model is a plain list of rows, in the order in which they were added. What a rule does to the mount point it does to
the list; then the two must agree. Whatever a user's own rules do, the list takes over before the next rule.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, cached_property
from types import MethodType
from typing import Any, cast

from hypothesis import currently_in_test_context
from hypothesis import strategies as st
from hypothesis.stateful import Rule, RuleBasedStateMachine, RuleStrategy, initialize, precondition, rule

from aspecthook._core.law.asks import KINDS
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.options import Adding, Options
from aspecthook._core.mount.hookable import hookable, hooks
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import AspecthookError, HookLookupError, HookOptionError, HookOrderError, HookTypeError, nearest

from ._asking import asking_hooks
from ._calls import Given, blank_of, bound_of, code_of_given, finished, outcome, refuse_running_loop
from ._candidates import Candidate, Ran, answering_hooks, marked_names, never, odd, read, small_hooks, variants
from ._draws import (
    PRIORITIES,
    SETTINGS,
    Calling,
    additions,
    beginnings,
    callings,
    is_ours,
    levels,
    own,
    place,
    steps,
    ways,
)
from ._drives import AT_ONCE, DRIVES, drives_of
from ._expected import Expected
from ._guests import ADDS, AGAIN, ANSWERS, DEEDS, REMOVES, Guest, PlannedError, PlannedStop, function_of, guests_of
from ._laws import (
    broken,
    check_call,
    check_determinism,
    check_law,
    check_order,
    check_plain,
    check_traces,
    laws_in,
    traces,
    unchanged,
)
from ._model import interpreted
from ._played import Played
from ._rows import Counts, Row, of_kind, ordered, row_of
from ._small_world import explored, samples
from ._steps import Trace
from ._story import with_story
from ._trace import make_call, make_two_calls, trace_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_MOST_PAUSES = 2


class _OtherError(Exception):
    """What no hook takes."""


class HookMachine(RuleBasedStateMachine):
    """A Hypothesis state machine for a mount point of your own and the hooks that may be put on it.

    Subclass it, give it a mount point with `make` and hooks with `candidates`, state what must be true of every call
    with `law`, and run it: ``TestHandling = Handling.TestCase``.

    First come all short stories: up to three of the candidates, in each order, added, called, one removed, called
    again. (Of more than eight candidates, as many stories as take about a second.) Then Hypothesis makes up longer
    ones. The rules add hooks, with options drawn for what a candidate leaves open, also contradictory ones; remove,
    pause, resume and move them; take them all off; put them on a copy in other orders; call, also with a guest: a hook
    of the kit's own that is there for one call, and fails, answers, calls again, or adds and removes hooks. After each
    change a call is made, and the laws must hold. Your own ``@rule`` methods may change the mount point as they like. A
    rule that you do not want is left out by ``clear = None``.

    When a law is broken, the error ends with a test function that shows it, to be pasted.

    Attributes:
        candidates: The hooks: `Candidate` objects, or functions marked with `aspecthook.pre` and so on; may also be a
            property. Methods of the machine that are so marked are candidates as well. If nothing is said, small
            hooks of the kit's own are added; with ``()``, none.
        arguments: A strategy of ``(args, kwargs)`` for the calls; else small ints for all parameters.
        vary: What is drawn for a candidate that does not say it; ``"conditions"`` are `when`, `once`, `times`, `every`,
            `reentrant` and `isolate`. A law which says that a hook runs in each call needs ``vary`` without them.
        disturb: What the guests of a call may do, and its caller, if the target is a generator or a coroutine function:
            ``"send"``, ``"throw"``, ``"close"``, ``"drop"``, ``"cancel"``, ``"at once"``; ``()``: nothing. A law of
            yours is not asked about calls whose guest answers something, or whose caller does one of these.
        mount: The mount point under test.
        target: What `make` gave.

    Example:
        >>> from aspecthook import hookable, pre
        >>> from aspecthook.testing import law
        >>> class Handling(HookMachine):
        ...     def make(self):
        ...         @hookable
        ...         def handle(request): ...
        ...
        ...         return handle
        ...
        ...     @pre(before="audit")
        ...     def auth(self): ...
        ...
        ...     @pre
        ...     def audit(self): ...
        ...
        ...     @law
        ...     def auth_before_audit(trace):
        ...         return trace.before("auth", "audit")
        >>> from hypothesis.stateful import run_state_machine_as_test
        >>> run_state_machine_as_test(Handling)
    """

    # Any: candidates are of two sorts, arguments of any.
    candidates: Sequence[Any] | None = None
    arguments: st.SearchStrategy[tuple[Sequence[Any], dict[str, Any]]] | None = None
    vary: Sequence[str] = ("priority", "before", "after", "conditions")
    disturb: Sequence[str] = (*DEEDS, *DRIVES)

    # What a story is written with: `state.add("pre audit", when=state._odd)`. Nothing that is not documented has a
    # public name: it might be the name of a method of the user's own.
    _odd = staticmethod(odd)
    _never = staticmethod(never)

    _loop: asyncio.Runner | None = None
    _had_hooks = False
    _in_small_world = False
    _calls_itself = False  # so that nobody can count the calls that its hooks see
    _short_failure: Exception | None  # there once the short stories have been played
    # The newest machine of a class: after a failure, the one that has played the shortest story.
    _last: HookMachine | None = None
    _known_samples: list[Given]
    _known_hooks: tuple[object, list[Candidate], Ran]  # the kit's own

    # To be overridden

    def make(self) -> Any:
        """Give the mount point, fresh for each run: a hookable function, or anything that `aspecthook.hooks` takes."""

        @hookable
        def target(a: int, b: int = 1) -> int:
            if a == 3:
                raise PlannedError(a)
            return a + b

        return target

    def attach(self, candidate: Candidate) -> Hook:
        """Put a hook on; override it where your own code does that, and give the handle that came of it."""
        return _put(self.mount, candidate)

    def detach(self, hook: Hook) -> None:
        """Take a hook off; override it with `attach`."""
        hook.remove()

    # Any: what is awaited gives whatever it gives.
    def wait_for(self, awaitable: Awaitable[Any]) -> Any:
        """Run what a call of an async target gives; override it for an event loop other than asyncio's."""
        refuse_running_loop(awaitable)
        if self._loop is None:
            self._loop = asyncio.Runner()
            self._loop.get_loop().set_exception_handler(_pass_over_planned)
        return self._loop.run(finished(awaitable))

    # Setting up and tearing down

    @classmethod
    @cache
    def _to_test_case(cls) -> Any:
        # What Hypothesis makes of `TestCase`.
        plain: Any = super()._to_test_case()

        class Case(plain):  # type: ignore[misc]
            settings = plain.settings

            def runTest(self) -> None:  # noqa: N802  # the name that `unittest` looks for
                cls._short_failure = None
                explored(cls)
                try:
                    plain.runTest(self)
                except Exception as error:
                    last: HookMachine | None = vars(cls).get("_last")
                    raise with_story(error, cls, last._lines if last is not None else ())  # noqa: B904

        # What Hypothesis's plugin for pytest looks for.
        function: Any = Case.runTest
        function.is_hypothesis_test = True
        function._hypothesis_state_machine_class = cls
        Case.__name__ = Case.__qualname__ = plain.__name__
        Case.__module__ = plain.__module__
        return Case

    def __init__(self) -> None:
        super().__init__()
        type(self)._last = self
        made = self.make()
        self._refuse_own("target", made)
        self.target = made
        self._refuse_own("mount", hooks(made))
        self.mount: MountPoint = hooks(made)
        self._lines: list[str] = []
        # What the kit's own hooks note, and whether there are no others.
        self._ran = Ran()
        self._is_small = False
        self._candidates = self._read_candidates()
        self._keys = _keyed(self._candidates)
        self._laws = [found.__get__(self) if bound else found for found, bound in laws_in(type(self))]
        self._expected = Expected(self.mount)
        self._bare = None if self._expected.acting() else traces(self.mount)
        self._pauses: list[tuple[MountPoint, AbstractContextManager[None]]] = []
        self._counts = Counts()
        self._nested: dict[int, list[Played]] = {}
        self._read_parameters()
        self._calls = 0
        self._is_checked = False
        self._choose_steps()
        self._refuse_nothing_to_do()
        if currently_in_test_context() and not self._in_small_world:
            self._explore_once()
        self._samples = samples(type(self), self)

    @classmethod
    def _explore_once(cls) -> None:
        """Play the short stories, if nobody has, for whoever runs a machine without its `TestCase`.

        What one of them raises is raised again by each machine: Hypothesis looks whether a failure comes again.
        """
        if "_short_failure" not in vars(cls):
            cls._short_failure = None
            try:
                explored(cls)
            except Exception as error:
                cls._short_failure = error
        if cls._short_failure is not None:
            raise cls._short_failure

    def _refuse_own(self, name: str, value: object) -> None:
        """Refuse an attribute of the user's own where the machine keeps something else.

        Raises:
            HookTypeError: There is one.
        """
        if hasattr(self, name) and getattr(self, name) is not value:
            raise HookTypeError(
                f"{type(self).__name__} sets {name!r} itself, but the machine keeps "
                f"{'what make() returns' if name == 'target' else 'its mount point'} there; use another name"
            )

    def _refuse_nothing_to_do(self) -> None:
        if not self._candidates and not self._expected.rows and all(is_ours(one) for one in self.rules):
            raise HookTypeError(
                f"{type(self).__name__} has no candidates and no rules of its own, and {self.mount.name} has no hooks: "
                "give candidates, or mark methods as `pre` does"
            )

    def _choose_steps(self) -> None:
        is_valid = getattr(getattr(self, "_rules_strategy", None), "is_valid", None)
        if is_valid is not None:  # else Hypothesis has changed inside, and chooses by itself
            self._steps = sorted(self.rules, key=place)
            self._rules_strategy = cast("RuleStrategy", steps(self, is_valid))

    def _read_candidates(self) -> list[Candidate]:
        found = list(read(getattr(self, name) for name in marked_names(type(self))))
        if self.candidates is not None:
            return [*found, *read(self.candidates)]
        self._is_small = not found
        return found or self._read_own()

    def _read_own(self) -> list[Candidate]:
        """Return the kit's own hooks, made once for all machines of a class whose targets have the same parameters."""
        signature = self.mount._get_site().signature
        known = vars(type(self)).get("_known_hooks")
        if known is None or known[0] != (signature.shape, signature.names):
            ran = Ran()
            own = answering_hooks(ran) if type(self).make is HookMachine.make else []
            made = [*small_hooks(self.mount, ran), *asking_hooks(self.mount, ran), *own]
            known = type(self)._known_hooks = (signature.shape, signature.names), made, ran
        _, made, self._ran = known
        return made

    def _read_parameters(self) -> None:
        parameters = list(inspect.signature(blank_of(self.mount)).parameters.values())[len(bound_of(self.target)) :]
        by_position = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._positional = len(by_position)
        self._keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        self._names = [*by_position, *self._keywords]

    def teardown(self) -> None:
        """Take off what the machine has put on; what was there before is there again."""
        try:
            while self._pauses:
                self._pauses.pop()[1].__exit__(None, None, None)
            for row in self._own_rows():
                cast("Hook", row.hook).remove()
            if sys.exc_info()[0] is None:  # else there is a failure already, and this one would hide it
                check_plain(self.mount)
        finally:
            if self._loop is not None:
                with _quiet():  # tasks that calls have left behind come to their end
                    self._loop.close()

    def _repr_step(self, rule: Rule, data: Any, result: Any) -> str:
        """Give the code of a step: of the kit's own, as it has noted it; a user's own is noted here."""
        if is_ours(rule):
            return self._lines[-1]
        text: str = super()._repr_step(rule, data, result)
        self._lines.append(f"{text}\nstate._check()")
        return text

    def _note(self, method: str, *args: str, **options: str) -> None:
        shown = [*args, *(f"{name}={value}" for name, value in options.items())]
        self._lines.append(f"state.{method}({', '.join(shown)})")

    # What is drawn: short stories need little of it, and there are many of them.

    @cached_property
    def _variants(self) -> dict[str, list[Options]]:
        return {kind: variants([one for one in self._candidates if one.kind == kind]) for kind in KINDS}

    @cached_property
    def _drives(self) -> list[str]:
        """The ways in which a call may be made by its caller."""
        return drives_of(self.mount._get_site().signature.style, tuple(self.disturb))

    @cached_property
    def _guests(self) -> list[Guest]:
        found = guests_of(self.mount, tuple(self.disturb))
        return found if self._names else [one for one in found if one.does != "changes"]

    # How a story names hooks

    def _function(self, key: str) -> Callable[..., Any]:
        """Give the function of a candidate: ``"pre audit"``."""
        return self._candidate(key).function

    def _hook(self, key: str) -> Hook:
        """Give the handle of a hook that the machine has added; ``"pre audit#2"`` is the second of that name."""
        return cast("Hook", self._row(key).hook)

    def _candidate(self, key: str) -> Candidate:
        if key not in self._keys:
            raise HookLookupError(f"{type(self).__name__} has no candidate {key!r}{nearest(key, list(self._keys))}")
        return self._keys[key]

    def _row(self, key: str) -> Row:
        known = {self._key(row): row for row in self._own_rows()}
        if key not in known:
            raise HookLookupError(f"the machine has added no {key!r} that is still on{nearest(key, list(known))}")
        return known[key]

    def _key(self, row: Row) -> str:
        alike = [one for one in self._own_rows() if (one.kind, one.name) == (row.kind, row.name)]
        number = next(place for place, one in enumerate(alike, 1) if one.hook is row.hook)
        return repr(row) if number == 1 else f"{row!r}#{number}"

    def _key_of(self, candidate: Candidate) -> str:
        return next(key for key, one in self._keys.items() if one is candidate.origin)

    def _code(self, value: object) -> str:
        """Give the code of an option's value."""
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self._code, cast('Sequence[object]', value)))}]"
        if value in (odd, never):
            return f"state._{'odd' if value is odd else 'never'}"
        if isinstance(value, Hook):
            return f"state._hook({self._key(next(row for row in self._expected.rows if row.hook is value))!r})"
        if callable(value):
            return f"state._function({next(key for key, one in self._keys.items() if one.function == value)!r})"
        return repr(value)

    # The model

    def _own_rows(self) -> list[Row]:
        return [row for row in self._expected.rows if row.candidate is not None]

    def _movable(self) -> list[Row]:
        free = "priority" in self.vary
        return [row for row in self._own_rows() if free and row.candidate.leaves_open("priority")]

    def _is_plain(self) -> bool:
        """Whether hooks are put on and taken off by no code of the user's own, which might keep books of them."""
        return all(getattr(type(self), name) is getattr(HookMachine, name) for name in ("attach", "detach"))

    # Any: Hypothesis's own arguments. Not an @invariant, which would be printed as a step after each step.
    def check_invariants(self, *args: Any, **kwargs: Any) -> None:
        """Check what holds whatever has happened, the user's own rules included; then the user's own invariants."""
        if not self._is_checked:  # as the kit's own rules do themselves
            self._check()
        self._is_checked = False
        super().check_invariants(*args, **kwargs)

    def _check(self, *, calls: bool = True) -> None:
        """Check what holds whatever has happened, and make a call."""
        self._expected.take_over()
        self._had_hooks = self._had_hooks or bool(self._expected.rows)
        # Of an instance whose hooks are paused, the function goes on looking whether it is that one.
        if not (self._expected.rows if self._expected.parent is not None else self._expected.acting()):
            self._check_traces()
        for level in self._expected.levels:
            check_order(level, self._expected.of(level))
        check_plain(self.mount)
        if calls and self._had_hooks and not self._in_small_world and type(self).call is not None:
            self._call_sample()
        self._is_checked = True

    def _check_traces(self) -> None:
        """Check that where nothing acts, nothing can be seen; a user's own rules may have changed the function."""
        if self._bare is not None and all(is_ours(one) for one in self.rules):
            check_traces(self.mount, self._bare, "with no hook that acts, what was there before")

    def _call_sample(self) -> None:
        sample = self._samples[self._calls % len(self._samples)]
        self._calls += 1
        self._call(sample)

    # Rules: changing

    @initialize(hooks=beginnings())
    def _begin(self, hooks: list[Candidate]) -> None:
        """Have some hooks from the beginning."""
        begun = len(self._lines)
        for hook in hooks:
            self._add(hook)
        self._lines[begun:] = ["\n".join(self._lines[begun:])]
        self._check()

    @precondition(lambda self: self._candidates)
    @rule(hook=additions())
    # Any: options are what `add` of a mount point takes.
    def add(self, hook: Candidate | str, **options: Any) -> None:
        """Add a hook, or have it refused."""
        candidate = self._candidate(hook) if isinstance(hook, str) else hook
        of = options.pop("of", None)
        candidate = candidate.varied(cast("Options", options)) if options else candidate
        self._add(candidate.on(of) if of else candidate)
        self._check()

    def _add(self, candidate: Candidate, *, is_noted: bool = False) -> None:
        if not is_noted:
            drawn = {name: self._code(value) for name, value in candidate.drawn.items()}
            drawn |= _shown(of=candidate.of)
            self._note("add", repr(self._key_of(candidate)), **drawn)
        level = self._level(candidate.of)
        row = row_of(None, candidate.kind, candidate.name, candidate.function, candidate.options, level)
        if ordered(of_kind([*self._expected.rows, row], row.kind)) is None:
            self._add_in_vain(candidate)
            return
        try:
            hook = self._attach(candidate, level)
        except HookOrderError as error:
            raise broken("refusal", self.mount, f"{candidate!r} was refused, though it has a place: {error}") from error
        except AspecthookError as error:
            raise HookTypeError(
                f"{type(self).__name__}: the candidate {candidate!r} cannot be added to {self.mount.name}: {error}"
            ) from error
        if candidate.kind == "exception" and {*hook.types} != {*(candidate.types or (Exception,))}:
            raise broken("a call", self.mount, f"{candidate!r} was added for {candidate.types} and takes {hook.types}")
        self._expected.rows.append(row._replace(hook=hook, candidate=candidate))
        if not self._calls_itself:
            self._counts.know(hook)
        self._expected.check(f"with {candidate!r} added")

    def _level(self, of: str | None) -> MountPoint:
        """Return the mount point that a story means: ``of="class"`` is that of the class of an instance."""
        return self._expected.parent or self.mount if of == "class" else self.mount

    def _attach(self, candidate: Candidate, level: MountPoint) -> Hook:
        return self.attach(candidate) if level is self.mount else _put(level, candidate)

    def _add_in_vain(self, candidate: Candidate) -> None:
        with unchanged(self.mount, f"refusing {candidate!r}"):
            try:
                self._attach(candidate, self._level(candidate.of))
            except HookOrderError:
                return
            raise broken("refusal", self.mount, f"{candidate!r} contradicts the others, and was not refused")

    @precondition(lambda self: self._own_rows())
    @rule(hook=own(), by=ways())
    def remove(self, hook: Row | str, by: str | None = None) -> None:
        """Take a hook off, twice: the second time changes nothing; or all of its name, or of its function."""
        row = self._read_row("remove", hook, **_shown(by=by))
        if by is None:
            self._remove(row)
        else:
            self._remove_by(row, by)
        with unchanged(self.mount, f"removing {row!r} again"):
            cast("Hook", row.hook).remove()
        self._check()

    def _remove_by(self, row: Row, by: str) -> None:
        level, handle = cast("MountPoint", row.level), cast("Hook", row.hook)
        alike = [row]
        if by == "name":
            alike = [one for one in self._expected.of(level) if one.name == row.name]
            level.remove(row.name)
        elif by == "function":
            alike = [one for one in self._expected.of(level) if one.function == row.function]
            level.remove(cast("Callable[..., object]", row.function))
        elif by == "block":
            with suppress(PlannedError), handle:
                raise PlannedError("planned")
        else:
            level.remove(handle)
        self._expected.drop(alike)
        self._expected.check(f"with {row!r} removed by {by}")

    @precondition(lambda self: self._is_plain() and self._own_rows())
    @rule(hook=own(), options=st.sampled_from(SETTINGS))
    def repeat(self, hook: Row | str, options: Options | None = None) -> None:
        """Add a hook again without `again=True`: it is the one that is there, and with other options it is refused."""
        several = ", ".join([f"{name!r}: {self._code(value)}" for name, value in (options or {}).items()])
        shown = {"options": "{" + several + "}"} if options else {}
        row = self._read_row("repeat", hook, **shown)
        candidate: Candidate = row.candidate
        level = cast("MountPoint", row.level)
        changed: Any = {**candidate.options, **(options or {})}
        others = [one for one in self._expected.of(level) if (one.kind, one.function) == (row.kind, row.function)]
        there = [one.hook for one in others if not cast("Hook", one.hook).again and one.candidate is not None]
        if row.hook not in there:
            return  # it has itself been added with `again=True`
        with unchanged(level, f"adding {row!r} again"):
            try:
                found = level.add(candidate.kind, candidate.function, *candidate.types, **changed)
            except HookOptionError as error:
                if changed == candidate.options:
                    raise broken("refusal", level, f"{row!r} was added again, and refused: {error}") from error
            else:
                if found is not row.hook:
                    raise broken("members", level, f"{row!r} was added again, and is another hook now")
                if changed != candidate.options:
                    raise broken("refusal", level, f"{row!r} was added again with {options}, and was not refused")
        if row.kind == "exception":
            with unchanged(level, f"adding {row!r} for other exceptions, and removing it"):
                other = level.add(candidate.kind, candidate.function, _OtherError, name="other")
                other.remove()
        self._check()

    def _read_row(self, method: str, hook: Row | str, *args: str, **options: str) -> Row:
        row = self._row(hook) if isinstance(hook, str) else hook
        self._note(method, repr(self._key(row)), *args, **options)
        return row

    def _remove(self, row: Row) -> None:
        self.detach(cast("Hook", row.hook))
        self._expected.drop([row])
        self._expected.check(f"with {row!r} removed")

    @precondition(lambda self: self._movable())
    @rule(hook=own(movable=True), priority=PRIORITIES)
    def move(self, hook: Row | str, priority: int) -> None:
        """Take a hook off and put it on again with another priority."""
        row = self._read_row("move", hook, repr(priority))
        candidate = cast("Candidate", row.candidate)
        self._remove(row)
        self._add(candidate.varied({"priority": priority}), is_noted=True)
        self._check()

    @precondition(lambda self: self._own_rows())
    @rule(hook=own())
    def pause(self, hook: Row | str) -> None:
        """Keep one hook from acting."""
        row = self._read_row("pause", hook)
        cast("MountPoint", row.level).set_paused((cast("Hook", row.hook),), paused=True)
        self._expected.pause(row, paused=True)
        self._expected.check(f"with {row!r} paused")
        self._check()

    @precondition(lambda self: any(cast("Hook", row.hook).paused for row in self._own_rows()))
    @rule(hook=own())
    def resume(self, hook: Row | str) -> None:
        """Let one hook act again, if it was paused."""
        row = self._read_row("resume", hook)
        cast("MountPoint", row.level).set_paused((cast("Hook", row.hook),), paused=False)
        self._expected.pause(row, paused=False)
        self._expected.check(f"with {row!r} resumed")
        self._check()

    @precondition(lambda self: self._expected.rows and len(self._pauses) < _MOST_PAUSES)
    @rule(of=levels())
    def pause_all(self, of: str | None = None) -> None:
        """Keep all hooks from acting, those of the instance or those of its class; also what is paused already."""
        self._note("pause_all", **_shown(of=of))
        level = self._level(of)
        pause = level.paused()
        pause.__enter__()
        self._pauses.append((level, pause))
        self._expected.pauses[id(level)] += 1
        self._expected.check("paused")
        self._check()

    @precondition(lambda self: self._pauses)
    @rule(fails=st.booleans())
    def resume_all(self, *, fails: bool = False) -> None:
        """Leave the latest pause, also as a block is left that fails."""
        self._note("resume_all", **_shown(fails=fails))
        level, pause = self._pauses.pop()
        error = PlannedError("planned") if fails else None
        try:
            pause.__exit__(type(error) if error else None, error, None)
        except PlannedError:
            pass
        self._expected.pauses[id(level)] -= 1
        self._expected.check("resumed")
        self._check()

    @precondition(lambda self: self._expected.rows and self._may_clear())
    @rule()
    def clear(self) -> None:
        """Take all hooks off."""
        self._note("clear")
        self.mount.clear()
        self._expected.drop(self._expected.of(self.mount))
        self._expected.check("cleared")
        self._check()

    def _may_clear(self) -> bool:
        return all(row.candidate is not None for row in self._expected.of(self.mount))

    @precondition(lambda self: len(self._expected.rows) > 1)
    @rule()
    def rebuild(self) -> None:
        """Put the hooks on a copy of the target in other orders: theirs is the same."""
        self._note("rebuild")
        check_determinism(self.mount)
        self._is_checked = True

    # Rules: calling

    # Before there were hooks a call tells nothing, and would stay in the shortest list of steps.
    @precondition(lambda self: self._had_hooks)
    @rule(given=callings())
    def call(
        self,
        given: Sequence[object],
        kwargs: Mapping[str, object] | None = None,
        guest: Guest | str | None = None,
        drive: str = "",
    ) -> None:
        """Make one call, with a guest or without: a hook of the kit's own that is there for this call.

        ``drive`` says how a stream is read, before it is read to its end: ``"next send"``; or whether the call is
        cancelled; or that two calls are made at once.
        """
        if isinstance(given, Calling):
            calling = given
        else:
            args, named = (given.args, given.kwargs) if isinstance(given, Given) else (tuple(given), dict(kwargs or {}))
            calling = Calling(args, named, Guest.read(guest) if isinstance(guest, str) else guest, drive)
        shown = _shown(guest=str(calling.guest or ""), drive=calling.drive)
        self._note("call", *code_of_given(calling), **shown)
        if calling.guest is None:
            self._call(calling)
            if self._is_small:
                self._call_live(calling)
                self._call_other(calling)
        else:
            with self._guest(calling.guest, calling):
                traces = [self._trace(calling) for _ in range(calling.guest.calls)]
            # Without the guest: a law may call the target itself, and what a guest raises is nobody else's business.
            if calling.guest.does not in ANSWERS:
                self._check_laws(calling, traces)
        self._check(calls=False)

    def _call(self, given: Given) -> None:
        self._check_laws(given, [self._trace(given)])

    def _check_laws(self, given: Given, traces: list[Trace]) -> None:
        """Check the user's laws on calls that were read to their end: a law may repeat a call, but only like that."""
        if _drive(given):
            return
        counted = self._counted()
        for trace in traces:
            for one in self._laws:
                check_law(one, self.mount, trace)
        if counted != self._counted():  # a law has called the target itself
            self._counts.forget()
            self._expected.take_over()

    def _counted(self) -> list[str]:
        guards = [cast("Hook", row.hook).guard for row in self._expected.rows]
        return [f"{one._calls} {one._runs}" for one in guards if one is not None]

    def _trace(self, given: Given) -> Trace:
        """Make a call, and check it against the laws of every mount point."""
        self._nested = {}
        rows = self._expected.acting()
        with _quiet():
            traces = self._traced(given)
            check_call(*[self._played(rows, trace, given) for trace in traces])
        self._take_off_used_up()
        return traces[0]

    def _traced(self, given: Given) -> Sequence[Trace]:
        bound, drive = bound_of(self.target), _drive(given)
        made: Any
        if drive == AT_ONCE:
            if self.mount._get_site().signature.style == "coroutine":  # who is counted first, nobody can say
                self._counts.forget()
            made = make_two_calls(self.mount, bound, given, given)
        else:
            made = make_call(self.mount, bound, given, drive=drive.split())
        if not isinstance(made, (Trace, tuple)):
            made = self.wait_for(made)
        return cast("Sequence[Trace]", made if isinstance(made, tuple) else (made,))

    def _played(self, rows: list[Row], trace: Trace, given: Given) -> Played:
        return Played(self.mount, rows, trace, bound_of(self.target), given, self._counts, self._nested)

    def _take_off_used_up(self) -> None:
        """Take the hooks that have acted as often as they may off the list; they must be off the mount point too."""
        used_up = [(row, self._counts.is_used_up(cast("Hook", row.hook))) for row in self._expected.rows]
        # What is not known is believed; and the user's own hooks may have changed the chain.
        believed = [row for row, off in used_up if off is None or not (self._is_small or off or _is_counted(row))]
        present = {id(hook) for level in self._expected.levels for hook in level.members}
        gone = [row for row in believed if id(row.hook) not in present]
        self._expected.drop([*gone, *(row for row, off in used_up if off)])
        if self._is_small or any(off or _is_counted(row) for row, off in used_up):
            self._expected.check("after a call")

    def _call_other(self, given: Given) -> None:
        """Call the method of another instance: the hooks of this one do not act there."""
        if self._expected.parent is not None:
            try:
                other = MethodType(self.target.__func__, copy.copy(self.target.__self__))
            except Exception:  # it cannot be copied
                return
            rows = [row for row in self._expected.acting() if row.level is self._expected.parent]
            self._call_live(given, other, rows)

    # Any: a target of any sort.
    def _call_live(self, given: Given, target: Any = None, rows: list[Row] | None = None) -> None:
        """Call the function itself: it does what the interpreter does. Only hooks of the kit's own can be run twice."""
        if self.mount._get_site().signature.style != "function" or self._calls_itself:
            return
        target, mount = (self.target, self.mount) if target is None else (target, hooks(target))
        rows = self._expected.acting() if rows is None else rows
        if any(self._counts.is_unknown(cast("Hook", row.hook)) for row in rows):
            return
        self._ran.take()
        is_own = type(self).make is HookMachine.make
        bound = bound_of(target)
        with _quiet():
            result, exc = outcome(target, given)
            ran = self._ran.take()
            known = interpreted(mount, rows, bound, given, self._counts, None if is_own else (result, exc))
        should = self._ran.take()
        if should != ran:
            raise broken("a call", self.mount, f"a call runs {ran}, and should run {should}")
        if is_own and (known[0], type(known[1])) != (result, type(exc)):
            raise broken("a call", self.mount, f"a call gives {(result, exc)}, and should give {known}")
        self._take_off_used_up()

    @contextmanager
    def _guest(self, guest: Guest, given: Given) -> Generator[None]:
        """Have one more hook for the length of a block."""
        late: list[Hook] = []
        entered: list[bool] = []
        style = self.mount._get_site().signature.style
        waits = style == "coroutine"

        def act() -> Any:
            if entered:
                return None
            entered.append(True)
            if guest.does.startswith(AGAIN):
                return self._call_again(hook, given, waits=waits)
            if guest.does == ADDS:
                late.append(self.mount.add("pre", lambda: None, name="late"))
                self._expected.rows.append(row_of(late[0], "pre", "late", None, {}, self.mount))
            if guest.does == REMOVES:
                self._remove_some()
            return None

        named = {self._names[0]: self._other_value()} if guest.does == "changes" else {}
        function = function_of(guest, style=style, changes=named, act=act)
        hook = self.mount.add(guest.kind, function, **guest.options)
        self._counts.know(hook)
        self._expected.rows.append(row_of(hook, guest.kind, hook.name, function, guest.options, self.mount))
        self._expected.check(f"with the guest {str(guest)!r} added")
        try:
            yield
        finally:
            for one in (hook, *late):
                one.remove()
            ended = {id(one) for one in (hook, *late)}
            self._expected.drop([row for row in self._expected.rows if id(row.hook) in ended])
        self._expected.check("with the guest gone")

    def _call_again(self, hook: Hook, given: Given, *, waits: bool) -> Any:
        present = {id(one) for level in self._expected.levels for one in level.members}
        rows = [row for row in self._expected.acting() if id(row.hook) in present]
        made: Any = trace_of(self.target)(*given.args, **given.kwargs)

        def note(trace: Trace) -> None:
            self._nested.setdefault(id(hook), []).append(self._played(rows, trace, given))

        async def later() -> None:
            note(await made)

        return later() if waits else note(made)

    def _remove_some(self) -> None:
        own = self._own_rows()
        if own:
            self.detach(cast("Hook", own[0].hook))
            self._expected.drop(own[:1])

    def _other_value(self) -> object:
        """Give a value for the first parameter that some other call is given."""
        given = self._samples[-1]
        return given.args[0] if given.args else given.kwargs.get(self._names[0])


def _keyed(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    found: dict[str, Candidate] = {}
    alike = Counter[str]()
    for one in candidates:
        key = f"{one.kind} {one.name}"
        alike[key] += 1
        found[key if alike[key] == 1 else f"{key}#{alike[key]}"] = one
    return found


def _pass_over_planned(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what an event loop cannot raise, as of a task that nobody awaits; but not what comes of guests in it."""
    if not isinstance(context.get("exception"), (PlannedError, PlannedStop, AspecthookError)):
        loop.default_exception_handler(context)


def _drive(given: Given) -> str:
    return given.drive if isinstance(given, Calling) else ""


@contextmanager
def _quiet() -> Generator[None]:
    """Keep out of the log what isolated hooks raise: they are told to by the kit, and the steps of a call tell it."""
    logger = logging.getLogger("aspecthook")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(_record: logging.LogRecord) -> bool:
    return False


def _put(level: MountPoint, candidate: Candidate) -> Hook:
    """Put a hook on, a second one of the same callable if there is one."""
    function = level.unbound(candidate.function)
    there = any((one.kind, one.meant) == (candidate.kind, function) for one in level.members)
    options = cast("Adding", {**candidate.options, "again": True} if there else candidate.options)
    return level.add(candidate.kind, candidate.function, *candidate.types, **options)


def _shown(**options: object) -> dict[str, str]:
    """Return the code of the options of a step that are not left out."""
    return {name: repr(value) for name, value in options.items() if value}


def _is_counted(row: Row) -> bool:
    return bool(cast("Hook", row.hook).options.keys() & {"once", "times"})
