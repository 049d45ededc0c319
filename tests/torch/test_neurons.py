"""Neurons that never fire, and how activations are distributed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import WeaveError
from aspecthook.torch import Histogram, Neurons, dead_neurons, drawn, histograms, watch_histograms, watch_neurons

from .nets import Deep, made, nn, state, torch, untouched

pytestmark = pytest.mark.torch


def one_layer(*weights: float) -> Any:
    """Make a layer that multiplies by each weight, and its ReLU."""
    net = nn.Sequential(nn.Linear(1, len(weights), bias=False), nn.ReLU())
    net[0].weight.data = torch.tensor(weights, dtype=torch.float32).reshape(-1, 1)
    return net


def test_units_that_no_input_makes_fire_are_dead() -> None:
    net = one_layer(1, -1, 0, 2)
    found = dead_neurons(net, [torch.tensor([[0.5], [2.0]]), torch.tensor([[1.0]])])
    assert found == {"1": Neurons(units=4, dead=(1, 2))} and found["1"].share == 0.5
    assert dead_neurons(net, [torch.tensor([[1.0]]), torch.tensor([[-1.0]])])["1"].dead == (2,)
    assert dead_neurons(net, [torch.tensor([[1.0]])], threshold=1.0)["1"].dead == (0, 1, 2)


def test_batches_may_be_pairs_as_loaders_give_them() -> None:
    batch = (torch.ones(2, 1), torch.zeros(2))
    assert dead_neurons(one_layer(1, -1), [batch])["1"].dead == (1,)


def test_units_of_convolutions_are_channels_and_the_dimension_may_be_named() -> None:
    conv = nn.Conv2d(1, 2, 1)
    conv.weight.data = torch.tensor([[[[1.0]]], [[[-1.0]]]])
    conv.bias.data.zero_()
    images = torch.zeros(3, 1, 2, 2)
    images[1, 0, 1, 1] = 1  # one pixel of one image is enough
    net = nn.Sequential(conv)
    assert dead_neurons(net, [images], "0", activation=torch.relu)["0"] == Neurons(2, (1,))
    assert dead_neurons(net, [images], "0", activation=torch.relu, dim=2)["0"] == Neurons(2, (0,))


def test_the_model_is_run_as_in_evaluation_and_left_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(1.0))
    net[3].eval()
    before, modes = state(net), [module.training for module in net.modules()]
    kept = [buffer.clone() for buffer in net.buffers()]
    dead_neurons(net, [torch.randn(8, 4)])
    assert untouched(net, before) and [module.training for module in net.modules()] == modes
    assert all(torch.equal(a, b) for a, b in zip(kept, net.buffers(), strict=True))


def test_a_model_without_relus_says_what_to_do() -> None:
    with pytest.raises(WeaveError, match="Sequential has no module that is a ReLU.*activation=torch.relu"):
        dead_neurons(nn.Sequential(nn.Linear(1, 1)), [])


def test_a_watch_looks_on_and_can_be_carried_over() -> None:
    net = one_layer(1, -1)
    with watch_neurons(net) as watch:
        net(torch.ones(1, 1))
        saved = watch.state_dict()
    net(-torch.ones(1, 1))
    assert watch["1"].dead == (1,) and len(watch) == 1 and "forward" not in vars(net[1])
    with watch_neurons(net) as later:
        later.load_state_dict(saved)
        net(-torch.ones(1, 1))
    assert later["1"].dead == ()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20), min_size=1, max_size=4),
    st.integers(1, 50),
)
def test_a_histogram_counts_each_value_once_and_in_its_place(batches: list[list[float]], bins: int) -> None:
    net = nn.Identity()
    model = nn.Sequential(net)
    found = histograms(model, [torch.tensor(batch) for batch in batches], "0", bins=bins)["0"]
    values = [value for batch in batches for value in batch]
    assert found.total == len(values) and found.zeros == values.count(0.0) and found.odd == 0
    assert len(found.counts) <= bins + 1 and len(found.edges) == len(found.counts) + 1
    assert list(found.edges) == sorted(found.edges)
    step = found.edges[1] - found.edges[0]
    # A value lies within its bin, or for rounding in the one beside.
    fine = (found.edges[-1] - found.edges[0]) / len(found.counts) / 1000 + 1e-3 * step
    below = 0
    for edge, count in zip(found.edges[1:], found.counts, strict=True):
        below += count
        assert sum(value < edge - fine for value in values) <= below <= sum(value <= edge + fine for value in values)


def test_infinite_values_and_nan_are_counted_apart() -> None:
    found = histograms(nn.Sequential(nn.Identity()), [torch.tensor([math.nan, math.inf, 1.0, 0.0])])["0"]
    assert (found.odd, found.zeros, found.total) == (2, 1, 2)


@pytest.mark.parametrize("most", [1e38, 3e38])
def test_the_greatest_numbers_are_counted(most: float) -> None:
    """The range of the bins was no float32: nothing was counted, or PyTorch raised an error in the middle of a run."""
    found = histograms(nn.Sequential(nn.Identity()), [torch.tensor([most, -most, 0.0])])["0"]
    assert (found.total, found.zeros, found.odd) == (3, 1, 0)


def test_histograms_are_of_all_modules_that_hold_no_others() -> None:
    net = made(Deep)
    before = state(net)
    found = histograms(net, [torch.ones(2, 1, 5, 5)])
    assert list(found) == ["conv_in", "blocks.0.0", "blocks.0.1", "blocks.1.0", "blocks.1.1", "head"]
    assert found["head"].total == 6 and untouched(net, before)


def test_a_watch_of_histograms_can_be_cleared_and_carried_over() -> None:
    net = nn.Sequential(nn.Identity())
    with watch_histograms(net, every=2) as watch:
        for _ in range(4):
            net(torch.ones(3))
        assert watch["0"].total == 6
        saved = watch.state_dict()
        watch.clear()
        assert len(watch) == 0
        watch.load_state_dict(saved)
        for _ in range(2):
            net(torch.full((3,), 100.0))
    assert watch["0"].total == 9 and watch["0"].edges[-1] > 100


def test_a_figure_shows_each_module() -> None:
    pytest.importorskip("matplotlib")
    figure = drawn({"a": Histogram((1, 3), (0.0, 1.0, 2.0), 2, 0), "b": Histogram((), (0.0,), 0, 5)})
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"] and texts == ["50 % zero", "5 not finite"]
    figure.canvas.draw()
