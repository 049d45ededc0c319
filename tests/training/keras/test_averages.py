"""The callback that tests with the average of the weights: on our runner, in a fit of Keras, and Keras's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook.training import EMAHook, Hook, Runner, TrainingError
from aspecthook.training.checkpoint._format import load
from aspecthook.training.keras import Callback, ModelCheckpoint, SwapEMAWeights
from tests.training.kit import LIBRARIES, data, run_of

libraries = pytest.mark.parametrize("library", LIBRARIES)


def averaging(library: str, *callbacks: Any, **options: Any) -> tuple[Runner, EMAHook]:
    runner = run_of(library, max_epochs=3, **options)
    ema = runner.register_hook(EMAHook("constant", momentum=0.3))
    for callback in callbacks:
        runner.register_hook(callback)
    return runner, ema


def has_average(runner: Runner, ema: EMAHook) -> bool:
    state = runner.backend.state(runner.model)
    return bool(ema.average) and all(np.array_equal(state[name], value) for name, value in ema.average.items())


class Look(Callback):
    """Notes whether the average is in the model."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []
        self.ema: Any = None

    def _note(self, event: str) -> None:
        self.seen.append((event, has_average(self.model.runner, self.ema)))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._note("epoch begins")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._note("epoch ends")

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._note("test")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch == 1:
            self._note("train")


@libraries
@pytest.mark.parametrize("stays", [False, True])
def test_the_average_is_in_the_model_where_keras_has_it(library: str, stays: bool) -> None:
    look = Look()
    runner, look.ema = averaging(library, SwapEMAWeights(stays), look)
    runner.fit(data(2), data(1))
    # After its first step the average is a copy of the weights.
    assert look.seen[1:4] == [("train", True), ("test", True), ("epoch ends", stays)]
    assert look.seen[4:8] == [("epoch begins", False), ("train", False), ("test", True), ("epoch ends", stays)]
    assert has_average(runner, look.ema)


@libraries
def test_a_file_after_the_callback_has_the_average_and_the_weights_that_are_trained(
    library: str, tmp_path: Path
) -> None:
    """The order of callbacks decides in Keras; a checkpoint here holds both sets in any case."""
    runner, ema = averaging(
        library, SwapEMAWeights(swap_on_epoch=True), ModelCheckpoint(str(tmp_path / "{epoch}.ckpt"))
    )
    runner.fit(data(2), data(1))
    saved = load(tmp_path / "3.ckpt")
    assert all(np.array_equal(saved["model"][name], value) for name, value in ema.average.items())


@libraries
def test_a_run_resumed_at_the_end_of_an_epoch_goes_on_as_the_whole_one(library: str, tmp_path: Path) -> None:
    class Save(Hook):
        def after_train_epoch(self, runner: Any, epoch: int) -> None:
            if epoch == 1:
                runner.after_stage(lambda: runner.save_checkpoint(tmp_path / "part.ckpt"))

    whole, average = averaging(library, SwapEMAWeights(swap_on_epoch=True), seed=3)
    whole.register_hook(Save())
    whole.fit(data(2))
    part, resumed = averaging(library, SwapEMAWeights(swap_on_epoch=True), seed=3)
    part.register_hook(Save())
    part.resume(tmp_path / "part.ckpt")
    part.fit(data(2))
    assert has_average(part, resumed)
    assert all(np.array_equal(resumed.average[name], value) for name, value in average.average.items())


def test_a_run_without_an_average_is_refused() -> None:
    runner = run_of("numpy", max_epochs=1)
    runner.register_hook(SwapEMAWeights())
    with pytest.raises(TrainingError, match=r"no average of its weights; register EMAHook\('constant'"):
        runner.fit(data(1))
    assert runner.iter == 0
