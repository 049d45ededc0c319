"""A run with a pause before each step, which its user drives: the stages of a runner as generators.

A stage that is entered in one call of the user's and left in a later one is still one call by law 1: its body is a
generator, and the interpreter of the law runs the chain of hooks that the stage has at that moment over it. Which epoch
comes next and what counts as done is decided by `loop._steps`, as in a runner that drives itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, final

from aspecthook import hooks
from aspecthook._core.law import law_sync
from aspecthook._core.law.call import Call
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.order import Chain
from aspecthook._errors import HookTypeError
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._steps import batches, count_epoch, count_iteration, end_pass, next_epoch

from ._bindings import CREATES
from ._errors import LOST, QUIET
from ._protocol import SessionRunArgs

if TYPE_CHECKING:
    from ._running import Running

Pauses = Generator[None, None, None]


def staged(run: Run, stage: str, body: Callable[[], Pauses]) -> Pauses:
    """Go through a body with pauses, inside the hooks that a stage has now.

    Raises:
        HookTypeError: An around hook is a plain function, which cannot be left in the middle.
    """
    chain, call = _entered(run, stage)
    for hook in chain.around:
        if not _creates(hook) and hook.flavour != "generator":
            raise HookTypeError(
                f"Runner.{stage} has the {hook.who}, and cannot be entered step by step with it; write it as a "
                "generator with one `yield`, or as a pre and a post hook, or train by runner.fit()"
            )

    def target(_: Any) -> Pauses:
        return body()

    return law_sync.generate(Chain(tuple(hook for hook in chain.everything() if not _creates(hook))), call, target)


def create(run: Run, stage: str = "run") -> None:
    """Call the around hooks that are told of each new session, with nothing inside them."""
    chain, call = _entered(run, stage)
    law_sync.run(Chain(tuple(hook for hook in chain.around if _creates(hook))), call, _nothing)


def _nothing(_: Any) -> None:
    """The body of a stage with nothing inside its hooks."""


def _entered(run: Run, stage: str) -> tuple[Chain, Call]:
    mount = hooks(getattr(run, stage))
    return mount._active(), Call(mount._get_site(), (run,))


def _creates(hook: Hook) -> bool:
    return hasattr(hook.function, CREATES)


@final
class Drive:
    """A run, entered when the first pause is asked for; each pause is where the next step would begin."""

    def __init__(self, run: Run, running: Running) -> None:
        self.run = run
        self.running = running
        self.asked = SessionRunArgs()
        self.results: Any = None
        self.answered = False  # the step that the user waits for is made
        self.through = False  # all steps are made, and the end of the run is still to come
        self.leaving = False  # what is raised now is the user's
        self.pauses = staged(run, "run", self._run)

    def ask(self, args: SessionRunArgs) -> None:
        """Set what the user asks of the next step."""
        self.asked, self.results, self.answered = args, None, False

    # The stages: what `Runner.run`, `Runner.train_loop` and `Runner.train_epoch` do, with pauses

    def _run(self) -> Pauses:
        run, running = self.run, self.running
        run.running = True
        self._create()
        while True:
            try:
                yield from staged(run, "train_loop", self._train_loop)
                break
            except LOST as error:
                if self.leaving:
                    raise
                running.lose(run, error)
                running.quietly(run, self._create)
        self.through = True
        yield  # the end comes when the session is closed
        running.coordinator.raise_requested()
        run.running = False

    def _create(self) -> None:
        while True:
            self.running.open(self.run)
            try:
                return create(self.run)
            except LOST as error:
                self.running.lose(self.run, error)

    def _train_loop(self) -> Pauses:
        run = self.run
        while (mode := next_epoch(run)) is not None:
            if mode == "train":
                yield
                if run.stopping:
                    return
                run.set_mode(mode)
                yield from staged(run, "train_epoch", self._train_epoch)
            elif not self.running.quietly(run, self._validate):
                return
            count_epoch(run, mode)

    def _validate(self) -> None:
        self.run.set_mode("val")
        self.run.val_loop()

    def _train_epoch(self) -> Pauses:
        run = self.run
        run.done.due = None
        if _is_stopping(run):  # a hook before the epoch has asked for it
            return
        try:
            for batch in batches(run, "train"):
                self._train_iter(batch)
                if count_iteration(run):
                    return
                yield
                if _is_stopping(run):
                    return
                if run.mode != "train":  # the user has validated in the pause
                    run.set_mode("train")
        except QUIET as error:
            self.running.end_quietly(run, error)
        else:
            end_pass(run)

    def _train_iter(self, batch: Any) -> None:
        run, running, args = self.run, self.running, self.asked
        step = running.begun(run, args)
        step.ask(self, _CALLER, args.fetches, run)
        running.given = step
        if args.feed:
            batch = step.feed(batch, args.feed, _CALLER, run)
        made = running.quietly(run, lambda: run.train_iter(batch))
        running.given = None
        if made and running.quiet is None:
            self.results, self.answered = step.results(self, _CALLER, run), True


def _is_stopping(run: Run) -> bool:
    return run.stopping  # asked in a function: a type checker takes an attribute to be what it was before


_CALLER = "the caller of the step"
