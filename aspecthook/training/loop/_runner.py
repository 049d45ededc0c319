"""The runner: a training loop whose every step is a mount point.

The methods of `Runner` that are mount points are the stages, and `Run`, on which it is built, has what a run is made of
and the rules of what it does next. Imports run one way: from the hooks of all systems to this module, and from here to
those of the loop.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from aspecthook import hookable
from aspecthook._errors import HookTypeError, brief, described
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import all_gather, broadcast, process_group
from aspecthook.training.checkpoint._files import own_path, path_of
from aspecthook.training.checkpoint._folder import load, take_folder
from aspecthook.training.checkpoint._format import save

from . import _state
from ._dialect import STATE, attach, bindings_of
from ._interrupts import INTERRUPTS
from ._model import Means, evaluated_on, inputs_of, of_mode, trained_on, without_mode
from ._reading import check_loader, is_divided, length_of
from ._run import Registered, Run, name_of

_INTERRUPTED = "interrupted.ckpt"
# What a validation inside a stage changes.
_KEPT = ("mode", "data_loader", "inner_iter", "batch", "outputs", "loaders", "predictions")


# Any, in what follows: models, losses, batches and loaders are those of any library; a config of hooks is a string, a
# mapping, a list of these, a hook, or None.
class Runner(Run):
    """A training run of a model; hooks on its stages can see and change everything.

    Its stages are methods, and each is a mount point: ``run``; ``train_loop``, ``train_epoch``, ``train_iter``, and the
    same for ``val``, ``test`` and ``predict``; ``forward``, ``backward``, ``optimizer_step``; ``save_checkpoint``,
    ``write_checkpoint``, ``load_checkpoint``, ``restore``.

    Args:
        model: A model with mm's ``train_step(batch, optimizer)`` and ``val_step``, which return ``loss``, ``log_vars``
            and ``num_samples``; or any callable, with a `loss`.
        optimizer: It has ``param_groups``, ``step`` and ``zero_grad``. Not needed to validate, test and predict.
        loss: Called with the model's outputs and the targets; returns an object that has ``backward``.
        device: Where a PyTorch model is trained, ``"cpu"`` or ``"cuda:1"``; by default a GPU if there is one. A model
            that was moved to a device already stays there.
        work_dir: The folder that the run writes to.
        max_epochs: How many epochs to train; give this or `max_iters`.
        max_iters: How many iterations to train.
        workflow: Pairs of a mode and a number of epochs (of iterations with `max_iters`), repeated until the end.
        accumulate: How many batches share one step of the optimizer. The loss of each is divided by their number; the
            last group of a run may be smaller.
        amp: Compute in mixed precision; for PyTorch.
        seed: Seeds the generators of Python, NumPy and PyTorch when the run begins.

    Example:
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> model = Linear(1, 1)
        >>> runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=2)
    """

    # What the stages assign; a type checker takes an assignment in a subclass for a declaration of its own.
    batch: Any
    busy: bool
    epoch: int
    identity: str
    inner_iter: int
    iter: int
    loaders: dict[str, Any]
    logged: dict[str, Any]
    logs: dict[str, Any]
    outputs: Any
    predictions: list[Any]
    running: bool
    step: int
    stopping: bool
    workflow: tuple[tuple[str, int], ...]

    __slots__ = ()

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

    # Hooks

    def register_hook(self, hook: Any, priority: int | str | None = None, *, name: str | None = None) -> Any:
        """Add the methods of a hook to the stages that they are named after, and return the hook.

        Args:
            hook: A `Hook`, or the config of one, ``{"type": "EMAHook", "momentum": 0.1, "priority": "LOW"}``, which may
                have a ``"name"`` too.
            priority: From 0, which is first, to 100, or a name; wins over the hook's own. Hooks of one priority keep
                the order in which they were registered.
            name: What the hook is called in checkpoints, so that a resumed run gives it its own state; otherwise its
                class. A second hook of a class with a state needs one.

        Raises:
            HookSignatureError: A method is a misspelt stage, or asks for what its stage does not offer.
            HookOptionError: The priority is out of range, or not the name of one; the name is taken; or another hook
                with a state has the same class, and neither has a name.
            HookTypeError: The priority is neither an int nor a string, or the name is not a string.
            ConfigError: A config cannot be built.
        """
        if isinstance(hook, (str, Mapping)):
            hook, own_name = import_module("aspecthook.training.hooks._hook").build_hook(hook)
            name = own_name if name is None else name
        if isinstance(hook, type):
            raise HookTypeError(f"register_hook was given the class {hook.__name__}; give a hook: {hook.__name__}(...)")
        name = name_of(self, hook, name)
        bindings = bindings_of(hook, self)  # which may register another hook, such as the lifecycle of callbacks
        self.registered.append(Registered(hook, name, attach(self, hook, bindings, priority, "training hook")))
        return hook

    def remove_hook(self, hook: object) -> None:
        """Remove the methods of a hook from the stages; a stage that has begun still calls them.

        Raises:
            TrainingError: It is not registered.
        """
        for place in reversed(range(len(self.registered))):
            if self.registered[place].hook is hook:
                for handle in self.registered.pop(place).handles:
                    handle.remove()
                return
        names = ", ".join(type(one).__name__ for one in self.hooks) or "none"
        raise TrainingError(
            f"this {type(hook).__name__} is not registered on this runner, and cannot be removed; hooks: {names}"
        )

    def register_training_hooks(
        self,
        lr_config: Any = None,
        optimizer_config: Any = None,
        checkpoint_config: Any = None,
        log_config: Any = None,
        momentum_config: Any = None,
        timer_config: Any = "IterTimerHook",
        custom_hooks: Any = None,
    ) -> None:
        """Register the hooks of a usual run, with mmcv's names and priorities; all of them, or none if one is wrong.

        Each is a config, a hook, or None for no such hook. A ``"priority"`` in a config wins over mmcv's: 10 for the
        learning rate, 30 for the momentum, 40 for the optimizer, 50 for checkpoints, 70 for the timer and 90 for the
        loggers. `custom_hooks` is a list of others, each with a priority of its own.

        Raises:
            ConfigError: A config cannot be built.
        """
        register = import_module("aspecthook.training.schedules._hooks").register_training_hooks
        usual = lr_config, momentum_config, optimizer_config, checkpoint_config, timer_config
        register(self, usual, log_config, custom_hooks)

    # Entry points

    def fit(self, train: object, val: object = None) -> None:
        """Train, and validate where the workflow says so; without "val" in the workflow, after each epoch.

        Raises:
            TrainingError: There is nothing to do, or it cannot be done.
        """
        self.check_idle("fit")
        if self.max_epochs is None and self.max_iters is None:
            raise TrainingError("a runner must know when to stop; give Runner(..., max_epochs=...) or max_iters=...")
        self.prepare(train, val)
        if self.trained >= self.end:
            self.logger.warning("%s has been made already; fit has nothing to do", repr(self))
        self.busy = True
        self.interrupts.take()
        try:
            self.run()
            self.agree_to_end()
            self.interrupts.raise_noted()  # of a signal after the last epoch
            self.remove_interrupted(self.work_dir)
        except BaseException as error:
            self.fail(error, self.work_dir)
        self.leave()
        if self.interrupts.came is not None:  # since the run has last looked
            self.fail(self.interrupts.came, None)

    def prepare(self, train: object, val: object) -> None:
        """Check the data, and seed the generators of random numbers: for `fit`, and for a session."""
        if self.optimizer is None:
            raise TrainingError("a runner without an optimizer cannot train; give Runner(..., optimizer=...)")
        validates = any(mode == "val" for mode, _ in self.own_workflow)
        self.workflow = self.own_workflow if val is None or validates else (*self.own_workflow, ("val", 1))
        if val is None and validates:
            raise TrainingError("the workflow validates, and fit was given no data for it; give fit(train, val)")
        loaders = {"train": train} if val is None else {"train": train, "val": val}
        for mode, loader in loaders.items():
            check_loader(loader, f"the data for {mode}")
        self.loaders = loaders
        self.stopping = False
        self.note_length(length_of(train), length_of(train))
        if self.seed is not None and not self.resumed and not self.iter:
            random.seed(self.seed)
            self.backend.seed(self.seed)

    def validate(self, loader: object) -> dict[str, Any]:
        """Run one epoch of validation, and return the numbers of the run."""
        with self._switched("val", loader):
            self.val_loop()
        return dict(self.logs)

    def test(self, loader: object) -> dict[str, Any]:
        """Run one epoch of testing, and return the numbers of the run."""
        with self._switched("test", loader):
            self.test_loop()
        return dict(self.logs)

    def predict(self, loader: object) -> list[Any]:
        """Return what the model computes for each batch."""
        with self._switched("predict", loader):
            self.predictions = []
            self.predict_loop()
            return self.predictions

    @contextmanager
    def _switched(self, mode: str, loader: object) -> Generator[None]:
        """Switch to a mode and its data inside ``with``; inside a stage, the run is as it was afterwards.

        So is each module of the model, some of which may be in another mode than the model.
        """
        check_loader(loader, f"the data for {mode}")
        inside = self.busy
        kept = {name: getattr(self, name) for name in _KEPT} if inside else {"busy": False}
        wholes: list[Any] = [self.model, *getattr(self.model, "__dict__", {}).values()] if inside else []
        modules = [module for whole in wholes if hasattr(whole, "named_modules") for _, module in whole.named_modules()]
        training = [bool(module.training) for module in modules]
        # So that this is not taken for the validation that the workflow has begun.
        pending, self.progress.pending_epoch = self.progress.pending_epoch, None
        before, self.logged = self.logged, without_mode(mode, self.logged)
        self.loaders, self.busy = {**self.loaders, mode: loader}, True
        self.set_mode(mode)
        try:
            yield
        finally:
            # What the iteration under way has logged meanwhile stays, such as its time.
            self.logged = {**of_mode(mode, before), **without_mode(mode, self.logged)}
            for name, value in kept.items():
                setattr(self, name, value)
            self.progress.pending_epoch = pending
            if inside:
                self.switch_model()
            for module, was_training in zip(modules, training, strict=True):
                module.training = was_training

    # Stages

    @hookable(provides=STATE)
    def run(self) -> None:
        """Train, from beginning to end."""
        self.take_folder()
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
    def val_loop(self) -> None:
        """Validate once."""
        self.val_epoch()

    @hookable(provides=STATE)
    def test_loop(self) -> None:
        """Test once."""
        self.test_epoch()

    @hookable(provides=STATE)
    def predict_loop(self) -> None:
        """Predict once."""
        self.predict_epoch()

    @hookable(provides=STATE)
    def train_epoch(self) -> None:
        """Train on what is left of one pass over the data."""
        for batch in self.batches("train"):
            self.train_iter(batch)
            if self.count_iteration():
                break

    @hookable(provides=STATE)
    def val_epoch(self) -> None:
        """Validate on one pass over the data."""
        # Whether it is a validation of the workflow, and not one that a hook or a user makes.
        counts = self.progress.pending_epoch == "val"
        if counts:
            self.progress.pending_epoch = None
        self._evaluate("val", self.val_iter)
        if counts:
            self.interrupts.patience = 2
            self.progress.validated += 1

    @hookable(provides=STATE)
    def test_epoch(self) -> None:
        """Test on one pass over the data."""
        self._evaluate("test", self.test_iter)

    @hookable(provides=STATE)
    def predict_epoch(self) -> None:
        """Predict on one pass over the data."""
        self._evaluate("predict", lambda batch: self.predictions.append(self.predict_iter(batch)))

    @hookable(provides=STATE)
    def train_iter(self, batch: Any) -> Any:
        """Train on one batch: forward, backward and, if a group of batches is complete, a step of the optimizer."""
        self.batch = batch
        loss = self.forward(batch)
        size, complete = self.group()
        self.backward(loss / size if size > 1 else loss)
        progress = self.progress
        if complete:
            self._take_step()
        else:
            progress.accumulated = True
        progress.iter, progress.inner_iter = self.iter + 1, self.inner_iter + 1
        return self.outputs

    @hookable(provides=STATE)
    def val_iter(self, batch: Any) -> Any:
        """Validate on one batch."""
        self.batch = batch
        self.outputs = evaluated_on(self, batch)
        return self.outputs

    @hookable(provides=STATE)
    def test_iter(self, batch: Any) -> Any:
        """Test on one batch."""
        self.batch = batch
        self.outputs = evaluated_on(self, batch)
        return self.outputs

    @hookable(provides=STATE)
    def predict_iter(self, batch: Any) -> Any:
        """Return what the model computes for one batch."""
        self.batch = batch
        self.outputs = self.model(inputs_of(batch))
        return self.outputs

    @hookable(provides=STATE)
    def forward(self, batch: Any) -> Any:
        """Return the loss of a batch, and set ``outputs`` and ``logs`` to what else the model computes."""
        with nullcontext() if self.amp is None else self.amp.autocast():
            self.outputs, numbers = trained_on(self, batch)
        self.log(numbers)
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
        """Change the parameters by their gradients."""
        if self.amp is None:
            self.optimizer.step()
        else:
            self.amp.step(self.optimizer)

    def _take_step(self) -> None:
        """Call the optimizer step for the gradients of a group of batches."""
        if self.amp is not None:
            self.amp.unscale(self.optimizer)
        self.optimizer_step()
        self.optimizer.zero_grad()
        self.progress.step = self.step + 1
        self.progress.accumulated = False

    def _evaluate(self, mode: str, step: Callable[[Any], Any]) -> None:
        """Call a step for each batch of one pass, without gradients, and log the means of the model's numbers."""
        means = Means()
        with self.backend.no_grad():
            for batch in self.batches(mode):
                means.add(step(batch))
        if is_divided(self.data_loader):
            means = Means.of_all(all_gather(means.totals))
        self.log({f"{mode}_{name}": mean for name, mean in means.now().items()})

    # What follows a stage, in a session too. What counts is no part of the iterator `batches`: it calls hooks, a
    # StopIteration of which must reach the caller unchanged, and Python turns one that leaves a generator into a
    # RuntimeError (PEP 479).

    def count_epoch(self, mode: str) -> None:
        """Count the epoch that `next_epoch` asked for, do what was put off until its end, and raise a noted signal."""
        progress = self.progress
        if progress.pending_epoch is not None:  # a hook has skipped it
            progress.pending_epoch = None
            if mode == "val":
                progress.validated += 1
            elif self.by_epoch:
                self.end_pass()  # otherwise it would be the next one forever
            else:
                raise TrainingError(
                    "a hook skipped train_epoch in a run that counts iterations, so the run would never end; skip "
                    "train_iter in the hook, or call request_stop()"
                )
        while self.after_stage_calls:
            self.after_stage_calls.pop(0)()
        self.interrupts.patience, self.logged = 1, {}
        self.epoch = progress.epoch
        self.agree_to_end()
        self.interrupts.raise_noted()
        if mode == "train" and self.row_end(progress) == inf and hasattr(self.loaders["train"], "__next__"):
            self.request_stop()  # the data are an iterator, which has only one pass

    def batches(self, mode: str) -> Iterator[Any]:
        """Yield the batches of one pass over the data, but those that a resumed run has seen, and count the pass."""
        loader = self.data_loader
        start = self.progress.inner_iter if mode == "train" else 0
        if mode == "train":
            self.progress.pending_epoch = None
            loader, length = self.reading.begin(loader, self.epoch, start)
            self.note_length(length, length_of(self.data_loader))
        empty, move = True, self.backend.mover(self.model)
        for self.inner_iter, batch in enumerate(loader, start):
            self.batch = move(batch)
            yield self.batch
            empty = False
        if empty and not start:
            raise TrainingError(
                f"the data for {mode} had no batches in epoch {self.epoch + 1}: {brief(self.data_loader)} is empty, or "
                "an iterator that has only one pass; give a list or a loader"
            )
        if mode == "train":
            self.end_pass()

    def count_iteration(self) -> bool:
        """Count an iteration, and return whether to leave the epoch after it."""
        progress = self.progress
        # A hook may have skipped this iteration. If its batch was the last of a group, the gradients of the other
        # batches still wait for the optimizer's step.
        if progress.accumulated and self.group()[1]:
            self._take_step()
        progress.iter, progress.inner_iter = self.iter + 1, self.inner_iter + 1
        while self.after_stage_calls:
            self.after_stage_calls.pop(0)()
        self.iter, self.step, self.logged = progress.iter, progress.step, {}
        if progress.inner_iter == progress.length:
            self.end_pass()
            return True
        self.agree_to_end()
        row_ends = not self.by_epoch and self.iter >= self.row_end(progress)
        return row_ends or self.stopping or self.interrupts.came is not None

    # Checkpoints

    @hookable(provides=STATE)
    def save_checkpoint(self, path: str | os.PathLike[str]) -> Path:
        """Save everything that is needed to resume the run, and return the path.

        Several ranks call it together, since a checkpoint has a state of each, and rank 0 writes it.
        """
        return self.write_checkpoint(path_of("save_checkpoint", path), self.state_dict())

    @hookable(provides=STATE)
    def write_checkpoint(self, path: Path, checkpoint: dict[str, Any]) -> Path:
        """Write a checkpoint; a pre hook may change what is written."""
        if self.rank == 0:
            save(path, checkpoint)
        return path

    @hookable(provides=STATE)
    def load_checkpoint(self, path: str | os.PathLike[str], *, resume: bool = False, other_run: bool = False) -> None:
        """Load the model's parameters from a file; with `resume`, everything else too: see `resume`."""
        self.restore(load(path_of("load_checkpoint", path)), resume=resume, other_run=other_run)

    @hookable(provides=STATE)
    def restore(self, checkpoint: dict[str, Any], *, resume: bool = False, other_run: bool = False) -> None:
        """Restore what `state_dict` has returned; a pre hook may change it."""
        _state.restore(self, checkpoint, resume=resume, other_run=other_run)

    def resume(self, path: str | os.PathLike[str], *, other_run: bool = False) -> None:
        """Continue from a checkpoint, as if the run had never ended.

        Args:
            path: The file.
            other_run: Continue the run of the checkpoint even if this runner, or its ``work_dir``, belongs to another
                run. The checkpoints of that one are then set aside: see `take_folder`.

        Raises:
            TrainingError: The checkpoint is that of another run, or of other parts; nothing was changed.
        """
        file = path_of("resume", path, if_none="; newest(folder) returns None if the folder has no checkpoint")
        self.load_checkpoint(file, resume=True, other_run=other_run)

    def take_folder(self) -> Path | None:
        """Make the ``work_dir`` the folder of this run; each run does so when it begins.

        Checkpoints in it that this run does not continue, those of another run or after the one that it was resumed
        from, are moved to ``run.1`` inside, and that folder is returned.
        """
        self.identity = broadcast(self.identity)
        if self.work_dir is None or self.rank != 0:
            return None
        aside = take_folder(self.work_dir, self.identity, resumed=self.resumed, done=self.progress.iter)
        if aside is not None:
            self.logger.info(
                "%s held checkpoints that this run does not continue, which were moved to %s", self.work_dir, aside
            )
        return aside

    def state_dict(self) -> dict[str, Any]:
        """Return everything that is needed to resume the run: numbers, strings, lists, dicts and copies of arrays."""
        return _state.state_of(self)

    # The end of a run

    def leave(self) -> None:
        """Restore the handlers of signals, and what is so outside of a run."""
        self.interrupts.release()
        self.busy = self.running = False
        self.after_stage_calls.clear()
        self.logged = {}

    def fail(self, error: BaseException, folder: Path | None) -> NoReturn:
        """Leave a run that an error has ended, and raise it; one that a signal has ended is saved in a folder first."""
        cause = self.interrupts.came or error
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
        if self.interrupts.patience == 2:  # not all hooks have seen the validation, which is cheap to repeat
            self.progress.validated -= 1
        if process_group() is not None and error is not self.interrupts.came:
            # The other ranks may be elsewhere, and a checkpoint needs all of them.
            self.logger.error("interrupted within iteration %d, so the run could not be saved", self.iter + 1)
            return
        try:
            path = self.save_checkpoint(own_path(folder, _INTERRUPTED))
        except Exception:  # logged, since the interrupt is what the caller gets
            self.logger.exception("interrupted after iteration %d; the run could not be saved", self.iter)
            return
        self.logger.warning("interrupted after iteration %d; saved %s", self.progress.iter, path)
        if (self.iter, self.epoch) != (self.progress.iter, self.progress.epoch):
            self.logger.warning(
                "the hooks after it had not all been called, so the run that is resumed from %s lacks what they would "
                "have done; for an exact one, resume from an earlier checkpoint",
                path,
            )

    def remove_interrupted(self, folder: Path | None) -> None:
        """Remove the checkpoint of an earlier interruption: the run that was resumed from it has finished."""
        if folder is not None and self.rank == 0:
            with suppress(OSError):  # the run is complete all the same
                (folder / _INTERRUPTED).unlink(missing_ok=True)
