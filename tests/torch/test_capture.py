"""Activations and gradients, collected for the length of a block."""

from __future__ import annotations

import gc
import weakref
from typing import Any, NamedTuple

import pytest

from aspecthook import HookTypeError, WeaveError, weave
from aspecthook.torch import capture

from .nets import Deep, inputs, made, nn, state, torch, untouched

pytestmark = pytest.mark.torch


def by_hand(net: Any, name: str, x: Any) -> tuple[Any, Any]:
    """Return the output of a layer and its gradient, by PyTorch's own means."""
    kept: list[Any] = []
    handle = net.get_submodule(name).register_forward_hook(
        lambda module, args, out: kept.append(out) or out.retain_grad()
    )
    net(x).sum().backward()
    handle.remove()
    return kept[0].detach(), kept[0].grad


def test_outputs_and_gradients_are_those_that_pytorch_keeps() -> None:
    net, x = made(), inputs()
    before = state(net)
    with capture(net, "*", gradients=True) as seen:
        net(x).sum().backward()
    assert list(seen) == ["first", "second"] and untouched(net, before)
    for name in seen:
        output, gradient = by_hand(net, name, x)
        assert torch.equal(seen[name].output, output) and torch.equal(seen[name].gradient, gradient)
        assert not seen[name].output.requires_grad


def test_modules_that_work_in_place_change_nothing_that_was_seen() -> None:
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 2))
    x = inputs()
    with capture(net, "0, 1", gradients=True) as seen:
        net(x).sum().backward()
    assert torch.equal(seen["0"].output, nn.functional.linear(x, net[0].weight, net[0].bias))
    assert (seen["0"].output < 0).any() and (seen["1"].output >= 0).all()
    assert torch.equal(seen["0"].gradient, seen["1"].gradient * (seen["0"].output > 0))


def test_every_call_is_kept() -> None:
    relu = nn.ReLU()
    net = nn.Sequential(nn.Linear(4, 4), relu, nn.Linear(4, 4), relu)
    with capture(net, nn.ReLU, gradients=True) as seen:
        net(inputs()).sum().backward()
        net(inputs(3))
    assert [tuple(out.shape) for out in seen["1"].outputs] == [(2, 4), (2, 4), (3, 4), (3, 4)]
    first, second, *rest = seen["1"].gradients
    assert first.shape == second.shape == (2, 4) and rest == [None, None] and seen["1"].gradient is None


def test_each_says_what_is_kept() -> None:
    net = made()
    with capture(net, "*", gradients=True, each=lambda tensor: tuple(tensor.shape)) as seen:
        net(inputs()).sum().backward()
    assert (seen["first"].output, seen["first"].gradient) == ((2, 5), (2, 5))


class Pair(NamedTuple):
    left: Any
    right: Any


class Many(nn.Module):
    """Gives tensors in a tuple, a list, a dict and a named tuple, and what is no tensor."""

    def forward(self, x: Any) -> Any:
        return (x * 2, [x * 3, None]), {"pair": Pair(x * 4, "right")}


def test_nested_outputs_keep_their_form() -> None:
    x = torch.ones(2, requires_grad=True)
    with capture(Many(), gradients=True) as seen, weave(Many.forward, post=lambda: None):
        pass
    net = Many()
    with capture(net, gradients=True) as seen:
        (double, _), rest = net(x)
        (double.sum() + 5 * rest["pair"].left.sum()).backward()
    (left, (third, none)), other = seen[""].output
    assert left.tolist() == [2, 2] and third.tolist() == [3, 3] and none is None
    assert type(other["pair"]) is Pair and other["pair"].right == "right"
    (left, (third, none)), other = seen[""].gradient
    assert left.tolist() == [1, 1] and third is None and none is None and other["pair"].left.tolist() == [5, 5]


def test_gradients_that_come_after_the_block_are_taken_too() -> None:
    net = made()
    with capture(net, "first", gradients=True) as seen:
        out = net(inputs())
    assert seen["first"].gradient is None
    out.sum().backward()
    assert seen["first"].gradient.shape == (2, 5)
    with capture(net, "first", gradients=True) as seen, torch.no_grad():
        net(inputs())
    assert seen["first"].gradient is None


def test_conditions_hold_and_it_sees_what_other_hooks_have_made() -> None:
    net, x = made(), inputs()
    with capture(net, "first", times=2) as seen:
        with weave(net, "first", post=lambda result: result * 0):
            for _ in range(3):
                net(x)
        assert "forward" not in vars(net.first)  # it took itself off
    assert len(seen["first"].outputs) == 2 and seen["first"].output.abs().sum() == 0
    with capture(net, "first", priority=0) as early, weave(net, "first", post=lambda result: result * 0):
        net(x)
    assert early["first"].output.abs().sum() > 0


def test_names_that_are_not_captured_say_which_are() -> None:
    with (
        capture(made(), "*") as seen,
        pytest.raises(KeyError, match="no module 'third' is captured; those that are: 'first', 'second'"),
    ):
        seen["third"]
    with pytest.raises(LookupError, match="first has not been called since the capture began"):
        _ = seen["first"].output


def test_a_module_is_captured_by_its_name_in_the_model_that_is_given() -> None:
    class Named(nn.Module):
        def forward(self, name: Any, module: int = 1) -> Any:  # which hooks ask for by name, too
            return name

    class Decorated(nn.Module):
        @torch.no_grad()
        def forward(self, x: Any) -> Any:
            return x

    net = nn.Sequential(nn.Sequential(Named(), Decorated()))
    with (
        weave(net, "0.0", post=lambda: None),  # whose names were kept
        capture(net[0], "*") as inside,
        capture(net[0][0]) as alone,
    ):
        net(torch.ones(1))
    assert list(inside) == ["0", "1"] and list(alone) == [""]
    assert all(len(one.outputs) == 1 for one in (*inside.values(), *alone.values()))


def test_a_capture_keeps_no_graph_and_no_model() -> None:
    net = made(Deep)
    with capture(net, "*", gradients=True) as seen:
        net(torch.ones(2, 1, 5, 5)).sum().backward()
    model = weakref.ref(net)
    del net
    gc.collect()
    assert model() is None and seen["conv_in"].gradient is not None


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda: capture(print),
            HookTypeError,
            "capture takes a module of PyTorch, and <built-in function print> is not one",
        ),
        (lambda: capture(made(), "third"), WeaveError, "'third' chooses no module of Net"),
        (lambda: capture(made(), each=3), HookTypeError, "each=3 is not callable"),
        (lambda: capture(made(), evry=3), WeaveError, "did you mean 'every'"),
    ],
)
def test_capture_refused(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught, call():
        pass
    assert said in str(caught.value)
