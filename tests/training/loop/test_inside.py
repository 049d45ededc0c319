"""A run is the loop by hand; what runs inside a stage, and data whose length changes, do not disturb it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import Args, Return, hooks
from aspecthook.training import Hook, Runner
from aspecthook.training import numpy as nn
from tests.training.kit import Optimizer, both, data, run_of, same, state
from tests.training.loop.test_reading import Model

STAGES = [
    ("run", "pre"),
    ("train_loop", "pre"),
    ("train_epoch", "pre"),
    ("train_iter", "pre"),
    ("forward", "pre"),
    ("backward", "pre"),
    ("optimizer_step", "pre"),
    ("train_iter", "post"),
    ("train_epoch", "post"),
    ("val_loop", "pre"),
    ("val_epoch", "pre"),
    ("val_iter", "post"),
    ("val_epoch", "post"),
    ("run", "post"),
]


@both
def test_a_run_with_hooks_is_the_loop_by_hand(library: str) -> None:
    """A mixed batch, a scaled loss, whose gradients are scaled down again, and a step that is skipped."""
    by_hand, runner = run_of(library), run_of(library)
    model, optimizer, loss = by_hand.model, by_hand.optimizer, by_hand.loss
    random.seed(3)
    by_hand.backend.seed(3)
    step = 0
    for _ in range(2):
        for batch in data(3):
            inputs, targets = by_hand.backend.mover(model)(batch)
            (loss(model(inputs * 2), targets) * 1024.0).backward()
            for parameter in by_hand.backend.parameters(model).values():
                parameter.grad = parameter.grad / 1024.0
            if step != 4:
                optimizer.step()
            optimizer.zero_grad()
            step += 1

    def scale_down(runner: Runner) -> None:
        for parameter in runner.backend.parameters(runner.model).values():
            parameter.grad = parameter.grad / 1024.0

    hooks(runner.train_iter).pre(lambda batch: Args(batch=(batch[0] * 2, batch[1])))
    hooks(runner.forward).post(lambda result: result * 1024.0)
    hooks(runner.optimizer_step).pre(scale_down)
    hooks(runner.optimizer_step).pre(lambda iter: Return(None) if iter == 4 else None)
    runner.fit(data(3))
    assert same(state(runner), state(by_hand))


def place(runner: Runner, **noted: float) -> list[Any]:
    """Return where a run is, what it has logged, and the mode of each module."""
    return [
        {**runner.logged, **noted},
        runner.mode,
        runner.inner_iter,
        id(runner.data_loader),
        id(runner.batch),
        id(runner.outputs),
        {name: id(loader) for name, loader in runner.loaders.items()},
        runner.skipped,
        runner.progress.state_dict(),
        [module.training for _, module in runner.model.named_modules()],
    ]


@both
@pytest.mark.parametrize("entry", ["validate", "test", "predict"])
@pytest.mark.parametrize(("stage", "kind"), STAGES)
def test_an_evaluation_inside_a_stage_leaves_the_run_as_it_was(library: str, entry: str, stage: str, kind: Any) -> None:
    undisturbed = run_of(library)
    undisturbed.fit(data(4), data(2, seed=2))
    runner = run_of(library)
    made: list[Any] = []

    def evaluate(runner: Runner) -> None:
        if len(made) < 20:  # also inside the evaluation's own stages
            before = place(runner, noted=len(made) + 1.0)  # what the iteration under way has logged meanwhile stays
            made.append(None)
            noted = float(len(made))
            with hooks(getattr(runner, f"{entry.removesuffix('idate')}_iter")).add(
                "post", lambda: runner.log(noted=noted)
            ):
                made[-1] = getattr(runner, entry)(data(3, seed=5))
            assert place(runner) == before

    hooks(getattr(runner, stage)).add(kind, evaluate, reentrant=False)
    runner.fit(data(4), data(2, seed=2))
    assert made and all(made)
    assert runner.progress.state_dict() == undisturbed.progress.state_dict() and same(state(runner), state(undisturbed))


def test_a_prediction_inside_a_prediction_has_its_own_results() -> None:
    runner = run_of("numpy")
    inner: list[Any] = []
    hooks(runner.predict_iter).add("post", lambda runner: inner.append(runner.predict(data(1))), reentrant=False)
    assert [len(runner.predict(data(3))), *map(len, inner)] == [3, 1, 1, 1]


def test_an_evaluation_that_fails_inside_a_stage_leaves_the_run_as_it_was() -> None:
    runner = run_of("numpy")
    hooks(runner.test_iter).pre(lambda: 1 / 0)

    def evaluate(runner: Runner) -> None:
        before = place(runner)
        with pytest.raises(ZeroDivisionError):
            runner.test(data(1))
        assert place(runner) == before

    hooks(runner.train_iter).post(evaluate)
    runner.fit(data(3))
    assert runner.iter == 6


def test_modules_in_attributes_of_a_model_keep_their_modes() -> None:
    class Pair:
        def __init__(self, net: Any) -> None:
            self.net, self.train, self.eval = net, net.train, net.eval

        def __call__(self, inputs: Any) -> Any:
            return self.net(inputs)

    net = run_of("numpy").model
    runner = Runner(Pair(net), optimizer=nn.SGD(net.parameters(), lr=0.1), loss=nn.mse, max_epochs=1)
    frozen = next(module for name, module in net.named_modules() if name == "1")
    hooks(runner.train_epoch).pre(lambda: frozen.eval() and None)
    modes: list[bool] = []

    def evaluate(runner: Runner) -> None:
        runner.validate(data(1))
        modes.append(frozen.training)

    hooks(runner.train_iter).post(evaluate)
    runner.fit(data(2))
    assert modes == [False, False] and net.training


# Data whose length changes


class Curriculum:
    """A loader that has another length in each epoch, and counts what is read."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths, self.epoch = lengths, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.lengths[self.epoch]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter([(self.epoch, number) for number in range(len(self))])


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5), accumulate=st.integers(1, 3))
def test_every_epoch_has_the_length_that_its_data_have_when_it_begins(lengths: list[int], accumulate: int) -> None:
    runner = Runner(Model(), optimizer=Optimizer(), max_epochs=len(lengths), accumulate=accumulate)
    ends = list[int | None]()
    hooks(runner.train_iter).pre(lambda max_iters: ends.append(max_iters))
    steps: list[int] = []
    hooks(runner.optimizer_step).post(lambda iter: steps.append(iter))
    runner.fit(Curriculum(lengths))
    assert runner.model.seen == [(epoch, number) for epoch, length in enumerate(lengths) for number in range(length)]
    total = sum(lengths)
    assert runner.max_iters == total and runner.iter == total and ends[-1] == total
    assert steps == [n for n in range(total) if (n + 1) % accumulate == 0 or n + 1 == total]


def test_the_last_iteration_of_an_epoch_is_that_of_the_length_when_it_began() -> None:
    lasts: list[bool] = []
    validated: list[bool] = []

    class Ask(Hook):
        def after_train_iter(self, runner: Runner, data_loader: list[Any]) -> None:
            lasts.append(self.end_of_epoch(runner))
            data_loader.append(data_loader[0])

        def after_val_iter(self, runner: Runner) -> None:
            validated.append(self.end_of_epoch(runner))

    run_of("numpy", max_epochs=2, hooks=[Ask()]).fit(data(2), data(3))
    assert lasts == [False, True, False, False, False, True]
    assert validated == [False, False, True] * 2


@pytest.mark.parametrize("workflow", [[("train", 1)], [("train", 1), ("val", 1)], [("train", 2), ("val", 1)]])
def test_the_hooks_after_an_epoch_are_called_once_wherever_a_run_of_iterations_is_resumed(
    workflow: list[tuple[str, int]],
) -> None:
    """They were left out where the run, or a row of its workflow, had ended inside the epoch."""
    events: list[tuple[str, int]] = []
    states: list[tuple[Any, int]] = []

    def made() -> Runner:
        runner = run_of("numpy", max_epochs=None, max_iters=5, workflow=workflow)
        save = lambda: states.append((runner.state_dict(), len(events)))
        for stage in (runner.train_iter, runner.train_epoch, runner.val_loop):
            hooks(stage).post(lambda: runner.after_stage(save))
        for name, stage in (("trained", runner.train_epoch), ("validated", runner.val_loop)):
            hooks(stage).post(lambda iter, name=name: events.append((name, iter)))
        return runner

    made().fit(data(3), data(1))
    whole, saved = [*events], [*states]
    for checkpoint, count in saved:
        events[:] = whole[:count]
        runner = made()
        runner.restore(checkpoint, resume=True)
        runner.fit(data(3), data(1))
        assert events == whole
