"""Weave hooks into a running Lightning trainer from outside: no callback, no change to the module or the trainer.

pip install . lightning 'torch==2.13.0'
python examples/weave_lightning.py
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from aspecthook import Args, Call, Return, weave


class Classifier(pl.LightningModule):
    """A third-party module; it knows nothing about hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def data() -> DataLoader[Any]:
    """Eight batches of images, one of them broken: its pixels are NaN."""
    torch.manual_seed(0)
    images, labels = torch.rand(256, 8, 8), torch.arange(256) % 10
    images[64:96] = float("nan")
    return DataLoader(TensorDataset(images, labels), batch_size=32)


def train() -> Classifier:
    """What the program does, with or without hooks."""
    torch.manual_seed(0)
    module = Classifier()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    pl.Trainer(max_epochs=2, accelerator="cpu", **quiet).fit(module, data())
    return module


# The hooks: functions that ask for what they need.

trail: dict[str, list[Any]] = {"skipped": [], "seconds": [], "saved": []}


def noisy(batch: Any) -> Args:
    """Replace the batch by one with a little noise."""
    images, labels = batch
    return Args(batch=(images + 0.01 * torch.randn_like(images), labels))


def decay(result: torch.Tensor, self: Classifier) -> torch.Tensor:
    """Replace the loss by one with a penalty."""
    return result + 1e-3 * sum(weight.square().sum() for weight in self.parameters())


def skip(result: torch.Tensor, batch_idx: int) -> Return[None] | None:
    """Skip a step whose loss is NaN, by returning None, as Lightning allows."""
    if not torch.isnan(result):
        return None
    trail["skipped"].append(batch_idx)
    return Return(None)


def begin(call: Call) -> None:
    call.state["began"] = time.perf_counter()


def end(call: Call) -> None:
    trail["seconds"].append(time.perf_counter() - call.state["began"])


def main() -> None:
    """Train without hooks and with them, and print what the hooks have changed."""
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    plain = train()
    code = Classifier.training_step.__code__
    with (
        weave(Classifier.training_step, pre=noisy, post=decay),
        weave(Classifier.training_step, post=skip, priority="LOWEST"),
        weave("lightning.pytorch:LightningModule.optimizer_step", pre=begin, always=end) as timing,
        weave("lightning.pytorch:Trainer.fit", always=lambda model: trail["saved"].append(type(model).__name__)),
    ):
        hooked = train()
    broken = [bool(torch.isnan(next(module.parameters())).any()) for module in (plain, hooked)]
    print(f"parameters are NaN: without hooks {broken[0]}, with hooks {broken[1]}")
    print(f"steps: {len(trail['seconds'])}, skipped: batches {trail['skipped']}; fit of {trail['saved'][0]} ended")
    print(f"after the block: {timing.state}; is its code as before? {Classifier.training_step.__code__ is code}")


if __name__ == "__main__":
    sys.exit(main())
