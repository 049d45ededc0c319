"""A synchronous save writes what the model holds, without a copy of it; whoever else sees the state gets copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import hooks
from aspecthook.training import CheckpointHook, EMAHook, Hook, Runner
from aspecthook.training import numpy as nn
from aspecthook.training.backends._state import map_leaves
from aspecthook.training.checkpoint import load
from aspecthook.training.checkpoint._format import packed
from tests.training.kit import both, data, registered, run_of, same


class Seeing(Hook):
    """Changes what is saved, in place, and keeps it."""

    seen: Any = None

    def before_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.seen = checkpoint["model"]
        for array in self.seen.values():
            array[...] = 1


class Ours(CheckpointHook):
    """A class of the user's, derived from one of the package."""

    before_save_checkpoint = Seeing.before_save_checkpoint  # type: ignore[assignment]


def trained(library: str, *hooks: Any, **options: Any) -> Runner:
    runner = registered(run_of(library, **options), hooks)
    runner.fit(data(3))
    return runner


def arrays_of(tree: Any) -> list[Any]:
    found: list[Any] = []
    map_leaves(lambda leaf: found.append(leaf) if isinstance(leaf, np.ndarray) else None, tree)
    return found


class StopInTheFirstGroup(Hook):
    def after_train_iter(self, runner: Runner) -> None:
        runner.request_stop()


@both
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_state_without_copies_is_the_state(library: str, accumulate: int) -> None:
    runner = trained(library, StopInTheFirstGroup(), accumulate=accumulate, max_epochs=1)
    copies, shared = runner.state_dict(), runner.state_dict(copy=False)
    for name in ("model", "optimizer", "gradients"):
        mine, theirs = arrays_of(copies[name]), arrays_of(shared[name])
        assert [array.tobytes() for array in mine] == [array.tobytes() for array in theirs]
        again = arrays_of(runner.state_dict(copy=False)[name])
        assert all(np.shares_memory(one, other) for one, other in zip(theirs, again, strict=True))
        assert not any(np.shares_memory(one, other) for one in mine for other in theirs)
    assert (shared["gradients"] is None) == (accumulate == 1)


def test_a_state_dict_of_a_subclass_need_not_offer_its_arrays() -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(2, 1)

        def state_dict(self) -> dict[str, Any]:  # type: ignore[override]
            return {name: 2 * array for name, array in super().state_dict().items()}

    model = Doubled()
    state = Runner(model).state_dict(copy=False)["model"]
    assert same(state, {name: 2 * value.data for name, value in model.named_parameters()})


@both
@pytest.mark.parametrize("hook", [Seeing, Ours])
def test_hooks_of_others_may_change_and_keep_what_is_saved(library: str, hook: Any, tmp_path: Path) -> None:
    hook = hook(**({"interval": 0, "save_last": False, "out_dir": tmp_path} if hook is Ours else {}))
    runner = trained(library, hook)
    before = runner.state_dict()["model"]
    runner.save_checkpoint(tmp_path / "saved")
    assert same(runner.state_dict()["model"], before)
    assert all((array == 1).all() for array in load(tmp_path / "saved")["model"].values())


def test_a_runner_that_writes_itself_gets_copies(tmp_path: Path) -> None:
    class Own(Runner):
        __slots__ = ()
        kept: Any = None

        def write_checkpoint(self, path: Path, checkpoint: Any, copied: Any = None) -> Path:  # type: ignore[override]
            type(self).kept = checkpoint["model"]
            return path

    model = nn.Linear(2, 2)
    runner = Own(model, optimizer=nn.SGD(model.parameters(), lr=0.1), loss=nn.mse, max_epochs=1)
    runner.save_checkpoint(tmp_path / "saved")
    assert not np.shares_memory(Own.kept["weight"], model.weight.data)


@both
def test_the_hooks_of_the_package_save_what_they_saved_from_copies(library: str, tmp_path: Path) -> None:
    def run() -> tuple[Runner, Any]:
        runner = trained(library, CheckpointHook(save_last=False, out_dir=tmp_path), EMAHook(momentum=0.5))
        return runner, runner.backend.state(runner.model)

    runner, before = run()
    shared = load(runner.save_checkpoint(tmp_path / "shared"))
    assert same(runner.backend.state(runner.model), before)
    other, _ = run()
    hooks(other.write_checkpoint).pre(lambda checkpoint: None)
    copied = load(other.save_checkpoint(tmp_path / "copied"))
    assert same(shared["model"], copied["model"])
    assert same(shared["hooks"]["EMAHook"]["weights"], copied["hooks"]["EMAHook"]["weights"])


@pytest.mark.parametrize("dtype", ["bool", "u1", "<i4", "=f4", "<f8", "c8"])
def test_an_array_that_is_as_the_file_has_it_is_not_copied(dtype: str) -> None:
    """NumPy made another array of the same memory, so that an asynchronous save copied everything twice."""
    for array in (np.ones(3, dtype), np.ones((), dtype), np.ones((2, 3), dtype)):
        assert packed({"a": array})[1]["a"] is array
