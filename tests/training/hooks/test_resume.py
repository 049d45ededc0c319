"""A run that is resumed after any stage ends with the weights, and with the states of its hooks, of the whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aspecthook.training import AmpOptimizerHook, EarlyStoppingHook, EMAHook, EvalHook, Hook, NanGuardHook, Runner
from tests.training.hooks.test_ema import KINDS
from tests.training.kit import TORCH, data, run_of, same, state


class Spoils(Hook):
    """Makes the loss of some iterations NaN."""

    def after_forward(self, iter: int, result: Any) -> Any:
        return result * float("nan") if iter in (1, 5, 6) else None


class Scales(Hook):
    """Gives a run a scaler that changes its scale within a few steps, unless it is resumed."""

    priority = "HIGHEST"

    def before_run(self, runner: Runner) -> None:
        if not runner.resumed:
            runner.amp = runner.backend.amp("fp16", runner.model)
            runner.amp.load_state_dict({**runner.amp.state_dict(), "scale": 64.0, "growth_interval": 2})


class Counts(Hook):
    """Counts validations: one that begins a run is not made again by a run that is resumed."""

    priority = "HIGHEST"
    seen = 0

    def before_val_epoch(self) -> None:
        self.seen += 1

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, given: Any) -> None:
        self.seen = given["seen"]


class Saves(Hook):
    """Saves after all other hooks of each stage."""

    priority = "LOWEST"

    def __init__(self, folder: Path) -> None:
        self.folder, self.saved = folder, list[Path]()

    def after_iter(self, runner: Runner, mode: str) -> None:
        if mode == "train":
            self.after_epoch(runner)

    def after_epoch(self, runner: Runner) -> None:
        runner.after_stage(
            lambda: self.saved.append(runner.save_checkpoint(self.folder / f"{len(self.saved)}"))  # as CheckpointHook
        )


MADE: dict[str, Callable[[], list[Any]]] = {
    **{"-".join(map(str, options.values())): (lambda options=options: [EMAHook(**options)]) for options in KINDS},
    "guard": lambda: [Spoils(), NanGuardHook("skip")],
    **{f"stops-{n}": (lambda n=n: [EarlyStoppingHook("loss", patience=n, min_delta=0.3)]) for n in (1, 2, 3)},
    "evaluation": lambda: [EvalHook(data(1, seed=9), start=0, save_best="loss")],
}
ROWS = [
    pytest.param(library, name, id=f"{library}-{name}", marks=marks)
    for name in MADE
    for library, marks in (("numpy", ()), ("torch", TORCH.marks))
]


@pytest.mark.parametrize(("library", "name"), [*ROWS, pytest.param("torch", "scale", marks=TORCH.marks)])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_resumed_after_any_stage_ends_as_the_whole_run(
    library: str, name: str, accumulate: int, tmp_path: Path
) -> None:
    def begun(folder: Path) -> Runner:
        made = [Scales(), AmpOptimizerHook(kind="fp16")] if name == "scale" else MADE[name]()
        return run_of(library, hooks=[Counts(), *made], accumulate=accumulate, max_epochs=5, work_dir=folder)

    def end(runner: Runner) -> Any:
        states = [hook.state_dict() for hook in runner.hooks if hasattr(hook, "state_dict")]
        return runner.epoch, runner.iter, str(states), None if runner.amp is None else runner.amp.state_dict()

    whole = begun(tmp_path / "whole")
    saves = Saves(tmp_path)
    whole.register_hook(saves)
    whole.fit(data(4), data(1))
    whole.remove_hook(saves)
    assert (whole.epoch < 5) == name.startswith("stops")
    assert len(saves.saved) > 4
    for path in saves.saved:
        again = begun(tmp_path / f"from {path.name}")
        again.resume(path)
        again.fit(data(4), data(1))
        assert same(state(again), state(whole)), path
        assert end(again) == end(whole), path
