"""Data sets, and loaders that go on in the middle of an epoch without reading again what lies before.

The order of an epoch depends on the seed and the number of the epoch alone, so that where a loader stands is two
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.loop._resuming import Resuming

if TYPE_CHECKING:
    from ._torch_loading import Resumable

__all__ = ["ArrayDataset", "DataLoader", "Dataset", "Resumable", "Sampler", "check_loader", "collated"]

Array: TypeAlias = NDArray[Any]


@runtime_checkable
class Dataset(Protocol):
    """What can be counted and read by number: a list of samples is one."""

    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> Any: ...


@final
class ArrayDataset:
    """Arrays of the same length; a sample is a tuple of what each has at one place.

    Args:
        arrays: Inputs and targets, say.

    Raises:
        TrainingError: Their lengths differ.

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

    def __repr__(self) -> str:
        return f"ArrayDataset({len(self)} samples)"


def permutation(length: int, *seeds: int) -> NDArray[np.int64]:
    """Give the numbers under ``length`` in an order that depends on the seeds alone.

    NumPy promises that the raw numbers of a bit generator stay the same from version to version, and nothing of what it
    makes of them.

    Example:
        >>> permutation(6, 0, 1).tolist() == permutation(6, 0, 1).tolist() != permutation(6, 0, 2).tolist()
        True
    """
    keys = np.random.PCG64(np.random.SeedSequence([seed % 2**64 for seed in seeds])).random_raw(length)
    return np.argsort(np.asarray(keys, np.uint64), kind="stable").astype(np.int64)


@final
class Sampler:
    """The numbers of the samples that one rank reads in an epoch, in order.

    They are those of ``torch.utils.data.DistributedSampler``, but for the order in which they are shuffled: every
    rank has as many, and what is missing for that is taken from the beginning again.

    Args:
        length: How many samples there are.
        shuffle: Change the order from epoch to epoch.
        seed: Decides the orders.
        rank: The number of this process.
        world_size: How many processes share the samples.
        drop_last: Rather leave samples out than take some twice.

    Attributes:
        epoch: The epoch whose order is given.

    Example:
        >>> [list(Sampler(5, rank=rank, world_size=2)) for rank in range(2)]
        [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        length: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        if not 0 <= rank < world_size:
            raise TrainingError(
                f"rank={brief(rank)}, world_size={brief(world_size)}: ranks go from 0 to world_size - 1"
            )
        self.length, self.shuffle, self.seed = length, shuffle, seed
        self.rank, self.world_size, self.drop_last = rank, world_size, drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Turn to an epoch."""
        self.epoch = epoch

    def indices(self) -> NDArray[np.int64]:
        """Give the numbers of the samples."""
        order = permutation(self.length, self.seed, self.epoch) if self.shuffle else np.arange(self.length)
        return np.resize(order, len(self) * self.world_size)[self.rank :: self.world_size]

    def __len__(self) -> int:
        each, rest = divmod(self.length, self.world_size)
        return each + bool(rest and not self.drop_last)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices().tolist())


@final
class DataLoader(Resuming):
    """Batches of a data set, which can go on anywhere.

    Args:
        dataset: What has ``len`` and is read by number.
        batch_size: How many samples a batch has.
        shuffle: Change the order from epoch to epoch.
        seed: Decides the orders.
        drop_last: Leave out a last batch that is smaller.
        collate: Makes a batch of a list of samples; else arrays are stacked, inside tuples and dicts too.
        rank: The number of this process, if several share the samples.
        world_size: How many processes share them.

    Raises:
        TrainingError: The data set cannot be counted or read by number, or the batch size is no size.

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
        dataset: Any,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        collate: Callable[[list[Any]], Any] | None = None,
        *,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__()
        size: Any = batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise TrainingError(f"batch_size={brief(batch_size)}: give a number from 1 up")
        if not isinstance(dataset, Dataset):
            raise TrainingError(
                f"{type(dataset).__name__} cannot be counted and read by number; give what has __len__ and __getitem__"
            )
        self.dataset, self.batch_size, self.drop_last, self.collate = dataset, batch_size, drop_last, collate
        self.sampler = Sampler(len(dataset), shuffle=shuffle, seed=seed, rank=rank, world_size=world_size)

    @property
    def epoch(self) -> int:
        """The epoch that is read, or is to be read next."""
        if self._epoch != self.sampler.epoch:  # mm's hooks turn the sampler
            self._epoch, self._position, self._loaded = self.sampler.epoch, 0, False
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Turn to the beginning of an epoch; to that in which it stands already, to no effect."""
        super().set_epoch(epoch)
        self.sampler.set_epoch(epoch)

    def _layout(self) -> dict[str, Any]:
        sampler = self.sampler
        return {
            "samples": sampler.length,
            "seed": sampler.seed,
            "batch_size": self.batch_size,
            "world_size": sampler.world_size,
        }

    def _take_seed(self, seed: int) -> None:
        self.sampler.seed = seed

    def _batches(self, start: int) -> Iterator[Any]:
        order = self.sampler.indices()
        for place in range(start, len(self)):
            yield self._read(order[place * self.batch_size : (place + 1) * self.batch_size])

    def _read(self, numbers: NDArray[np.int64]) -> Any:
        if isinstance(self.dataset, ArrayDataset) and self.collate is None:
            return self.dataset[numbers]
        samples = [self.dataset[number] for number in numbers.tolist()]
        return collated(samples) if self.collate is None else self.collate(samples)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def __repr__(self) -> str:
        return f"DataLoader({len(self.sampler)} samples, {len(self)} batches)"


def collated(samples: Sequence[Any]) -> Any:
    """Make one batch of samples: arrays and numbers are stacked, inside tuples, lists and dicts too.

    Example:
        >>> collated([(1.0, {"label": 2}), (3.0, {"label": 4})])
        (array([1., 3.]), {'label': array([2, 4])})
    """
    first = samples[0]
    if isinstance(first, Mapping):
        names: list[Any] = list(first)  # pyright: ignore[reportUnknownArgumentType]
        return {name: collated([sample[name] for sample in samples]) for name in names}
    if isinstance(first, (tuple, list)):
        parts = [collated(part) for part in zip(*samples, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return list(samples) if isinstance(first, (str, bytes)) else np.stack(samples)


def check_loader(loader: Any, name: str = "the loader") -> None:
    """Refuse what gives no batches.

    Args:
        loader: What is to be iterated; one that does not know its length is believed.
        name: What it is called in the message.

    Raises:
        TrainingError: It cannot be iterated, or has no batches.

    Example:
        >>> check_loader(DataLoader([1, 2, 3], 8, drop_last=True), "the train loader")
        Traceback (most recent call last):
        ...
        aspecthook.training.TrainingError: the train loader gives no batches: it has 3 samples, fewer than ...
    """
    if not hasattr(loader, "__iter__"):
        raise TrainingError(
            f"{name} is {type(loader).__name__}, which cannot be iterated; give a DataLoader, or a list"
        )
    try:
        length = len(loader)
    except TypeError:  # an iterator, or a data set that is a stream
        return
    if length:
        return
    samples, size = _counted(loader), getattr(loader, "batch_size", None)
    if samples and size:
        why = f"it has {samples} samples, fewer than one batch of {size}, and drop_last=True leaves those out"
        raise TrainingError(f"{name} gives no batches: {why}; give a smaller batch_size, or drop_last=False")
    raise TrainingError(f"{name} gives no batches: it is empty; look where its samples should come from")


def _counted(loader: Any) -> int:
    try:
        return len(loader.sampler if hasattr(loader, "sampler") else loader.dataset)
    except (AttributeError, TypeError):
        return 0
