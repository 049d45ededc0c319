"""The NumPy back end: what it computes, beside PyTorch, and how it behaves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import autograd.numpy as anp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from aspecthook import HookOptionError, HookTypeError
from aspecthook.training import TrainingError
from aspecthook.training.numpy import (
    SGD,
    Dropout,
    Linear,
    Loss,
    Module,
    Parameter,
    ReLU,
    Sequential,
    cross_entropy,
    detach,
    manual_seed,
    mse,
    no_grad,
)
from tests.training.kit import with_torch

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


class Tanh(Module):
    """A layer of one's own."""

    def forward(self, x: Any) -> Any:
        return anp.tanh(x)


seeds = st.integers(0, 2**32 - 1)


# Beside PyTorch


@st.composite
def models(draw: Any) -> list[Any]:
    """A list of rows, each a layer of both libraries."""
    sizes = draw(st.lists(st.integers(1, 7), min_size=2, max_size=4))
    rows: list[Any] = []
    for inputs, outputs in pairwise(sizes):
        rows.append(("Linear", inputs, outputs))
        rows.append((draw(st.sampled_from(["ReLU", "Tanh"])),))
    return [*rows, ("Linear", sizes[-1], draw(st.integers(1, 5)))]


def both(rows: list[Any]) -> tuple[Any, Any]:
    """The same model of both libraries, in double precision, with the same weights."""
    import torch

    ours, theirs = [], []
    for kind, *sizes in rows:
        ours.append({t.__name__: t for t in (Linear, ReLU, Tanh)}[kind](*sizes))
        theirs.append(getattr(torch.nn, kind)(*sizes))
    their = torch.nn.Sequential(*theirs).double()
    our = Sequential(*ours)
    for parameter in our.parameters():
        parameter.data = parameter.data.astype(np.float64)
    assert list(our.state_dict()) and set(our.state_dict()) == set(their.state_dict())
    their.load_state_dict({name: torch.tensor(value) for name, value in our.state_dict().items()})
    return our, their


@with_torch
@settings(max_examples=100)
@given(models(), st.sampled_from(["classes", "probabilities", "numbers"]), seeds, st.integers(2, 9), st.booleans())
def test_outputs_losses_and_gradients_are_those_of_pytorch(
    rows: Any, kind: str, seed: int, size: int, training: bool
) -> None:
    import torch

    manual_seed(seed)
    rng = np.random.default_rng(seed)
    our, their = both(rows)
    our.train(training)
    their.train(training)
    x = rng.normal(size=(size, rows[0][1]))
    classes = rows[-1][2]
    y = rng.integers(0, classes, size) if kind == "classes" else rng.random((size, classes))
    if kind == "probabilities":
        y /= y.sum(1, keepdims=True)
    kinks: list[float] = []
    for module in their:
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_pre_hook(lambda _, given: kinks.append(given[0].abs().min().item()))
    out, their_out = our(x), their(torch.tensor(x))
    assume(all(kink > 1e-9 for kink in kinks))
    ours = (mse if kind == "numbers" else cross_entropy)(out, y)
    functions = torch.nn.functional
    theirs = (functions.mse_loss if kind == "numbers" else functions.cross_entropy)(their_out, torch.tensor(y))
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-10, abs=1e-10)
    (ours * 0.5 + ours**2 - 1).backward()
    (theirs * 0.5 + theirs**2 - 1).backward()
    for (name, parameter), (their_name, theirs_parameter) in zip(
        our.named_parameters(), their.named_parameters(), strict=True
    ):
        assert name == their_name
        np.testing.assert_allclose(parameter.grad, theirs_parameter.grad.numpy(), rtol=1e-9, atol=1e-9, err_msg=name)
    with no_grad():
        np.testing.assert_allclose(
            our(x), their_out.detach().numpy() if not training else their(torch.tensor(x)).detach(), **CLOSE
        )
    for name, value in their.state_dict().items():
        np.testing.assert_allclose(our.state_dict()[name], value.numpy(), err_msg=name, **CLOSE)


EDGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-300, -1e5, 1e5, np.nan, np.inf, -np.inf])


@with_torch
@given(arrays_of.arrays(float, (2, 3), elements=EDGES), st.sampled_from(["relu", "cross entropy", "mse"]))
def test_outputs_and_gradients_at_edge_values_are_those_of_pytorch(given: Any, what: str) -> None:
    """NaN passes, the derivative of ReLU at 0 is 0, and great logits do not overflow."""
    import torch

    functions, classes = torch.nn.functional, np.array([0, 2])
    our, their = Parameter(given), torch.tensor(given, requires_grad=True)
    if what == "cross entropy":
        ours, theirs = cross_entropy(our.value, classes), functions.cross_entropy(their, torch.tensor(classes))
    else:
        out, their_out = (ReLU()(our.value), functions.relu(their)) if what == "relu" else (our.value, their)
        np.testing.assert_equal(detach(out), their_out.detach().numpy())
        ours, theirs = mse(out, given / 2 + 1), functions.mse_loss(their_out, torch.tensor(given / 2 + 1))
    np.testing.assert_allclose(ours.item(), theirs.item(), **CLOSE)
    ours.backward()
    theirs.backward()
    np.testing.assert_allclose(our.grad, their.grad.numpy(), **CLOSE)


rates = st.sampled_from([0.001, 0.01, 0.1])
options_of_sgd = st.fixed_dictionaries({"lr": rates, "momentum": st.sampled_from([0.0, 0.5, 0.9])})


@with_torch
@settings(max_examples=100)
@given(options_of_sgd, st.lists(st.integers(0, 4), max_size=2), seeds)
def test_fifty_steps_along_the_same_gradients_are_those_of_pytorch(options: Any, shape: list[int], seed: int) -> None:
    import torch

    rng = np.random.default_rng(seed)
    start = rng.normal(size=shape)
    our, their = Parameter(start), torch.nn.Parameter(torch.tensor(start))
    ours, theirs = SGD([our], **options), torch.optim.SGD([their], **options)
    for step in range(50):
        for group in (ours.param_groups[0], theirs.param_groups[0]):
            group["lr"] = options["lr"] * (1 - step / 50)
        gradient = rng.normal(size=shape)
        our.grad, their.grad = np.array(gradient), torch.tensor(gradient)
        if step % 7 == 6:  # one step without a gradient
            our.grad = their.grad = None
        ours.step()
        theirs.step()
    np.testing.assert_allclose(our.data, their.detach().numpy(), **CLOSE)


def test_optimizers_that_load_one_state_share_no_momenta() -> None:
    first, second, third = [SGD([Parameter(np.ones(2))], momentum=0.9) for _ in range(3)]
    for optimizer in (first, second, third):
        optimizer.param_groups[0]["params"][0].grad = np.ones(2)
    first.step()
    state = first.state_dict()
    second.load_state_dict(state)
    third.load_state_dict(state)
    second.step()
    np.testing.assert_equal(third.momenta, first.momenta)


# Gradients and losses


def test_the_gradient_has_the_type_of_the_parameter() -> None:
    layer = Linear(2, 2)  # float32
    mse(layer(np.ones((3, 2), np.float64)), np.zeros((3, 2))).backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype == np.float32
    SGD(layer.parameters(), lr=np.float64(0.1)).step()
    layer.load_state_dict({name: array.astype(np.float64) for name, array in layer.state_dict().items()})
    assert layer.weight.data.dtype == np.float32


numbers = st.floats(-3, 3).filter(lambda number: abs(number) > 0.1)


@given(numbers, numbers, numbers)
def test_a_loss_takes_part_in_arithmetic(a: float, b: float, c: float) -> None:
    x = Parameter(np.array(a))
    loss = Loss(x.value**2 + 1)
    for made, value, slope in [
        (loss + b, a * a + 1 + b, 2 * a),
        (b + loss, a * a + 1 + b, 2 * a),
        (loss - np.float64(b), a * a + 1 - b, 2 * a),
        (np.float64(b) - loss, b - a * a - 1, -2 * a),
        (np.float64(b) * loss, b * (a * a + 1), 2 * a * b),
        (loss / c, (a * a + 1) / c, 2 * a / c),
        (c / loss, c / (a * a + 1), -c * 2 * a / (a * a + 1) ** 2),
        (-loss, -a * a - 1, -2 * a),
        (loss * loss, (a * a + 1) ** 2, 4 * a * (a * a + 1)),
        (loss + b * x.value, a * a + 1 + b * a, 2 * a + b),
        (sum([loss, loss]), 2 * a * a + 2, 4 * a),
    ]:
        x.grad = None
        assert made.item() == pytest.approx(value)
        made.backward()
        assert float(x.grad) == pytest.approx(slope)


def test_a_loss_without_parameters_has_no_backward() -> None:
    with pytest.raises(TrainingError, match="does not depend on parameters"):
        Loss(1.0).backward()
    layer = Linear(1, 1)
    with no_grad():
        loss = mse(layer(np.ones((1, 1))), np.ones((1, 1)))
    with pytest.raises(TrainingError, match=r"no_grad\(\)"):
        loss.backward()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Loss(np.zeros(3)), "a loss is a single number, but this has the shape .*; take its mean or its sum"),
        (
            lambda: mse(np.zeros((3, 1)), np.zeros(3)),
            r"mse was given outputs of shape \(3, 1\) and targets of shape \(3,\); reshape one",
        ),
        (
            lambda: cross_entropy(np.zeros((2, 3)), np.array([0, 3])),
            r"outputs of shape \(2, 3\) and int64 targets of shape \(2,\); give .* class numbers \(batch,\) from 0 up",
        ),
        (lambda: cross_entropy(np.zeros((2, 3)), np.array([0, -1])), "shape"),
        (lambda: cross_entropy(np.zeros((2, 3)), np.zeros((2, 2))), "shape"),
        (lambda: cross_entropy(np.zeros((2, 3)), np.zeros(2)), "shape"),
        (lambda: cross_entropy(np.zeros(3), np.array(1)), "shape"),
        (lambda: Dropout(1.0), "Dropout: p=1.0; give a number below 1"),
        (lambda: SGD([], lr=0.1), r"SGD steps parameters, and was given \[\]; give model.parameters"),
        (lambda: SGD([1], lr=0.1), "was given"),
        (lambda: SGD([PARAMETER, PARAMETER]), "each only once"),
        (lambda: SGD([PARAMETER], lr=-1), "from 0 up"),
        (lambda: SGD([PARAMETER], momentum="x"), "momentum='x' is not a number"),
        (lambda: SGD([PARAMETER], lr=float("nan")), "lr=nan; give a finite number"),
        (lambda: Module()(1), "has no method forward"),
    ],
)
def test_impossible_options_and_shapes_are_refused(wrong: Any, says: str) -> None:
    with pytest.raises((TrainingError, HookOptionError, HookTypeError, NotImplementedError), match=f"(?s){says}"):
        wrong()


PARAMETER = Parameter(np.zeros(2))


def test_nan_and_infinity_cause_no_warning() -> None:
    """A hook that looks for NaN was never reached where warnings are errors."""
    model = Sequential(Linear(2, 2), Linear(2, 2))
    for bad in (np.inf, np.nan, 1e38):
        loss = cross_entropy(model(np.full((3, 2), bad, np.float32)), np.array([0, 1, 0])) * 1e30
        loss.backward()
        SGD(model.parameters(), lr=0.1, momentum=0.9).step()
    assert np.isnan(loss.item())


# Modules


class Tied(Module):
    def __init__(self) -> None:
        self.first = Linear(2, 2)
        self.second = Linear(2, 2)
        self.scale = Parameter(np.ones(1, np.float32))
        self.second.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        return x


def test_a_module_finds_its_parameters_and_submodules() -> None:
    model = Tied()
    assert [name for name, _ in model.named_parameters()] == [
        "scale",
        "first.weight",
        "first.bias",
        "second.bias",
    ]
    assert set(model.state_dict()) == {"scale", "first.weight", "first.bias", "second.bias"}
    assert [name for name, _ in model.named_modules()] == ["", "first", "second"]
    model.eval()
    assert not any(module.training for _, module in model.named_modules())


def test_dropout_divides_what_is_left_by_its_share_and_does_nothing_in_evaluation() -> None:
    layer, x = Dropout(0.75), np.ones(99)
    assert set(layer(x).tolist()) == {0.0, 4.0}
    assert layer.eval()(x) is x
