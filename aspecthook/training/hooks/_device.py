"""Hooks for the devices of a run: buffers that are the same on all ranks, and memory that is given back."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from aspecthook.training._options import flag
from aspecthook.training._ranks import all_gather
from aspecthook.training.loop._run import Run

from ._hook import HOOKS, Hook


@HOOKS.register
class SyncBuffersHook(Hook):
    """Set the buffers of the model, such as running means, to their means over all ranks after each training epoch.

    Counts are integers, and are left as they are. With a single process, nothing is done.

    Args:
        distributed: Whether to do so at all.

    Example:
        >>> SyncBuffersHook().get_triggered_stages()
        ['after_train_epoch']
    """

    def __init__(self, distributed: bool = True) -> None:
        self.distributed: bool = flag("SyncBuffersHook", "distributed", distributed)

    def after_train_epoch(self, runner: Run) -> None:
        """Average the buffers."""
        if not self.distributed or runner.world_size == 1:
            return
        backend, model = runner.backend, runner.model
        parameters = backend.parameters(model)
        tensors = backend.tensors(model).items()
        own = {name: backend.to_array(value) for name, value in tensors if name not in parameters}
        own = {name: array for name, array in own.items() if array.dtype.kind in "fc"}
        every = all_gather(own)
        means = {name: np.mean([one[name] for one in every], axis=0, dtype=own[name].dtype) for name in own}
        state: dict[str, Any] = {name: backend.to_array(value) for name, value in tensors}
        backend.load_state(model, {**state, **means})


@HOOKS.register
class EmptyCacheHook(Hook):
    """Free the memory that PyTorch keeps for itself on a GPU, though no tensor uses it; nothing without a GPU.

    Args:
        before_epoch: Before each epoch.
        after_epoch: After each epoch.
        after_iter: After each iteration.

    Example:
        >>> EmptyCacheHook(after_iter=True).priority
        'NORMAL'
    """

    def __init__(self, before_epoch: bool = False, after_epoch: bool = True, after_iter: bool = False) -> None:
        given = {"before_epoch": before_epoch, "after_epoch": after_epoch, "after_iter": after_iter}
        self.moments: dict[str, bool] = {name: flag("EmptyCacheHook", name, one) for name, one in given.items()}

    def before_epoch(self) -> None:
        """Empty the cache, if asked to."""
        self._empty("before_epoch")

    def after_epoch(self) -> None:
        """Empty the cache, if asked to."""
        self._empty("after_epoch")

    def after_iter(self) -> None:
        """Empty the cache, if asked to."""
        self._empty("after_iter")

    def _empty(self, moment: str) -> None:
        torch: Any = sys.modules.get("torch")  # no tensor is on a GPU before it is imported
        if torch is not None and self.moments[moment]:
            torch.cuda.empty_cache()
