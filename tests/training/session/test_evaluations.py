"""What an Estimator of TensorFlow has beside its three methods: specs, evaluation in memory, an early end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aspecthook import HookOptionError, HookTypeError
from aspecthook.training.session import (
    Estimator,
    EstimatorSpec,
    InMemoryEvaluatorHook,
    ModeKeys,
    SessionRunHook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from tests.training.kit import both, same, state
from tests.training.session.kit import Trail, loader, plain, runner_of


def test_the_hooks_of_a_spec_belong_to_their_mode(tmp_path: Path) -> None:
    log: list[str] = []

    def model_fn(mode: str) -> EstimatorSpec:
        hooks = {name: [Trail(name, log)] for name in ("training", "training_chief", "evaluation", "prediction")}
        return EstimatorSpec(mode, plain(), **{f"{name}_hooks": given for name, given in hooks.items()})

    estimator = Estimator(model_fn, model_dir=tmp_path)

    def names() -> list[str]:
        found = sorted({line.partition(".")[0] for line in log})
        log.clear()
        return found

    estimator.train(lambda: [1.0, 2.0])
    assert names() == ["training", "training_chief"]
    estimator.evaluate(lambda: [1.0])
    assert names() == ["evaluation"]
    list(estimator.predict(lambda: [1.0]))
    assert names() == ["prediction"]


def test_a_spec_of_another_mode_is_refused() -> None:
    estimator = Estimator(lambda: EstimatorSpec(ModeKeys.EVAL, plain()))
    with pytest.raises(HookOptionError, match="called with mode='train', and returned an EstimatorSpec of mode='eval'"):
        estimator.train(lambda: [1.0])


def test_a_spec_of_no_mode_is_refused() -> None:
    with pytest.raises(HookOptionError, match=r"EstimatorSpec\(mode='trian'\): give 'train', 'eval' or .*mean 'train'"):
        EstimatorSpec("trian", plain())


@both
def test_evaluations_in_memory_are_those_at_these_steps_and_do_not_change_the_training(library: str) -> None:
    alone = runner_of(library)
    Estimator(alone).train(loader)
    runner = runner_of(library)
    estimator = Estimator(runner)
    hook = InMemoryEvaluatorHook(estimator, loader, every_n_iter=5)
    assert estimator.train(loader, hooks=[hook]) is estimator
    assert sorted(estimator.evaluations) == [0, 5, 10, 12]
    assert same(state(runner), state(alone))
    last = estimator.evaluate(loader)
    assert last == estimator.evaluations[12]
    assert last["loss"] < estimator.evaluations[0]["loss"]


class Scores(SessionRunHook):
    """Notes an evaluation after each step."""

    def __init__(self, estimator: Estimator, values: list[float]) -> None:
        self.estimator, self.values = estimator, values

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = run_context.session.run("global_step")
        self.estimator.evaluations[step] = {"score": self.values[step - 1]}


@pytest.mark.parametrize(
    ("make", "values", "options", "last"),
    [
        (stop_if_no_decrease_hook, [5, 4, 4, 4, 3, 2], {}, 4),
        (stop_if_no_decrease_hook, [5, 4, 3, 2, 1, 0], {}, 6),
        (stop_if_no_decrease_hook, [1, 4, 3, 2, 2, 2], {"min_steps": 2}, 6),
        (stop_if_no_increase_hook, [1, 2, 2, 1, 5, 6], {}, 4),
    ],
)
def test_a_training_ends_when_a_metric_has_not_improved_for_that_many_steps(
    make: Any, values: list[float], options: Any, last: int
) -> None:
    runner = plain()
    estimator = Estimator(runner)
    hook = make(estimator, "score", 2, run_every_steps=1, **options)
    estimator.train(lambda: [1.0] * 6, hooks=[Scores(estimator, values), hook])
    assert runner.step == last


def test_a_resumed_training_knows_the_evaluations_before() -> None:
    estimator = Estimator(plain())
    estimator.evaluations.update({1: {"score": 3.0}, 2: {"loss": 1.0}})
    saved = stop_if_no_decrease_hook(estimator, "score", 2).state_dict()
    again = Estimator(plain())
    stop_if_no_decrease_hook(again, "score", 2).load_state_dict(saved)
    assert again.evaluations == {1: {"score": 3.0}}


def test_what_cannot_be_evaluated_is_refused() -> None:
    wrong: Any = plain()
    with pytest.raises(HookTypeError, match="give an Estimator"):
        InMemoryEvaluatorHook(wrong, lambda: [1.0])
    with pytest.raises(HookTypeError, match="give an Estimator"):
        stop_if_no_decrease_hook(wrong, "loss", 3)
    estimator = Estimator(plain())
    with pytest.raises(HookTypeError, match="give a function that returns the data"):
        InMemoryEvaluatorHook(estimator, wrong)
    hook = stop_if_no_decrease_hook(estimator, "scor", 2, run_every_steps=1)
    with pytest.raises(HookOptionError, match="no evaluation has 'scor', but score; did you mean 'score'"):
        estimator.train(lambda: [1.0], hooks=[Scores(estimator, [1.0]), hook])
