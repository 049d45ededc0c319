"""A run with a pause before each step, which the user's code drives: the stages of a runner as generators.

The user enters a stage in one call of ``session.run`` and leaves it in a later one, and still it is one call by law 1:
its body is a generator, and the interpreter of the law runs the hooks of the stage around it. `loop._steps` decides
which epoch comes next and when an iteration or an epoch counts as done, as for a runner that drives itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, final

from aspecthook import hooks
from aspecthook._core.law import law_sync
from aspecthook._core.law.call import Call
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.order import Chain
from aspecthook._errors import HookTypeError
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._steps import batches, count_epoch, count_iteration, next_epoch

from ._bindings import CREATES
from ._errors import QUIET, AbortedError
from ._protocol import SessionRunArgs
from ._state import SessionState
from ._step import NO_VALUES

Pauses: TypeAlias = Generator[None, None, None]


def staged(run: Run, stage: str, body: Callable[[], Pauses]) -> Pauses:
    """Run a body that pauses, inside the hooks that a stage has now.

    A plain function that is an around hook is refused: it cannot be left in the middle.
    """
    chain, call = _entered(run, stage)
    for hook in chain.around:
        if not _creates(hook) and hook.style != "generator":
            raise HookTypeError(
                f"Runner.{stage} has the {hook.who}, which is a plain function, and a session cannot pause in it; "
                "write it as a generator with one `yield`, or as a pre and a post hook, or train with runner.fit()"
            )

    def target(_: Any) -> Pauses:
        return body()

    return law_sync.generate(Chain(tuple(hook for hook in chain.everything() if not _creates(hook))), call, target)


def _create(run: Run) -> None:
    """Call the around hooks that call `after_create_session`, with nothing inside them."""
    chain, call = _entered(run, "run")
    law_sync.run(Chain(tuple(hook for hook in chain.around if _creates(hook))), call, _nothing)


def _nothing(_: Any) -> None:
    """Do nothing: the body of a stage that is entered for its hooks alone."""


def _entered(run: Run, stage: str) -> tuple[Chain, Call]:
    mount = hooks(getattr(run, stage))
    return mount.chain(), Call(mount.site(), (run,))


def _creates(hook: Hook) -> bool:
    return hasattr(hook.function, CREATES)


@final
class Drive:
    """A run as an iterator of pauses, each just before a step; the first ``next`` begins the run."""

    def __init__(self, run: Run, state: SessionState) -> None:
        self.run = run
        self.state = state
        self.asked = SessionRunArgs()
        self.results: Any = None
        self.answered = False  # whether the step that the user waits for is made
        self.through = False  # whether all steps are made, and only the end of the run is still to come
        self.leaving = False  # whether what is raised now was raised by the user's code
        self.pauses = staged(run, "run", self._run)

    def ask(self, args: SessionRunArgs) -> None:
        """Set what the user wants of the next step."""
        self.asked, self.results, self.answered = args, None, False

    # The bodies of the stages `run`, `train_loop` and `train_epoch`, with pauses

    def _run(self) -> Pauses:
        run, state = self.run, self.state
        run.take_folder()
        while True:
            state.open(run)
            try:
                _create(run)
                run.running = True
                yield from staged(run, "train_loop", self._train_loop)
                break
            except AbortedError as error:
                if self.leaving:
                    raise
                state.lose(run, error)
            except Exception as error:
                cause = _raised_by_stage(error)
                if self.leaving or not run.running or not isinstance(cause, QUIET):
                    raise
                state.end_quietly(run, cause)
                break
        self.through = True
        yield  # the hooks after the run are called when the session is closed
        run.running = False

    def _train_loop(self) -> Pauses:
        run = self.run
        while (mode := next_epoch(run)) is not None:
            if mode == "train":
                yield
                if run.stopping:
                    return
                run.set_mode(mode)
                yield from staged(run, "train_epoch", self._train_epoch)
            else:
                run.set_mode(mode)
                run.val_loop()
            count_epoch(run, mode)

    def _train_epoch(self) -> Pauses:
        run = self.run
        if _is_stopping(run):  # a pre hook of the epoch has asked for it
            run.done.due = None
            return
        try:
            for batch in batches(run, "train"):
                self._train_iter(batch)
                if count_iteration(run):
                    return
                yield
                if _is_stopping(run):
                    return
        except QUIET as error:
            self.state.end_quietly(run, error)

    def _train_iter(self, batch: Any) -> None:
        run, state, args = self.run, self.state, self.asked
        step = state.begin_step(run, args)
        if args.fetches is not None:
            step.ask(_CALLER, _CALLER, args.fetches, run)
        state.given = step
        if args.feed:
            batch = step.feed(batch, args.feed, _CALLER, run)
        run.train_iter(batch)
        state.given = None
        if state.quiet is None:
            values = step.read(run) if step.values is None else step.values
            self.results = values.get(_CALLER, NO_VALUES).results
            self.answered = True


def _raised_by_stage(error: Exception) -> BaseException:
    """Return the StopIteration that a hook raised if Python has made a RuntimeError of it; else the error itself.

    A StopIteration that leaves a generator becomes a RuntimeError (PEP 479). The stages are generators only here, so
    this is undone. The generators of a user are not: there such an error is a mistake, and must not end a run quietly.
    """
    cause = error.__cause__
    if type(error) is RuntimeError and isinstance(cause, StopIteration) and cause.__traceback__ is not None:
        left = cause.__traceback__.tb_frame  # the generator
        if left.f_globals.get("__name__") in (__name__, law_sync.__name__):
            return cause
    return error


def _is_stopping(run: Run) -> bool:
    return run.stopping  # a function, since type checkers assume that an attribute has kept its value


_CALLER = "the caller of the step"
