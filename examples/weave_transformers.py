"""Weave hooks into Hugging Face's Trainer from outside: no TrainerCallback, no subclass.

pip install aspecthook transformers accelerate 'torch==2.13.0'
python examples/weave_transformers.py
"""

from __future__ import annotations

import sys
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from aspecthook import Args, Return, explain, weave


class Classifier(nn.Module):
    """Somebody's model; it knows nothing of hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.net(images)
        return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}


class Images(torch.utils.data.Dataset[Any]):
    """Images of which some are broken: their pixels are no numbers."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.images = torch.rand(256, 8, 8)
        self.images[::50] = float("nan")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {"images": self.images[place], "labels": place % 10}


def train() -> Classifier:
    """What the program does, with or without hooks."""
    torch.manual_seed(0)
    model = Classifier()
    with TemporaryDirectory() as folder:
        options = TrainingArguments(
            output_dir=folder,
            num_train_epochs=2,
            per_device_train_batch_size=32,
            learning_rate=0.1,
            use_cpu=True,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
        )
        Trainer(model=model, args=options, train_dataset=Images()).train()
    return model


# Hooks on somebody else's training: functions that ask for what they need.

trail: dict[str, list[Any]] = {"cleaned": [], "losses": [], "ended": []}


def clean(inputs: dict[str, Any]) -> Args | None:
    """Replace the batch by one without the broken images; a TrainerCallback cannot."""
    whole = ~torch.isnan(inputs["images"]).flatten(1).any(dim=1)
    if whole.all():
        return None
    trail["cleaned"].append(int((~whole).sum()))
    return Args(inputs={name: value[whole] for name, value in inputs.items()})


def decay(result: Any, model: nn.Module, return_outputs: bool) -> Any:
    """Replace the loss by one with a penalty."""
    penalty = 1e-3 * sum(weight.square().sum() for weight in model.parameters())
    return (result[0] + penalty, result[1]) if return_outputs else result + penalty


def note(result: torch.Tensor) -> None:
    trail["losses"].append(result.item())


def ended(result: Any) -> Return[Any]:
    """Replace even what the run gives."""
    trail["ended"].append(result.global_step)
    return Return(result)


def main() -> None:
    """Train without hooks and with them, and say what the hooks have changed."""
    set_verbosity_error()
    disable_progress_bar()
    plain = train()
    code = Trainer.training_step.__code__
    with (
        weave("transformers:Trainer.training_step", pre=clean, post=note),
        weave("transformers:Trainer.compute_loss", post=decay),
        weave("transformers:Trainer.train", post=ended),
    ):
        hooked = train()
        explain(Trainer.training_step)
    broken = [bool(torch.isnan(next(model.parameters())).any()) for model in (plain, hooked)]
    print(f"parameters are no numbers: without hooks {broken[0]}, with hooks {broken[1]}")
    print(f"steps: {len(trail['losses'])} of {trail['ended'][0]}; images left out: {sum(trail['cleaned'])}")
    print(f"taken off: the code is that it was? {Trainer.training_step.__code__ is code}")


if __name__ == "__main__":
    sys.exit(main())
