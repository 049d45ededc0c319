"""The two back ends by one suite, and what is special about each."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from aspecthook.training import TrainingError
from aspecthook.training import numpy as nn
from aspecthook.training.backends import backend_of
from tests.training.kit import both, with_torch


class Library:
    """Models, optimizers and losses of one of the libraries, with the same weights for the same seed.

    PyTorch's models have buffers besides.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "torch":
            import torch

            self.nn, self.optim = torch.nn, torch.optim

    def model(self, seed: int = 0, hidden: int = 4, dropout: float = 0.0) -> Any:
        nn.manual_seed(seed)
        ours = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 2))
        if self.name == "numpy":
            return ours
        import torch

        layers = [self.nn.Linear(3, hidden), self.nn.BatchNorm1d(hidden)]
        theirs = self.nn.Sequential(*layers, self.nn.Dropout(dropout), self.nn.Linear(hidden, 2))
        theirs.load_state_dict({name: torch.tensor(value) for name, value in ours.state_dict().items()}, strict=False)
        return theirs

    def optimizer(self, model: Any, kind: str = "AdamW") -> Any:
        return getattr(nn if self.name == "numpy" else self.optim, kind)(model.parameters(), lr=0.1)

    def array(self, *shape: int, seed: int = 0) -> Any:
        numbers = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        if self.name == "numpy":
            return numbers
        import torch

        return torch.tensor(numbers)

    def loss(self, model: Any, seed: int = 0) -> Any:
        x, y = self.array(5, 3, seed=seed), self.array(5, 2, seed=seed + 1)
        return nn.mse(model(x), y) if self.name == "numpy" else self.nn.functional.mse_loss(model(x), y)

    def train(self, model: Any, optimizer: Any, steps: int = 3) -> None:
        for step in range(steps):
            optimizer.zero_grad()
            self.loss(model, step).backward()
            optimizer.step()


@pytest.fixture
def lib(library: str) -> Library:
    return Library(library)


# Which one


@both
def test_an_object_that_holds_models_has_their_back_end_and_their_parameters(lib: Library) -> None:
    """A GAN, say, with a train_step of its own: its checkpoints had no weights."""

    class Pair:
        def __init__(self) -> None:
            self.generator, self.judge = lib.model(0), lib.model(1)
            self.optimizer = lib.optimizer(self.judge)

    pair, other = Pair(), Pair()
    backend = backend_of(pair)
    assert backend.name == lib.name
    state = backend.state(pair)
    assert {name.split(".")[0] for name in state} == {"generator", "judge"}
    assert set(backend.parameters(pair)) <= set(state)
    lib.train(other.judge, other.optimizer)
    backend.load_state(other, state)
    np.testing.assert_equal(backend.state(other), state)


def test_a_numpy_model_imports_no_pytorch_and_the_package_imports_nothing() -> None:
    code = (
        "import sys, aspecthook, aspecthook.training, aspecthook.training.backends\n"
        "assert not {'numpy', 'torch', 'autograd'} & set(sys.modules), 'imported'\n"
        "from aspecthook.training.backends import backend_of\n"
        "from aspecthook.training.numpy import Linear\n"
        "import aspecthook.training.data, aspecthook.training.data\n"
        "model = Linear(2, 2)\n"
        "backend = backend_of(model)\n"
        "backend.state(model), backend.rng_state(), backend.seed(1)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Parameters and state


@both
def test_parameters_are_live_and_states_are_copies(lib: Library) -> None:
    model = lib.model()
    backend = backend_of(model)
    state = backend.state(model)
    normal = ["1.weight", "1.bias"] if lib.name == "torch" else []
    buffers = ["1.running_mean", "1.running_var", "1.num_batches_tracked"] if lib.name == "torch" else []
    assert list(backend.parameters(model)) == ["0.weight", "0.bias", *normal, "3.weight", "3.bias"]
    assert set(state) == {*backend.parameters(model), *buffers}
    before = copy.deepcopy(state)
    lib.train(model, lib.optimizer(model))
    np.testing.assert_equal(state, before)
    assert (np.asarray(backend.parameters(model)["0.weight"].data) != state["0.weight"]).any()


@both
def test_a_state_of_another_model_is_refused_with_all_that_differs(lib: Library) -> None:
    model = lib.model()
    backend = backend_of(model)
    before, state = backend.state(model), backend.state(lib.model(hidden=7))
    state["head.weight"] = state.pop("3.weight")
    with pytest.raises(TrainingError) as caught:
        backend.load_state(model, state)
    said = str(caught.value)
    assert "not the tensors of Sequential" in said
    assert "missing: 3.weight; unexpected: head.weight; different: 0.weight is 7×3 floats, and 4×3 floats here" in said
    assert ("1.running_var is 7 floats, and 4" in said) == (lib.name == "torch") and "num_batches" not in said
    np.testing.assert_equal(backend.state(model), before)


# Optimizers


@both
def test_the_state_of_another_optimizer_is_refused(lib: Library) -> None:
    model = lib.model()
    backend = backend_of(model)
    state = backend.optimizer_state(lib.optimizer(model, "SGD"))
    with pytest.raises(TrainingError, match=r"the optimizer SGD for groups of .*, and the run's is AdamW for"):
        backend.load_optimizer_state(lib.optimizer(model), state)
    small = model[0]
    with pytest.raises(TrainingError, match=r"groups of \[[46]\] parameters, and .* is SGD for groups of \[2\]"):
        backend.load_optimizer_state(lib.optimizer(small, "SGD"), state)


# Numbers, batches


Batch = namedtuple("Batch", "inputs names")


@both
def test_batches_come_as_the_model_takes_them(lib: Library) -> None:
    model = lib.model()
    inputs = np.ones((2, 3), np.float32)
    inputs.flags.writeable = False
    batch = {"pair": [inputs, (np.arange(2),)], "batch": Batch(inputs, np.array(["a", "b"])), "n": 3}
    made = backend_of(model).to_device(batch, model)
    assert type(made["batch"]) is Batch and made["batch"].names.tolist() == ["a", "b"] and made["n"] == 3
    assert type(made["pair"]) is list and type(made["pair"][1]) is tuple
    kind = type(lib.array(1))
    assert type(made["pair"][0]) is type(made["pair"][1][0]) is type(made["batch"].inputs) is kind
    model(made["pair"][0])


# Random numbers


@both
def test_all_random_generators_are_restored(lib: Library) -> None:
    model = lib.model(dropout=0.5)
    backend = backend_of(model)

    def draw() -> Any:
        lib.optimizer(model).zero_grad()
        lib.loss(model).backward()
        return [
            random.random(),
            random.gauss(0, 1),
            np.random.rand(),
            np.random.randn(),
            nn.Dropout(0.5)(np.ones(40)).tolist(),
            np.asarray(backend.gradients(model)["3.weight"]).tolist(),
        ]

    random.gauss(0, 1)
    np.random.randn()  # each keeps a second number for the next call
    state = backend.rng_state()
    first = draw()
    assert draw() != first
    backend.set_rng_state(state)
    assert draw() == first
    backend.seed(2**40 + 3)
    seeded = draw()
    backend.seed(2**40 + 3)
    assert draw() == seeded != first


# Mixed precision


def test_numpy_has_no_mixed_precision() -> None:
    with pytest.raises(TrainingError, match="amp=True: mixed precision is PyTorch's"):
        backend_of(nn.Linear(1, 1)).amp(True, None)


# PyTorch alone


@with_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_wrappers_of_a_model_change_no_names() -> None:
    import torch

    model = Library("torch").model()
    backend = backend_of(model)
    state = backend.state(model)
    for wrapped in (torch.nn.DataParallel(model), torch.compile(model)):
        assert backend_of(wrapped).name == "torch"
        np.testing.assert_equal(backend.state(wrapped), state)
        assert list(backend.parameters(wrapped)) == list(backend.parameters(model))
        backend.load_state(wrapped, state)


@with_torch
def test_state_that_is_no_tensor_is_refused() -> None:
    import torch

    class Odd(torch.nn.Module):
        def get_extra_state(self) -> Any:
            return {"a": object()}

        def set_extra_state(self, state: Any) -> None: ...

    model = torch.nn.Sequential(Odd())
    with pytest.raises(
        TrainingError, match=r"the state of the model has \{'a': .*\}, and a checkpoint keeps only its tensors"
    ):
        backend_of(model).state(model)
