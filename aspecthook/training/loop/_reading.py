"""Reading the training data, from the beginning of an epoch or from the middle of one, where a run is resumed.

The invariant: with the state that a checkpoint keeps of it, each sample of the epoch is read once, or the resumed run
is refused. There are three kinds of loaders. Those of `aspecthook.training.data` move to any position. Others that have
``state_dict`` and ``load_state_dict`` are given their own states. All others are read again from the beginning of the
epoch, with the random numbers of then, up to the position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast, final

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any, is_tensor, map_leaves

from ._checks import length_of

if TYPE_CHECKING:
    from aspecthook.training.backends._backend import Backend

_TENSOR = "__tensor__"  # the key of a tensor in the state of a loader, which NumPy keeps as an array


class Stateful(Protocol):
    """A loader that keeps a state of its own, as torchdata's ``StatefulDataLoader`` does."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any], /) -> object: ...
    def __iter__(self) -> Iterator[Any]: ...


class Positioned(Stateful, Protocol):
    """A loader that moves to any position, as those of `aspecthook.training.data` do."""

    def batches_left(self) -> int: ...


# By their attributes: a wrapper may hand them on with `__getattr__`, which `isinstance` does not call.


def is_stateful(loader: object) -> TypeGuard[Stateful]:
    """Whether a loader keeps a state of its own."""
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")


def is_ours(loader: object) -> TypeGuard[Positioned]:
    """Whether a loader moves to any position."""
    return hasattr(loader, "batches_left")


@final
class Reading:
    """How far the training data are read; one object for each run."""

    def __init__(self) -> None:
        self.saved: Mapping[str, Any] | None = None  # from the checkpoint, until the data are read on
        self._loader: object = None  # the one that was read last
        self._epoch = 0
        # Of one of our loaders: the iteration of the epoch that was its first one in this layout.
        self._first = 0
        # Of one with a state: how many batches of the epoch it has yielded; and that number, and its state, when it was
        # last begun.
        self._read = 0
        self._ended = False
        self._begun: tuple[int, Any] = (0, None)
        self._random: Any = None  # of one without a state: the states of the random generators when the epoch began

    def state_of(self, loader: object, epoch: int, place: int) -> dict[str, Any] | None:
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
        # Inside an iteration, the loader is a batch ahead of the run.
        read, own = self._begun
        return {**state, "own": own, "skip": place - read, "ended": False}

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
        if saved is None and start and loader is self._loader and self._epoch == epoch:
            saved = self.state_of(loader, epoch, start)  # the run has left the epoch early, and goes on
        self._loader, self._epoch = loader, epoch
        layout: Mapping[str, Any] = {} if saved is None else saved["layout"]
        own = saved.get("own") if saved is not None and is_stateful(loader) else None
        if own is None and 0 < start == layout.get("batches"):
            return iter(()), start  # only the hooks after the epoch are left, whatever the data are now
        if is_ours(loader):
            state: dict[str, Any] = {"epoch": epoch, "position": start}
            if saved is not None:
                state = {"loader": "another", **layout, **state, "origin": 0}
                state.update((name, saved[name]) for name in ("origin", "position") if name in saved)
            loader.load_state_dict(state)
            self._first = start - loader.state_dict()["position"]
            return iter(loader), start + loader.batches_left()
        set_epoch = getattr(loader, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        length = length_of(loader)
        ended = own is not None and saved is not None and saved["ended"]
        if start and not ended:
            what = f"they were read by a {layout['loader']}" if "loader" in layout else ""
            what = what or differences(layout, layout_of(loader))
            if what:
                raise refuse_layout(f"{what} (after {start} batches)")
        if not is_stateful(loader):
            return self._reread(loader, start, saved, backend), length
        skipped = start
        if saved is not None and own is not None:
            skipped = saved["skip"]
            loader.load_state_dict(_unpacked(own))
            if ended and start:
                self._read, self._ended = start, True
                return iter(()), length
        rest = iter(loader)
        self._begun = start - skipped, _packed(loader.state_dict())
        self._read, self._ended = start - skipped, False
        return self._counted(rest, skipped, length), length

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
        self._random = now
        if start:
            self._random = None if saved is None else saved.get("random")
            if self._random is not None:
                backend.set_rng_state(self._random)
        rest: Iterator[Any] = iter(loader)
        next(islice(rest, start, start), None)  # maybe fewer than there were
        if start and self._random is not None:
            backend.set_rng_state(now)
        return rest


def layout_of(loader: object) -> dict[str, Any]:
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


def _packed(state: Any) -> Any:
    """Return a state with arrays for tensors, as a checkpoint can hold it."""
    return map_leaves(lambda leaf: {_TENSOR: leaf.detach().cpu().numpy().copy()} if is_tensor(leaf) else leaf, state)


def _unpacked(state: Any) -> Any:
    """Undo `_packed`."""

    def is_packed(value: object) -> bool:
        return is_any(value, Mapping) and set(cast("Mapping[str, object]", value)) == {_TENSOR}

    def unpack(leaf: Any) -> Any:
        return import_module("torch").tensor(leaf[_TENSOR]) if is_packed(leaf) else leaf

    return map_leaves(unpack, state, is_packed)
