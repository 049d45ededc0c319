"""Train a classifier of handwritten digits with the runner, on NumPy: hooks set the rate, save, log and stop.

pip install '.[train]'
python examples/digits.py                 # 15 epochs, a few seconds
python examples/digits.py --resume        # continues from the newest checkpoint in work_dirs/digits
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from aspecthook import hooks
from aspecthook.training import Hook, Runner
from aspecthook.training.checkpoint import newest
from aspecthook.training.data import ArrayDataset, DataLoader, load_digits
from aspecthook.training.numpy import SGD, Dropout, Linear, ReLU, Sequential, cross_entropy, manual_seed


class Classifier(Sequential):
    """Two hidden layers; a validation reports the share of images that it classifies correctly."""

    def train_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
        images, labels = batch
        scores = self(images.reshape(len(images), -1))
        loss = cross_entropy(scores, labels)
        return {"loss": loss, "log_vars": {"loss": loss.item()}, "num_samples": len(labels)}

    def val_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
        images, labels = batch
        right = float((self(images.reshape(len(images), -1)).argmax(axis=1) == labels).mean())
        return {"log_vars": {"accuracy": right}, "num_samples": len(labels)}


class Report(Hook):
    """Prints one line per epoch."""

    priority = "LOW"

    def after_val_epoch(self, epoch: int, logs: dict[str, Any], optimizer: Any) -> None:
        rate = optimizer.param_groups[0]["lr"]
        print(f"epoch {epoch:2}  loss {logs['loss']:.4f}  accuracy {logs['val_accuracy']:.1%}  rate {rate:.5f}")


def make(epochs: int, work_dir: Path, seed: int = 0) -> Runner:
    """Return the run, without data."""
    manual_seed(seed)
    model = Classifier(Linear(64, 256), ReLU(), Dropout(0.3), Linear(256, 128), ReLU(), Dropout(0.3), Linear(128, 10))
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    runner = Runner(model, optimizer=optimizer, max_epochs=epochs, work_dir=work_dir, seed=seed)
    runner.register_hook({"type": "LrUpdaterHook", "policy": "cosine", "min_lr": 0.0, "by_epoch": False})
    runner.register_hook({"type": "CheckpointHook", "interval": 1, "max_keep": 2})
    runner.register_hook({"type": "OptimizerHook", "grad_clip": {"max_norm": 5.0}})
    runner.register_hook(Report())
    return runner


def main(argv: list[str] | None = None) -> float:
    """Train, and return the accuracy on the test images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15, help="how many epochs to train (15)")
    parser.add_argument("--work-dir", type=Path, default=Path("work_dirs/digits"), help="where checkpoints go")
    parser.add_argument("--resume", action="store_true", help="continue from the newest checkpoint there")
    options = parser.parse_args(argv)
    runner = make(options.epochs, options.work_dir)
    train = DataLoader(ArrayDataset(*load_digits("train")), batch_size=32, shuffle=True)
    test = DataLoader(ArrayDataset(*load_digits("test")), batch_size=256)
    saved = newest(options.work_dir) if options.resume else None
    if saved is not None:
        runner.resume(saved)
        print(f"resumed from {saved}")
    # Any function can be a hook on a stage: this one reports steps whose gradients were clipped hard.
    hooks(runner.optimizer_step).pre(lambda logs: print("a steep step") if logs["grad_norm"] > 50 else None)
    runner.fit(train, test)
    accuracy = float(runner.test(test)["test_accuracy"])
    print(f"accuracy on {len(load_digits('test')[1])} images held out: {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main()
