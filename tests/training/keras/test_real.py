"""Beside the real Keras: the same decisions and files, its callbacks on our runner, and ours in its fit."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook.training import keras as ours

if find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)
os.environ.setdefault("KERAS_BACKEND", "torch" if find_spec("torch") else "numpy")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras as theirs

import numpy as np

# Eighths are exact in float32, in which Keras compares.
NUMBERS = st.integers(-32, 32).map(lambda n: n / 8)
METRICS = NUMBERS | st.sampled_from([nan, inf, -inf, None])
DELTAS = st.integers(0, 16).map(lambda n: n / 8)
MODES = st.sampled_from(["min", "max"])
OPTIONS = {
    "EarlyStopping": {
        "mode": MODES,
        "patience": st.integers(0, 4),
        "min_delta": DELTAS,
        "baseline": st.none() | NUMBERS,
        "restore_best_weights": st.booleans(),
        "start_from_epoch": st.integers(0, 5),
    },
    "ReduceLROnPlateau": {
        "mode": MODES,
        "patience": st.integers(0, 3),
        "min_delta": DELTAS,
        "cooldown": st.integers(0, 3),
        "min_lr": st.sampled_from([0.0, 0.25, 0.5, 2.0]),
        "factor": st.sampled_from([0.5, 0.25]),
    },
}
SEEN = {
    "EarlyStopping": ("wait", "best", "best_epoch", "stopped_epoch", "best_weights"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
}


class Rate:
    """An optimizer, for what callbacks ask of it."""

    def __init__(self) -> None:
        self.learning_rate: Any = 1.0
        self.iterations = 0
        self.name = "rate"


class Stub:
    """A model that notes what is done to it."""

    metrics: tuple[Any, ...] = ()
    built = True

    def __init__(self) -> None:
        self.stop_training = False
        self.optimizer = Rate()
        self.age = 0
        self.done: list[Any] = []
        self.history: Any = None

    def get_weights(self) -> list[int]:
        return [self.age]

    def set_weights(self, weights: list[int]) -> None:
        self.done.append(("weights", weights))


def both(name: str, **options: Any) -> list[Any]:
    """Return our callback and the real one, each with a model of its own."""
    made = []
    for library in (ours, theirs.callbacks):
        callback = getattr(library, name)(**options)
        callback.set_params({"epochs": 10, "steps": 10, "verbose": 0})
        callback.set_model(Stub())
        made.append(callback)
    return made


def plain(value: Any) -> Any:
    return "nan" if isinstance(value, float) and isnan(value) else value


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", OPTIONS)
@given(data=st.data(), values=st.lists(METRICS, min_size=1, max_size=25))
def test_a_callback_decides_as_that_of_keras(name: str, data: st.DataObject, values: list[float | None]) -> None:
    options, rows = data.draw(st.fixed_dictionaries(OPTIONS[name])), []
    for callback in both(name, **options):
        seen: list[Any] = []
        model = callback.model
        for _ in range(2):  # used again, it begins anew
            callback.on_train_begin({})
            model.stop_training = False
            for epoch, value in enumerate(values):
                model.age += 1
                logs = {"loss": 0.5} if value is None else {"loss": 0.5, "val_loss": value}
                callback.on_epoch_end(epoch, logs)
                seen.append([plain(getattr(callback, one)) for one in SEEN[name]])
                rate = float(logs.get("learning_rate", 0))
                seen.append([model.stop_training, float(model.optimizer.learning_rate), rate])
                if model.stop_training:
                    break
            callback.on_train_end({})
        rows.append((seen, model.done))
    assert rows[0] == rows[1]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


CELLS = METRICS | st.sampled_from(["text", 'quo"te', "a,b", [1, 2], (0.5,), np.float32(0.1), np.array(3.0), np.ones(2)])
ROWS = st.lists(st.dictionaries(st.sampled_from(["loss", "val_loss", "acc", "a b"]), CELLS), min_size=1, max_size=6)


@given(st.lists(ROWS, min_size=1, max_size=3), st.booleans(), st.sampled_from([",", ";", "\t"]), st.booleans())
@settings(max_examples=60)
def test_csv_files_are_those_of_keras(runs: list[Any], append: bool, separator: str, there: bool) -> None:
    texts = []
    for place, callback in enumerate(both("CSVLogger", filename="log.csv", separator=separator, append=append)):
        path = Path(f"{place}.csv")
        path.write_bytes(b"epoch,loss\r\n0,1\r\n" if there else b"")
        callback.filename = str(path)
        for rows in runs:
            callback.on_train_begin({})
            for epoch, row in enumerate(rows):
                callback.on_epoch_end(epoch, dict(row))
            callback.on_train_end({})
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
