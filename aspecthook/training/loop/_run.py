"""What a run is made of, how far it has come, and the rules of what it does next.

The invariant: `iter`, `step` and `epoch` count what is complete, hooks included. So in ``after_train_iter`` an
iteration still has its own number, as in mmcv. `progress` is where a checkpoint that is saved at that moment must
resume from; it counts an iteration as soon as its body is done.

Nothing here calls a hook: `Runner`, whose methods are the stages, is built on this class.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple, final

from aspecthook._core.law.hook import Hook as Handle
from aspecthook._errors import ConfigError, HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, optional_number, whole_number
from aspecthook.training._ranks import highest, process_group, rank_and_world_size
from aspecthook.training.backends._state import is_any

from ._interrupts import Interrupts, Terminated
from ._reading import Reading

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
    accumulated: bool = False  # whether there are gradients that the optimizer has not used yet

    def state_dict(self) -> dict[str, int]:
        """Return the counts that a checkpoint keeps."""
        return {name: getattr(self, name) for name in COUNTS}

    def load_state_dict(self, counts: Mapping[str, Any]) -> None:
        """Restore the counts from a checkpoint."""
        for name in COUNTS:
            found = int(counts[name])
            if found < 0:
                raise ValueError(f"the count {name!r} is {found}")
            setattr(self, name, found)


class Registered(NamedTuple):
    """A hook of a run."""

    hook: Any
    name: str  # in checkpoints
    handles: tuple[Handle, ...]  # of its methods


_SLOTS = """
__dict__ __weakref__ accumulate after_stage_calls amp backend batch busy by_epoch data_loader epoch identity
inner_iter interrupts iter loaders logged logger logs loss max_epochs max_iters mode model optimizer outputs
own_workflow predictions progress rank reading registered resumed running seed step stopping work_dir workflow
world_size
"""


# Any, in what follows: models, optimizers, losses, batches and loaders are those of any library.
class Run:
    """The parts of a run, and its rules; its arguments are those of `Runner`."""

    # Slots, because an object with more than 30 attributes keeps them in a dict that is slower to read; and because
    # with such a dict, in about one run of twenty, CPython 3.11 does not specialise the lookup of methods.
    __slots__ = tuple(_SLOTS.split())

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
        self.seed: int | None = optional_number("Runner", "seed", seed, 0)
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
        self.own_workflow: tuple[tuple[str, int], ...] = _workflow_of(workflow)
        self.workflow: tuple[tuple[str, int], ...] = self.own_workflow  # `fit` may add a validation
        self.busy: bool = False  # whether `fit`, `validate`, `test` or `predict` is under way, or a session is open
        self.running: bool = False  # whether the stage `run` has begun and not ended
        self.stopping: bool = False  # whether `request_stop` was called
        self.interrupts: Interrupts = Interrupts()
        self.resumed: bool = False  # whether it was resumed from a checkpoint
        # What it works on
        self.registered: list[Registered] = []
        self.after_stage_calls: list[Callable[[], object]] = []  # the functions that `after_stage` will call
        self.loaders: dict[str, Any] = {}  # by mode
        self.data_loader: Any = None
        self.reading: Reading = Reading()
        self.batch: Any = None
        self.outputs: Any = None
        self.predictions: list[Any] = []
        self.logs: dict[str, Any] = {}  # the newest numbers: losses, metrics, learning rates
        self.logged: dict[str, Any] = {}  # those of the iteration or the validation under way
        # Where it writes
        self.work_dir: Path | None = Path(work_dir) if work_dir is not None else None
        self.logger: logging.Logger = logging.getLogger("aspecthook.training")
        self.rank, self.world_size = rank_and_world_size()

    def __repr__(self) -> str:
        end = f"{self.max_epochs} epochs" if self.by_epoch else f"{self.max_iters} iterations"
        return f"<Runner of {type(self.model).__name__}, epoch {self.epoch}, iteration {self.iter} of {end}>"

    @property
    def hooks(self) -> list[Any]:
        """The hooks, in the order in which they were registered."""
        return [one.hook for one in self.registered]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM was received; the current iteration is the last."""
        return self.interrupts.came is not None

    def check_idle(self, what: str) -> None:
        """Refuse to begin a run inside another one of the same runner."""
        if self.busy:
            raise TrainingError(
                f"{what} was called while this runner is fitting, validating, testing or predicting; use another "
                "runner, or wait until it has ended"
            )

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

    def next_epoch(self) -> str | None:
        """Return the mode of the next epoch, or None if the run is over.

        A run that was resumed from a checkpoint may be in the middle of its workflow.
        """
        mode = self._advance(self.progress, self.trained)
        if mode is not None:
            self.progress.pending_epoch = mode
        return mode

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

    def agree_to_end(self) -> None:
        """End the run on all ranks if a hook or a signal ends it on one: the others would wait for that one forever."""
        if process_group() is None:
            return
        signalled = self.interrupts.came is not None
        most = highest(2 if signalled else int(self.stopping))
        self.stopping = self.stopping or most > 0
        if most > 1 and not signalled:
            self.interrupts.came = Terminated("another rank was interrupted")

    # What an epoch and an iteration count

    def note_length(self, length: int | None, later: int | None) -> None:
        """Note the length of the epoch that begins or continues, and what it means for the number of iterations.

        The epochs before, and the rest of this one, may have been divided into other batches than those to come, which
        are assumed to have `later` batches each. Each may have another length, and notes it when it begins.
        """
        self.progress.length = length
        if self.by_epoch and self.max_epochs is not None:
            before, left = self.iter - self.progress.inner_iter, self.max_epochs - self.epoch
            if length is None or later is None:
                self.max_iters = None
            else:
                self.max_iters = before + length + (left - 1) * later if left > 0 else before

    def group(self) -> tuple[int, bool]:
        """Return how many batches share a step with the one under way, and whether it is the last of them."""
        if self.accumulate == 1:
            return 1, True
        place = self.iter % self.accumulate
        size = self.accumulate
        if self.max_iters is not None:  # the last group of a run may be smaller
            size = max(1, min(size, self.max_iters - (self.iter - place)))
        return size, place + 1 >= size

    def end_pass(self) -> None:
        """Count a complete pass over the data."""
        self.progress.inner_iter = 0
        self.progress.epoch = self.epoch + 1

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


def _workflow_of(rows: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    """Return the rows of a workflow: pairs of a mode and the number of epochs or iterations in it."""
    found: list[tuple[str, int]] = []
    for row in rows:
        pair: list[Any] = list(row) if is_any(row, tuple, list) else [row]
        if len(pair) != 2 or pair[0] not in ("train", "val"):
            near = nearest(str(pair[0]), ["train", "val"]) if pair else ""
            raise ConfigError(
                f"workflow={brief(row)}: give pairs of 'train' or 'val' and a number, such as ('train', 1){near}"
            )
        found.append((pair[0], whole_number("Runner", f"workflow: the number after {pair[0]!r}", pair[1], 1)))
    if not any(mode == "train" for mode, _ in found):
        raise ConfigError("a workflow without 'train' never ends; use validate()")
    return tuple(found)


# The names of hooks in checkpoints: those that they were given, or else their classes


def named(run: Run) -> list[tuple[str, Any]]:
    """Return the hooks of a run with their names."""
    return [(one.name, one.hook) for one in run.registered]


def name_in_list(run: Run, hook: object) -> str:
    """Return a name for the next hook of a list that is registered whole, so that its order tells hooks apart."""
    kind, taken = type(hook).__name__, {name for name, one in named(run) if one is not hook}
    return next(name for n in count(1) if (name := kind if n == 1 else f"{kind} {n}") not in taken)


def name_of(run: Run, hook: object, given: object) -> str:
    """Return the name of a hook that is registered next; refuse one that would not tell it apart.

    Hooks of one class and without a state are numbered, and the number means nothing: of those with a state, only one
    may go without a name of its own.
    """
    kind, name = type(hook).__name__, name_in_list(run, hook)
    if given is None:
        if name != kind and _has_state(hook):
            raise HookOptionError(
                f"the run has another {kind} without a name; each has a state, and a resumed run could not tell them "
                'apart; name one: register_hook(hook, name="...")'
            )
        return name
    if not isinstance(given, str) or not given:
        raise HookTypeError(f"register_hook({kind}, name={brief(given)}): a name is a string that is not empty")
    if any(name == given and one is not hook for name, one in named(run)):
        raise HookOptionError(f"register_hook({kind}, name={given!r}): the name is taken; give another one")
    return given


def _has_state(hook: object) -> bool:
    state_of = getattr(hook, "state_dict", None)
    if state_of is None:
        return False
    with suppress(Exception):  # it may have one only when the run has begun
        return bool(state_of())
    return True
