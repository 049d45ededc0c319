"""Reading the training data, from the beginning of an epoch or from the middle of one.

The invariant: each sample of an epoch is read once, or the run is refused. A loader that has ``state_dict`` and
``load_state_dict`` is given its own state, and a list of batches is read from any place. A run that has left an epoch
early, to validate or at a stop, goes on in the pass that is under way. All else is refused in the middle of an epoch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence, Sized
from importlib import import_module
from inspect import GEN_SUSPENDED, getgeneratorstate
from itertools import islice
from typing import Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import process_group
from aspecthook.training.backends._state import is_tensor, map_leaves

from ._progress import Progress

_TENSOR = "__tensor__"  # the key of a tensor in the state of a loader, which NumPy keeps as an array

# Any, in what follows: loaders, and their states. They are known by their attributes: a wrapper may hand them on with
# `__getattr__`, which `isinstance` does not call.


def _has_state(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


@final
class Reading:
    """How far the training data of a run are read.

    Args:
        saved: What `state_of` returned, from a checkpoint; None for a run that begins.
    """

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        self.saved: Mapping[str, Any] | None = saved  # until the data are read on
        self._loader: Any = None  # the one that was read last
        # Of its newest pass: the batches that are left; the epoch; how many batches of that were read; and that number,
        # and the state of the loader if it has one, when the pass began.
        self._pass: Generator[Any] | None = None
        self._epoch: int = 0
        self._read = 0
        self._begun: tuple[int, Any] = (0, None)

    def state_of(self, loader: Any, progress: Progress) -> Mapping[str, Any] | None:
        """Return what a checkpoint must keep to read on; None before the first epoch."""
        if loader is None or loader is not self._loader:
            return self.saved
        epoch, place = progress.epoch, progress.inner_iter
        state: dict[str, Any] = {"epoch": epoch, "place": place, "length": progress.length}
        if not _has_state(loader):
            return state
        if place == self._read or epoch != self._epoch:
            return {**state, "own": _packed(loader.state_dict()), "skip": 0}
        read, own = self._begun  # inside an iteration, the loader is a batch ahead of the run
        return {**state, "own": own, "skip": place - read}

    def begin(self, loader: Any, progress: Progress) -> Iterator[Any]:
        """Return the batches of the epoch that the run has not trained on, and note how many the whole epoch has."""
        epoch, start = progress.epoch, progress.inner_iter
        saved: Mapping[str, Any] | None = self.saved
        self.saved = None
        if saved is None and loader is self._loader and epoch == self._epoch:  # the run goes on, or anew
            if self._pass is not None and getgeneratorstate(self._pass) == GEN_SUSPENDED and start == self._read:
                return self._pass
            saved = self.state_of(loader, progress)
        if saved is None or (saved["epoch"], saved["place"]) != (epoch, start):
            saved = {}  # the run begins, or somebody has moved it since it was resumed
        is_over = 0 < start == saved.get("length")  # only the hooks after the epoch are left, whatever the data are now
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(epoch)
        if start and not is_over:
            _check_place(loader, saved, start)
        own: Any = saved.get("own") if _has_state(loader) else None
        if own is not None:
            loader.load_state_dict(_unpacked(own))
        self._loader, self._epoch = loader, epoch
        if is_over:
            progress.length = self._read = start
            return iter(())
        skip: int = start if own is None else saved["skip"]
        self._read = start - skip
        # What is left of an epoch may be divided into other batches than what was read.
        resizes = start and hasattr(loader, "batches_left")
        progress.length = self._read + loader.batches_left() if resizes else length_of(loader)
        rest = iter(loader)  # before its state is asked for, since loaders may change it here
        self._begun = self._read, _packed(loader.state_dict()) if _has_state(loader) else None
        self._pass = self._counted(rest, progress)
        next(islice(self._pass, skip, skip), None)
        return self._pass

    def _counted(self, rest: Iterator[Any], progress: Progress) -> Generator[Any]:
        """Count the batches. The end is read with the last one, since a state from between them begins no epoch."""
        for batch in rest:
            self._read += 1
            if self._read == progress.length:
                next(rest, None)
            yield batch


def _check_place(loader: object, saved: Mapping[str, Any], start: int) -> None:
    """Refuse to read on after so many batches if the data have changed, or cannot be read from there."""
    there, here = saved.get("length"), length_of(loader)
    # A loader that has `batches_left` divides what is left of its samples into other batches, and checks them itself.
    if there != here and None not in (there, here) and not hasattr(loader, "batches_left"):
        raise refuse_layout(f"batches was {there} and is {here} (after {start} batches)")
    if not ("own" in saved if _has_state(loader) else issubclass(type(loader), Sequence) and "own" not in saved):
        raise TrainingError(
            f"the run is in the middle of an epoch, after {start} batches, and a {type(loader).__name__} cannot be "
            "read on from there: it has no state_dict, or other data were read before; put PyTorch's DataLoader into "
            "aspecthook.training.data.Resumable, or resume from a checkpoint at the end of an epoch"
        )


def is_divided(loader: Any) -> bool:
    """Whether the ranks share the samples of a loader, so that the numbers of one are not those of all."""
    sampler = getattr(loader, "sampler", None)
    return process_group() is not None and getattr(loader, "world_size", getattr(sampler, "num_replicas", 1)) > 1


def refuse_layout(what: str) -> TrainingError:
    """Return the error for data that cannot be read on in the middle of an epoch."""
    return TrainingError(
        f"the run is to be resumed in the middle of an epoch, and its data have changed: {what}. Samples would be left "
        "out or read twice; give it the data as they were, or resume from a checkpoint at the end of an epoch"
    )


def _packed(state: Any) -> Any:
    """Return a state with arrays for tensors, as a checkpoint can hold it."""
    return map_leaves(lambda leaf: {_TENSOR: leaf.detach().cpu().numpy().copy()} if is_tensor(leaf) else leaf, state)


def _unpacked(state: Any) -> Any:
    """Undo `_packed`."""

    def tensor(leaf: Any) -> Any:
        return import_module("torch").tensor(leaf[_TENSOR]) if isinstance(leaf, Mapping) else leaf

    return map_leaves(tensor, state, lambda value: isinstance(value, Mapping) and _TENSOR in value)


def length_of(loader: object) -> int | None:
    """Return the number of batches, or None if it is not known."""
    try:
        return len(loader) if isinstance(loader, Sized) else None
    except TypeError:
        return None


def check_loader(loader: object, name: str) -> None:
    """Refuse a loader without batches; one whose length is not known is not checked further."""
    if not hasattr(loader, "__iter__"):
        raise TrainingError(
            f"{name} is {type(loader).__name__}, which cannot be iterated; give a DataLoader, or a list"
        )
    if length_of(loader) == 0:
        raise TrainingError(
            f"{name} has no batches: it is empty, or has fewer samples than a batch, which drop_last=True leaves out; "
            "check where its samples come from, or give a smaller batch_size"
        )
