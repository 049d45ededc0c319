"""Data sets, and a loader that resumes in the middle of an epoch without reading the samples before.

The order of an epoch depends only on the seed and the number of the epoch, so two numbers are the position of a loader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag
from aspecthook.training.backends._state import remade

from ._position import ResumableLoader, share_of

Array: TypeAlias = NDArray[Any]


@runtime_checkable
class Dataset(Protocol):
    """Anything with a length that is indexed by number, such as a list of samples.

    Example:
        >>> samples: Dataset = [(0.5, 1), (0.7, 0)]
        >>> len(samples), samples[1]
        (2, (0.7, 0))
    """

    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> Any: ...


@final
class ArrayDataset:
    """Arrays of the same length; a sample is a tuple of one row of each.

    Args:
        arrays: Inputs and targets, for example.

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
    """Return the numbers below ``length`` in an order that depends only on the seeds.

    NumPy keeps the raw numbers of a bit generator the same from version to version, but not what it computes from them.

    Example:
        >>> permutation(6, 0, 1).tolist() == permutation(6, 0, 1).tolist() != permutation(6, 0, 2).tolist()
        True
    """
    keys = np.random.PCG64(np.random.SeedSequence([seed % 2**64 for seed in seeds])).random_raw(length)
    return np.argsort(np.asarray(keys, np.uint64), kind="stable").astype(np.int64)


@final
class Sampler:
    """The numbers of the samples that one rank reads in an epoch, in order.

    As with ``torch.utils.data.DistributedSampler``, all ranks read equally many samples, and some are repeated from the
    beginning to make that so; only the shuffled order differs.

    Args:
        length: The number of samples.
        shuffle: Read in a different order in each epoch.
        seed: Determines the orders.
        rank: The number of this process; under torchrun its own unless given.
        world_size: The number of processes that share the samples; all that torchrun has started unless given.
        drop_last: Leave samples out instead of repeating some.

    Attributes:
        epoch: The epoch whose order is returned.

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
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
    ) -> None:
        rank, world_size = share_of("Sampler", rank, world_size)
        if not 0 <= rank < world_size:
            raise TrainingError(
                f"Sampler(rank={brief(rank)}, world_size={brief(world_size)}): give a rank from 0 to world_size - 1"
            )
        self.length = length
        self.shuffle: bool = flag("Sampler", "shuffle", shuffle)
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.drop_last: bool = flag("Sampler", "drop_last", drop_last)
        self.epoch: int = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch."""
        self.epoch = epoch

    def indices(self, start: int = 0) -> NDArray[np.int64]:
        """Return the numbers of the samples; with `start`, without those that the ranks have read together before."""
        order = permutation(self.length, self.seed, self.epoch) if self.shuffle else np.arange(self.length)
        return np.resize(order[start:], self.count(start) * self.world_size)[self.rank :: self.world_size]

    def count(self, start: int = 0) -> int:
        """Return how many numbers `indices` returns."""
        each, rest = divmod(max(0, self.length - start), self.world_size)
        return each + bool(rest and not self.drop_last)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices().tolist())


@final
class DataLoader(ResumableLoader):
    """Batches of a data set; the loader can be resumed at any batch.

    Args:
        dataset: A `Dataset`: it has ``len`` and is indexed by number.
        batch_size: The number of samples in a batch.
        shuffle: Read in a different order in each epoch.
        seed: Determines the orders.
        drop_last: Leave out the last batch if it is smaller.
        collate: Makes a batch of a list of samples; unless given, `collated`.
        rank: The number of this process, if several share the samples; under torchrun its own unless given.
        world_size: The number of processes that share the samples; all that torchrun has started unless given. Give
            ``rank=0, world_size=1`` if each process is to read all samples.

    Raises:
        TrainingError: The data set has no length or no indexing, or the batch size is not a number from 1 up.

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
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        super().__init__()
        rank, world_size = share_of("DataLoader", rank, world_size)
        size: Any = batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise TrainingError(f"DataLoader(batch_size={brief(batch_size)}): give a whole number from 1 up")
        if not isinstance(dataset, Dataset):
            raise TrainingError(
                f"{type(dataset).__name__} is not a data set; give an object with __len__ and __getitem__"
            )
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last: bool = flag("DataLoader", "drop_last", drop_last)
        self.collate = collate
        shuffle = flag("DataLoader", "shuffle", shuffle)
        self.sampler: Sampler = Sampler(len(dataset), shuffle=shuffle, seed=seed, rank=rank, world_size=world_size)

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or is read next."""
        if self._epoch != self.sampler.epoch:  # a hook, as in mmcv, has set the epoch of the sampler
            self._epoch, self._position, self._origin, self._loaded = self.sampler.epoch, 0, 0, False
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Move to the beginning of an epoch; no effect if the loader is in it already."""
        super().set_epoch(epoch)
        self.sampler.set_epoch(epoch)

    def _layout(self) -> dict[str, Any]:
        sampler = self.sampler
        return {
            "loader": type(self).__name__,
            "samples": sampler.length,
            "shuffle": sampler.shuffle,
            "seed": sampler.seed,
            "batch_size": self.batch_size,
            "world_size": sampler.world_size,
            "drop_last": self.drop_last,
        }

    def _take_seed(self, seed: int) -> None:
        self.sampler.seed = seed

    def _batches(self, start: int) -> Iterator[Any]:
        order = self.sampler.indices(self._origin)
        for place in range(start, self._count(len(order))):
            yield self._read(order[place * self.batch_size : (place + 1) * self.batch_size])

    def _read(self, numbers: NDArray[np.int64]) -> Any:
        if isinstance(self.dataset, ArrayDataset) and self.collate is None:
            return self.dataset[numbers]
        samples = [self.dataset[number] for number in numbers.tolist()]
        return collated(samples) if self.collate is None else self.collate(samples)

    def batches_left(self) -> int:
        """Return the number of batches from the position to the end of the epoch."""
        return max(0, self._count(self.sampler.count(self._origin)) - self._position)

    def _count(self, samples: int) -> int:
        whole, rest = divmod(samples, self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def __len__(self) -> int:
        return self._count(len(self.sampler))

    def __repr__(self) -> str:
        return f"DataLoader({len(self.sampler)} samples, {len(self)} batches)"


def collated(samples: Sequence[Any]) -> Any:
    """Return one batch of some samples: arrays and numbers are stacked, also within tuples, lists and dicts.

    Example:
        >>> collated([(1.0, {"label": 2}), (3.0, {"label": 4})])
        (array([1., 3.]), {'label': array([2, 4])})
    """
    first = samples[0]
    if isinstance(first, Mapping):
        names: list[Any] = list(first)  # pyright: ignore[reportUnknownArgumentType]
        return {name: collated([sample[name] for sample in samples]) for name in names}
    if isinstance(first, (tuple, list)):
        return remade(first, [collated(part) for part in zip(*samples, strict=True)])
    return list(samples) if isinstance(first, (str, bytes)) else np.stack(samples)
