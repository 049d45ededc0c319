"""Reading the training data, from the beginning of an epoch or from the middle of one, where a run is resumed.

The invariant: with the state that a checkpoint keeps of it, each sample of the epoch is read once, or the resumed run
is refused. There are three kinds of loaders. Those of `aspecthook.training.data` move to any position. Others that have
``state_dict`` and ``load_state_dict`` are given their own states. All others are read again from the beginning of the
epoch, with the random numbers of then, up to the position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any, is_tensor, map_leaves

from ._checks import length_of

if TYPE_CHECKING:
    from aspecthook.training.backends._backend import Backend

_TENSOR = "__tensor__"  # the key of a tensor in the state of a loader, which NumPy keeps as an array


@final
class Reading:
    """How far the training data are read; one object for each run."""

    def __init__(self) -> None:
        self.saved: Mapping[str, Any] | None = None  # from the checkpoint, until the data are read on
        self._loader: Any = None  # the one that was read last
        self._epoch = 0
        # Of one of our loaders: the iteration of the epoch that was its first one in this layout.
        self._first = 0
        # Of one with a state: how many batches of the epoch it has yielded; and its state, and that number, when it was
        # last begun.
        self._read = 0
        self._ended = False
        self._before: Any = None
        self._read_before = 0
        self._random: Any = None  # of one without a state: the states of the random generators when the epoch began

    # For checkpoints

    def state_of(self, loader: Any, epoch: int, place: int) -> dict[str, Any] | None:
        """Return what a checkpoint must keep to read on after `place` batches; None before the first epoch."""
        if loader is None or loader is not self._loader:
            return None if self.saved is None else dict(self.saved)
        state: dict[str, Any] = {"epoch": epoch, "layout": layout_of(loader)}
        within = place > 0 and self._epoch == epoch
        if is_ours(loader):
            origin = loader.state_dict()["origin"] if within else 0
            return {**state, "origin": origin, "position": place - self._first if within else 0}
        if not is_stateful(loader):
            return {**state, "random": self._random if within else None}
        if place in (self._read, 0 if self._ended else None):
            return {**state, "own": _packed(loader.state_dict()), "skip": 0, "ended": self._ended}
        return {**state, "own": self._before, "skip": place - self._read_before, "ended": False}

    def resume(self, state: Mapping[str, Any] | None) -> None:
        """Read on from a state when the run next reads."""
        self.saved = state

    # For the loop

    def begin(self, loader: Any, epoch: int, start: int, backend: Backend) -> tuple[Iterator[Any], int | None]:
        """Return the batches of the epoch that the run has not trained on, and how many the whole epoch has, if known.

        Args:
            loader: What is read.
            epoch: The number of the epoch.
            start: How many batches of it the run has trained on.
            backend: Whose random generators a loader may draw from.
        """
        saved, self.saved = self.saved, None
        if saved is not None and (saved["epoch"] != epoch or saved.get("position", start) > start):
            saved = None  # somebody has moved the run since it was resumed
        has_own = saved is not None and is_stateful(loader) and saved.get("own") is not None
        if saved is not None and not has_own and 0 < start == saved["layout"].get("batches"):
            # Only the hooks after the epoch are left, whatever the data are now.
            self._loader, self._epoch = loader, epoch
            return iter(()), start
        if is_ours(loader):
            self._move(loader, epoch, start, saved)
            self._loader, self._epoch = loader, epoch
            return iter(loader), start + loader.batches_left()
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(epoch)
        if saved is not None and start and not (has_own and saved["ended"]):
            _check_layout(saved["layout"], layout_of(loader), start)
        length = length_of(loader)
        if is_stateful(loader):
            rest = self._begin_stateful(loader, start, saved, length)
        else:
            rest = self._reread(loader, start, saved, backend)
        self._loader, self._epoch = loader, epoch
        return rest, length

    def _move(self, loader: Any, epoch: int, start: int, saved: Mapping[str, Any] | None) -> None:
        """Move one of our loaders to where the run is in the epoch."""
        state: dict[str, Any] = {"epoch": epoch, "position": start}
        if saved is not None:
            theirs = saved["layout"]
            if "position" not in saved:
                theirs = {**theirs, "loader": theirs.get("loader", "another")}
            state = {**theirs, **state, "origin": saved.get("origin", 0), "position": saved.get("position", start)}
        elif start and loader is self._loader and self._epoch == epoch:
            state = {**loader.state_dict(), **state, "position": start - self._first}
        loader.load_state_dict(state)
        self._first = start - loader.state_dict()["position"]

    def _begin_stateful(
        self, loader: Any, start: int, saved: Mapping[str, Any] | None, length: int | None
    ) -> Iterator[Any]:
        skipped = 0
        if saved is not None and saved.get("own") is not None:
            skipped = saved["skip"]
            loader.load_state_dict(_unpacked(saved["own"]))
            if saved["ended"] and start:  # only the hooks after the epoch are left
                self._read, self._ended = start, True
                return iter(())
        elif start and loader is self._loader and start == self._read:
            loader.load_state_dict(loader.state_dict())
        elif start and loader is self._loader and self._before is not None and self._read_before <= start:
            skipped = start - self._read_before
            loader.load_state_dict(_unpacked(self._before))
        else:
            skipped = start
        rest = iter(loader)
        self._before, self._read_before = _packed(loader.state_dict()), start - skipped
        self._read, self._ended = self._read_before, False
        return self._counted(rest, skipped, length)

    def _counted(self, rest: Iterator[Any], skipped: int, length: int | None) -> Iterator[Any]:
        """Count the batches. The end is read with the last one, since a state from between them begins no epoch."""
        for place, batch in enumerate(rest):
            self._read += 1
            if self._read == length:
                next(rest, None)
                self._ended = True
            if place >= skipped:
                yield batch
        self._ended = True

    def _reread(self, loader: Any, start: int, saved: Mapping[str, Any] | None, backend: Backend) -> Iterator[Any]:
        now = backend.rng_state()
        if saved is not None:
            self._random = saved.get("random")
        if not start:
            self._random = now
        elif self._random is not None:
            backend.set_rng_state(self._random)
        rest: Iterator[Any] = iter(loader)
        for _ in range(start):
            if next(rest, self) is self:  # fewer than there were
                break
        if start and self._random is not None:
            backend.set_rng_state(now)
        return rest


def is_ours(loader: Any) -> bool:
    """Whether a loader moves to any position, as those of `aspecthook.training.data` do."""
    return hasattr(loader, "batches_left")


def is_stateful(loader: Any) -> bool:
    """Whether a loader keeps a state of its own, as torchdata's ``StatefulDataLoader`` does."""
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


def layout_of(loader: Any) -> dict[str, Any]:
    """Return what is known of how a loader divides its samples; a position in it means something only together."""
    if is_ours(loader):
        return {
            name: value for name, value in loader.state_dict().items() if name not in ("epoch", "position", "origin")
        }
    sampler = getattr(loader, "sampler", None)
    known = {
        "batches": length_of(loader),
        "samples": length_of(getattr(loader, "dataset", None)),
        "batch_size": getattr(loader, "batch_size", None),
        "world_size": getattr(sampler, "num_replicas", None),
        "sampler": None if sampler is None else type(sampler).__name__,
    }
    return {name: value for name, value in known.items() if isinstance(value, (int, str))}


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


def _check_layout(there: Mapping[str, Any], here: Mapping[str, Any], start: int) -> None:
    if "loader" in there:
        raise refuse_layout(f"they were read by a {there['loader']}")
    found = differences(there, here)
    if found:
        raise refuse_layout(f"{found} (after {start} batches)")


def _packed(state: Any) -> Any:
    """Return a state with arrays for tensors, as a checkpoint can hold it."""
    return map_leaves(lambda leaf: {_TENSOR: leaf.detach().cpu().numpy().copy()} if is_tensor(leaf) else leaf, state)


def _unpacked(state: Any) -> Any:
    """Undo `_packed`."""

    def unpack(leaf: Any) -> Any:
        return import_module("torch").tensor(leaf[_TENSOR]) if _is_packed(leaf) else leaf

    return map_leaves(unpack, state, _is_packed)


def _is_packed(value: Any) -> bool:
    return is_any(value, Mapping) and value.keys() == {_TENSOR}
