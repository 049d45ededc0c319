"""One training step with hooks around it, in each trainer: some hooks run before the step, as many after it.

Each hook is an object of a class of its own, as in a program, and is given what its library's documentation says. What
is timed is what each library does for these two moments, and nothing else of its training loop:

* mmengine, Keras, Lightning, HF Trainer: the two calls that their own loops make around a step. All that these calls
  do counts, also what they do when there are no hooks; that alone is timed as well.
* ignite calls handlers inside of its loop: an ``Engine.run`` over a list, less the same run without handlers.
* ours calls hooks inside of the step: ``Runner.train_iter``, less the same ``train_iter`` of a runner without hooks.
* direct calls: a function that makes them, less one that does nothing.

The hooks that the others always have of their own (mmengine's default hooks, Keras's History, HF's DefaultFlowCallback)
are left out, and so are the other moments of a step at which they ask every hook (Lightning four more, HF two more).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import count
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from aspecthook import hooks as hooks_of

from .results import OURS
from .timing import Contender

SOME = 10  # hooks before the step, and as many after it
SELDOM = 1_000  # those that are filtered out run once in so many steps
STEPS = 20  # in one run of ignite's engine

BY_HAND = "the calls written out, an if before each"

_numbers = count(1)


@dataclass(frozen=True)
class Rig:
    """A statement that makes `steps` steps, the names in it, and those with which it makes them without any hooks."""

    statement: str
    names: dict[str, Any]
    without: dict[str, Any] | None = None
    steps: int = 1

    def contenders(self, name: str) -> Iterator[Contender]:
        """Give what is timed, and what is to be taken off that."""
        yield Contender(name, self.statement, self.names, self.steps, process_time)
        if self.without is not None:
            yield Contender(f"{name}, without hooks", self.statement, self.without, self.steps, process_time)


@dataclass(frozen=True)
class Work:
    """How many hooks there are, and what their two methods do; one whose body is empty is not overridden."""

    before: str = "pass"
    after: str = "pass"
    count: int = SOME
    names: dict[str, Any] = field(default_factory=dict)

    def only_if(self, condition: str) -> Work:
        """Make hooks that look first whether it is their turn."""
        before, after = (f"if {condition}: {body}" for body in (self.before, self.after))
        return replace(self, before=before, after=after)

    def hooks(self, base: type, before: str, after: str) -> list[Any]:
        """Make the hooks; the methods are given by their names and parameters."""
        bodies = ((before, self.before), (after, self.after))
        methods = "".join(f"    def {head}:\n        {body}\n" for head, body in bodies if body) or "    pass\n"
        return [_defined("class Hook{}(Base):\n" + methods, {"Base": base, **self.names})() for _ in range(self.count)]

    def functions(self, before: str, after: str) -> tuple[list[Any], list[Any]]:
        """Make functions, with these parameters."""
        rows = ((before, self.before), (after, self.after))
        first, last = (
            [_defined("def hook_{}(" + f"{asks}):\n    {body}\n", dict(self.names)) for _ in range(self.count)]
            for asks, body in rows
        )
        return first, last


def _defined(source: str, names: dict[str, Any]) -> Any:
    """Execute the source of a class or a function with a name of its own, and give it."""
    source = source.format(next(_numbers))
    exec(source, names)
    return names[source.partition("(")[0].split()[-1]]


NOOP = Work()
IDLE = Work(before="", after="")
NONE = Work(count=0)
Build = Callable[[Work], Rig]


# Direct calls


@dataclass(frozen=True)
class Style:
    """What a hook asks for, before and after the step, and what a direct call passes for that."""

    name: str
    before: str
    after: str
    passed_before: str
    passed_after: str

    def hooks(self, work: Work, base: type) -> list[Any]:
        """Make hooks that ask so."""
        return work.hooks(base, f"before_train_iter({self.before})", f"after_train_iter({self.after})")


# As mmcv has it, and most hooks of ours; and as mmengine has it.
SHORT = Style("", "self, runner", "self, runner", "runner", "runner")
LONG = Style(
    ", mmengine's arguments",
    "self, runner, batch_idx, data_batch=None",
    "self, runner, batch_idx, data_batch=None, outputs=None",
    "runner, index, batch",
    "runner, index, batch, outputs",
)


def _direct(body: list[str], names: dict[str, Any]) -> Rig:
    head = "def direct_{}(runner, index, batch, outputs):\n"
    step, nothing = (_defined(head + "".join(f"    {line}\n" for line in lines), names) for lines in (body, ["pass"]))
    given = {"r": object(), "b": (1, 2), "o": {}}
    return Rig("f(r, 0, b, o)", {**given, "f": step}, {**given, "f": nothing})


def looped(work: Work, style: Style = SHORT) -> Rig:
    """Go through a list of methods before the step, and through another one after it."""
    made = style.hooks(work, object)
    names = {"before": [one.before_train_iter for one in made], "after": [one.after_train_iter for one in made]}
    first, last = f"for hook in before: hook({style.passed_before})", f"for hook in after: hook({style.passed_after})"
    return _direct([first, last], names)


def written_out(work: Work, style: Style = SHORT, condition: str = "") -> Rig:
    """Write the calls out, one after another."""
    names = {f"hook_{place}": one for place, one in enumerate(style.hooks(work, object))}
    lines = [f"{condition}{name}.before_train_iter({style.passed_before})" for name in names]
    lines += [f"{condition}{name}.after_train_iter({style.passed_after})" for name in names]
    return _direct(lines, dict(names))


def written_out_at_interval(work: Work) -> Rig:
    """Write the calls out, each behind an ``if`` of its own."""
    return written_out(work, condition=f"if not (index + 1) % {SELDOM}: ")


# Ours


class Model:
    """Has mm's protocol, and does nothing."""

    def train_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
        return OUTPUTS


class Nothing:
    """A loss, and an optimizer."""

    param_groups: tuple[()] = ()

    def item(self) -> float:
        return 0.5

    def backward(self) -> None: ...
    def step(self) -> None: ...
    def zero_grad(self) -> None: ...


OUTPUTS: dict[str, Any] = {"loss": Nothing(), "log_vars": {"loss": 0.5}, "num_samples": 1}


def new_runner_class() -> Any:
    """Give the class anew, as a module of its own would have it, with mount points of its own.

    Those of a class are there for all of its instances: where one instance has hooks, each call of another one costs a
    look more (some 75 ns), which a program that has no hooks does not pay.
    """
    found = find_spec("aspecthook.training._runner")
    assert found is not None and found.origin is not None
    spec = spec_from_file_location(f"{found.name}_{next(_numbers)}", found.origin)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # what no module keeps is hooked in another way
    spec.loader.exec_module(module)
    return module.Runner


def new_runner(*hooks: Any) -> Any:
    """Make a runner that has some hooks, of a class of its own."""
    runner = new_runner_class()(Model(), optimizer=Nothing(), max_epochs=1)
    runner.inner_iter, runner.batch = 0, (1, 2)
    for one in hooks:
        runner.register_hook(one)
    return runner


def _of_runner(runner: Any) -> Rig:
    return Rig("r.train_iter(b)", {"r": runner, "b": (1, 2)}, {"r": new_runner(), "b": (1, 2)})


def ours(work: Work, style: Style = SHORT) -> Rig:
    """Register objects of classes that derive from `Hook`."""
    return _of_runner(new_runner(*hooks_of_ours(work, style)))


def hooks_of_ours(work: Work, style: Style = SHORT) -> list[Any]:
    """Make hooks; those that do nothing in a step do so elsewhere, since a hook that never does is refused."""
    from aspecthook.training import Hook

    class Elsewhere(Hook):
        def after_run(self) -> None: ...

    return style.hooks(work, Hook if work.before else Elsewhere)


def ours_at_interval(work: Work) -> Rig:
    """Register hooks that ask ``self.every_n_iters(runner, n)``, as mm's do."""
    return ours(work.only_if(f"self.every_n_iters(runner, {SELDOM})"))


def ours_every(work: Work) -> Rig:
    """Put functions on the step with ``every=``."""
    runner = new_runner()
    before, after = work.functions("runner, batch", "runner, result")
    for one in before:
        hooks_of(runner.train_iter).pre(one, every=SELDOM)
    for one in after:
        hooks_of(runner.train_iter).post(one, every=SELDOM)
    return _of_runner(runner)


# The others


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

    Where no callback overrides ``on_train_batch_end``, Keras gives these calls to a thread.
    """
    from keras.callbacks import Callback, CallbackList

    made = work.hooks(
        Callback, "on_train_batch_begin(self, batch, logs=None)", "on_train_batch_end(self, batch, logs=None)"
    )
    callbacks = CallbackList(made)
    callbacks.on_train_begin()
    return Rig("c.on_train_batch_begin(0); c.on_train_batch_end(0, l)", {"c": callbacks, "l": {"loss": 0.5}})


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


LOOP = "a loop over two lists"
OTHERS: dict[str, Build] = {
    "mmengine": mmengine,
    "Keras": keras,
    "ignite": ignite,
    "Lightning": lightning,
    "HF Trainer": hugging_face,
}
BUSY: dict[str, Build] = {
    LOOP: looped,
    "the calls written out": written_out,
    OURS: ours,
    LOOP + LONG.name: partial(looped, style=LONG),
    "the calls written out" + LONG.name: partial(written_out, style=LONG),
    OURS + LONG.name: partial(ours, style=LONG),
    **OTHERS,
}
# ignite has no classes of hooks, so that there is nothing that one could leave as it is.
OVERRIDING_NOTHING: dict[str, Build] = {OURS: ours, **{name: one for name, one in OTHERS.items() if name != "ignite"}}
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
