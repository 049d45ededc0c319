"""Where a loader stands: two numbers, the epoch and how many batches of it are behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aspecthook.training._errors import TrainingError


class Resuming:
    """A loader that knows where it stands; subclasses read.

    Iterating begins the epoch anew, except for the first time after `load_state_dict`, which goes on from there; after
    the last batch, the loader turns to the next epoch by itself.
    """

    def __init__(self) -> None:
        self._epoch = self._position = 0
        self._loaded = False

    # What a subclass knows of itself: what a position in the middle of an epoch is worth nothing without.
    def _layout(self) -> dict[str, Any]:
        raise NotImplementedError

    def _batches(self, start: int) -> Iterator[Any]:
        """Read the batches from a position on."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """The epoch that is read, or is to be read next."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Turn to the beginning of an epoch; to that in which it stands already, to no effect."""
        if epoch != self.epoch:
            self._epoch, self._position, self._loaded = epoch, 0, False

    def state_dict(self) -> dict[str, Any]:
        """Give the epoch, the position (the number of batches given in it), and what they depend on; for JSON."""
        return {"epoch": self.epoch, "position": self._position, **self._layout()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at an epoch and a position; iterating next reads no sample before it.

        Args:
            state: What `state_dict` has given, or ``epoch`` and ``position`` alone. Where the batches or the ranks are
                others now, the position is rounded down: some samples are read twice, none is left out.

        Raises:
            TrainingError: The position is inside an epoch of another number of samples.
        """
        here, position = self._layout(), int(state["position"])
        there = {name: state.get(name, value) for name, value in here.items()}
        if position and there["samples"] != here["samples"]:
            raise TrainingError(
                f"the loader stood in the middle of {there['samples']} samples, and has {here['samples']} now; give it "
                "the data that it had, or go on from the beginning of an epoch"
            )
        read, step = (one["batch_size"] * one["world_size"] for one in (there, here))
        self._take_seed(there["seed"])
        self.set_epoch(int(state["epoch"]))
        self._position, self._loaded = position * read // step, True

    def _take_seed(self, seed: int) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        self.set_epoch(self.epoch)  # where the sampler alone has been turned, the position falls to 0
        start = self._position if self._loaded else 0
        self._position, self._loaded = start, False
        for batch in self._batches(start):
            self._position += 1
            yield batch
        self.set_epoch(self.epoch + 1)
