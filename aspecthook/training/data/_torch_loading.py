"""A PyTorch loader that can be resumed at any batch."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from aspecthook.training._errors import TrainingError

from ._loading import Dataset, ResumableLoader

# Any: this file has the same types whether or not PyTorch is installed.
torch: Any = import_module("torch")
data: Any = import_module("torch.utils.data")


@final
class Resumable(ResumableLoader):
    """A PyTorch ``DataLoader`` of a map-style data set whose order depends only on a seed and the epoch.

    So it resumes at any batch without reading the samples before, with shuffling, custom samplers, several processes
    and workers. Worker processes are seeded for each batch: augmentation with Python's, NumPy's or PyTorch's global
    generator is the same after a resume as without one. The generators of the main process are not changed.

    Args:
        loader: The loader. It is not changed, except that the epoch of its sampler is set.
        seed: Determines the orders, and what workers draw.
        rank: The number of this process, if several share the samples; under torchrun its own unless given. A sampler
            of the user's own, such as ``DistributedSampler``, decides that itself.
        world_size: The number of processes that share the samples; all that torchrun has started unless given.

    Raises:
        TrainingError: It reads a stream, or does not make batches.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> loader = Resumable(DataLoader(range(10), batch_size=4, shuffle=True))
        >>> first = list(loader)
        >>> loader.load_state_dict({"epoch": 0, "position": 2})
        >>> [batch.tolist() for batch in loader] == [first[2].tolist()]
        True
    """

    def __init__(self, loader: Any, *, seed: int = 0, rank: int | None = None, world_size: int | None = None) -> None:
        if isinstance(loader.dataset, data.IterableDataset):
            raise TrainingError(
                f"{type(loader.dataset).__name__} is a stream, where no sample can be skipped without reading it; "
                "give a data set with __len__ and __getitem__, or leave Resumable out"
            )
        if loader.batch_sampler is None:
            raise TrainingError(
                "a DataLoader(batch_size=None) does not make batches; give a batch_size, or leave Resumable out"
            )
        self.dataset: Dataset = loader.dataset
        self._source = source = loader.batch_sampler
        self.sampler: Any = getattr(source, "sampler", loader.sampler)
        # The loader has made the sampler itself, which knows nothing of other ranks.
        self._shares = type(source) is data.BatchSampler and type(self.sampler) in (
            data.SequentialSampler,
            data.RandomSampler,
        )
        if not self._shares:  # the order of a sampler of the user's own may depend on the number of ranks
            self._free = ("seed",)
            rank, world_size = getattr(self.sampler, "rank", 0), getattr(self.sampler, "num_replicas", 1)
        super().__init__(seed, rank, world_size)
        self.batch_size: int = getattr(source, "batch_size", 1)
        self.drop_last: bool = getattr(source, "drop_last", False)
        self._order_name = type(self.sampler if type(source) is data.BatchSampler else source).__name__
        self._jobs: list[tuple[int, Any]] = []  # for each batch a seed, and the numbers of its samples
        self._generator = torch.Generator()
        self._loader = data.DataLoader(
            _Reader(loader.dataset),
            batch_sampler=self._jobs,
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            generator=self._generator,  # otherwise each pass would draw from the global generator
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
            **({"in_order": loader.in_order} if hasattr(loader, "in_order") else {}),
        )

    def _samples(self) -> int:
        return len(self.sampler)

    def _order(self) -> NDArray[np.int64]:
        return np.array(self._drawn(self.sampler))

    def _rows(self, start: int) -> Iterator[Any]:
        return super()._rows(start) if self._shares else islice(self._drawn(self._source), start, None)

    def _read(self, rows: Iterator[Any], start: int) -> Iterator[Any]:
        self._generator.manual_seed(self._mixed(self.epoch))
        origin = (self._origin,) if self._origin else ()
        self._jobs[:] = [(self._mixed(self.epoch, *origin, place), row) for place, row in enumerate(rows, start)]
        return iter(self._loader)

    def _drawn(self, source: Any) -> list[Any]:
        """Draw what a sampler yields in the epoch."""
        seed = self._mixed(self.epoch)
        for sampler in (self.sampler, self._source):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self.epoch)
            if isinstance(getattr(sampler, "generator", None), torch.Generator):
                sampler.generator.manual_seed(seed)
        with _seeded(seed):
            return list(source)

    def _mixed(self, *numbers: int) -> int:
        """Return one seed made of our seed and some numbers; PyTorch takes seeds of up to 63 bits."""
        return int(np.random.SeedSequence([self.seed % 2**64, *numbers]).generate_state(1, np.uint64)[0] >> 1)

    def __len__(self) -> int:
        return super().__len__() if self._shares else len(self._source)


class _Reader:
    """Reads the batches of a data set; PyTorch calls ``__getitems__`` with each job of the batch sampler."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, job: tuple[int, Any]) -> list[Any]:
        seed, numbers = job
        if data.get_worker_info() is not None:
            _seed_all(seed)
        many = getattr(self.dataset, "__getitems__", None)
        return many(numbers) if many else [self.dataset[number] for number in numbers]


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)  # the CPU's; torch.manual_seed would seed the GPUs too


@contextmanager
def _seeded(seed: int) -> Generator[None]:
    """Seed the global generators for the block, and restore them after it."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    _seed_all(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
