"""The state machine for users: a mount point of theirs, their hooks and their laws.

The model is a plain list of rows, in the order in which hooks were added; whatever a user's own rules do, the list
adopts before the next rule. `_machine_state` holds it, `_machine_calls` makes and checks calls, `_machine_rules`
changes hooks at random, and `_short_stories` plays the short stories.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import currently_in_test_context

from ._machine_rules import Rules
from ._short_stories import play_short_stories, with_story

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class HookMachine(Rules):
    """A Hypothesis state machine for a mount point of your own and the hooks that may be added to it.

    Subclass it, give it a mount point with `make` and hooks with `candidates`, state what must be true of every call
    with `law`, and run it: ``TestHandling = Handling.TestCase``.

    First come all short stories: up to three of the candidates, in each order, are added and called, then one is
    removed and the call made again. (Of more than eight candidates only some stories are played.) Then Hypothesis
    makes up longer ones. The rules add hooks, with options drawn for what a candidate leaves open, also contradictory
    ones; remove, pause, resume and move them; remove them all; add them to a copy in other sequences; call, also with
    a guest: a hook of the kit's own for one call, which fails, answers, calls again, or adds and removes hooks. After
    each change a call is made, and the laws must hold. Your own ``@rule`` methods may change the mount point as they
    like. ``clear = None`` leaves out a rule.

    When a law is broken, the error ends with a test function that repeats it, which you can paste.

    Attributes:
        candidates: The hooks: `Candidate` objects, or functions marked with `aspecthook.pre` and so on; may also be a
            property. Methods of the machine that are so marked are candidates as well. If neither is there, small
            hooks of the kit's own are added; with ``()``, none.
        arguments: A strategy of ``(args, kwargs)`` for the calls; small ints for all parameters unless given.
        vary: Which options are drawn for a candidate that does not set them; ``"conditions"`` are `when`, `once`,
            `times`, `every`, `reentrant` and `isolate`. A law that a hook runs in each call needs ``vary`` without.
        disturb: What the guests of a call may do, and its caller, if the target is a generator or a coroutine function:
            ``"send"``, ``"throw"``, ``"close"``, ``"drop"``, ``"cancel"``, ``"at once"``; ``()``: nothing. Your laws
            are not checked on calls whose guest answers something, or whose caller does one of these.
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
        >>> from hypothesis.stateful import run_state_machine_as_test
        >>> run_state_machine_as_test(Handling)
    """

    def __init__(self) -> None:
        super().__init__()
        if currently_in_test_context() and not self._plays_short_stories:
            self._explore_once()

    _short_failure: Exception | None  # there once the short stories have been played

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
                play_short_stories(cls)
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

    @classmethod
    def _explore_once(cls) -> None:
        """Play the short stories, if nobody has, for whoever runs a machine without its `TestCase`.

        What one of them raises is raised again by each machine: Hypothesis looks whether a failure comes again.
        """
        if "_short_failure" not in vars(cls):
            cls._short_failure = None
            try:
                play_short_stories(cls)
            except Exception as error:
                cls._short_failure = error
        if cls._short_failure is not None:
            raise cls._short_failure
