"""The position of a loader: the epoch, and the number of batches read in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import rank_and_world_size
from aspecthook.training.loop._reading import differences, refuse_layout

_DIVISION = ("batch_size", "world_size")  # they divide the epoch, and do not change its order
_FREE = (*_DIVISION, "seed", "drop_last")  # the seed is taken from the state


def share_of(who: str, rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return which part of the samples a process reads, and of how many: those given, or its own under torchrun."""
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise TrainingError(f"{who}(rank={rank}, world_size={world_size}): give both, or neither under torchrun")
    return rank_and_world_size()


class ResumableLoader:
    """A loader that can be resumed at any batch; subclasses read the batches.

    Iterating starts at the beginning of the epoch; after `load_state_dict`, once at the position that was loaded. After
    the last batch the loader moves to the next epoch by itself.
    """

    def __init__(self) -> None:
        self._epoch = self._position = 0
        self._origin = 0  # the samples of the epoch, of all ranks, that were read in another layout, before position 0
        self._loaded = False

    def _layout(self) -> dict[str, Any]:
        """Return what a position depends on: samples, seed, batch_size, world_size, and what else decides the order."""
        raise NotImplementedError

    def _take_seed(self, seed: int) -> None:
        """Shuffle by a seed from now on."""
        raise NotImplementedError

    def _batches(self, start: int) -> Iterator[Any]:
        """Read the batches of the epoch after the origin, from a position on."""
        raise NotImplementedError

    def batches_left(self) -> int:
        """Return the number of batches from the position to the end of the epoch."""
        raise NotImplementedError

    def _why_not_divided_anew(self) -> str | None:
        """Return why the rest of an epoch cannot be read in batches of another size; None if it can."""
        return None

    @property
    def epoch(self) -> int:
        """The epoch that is being read, or is read next."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Move to the beginning of an epoch; no effect if the loader is in it already."""
        if epoch != self.epoch:
            self._epoch, self._position, self._origin, self._loaded = epoch, 0, 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, the position (the number of batches read in it) and what they depend on, for JSON."""
        return {"epoch": self.epoch, "position": self._position, "origin": self._origin, **self._layout()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Move to an epoch and a position; iterating next reads no sample before it.

        Args:
            state: What `state_dict` returned, or only ``epoch`` and ``position``. If the batch size or the number of
                ranks has changed, what is left of the epoch is divided anew: each sample of it is read once.

        Raises:
            TrainingError: The position is within an epoch of other data, or in another order.
        """
        here, position, origin = self._layout(), int(state["position"]), int(state.get("origin", 0))
        there = {name: state.get(name, value) for name, value in here.items()}
        divided_anew = any(there[name] != here[name] for name in _DIVISION)
        if position or origin:
            what = differences({name: value for name, value in there.items() if name not in _FREE}, here)
            if not what and divided_anew and (why := self._why_not_divided_anew()):
                what = f"{differences(there, here)}, and {why}"
            if what:
                raise refuse_layout(what)
        self._take_seed(there["seed"])
        self.set_epoch(int(state["epoch"]))
        if divided_anew:
            origin, position = origin + position * there["batch_size"] * there["world_size"], 0
        self._position, self._origin, self._loaded = position, origin, True

    def __iter__(self) -> Iterator[Any]:
        self.set_epoch(self.epoch)  # resets the position if only the sampler was moved to another epoch
        if not self._loaded:
            self._position = self._origin = 0
        self._loaded = False
        for batch in self._batches(self._position):
            self._position += 1
            yield batch
        self.set_epoch(self.epoch + 1)
