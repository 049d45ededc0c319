"""Loaders: what they give, in which order, and that they go on anywhere without reading what lies before."""

from __future__ import annotations

import json
import threading
import time
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookTypeError
from aspecthook.training import TrainingError
from aspecthook.training.data._loading import ArrayDataset, DataLoader, permutation
from aspecthook.training.loop._reading import check_loader
from tests.training.kit import with_torch


class Counting:
    """Numbers, and which of them have been read."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> int:
        if not 0 <= number < self.length:
            raise IndexError(number)
        self.read.append(number)
        return number


def listed(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def joined(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


seeds = st.integers(-(2**70), 2**70)


# Order


def test_a_permutation_is_the_same_on_every_version_of_numpy() -> None:
    """A run that is resumed after an upgrade must go on in the same order: NumPy promises that of raw numbers alone."""
    assert permutation(10, 0, 1).tolist() == PERMUTATION
    assert permutation(10, 0, 1).dtype == np.int64
    assert sorted(permutation(60, 2**70, 1).tolist()) == list(range(60))


PERMUTATION = [7, 4, 5, 1, 9, 8, 6, 2, 0, 3]


# Batches


def test_a_loader_yields_pairs_of_arrays() -> None:
    inputs, targets = np.arange(10, dtype=np.float32).reshape(5, 2), np.arange(5)
    batches = list(DataLoader(ArrayDataset(inputs, targets), 2))
    assert [(type(batch), batch[0].shape, batch[1].tolist()) for batch in batches] == [
        (tuple, (2, 2), [0, 1]),
        (tuple, (2, 2), [2, 3]),
        (tuple, (1, 2), [4]),
    ]
    assert batches[0][0].dtype == np.float32
    batches[0][0][:] = -1
    assert inputs.min() == 0, "a batch is a copy"


Pair = namedtuple("Pair", "x y")


def test_nested_samples_are_stacked() -> None:
    (batch,) = DataLoader([{"a": Pair(1, [2.0, "b"])}, {"a": Pair(3, [4.0, "c"])}], 2)
    assert type(batch["a"]) is Pair and batch["a"].x.tolist() == [1, 3]
    assert batch["a"].y[0].tolist() == [2.0, 4.0] and batch["a"].y[1] == ["b", "c"]
    assert next(iter(DataLoader([np.ones(2), np.zeros(2)], 2))).shape == (2, 2)


# Epochs


def test_each_pass_has_an_order_of_its_own_and_set_epoch_repeats_one() -> None:
    loader = DataLoader(range(50), 50, shuffle=True, seed=3)
    first, second, third = listed(loader), listed(loader), listed(loader)
    assert first != second != third != first
    loader.set_epoch(1)
    assert listed(loader) == second
    assert listed(loader) == third
    assert listed(DataLoader(range(50), 50, shuffle=True, seed=3)) == first
    assert listed(DataLoader(range(50), 50, shuffle=True, seed=4)) != first


# Going on


def batches_after(made: Any, state: Any) -> tuple[list[list[int]], list[int]]:
    """The batches that a new loader gives from a state on, and what it reads for them."""
    dataset, loader = made()
    loader.load_state_dict(json.loads(json.dumps(state)))
    return listed(loader), dataset.read


def resumes(made: Any, epoch: int, data: Any) -> None:
    """Say that a loader goes on from any position of an epoch, and reads what lies behind it alone."""
    _, whole = made()
    position = data.draw(st.integers(0, len(whole)))
    for _ in range(epoch):
        listed(whole)
    rest, state = [], whole.state_dict()
    for place, batch in enumerate(whole):
        if place + 1 == position:
            state = whole.state_dict()
        if place >= position:
            rest.append(batch.tolist())
    assert state["epoch"] == epoch and state["position"] == position
    assert batches_after(made, state) == (rest, joined(rest))


@given(st.integers(1, 30), st.integers(1, 9), st.booleans(), st.booleans(), seeds, st.integers(0, 3), st.data())
def test_skipping_to_a_position_reads_no_sample_before_it(
    length: int, batch_size: int, shuffle: bool, drop_last: bool, seed: int, epoch: int, data: Any
) -> None:
    def made() -> Any:
        dataset = Counting(length)
        return dataset, DataLoader(dataset, batch_size, shuffle, seed, drop_last)

    resumes(made, epoch, data)


def test_after_a_resumed_pass_the_next_one_is_whole() -> None:
    """A runner sets the epoch as it begins one, the resumed one too, which must keep the position."""
    loader = DataLoader(range(6), 2)
    loader.load_state_dict({"epoch": 4, "position": 2})
    loader.set_epoch(4)
    assert loader.state_dict()["position"] == 2
    assert listed(loader) == [[4, 5]]
    assert loader.epoch == 5
    assert listed(loader) == [[0, 1], [2, 3], [4, 5]]


def test_the_seed_of_the_state_wins() -> None:
    first = DataLoader(range(20), 2, shuffle=True, seed=1)
    batches = listed(first)
    first.load_state_dict({"epoch": 0, "position": 3})
    second = DataLoader(range(20), 2, shuffle=True, seed=2)
    second.load_state_dict(first.state_dict())
    assert listed(second) == batches[3:]


layouts = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=4)


@given(layouts, st.integers(0, 40), st.booleans(), st.integers(0, 3))
def test_with_other_batch_sizes_and_ranks_each_sample_of_the_epoch_is_read_once(
    rows: list[tuple[int, int, int]], length: int, shuffle: bool, seed: int
) -> None:
    """The position was rounded down, and samples were read twice. A row is a batch size, ranks, and batches read."""
    seen: list[int] = []
    state = then = {"epoch": 2, "position": 0}
    for number, (size, world, count) in enumerate(rows):
        last = number + 1 == len(rows)
        ranks = [DataLoader(range(length), size, shuffle, seed, rank=rank, world_size=world) for rank in range(world)]
        read: list[list[list[int]]] = []
        for loader in ranks:
            loader.load_state_dict(json.loads(json.dumps(state)))
            left, batches = loader.batches_left(), iter(loader)
            read.append([next(batches).tolist() for _ in range(left if last else min(left, count))])
            then = loader.state_dict()
            assert len([*batches]) == left - len(read[-1])
        state = then
        # The ranks share the samples in turn: the first of each batch, the second of each, and so on.
        for row in zip(*map(joined, read), strict=True):
            seen += row
    order = permutation(length, seed, 2).tolist() if shuffle else list(range(length))
    assert seen[:length] == order
    assert len(seen) - length < max(world for _, world, _ in rows), "and a few again, to give all ranks equally many"


# What cannot be


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ({"order": "shuffled"}, "order was 'shuffled' and is 'as it is'"),
        ({"samples": 9}, "in the middle of an epoch.*samples was 9 and is 10"),
    ],
)
def test_a_position_inside_other_data_is_refused_and_their_beginning_is_not(there: dict[str, Any], says: str) -> None:
    loader = DataLoader(range(10), 2)
    state = {**loader.state_dict(), **there}
    with pytest.raises(TrainingError, match=says):
        loader.load_state_dict({**state, "position": 1})
    loader.load_state_dict({**state, "epoch": 2})
    assert loader.epoch == 2 and len(listed(loader)) == 5


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: ArrayDataset(), "ArrayDataset was given arrays of the shapes none; give arrays of one length"),
        (lambda: ArrayDataset(np.zeros((3, 2)), np.zeros(4)), r"\(3, 2\), \(4,\)"),
        (lambda: ArrayDataset(np.zeros(())), r"shapes \(\)"),
        (lambda: DataLoader(range(3), 1, rank=2, world_size=2), "from 0 to world_size - 1"),
        (lambda: DataLoader(range(3), 1, rank=1), r"\(rank=1, world_size=None\): .* neither of the two under torchrun"),
        (lambda: DataLoader(range(3), 0), "from 1 up"),
        (lambda: DataLoader(range(3), True), "batch_size=True is not a whole number"),
        (
            lambda: DataLoader(iter([1]), 2),  # type: ignore[arg-type]
            "iterator is not a data set; give an object with __len__ and __getitem__",
        ),
        (lambda: check_loader(3, "the data"), "int, which cannot be iterated"),
        (lambda: check_loader([], "the val loader"), "the val loader has no batches: it is empty, or has"),
        (
            lambda: check_loader(DataLoader(range(3), 4, drop_last=True), "it"),
            "fewer samples than a batch, which drop_last=True leaves out; .* give a smaller batch_size",
        ),
    ],
)
def test_check_loader_refuses_a_loader_without_batches(wrong: Any, says: str) -> None:
    with pytest.raises((TrainingError, HookOptionError, HookTypeError), match=says):
        wrong()


# PyTorch's loaders


@with_torch
@settings(max_examples=60)
@given(st.integers(1, 30), st.integers(1, 9), st.booleans(), seeds, st.integers(0, 2), st.data())
def test_a_loader_of_pytorch_skips_without_reading(
    length: int, batch_size: int, shuffle: bool, seed: int, epoch: int, data: Any
) -> None:
    import torch
    from torch.utils import data as torch_data

    from aspecthook.training.data import Resumable

    def made() -> Any:
        dataset: Any = Counting(length)
        return dataset, Resumable(torch_data.DataLoader(dataset, batch_size, shuffle=shuffle), seed=seed)

    before = torch.get_rng_state()
    resumes(made, epoch, data)
    assert torch.equal(torch.get_rng_state(), before), "a resumed run would draw other numbers"


class Augmented:
    """Samples that differ at each reading, by every generator that augmentation draws from."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, number: int) -> Any:
        import random

        import torch

        return [float(number), random.random(), np.random.rand(), torch.rand(()).item(), float(SHIFT[0])]


SHIFT = [0]


def shifting(worker: int) -> None:
    SHIFT[0] = 7


@with_torch
@pytest.mark.parametrize("persistent", [False, True])
def test_augmentation_in_workers_is_the_same_after_a_resume(persistent: bool) -> None:
    """Workers are seeded as an epoch begins, so that one that was resumed drew other numbers for the same samples."""
    import torch
    from torch.utils.data import DataLoader as TorchLoader

    from aspecthook.training.data import Resumable

    def made() -> Any:
        dataset: Any = Augmented()
        loader = TorchLoader(
            dataset, 3, shuffle=True, num_workers=2, persistent_workers=persistent, worker_init_fn=shifting
        )
        return Resumable(loader, seed=5)

    def read(loader: Any) -> list[Any]:
        return [torch.stack(batch).tolist() for batch in loader]

    whole = made()
    first, second = read(whole), read(whole)
    assert first != second and first[0][4] == [7.0] * 3
    resumed = made()
    resumed.load_state_dict({"epoch": 1, "position": 2})
    assert read(resumed) == second[2:]


@with_torch
def test_a_loader_of_pytorch_with_an_order_of_its_own_is_refused() -> None:
    from torch.utils.data import BatchSampler, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler
    from torch.utils.data import DataLoader as TorchLoader

    from aspecthook.training.data import Resumable

    class Stream(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(3))

    class Own(BatchSampler): ...

    dataset: Any = Counting(12)
    sampler = SequentialSampler(dataset)
    for loader, says in [
        (TorchLoader(Stream()), "the loader has a stream"),
        (TorchLoader(dataset, batch_size=None), "the loader has batch_size=None and a SequentialSampler"),
        (TorchLoader(dataset, 2, sampler=DistributedSampler(dataset, num_replicas=2, rank=0)), "a DistributedSampler"),
        (TorchLoader(dataset, 2, sampler=RandomSampler(dataset, replacement=True)), "2 and a RandomSampler"),
        (TorchLoader(dataset, 2, sampler=RandomSampler(dataset, num_samples=20)), "2 and a RandomSampler"),
        (TorchLoader(dataset, batch_sampler=Own(sampler, 2, drop_last=False)), "batch_size=None and a Sequential"),
    ]:
        with pytest.raises(TrainingError, match=f"{says}.*give the loader batch_size and shuffle alone"):
            Resumable(loader)


# Reading ahead


@given(st.integers(0, 20), st.integers(1, 4), st.integers(1, 5), st.integers(0, 6))
@settings(max_examples=30, deadline=None)
def test_batches_that_are_read_ahead_are_the_same_and_go_on_anywhere(
    length: int, size: int, prefetch: int, position: int
) -> None:
    plain = DataLoader(range(length), size, shuffle=True)
    ahead = DataLoader(range(length), size, shuffle=True, prefetch=prefetch)
    batches = listed(plain)
    assert listed(ahead) == batches and ahead.state_dict() == plain.state_dict()
    position = min(position, len(batches))
    ahead.load_state_dict({"epoch": 0, "position": position})
    rest = iter(ahead)
    for place, batch in enumerate(rest, position + 1):
        assert batch.tolist() == batches[place - 1]
        if place < len(batches):
            assert ahead.state_dict()["position"] == place
    assert ahead.epoch == 1


def test_no_more_is_read_ahead_than_asked_for_and_a_failure_comes_where_its_batch_is_due() -> None:
    data, threads = Counting(5), threading.active_count()
    rest = iter(DataLoader(data, 1, prefetch=2))
    assert next(rest).tolist() == [0]
    for thread in threading.enumerate():
        if thread.name.startswith("aspecthook-prefetch"):
            while len(data.read) < 3:  # which it reads by itself
                time.sleep(0.001)
    assert data.read == [0, 1, 2]
    rest.close()  # type: ignore[attr-defined]
    assert data.read == [0, 1, 2] and threading.active_count() == threads
    data.length = 3
    rest = iter(DataLoader(Longer(data), 1, prefetch=3))
    assert [next(rest).tolist() for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(IndexError, match="3"):
        next(rest)
    assert threading.active_count() == threads


class Longer:
    """Data that claim one sample more than they have."""

    def __init__(self, data: Counting) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data) + 1

    def __getitem__(self, number: int) -> int:
        return self.data[number]
