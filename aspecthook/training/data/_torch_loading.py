"""A PyTorch loader that can be resumed at any batch."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, final

import numpy as np

from aspecthook.training._errors import TrainingError

from ._position import ResumableLoader, share_of

torch: Any = import_module("torch")
data: Any = import_module("torch.utils.data")

_UNDIVIDED = (data.SequentialSampler, data.RandomSampler)


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
        super().__init__()
        if isinstance(loader.dataset, data.IterableDataset):
            raise TrainingError(
                f"{type(loader.dataset).__name__} is a stream, where no sample can be skipped without reading it; "
                "give a data set with __len__ and __getitem__, or leave Resumable out"
            )
        if loader.batch_sampler is None:
            raise TrainingError(
                "a DataLoader(batch_size=None) does not make batches; give a batch_size, or leave Resumable out"
            )
        self.dataset: Any = loader.dataset
        self.sampler: Any = loader.sampler
        self.batch_size: Any = loader.batch_size
        self._source, self._seed = loader.batch_sampler, seed
        # The loader has made the sampler itself, which knows nothing of other ranks.
        self._shares = type(self._source) is data.BatchSampler and type(self.sampler) in _UNDIVIDED
        if self._shares:
            self._rank, self._ranks = share_of("Resumable", rank, world_size)
        else:
            self._rank, self._ranks = getattr(self.sampler, "rank", 0), getattr(self.sampler, "num_replicas", 1)
        self._jobs = _Jobs()
        self._generator = torch.Generator()
        self._loader: Any = data.DataLoader(
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

    def _layout(self) -> dict[str, Any]:
        return {
            "loader": type(self).__name__,
            "samples": len(self.dataset),
            "sampler": type(self.sampler).__name__,
            "seed": self._seed,
            "batch_size": self.batch_size or 1,
            "world_size": self._ranks,
        }

    def _take_seed(self, seed: int) -> None:
        self._seed = seed

    def _batches(self, start: int) -> Iterator[Any]:
        self._generator.manual_seed(self._mixed(self.epoch))
        rows = list(enumerate(self._rows()))[start:]
        origin = (self._origin,) if self._origin else ()
        self._jobs.rows = [(self._mixed(self.epoch, *origin, place), row) for place, row in rows]
        return iter(self._loader)

    def batches_left(self) -> int:
        """Return the number of batches from the position to the end of the epoch."""
        return max(0, (len(self._rows()) if self._origin else len(self)) - self._position)

    def _why_not_divided_anew(self) -> str | None:
        kind = type(self.sampler if type(self._source) is data.BatchSampler else self._source).__name__
        return None if self._shares else f"the order of a {kind} may depend on it"

    def _rows(self) -> list[Any]:
        """Return the sample numbers of each batch of the epoch after the origin."""
        if (not self._origin and self._ranks == 1) or not self._shares:
            return self._drawn(self._source)
        rest = self._drawn(self.sampler)[self._origin :]
        if self._ranks > 1:  # all ranks read equally many; some samples are repeated to make that so
            rest = np.resize(rest, -(-len(rest) // self._ranks) * self._ranks)[self._rank :: self._ranks].tolist()
        size: int = self._source.batch_size
        end = len(rest) - len(rest) % size if self._source.drop_last else len(rest)
        return [rest[place : place + size] for place in range(0, end, size)]

    def _drawn(self, source: Any) -> list[Any]:
        """Draw what a sampler yields in the epoch."""
        seed = self._mixed(self.epoch)
        samplers: list[Any] = [self.sampler, self._source, getattr(self._source, "sampler", None)]
        for sampler in samplers:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self.epoch)
            if isinstance(getattr(sampler, "generator", None), torch.Generator):
                sampler.generator.manual_seed(seed)
        with _seeded(seed):
            return list(source)

    def _mixed(self, *numbers: int) -> int:
        """Return one seed made of our seed and some numbers; PyTorch takes seeds of up to 63 bits."""
        return int(np.random.SeedSequence([self._seed % 2**64, *numbers]).generate_state(1, np.uint64)[0] >> 1)

    def __len__(self) -> int:
        if not self._shares:
            return len(self._source)
        samples: int = -(-len(self.sampler) // self._ranks)
        size: int = self._source.batch_size
        return samples // size if self._source.drop_last else -(-samples // size)

    def __repr__(self) -> str:
        return f"Resumable({len(self.dataset)} samples, {len(self)} batches)"


class _Jobs:
    """The batch sampler of the inner loader: for each batch a seed and the numbers of its samples."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Any]] = []

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class _Reader:
    """Reads the batches of a data set; PyTorch calls ``__getitems__`` with each row of the batch sampler."""

    def __init__(self, dataset: Any) -> None:
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
