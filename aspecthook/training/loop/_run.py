"""A run as its hooks see it: its state, `Run`, and `Progress`, the counts that a checkpoint keeps.

Whatever acts on a run imports these, and never the runner. So imports run one way: from the runner to the hooks, and
from the hooks to this module.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple, final

from aspecthook._core.law.hook import Hook as Handle
from aspecthook._errors import ConfigError
from aspecthook.training._options import flag, optional_number
from aspecthook.training._ranks import rank_and_world_size

from ._checks import seed_of, workflow_of
from ._interrupts import Interrupts
from ._reading import Reading
from ._writes import Writes

if TYPE_CHECKING:
    from aspecthook.training.backends._backend import Backend

COUNTS = ("epoch", "iter", "step", "inner_iter", "row", "begun", "validated")


@final
@dataclass(slots=True)
class Progress:
    """How far a run has come: where a checkpoint that is saved now must resume from.

    An iteration counts as soon as its body is done, before the hooks after it are called. The run's own `iter`, `step`
    and `epoch` are counted up only after those hooks.
    """

    epoch: int = 0
    iter: int = 0
    step: int = 0
    inner_iter: int = 0  # the iterations of the current epoch
    row: int = 0  # the current row of the workflow
    begun: int = 0  # the epochs or iterations that had been trained when the row began
    validated: int = 0  # the validations of the row

    # Of the current epoch, and not in checkpoints:
    pending_epoch: str | None = None  # the mode of one that the workflow has begun, until its body begins
    length: int | None = None  # the number of batches when its body began, if it is known
    until: float = inf  # the iteration that ends the row of the workflow
    accumulated: bool = False  # whether there are gradients that the optimizer has not used yet

    def state_dict(self) -> dict[str, int]:
        """Return the counts that a checkpoint keeps."""
        return {name: getattr(self, name) for name in COUNTS}

    def load_state_dict(self, counts: Mapping[str, int]) -> None:
        """Restore the counts from a checkpoint."""
        for name in COUNTS:
            count = int(counts[name])
            if count < 0:
                raise ValueError(f"the count {name!r} is {count}")
            setattr(self, name, count)


class Registered(NamedTuple):
    """A hook of a run."""

    hook: Any
    name: str  # in checkpoints
    handles: tuple[Handle, ...]  # of its methods


_SLOTS = """
__dict__ __weakref__ accumulate after_stage_calls amp backend batch busy by_epoch data_loader epoch identity
inner_iter interrupts iter loaders logged logger logs loss max_epochs max_iters meta mode model optimizer outputs
own_workflow predictions progress rank reading registered resumed running seed step stopping work_dir workflow
world_size writes
"""


# Any, in what follows: models, optimizers, losses, batches and loaders are those of any library.
class Run:
    """A run: its state, and what its hooks ask of it. `Runner` describes the arguments, and adds stages."""

    # Slots, because an object with more than 30 attributes keeps them in a dict that is slower to read; and because
    # with such a dict, in about one run of twenty, CPython 3.11 does not specialise the lookup of methods.
    __slots__ = tuple(_SLOTS.split())

    # What hooks of the package use of `Runner`: entry points, and stages, ``hooks(run.train_iter)``. They are of type
    # Any, since type checkers disagree on how a hookable method replaces a member of the base class.
    fit: Any
    validate: Any
    val_loop: Any
    val_epoch: Any
    train_iter: Any
    val_iter: Any
    forward: Any
    optimizer_step: Any
    save_checkpoint: Any
    load_checkpoint: Any
    resume: Any
    register_hook: Any
    remove_hook: Any

    rank: int
    world_size: int

    def __init__(
        self,
        model: Any,
        *,
        optimizer: Any = None,
        loss: Any = None,
        device: str | None = None,
        work_dir: str | os.PathLike[str] | None = None,
        max_epochs: int | None = None,
        max_iters: int | None = None,
        workflow: Iterable[tuple[str, int]] = (("train", 1),),
        accumulate: int = 1,
        amp: bool = False,
        seed: int | None = None,
        logger: logging.Logger | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        from aspecthook.training.backends import backend_of

        if max_epochs is not None and max_iters is not None:
            raise ConfigError("Runner(max_epochs=..., max_iters=...): give one of the two")
        # What is trained
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.backend: Backend = backend_of(model)
        self.backend.place(model, device)
        self.amp: Any = self.backend.amp(True, model) if flag("Runner", "amp", amp) else None
        self.accumulate: int = optional_number("Runner", "accumulate", accumulate, 1) or 1
        self.seed: int | None = seed_of(seed)
        self.meta: dict[str, Any] = dict(meta or {})
        self.identity: str = token_hex(8)  # that of the run it was resumed from, if it was
        # Where it is
        self.progress: Progress = Progress()
        self.mode: str = "train"
        self.epoch: int = 0
        self.iter: int = 0
        self.step: int = 0
        self.inner_iter: int = 0
        self.max_epochs: int | None = optional_number("Runner", "max_epochs", max_epochs, 1)
        self.max_iters: int | None = optional_number("Runner", "max_iters", max_iters, 1)
        self.by_epoch: bool = max_iters is None
        self.own_workflow: tuple[tuple[str, int], ...] = workflow_of(workflow)
        self.workflow: tuple[tuple[str, int], ...] = self.own_workflow  # `prepare` may add a validation
        self.busy: bool = False  # whether `fit`, `validate`, `test` or `predict` is under way, or a session is open
        self.running: bool = False  # whether the stage `run` has begun and not ended
        self.stopping: bool = False  # whether `request_stop` was called
        self.interrupts: Interrupts = Interrupts()
        self.resumed: bool = False  # whether it was resumed from a checkpoint
        # What it works on
        self.after_stage_calls: list[Callable[[], object]] = []  # the functions that `after_stage` will call
        self.loaders: dict[str, Any] = {}  # by mode
        self.data_loader: Any = None
        self.reading: Reading = Reading()
        self.batch: Any = None
        self.outputs: Any = None
        self.predictions: list[Any] = []
        self.logs: dict[str, Any] = {}  # the newest numbers: losses, metrics, learning rates
        self.logged: dict[str, Any] = {}  # those of the iteration or the validation under way
        self.registered: list[Registered] = []
        # Where it writes
        self.work_dir: Path | None = Path(work_dir) if work_dir is not None else None
        self.logger: logging.Logger = logging.getLogger("aspecthook.training") if logger is None else logger
        self.rank, self.world_size = rank_and_world_size()
        self.writes: Writes = Writes()

    def request_stop(self) -> None:
        """End the run after this iteration."""
        self.stopping = True

    def after_stage(self, function: Callable[[], object]) -> None:
        """Call a function after the current stage and all its hooks; outside a run at once.

        A checkpoint that is saved then has the state with which the next stage begins, whatever the order of the hooks.
        A stage, here, is a ``train_iter``, ``train_epoch`` or ``val_epoch`` of the run; a validation that a hook makes
        inside one of them is a part of it.
        """
        if self.running:
            self.after_stage_calls.append(function)
        else:
            function()

    def log(self, numbers: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Log numbers, or texts, of the iteration or the validation under way.

        They are in `logs` from now on, and in the rows of all loggers: a row of the training has the mean of what was
        logged in its iterations, weighted by ``num_samples`` of each; that of a validation has the numbers that were
        logged in it, whose names begin with ``val_``. Of two values of one name the last one counts.

        Example:
            >>> from aspecthook.training import Hook
            >>> class Temperature(Hook):
            ...     def after_train_iter(self, runner):
            ...         runner.log(temperature=61.5)
        """
        numbers = more if numbers is None else {**numbers, **more}
        self.logs = {**self.logs, **numbers}
        self.logged.update(numbers)

    def finish_saving(self) -> None:
        """Wait until the checkpoint that a thread writes is written, and raise the error if it could not be."""
        self.writes.finish()

    def leave(self) -> None:
        """Restore the handlers of signals, and what is so outside of a run."""
        self.interrupts.release()
        self.busy = self.running = False
        self.after_stage_calls.clear()
        self.logged = {}
        try:
            self.finish_saving()
        except Exception:  # logged, since the caller gets the error that has ended the run
            self.logger.exception("a checkpoint could not be saved in the background")

    def set_mode(self, mode: str) -> None:
        """Switch the run and its model to a mode, and to the data for it."""
        self.mode = mode
        self.data_loader = self.loaders[mode]
        self.switch_model()

    def switch_model(self) -> None:
        """Switch the model to the mode of the run."""
        switch = getattr(self.model, "train" if self.mode == "train" else "eval", None)
        if callable(switch):
            switch()

    def move_to(self, counts: Mapping[str, int]) -> None:
        """Move the run to where another one was, by the counts of its progress."""
        self.progress.load_state_dict(counts)
        self.epoch, self.iter = self.progress.epoch, self.progress.iter
        self.step, self.inner_iter = self.progress.step, self.progress.inner_iter
        self.progress.accumulated = False
        self.resumed = True

    # The workflow

    @property
    def trained(self) -> int:
        """How many epochs, or iterations, have been trained."""
        return self.epoch if self.by_epoch else self.iter

    @property
    def end(self) -> float:
        """How many epochs, or iterations, are to be trained; infinity if only a hook can end the run."""
        end = self.max_epochs if self.by_epoch else self.max_iters
        return inf if end is None else end

    def row_end(self, progress: Progress) -> float:
        """Return how many epochs, or iterations, have been trained when the row of the workflow ends."""
        if len(self.workflow) == 1:
            return self.end
        return min(progress.begun + self.workflow[progress.row][1], self.end)

    def validation_follows(self) -> bool:
        """Whether the workflow validates before it trains again or ends, for hooks at the end of an epoch."""
        progress = self.progress
        return self._advance(replace(progress), progress.epoch if self.by_epoch else progress.iter) == "val"

    def _advance(self, progress: Progress, trained: int) -> str | None:
        """Move to the row of the workflow that has the next epoch, and return its mode, or None if the run is over."""
        end = self.end
        # A run that was resumed after the last iteration of an epoch has only the hooks after the epoch left. A hook
        # that stops it at once had stopped it in that iteration, and the epoch ended all the same.
        goes_on = not self.stopping or 0 < self.progress.inner_iter == self.progress.length
        while goes_on and (progress.row or trained > progress.begun or trained < end):
            mode, times = self.workflow[progress.row]
            if trained < self.row_end(progress) if mode == "train" else progress.validated < times:
                return mode
            progress.row = (progress.row + 1) % len(self.workflow)
            progress.begun, progress.validated = trained, 0
        return None

    @property
    def hooks(self) -> list[Any]:
        """The hooks, in the order in which they were registered."""
        return [one.hook for one in self.registered]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM was received; the current iteration is the last."""
        return self.interrupts.came is not None

    def __repr__(self) -> str:
        end = f"{self.max_epochs} epochs" if self.by_epoch else f"{self.max_iters} iterations"
        return f"<Runner of {type(self.model).__name__}, epoch {self.epoch}, iteration {self.iter} of {end}>"
