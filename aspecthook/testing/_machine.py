"""The state machine for users: a mount point of theirs, their hooks and their laws."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from functools import cache, cached_property, wraps
from typing import Any, TypeVar, cast

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from aspecthook._errors import AspecthookError, HookLookupError, HookOrderError, HookTypeError, brief, nearest
from aspecthook.weave._aspects import marked

from ._calls import blank_of, bound_of, finished, quiet, refuse_running_loop
from ._candidates import Candidate, keyed, put, read
from ._laws import check_law, laws_in
from ._mount import Hook, MountPoint, hooks, members_of
from ._steps import Trace
from ._stories import Arguments, play_short_stories, read_arguments, samples_of
from ._trace import trace_of

Known = TypeVar("Known")

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# What Hypothesis can explain of a failure, our error shows; it would trace each line of a run.
_LONG = settings(
    max_examples=100,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
# After the short stories, without rules of the user's own: the target is really called, and these find little more.
_FEW = settings(_LONG, max_examples=4, stateful_step_count=14)

# With rules of the user's own, stories grow: Hypothesis leaves some steps in that a failure does not need.
_GROWING = (2, 3, 4, 5, 6, 8)
_EXAMPLES = 40  # of each length


class _TestCase:
    """What `TestCase` of a machine is: Hypothesis's own, which plays the short stories first."""

    def __get__(self, _machine: object, owner: Any) -> Any:
        return _case_of(owner)


@cache
def _case_of(machine: Any) -> Any:
    plain: Any = cast("Any", super(HookMachine, machine)).TestCase

    class Case(plain):  # type: ignore[misc]
        settings = _LONG
        tries_orders = True  # itself, so that --hook-orders leaves it alone

        @wraps(plain.runTest)
        def runTest(self) -> None:  # noqa: N802  # the name that `unittest` looks for
            given = self.settings
            # Methods with `@initialize` come first, and the short stories do not play them.
            if not machine.setup_state().initializers:
                machine._is_brief = not play_short_stories(machine)._has_own_rules
                given = _FEW if machine._is_brief and given is _LONG else given
            try:
                for steps in () if machine._is_brief else _GROWING:
                    self.settings = settings(
                        given,
                        stateful_step_count=min(steps, given.stateful_step_count),
                        max_examples=min(_EXAMPLES, given.max_examples),
                        derandomize=True,
                        database=None,
                    )
                    plain.runTest(self)
                self.settings = given
                plain.runTest(self)
            finally:
                machine._is_brief = False

    Case.__name__, Case.__qualname__, Case.__module__ = plain.__name__, plain.__qualname__, machine.__module__
    return Case


def _any_of(hooks_now: str) -> st.SearchStrategy[str]:
    """Draw one of the hooks of a machine that one of its methods returns."""
    return st.runner().flatmap(lambda machine: st.sampled_from(getattr(machine, hooks_now)()))


class HookMachine(RuleBasedStateMachine):
    """A Hypothesis state machine that tests your mount point with hooks in different orders.

    Subclass it, make the mount point in `make`, list the hooks in `candidates`, state what must be true of every call
    with `law`, and run it: ``TestHandling = Handling.TestCase``.

    It begins with short stories, the same ones in each run: it adds up to four candidates in each order (larger sets in
    a sample of orders), calls the target with several arguments, removes one hook, and calls again. Then Hypothesis
    generates longer stories, which add, remove, pause and resume hooks, call the target, and use your own ``@rule``
    methods.

    All calls are real, on a new mount point for each story: about 50 for two candidates, and 190 for five. If a law is
    broken, the error ends with a test to paste, which repeats the failure.

    Attributes:
        candidates: The hooks: `Candidate` objects, or functions marked with `aspecthook.pre` and so on; may also be a
            property. Marked methods of the machine are candidates too.
        arguments: A strategy of ``(args, kwargs)`` for the calls; by default, small ints for all parameters.
        mount: The mount point under test; the machine sets it.
        target: What `make` returned; the machine sets it.

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
        >>> Handling.TestCase().runTest()
    """

    TestCase: Any = _TestCase()

    # Any: candidates are of two sorts, arguments of any.
    candidates: Sequence[Any] = ()
    arguments: st.SearchStrategy[Any] | None = None

    _loop: asyncio.Runner | None = None
    _is_brief = False  # whether the short stories have called the target enough
    _drawn_samples: tuple[object, list[Arguments]]

    # To be overridden

    def make(self) -> Any:
        """Return a fresh mount point for each run: a hookable function, or anything that `aspecthook.hooks` takes."""
        raise NotImplementedError(f"{type(self).__name__} needs a method make() that returns a new mount point")

    def attach(self, candidate: Candidate) -> Hook:
        """Add a hook and return its handle; override it if your own code adds hooks."""
        return put(self.mount, candidate)

    def detach(self, hook: Hook) -> None:
        """Remove a hook; override it together with `attach`."""
        hook.remove()

    # Any: an awaitable of anything.
    def wait_for(self, awaitable: Awaitable[Any]) -> Any:
        """Run the awaitable of an async target; override it for an event loop other than asyncio's."""
        refuse_running_loop(awaitable)
        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop.run(finished(awaitable))

    # Setting up and tearing down

    def __init__(self) -> None:
        super().__init__()
        made = self.make()
        self._refuse_own("target", made)
        self.target = made
        self._refuse_own("mount", hooks(made))
        self.mount: MountPoint = hooks(made)
        own: Any = type(self)  # mypy takes a class for something that has no hash
        self._keys = keyed(read([*dict.fromkeys(method for _, method in marked(self)), *self.candidates]))
        there = [one.name for one in self._keys.values() if one.function in self.mount]
        if there and own.attach is HookMachine.attach:
            raise HookTypeError(
                f"{own.__name__}.make() returned {self.mount.name} with {there[0]!r} on it already, so its order would "
                "never change; return a new mount point without hooks"
            )
        self._laws = [found.__get__(self) if bound else found for found, bound in laws_in(own)]
        self._present: dict[str, Hook] = {}
        self._has_own_rules = any(one.function.__module__ != __name__ for one in self.rules)
        # Without candidates a call is all that a rule can do.
        self._calls_left: float = len(self._keys) if self._is_brief and self._keys else float("inf")
        if not self._keys and not self._has_own_rules and not members_of(self.mount):
            raise HookTypeError(
                f"{own.__name__} has no candidates and no rules of its own, and {self.mount.name} has no hooks: "
                "set candidates, or mark methods with `aspecthook.pre` or another kind"
            )

    def _refuse_own(self, name: str, value: object) -> None:
        """Refuse an attribute of the user's own where the machine keeps something else."""
        if hasattr(self, name) and getattr(self, name) is not value:
            raise HookTypeError(
                f"{type(self).__name__} sets {name!r} itself, but the machine keeps "
                f"{'what make() returns' if name == 'target' else 'its mount point'} there; use another name"
            )

    @property
    def _samples(self) -> list[Arguments]:
        """The arguments of the short stories, which are drawn once for a class."""
        own = type(self)
        known = vars(own).get("_drawn_samples")
        if known is None or known[0] is not self.arguments:
            known = own._drawn_samples = self.arguments, [self._read(one) for one in samples_of(self._drawn_from)]
        return known[1]

    @cached_property
    def _drawn_from(self) -> st.SearchStrategy[Any]:
        strategy: Any = self.arguments
        if strategy is None:
            return self._small_arguments()
        if not isinstance(self.arguments, st.SearchStrategy):
            raise HookTypeError(
                f"{type(self).__name__}.arguments is {brief(strategy)}; it must be a strategy of pairs of the "
                "positional arguments and a dict of the named ones"
            )
        found: st.SearchStrategy[Any] = strategy
        return found

    def _read(self, drawn: Any) -> Arguments:
        return read_arguments(type(self).__name__, drawn)

    def _small_arguments(self) -> st.SearchStrategy[Any]:
        parameters = list(inspect.signature(blank_of(self.mount)).parameters.values())[len(bound_of(self.target)) :]
        number = st.integers(0, 9)
        by_position = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        by_name = {one.name: number for one in parameters if one.kind is one.KEYWORD_ONLY}
        return st.tuples(st.tuples(*[number for _ in by_position]), st.fixed_dictionaries(by_name))

    def teardown(self) -> None:
        """Remove the hooks that the machine has added, and leave others."""
        for hook in self._present.values():
            hook.remove()
        self._present.clear()
        if self._loop is not None:
            with quiet():  # tasks that calls have left behind come to their end
                self._loop.close()

    # What the rules may draw

    def _absent_hooks(self) -> list[str]:
        return [key for key in self._keys if key not in self._present]

    def _present_hooks(self) -> list[str]:
        return list(self._present)

    def _acting_hooks(self) -> list[str]:
        return [key for key, hook in self._present.items() if not hook.paused and hook in self.mount.members]

    def _paused_hooks(self) -> list[str]:
        return [key for key, hook in self._present.items() if hook.paused]

    def _order(self) -> list[str]:
        """Return the hooks that the machine has added, in the order in which a call may run them."""
        names = {id(hook): key for key, hook in self._present.items()}
        return [names.get(id(hook), hook.name) for hook in self.mount]

    def _is_plain(self) -> bool:
        """Whether hooks are added and removed by the machine alone; code of the user's may keep records of them."""
        return all(getattr(type(self), name) is getattr(HookMachine, name) for name in ("attach", "detach"))

    # Rules

    @precondition(lambda self: self._absent_hooks())
    @rule(hook=_any_of("_absent_hooks"))
    def add(self, hook: str) -> None:
        """Add a hook that is not there, unless it contradicts the others."""
        candidate = self._known(hook, self._keys, "has no candidate")
        try:
            self._present[hook] = self.attach(candidate)
        except HookOrderError:  # it contradicts the others, and is refused as it should be
            return
        except AspecthookError as error:
            raise HookTypeError(
                f"{type(self).__name__}: the candidate {candidate!r} cannot be added to {self.mount.name}: {error}"
            ) from error

    @precondition(lambda self: self._present)
    @rule(hook=_any_of("_present_hooks"))
    def remove(self, hook: str) -> None:
        """Remove a hook."""
        handle = self._known(hook, self._present, "has not added")
        del self._present[hook]
        self.detach(handle)

    @precondition(lambda self: self._acting_hooks())
    @rule(hook=_any_of("_acting_hooks"))
    def pause(self, hook: str) -> None:
        """Pause a hook."""
        self._set_paused(hook, paused=True)

    @precondition(lambda self: self._paused_hooks())
    @rule(hook=_any_of("_paused_hooks"))
    def resume(self, hook: str) -> None:
        """Resume a hook that is paused."""
        self._set_paused(hook, paused=False)

    def _set_paused(self, hook: str, *, paused: bool) -> None:
        handle = self._known(hook, self._present, "has not added")
        self.mount.set_paused((handle,), paused=paused)

    def _known(self, hook: str, known: Mapping[str, Known], reason: str) -> Known:
        if hook not in known:
            raise HookLookupError(f"{type(self).__name__} {reason} {hook!r}{nearest(hook, list(known))}")
        return known[hook]

    @precondition(lambda self: self._calls_left > 0)
    @rule(args=st.runner().flatmap(lambda machine: machine._drawn_from.map(machine._read)))
    def call(self, args: Sequence[Any] | Arguments, kwargs: dict[str, Any] | None = None) -> None:
        """Make one call, and check the laws on it."""
        given = args if isinstance(args, Arguments) else Arguments(tuple(args), kwargs or {})
        self._calls_left -= 1
        with quiet():
            made = trace_of(self.target)(*given.args, **given.kwargs)
            trace: Trace = made if isinstance(made, Trace) else self.wait_for(made)
        trace._wait = self.wait_for  # where a law makes the call again
        if isinstance(trace.exc, KeyboardInterrupt):
            raise trace.exc
        for key, hook in list(self._present.items()):
            if hook.options.keys() & {"once", "times"} and hook not in self.mount.members:
                del self._present[key]  # it has run as often as it may
        for one in self._laws:
            check_law(one, self.mount, trace)
