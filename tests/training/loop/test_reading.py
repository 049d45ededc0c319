"""A run that is resumed in the middle of an epoch reads each sample of it once, or is refused."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import hooks
from aspecthook.training import Hook, Runner, TrainingError
from aspecthook.training.checkpoint import load
from aspecthook.training.data import DataLoader
from tests.training.kit import Loss, Optimizer, with_torch


class Model:
    """Trains nothing, and notes what it was given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def train_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
        self.seen.append(batch.tolist() if hasattr(batch, "tolist") else batch)
        return {"loss": Loss(0.0), "log_vars": {"loss": 0.0}, "num_samples": 1}


class Stop(Hook):
    def __init__(self, after: int) -> None:
        self.after = after

    def after_train_iter(self, runner: Runner) -> None:
        if runner.iter + 1 == self.after:
            runner.request_stop()


def ran(
    loader: Any, path: Path, stop: int | None = None, *, saved: bool = False, epochs: int = 2, **options: Any
) -> Runner:
    """Return a run that has been stopped and saved, maybe after it was resumed."""
    runner = Runner(Model(), optimizer=Optimizer(), max_epochs=epochs, **options)
    if stop is not None:
        runner.register_hook(Stop(stop))
    if saved:
        runner.resume(path)
    runner.fit(loader)
    runner.save_checkpoint(path)
    return runner


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9)), min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(5, 20),
    st.booleans(),
    st.sampled_from([1, 3]),
)
def test_the_batch_size_may_change_at_any_iteration(
    rows: list[tuple[int, int]], last: int, length: int, shuffle: bool, accumulate: int
) -> None:
    runners: list[Runner] = []
    stop = 0
    with TemporaryDirectory() as folder:
        path = Path(folder, "run")
        for size, more in rows:
            stop += more
            loader = DataLoader(range(length), size, shuffle, 7)
            runners.append(ran(loader, path, stop, saved=bool(runners), accumulate=accumulate))
        loader = DataLoader(range(length), last, shuffle, 7)
        runners.append(ran(loader, path, saved=True, accumulate=accumulate))
    whole = DataLoader(range(length), length, shuffle, 7)
    found = [number for runner in runners for batch in runner.model.seen for number in batch]
    assert found == [number for _ in range(2) for batch in whole for number in batch.tolist()]
    end = runners[-1]
    assert (end.epoch, end.progress.inner_iter) == (2, 0)
    assert end.step == -(-end.iter // accumulate), "the last group is as large as the batches that are left"


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (DataLoader(range(8), 2), DataLoader(range(9), 2), "samples was 8 and is 9"),
        (DataLoader(range(8), 2), DataLoader(range(8), 2, shuffle=True), "order was 'as it is' and is 'shuffled'"),
        (DataLoader(range(8), 2), [[0, 1]] * 4, "a list cannot be read on from there"),
        ([[0, 1]] * 4, DataLoader(range(8), 2), "a DataLoader cannot be read on from there"),
        ([[0, 1]] * 4, [[0, 1]] * 5, "batches was 4 and is 5"),
    ],
)
def test_other_data_are_refused_inside_an_epoch_and_not_at_its_beginning(
    first: Any, second: Any, what: str, tmp_path: Path
) -> None:
    ran(first, tmp_path / "run", 3)
    with pytest.raises(TrainingError, match=rf"in the middle of an epoch.*{what}.*at the end of an epoch"):
        ran(second, tmp_path / "run", saved=True)
    ran(first, tmp_path / "whole", 4)
    assert ran(second, tmp_path / "whole", saved=True).epoch == 2


class SaveAt(Hook):
    def __init__(self, at: int, path: Path) -> None:
        self.at, self.path = at, path

    def after_train_iter(self, runner: Runner) -> None:
        if runner.progress.iter == self.at:
            runner.save_checkpoint(self.path)


@pytest.mark.parametrize("then", [[[0, 1]] * 5, [[0, 1]] * 3, DataLoader(range(8), 2)], ids=["more", "fewer", "ours"])
def test_other_data_begin_the_next_epoch_after_the_last_iteration_of_one(then: Any, tmp_path: Path) -> None:
    """A checkpoint of the last iteration was refused as one from the middle of the epoch."""
    first = Runner(Model(), optimizer=Optimizer(), max_epochs=1)
    first.register_hook(SaveAt(4, tmp_path / "run"))
    first.fit([[0, 1]] * 4)
    assert load(tmp_path / "run")["progress"]["inner_iter"] == 4
    second = Runner(Model(), optimizer=Optimizer(), max_epochs=2)
    second.resume(tmp_path / "run")
    second.fit(then)
    assert len(second.model.seen) == len(then) and (second.epoch, second.iter) == (2, 4 + len(then))


class Plain:
    """A loader that can only be read from the beginning, in an order of its own."""

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Any:
        return iter(random.sample(range(6), 6))


def test_a_loader_without_a_state_is_refused_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """It was read again in another order, so that samples were left out and read twice."""
    loader = Plain()
    ran(loader, tmp_path / "run", 8)
    with pytest.raises(TrainingError, match=r"after 2 batches, and a Plain cannot be read on .* or resume from"):
        ran(loader, tmp_path / "run", saved=True)
    ran(loader, tmp_path / "whole", 6)
    assert ran(loader, tmp_path / "whole", saved=True).iter == 12


def test_a_pass_that_has_failed_is_not_taken_for_one_that_has_ended() -> None:
    class Fails(Plain):
        def __iter__(self) -> Any:
            yield 0
            raise OSError("the disk has gone")

    loader, runner = Fails(), Runner(Model(), optimizer=Optimizer(), max_epochs=2)
    with pytest.raises(OSError, match="has gone"):
        runner.fit(loader)
    with pytest.raises(TrainingError, match="after 1 batches"):
        runner.fit(loader)


class Counter:
    """A loader with a state of its own, which says nothing of epochs and positions; it moves on as it is read."""

    def __init__(self) -> None:
        self.passes = self.place = 0

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Any:
        if self.place == 4:
            self.passes, self.place = self.passes + 1, 0
        while self.place < 4:
            self.place += 1
            yield 10 * self.passes + self.place

    def state_dict(self) -> dict[str, int]:
        return {"passes": self.passes, "place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.passes, self.place = state["passes"], state["place"]


WHOLE = [1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24]


@pytest.mark.parametrize("stop", range(1, 12))
def test_a_loader_with_a_state_of_its_own_is_used_as_it_is(stop: int, tmp_path: Path) -> None:
    """It was given the runner's epoch and position, and raised a KeyError."""
    first = ran(Counter(), tmp_path / "run", stop, epochs=3)
    second = ran(Counter(), tmp_path / "run", saved=True, epochs=3)
    assert first.model.seen + second.model.seen == WHOLE
    assert (second.epoch, second.iter) == (3, 12)


@pytest.mark.parametrize("when", ["pre", "post"])
@pytest.mark.parametrize("at", range(12))
def test_it_is_resumed_from_before_and_after_an_iteration(at: int, when: Any, tmp_path: Path) -> None:
    """A checkpoint that is saved before an iteration has seen one batch more than the run has trained on."""
    for made, whole in ((Counter, WHOLE), (lambda: DataLoader(range(4), 1), [[0], [1], [2], [3]] * 3)):
        runner = Runner(Model(), optimizer=Optimizer(), max_epochs=3)

        def keep(runner: Runner) -> None:
            if runner.iter == at:
                runner.save_checkpoint(tmp_path / "run")

        hooks(runner.train_iter).add(when, keep)
        runner.fit(made())
        assert runner.model.seen == whole
        resumed = ran(made(), tmp_path / "run", saved=True, epochs=3)
        assert resumed.model.seen == whole[at + (when == "post") :]


def test_an_epoch_that_was_left_early_is_continued_in_the_same_runner() -> None:
    for loader, whole in ((Counter(), WHOLE), (DataLoader(range(4), 1), [[0], [1], [2], [3]] * 3), (Plain(), None)):
        runner = Runner(Model(), optimizer=Optimizer(), max_iters=12, workflow=[("train", 3)])
        runner.fit(loader)
        assert runner.model.seen == whole or sorted(runner.model.seen) == sorted([*range(6), *range(6)])


def test_a_checkpoint_before_the_first_epoch_keeps_no_state_of_a_loader(tmp_path: Path) -> None:
    runner = Runner(Model(), optimizer=Optimizer(), max_epochs=1)
    assert load(runner.save_checkpoint(tmp_path / "run"))["data"] is None
    assert ran(Counter(), tmp_path / "run", saved=True, epochs=3).model.seen == WHOLE


# PyTorch's


@with_torch
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata 0.11 calls it, of PyTorch 2.13
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.wide)])
@pytest.mark.parametrize("stop", [1, 5, 6, 7, 11, 12, 13])
def test_a_loader_of_torchdata_continues_exactly(stop: int, workers: int, tmp_path: Path) -> None:
    import torch

    torchdata: Any = pytest.importorskip("torchdata.stateful_dataloader")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))
            self.seen: list[Any] = []

        def train_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
            torch.rand(())  # as dropout draws
            self.seen.append(batch.tolist())
            return {"loss": self.weight * 1.0, "log_vars": {}, "num_samples": 1}

    def run(name: str, stop: int | None = None, saved: bool = False) -> list[Any]:
        torch.manual_seed(0)
        net = Net()
        runner = Runner(net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), max_epochs=3, seed=1)
        if stop is not None:
            runner.register_hook(Stop(stop))
        loader = torchdata.StatefulDataLoader(range(11), batch_size=2, shuffle=True, num_workers=workers)
        if saved:
            torch.manual_seed(99)
            runner.resume(tmp_path / name)
        runner.fit(loader)
        runner.save_checkpoint(tmp_path / name)
        return net.seen

    whole = run("whole")
    assert run("run", stop) + run("run", saved=True) == whole
    assert sorted(number for batch in whole[:6] for number in batch) == list(range(11))
