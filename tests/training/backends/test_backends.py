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
from tests.training.kit import both, data, model_of, run_of, with_torch

# Which one


@both
def test_an_object_that_holds_models_has_their_back_end_and_their_parameters(library: str) -> None:
    """A GAN, say, with a train_step of its own: its checkpoints had no weights."""

    class Pair:
        def __init__(self) -> None:
            self.generator, self.judge = model_of(library), model_of(library)
            self.optimizer = run_of(library, self.judge).optimizer

    pair, other = Pair(), Pair()
    backend = backend_of(pair)
    assert backend.name == library
    state = backend.state(pair)
    assert {name.split(".")[0] for name in state} == {"generator", "judge"}
    assert set(backend.parameters(pair)) <= set(state)
    run_of(library, other.judge).fit(data(2))
    backend.load_state(other, state)
    np.testing.assert_equal(backend.state(other), state)


def test_a_numpy_model_imports_no_pytorch_and_the_package_imports_nothing() -> None:
    code = (
        "import sys, aspecthook.training.hooks._checkpoint, aspecthook.training.keras as k, aspecthook.training as t\n"
        "k.EarlyStopping, t.PlotHook, t.ReportHook\n"
        "assert not {'numpy', 'torch', 'autograd', 'keras', 'tensorflow', 'matplotlib'} & set(sys.modules)\n"
        "from aspecthook.training.backends import backend_of\n"
        "from aspecthook.training.numpy import Linear\n"
        "import aspecthook.training.data\n"
        "model = Linear(2, 2)\n"
        "backend = backend_of(model)\n"
        "backend.state(model), backend.rng_state(), backend.seed(1)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Parameters and state


@both
def test_parameters_are_live_and_states_are_copies(library: str) -> None:
    model = model_of(library)
    backend = backend_of(model)
    state = backend.state(model)
    normal = ["1.weight", "1.bias"] if library == "torch" else []
    buffers = ["1.running_mean", "1.running_var", "1.num_batches_tracked"] if library == "torch" else []
    parameters = backend.parameters(model)
    assert list(parameters) == ["0.weight", "0.bias", *normal, "3.weight", "3.bias"]
    assert set(state) == {*parameters, *buffers}
    before = copy.deepcopy(state)
    run_of(library, model).fit(data(2))
    np.testing.assert_equal(state, before)
    assert (np.asarray(parameters["0.weight"].data) != state["0.weight"]).any()


@both
def test_a_state_of_another_model_is_refused_with_all_that_differs(library: str) -> None:
    model = model_of(library)
    backend = backend_of(model)
    before, state = backend.state(model), backend.state(model)
    state.update({"head.weight": state.pop("3.weight"), "0.weight": np.zeros((7, 3)), "0.bias": np.zeros(4, int)})
    with pytest.raises(TrainingError) as caught:
        backend.load_state(model, state)
    said = str(caught.value)
    assert "not the tensors of Sequential; missing: 3.weight; unexpected: head.weight; different: 0.weight is " in said
    assert "0.weight is 7×3 floats, and 4×3 floats here, 0.bias is 4 ints, and 4 floats here. Build" in said
    np.testing.assert_equal(backend.state(model), before)


@both
def test_the_state_of_another_optimizer_is_refused(library: str) -> None:
    run, other = run_of(library), run_of(library)
    backend, state = run.backend, run.backend.optimizer_state(run.optimizer)
    sgd: Any = nn.SGD
    if library == "torch":
        import torch

        sgd = torch.optim.SGD
        with pytest.raises(TrainingError, match=r"the optimizer SGD for groups of .*, and the run's is AdamW for"):
            backend.load_optimizer_state(torch.optim.AdamW(other.model.parameters()), state)
    with pytest.raises(TrainingError, match=r"groups of \[[46]\] parameters, and .* is SGD for groups of \[2\]"):
        backend.load_optimizer_state(sgd(other.model[0].parameters(), lr=0.1), state)


# Batches


Batch = namedtuple("Batch", "inputs names")


@both
def test_batches_come_as_the_model_takes_them(library: str) -> None:
    model = model_of(library)
    inputs = np.ones((2, 3), np.float32)
    inputs.flags.writeable = False
    batch = {"pair": [inputs, (np.arange(2),)], "batch": Batch(inputs, np.array(["a", "b"])), "n": 3}
    backend = backend_of(model)
    made = backend.mover(model)(batch)
    assert type(made["batch"]) is Batch and made["batch"].names.tolist() == ["a", "b"] and made["n"] == 3
    assert type(made["pair"]) is list and type(made["pair"][1]) is tuple
    kind = backend.tensor
    assert type(made["pair"][0]) is type(made["pair"][1][0]) is type(made["batch"].inputs) is kind
    model(made["pair"][0])


# Random numbers


@both
def test_all_random_generators_are_restored(library: str) -> None:
    backend = backend_of(model_of(library))

    def draw() -> Any:
        drawn = [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()]
        drawn += nn.Dropout(0.5)(np.ones(40)).tolist()
        if library == "torch":
            import torch

            drawn += torch.rand(4).tolist()
        return drawn

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


# What one of them has not


@with_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_wrappers_of_a_model_change_no_names() -> None:
    import torch

    model = model_of("torch")
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
    said = r"the state of the model has \{'a': .*\}, and a checkpoint keeps only its tensors"
    with pytest.raises(TrainingError, match=said):
        backend_of(model).state(model)
