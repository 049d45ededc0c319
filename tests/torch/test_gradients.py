"""Hooks on gradients: of modules, of tensors, of parameters by name."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from aspecthook import Args, HookAnswerError, HookSignatureError, Return, WeaveError, weave

from .nets import gone_through, inputs, made, nn, same, state, torch, untouched

pytestmark = pytest.mark.torch


def test_a_backward_hook_answers_with_a_tuple_or_if_there_is_one_gradient_with_a_tensor() -> None:
    by_hand, net = made(), made()
    by_hand.first.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))
    want = gone_through(by_hand, inputs())
    answers: list[Any] = [
        lambda grad_input: (grad_input[0] * 2,),
        lambda grad_input: grad_input[0] * 2,
        lambda grad_input: Return((grad_input[0] * 2,)),
    ]
    for answer in answers:
        with weave(net, "first", backward=answer):
            assert same(gone_through(net, inputs()), want)


def test_backward_hooks_ask_for_the_module_its_name_and_both_gradients() -> None:
    net = made()
    seen: list[Any] = []

    def note(name: str, module: Any, grad_input: Any, grad_output: Any) -> None:
        seen.append((name, module, grad_input[0].shape, grad_output[0].shape))

    with weave(net, "second", backward=note):
        gone_through(net, inputs())
    assert seen == [("second", net.second, (2, 5), (2, 3))]


def test_a_gradient_that_nobody_asks_for_stays_none() -> None:
    net = made()
    seen: list[Any] = []
    with weave(net, backward=lambda grad_input: seen.append(grad_input) or grad_input), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, about hooks where no input requires a gradient
        net(inputs().detach()).sum().backward()
    assert seen == [(None,)]


def test_a_hook_that_is_removed_after_the_forward_does_not_run_in_the_backward() -> None:
    net, x = made(), inputs()
    weaving = weave(net, "first", backward=lambda grad_input: grad_input[0] * 0)
    out = net(x)
    weaving.remove()
    out.sum().backward()
    assert x.grad.abs().sum() > 0


def test_the_flag_for_full_backward_hooks_is_put_back_unless_somebody_else_needs_it() -> None:
    net = made()
    before = state(net)
    weave(net, "*", backward=lambda: None).remove()
    assert untouched(net, before)
    ours = weave(net, "first", backward=lambda: None)
    theirs = net.first.register_full_backward_hook(lambda *_: None)
    ours.remove()
    assert net.first._is_full_backward_hook is True and len(net.first._backward_hooks) == 1
    theirs.remove()


def test_backward_hooks_are_refused_beside_pytorchs_older_sort() -> None:
    net = made()
    net.first.register_backward_hook(lambda *_: None)
    before = state(net)
    with pytest.raises(RuntimeError, match="Cannot use both"):
        weave(net, "first", backward=lambda: None)
    assert untouched(net, before)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: 3, "answered an int; answer None, or gradients in the place of (a tensor of shape (2, 4))"),
        (lambda: (None, None), "answered (None, None)"),
        (lambda: (torch.ones(1),), "answered (a tensor of shape (1,))"),
        (lambda: Args(grad_input=1), "backward hook '<lambda>'"),
    ],
)
def test_a_wrong_answer_says_which_module_and_which_hook(answer: Any, said: str) -> None:
    net = made()
    with weave(net, "first", backward=answer), pytest.raises(HookAnswerError) as caught:
        gone_through(net, inputs())
    assert "first (Linear), backward" in str(caught.value) and said in str(caught.value)


def test_hook_that_asks_for_an_unknown_name_is_refused() -> None:
    net = made()
    with pytest.raises(
        HookSignatureError, match="asks for 'grad', but first .Linear., backward_pre offers module, grad_output, name"
    ):
        weave(net, "first", backward_pre=lambda grad: None)


# Tensors


def test_a_grad_hook_replaces_the_gradient_of_a_tensor() -> None:
    leaf = torch.ones(3, requires_grad=True)
    between = leaf * 2
    with weave(leaf, grad=lambda grad: grad + 1), weave(between, grad=lambda grad: grad * 10):
        between.sum().backward()
    assert leaf.grad.tolist() == [21.0] * 3


def test_hooks_of_parameters_ask_for_their_names() -> None:
    net = made()
    seen: list[str] = []
    alone = weave(net.first.weight, grad=lambda grad: None)  # it has no name yet
    with alone, weave(net, "*.weight", grad=lambda name, grad: seen.append(name) or grad * 0):
        found = gone_through(net, inputs())
    assert sorted(seen) == ["first.weight", "second.weight"]
    grads = dict(zip([name for name, _ in net.named_parameters()], found[2:], strict=True))
    assert [name for name, grad in grads.items() if not grad.abs().sum()] == ["first.weight", "second.weight"]


@pytest.mark.parametrize(
    ("make", "kinds", "said"),
    [
        (lambda: torch.ones(2), {"grad": print}, "has no gradient to hook: it does not require one"),
        (
            lambda: torch.ones(2, requires_grad=True),
            {"post": print},
            "takes hooks for grad, and none for forward",
        ),
        (lambda: torch.ones(2, requires_grad=True), {"backward": print}, "none for backward"),
        (made, {"grad": print}, "name them, as in weave(model, '*.weight', grad=hook)"),
    ],
)
def test_a_tensor_that_cannot_take_a_hook_is_refused(make: Any, kinds: dict[str, Any], said: str) -> None:
    with pytest.raises(WeaveError) as caught:
        weave(make(), **kinds)
    assert said in str(caught.value)


def test_parameters_that_are_frozen_are_passed_over_by_patterns_and_refused_by_name() -> None:
    net = made()
    net.first.requires_grad_(False)
    with weave(net, "*", grad=lambda: None) as weaving:
        assert len(weaving.mounts) == 2
    with pytest.raises(WeaveError, match=r"first.weight has no gradient to hook"):
        weave(net, "first.weight", grad=lambda: None)
    with pytest.raises(WeaveError, match="chooses parameters that require no gradient"):
        weave(net, "first.*", grad=lambda: None)


@pytest.mark.parametrize("answer", [3, torch.ones(1), (torch.ones(3),)])
def test_a_wrong_gradient_is_refused(answer: Any) -> None:
    leaf = torch.ones(3, requires_grad=True)
    with (
        weave(leaf, grad=lambda: answer),
        pytest.raises(
            HookAnswerError,
            match=r"a tensor of shape \(3,\), grad: grad hook .*; answer None, or a gradient in the place of",
        ),
    ):
        leaf.sum().backward()


def test_a_hook_on_an_activation_is_woven_inside_a_post_hook() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True))  # in place: PyTorch's own backward hooks fail here
    shapes: list[Any] = []

    def follow(result: Any) -> None:
        weave(result, grad=lambda grad: shapes.append(tuple(grad.shape)))

    with weave(net, "0", post=follow):
        net(torch.ones(1, 1, 5, 5)).sum().backward()
    assert shapes == [(1, 2, 3, 3)]
