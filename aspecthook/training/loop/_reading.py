"""Reading the training data, from the beginning of an epoch or from the middle of one.

The invariant: each sample of an epoch is read once, or the run is refused. Loaders of `aspecthook.training.data` move
to any position, and a list of batches is read from any place. Others that have ``state_dict`` and ``load_state_dict``
are given their own states. A run that has left an epoch early, to validate or at a stop, goes on in the pass that is
under way. All else is refused in the middle of an epoch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence, Sized
from importlib import import_module
from inspect import GEN_SUSPENDED, getgeneratorstate
from itertools import islice
from typing import Any, final

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import process_group
from aspecthook.training.backends._state import is_any, is_tensor, map_leaves

_TENSOR = "__tensor__"  # the key of a tensor in the state of a loader, which NumPy keeps as an array

# Any, in what follows: loaders, and their states. They are known by their attributes: a wrapper may hand them on with
# `__getattr__`, which `isinstance` does not call.


def _is_ours(loader: Any) -> bool:
    return hasattr(loader, "batches_left")


def _has_state(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


@final
class Reading:
    """How far the training data are read; one object for each run."""

    def __init__(self) -> None:
        self.saved: Mapping[str, Any] | None = None  # from the checkpoint, until the data are read on
        self._loader: Any = None  # the one that was read last
        self._epoch = 0
        # Of one of our loaders: the iteration of the epoch that was its first one in this layout.
        self._first = 0
        # Of all others but lists: the pass under way; how many batches of the epoch were read, and whether all; and
        # that number, and the state of the loader if it has one, when the pass began.
        self._pass: Generator[Any] | None = None
        self._read = 0
        self._ended = False
        self._begun: tuple[int, Any] = (0, None)

    def state_of(self, loader: Any, epoch: int, place: int) -> dict[str, Any] | None:
        """Return what a checkpoint must keep to read on after `place` batches; None before the first epoch."""
        if loader is None or loader is not self._loader:
            return None if self.saved is None else dict(self.saved)
        state: dict[str, Any] = {"epoch": epoch, "layout": layout_of(loader)}
        if _is_ours(loader):
            within = place > 0 and self._epoch == epoch
            origin = loader.state_dict()["origin"] if within else 0
            return {**state, "origin": origin, "position": place - self._first if within else 0}
        if not _has_state(loader):
            return state
        if place == self._read or (place == 0 and self._ended):
            return {**state, "own": _packed(loader.state_dict()), "skip": 0}
        # Inside an iteration, the loader is a batch ahead of the run.
        read, own = self._begun
        return {**state, "own": own, "skip": place - read}

    def begin(self, loader: Any, epoch: int, start: int) -> tuple[Iterator[Any], int | None]:
        """Return the batches of the epoch that the run has not trained on, and how many the whole epoch has, if known.

        Args:
            loader: What is read.
            epoch: The number of the epoch.
            start: How many batches of it the run has trained on.
        """
        saved, self.saved = self.saved, None
        if saved is not None and (saved["epoch"] != epoch or saved.get("position", start) > start):
            saved = None  # somebody has moved the run since it was resumed
        if saved is None and start and loader is self._loader and epoch == self._epoch:  # the run goes on
            if self._pass is not None and getgeneratorstate(self._pass) == GEN_SUSPENDED and start == self._read:
                return self._pass, length_of(loader)
            saved = self.state_of(loader, epoch, start)
        self._loader, self._epoch, self._pass = loader, epoch, None
        layout: Mapping[str, Any] = {} if saved is None else saved["layout"]
        own = None if saved is None or not _has_state(loader) else saved.get("own")
        if own is not None:
            loader.load_state_dict(_unpacked(own))
        if 0 < start == layout.get("batches"):  # only the hooks after the epoch are left, whatever the data are now
            self._read, self._ended = start, True
            return iter(()), start
        if _is_ours(loader):
            state: dict[str, Any] = {"epoch": epoch, "position": start}
            if saved is not None:
                state = {**layout, **state, "origin": 0}
                state.update((name, saved[name]) for name in ("origin", "position") if name in saved)
            loader.load_state_dict(state)
            self._first = start - loader.state_dict()["position"]
            return iter(loader), start + loader.batches_left()
        set_epoch = getattr(loader, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        length, what = length_of(loader), differences(layout, layout_of(loader))
        if start and what:
            raise refuse_layout(f"{what} (after {start} batches)")
        if is_any(loader, Sequence):
            return islice(iter(loader), start, None), length
        if start and (saved is None or own is None):
            raise TrainingError(
                f"the run is in the middle of an epoch, after {start} batches, and a {type(loader).__name__} cannot be "
                "read on from there: it has no state_dict; put PyTorch's DataLoader into "
                "aspecthook.training.data.Resumable, or resume from a checkpoint at the end of an epoch"
            )
        skip = 0 if saved is None or own is None else saved["skip"]
        rest = iter(loader)
        self._begun = start - skip, _packed(loader.state_dict()) if _has_state(loader) else None
        self._read, self._ended = start - skip, False
        self._pass = self._counted(rest, length)
        next(islice(self._pass, skip, skip), None)
        return self._pass, length

    def _counted(self, rest: Iterator[Any], length: int | None) -> Generator[Any]:
        """Count the batches. The end is read with the last one, since a state from between them begins no epoch."""
        for batch in rest:
            self._read += 1
            if self._read == length:
                next(rest, None)
                self._ended = True
            yield batch
        self._ended = True


def layout_of(loader: Any) -> dict[str, Any]:
    """Return what is known of how a loader divides its samples; a position in it means something only together."""
    if _is_ours(loader):
        return {
            name: value for name, value in loader.state_dict().items() if name not in ("epoch", "position", "origin")
        }
    known = {
        "loader": f"{type(loader).__module__}.{type(loader).__name__}",
        "batches": length_of(loader),
        "samples": length_of(getattr(loader, "dataset", None)),
        "batch_size": getattr(loader, "batch_size", None),
        "world_size": getattr(getattr(loader, "sampler", None), "num_replicas", None),
    }
    return {name: value for name, value in known.items() if isinstance(value, (int, str))}


def is_divided(loader: Any) -> bool:
    """Whether the ranks share the samples of a loader, so that the numbers of one are not those of all."""
    return process_group() is not None and layout_of(loader).get("world_size", 1) > 1


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return how one layout differs from another, as text; what only one of them knows does not count."""
    rows = [(name, there[name], here[name]) for name in there if name in here and there[name] != here[name]]
    return ", ".join(f"{name} was {brief(one)} and is {brief(other)}" for name, one, other in rows)


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

    def is_packed(value: Any) -> bool:
        return is_any(value, Mapping) and value.keys() == {_TENSOR}

    return map_leaves(
        lambda leaf: import_module("torch").tensor(leaf[_TENSOR]) if is_packed(leaf) else leaf, state, is_packed
    )


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
