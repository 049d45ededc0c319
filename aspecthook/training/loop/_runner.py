"""The runner: a training loop whose every step is a mount point.

The methods of `Runner` that are mount points are the stages. They stand in the order in which a training passes them,
and are followed by what counts after them. All is one class, since what the stages share is its attributes.

The invariant: `iter`, `step` and `epoch` count what is complete, hooks included. So in ``after_train_iter`` an
iteration still has its own number, as in mmcv. `progress` is where a checkpoint that is saved at that moment must
resume from; it counts an iteration as soon as its body is done.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from aspecthook import hookable
from aspecthook._errors import ConfigError, HookTypeError, brief, described
from aspecthook.training._dialect import attach, bindings_of
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, optional_number
from aspecthook.training._ranks import all_gather, broadcast, highest, process_group, rank_and_world_size
from aspecthook.training.checkpoint._files import own_path, path_of
from aspecthook.training.checkpoint._folder import claim_folder, identity_of, load
from aspecthook.training.checkpoint._format import save

from ._hook_list import HookList, Registered
from ._interrupts import INTERRUPTS, Interrupts, Terminated
from ._model import Means, computed, evaluated, inputs_of, modes_of, numbers_of, of_mode, without_mode
from ._progress import Progress, workflow_of
from ._reading import Reading, check_loader, is_divided, length_of
from ._state import Part, check_identity, load_parts, read

if TYPE_CHECKING:
    from aspecthook.training.backends._backend import Backend

Result = TypeVar("Result")

_END = object()  # comes after the last batch
_INTERRUPTED = "interrupted.ckpt"
# What a hook on any stage may ask for by name: attributes of the runner, some of them also by mmengine's names.
_ATTRIBUTES = """
model optimizer epoch iter step inner_iter max_epochs max_iters mode data_loader batch outputs logs work_dir logger rank
world_size
"""
_MMENGINE = {"batch_idx": "inner_iter", "data_batch": "batch", "metrics": "logs"}
STATE: dict[str, str] = {"runner": "", **{name: name for name in _ATTRIBUTES.split()}, **_MMENGINE}
# The attributes that a validation changes.
_KEPT = ("busy", "mode", "data_loader", "inner_iter", "batch", "outputs", "loaders", "skipped")
_SLOTS = """
__dict__ __weakref__ accumulate after_stage_calls alone amp backend batch busy by_epoch data_loader epoch identity
inner_iter interrupts iter loaders logged logger logs loss max_epochs max_iters mode model optimizer outputs
own_workflow plain_model progress rank reading registered resumed running seed skipped step stopping work_dir workflow
world_size
"""


# Any, in what follows: models, losses, batches and loaders are those of any library; a config of hooks is a string, a
# mapping, a list of these, a hook, or None.
class Runner:
    """A training run of a model; hooks on its stages, which are methods, can see and change everything.

    Args:
        model: A model with ``train_step(batch, optimizer)`` and ``val_step`` as in mmcv, which return ``loss``,
            ``log_vars`` and ``num_samples``; or any callable, together with a `loss`.
        optimizer: An object with ``param_groups``, ``step`` and ``zero_grad``, as in PyTorch. You can validate, test
            and predict without one.
        loss: A function of the model's outputs and the targets, which returns an object with a ``backward`` method.
        device: The device to train a PyTorch model on, ``"cpu"`` or ``"cuda:1"``; by default a GPU if there is one. A
            model that is not on the CPU stays where it is.
        work_dir: The folder that the run writes to.
        max_epochs: The number of epochs to train; give either this or `max_iters`.
        max_iters: The number of iterations to train.
        workflow: Pairs of a mode and a number of epochs (of iterations with `max_iters`), repeated until the end.
        accumulate: The number of batches that share one step of the optimizer. The loss of each is divided by that
            number; the last group of a run may be smaller.
        amp: Whether to compute in mixed precision; only for PyTorch.
        seed: Seeds the generators of Python, NumPy and PyTorch when the run begins.

    Example:
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> model = Linear(1, 1)
        >>> runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=2)
    """

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
        self.plain_model: Any = None  # the newest one that has no `train_step`
        self.optimizer = optimizer
        self.loss = loss
        self.backend: Backend = backend_of(model)
        self.backend.place(model, device)
        self.amp: Any = self.backend.amp(True, model) if flag("Runner", "amp", amp) else None
        self.accumulate: int = optional_number("Runner", "accumulate", accumulate, 1) or 1
        self.seed: int | None = optional_number("Runner", "seed", seed, 0)
        self.identity: str = token_hex(8)  # that of the run it was resumed from, if it was
        # Where it is
        self.progress: Progress = Progress(by_epoch=max_iters is None)
        self.mode: str = "train"
        self.epoch: int = 0
        self.iter: int = 0
        self.step: int = 0
        self.inner_iter: int = 0
        self.max_epochs: int | None = optional_number("Runner", "max_epochs", max_epochs, 1)
        self.max_iters: int | None = optional_number("Runner", "max_iters", max_iters, 1)
        self.by_epoch: bool = max_iters is None
        self.own_workflow: tuple[tuple[str, int], ...] = workflow_of(workflow)
        self.workflow: tuple[tuple[str, int], ...] = self.own_workflow  # `fit` may add a validation
        self.busy: bool = False  # whether `fit`, `validate`, `test` or `predict` is under way, or a session is open
        self.running: bool = False  # whether the stage `run` has begun and not ended
        self.skipped: bool = False  # whether hooks have skipped the epoch that the workflow has begun
        self.stopping: bool = False  # whether `request_stop` was called
        self.interrupts: Interrupts = Interrupts()
        self.resumed: bool = False  # whether it was resumed from a checkpoint
        # What it works on
        self.registered: HookList = HookList()
        self.after_stage_calls: list[Callable[[], object]] = []  # the functions that `after_stage` will call
        self.loaders: dict[str, Any] = {}  # by mode
        self.data_loader: Any = None
        self.reading: Reading = Reading()
        self.batch: Any = None
        self.outputs: Any = None
        self.logs: dict[str, Any] = {}  # the newest numbers: losses, metrics, learning rates
        self.logged: dict[str, Any] = {}  # those of the iteration or the validation under way
        # Where it writes
        self.work_dir: Path | None = Path(work_dir) if work_dir is not None else None
        self.logger: logging.Logger = logging.getLogger("aspecthook.training")
        self.rank, self.world_size = rank_and_world_size()
        self.alone: bool = process_group() is None  # asked again when a run begins

    def __repr__(self) -> str:
        end = f"{self.max_epochs} epochs" if self.by_epoch else f"{self.max_iters} iterations"
        return f"<Runner of {type(self.model).__name__}, epoch {self.epoch}, iteration {self.iter} of {end}>"

    @property
    def hooks(self) -> list[Any]:
        """The hooks, in the order in which they were registered."""
        return [one.hook for one in self.registered]

    def request_stop(self) -> None:
        """End the run after this iteration."""
        self.stopping = True

    def after_stage(self, function: Callable[[], object]) -> None:
        """Call a function after the current stage and all its hooks or, outside a run, at once.

        A checkpoint that is saved then has the state with which the next stage begins, whatever the order of the hooks.
        Here, a stage is a ``train_iter``, ``train_epoch`` or ``val_epoch`` of the run; a validation that a hook calls
        inside one of them is part of it.
        """
        if self.running:
            self.after_stage_calls.append(function)
        else:
            function()

    def log(self, numbers: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Log numbers, or texts, of the iteration or the validation under way.

        From now on they are in `logs`, and in the rows of all loggers. A training row has the means over its
        iterations, weighted by their ``num_samples``. The row of a validation has the numbers that were logged in it,
        whose names begin with ``val_``. If a name is logged twice, the last value counts.

        Example:
            >>> from aspecthook.training import Hook
            >>> class Temperature(Hook):
            ...     def after_train_iter(self, runner):
            ...         runner.log(temperature=61.5)
        """
        numbers = {**(numbers or {}), **more}
        self.logs = {**self.logs, **numbers}
        self.logged.update(numbers)

    # Entry points

    def fit(self, train: object, val: object = None) -> None:
        """Train, and validate where the workflow says so, or after each epoch if it does not contain ``"val"``.

        Raises:
            TrainingError: The run cannot begin: for example, it has no end, no optimizer or no data.
        """
        if self.max_epochs is None and self.max_iters is None:
            raise TrainingError("a runner must know when to stop; give Runner(..., max_epochs=...) or max_iters=...")
        self.begin("fit", train, val)
        if replace(self.progress).advance(self.workflow, self.end, stopping=False) is None:
            self.logger.warning("%s has been made already; fit has nothing to do", repr(self))
        self.interrupts.take()
        try:
            self.run()
            self.agree_to_end()
            self.leave()
            if self.interrupts.first is not None:  # of a signal after the last epoch
                raise self.interrupts.first
            self.remove_interrupted(self.work_dir)
        except BaseException as error:
            self.fail(error, self.work_dir)

    def begin(self, who: str, train: object, val: object) -> None:
        """Begin a training, of `fit` or a session: check the data, and seed the generators of random numbers."""
        if self.busy:
            raise TrainingError(
                f"{who} was called while this runner is fitting, validating, testing or predicting; use another "
                "runner, or wait until it has ended"
            )
        if self.optimizer is None:
            raise TrainingError("a runner without an optimizer cannot train; give Runner(..., optimizer=...)")
        validates = any(mode == "val" for mode, _ in self.own_workflow)
        self.workflow = self.own_workflow if val is None or validates else (*self.own_workflow, ("val", 1))
        if val is None and validates:
            raise TrainingError("the workflow validates, and fit was given no data for it; give fit(train, val)")
        loaders = {"train": train} if val is None else {"train": train, "val": val}
        for mode, loader in loaders.items():
            check_loader(loader, f"the data for {mode}")
        self.loaders, self.stopping = loaders, False
        # A hook that failed after an iteration, or an epoch, has kept an earlier fit from counting what was complete.
        self.epoch, self.iter, self.step = self.progress.epoch, self.progress.iter, self.progress.step
        self.progress.length = length_of(train)
        self._note_length()
        if self.seed is not None and not self.resumed and not self.iter:
            self.backend.seed(self.seed)
        self.busy = True

    def validate(self, loader: object) -> dict[str, Any]:
        """Run one epoch of validation, and return the numbers of the run."""
        self._evaluated("val", loader, self.val_loop)
        return dict(self.logs)

    def test(self, loader: object) -> dict[str, Any]:
        """Run one epoch of testing, and return the numbers of the run."""
        self._evaluated("test", loader, self.test_loop)
        return dict(self.logs)

    def predict(self, loader: object) -> list[Any]:
        """Return the outputs of the model for each batch."""
        return self._evaluated("predict", loader, self.predict_loop)

    def _evaluated(self, mode: str, loader: object, loop: Callable[[], Result]) -> Result:
        """Call a loop in another mode, with data for it; then the run and each module of its model are as before."""
        check_loader(loader, f"the data for {mode}")
        kept, modes = {name: getattr(self, name) for name in _KEPT}, modes_of(self.model)
        validated = self.progress.validated  # so that this is not taken for the validation that the workflow has begun
        before, self.logged = self.logged, without_mode(mode, self.logged)
        self.loaders, self.busy = {**self.loaders, mode: loader}, True
        self.set_mode(mode)
        try:
            return loop()
        finally:
            # What the iteration under way has logged meanwhile stays, such as its time.
            self.logged = {**of_mode(mode, before), **without_mode(mode, self.logged)}
            self.set_mode(kept["mode"])
            for name, value in kept.items():
                setattr(self, name, value)
            self.progress.validated = validated
            for module, is_training in modes:
                module.training = is_training

    def set_mode(self, mode: str) -> None:
        """Switch the run and its model to a mode, and to the data for it."""
        self.mode, self.data_loader = mode, self.loaders.get(mode)
        switch = getattr(self.model, "train" if mode == "train" else "eval", None)
        if callable(switch):
            switch()

    # The stages of a training, in the order in which a step passes them

    @hookable(provides=STATE)
    def run(self) -> None:
        """Train, from beginning to end."""
        self.claim_folder()
        self.running = True
        self.train_loop()
        self.running = False

    @hookable(provides=STATE)
    def train_loop(self) -> None:
        """Train and validate as the workflow says, until the run ends."""
        while (mode := self.next_epoch()) is not None:
            self.set_mode(mode)
            if mode == "train":
                self.train_epoch()
            else:
                self.val_loop()
            self.count_epoch(mode)

    @hookable(provides=STATE)
    def train_epoch(self) -> None:
        """Train on what is left of one pass over the data."""
        batches = self.batches()
        while self.next_iteration(batches):
            pass

    @hookable(provides=STATE)
    def train_iter(self, batch: Any) -> Any:
        """Train on one batch: forward, backward and, if a group of batches is complete, a step of the optimizer."""
        self.batch = batch
        loss = self.forward(batch)
        size, complete = (1, True) if self.accumulate == 1 else self.group()
        self.backward(loss / size if size > 1 else loss)
        progress = self.progress
        if complete:
            self._take_step()
        else:
            progress.accumulated = True
        progress.iter, progress.inner_iter = self.iter + 1, self.inner_iter + 1
        return self.outputs

    @hookable(provides=STATE)
    def forward(self, batch: Any) -> Any:
        """Return the loss of a batch; put the other outputs and numbers of the model into ``outputs`` and ``logs``."""
        model = self.model
        step: Callable[..., Any]
        given: tuple[Any, ...]
        if model is not self.plain_model and hasattr(model, "train_step"):
            step, given = model.train_step, (batch, self.optimizer)
        else:  # it is not asked again: a PyTorch module makes and raises an error for what it does not have
            self.plain_model, step, given = model, computed, (model, batch, self.loss)
        self.outputs = step(*given) if self.amp is None else self.amp.autocast()(step)(*given)
        numbers = numbers_of(self.outputs)
        self.logs = {**self.logs, **numbers}  # as `log` does; a call more in each step costs more than these lines
        self.logged.update(numbers)
        return self.outputs["loss"]

    @hookable(provides=STATE)
    def backward(self, loss: Any) -> None:
        """Add the gradients of a loss to those of the parameters."""
        if not hasattr(loss, "backward"):
            raise TrainingError(
                f"the loss is {described(loss)}, which has no backward method; a value that a hook returns in place of "
                "the loss must have one too"
            )
        (loss if self.amp is None else self.amp.scale(loss)).backward()

    @hookable(provides=STATE)
    def optimizer_step(self) -> None:
        """Update the parameters with their gradients."""
        if self.amp is None:
            self.optimizer.step()
        else:
            self.amp.step(self.optimizer)

    def _take_step(self) -> None:
        """Call the optimizer step for the gradients of a group of batches."""
        if self.amp is not None:
            self.amp.unscale_(self.optimizer)
        self.optimizer_step()
        if self.amp is not None:
            self.amp.update()
        self.optimizer.zero_grad()
        self.progress.step = self.step + 1
        self.progress.accumulated = False

    # The stages of a validation, a test and a prediction

    @hookable(provides=STATE)
    def val_loop(self) -> None:
        """Validate once."""
        self.val_epoch()

    @hookable(provides=STATE)
    def val_epoch(self) -> None:
        """Validate on one pass over the data."""
        self.skipped = False
        self._evaluate("val", self.val_iter)
        self.progress.validated += 1

    @hookable(provides=STATE)
    def val_iter(self, batch: Any) -> Any:
        """Validate on one batch."""
        self.outputs = evaluated(self.model, batch, self.optimizer, self.loss)
        return self.outputs

    @hookable(provides=STATE)
    def test_loop(self) -> None:
        """Test once."""
        self.test_epoch()

    @hookable(provides=STATE)
    def test_epoch(self) -> None:
        """Test on one pass over the data."""
        self._evaluate("test", self.test_iter)

    @hookable(provides=STATE)
    def test_iter(self, batch: Any) -> Any:
        """Test on one batch."""
        self.outputs = evaluated(self.model, batch, self.optimizer, self.loss)
        return self.outputs

    @hookable(provides=STATE)
    def predict_loop(self) -> list[Any]:
        """Predict once."""
        return self.predict_epoch()

    @hookable(provides=STATE)
    def predict_epoch(self) -> list[Any]:
        """Predict on one pass over the data."""
        predictions: list[Any] = []
        self._evaluate("predict", lambda batch: predictions.append(self.predict_iter(batch)))
        return predictions

    @hookable(provides=STATE)
    def predict_iter(self, batch: Any) -> Any:
        """Return the outputs of the model for one batch."""
        self.outputs = self.model(inputs_of(batch))
        return self.outputs

    def _evaluate(self, mode: str, step: Callable[[Any], Any]) -> None:
        """Call a step for each batch of one pass, without gradients, and log the means of the model's numbers."""
        batches = enumerate(map(self.backend.mover(self.model), self.data_loader))
        means, self.inner_iter = Means(), -1
        with self.backend.no_grad():
            for self.inner_iter, self.batch in batches:
                means.add(step(self.batch))
        if self.inner_iter < 0:
            raise self._no_batches()
        if is_divided(self.data_loader):
            means = Means(*all_gather(means.totals))
        self.log({f"{mode}_{name}": mean for name, mean in means.now().items()})

    # What a session does as `fit` does, and what counts

    @property
    def end(self) -> float:
        """The number of epochs, or of iterations, to train; infinity if only a hook can end the run."""
        end = self.max_epochs if self.by_epoch else self.max_iters
        return inf if end is None else end

    def next_epoch(self) -> str | None:
        """Return the mode of the next epoch, or None if the run is over."""
        self.skipped = True
        return self.progress.advance(self.workflow, self.end, stopping=self.stopping)

    def validation_follows(self) -> bool:
        """Whether the workflow validates before it trains again or ends, for hooks at the end of an epoch."""
        return replace(self.progress).advance(self.workflow, self.end, stopping=self.stopping) == "val"

    def batches(self) -> Iterator[Any]:
        """Begin or continue an epoch, and return those of its batches that the run has not been trained on."""
        self.skipped = False
        goes_on, self.progress.unfinished = self.progress.unfinished, 1
        if goes_on and self._is_cut_short():  # only the hooks after the epoch are left
            return iter(())
        batches = self.reading.begin(self.data_loader, self.progress)
        self._note_length()
        return map(self.backend.mover(self.model), batches)

    def _is_cut_short(self) -> bool:
        """Whether an epoch ends before its data do."""
        progress = self.progress
        row_ends = not self.by_epoch and progress.iter >= progress.row_end(self.workflow, self.end)
        return (row_ends or self.stopping) and progress.inner_iter != progress.length

    def group(self) -> tuple[int, bool]:
        """Return how many batches share a step with the one under way, and whether it is the last of them."""
        size, place = self.accumulate, self.iter % self.accumulate
        if self.max_iters is not None:  # the last group of a run may be smaller
            size = max(1, min(size, self.max_iters - (self.iter - place)))
        return size, place + 1 >= size

    def next_iteration(self, batches: Iterator[Any]) -> bool:
        """Train on the next batch of an epoch, count the iteration, and return whether the epoch continues after it.

        `train_epoch` and sessions pass an epoch by this step. It is no generator, as it calls hooks, a StopIteration of
        which must reach the caller unchanged: one that leaves a generator becomes a RuntimeError (PEP 479).
        """
        batch = next(batches, _END)
        if batch is not _END:
            self.inner_iter, self.batch = self.progress.inner_iter, batch
            self.train_iter(batch)
            progress = self.progress
            # A hook may have skipped this iteration. If its batch was the last of a group, the gradients of the other
            # batches still wait for the optimizer's step.
            if progress.accumulated and self.group()[1]:
                self._take_step()
            progress.iter, progress.inner_iter = self.iter + 1, self.inner_iter + 1
            while self.after_stage_calls:
                self.after_stage_calls.pop(0)()
            self.iter, self.step, self.logged = progress.iter, progress.step, {}
            if progress.inner_iter != progress.length:
                self.agree_to_end()
                if self.interrupts.came is not None:  # the epoch goes on when the run is resumed
                    return False
                if not self._is_cut_short():
                    return True
        elif self.progress.inner_iter == 0:
            raise self._no_batches()
        self.progress.unfinished = 0
        if not self._is_cut_short():  # a pass over the data is complete
            self.progress.epoch, self.progress.inner_iter = self.epoch + 1, 0
        return False

    def _no_batches(self) -> TrainingError:
        return TrainingError(
            f"the data for {self.mode} had no batches in epoch {self.epoch + 1}: {brief(self.data_loader)} is empty, "
            "or an iterator that has only one pass; give a list or a loader"
        )

    def count_epoch(self, mode: str) -> None:
        """Count the epoch that `next_epoch` asked for, do what was put off until its end, and raise a noted signal."""
        progress = self.progress
        if self.skipped and mode == "val":
            progress.validated += 1
        elif self.skipped and self.by_epoch:  # otherwise it would be the next one forever
            progress.epoch, progress.inner_iter, progress.unfinished = self.epoch + 1, 0, 0
        elif self.skipped:
            raise TrainingError(
                "a hook skipped train_epoch in a run that counts iterations, so the run would never end; skip "
                "train_iter in the hook, or call request_stop()"
            )
        while self.after_stage_calls:
            self.after_stage_calls.pop(0)()
        self.logged = {}
        self.epoch = progress.epoch
        self.agree_to_end()
        if self.interrupts.came is not None:
            raise self.interrupts.came

    def _note_length(self) -> None:
        """Note what the length of the epoch that begins or continues means for the number of iterations.

        The epochs before, and the rest of this one, may have been divided into other batches than those to come, which
        are assumed to be as long as the data are now. Each may have another length, and notes it when it begins.
        """
        length, later = self.progress.length, length_of(self.loaders["train"])
        if self.by_epoch and self.max_epochs is not None:
            before, left = self.iter - self.progress.inner_iter, self.max_epochs - self.epoch
            self.max_iters = None
            if length is not None and later is not None:
                self.max_iters = before + length + (left - 1) * later if left > 0 else before

    def agree_to_end(self) -> None:
        """End the run on all ranks if a hook or a signal ends it on one: the others would wait for that one forever."""
        interrupts = self.interrupts
        if self.alone:
            interrupts.came = interrupts.noted
            return
        most = highest(2 if interrupts.noted is not None else int(self.stopping))
        self.stopping = self.stopping or most > 0
        if most > 1:
            interrupts.came = interrupts.noted or Terminated("another rank was interrupted")

    # Checkpoints

    @hookable(provides=STATE)
    def save_checkpoint(self, path: str | os.PathLike[str]) -> Path:
        """Save everything that is needed to resume the run, and return the path.

        All ranks must call it together: a checkpoint contains the state of each rank, and rank 0 writes it.
        """
        return self.write_checkpoint(path_of("save_checkpoint", path), self.state_dict())

    @hookable(provides=STATE)
    def write_checkpoint(self, path: Path, checkpoint: dict[str, Any]) -> Path:
        """Write a checkpoint; a pre hook may change its content."""
        if self.rank == 0:
            save(path, checkpoint)
        return path

    @hookable(provides=STATE)
    def load_checkpoint(self, path: str | os.PathLike[str], *, resume: bool = False, other_run: bool = False) -> None:
        """Load the model's parameters from a file; with `resume`, everything else too: see `resume`."""
        self.restore(load(path_of("load_checkpoint", path)), resume=resume, other_run=other_run)

    def resume(self, path: str | os.PathLike[str], *, other_run: bool = False) -> None:
        """Continue from a checkpoint, as if the run had never ended.

        Args:
            path: The file.
            other_run: Whether to continue the run of the checkpoint even if this runner, or its ``work_dir``, belongs
                to another run. The checkpoints of the other run are then moved: see `claim_folder`.

        Raises:
            TrainingError: The checkpoint belongs to another run, or does not fit the model, the optimizer or the hooks.
                Then nothing is changed.
        """
        file = path_of("resume", path, if_none="; newest(folder) returns None if the folder has no checkpoint")
        self.load_checkpoint(file, resume=True, other_run=other_run)

    @hookable(provides=STATE)
    def restore(self, checkpoint: dict[str, Any], *, resume: bool = False, other_run: bool = False) -> None:
        """Restore the state that `state_dict` returned; a pre hook may change it first."""
        parts = self._parts()
        if "model" not in checkpoint:
            found = ", ".join(map(brief, checkpoint)) or "nothing"
            raise TrainingError(f"this is not a checkpoint of a run: it has no 'model'; what it has: {found}")
        if not resume:
            load_parts({"model": parts["model"]}, checkpoint, self.registered)
            return
        if not other_run:
            check_identity(checkpoint, self.identity if self.progress.iter else None, self.work_dir)
        progress = read(checkpoint, "progress", self.progress.loaded)
        logs, reading = read(checkpoint, "logs", dict[str, Any]), read(checkpoint, "data", Reading)
        load_parts(parts, checkpoint, self.registered)
        progress.accumulated = bool(checkpoint["gradients"])
        self.progress, self.reading, self.logs, self.logged = progress, reading, logs, {}
        self.epoch, self.iter = progress.epoch, progress.iter
        self.step, self.inner_iter = progress.step, progress.inner_iter
        self.identity, self.resumed = identity_of(checkpoint) or self.identity, True

    def state_dict(self) -> dict[str, Any]:
        """Return everything that is needed to resume the run: numbers, strings, lists, dicts and copies of arrays."""
        parts = {name: state() for name, (state, _) in self._parts().items()}
        return {
            "meta": {"identity": self.identity},
            **parts,
            "progress": self.progress.state_dict(),
            "data": self.reading.state_of(self.loaders.get("train"), self.progress),
            "logs": {name: value for name, value in self.logs.items() if isinstance(value, (int, float, str))},
            "random": all_gather(parts["random"][0]),
        }

    def _parts(self) -> dict[str, Part]:
        """Return the parts that a restore changes where they are, by their names in checkpoints, in the order of it."""
        backend, model, optimizer, amp = self.backend, self.model, self.optimizer, self.amp

        def load_random(states: Sequence[Mapping[str, Any]]) -> None:
            backend.set_rng_state(states[self.rank % len(states)])  # if there were fewer ranks, several have the same

        parts: dict[str, Part] = {"model": (partial(backend.state, model), partial(backend.load_state, model))}
        if optimizer is not None:
            state, load = backend.optimizer_state, backend.load_optimizer_state
            parts["optimizer"] = partial(state, optimizer), partial(load, optimizer)
        if amp is not None:
            parts["amp"] = amp.state_dict, amp.load_state_dict
        load_gradients = partial(backend.load_gradients, model)
        return {
            **parts,
            "gradients": (lambda: backend.gradients(model) if self.progress.accumulated else {}, load_gradients),
            "hooks": (self.registered.states, partial(self.registered.load, logger=self.logger)),
            "random": (lambda: [backend.rng_state()], load_random),
        }

    def claim_folder(self) -> Path | None:
        """Make the ``work_dir`` the folder of this run; each run does so when it begins.

        Checkpoints of another run, and those later than the one that this run was resumed from, are moved to the
        subfolder ``run.1``, which is returned.
        """
        self.alone = process_group() is None
        self.identity = broadcast(self.identity)
        if self.work_dir is None or self.rank != 0:
            return None
        moved_to = claim_folder(self.work_dir, self.identity, resumed=self.resumed, done=self.progress.iter)
        if moved_to is not None:
            what = "%s held checkpoints that this run does not continue, which were moved to %s"
            self.logger.info(what, self.work_dir, moved_to)
        return moved_to

    # The end of a run

    def leave(self) -> None:
        """Restore the signal handlers, and reset the attributes that only a run sets."""
        self.interrupts.release()
        self.busy = self.running = False
        self.after_stage_calls.clear()
        self.logged = {}

    def fail(self, error: BaseException, folder: Path | None) -> NoReturn:
        """Leave a run that an error has ended, and raise it; one that a signal has ended is saved in a folder first."""
        cause = self.interrupts.first or error
        try:
            if folder is not None and isinstance(cause, INTERRUPTS):
                self._save_interrupted(error, folder)
        finally:
            self.leave()
        self.interrupts.end_process(cause)
        if cause is not error:
            raise cause from error  # a hook failed while the interrupted stages ended
        raise error

    def _save_interrupted(self, error: BaseException, folder: Path) -> None:
        if process_group() is not None and error is not self.interrupts.came:
            # The other ranks may be elsewhere, and a checkpoint needs all of them.
            self.logger.error("interrupted within iteration %d, so the run could not be saved", self.iter + 1)
            return
        if self.interrupts.first not in (None, error):
            self.logger.warning("a second signal ended a stage at once, so what is saved now does not resume exactly")
        try:
            path = self.save_checkpoint(own_path(folder, _INTERRUPTED))
            self.logger.warning("interrupted after iteration %d; saved %s", self.progress.iter, path)
        except Exception:  # logged, since the interrupt is what the caller gets
            self.logger.exception("interrupted after iteration %d; the run could not be saved", self.iter)

    def remove_interrupted(self, folder: Path | None) -> None:
        """Remove the checkpoint of an earlier interruption: the run that was resumed from it has finished."""
        if folder is not None and self.rank == 0:
            with suppress(OSError):  # the run is complete all the same
                (folder / _INTERRUPTED).unlink(missing_ok=True)

    # Hooks

    def register_hook(self, hook: Any, priority: int | str | None = None, *, name: str | None = None) -> Any:
        """Add the methods of a hook to the stages that they are named after, and return the hook.

        Args:
            hook: A `Hook`, a hook of another system, or a config such as ``{"type": "EMAHook", "momentum": 0.1,
                "priority": "LOW"}``, which may also have a ``"name"``.
            priority: A number from 0, which is first, to 100, or a name such as ``"LOW"``. It overrides the hook's own
                priority. Hooks of the same priority are called in the order in which they were registered.
            name: The name under which checkpoints keep the hook's state; by default that of its class. If two hooks of
                one class have a state, the second one needs a name.

        Raises:
            HookSignatureError: A method misspells a stage, or asks for a parameter that its stage does not
                have.
            HookOptionError: There is no such priority, or another hook already has the name.
            HookTypeError: The priority is neither an int nor a string, or the name is not a string.
            ConfigError: A config cannot be built.
        """
        if isinstance(hook, (str, Mapping)):
            hook, own_name = import_module("aspecthook.training.hooks._hook").build_hook(hook)
            name = own_name if name is None else name
        if isinstance(hook, type):
            raise HookTypeError(f"register_hook was given the class {hook.__name__}; give a hook: {hook.__name__}(...)")
        checked = self.registered.name_of(hook, name)
        handles = attach(self, hook, bindings_of(hook, self), priority)
        self.registered.append(Registered(hook, checked, handles))
        return hook

    def remove_hook(self, hook: object) -> None:
        """Remove the methods of a hook from the stages; a stage that has begun still calls them.

        Raises:
            TrainingError: The hook is not registered.
        """
        found = next((one for one in self.registered if one.hook is hook), None)
        if found is None:
            raise TrainingError(f"this {type(hook).__name__} is not registered on this runner, and cannot be removed")
        self.registered.remove(found)
        for handle in found.handles:
            handle.remove()
        for other in self.hooks:
            if getattr(other, "is_unused", bool)():  # the lifecycle of callbacks, which leaves with the last of them
                self.remove_hook(other)

    def register_training_hooks(
        self,
        lr_config: Any = None,
        optimizer_config: Any = None,
        checkpoint_config: Any = None,
        log_config: Any = None,
        momentum_config: Any = None,
        timer_config: Any = "IterTimerHook",
        custom_hooks: Iterable[Any] | None = None,
    ) -> None:
        """Register the hooks of a usual run, with mmcv's names and priorities; all of them, or none if one is wrong.

        Each argument is a config, a hook, or None for no such hook. The priorities are mmcv's, unless a config has
        another ``"priority"``: 10 for the learning rate, 30 for the momentum, 40 for the optimizer, 50 for checkpoints,
        70 for the timer and 90 for the loggers. `custom_hooks` is a list of further hooks, each with its own priority.

        Raises:
            ConfigError: A config cannot be built.
        """
        register = import_module("aspecthook.training.schedules._hooks").register_training_hooks
        usual = lr_config, momentum_config, optimizer_config, checkpoint_config, timer_config
        register(self, usual, log_config, custom_hooks)
