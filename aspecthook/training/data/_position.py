"""The position of a loader: the epoch, and the number of batches read in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aspecthook.training._errors import TrainingError


class ResumableLoader:
    """A loader that can be resumed at any batch; subclasses read the batches.

    Iterating starts at the beginning of the epoch; after `load_state_dict`, once at the position that was loaded. After
    the last batch the loader moves to the next epoch by itself.
    """

    def __init__(self) -> None:
        self._epoch = self._position = 0
        self._loaded = False

    def _layout(self) -> dict[str, Any]:
        """Return what a position depends on: samples, seed, batch_size and world_size."""
        raise NotImplementedError

    def _take_seed(self, seed: int) -> None:
        """Shuffle by a seed from now on."""
        raise NotImplementedError

    def _batches(self, start: int) -> Iterator[Any]:
        """Read the batches of the epoch from a position on."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or is read next."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Move to the beginning of an epoch; no effect if the loader is in it already."""
        if epoch != self.epoch:
            self._epoch, self._position, self._loaded = epoch, 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, the position (the number of batches read in it) and what they depend on, for JSON."""
        return {"epoch": self.epoch, "position": self._position, **self._layout()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Move to an epoch and a position; iterating next reads no sample before it.

        Args:
            state: What `state_dict` returned, or only ``epoch`` and ``position``. If the batch size or the number of
                ranks has changed, the position is rounded down: some samples are read twice, none is left out.
        """
        here, position = self._layout(), int(state["position"])
        there = {name: state.get(name, value) for name, value in here.items()}
        if position and there["samples"] != here["samples"]:
            raise TrainingError(
                f"the loader was in the middle of {there['samples']} samples, and has {here['samples']} now; give it "
                "the same data, or resume at the beginning of an epoch"
            )
        read, step = (one["batch_size"] * one["world_size"] for one in (there, here))
        self._take_seed(there["seed"])
        self.set_epoch(int(state["epoch"]))
        self._position, self._loaded = position * read // step, True

    def __iter__(self) -> Iterator[Any]:
        self.set_epoch(self.epoch)  # resets the position if only the sampler was moved to another epoch
        start = self._position if self._loaded else 0
        self._position, self._loaded = start, False
        for batch in self._batches(start):
            self._position += 1
            yield batch
        self.set_epoch(self.epoch + 1)
