"""A PyTorch loader that can be resumed at any batch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from typing import Any, final

import numpy as np

from aspecthook.training._errors import TrainingError

from ._loading import DataLoader, Dataset

# Imported like this, the file has the same types whether or not PyTorch is installed.
torch = import_module("torch")
data = import_module("torch.utils.data")

# The options of the loader that stay as they are.
_KEPT = (
    *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn"),
    *("multiprocessing_context", "prefetch_factor", "persistent_workers"),
)


@final
class Resumable(DataLoader):
    """A PyTorch ``DataLoader`` that can be resumed at any batch.

    The order of the samples depends only on the seed and the epoch, so a resumed loader does not read the samples
    before its position. Shuffling, several processes and workers are supported. Workers are seeded for each batch, so
    augmentation with Python's, NumPy's or PyTorch's global generator is the same after a resume. The generators of the
    main process are not changed.

    Args:
        loader: The loader of a map-style data set. It is not changed; its batch size, its workers and its shuffling are
            kept.
        seed: Determines the orders, and the random numbers of workers.
        rank: The number of this process, if several share the samples; by default, torchrun's number for it.
        world_size: The number of processes that share the samples; by default, all that torchrun has started.

    Raises:
        TrainingError: The loader reads a stream, does not make batches, or has a sampler of another kind.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> loader = Resumable(DataLoader(range(10), batch_size=4, shuffle=True))
        >>> first = list(loader)
        >>> loader.load_state_dict({"epoch": 0, "position": 2})
        >>> [batch.tolist() for batch in loader] == [first[2].tolist()]
        True
    """

    def __init__(self, loader: Any, *, seed: int = 0, rank: int | None = None, world_size: int | None = None) -> None:
        sampler, batches = loader.sampler, loader.batch_sampler
        shuffle = type(sampler) is data.RandomSampler
        is_plain = type(batches) is data.BatchSampler and (shuffle or type(sampler) is data.SequentialSampler)
        if not is_plain or len(sampler) != len(loader.dataset) or getattr(sampler, "replacement", False):
            what = f"batch_size={loader.batch_size} and a {type(sampler).__name__}"
            raise TrainingError(
                "Resumable reads the samples of a data set in an order of its own, and the loader has "
                f"{'a stream' if isinstance(loader.dataset, data.IterableDataset) else what}; give the loader "
                "batch_size and shuffle alone, since ranks share the samples without a sampler, or leave Resumable out"
            )
        ranks: dict[str, Any] = {"rank": rank, "world_size": world_size}
        super().__init__(loader.dataset, loader.batch_size, shuffle, seed, loader.drop_last, **ranks)
        self._jobs: list[tuple[int, list[int]]] = []  # for each batch a seed, and the numbers of its samples
        self._generator = torch.Generator()
        self._loader = data.DataLoader(
            _Reader(loader.dataset),
            batch_sampler=self._jobs,
            generator=self._generator,  # otherwise each pass would draw from the global generator
            **{name: getattr(loader, name) for name in _KEPT},
        )

    def _read(self, rows: Iterator[list[int]]) -> Iterator[Any]:
        self._generator.manual_seed(self._mixed(self.epoch))
        # The origin, since no batch of an epoch that is divided anew may repeat the augmentation of an earlier one.
        numbers = self.epoch, self._origin
        self._jobs[:] = [(self._mixed(*numbers, place), row) for place, row in enumerate(rows, self._position)]
        return iter(self._loader)

    def _mixed(self, *numbers: int) -> int:
        """Return a seed made from the loader's seed and some numbers; PyTorch takes seeds of up to 63 bits."""
        return int(np.random.SeedSequence([self.seed % 2**64, *numbers]).generate_state(1, np.uint64)[0] >> 1)


class _Reader:
    """Reads the batches of a data set; PyTorch calls ``__getitems__`` with each job of the batch sampler."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __getitems__(self, job: tuple[int, Any]) -> list[Any]:
        seed, numbers = job
        if data.get_worker_info() is not None:
            random.seed(seed)
            np.random.seed(seed % 2**32)
            torch.manual_seed(seed)
        many = getattr(self.dataset, "__getitems__", None)
        return many(numbers) if many else [self.dataset[number] for number in numbers]
