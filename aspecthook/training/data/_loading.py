"""Data sets, of which one comes with the package, and a loader that resumes in the middle of an epoch.

The loader reads no sample before its position. The order of an epoch depends only on the seed and the number of the
epoch. So the position is two numbers: the epoch, and how many batches of it have been read. They are valid only for one
layout of the data: the number of samples, their order, and how batches and ranks divide them.
"""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.resources import files
from typing import Any, Literal, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, one_of, whole_number
from aspecthook.training._ranks import rank_and_world_size
from aspecthook.training.backends._state import remade
from aspecthook.training.loop._reading import refuse_layout

Array: TypeAlias = NDArray[Any]


@runtime_checkable
class Dataset(Protocol):
    """An object with a length, whose samples are indexed by number, such as a list."""

    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> Any: ...


@final
class ArrayDataset:
    """Arrays of the same length, such as inputs and targets; a sample is a tuple of one row of each.

    Example:
        >>> import numpy as np
        >>> ArrayDataset(np.zeros((5, 2)), np.arange(5))[3]
        (array([0., 0.]), np.int64(3))
    """

    def __init__(self, *arrays: Any) -> None:
        self.arrays: tuple[Array, ...] = tuple(map(np.asarray, arrays))
        if not arrays or len({array.shape[:1] for array in self.arrays}) != 1 or not self.arrays[0].ndim:
            shapes = ", ".join(str(array.shape) for array in self.arrays) or "none"
            raise TrainingError(f"ArrayDataset was given arrays of the shapes {shapes}; give arrays of one length")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, number: Any, /) -> tuple[Any, ...]:
        return tuple(array[number] for array in self.arrays)


def permutation(length: int, *seeds: int) -> NDArray[np.int64]:
    """Return the numbers below ``length`` in an order that depends only on the seeds.

    NumPy keeps the raw numbers of a bit generator the same from version to version, but not what it computes from them.
    """
    keys = np.random.PCG64(np.random.SeedSequence([seed % 2**64 for seed in seeds])).random_raw(length)
    return np.argsort(np.asarray(keys, np.uint64), kind="stable").astype(np.int64)


def load_digits(split: Literal["train", "test"] = "train") -> tuple[Array, Array]:
    """Return the images and labels of one part of the UCI handwritten digits: 1,797 real images of 8×8 pixels.

    The test part has a fifth (rounded down) of the images of each digit, 355 in all, and the training part the other
    1,442, the same in each call. Both parts have digits by the same writers. Source, licence (CC BY 4.0) and citation
    are in ``data/digits.txt``, beside the data.

    Args:
        split: ``"train"`` or ``"test"``.

    Returns:
        Images, of shape (n, 8, 8), from 0 (white) to 1 (black); and the digits, of shape (n,).

    Example:
        >>> images, labels = load_digits("test")
        >>> images.shape, images.dtype, labels[:5]
        ((355, 8, 8), dtype('float32'), array([...]))
    """
    one_of("load_digits", "split", split, ("train", "test"))
    packed = (files("aspecthook.training") / "data" / "digits.csv.gz").read_bytes()
    # Each row has 64 pixels and a digit.
    rows: Array = np.loadtxt(gzip.decompress(packed).decode().splitlines(), np.int64, delimiter=",")
    labels = rows[:, -1]
    chosen = np.zeros(len(labels), bool)
    for digit in range(10):
        places = np.flatnonzero(labels == digit)
        chosen[places[permutation(len(places), 0, digit)[: len(places) // 5]]] = True
    if split == "train":
        chosen = ~chosen
    return (rows[chosen, :-1] / np.float32(16)).astype(np.float32).reshape(-1, 8, 8), labels[chosen]


class DataLoader:
    """Batches of a data set; the loader can be resumed at any batch.

    Iteration starts at the beginning of the epoch or, the first time after `load_state_dict`, at the loaded position.
    After the last batch, the loader moves to the next epoch by itself. Samples are stacked into arrays, also inside
    tuples, lists and dicts.

    As with ``torch.utils.data.DistributedSampler``, the ranks take samples in turn, each the same number. If the
    samples do not divide evenly, the first ones are read a second time.

    Args:
        dataset: An object with a length, whose samples are indexed by number, such as a list.
        batch_size: The number of samples in a batch.
        shuffle: Whether to read the samples in a different order in each epoch.
        seed: Determines the orders.
        drop_last: Whether to leave out the last batch if it is smaller.
        rank: The number of this process, if several share the samples; by default, torchrun's number for it.
        world_size: The number of processes that share the samples; by default, all that torchrun has started. With
            ``rank=0, world_size=1``, each process reads all samples.
        prefetch: The number of batches that a thread reads ahead, so that a step does not wait for the disk. If the
            data set draws random numbers, give it its own generator: the thread's draws from global generators do not
            repeat.

    Example:
        >>> import numpy as np
        >>> loader = DataLoader(ArrayDataset(np.arange(10.0), np.arange(10)), 4, shuffle=True)
        >>> [len(targets) for inputs, targets in loader]
        [4, 4, 2]
        >>> batches = list(loader)
        >>> loader.load_state_dict({"epoch": 1, "position": 2})
        >>> (next(iter(loader))[1] == batches[2][1]).all()
        np.True_
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        prefetch: int = 0,
    ) -> None:
        who = type(self).__name__
        if rank is None and world_size is None:
            rank, world_size = rank_and_world_size()
        if rank is None or world_size is None or not 0 <= rank < world_size:
            raise TrainingError(
                f"{who}(rank={brief(rank)}, world_size={brief(world_size)}): give a rank from 0 to world_size - 1, or "
                "neither of the two under torchrun"
            )
        if not isinstance(dataset, Dataset):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TrainingError(
                f"{type(dataset).__name__} is not a data set; give an object with __len__ and __getitem__"
            )
        self.dataset = dataset
        self.batch_size: int = whole_number(who, "batch_size", batch_size, 1)
        self.shuffle: bool = flag(who, "shuffle", shuffle)
        self.drop_last: bool = flag(who, "drop_last", drop_last)
        self.seed: int = seed
        self.prefetch: int = whole_number(who, "prefetch", prefetch, 0)
        self.rank = rank
        self.world_size = world_size
        self.epoch: int = 0  # the epoch that is being read, or that is read next
        self._position = 0
        self._origin = 0  # the samples of the epoch, of all ranks, that were read in another layout, before position 0
        self._loaded = False

    def _read(self, rows: Iterator[list[int]]) -> Iterator[Any]:
        """Read batches from the position on, each from the numbers of its samples."""
        if isinstance(self.dataset, ArrayDataset):
            return (self.dataset[numbers] for numbers in rows)
        return (_collated([self.dataset[number] for number in numbers]) for numbers in rows)

    # How an epoch is divided

    def _rows(self) -> Iterator[list[int]]:
        """Return the numbers of the samples in each batch of the epoch after the origin, from the position on."""
        length, size = len(self.dataset), self.batch_size
        order = permutation(length, self.seed, self.epoch) if self.shuffle else np.arange(length)
        rest = order[self._origin :]
        each = -(-len(rest) // self.world_size)
        mine = np.resize(rest, each * self.world_size)[self.rank :: self.world_size]
        for place in range(self._position, self._count(len(rest))):
            yield mine[place * size : (place + 1) * size].tolist()

    def _count(self, samples: int) -> int:
        """Return the number of batches of each rank, when the ranks share so many samples."""
        whole, rest = divmod(-(-samples // self.world_size), self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def __len__(self) -> int:
        return self._count(len(self.dataset))

    def batches_left(self) -> int:
        """Return the number of batches from the position to the end of the epoch."""
        return max(0, self._count(max(0, len(self.dataset) - self._origin)) - self._position)

    # Where it is

    def set_epoch(self, epoch: int) -> None:
        """Move to the beginning of an epoch; no effect if the loader is in it already."""
        if epoch != self.epoch:
            self.epoch, self._position, self._origin, self._loaded = epoch, 0, 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, the position (the number of batches read in it) and the layout of the data, for JSON."""
        return {
            "epoch": self.epoch,
            "position": self._position,
            "origin": self._origin,
            "samples": len(self.dataset),
            "order": "shuffled" if self.shuffle else "as it is",
            "seed": self.seed,
            "batch_size": self.batch_size,
            "world_size": self.world_size,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Move to an epoch and a position; the next iteration reads no sample before it.

        Args:
            state: The dict that `state_dict` returned, or one with only ``epoch`` and ``position``. If the batch size
                or the number of ranks has changed, the rest of the epoch is divided again: each of its samples is read
                once.

        Raises:
            TrainingError: The state is from the middle of an epoch of other data.
        """
        here = self.state_dict()
        there = {**here, "origin": 0, **state}
        position, origin = int(there["position"]), int(there["origin"])
        names = [name for name in ("samples", "order") if there[name] != here[name]]
        what = ", ".join(f"{name} was {brief(there[name])} and is {brief(here[name])}" for name in names)
        if what and (position or origin):
            raise refuse_layout(what)
        if any(there[name] != here[name] for name in ("batch_size", "world_size")):
            origin, position = origin + position * there["batch_size"] * there["world_size"], 0
        self.seed = int(there["seed"])
        self.epoch, self._position, self._origin, self._loaded = int(there["epoch"]), position, origin, True

    def __iter__(self) -> Iterator[Any]:
        if not self._loaded:
            self._position = self._origin = 0
        self._loaded = False
        batches = self._read(self._rows())
        for batch in _ahead(batches, self.prefetch) if self.prefetch else batches:
            self._position += 1
            yield batch
        self.set_epoch(self.epoch + 1)


def _ahead(batches: Iterator[Any], most: int) -> Generator[Any]:
    """Yield batches that a thread reads, at most `most` ahead; raise its errors where the batch is due."""
    end = object()
    with ThreadPoolExecutor(1, "aspecthook-prefetch") as thread:
        waiting: deque[Future[Any]] = deque([thread.submit(next, batches, end) for _ in range(most)])
        try:
            while (batch := waiting.popleft().result()) is not end:
                waiting.append(thread.submit(next, batches, end))
                yield batch
        finally:
            thread.shutdown(cancel_futures=True)


def _collated(samples: Sequence[Any]) -> Any:
    first = samples[0]
    if isinstance(first, Mapping):
        names: list[Any] = list(first)  # pyright: ignore[reportUnknownArgumentType]
        return {name: _collated([sample[name] for sample in samples]) for name in names}
    if isinstance(first, (tuple, list)):
        return remade(first, [_collated(part) for part in zip(*samples, strict=True)])
    return list(samples) if isinstance(first, (str, bytes)) else np.stack(samples)
