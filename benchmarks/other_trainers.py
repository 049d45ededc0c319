"""The same step with the same hooks in other trainers, and the table of all of them.

Each hook is given what its library's documentation says. What is timed is what the library does for these two moments,
before the step and after it, and nothing else of its training loop:

* mmengine, Keras, Lightning, HF Trainer: the two calls that their own loops make around a step. All that these calls
  do counts, also what they do when there are no hooks; that alone is timed as well.
* ignite calls handlers inside of its loop: an ``Engine.run`` over a list, less the same run without handlers.

The hooks that they always have of their own (mmengine's default hooks, Keras's History, HF's DefaultFlowCallback) are
left out, and so are the other moments of a step at which they ask every hook (Lightning four more, HF two more).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib.util import find_spec
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

from .results import OURS
from .trainers import (
    LONG,
    SELDOM,
    Build,
    Rig,
    Work,
    looped,
    ours,
    ours_at_interval,
    ours_every,
    ours_in_session,
    session_by_hand,
    written_out,
    written_out_at_interval,
)

STEPS = 20  # in one run of ignite's engine
LOOP = "a loop over two lists"
OUT = "the calls written out"
BY_HAND = f"{OUT}, an if before each"
PROTOCOL = "the protocol by hand, in loops"

_numbers = count(1)


@contextmanager
def quietly() -> Iterator[None]:
    """Keep off the output, which is for figures, and do without their reports of themselves."""
    os.environ.setdefault("KERAS_BACKEND", "torch" if find_spec("torch") else "numpy")
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        logging.disable(level)


def mmengine(work: Work) -> Rig:
    """Make the two calls of ``EpochBasedTrainLoop.run_iter``, which go through all hooks."""
    from mmengine.hooks import Hook
    from mmengine.runner import Runner
    from torch.nn import Linear

    default = dict.fromkeys(("runtime_info", "timer", "sampler_seed", "logger", "param_scheduler", "checkpoint"))
    with TemporaryDirectory() as folder:
        runner = Runner(
            Linear(1, 1),
            work_dir=folder,
            default_hooks=default,
            experiment_name=f"benchmark_{next(_numbers)}",
            log_level="ERROR",
        )
    for one in LONG.hooks(work, Hook):
        runner.register_hook(one)
    return Rig(
        "f('before_train_iter', batch_idx=0, data_batch=b); "
        "f('after_train_iter', batch_idx=0, data_batch=b, outputs=o)",
        {"f": runner.call_hook, "b": (1, 2), "o": {}},
    )


def mmengine_at_interval(work: Work) -> Rig:
    """Look by mmengine's own method."""
    return mmengine(work.only_if(f"self.every_n_train_iters(runner, {SELDOM})"))


def keras(work: Work) -> Rig:
    """Make the two calls of ``Trainer.fit``.

    Where no callback overrides ``on_train_batch_end``, Keras has a thread make the second one. That is waited for, as
    at the end of an epoch; without steps in between, they would pile up.
    """
    from keras.callbacks import Callback, CallbackList

    asks = "(self, batch, logs=None)"
    callbacks = CallbackList(work.hooks(Callback, f"on_train_batch_begin{asks}", f"on_train_batch_end{asks}"))
    callbacks.on_train_begin()
    names = {"c": callbacks, "l": {"loss": 0.5}}
    wait = "; c._flush_futures()" if callbacks._async_train else ""
    return Rig(f"c.on_train_batch_begin(0); c.on_train_batch_end(0, l){wait}", names)


def keras_at_interval(work: Work) -> Rig:
    """Look by hand: there is nothing for it."""
    return keras(work.only_if(f"not (batch + 1) % {SELDOM}"))


def ignite(work: Work) -> Rig:
    """Run an engine whose process function does nothing, with functions attached."""
    return _ignite(work, every=None)


def ignite_at_interval(work: Work) -> Rig:
    """Attach them to events with a filter."""
    return _ignite(work, every=SELDOM)


def _ignite(work: Work, every: int | None) -> Rig:
    from ignite.engine import Engine, Events

    def step(engine: Any, batch: Any) -> None:
        pass

    engine = Engine(step)
    events = (Events.ITERATION_STARTED, Events.ITERATION_COMPLETED)
    for event, functions in zip(events, work.functions("engine", "engine"), strict=True):
        for one in functions:
            engine.add_event_handler(event if every is None else event(every=every), one)
    data = list(range(STEPS))
    return Rig("e.run(d)", {"e": engine, "d": data}, {"e": Engine(step), "d": data}, STEPS)


def lightning(work: Work) -> Rig:
    """Make the two calls of ``_TrainingEpochLoop.advance``."""
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.trainer.call import _call_callback_hooks

    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    before = "on_train_batch_start(self, trainer, pl_module, batch, batch_idx)"
    trainer.callbacks = work.hooks(
        Callback, before, "on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx)"
    )
    trainer.strategy.connect(LightningModule())
    return Rig(
        "f(t, 'on_train_batch_start', b, 0); f(t, 'on_train_batch_end', o, b, 0)",
        {"f": _call_callback_hooks, "t": trainer, "b": (1, 2), "o": {}},
    )


def lightning_at_interval(work: Work) -> Rig:
    """Look by hand: there is nothing for it."""
    return lightning(work.only_if(f"not (batch_idx + 1) % {SELDOM}"))


def hugging_face(work: Work) -> Rig:
    """Make the two calls of ``Trainer._inner_training_loop``; what it passes on is not looked at."""
    from transformers.trainer_callback import CallbackHandler, TrainerCallback, TrainerControl, TrainerState

    asks = "(self, args, state, control, **kwargs)"
    made = work.hooks(TrainerCallback, f"on_step_begin{asks}", f"on_step_end{asks}")
    handler = CallbackHandler(made, None, None, None, None)
    return Rig(
        "h.on_step_begin(a, s, c); h.on_step_end(a, s, c)",
        {"h": handler, "a": None, "s": TrainerState(), "c": TrainerControl()},
    )


def hugging_face_at_interval(work: Work) -> Rig:
    """Look by hand: there is nothing for it."""
    return hugging_face(work.only_if(f"not (state.global_step + 1) % {SELDOM}"))


OTHERS: dict[str, Build] = {
    "mmengine": mmengine,
    "Keras": keras,
    "ignite": ignite,
    "Lightning": lightning,
    "HF Trainer": hugging_face,
}
BUSY: dict[str, Build] = {
    LOOP: looped,
    OUT: written_out,
    OURS: ours,
    LOOP + LONG.name: partial(looped, style=LONG),
    OUT + LONG.name: partial(written_out, style=LONG),
    OURS + LONG.name: partial(ours, style=LONG),
    **OTHERS,
}
# ignite has no classes of hooks, so that there is nothing that one could leave as it is.
OVERRIDING_NOTHING: dict[str, Build] = {OURS: ours, **{name: one for name, one in OTHERS.items() if name != "ignite"}}
IN_SESSION: dict[str, Build] = {PROTOCOL: session_by_hand, OURS: ours_in_session}
AT_INTERVAL: dict[str, Build] = {
    BY_HAND: written_out_at_interval,
    f"{OURS}, every=": ours_every,
    f"{OURS}, every_n_iters": ours_at_interval,
    "mmengine, every_n_train_iters": mmengine_at_interval,
    "Keras, an if in each": keras_at_interval,
    "ignite, every=": ignite_at_interval,
    "Lightning, an if in each": lightning_at_interval,
    "HF Trainer, an if in each": hugging_face_at_interval,
}
