"""The runner: a training loop whose every step is a mount point.

The invariant: `iter`, `step` and `epoch` count what is behind the run. They are counted up when a stage has ended and
its hooks have run, so that in ``after_train_iter`` an iteration still bears its own number, as in mmcv; `progress` is
what a checkpoint taken at that moment must resume from, and counts an iteration as soon as its body is done.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aspecthook import hookable, hooks
from aspecthook._core.law.hook import Hook as Handle
from aspecthook._core.law.options import priority_of
from aspecthook._errors import HookTypeError, described
from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._hook import HOOKS, load_hooks

from ._checks import checked, counted, default_logger, length_of, ranks, workflow_of
from ._interrupts import Interrupts
from ._stages import STATE
from ._steps import batches, evaluate, inputs_of, loss_of, outputs_of
from ._systems import rows_of

if TYPE_CHECKING:
    from aspecthook.training.schedules._mmcv import Config


class Runner:
    """Trains a model; hooks on its stages see and change whatever there is.

    Its stages are methods, and each is a mount point: ``run``; ``train_loop``, ``train_epoch``, ``train_iter``, and the
    same for ``val``, ``test`` and ``predict``; ``forward``, ``backward``, ``optimizer_step``; ``save_checkpoint``,
    ``write_checkpoint``, ``load_checkpoint``, ``restore``.

    Args:
        model: One with mm's ``train_step(batch, optimizer)`` and ``val_step``, which give ``loss``, ``log_vars`` and
            ``num_samples``; or any callable, with a `loss`.
        optimizer: What has ``param_groups``, ``step`` and ``zero_grad``; not needed to validate, test and predict.
        loss: Called with what the model makes of the inputs, and the targets; gives what has ``backward``.
        device: Where a model of PyTorch is trained, ``"cpu"`` or ``"cuda:1"``; a GPU if there is one, unless given. A
            model that is somewhere already stays there.
        work_dir: The folder for what the run writes.
        max_epochs: How many epochs to train; give this or `max_iters`.
        max_iters: How many iterations to train.
        workflow: Pairs of a mode and a number of epochs (of iterations with `max_iters`), gone through again and again.
        accumulate: How many batches make one step of the optimizer. The loss of each is divided by their number; the
            last group of a run may be smaller.
        amp: Compute in mixed precision; for PyTorch.
        seed: Seeds Python's, NumPy's and PyTorch's generators as the run begins.
        logger: A `logging.Logger`; that of the package unless given.
        meta: What else is to be kept in checkpoints; for JSON.

    Example:
        >>> from aspecthook import hooks
        >>> from aspecthook.training import Runner
        >>> class Model:
        ...     def train_step(self, batch, optimizer):
        ...         return {"loss": batch, "log_vars": {"loss": batch}, "num_samples": 1}
        >>> class Nothing:
        ...     param_groups = []
        ...
        ...     def step(self): ...
        ...     def zero_grad(self): ...
    """

    # An object with more than 30 attributes of its own keeps them in a dict that is slower to read, and on which
    # CPython 3.11 gives up, in one run of some twenty, to look up methods fast.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_done",
        "_entered",
        "_handles",
        "_held",
        "_interrupts",
        "_later",
        "_length",
        "_loaders",
        "_of_workflow",
        "_predictions",
        "_resumed",
        "_running",
        "_seeded",
        "_stopping",
        "_until",
        "_val_row",
        "accumulate",
        "amp",
        "backend",
        "batch",
        "by_epoch",
        "data_loader",
        "epoch",
        "hooks",
        "inner_iter",
        "iter",
        "logger",
        "logs",
        "loss",
        "max_epochs",
        "max_iters",
        "meta",
        "mode",
        "model",
        "optimizer",
        "outputs",
        "rank",
        "seed",
        "step",
        "work_dir",
        "workflow",
        "world_size",
    )

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
        logger: Any = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        from aspecthook.training.backends._backends import backend_of

        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.work_dir = Path(work_dir) if work_dir is not None else None
        self.max_epochs = counted("max_epochs", max_epochs)
        self.max_iters = counted("max_iters", max_iters)
        self.workflow = workflow_of(workflow)
        self._val_row = False  # whether the last row is there because there are data for it
        self.accumulate = counted("accumulate", accumulate) or 1
        self.seed = seed
        self.meta = dict(meta or {})
        self.backend = backend_of(model)
        self.backend.place(model, device)
        self.amp = self.backend.amp(True, model) if amp else None
        self.logger = logger if logger is not None else default_logger()
        self.by_epoch = max_iters is None
        self.rank, self.world_size = ranks()
        self.hooks: list[Any] = []
        self._handles: list[tuple[Handle, ...]] = []
        self.mode = "train"
        self.epoch: int = 0
        self.iter: int = 0
        self.step: int = 0
        self.inner_iter: int = 0
        self.data_loader: Any = None
        self.batch: Any = None
        self.outputs: Any = None
        # The newest numbers: losses, metrics, learning rates.
        self.logs: dict[str, Any] = {}
        self._stopping = False
        self._until: int | None = None
        self._length: int | None = None  # of the pass
        self._held = False  # gradients of a group of batches, whose step is still to come
        self._running = False
        self._later: list[Callable[[], object]] = []
        self._loaders: dict[str, Any] = {}
        self._done: dict[str, int] = dict.fromkeys(
            ("epoch", "iter", "step", "inner_iter", "row", "begun", "validated"), 0
        )
        self._of_workflow = False
        self._entered = False
        self._resumed = False
        self._seeded = False
        self._predictions: list[Any] = []
        self._interrupts = Interrupts()

    # Hooks

    def register_hook(self, hook: Any, priority: int | str | None = None) -> Any:
        """Put the methods of a hook on the stages that they are named after, and give the hook back.

        Args:
            hook: A `Hook`, or the config of one, ``{"type": "EMAHook", "momentum": 0.1, "priority": "LOW"}``.
            priority: From 0, which is first, to 100, or a name; wins over the hook's own. Hooks of one priority keep
                the order in which they were registered.

        Raises:
            HookSignatureError: A method is named like a stage and is none, or asks for what the stage does not offer.
            HookOptionError: The priority is out of range, or no name of one.
            HookTypeError: The priority is neither an int nor a string.
            ConfigError: A config that cannot be built.
        """
        config: Any = hook
        if isinstance(hook, (str, Mapping)):
            load_hooks()
            hook = HOOKS.build_from_config(config)
        if isinstance(hook, type):
            raise HookTypeError(f"register_hook was given the class {hook.__name__}; give a hook: {hook.__name__}(...)")
        own = getattr(hook, "priority", "NORMAL") if priority is None else priority
        name = type(hook).__name__
        number = priority_of(own, f"the training hook {name}")
        done: list[Handle] = []
        try:
            for stage, function in rows_of(hook, self):
                mount = hooks(getattr(self, stage.method))
                done.append(mount.add(stage.kind, function, *stage.types, name=name, priority=number, again=True))
        except BaseException:
            for handle in done:
                handle.remove()
            raise
        self.hooks.append(hook)
        self._handles.append(tuple(done))
        return hook

    def remove_hook(self, hook: Any) -> None:
        """Take the methods of a hook off the stages; the stage under way goes on with them.

        Raises:
            TrainingError: It is not registered.
        """
        place = next((place for place, one in enumerate(self.hooks) if one is hook), None)
        if place is None:
            names = ", ".join(type(one).__name__ for one in self.hooks) or "none"
            raise TrainingError(
                f"this {type(hook).__name__} is no hook of this run, and cannot be removed; its hooks: {names}"
            )
        del self.hooks[place]
        for handle in self._handles.pop(place):
            handle.remove()

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
            log_config: What loggers share, and which there are: ``{"interval": 50, "hooks": [{"type":
                "TextLoggerHook"}, "JsonLoggerHook"]}``; priority 90.
            momentum_config: Of a `MomentumUpdaterHook`; priority 30.
            timer_config: Of an `IterTimerHook`; priority 70.
            custom_hooks: A list of others; each has its own priority, which is 50 unless its class says otherwise.

        Raises:
            ConfigError: A config that cannot be built.
        """
        from aspecthook.training.schedules._mmcv import register_training_hooks

        register_training_hooks(
            self,
            lr=lr_config,
            momentum=momentum_config,
            optimizer=optimizer_config,
            checkpoint=checkpoint_config,
            timer=timer_config,
            log=log_config,
            custom=custom_hooks,
        )

    def request_stop(self) -> None:
        """End the run after this iteration."""
        self._stopping = True

    def after_stage(self, function: Callable[[], object]) -> None:
        """Call a function when the stage under way is over, all its hooks included; outside a run at once.

        What is saved then is what the next stage begins with, whatever the order of hooks. The stages meant are those
        that follow one another: ``train_iter``, ``train_epoch`` and ``val_epoch`` of a run; a validation that a hook
        makes in one of them is a part of that one.
        """
        if self._running:
            self._later.append(function)
        else:
            function()

    def _call_later(self) -> None:
        while self._later:
            self._later.pop(0)()

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to end."""
        return self._stopping

    # Ways in

    def fit(self, train: Any, val: Any = None) -> None:
        """Train, and validate where the workflow says so, or after each epoch if it says nothing of validation.

        Raises:
            TrainingError: There is nothing to do, or it cannot be done.
        """
        if self.max_epochs is None and self.max_iters is None:
            raise TrainingError("a runner must know when to stop; give Runner(..., max_epochs=...) or max_iters=")
        self._prepare(train, val)
        if self._is_trained():
            self.logger.warning("the run has its %d %s already; fit has nothing to do", self._trained(), self._unit)
        with self._interrupts:
            try:
                self.run()
            except BaseException as error:
                came = self._interrupts.came
                if came is not None or isinstance(error, self._interrupts.kinds):
                    self._save_interrupted()
                if came is not None and came is not error:
                    raise came from error  # a hook has failed while the stages that were interrupted ended
                raise
            finally:
                self._running = False
                self._later.clear()

    def _prepare(self, train: Any, val: Any) -> None:
        """Take the data, and begin: for `fit`, and for a session that is driven step by step."""
        if self.optimizer is None:
            raise TrainingError("a runner without an optimizer cannot train; give Runner(..., optimizer=...)")
        if self._val_row:  # of the last fit
            self.workflow, self._val_row = self.workflow[:-1], False
        if val is not None and not any(mode == "val" for mode, _ in self.workflow):
            self.workflow, self._val_row = (*self.workflow, ("val", 1)), True
        self._loaders = {"train": checked(train, "train")}
        if val is not None:
            self._loaders["val"] = checked(val, "val")
        elif any(mode == "val" for mode, _ in self.workflow):
            raise TrainingError("the workflow validates, and fit was given no data for it; give fit(train, val)")
        self._stopping = False
        if self.by_epoch and self.max_epochs is not None:
            length = length_of(train)
            self.max_iters = None if length is None else length * self.max_epochs
        self._seed()

    def validate(self, loader: Any) -> dict[str, Any]:
        """Run one epoch of validation, and give the numbers that it made."""
        self._loaders["val"] = checked(loader, "val")
        self._begin("val")
        self.val_loop()
        return dict(self.logs)

    def test(self, loader: Any) -> dict[str, Any]:
        """Run one epoch of testing, and give the numbers that it made."""
        self._loaders["test"] = checked(loader, "test")
        self._begin("test")
        self.test_loop()
        return dict(self.logs)

    def predict(self, loader: Any) -> list[Any]:
        """Give what the model makes of each batch."""
        self._loaders["predict"] = checked(loader, "predict")
        self._predictions = []
        self._begin("predict")
        self.predict_loop()
        return self._predictions

    # Stages

    @hookable(lends=STATE)
    def run(self) -> None:
        """Train, from the first thing to the last."""
        self._running = True
        self.train_loop()
        self._running = False

    @hookable(lends=STATE)
    def train_loop(self) -> None:
        """Go through the workflow until there is no more to train."""
        self._run_rows()

    @hookable(lends=STATE)
    def val_loop(self) -> None:
        """Validate once."""
        self.val_epoch()

    @hookable(lends=STATE)
    def test_loop(self) -> None:
        """Test once."""
        self.test_epoch()

    @hookable(lends=STATE)
    def predict_loop(self) -> None:
        """Predict once."""
        self.predict_epoch()

    @hookable(lends=STATE)
    def train_epoch(self) -> None:
        """Train on what is left of one pass over the data."""
        self._entered = True
        for batch in batches(self, "train"):
            self.train_iter(batch)
            if self._is_last():
                break
        else:
            self._end_pass()

    @hookable(lends=STATE)
    def val_epoch(self) -> None:
        """Validate on one pass over the data."""
        ours, self._of_workflow = self._of_workflow, False  # and not a validation that a hook or a user asks for
        evaluate(self, "val", self.val_iter)
        self._done["validated"] += ours

    @hookable(lends=STATE)
    def test_epoch(self) -> None:
        """Test on one pass over the data."""
        evaluate(self, "test", self.test_iter)

    @hookable(lends=STATE)
    def predict_epoch(self) -> None:
        """Predict on one pass over the data."""
        evaluate(self, "predict", lambda batch: self._predictions.append(self.predict_iter(batch)))

    @hookable(lends=STATE)
    def train_iter(self, batch: Any) -> Any:
        """Train on one batch: forward, backward and, if a group of batches is complete, a step of the optimizer."""
        self.batch = batch
        loss = self.forward(batch)
        size, complete = self._group()
        self.backward(loss / size if size > 1 else loss)
        self._held = True
        if complete:
            self._step()
        self._done["iter"], self._done["inner_iter"] = self.iter + 1, self.inner_iter + 1
        return self.outputs

    @hookable(lends=STATE)
    def val_iter(self, batch: Any) -> Any:
        """Validate on one batch."""
        return outputs_of(self, batch)

    @hookable(lends=STATE)
    def test_iter(self, batch: Any) -> Any:
        """Test on one batch."""
        return outputs_of(self, batch)

    @hookable(lends=STATE)
    def predict_iter(self, batch: Any) -> Any:
        """Give what the model makes of one batch."""
        self.batch = batch
        self.outputs = self.model(inputs_of(batch))
        return self.outputs

    @hookable(lends=STATE)
    def forward(self, batch: Any) -> Any:
        """Give the loss of a batch; ``outputs`` and ``logs`` have what else the model made."""
        if self.amp is None:
            return loss_of(self, batch)
        with self.amp.autocast():
            return loss_of(self, batch)

    @hookable(lends=STATE)
    def backward(self, loss: Any) -> None:
        """Add the gradients of a loss to those of the parameters."""
        if not hasattr(loss, "backward"):
            raise TrainingError(
                f"the loss is {described(loss)}, which has no backward; a hook on forward, and one "
                "before backward, must give what is a loss too"
            )
        (loss if self.amp is None else self.amp.scale(loss)).backward()

    @hookable(lends=STATE)
    def optimizer_step(self) -> None:
        """Change the parameters by their gradients."""
        if self.amp is None:
            self.optimizer.step()
        else:
            self.amp.step(self.optimizer)

    # Checkpoints

    @hookable(lends=STATE)
    def save_checkpoint(self, path: str | os.PathLike[str], meta: Mapping[str, Any] | None = None) -> Path:
        """Save all that is needed to go on as if nothing had happened, and give the path. Rank 0 writes."""
        return self.write_checkpoint(Path(path), self.state_dict(meta))

    @hookable(lends=STATE)
    def write_checkpoint(self, path: Path, checkpoint: dict[str, Any]) -> Path:
        """Write a checkpoint; a hook before it may change what is written."""
        from aspecthook.training.checkpoint._format import save

        if self.rank == 0:
            save(path, checkpoint)
        return path

    @hookable(lends=STATE)
    def load_checkpoint(self, path: str | os.PathLike[str], *, resume: bool = False) -> None:
        """Load the model's parameters from a file; to `resume`, all the rest too."""
        from aspecthook.training.checkpoint._format import load

        self.restore(load(path), resume=resume)

    @hookable(lends=STATE)
    def restore(self, checkpoint: dict[str, Any], *, resume: bool = False) -> None:
        """Take back what `state_dict` has given; a hook before it may change what is taken."""
        from ._state import restore

        restore(self, checkpoint, resume=resume)

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Go on where a checkpoint was saved: as if the run had never ended."""
        self.load_checkpoint(path, resume=True)

    def state_dict(self, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Give all that a run needs to go on: numbers, strings, lists, dicts and arrays."""
        from ._state import state_of

        return state_of(self, meta)

    @property
    def progress(self) -> dict[str, int]:
        """What is behind the run, as a checkpoint that is taken now must have it."""
        return dict(self._done)

    @progress.setter
    def progress(self, done: Mapping[str, int]) -> None:
        self._done = {name: int(done[name]) for name in self._done}
        self.epoch, self.iter = self._done["epoch"], self._done["iter"]
        self.step, self.inner_iter = self._done["step"], self._done["inner_iter"]
        self._resumed = True
        self._held = self.in_group

    @property
    def loaders(self) -> dict[str, Any]:
        """The data, by mode."""
        return self._loaders

    @property
    def resumed(self) -> bool:
        """Whether the run goes on from a checkpoint."""
        return self._resumed

    @property
    def in_group(self) -> bool:
        """Whether gradients of batches are held whose step is still to come."""
        return self._done["iter"] % self.accumulate != 0

    # How it goes on

    def _run_rows(self) -> None:
        """Go through the rows of the workflow, from where the run is: a resumed one may be in the middle of them."""
        while self._done["row"] or self._trained() > self._done["begun"] or not self._is_trained():
            mode, times = self.workflow[self._done["row"]]
            if mode == "train":
                self._train_row(times)
            while mode == "val" and self._done["validated"] < times and not self.stopping:
                self._val_epoch()
            if self.stopping:
                return
            self._done["row"] = (self._done["row"] + 1) % len(self.workflow)
            self._done["begun"], self._done["validated"] = self._trained(), 0

    def _train_row(self, times: int) -> None:
        until = self._end() if len(self.workflow) == 1 else min(self._done["begun"] + times, self._end())
        self._until = None if self.by_epoch else until
        while self._trained() < until and not self.stopping:
            self._train_epoch()

    def _trained(self) -> int:
        return self.epoch if self.by_epoch else self.iter

    def _end(self) -> int:
        end = self.max_epochs if self.by_epoch else self.max_iters
        assert end is not None
        return end

    def _is_trained(self) -> bool:
        return self._trained() >= self._end()

    def _val_epoch(self) -> None:
        self._begin("val")
        self._of_workflow = True
        before = self._done["validated"]
        self.val_loop()
        self._done["validated"] = before + 1  # also where a hook has skipped it
        self._call_later()
        self._interrupts.rise()

    def _train_epoch(self) -> None:
        self._begin("train")
        self._entered = False
        self.train_epoch()
        if not self._entered:
            self._pass_over_epoch()
        self._call_later()
        self.epoch = self._done["epoch"]
        self._interrupts.rise()

    def _begin(self, mode: str) -> None:
        self.mode = mode
        self.data_loader = self._loaders[mode]
        if mode == "train":
            self._length = length_of(self.data_loader)
        turn = getattr(self.model, "train" if mode == "train" else "eval", None)
        if callable(turn):
            turn()

    def _is_last(self) -> bool:
        """Count an iteration, and say whether the pass ends with it."""
        self._count()
        return self._is_pass_over() or self.stopping or bool(self._interrupts.came) or self.iter == self._until

    def _count(self) -> None:
        # Also where a hook has skipped the iteration: its batch has been read, and others of its group wait for a step.
        if self._held and self._group()[1]:
            self._step()
        self._done["iter"], self._done["inner_iter"] = self.iter + 1, self.inner_iter + 1
        if self._later:
            self._call_later()
        self.iter, self.step = self._done["iter"], self._done["step"]

    def _is_pass_over(self) -> bool:
        """Say whether that was the last batch of the pass, and count the epoch if it was."""
        over = self._done["inner_iter"] == self._length
        if over:
            self._end_pass()
        return over

    def _pass_over_epoch(self) -> None:
        """Count an epoch that a hook has skipped: else it would come again, for ever."""
        if not self.by_epoch:
            raise TrainingError(
                "a hook has skipped train_epoch, and this run counts iterations, of which none was made; let it skip "
                "train_iter, or ask the run to stop"
            )
        self._end_pass()

    def _end_pass(self) -> None:
        self._done["inner_iter"] = 0
        self._done["epoch"] = self.epoch + 1

    def _step(self) -> None:
        if self.amp is not None:
            self.amp.unscale(self.optimizer)
        self.optimizer_step()
        self.optimizer.zero_grad()
        self._done["step"] = self.step + 1
        self._held = False

    def _group(self) -> tuple[int, bool]:
        """Give the size of the group that this batch is in, and whether it is the last of it."""
        if self.accumulate == 1:
            return 1, True
        total = self.max_iters
        place = self.iter % self.accumulate
        begun = self.iter - place
        size = self.accumulate if total is None else max(1, min(self.accumulate, total - begun))
        return size, place + 1 >= size

    def _seed(self) -> None:
        if self.seed is not None and not self._resumed and not self._seeded:
            self._seeded = True
            random.seed(self.seed)
            self.backend.seed(self.seed)

    def _save_interrupted(self) -> None:
        if self.work_dir is None:
            return
        try:
            path = self.save_checkpoint(self.work_dir / "interrupted.ckpt")
        except Exception:  # the interrupt rises all the same
            self.logger.exception("interrupted after iteration %d; what it was could not be saved", self.iter)
        else:
            self.logger.warning("interrupted after iteration %d; saved %s", self.iter, path)

    @property
    def _unit(self) -> str:
        return "epochs" if self.by_epoch else "iterations"

    def __repr__(self) -> str:
        end = f"{self.max_epochs if self.by_epoch else self.max_iters} {self._unit}"
        return f"<Runner of {type(self.model).__name__}, epoch {self.epoch}, iteration {self.iter} of {end}>"
