"""The hook that makes a distributed sampler shuffle in a new order in each epoch."""

from __future__ import annotations

from typing import Any, cast

from aspecthook.training.loop._run import Run

from ._hook import HOOKS, Hook


@HOOKS.register
class DistSamplerSeedHook(Hook):
    """Call ``set_epoch`` of the training sampler before each epoch, so that it shuffles in a new order.

    Like mmcv's hook of this name, it looks at the loader's sampler, its batch sampler and the sampler of that;
    ``torch.utils.data.DistributedSampler`` has the method. The runner itself tells the loaders of
    `aspecthook.training.data` the epoch.

    Example:
        >>> DistSamplerSeedHook().priority
        'NORMAL'
    """

    def before_train_epoch(self, runner: Run) -> None:
        """Set the epoch."""
        batches = getattr(runner.data_loader, "batch_sampler", None)
        for sampler in (getattr(runner.data_loader, "sampler", None), batches, getattr(batches, "sampler", None)):
            if hasattr(sampler, "set_epoch"):
                cast("Any", sampler).set_epoch(runner.epoch)
                return
