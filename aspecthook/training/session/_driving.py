"""A run that somebody else drives: the loops of `Runner.run` and `Runner.train_epoch`, with a pause before each step.

A stage that is entered and left with many calls of the user's between is still one call by law 1: its body is a
generator, and the chain of hooks that the stage has at that moment is run over that by the interpreter of the law. So
what comes before, after, on failures and always is decided where it always is, and by Python's own ``try``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, final

from aspecthook import hooks
from aspecthook._core.law.call import Call
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.law_sync import generate, run
from aspecthook._core.law.order import Chain
from aspecthook._errors import HookTypeError
from aspecthook.training.loop._steps import batches

from ._bindings import CREATES
from ._errors import LOST, QUIET
from ._protocol import SessionRunArgs

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

    from ._running import Running

Pauses = Generator[None, None, None]
_NOTHING: Any = object()


def staged(runner: Runner, stage: str, body: Callable[[], Pauses]) -> Pauses:
    """Go through a body with pauses, inside the hooks that a stage has now.

    Raises:
        HookTypeError: There is an around hook that calls what is inside of it, and cannot be left in the middle.
    """
    chain, call = _entered(runner, stage)
    for hook in chain.around:
        if not _creates(hook) and hook.flavour != "generator":
            raise HookTypeError(
                f"Runner.{stage} has the {hook.who}, and cannot be entered step by step with it; write it as a "
                "generator with one `yield`, or as a pre and a post hook, or train by runner.fit()"
            )

    def target(_: Any) -> Pauses:
        return body()

    return generate(_chain(hook for hook in chain.everything() if not _creates(hook)), call, target)


def create(runner: Runner, stage: str = "run") -> None:
    """Tell the hooks of a run that a session is made: those that stand around it, with nothing inside."""
    chain, call = _entered(runner, stage)
    run(_chain(hook for hook in chain.around if _creates(hook)), call, _nothing)


def _nothing(_: Any) -> None:
    """Stand where the run would be."""


def _entered(runner: Runner, stage: str) -> tuple[Chain, Call]:
    mount = hooks(getattr(runner, stage))
    return mount._active(), Call(mount._get_site(), (runner,))


def _chain(members: Any) -> Chain:
    return Chain(tuple(members))


def _creates(hook: Hook) -> bool:
    return hasattr(hook.function, CREATES)


@final
class Drive:
    """A run, entered when the first pause is asked for; each pause is where the next step would begin."""

    def __init__(self, runner: Runner, running: Running) -> None:
        self.runner = runner
        self.running = running
        self.asked = SessionRunArgs()
        self.results: Any = None
        self.answered = False  # the step that the user waits for is made
        self.through = False  # all steps are made, and the end of the run is still to come
        self.leaving = False  # what is raised now is the user's
        self.pauses = staged(runner, "run", self._run)

    def ask(self, args: SessionRunArgs) -> None:
        """Wait for a step."""
        self.asked, self.results, self.answered = args, None, False

    def _run(self) -> Pauses:
        runner, running = self.runner, self.running
        runner._running = True
        self._create()
        while True:
            try:
                yield from staged(runner, "train_loop", self._epochs)
                break
            except LOST as error:
                if self.leaving:
                    raise
                running.lose(runner, error)
                running.quietly(runner, self._create)
        self.through = True
        yield  # the end comes when the session is closed
        running.coordinator.raise_requested()
        runner._running = False

    def _create(self) -> None:
        while True:
            self.running.open(self.runner)
            try:
                return create(self.runner)
            except LOST as error:
                self.running.lose(self.runner, error)

    # What `Runner.train_loop` does

    def _epochs(self) -> Pauses:
        runner = self.runner
        while runner._done["row"] or runner._trained() > runner._done["begun"] or not self._is_trained():
            mode, times = runner.workflow[runner._done["row"]]
            if mode == "train":
                yield from self._train_row(times)
            while mode == "val" and runner._done["validated"] < times and not _is_stopping(runner):
                self.running.quietly(runner, runner._val_epoch)
            if _is_stopping(runner):
                return
            runner._done["row"] = (runner._done["row"] + 1) % len(runner.workflow)
            runner._done["begun"], runner._done["validated"] = runner._trained(), 0

    def _train_row(self, times: int) -> Pauses:
        runner, end = self.runner, self._end()
        until = end if len(runner.workflow) == 1 else min(runner._done["begun"] + times, end)
        runner._until = None if runner.by_epoch or until == float("inf") else int(until)
        while runner._trained() < until and not _is_stopping(runner):
            yield
            if _is_stopping(runner):
                return
            runner._begin("train")
            runner._entered = False
            yield from staged(runner, "train_epoch", self._epoch)
            if not runner._entered:
                runner._pass_over_epoch()
            runner._call_later()
            runner.epoch = runner._done["epoch"]
            runner._interrupts.rise()
            if until == float("inf") and hasattr(runner._loaders["train"], "__next__"):
                runner.request_stop()  # an iterator can be gone through only once

    def _end(self) -> float:
        end = self.runner.max_epochs if self.runner.by_epoch else self.runner.max_iters
        return float("inf") if end is None else end

    def _is_trained(self) -> bool:
        return self.runner._trained() >= self._end()

    # What `Runner.train_epoch` does

    def _epoch(self) -> Pauses:
        runner = self.runner
        runner._entered = True
        source = batches(runner, "train")
        first = True
        while True:
            if not first:
                yield
            first = False
            if _is_stopping(runner):
                return
            if runner.mode != "train":  # the user has validated in between
                runner._begin("train")
            batch = self._next(source)
            if batch is _NOTHING:
                return
            self._iter(batch)
            if runner._is_last():
                return

    def _next(self, source: Iterator[Any]) -> Any:
        try:
            batch = next(source, _NOTHING)
        except QUIET as error:
            self.running.end_quietly(self.runner, error)
            return _NOTHING
        if batch is _NOTHING:
            self.runner._end_pass()
        return batch

    def _iter(self, batch: Any) -> None:
        runner, running, args = self.runner, self.running, self.asked
        step = running.begun(runner, args)
        step.ask(self, _CALLER, args.fetches, runner)
        running.given = step
        if args.feed:
            batch = step.feed(batch, args.feed, _CALLER, runner)
        running.quietly(runner, lambda: runner.train_iter(batch))
        running.given = None
        if running.quiet is None:
            self.results, self.answered = step.results(self, _CALLER, runner), True


def _is_stopping(runner: Runner) -> bool:
    return runner.stopping


_CALLER = "the caller of the step"
