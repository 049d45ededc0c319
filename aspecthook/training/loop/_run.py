"""What hooks see of the run they act on: the protocol `Run`, and `Progress`, the counts that a checkpoint keeps.

Whatever acts on a run imports these, and never the runner. So imports run one way: from the runner to the hooks, and
from the hooks to this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

from ._interrupts import Interrupts

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from aspecthook.training.backends._base import Amp, Backend

COUNTS = ("epoch", "iter", "step", "inner_iter", "row", "begun", "validated")


@final
@dataclass(slots=True)
class Progress:
    """How far a run has come: where a checkpoint that is saved now must resume from.

    An iteration counts as soon as its body is done, before the hooks after it are called. The run's own `iter`, `step`
    and `epoch` are counted up only after those hooks.
    """

    epoch: int = 0
    iter: int = 0
    step: int = 0
    inner_iter: int = 0  # the iterations of the current epoch
    row: int = 0  # the current row of the workflow
    begun: int = 0  # the epochs or iterations that had been trained when the row began
    validated: int = 0  # the validations of the row

    # Of the current epoch, and not in checkpoints:
    due: str | None = None  # the mode of the epoch that the workflow has begun, until the body of the epoch begins
    length: int | None = None  # the number of batches, if it is known
    until: int | None = None  # the iteration that ends the row of the workflow
    accumulated: bool = False  # whether there are gradients that the optimizer has not used yet

    def state_dict(self) -> dict[str, int]:
        """Return the counts that a checkpoint keeps."""
        return {name: getattr(self, name) for name in COUNTS}

    def load_state_dict(self, counts: Mapping[str, int]) -> None:
        """Restore the counts from a checkpoint."""
        for name in COUNTS:
            setattr(self, name, int(counts[name]))


# Any, in what follows: models, optimizers, losses, batches and loaders are those of any library.
class Run(Protocol):
    """A run, as hooks see it; `Runner` implements it. Its stages are mount points: ``hooks(run.train_iter)``."""

    # What is trained
    model: Any
    optimizer: Any
    loss: Any
    accumulate: int
    seed: int | None
    meta: dict[str, Any]
    backend: Backend
    amp: Amp | None

    # Where it is
    mode: str
    epoch: int
    iter: int
    step: int
    inner_iter: int
    done: Progress
    max_epochs: int | None
    max_iters: int | None
    by_epoch: bool
    workflow: tuple[tuple[str, int], ...]
    running: bool  # whether the stage `run` has begun and not ended
    stopping: bool  # whether `request_stop` was called

    # What it works on
    later: list[Callable[[], object]]  # the functions that `after_stage` will call
    interrupts: Interrupts
    loaders: dict[str, Any]  # by mode
    data_loader: Any
    batch: Any
    outputs: Any
    predictions: list[Any]
    logs: dict[str, Any]
    hooks: list[Any]

    # Where it writes
    work_dir: Path | None
    logger: Any
    rank: int
    world_size: int

    @property
    def progress(self) -> dict[str, int]:
        """The counts of `done` that a checkpoint keeps, as a new dict."""
        ...

    @progress.setter
    def progress(self, done: Mapping[str, int]) -> None: ...

    @property
    def resumed(self) -> bool:
        """Whether the run was resumed from a checkpoint."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM was received; the current iteration is the last."""
        ...

    @property
    def in_group(self) -> bool:
        """Whether some batches of a group are done, and the optimizer step of the group is not."""
        ...

    def request_stop(self) -> None:
        """End the run after this iteration."""
        ...

    def after_stage(self, function: Callable[[], object]) -> None:
        """Call a function after the current stage and all its hooks; outside a run at once."""
        ...

    def leave(self) -> None:
        """Set `running` to False, and drop the functions that `after_stage` was to call."""
        ...

    def set_mode(self, mode: str) -> None:
        """Switch the run and its model to a mode, and to the data for it."""
        ...

    def register_hook(self, hook: Any, priority: int | str | None = None) -> Any:
        """Add the methods of a hook to the stages that they are named after."""
        ...

    def remove_hook(self, hook: Any) -> None:
        """Remove the methods of a hook from the stages."""
        ...

    def fit(self, train: Any, val: Any = None) -> None:
        """Train, and validate where the workflow says so."""
        ...

    def validate(self, loader: Any) -> dict[str, Any]:
        """Run one epoch of validation."""
        ...

    def test(self, loader: Any) -> dict[str, Any]:
        """Run one epoch of testing."""
        ...

    def predict(self, loader: Any) -> list[Any]:
        """Return what the model computes for each batch."""
        ...

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Continue from a checkpoint."""
        ...

    # The stages that hooks of the package call, or add hooks to. They are properties of type Any, since type checkers
    # disagree on how a hookable method becomes a member of a protocol.
    @property
    def val_loop(self) -> Any: ...
    @property
    def val_epoch(self) -> Any: ...
    @property
    def train_iter(self) -> Any: ...
    @property
    def val_iter(self) -> Any: ...
    @property
    def predict_iter(self) -> Any: ...
    @property
    def forward(self) -> Any: ...
    @property
    def optimizer_step(self) -> Any: ...
    @property
    def save_checkpoint(self) -> Any: ...
    @property
    def load_checkpoint(self) -> Any: ...
    @property
    def restore(self) -> Any: ...
