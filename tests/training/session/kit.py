"""What the tests of sessions share: models of both back ends, data, and hooks that write down what they are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from aspecthook.training import Runner
from aspecthook.training import numpy as nn
from aspecthook.training.data import ArrayDataset, DataLoader
from aspecthook.training.session import MonitoredTrainingSession, SessionRunArgs, SessionRunHook
from tests.training.kit import Loss, Optimizer, registered


def loader(samples: int = 22, batch_size: int = 4, shuffle: bool = True) -> DataLoader:
    made = np.random.Generator(np.random.PCG64(7))
    inputs, targets = made.normal(size=(samples, 6)).astype(np.float32), made.integers(0, 3, samples)
    return DataLoader(ArrayDataset(inputs, targets), batch_size=batch_size, shuffle=shuffle)


def runner_of(library: str = "numpy", hooks: Iterable[Any] = (), **options: Any) -> Runner:
    """A small classifier with dropout; the same weights for both."""
    nn.manual_seed(3)
    ours = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 3))
    options = {"max_epochs": 2, "seed": 5} | options
    if library == "numpy":
        optimizer: Any = nn.SGD(ours.parameters(), lr=0.1, momentum=0.9)
        return registered(Runner(ours, optimizer=optimizer, loss=nn.cross_entropy, **options), hooks)
    import torch

    theirs = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.4), torch.nn.Linear(8, 3))
    theirs.load_state_dict({name: torch.tensor(value) for name, value in ours.state_dict().items()})
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
    return registered(Runner(theirs, optimizer=optimizer, loss=torch.nn.functional.cross_entropy, **options), hooks)


class Model:
    """A model with mm's protocol: the loss of a batch is the batch."""

    def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        return {"loss": Loss(batch), "log_vars": {"loss": float(batch)}, "num_samples": 1}

    def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        return {"log_vars": {"loss": float(batch)}, "num_samples": 1}

    def __call__(self, batch: float) -> Any:
        return np.array([batch * 10])


def plain(model: Any = None, hooks: Iterable[Any] = (), **options: Any) -> Runner:
    return registered(Runner(model or Model(), optimizer=Optimizer(), **({"max_epochs": 1} | options)), hooks)


def drive(runner: Runner, *data: Any, hooks: Any = (), folder: Any = None) -> None:
    """Make all steps of a session."""
    with MonitoredTrainingSession(runner, *data, hooks=hooks, checkpoint_dir=folder) as session:
        while not session.should_stop():
            session.run()


def fit(runner: Runner, *data: Any, hooks: Any = ()) -> None:
    registered(runner, hooks).fit(*data)


class Trail(SessionRunHook):
    """Writes down what it is told."""

    def __init__(self, name: str, log: list[str], fetches: Any = None, feed: Any = None) -> None:
        self.name, self.log, self.fetches, self.fed = name, log, fetches, feed
        self.results: list[Any] = []

    def begin(self) -> None:
        self.log.append(f"{self.name}.begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.log.append(f"{self.name}.create")

    def before_run(self, run_context: Any) -> Any:
        self.log.append(f"{self.name}.before")
        return SessionRunArgs(self.fetches, self.fed)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.log.append(f"{self.name}.after")
        self.results.append(run_values.results)

    def end(self, session: Any) -> None:
        self.log.append(f"{self.name}.end")


class Fetch(SessionRunHook):
    """Fetches at every step, or at some."""

    def __init__(self, fetches: Any, every: int = 1) -> None:
        self.fetches, self.every = fetches, every
        self.results: list[Any] = []
        self.count = 0

    def before_run(self, run_context: Any) -> Any:
        self.count += 1
        return SessionRunArgs(self.fetches) if (self.count - 1) % self.every == 0 else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results is not None:
            self.results.append(run_values.results)
