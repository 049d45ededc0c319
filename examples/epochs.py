"""A runner with hooks before and after each epoch, in thirty lines; it trains something real.

A logistic regression, in plain Python, tells the sex of a penguin from four measurements. The runner knows only how
to train: the learning rate of an epoch, the log, the checkpoints and the decision to stop are hooks. Three rates are
tried, one after another. The hand-written version of such hooks is a list and a loop, and a list that outlives its
runner leaks: the early stopping of the first run goes on to stop the others. Look for

- `@event(fold="rate")`: what subscribes to `before_epoch` passes the learning rate on, changed or not;
- `@event`: each answer to `after_epoch` is a reason to stop;
- `hooks(runner.after_epoch)`: hooks of one runner, which go with it;
- the order, which is said where it matters: the log is added first, and runs last.

Run `python examples/epochs.py` with aspecthook installed. Nothing else is needed, and no network.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import math
import random
import sys
import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from aspecthook import event, hooks

DATA = Path(__file__).parent / "data" / "penguins-raw.csv"
COLUMNS = "Culmen Length (mm)", "Culmen Depth (mm)", "Flipper Length (mm)", "Body Mass (g)"
Birds = list[tuple[list[float], bool]]


def load(path: Path) -> Birds:
    """Return the measurements of each bird, each as far from the mean as is usual, and whether it is male."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.get("Sex") in ("MALE", "FEMALE")]
    if len(rows) < 10:
        raise ValueError(f"it has {len(rows)} birds whose sex is known, and must have 10")
    try:
        table = [[float(row[name]) for row in rows] for name in COLUMNS]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"it lacks measurements: {', '.join(COLUMNS)}") from None
    scaled = [[(one - fmean(column)) / (pstdev(column) or 1.0) for one in column] for column in table]
    return [([1.0, *x], row["Sex"] == "MALE") for row, x in zip(rows, zip(*scaled, strict=True), strict=True)]


class Model:
    """A logistic regression, trained one bird at a time."""

    def __init__(self) -> None:
        self.weights = [0.0] * (1 + len(COLUMNS))

    def male(self, bird: list[float]) -> float:
        total = sum(weight * one for weight, one in zip(self.weights, bird, strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def learn(self, bird: list[float], male: bool, rate: float) -> float:
        guess = self.male(bird)
        self.weights = [w + rate * (male - guess) * one for w, one in zip(self.weights, bird, strict=True)]
        return -math.log(guess if male else 1 - guess)

    def accuracy(self, birds: Birds) -> float:
        return fmean((self.male(bird) > 0.5) == male for bird, male in birds)


# The runner.


class Runner:
    """Trains a model epoch by epoch; the rest is up to whoever subscribes."""

    def __init__(self, train: Birds, test: Birds) -> None:
        self.model, self.train, self.test = Model(), list(train), test
        self.shuffle = random.Random(0).shuffle

    @event(fold="rate")
    def before_epoch(self, epoch: int, rate: float) -> None:
        """An epoch is to begin; the rate may be replaced."""

    @event
    def after_epoch(self, epoch: int, loss: float, accuracy: float) -> None:
        """An epoch has ended; an answer is a reason to stop."""

    def run(self, epochs: int, rate: float) -> str:
        for epoch in range(1, epochs + 1):
            now = self.before_epoch(epoch, rate)
            self.shuffle(self.train)
            loss = fmean(self.model.learn(bird, male, now) for bird, male in self.train)
            reasons = self.after_epoch(epoch, loss, self.model.accuracy(self.test))
            if reasons:
                return f"stopped after epoch {epoch}: {', '.join(reasons)}"
        return f"all {epochs} epochs"


# What is hooked in, the same for both versions.


class Attempt:
    """What is done beside training: smaller steps, a checkpoint of the best, a log, and an end in time."""

    def __init__(self, model: Model, rate: float, folder: Path) -> None:
        self.model, self.rate, self.path = model, rate, folder / f"rate-{rate:g}.json"
        self.best, self.since = 0.0, 0

    def slow_down(self, epoch: int, rate: float) -> float:
        return rate * 0.9 ** (epoch - 1)

    def log(self, epoch: int, loss: float, accuracy: float) -> None:
        saved = "" if self.since else "  saved"
        print(f"  rate {self.rate:<4g}  epoch {epoch:2}  loss {loss:.3f}  right {accuracy:.1%}{saved}")

    def save(self, epoch: int, loss: float, accuracy: float) -> None:
        self.since += 1
        if accuracy > self.best:
            self.best, self.since = accuracy, 0
            self.path.write_text(json.dumps(self.model.weights), encoding="utf-8")

    def stop(self, epoch: int, loss: float, accuracy: float) -> str | None:
        return f"rate {self.rate:g} got no better for {self.since} epochs" if self.since >= 3 else None


class ByHand(Runner):
    """The same with a list and a loop, where such a list often is: in the class, once for all runners."""

    callbacks: ClassVar[list[Callable[[int, float, float], str | None]]] = []

    def before_epoch(self, epoch: int, rate: float) -> float:
        return rate * 0.9 ** (epoch - 1)

    def after_epoch(self, epoch: int, loss: float, accuracy: float) -> list[str]:
        answers = [callback(epoch, loss, accuracy) for callback in self.callbacks]
        return [answer for answer in answers if answer is not None]


def register(runner: ByHand, attempt: Attempt) -> None:
    runner.callbacks.extend([attempt.save, attempt.stop, attempt.log])


def subscribe(runner: Runner, attempt: Attempt) -> None:
    hooks(runner.before_epoch).on(attempt.slow_down)
    hooks(runner.after_epoch).on(attempt.log, priority="LOWEST")  # added first, runs last: it says what was saved
    hooks(runner.after_epoch).on(attempt.stop, after="save")
    hooks(runner.after_epoch).on(attempt.save)


def search(kind: type[Any], hook: Callable[[Any, Attempt], None], data: tuple[Birds, Birds], options: Any) -> Path:
    """Try all rates, and give the checkpoint of the best."""
    models, found = list[weakref.ref[Model]](), list[tuple[float, Path]]()
    for rate in options.rates:
        runner = kind(*data)
        attempt = Attempt(runner.model, rate, options.keep)
        hook(runner, attempt)
        print(f"  rate {rate:g}: {runner.run(options.epochs, rate)}")
        models.append(weakref.ref(runner.model))
        found.append((attempt.best, attempt.path))
    del runner, attempt
    gc.collect()  # on a Python without the GIL, classes and closures go no sooner
    print("  models of finished runs that are still alive:", sum(model() is not None for model in models))
    return max(found, key=itemgetter(0))[1]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A runner with hooks before and after each epoch.")
    parser.add_argument("path", nargs="?", type=Path, default=DATA, help="a file like data/penguins-raw.csv")
    parser.add_argument("--rates", type=float, nargs="+", default=[1.0, 0.1, 0.01], help="the learning rates to try")
    parser.add_argument("--epochs", type=int, default=12, help="train for so many at most (default: 12)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the checkpoints there")
    options = parser.parse_args(argv)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    try:
        birds = load(options.path)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError, csv.Error) as error:
        path, why = getattr(error, "filename", None) or options.path, getattr(error, "strerror", None) or error
        sys.exit(f"epochs.py: cannot use {path}: {why}")
    random.Random(0).shuffle(birds)
    data = birds[len(birds) // 4 :], birds[: len(birds) // 4]
    print(f"{len(data[0])} penguins to learn from, {len(data[1])} held out")
    with TemporaryDirectory() as temporary:
        options.keep = options.keep or Path(temporary)
        print("\nBy hand, a list and a loop:")
        search(ByHand, register, data, options)
        ByHand.callbacks.clear()
        print("\nWith events:")
        best, model = search(Runner, subscribe, data, options), Model()
        model.weights = json.loads(best.read_text(encoding="utf-8"))
    print(f"The best, read from {best.name}: {model.accuracy(data[1]):.1%} right")


if __name__ == "__main__":
    main()
