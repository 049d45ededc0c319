"""The runner: a training loop whose every step is a mount point.

The invariant: `iter`, `step` and `epoch` count what is complete, hooks included. So in ``after_train_iter`` an
iteration still has its own number, as in mmcv. `progress` is where a checkpoint that is saved at that moment must
resume from; it counts an iteration as soon as its body is done.
"""

from __future__ import annotations

import os
import random
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aspecthook import hookable
from aspecthook._errors import HookTypeError, described
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import broadcast, process_group
from aspecthook.training.checkpoint._files import own_path, path_of
from aspecthook.training.checkpoint._folder import load, take_folder
from aspecthook.training.checkpoint._format import packed, write_packed

from . import _state
from ._checks import check_loader, length_of
from ._dialect import STATE, attach, bindings_of, name_of
from ._interrupts import INTERRUPTS
from ._logs import of_mode, without_mode
from ._run import Registered, Run
from ._steps import (
    agree_to_end,
    batches,
    count_epoch,
    count_iteration,
    end_of,
    evaluate,
    group_of,
    inputs_of,
    loss_of,
    next_epoch,
    note_length,
    outputs_of,
    take_step,
    trained,
)

if TYPE_CHECKING:
    from aspecthook.training.schedules._mmcv import Config

_INTERRUPTED = "interrupted.ckpt"


class Runner(Run):
    """The training of a model, with stages on which hooks see and change everything.

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
        logger: A `logging.Logger`; by default that of the package.
        meta: What else to keep in checkpoints; JSON values.

    Example:
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> model = Linear(1, 1)
        >>> runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=2)
    """

    __slots__ = ()

    # What is assigned here and annotated in `Run`: of an inferred type, type checkers may make different things.
    batch: Any
    busy: bool
    identity: str
    outputs: Any
    predictions: list[Any]
    running: bool
    workflow: tuple[tuple[str, int], ...]

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
            ConfigError: A config that cannot be built.
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
        lr_config: Config = None,
        optimizer_config: Config = None,
        checkpoint_config: Config = None,
        log_config: Config = None,
        momentum_config: Config = None,
        timer_config: Config = "IterTimerHook",
        custom_hooks: Config = None,
    ) -> None:
        """Register the hooks of a usual run, with mmcv's names and priorities; all of them, or none if one is wrong.

        Each is a config, a hook, or None for no such hook. A ``"priority"`` in a config wins over the one here.

        Args:
            lr_config: Of an `LrUpdaterHook`, ``{"policy": "cosine", "min_lr": 0.0}``; priority 10.
            optimizer_config: Of an `OptimizerHook`, ``{"grad_clip": {"max_norm": 35}}``; priority 40.
            checkpoint_config: Of a `CheckpointHook`, ``{"interval": 1}``; priority 50.
            log_config: Of loggers, ``{"interval": 50, "hooks": ["TextLoggerHook", "JsonLoggerHook"]}``; priority 90.
            momentum_config: Of a `MomentumUpdaterHook`; priority 30.
            timer_config: Of an `IterTimerHook`; priority 70.
            custom_hooks: A list of others; each has its own priority, which is 50 unless its class says otherwise.

        Raises:
            ConfigError: A config that cannot be built.
        """
        from aspecthook.training.schedules._mmcv import register_training_hooks

        configs = {
            "lr": lr_config,
            "momentum": momentum_config,
            "optimizer": optimizer_config,
            "checkpoint": checkpoint_config,
            "timer": timer_config,
        }
        register_training_hooks(self, configs, log_config, custom_hooks)

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
        if trained(self) >= end_of(self):
            self.logger.warning("the run has made its %d %s already; fit has nothing to do", trained(self), self.unit)
        with self.interrupts:
            self.busy = True
            try:
                self.run()
                agree_to_end(self)
                self.finish_saving()
                self.interrupts.raise_noted()  # of a signal after the last epoch
                self.remove_interrupted(self.work_dir)
            except BaseException as error:
                cause = self.save_interrupted(error, self.work_dir)
                if cause is not error:
                    raise cause from error  # a hook failed while the interrupted stages ended
                raise
            finally:
                self.leave()

    def check_idle(self, what: str) -> None:
        """Refuse to begin a run inside another one of the same runner."""
        if self.busy:
            raise TrainingError(
                f"{what} was called while this runner is fitting, validating, testing or predicting; use another "
                "runner, or wait until it has ended"
            )

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
        length = length_of(train)
        note_length(self, length, length)
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
        """Switch to a mode and its data inside ``with``; inside a stage, the run is as it was afterwards."""
        check_loader(loader, f"the data for {mode}")
        with _state.undisturbed(self) if self.busy else nullcontext():
            self.loaders[mode] = loader
            self.set_mode(mode)
            outermost, self.busy = not self.busy, True
            before, self.logged = self.logged, without_mode(mode, self.logged)
            try:
                yield
            finally:
                self.busy = not outermost
                # What the iteration under way has logged meanwhile stays, such as its time.
                self.logged: dict[str, Any] = {**of_mode(mode, before), **without_mode(mode, self.logged)}

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
        while (mode := next_epoch(self)) is not None:
            self.set_mode(mode)
            if mode == "train":
                self.train_epoch()
            else:
                self.val_loop()
            count_epoch(self, mode)

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
        for batch in batches(self, "train"):
            self.train_iter(batch)
            if count_iteration(self):
                break

    @hookable(provides=STATE)
    def val_epoch(self) -> None:
        """Validate on one pass over the data."""
        # Whether it is a validation of the workflow, and not one that a hook or a user makes.
        counts = self.progress.pending_epoch == "val"
        if counts:
            self.progress.pending_epoch = None
        evaluate(self, "val", self.val_iter)
        if counts:
            self.interrupts.judging = True
            self.progress.validated += 1

    @hookable(provides=STATE)
    def test_epoch(self) -> None:
        """Test on one pass over the data."""
        evaluate(self, "test", self.test_iter)

    @hookable(provides=STATE)
    def predict_epoch(self) -> None:
        """Predict on one pass over the data."""
        evaluate(self, "predict", lambda batch: self.predictions.append(self.predict_iter(batch)))

    @hookable(provides=STATE)
    def train_iter(self, batch: Any) -> Any:
        """Train on one batch: forward, backward and, if a group of batches is complete, a step of the optimizer."""
        self.batch = batch
        loss = self.forward(batch)
        size, complete = group_of(self)
        self.backward(loss / size if size > 1 else loss)
        progress = self.progress
        if complete:
            take_step(self)
        else:
            progress.accumulated = True
        progress.iter, progress.inner_iter = self.iter + 1, self.inner_iter + 1
        return self.outputs

    @hookable(provides=STATE)
    def val_iter(self, batch: Any) -> Any:
        """Validate on one batch."""
        return outputs_of(self, batch)

    @hookable(provides=STATE)
    def test_iter(self, batch: Any) -> Any:
        """Test on one batch."""
        return outputs_of(self, batch)

    @hookable(provides=STATE)
    def predict_iter(self, batch: Any) -> Any:
        """Return what the model computes for one batch."""
        self.batch = batch
        self.outputs = self.model(inputs_of(batch))
        return self.outputs

    @hookable(provides=STATE)
    def forward(self, batch: Any) -> Any:
        """Return the loss of a batch, and set ``outputs`` and ``logs`` to what else the model computes."""
        if self.amp is None:
            return loss_of(self, batch)
        with self.amp.autocast():
            return loss_of(self, batch)

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

    # Checkpoints

    @hookable(provides=STATE)
    def save_checkpoint(self, path: str | os.PathLike[str], *, asynchronous: bool = False) -> Path:
        """Save everything that is needed to resume the run, and return the path.

        Several ranks call it together, since a checkpoint has a state of each, and rank 0 writes it.

        Args:
            path: The file.
            asynchronous: Only copy the state, and let a thread write it, once the one before is written. An error is
                raised after the iteration of the run in which it is noticed, by the next save or by `finish_saving`.
        """
        file = path_of("save_checkpoint", path)
        self.finish_saving()
        state = self.state_dict()
        if not asynchronous:
            return self.write_checkpoint(file, state)
        return self.write_checkpoint(file, state, asynchronous=True)

    @hookable(provides=STATE)
    def write_checkpoint(self, path: Path, checkpoint: dict[str, Any], *, asynchronous: bool = False) -> Path:
        """Write a checkpoint; a pre hook may change what is written."""
        if self.rank == 0:
            tree, arrays = packed(checkpoint)
            if asynchronous:  # some of the arrays may be those that a hook works with
                copies = {name: array.copy() for name, array in arrays.items()}
                self.writes.add(lambda: write_packed(path, tree, copies))
            else:
                write_packed(path, tree, arrays)
        return path

    @hookable(provides=STATE)
    def load_checkpoint(self, path: str | os.PathLike[str], *, resume: bool = False, other_run: bool = False) -> None:
        """Load the model's parameters from a file; with `resume`, everything else too: see `resume`."""
        self.finish_saving()
        file = path_of("load_checkpoint", path)
        self.restore(load(file), resume=resume, other_run=other_run)

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
        self.finish_saving()  # a hook may have begun a save before the run, and what it writes would be swept away
        aside = take_folder(self.work_dir, self.identity, resumed=self.resumed, done=self.progress.iter)
        if aside is not None:
            self.logger.info(
                "%s held checkpoints that this run does not continue, which were moved to %s", self.work_dir, aside
            )
        return aside

    def state_dict(self) -> dict[str, Any]:
        """Return everything that is needed to resume the run: numbers, strings, lists, dicts and copies of arrays."""
        return _state.state_of(self)

    def save_interrupted(self, error: BaseException, folder: Path | None) -> BaseException:
        """Save the run in a folder, if there is one and a signal has ended the run; return what to raise."""
        cause = self.interrupts.came or error
        if folder is None or not isinstance(cause, INTERRUPTS):
            return cause
        if self.interrupts.judging:  # not all hooks have seen the validation, which is cheap to repeat
            self.progress.validated -= 1
        if process_group() is not None and error is not self.interrupts.came:
            # The other ranks may be elsewhere, and a checkpoint needs all of them.
            self.logger.error("interrupted within iteration %d, so the run could not be saved", self.iter + 1)
            return cause
        try:
            path = self.save_checkpoint(own_path(folder, _INTERRUPTED))
        except Exception:  # logged, since the interrupt is what the caller gets
            self.logger.exception("interrupted after iteration %d; the run could not be saved", self.iter)
            return cause
        self.logger.warning("interrupted after iteration %d; saved %s", self.progress.iter, path)
        if (self.iter, self.epoch) != (self.progress.iter, self.progress.epoch):
            self.logger.warning(
                "the hooks after it had not all been called, so the run that is resumed from %s lacks what they would "
                "have done; for an exact one, resume from an earlier checkpoint",
                path,
            )
        return cause

    def remove_interrupted(self, folder: Path | None) -> None:
        """Remove the checkpoint of an earlier interruption: the run that was resumed from it has finished."""
        if folder is not None and self.rank == 0:
            with suppress(OSError):  # the run is complete all the same
                (folder / _INTERRUPTED).unlink(missing_ok=True)
