"""Hooks on the forward of modules: every kind, by name, in order, and gone without a trace."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from functools import partial
from typing import Any

import pytest

from aspecthook import (
    Args,
    HookSignatureError,
    Return,
    WeaveError,
    hooks,
    weave,
)
from tests.core.test_interrupts import entering, strikes
from tests.threads import at_once

from .nets import Deep, Net, inputs, made, nn, state, torch, untouched

pytestmark = pytest.mark.torch


def test_a_pre_hook_replaces_arguments_by_name_also_those_with_defaults() -> None:
    net, x = made(), inputs()
    plain = net(x)
    with weave(net, pre=lambda scale: Args(scale=scale + 1)):
        assert torch.equal(net(x), plain * 2)
        assert torch.equal(net(x, scale=2.0), plain * 3)
        assert torch.equal(net(x, 2.0), plain * 3)


def test_a_pre_hook_with_return_keeps_the_forward_from_running() -> None:
    net = made()
    with (
        weave(net, "first", pre=lambda: Return(torch.zeros(2, 5))),
        weave(net, "first", post=lambda result: result + 1),
    ):
        assert torch.equal(net.first("no tensor"), torch.ones(2, 5))


def test_hooks_ask_for_the_module_its_name_and_the_call() -> None:
    net = made()
    seen: list[Any] = []

    def note(name: str, module: Any, self: Any, call: Any, args: Any, kwargs: Any) -> None:
        seen.append((name, module, self, list(call.arguments), len(args), kwargs))

    with weave(net, "second", post=note):
        net(inputs())
    assert seen == [("second", net.second, net.second, ["self", "input"], 2, {})]


def test_a_module_that_was_first_woven_without_a_name_learns_it() -> None:
    net = made()
    seen: list[str] = []
    with (
        weave(net.first, post=lambda name: seen.append(name)),
        weave(net, "first", post=lambda name: seen.append(name + "!")),
    ):
        net(inputs())
    assert seen == ["first", "first!"]


def test_a_direct_call_of_forward_runs_the_hooks_too() -> None:
    net, x = made(), inputs()
    with weave(net.first.forward, post=lambda result: result * 0) as weaving:
        assert net.first.forward(x).abs().sum() == 0
        assert weaving.mounts == (hooks(net.first),) == (hooks(net.first.forward),)
    assert net.first.forward(x).abs().sum() > 0


@pytest.mark.filterwarnings("ignore:torch.compile does not see:aspecthook.WeaveWarning")  # what other tests compiled
def test_hooks_of_the_class_act_inside_those_of_the_module() -> None:
    net, x = made(), inputs()
    plain = net.first(x)
    with weave(nn.Linear.forward, post=lambda result: result + 1), weave(net, "first", post=lambda result: result * 2):
        assert torch.equal(net.first(x), (plain + 1) * 2)
    with weave(net, "first", post=lambda result: result * 2):
        with weave(nn.Linear.forward, post=lambda result: result + 1):
            assert torch.equal(net.first(x), (plain + 1) * 2)
        assert torch.equal(net.first(x), plain * 2)


def test_hooks_are_inside_of_those_of_pytorch() -> None:
    net = made()
    order: list[str] = []
    net.first.register_forward_pre_hook(lambda *_: order.append("torch pre"))
    net.first.register_forward_hook(lambda *_: order.append("torch post"))
    with weave(net, "first", pre=lambda: order.append("pre"), post=lambda: order.append("post")):
        net(inputs())
    assert order == ["torch pre", "pre", "post", "torch post"]


# What is there already


def test_a_forward_of_the_instance_is_called_inside_and_put_back() -> None:
    net, x = made(), inputs()
    net.first.forward = theirs = lambda x: x[:, :1].expand(-1, 5)
    with weave(net, "first", post=lambda result, x: result + x.shape[1]):
        assert torch.equal(net.first(x), theirs(x) + 4)
    assert vars(net.first)["forward"] is theirs


def test_forward_of_others_over_ours_is_left_alone() -> None:
    net, x = made(), inputs()
    plain = net.first(x)
    weaving = weave(net, "first", post=lambda result: result * 2)
    inner = net.first.forward
    net.first.forward = theirs = lambda x: inner(x) + 1
    assert weaving.state == "displaced" and torch.equal(net.first(x), plain * 2 + 1)
    with weave(net, "first", post=lambda result: result * 10):  # it acts inside theirs
        assert torch.equal(net.first(x), plain * 20 + 1)
    weaving.remove()
    assert vars(net.first)["forward"] is theirs and weaving.state == "displaced"
    assert torch.equal(net.first(x), plain + 1)
    net.first.forward = inner  # they put ours back, which was to be gone
    assert weaving.state == "removed" and "forward" not in vars(net.first)
    assert torch.equal(net.first(x), plain)


def test_a_module_whose_class_changes_keeps_its_hooks() -> None:
    net, x = made(), inputs()
    with weave(net, "first", post=lambda result: result * 0):
        torch.nn.utils.parametrizations.weight_norm(net.first)
        assert net.first(x).abs().sum() == 0
    assert net.first(x).abs().sum() > 0 and "forward" not in vars(net.first)


def test_a_transformer_layer_calls_what_is_woven_in_it() -> None:
    class Doubled(nn.Linear):
        pass

    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    layer.linear2 = Doubled(16, 8)
    layer.eval()
    before, x = state(layer), torch.randn(2, 3, 8)
    seen: list[str] = []
    with torch.no_grad():
        plain = layer(x)
        with weave(layer, "linear1", post=lambda name: seen.append(name)):
            assert torch.allclose(layer(x), plain, atol=1e-5)
        for module in (layer.self_attn, layer.linear2):  # each alone; the layer does not know that it is woven
            with weave(module, post=lambda module: seen.append(type(module).__name__)):
                layer(x)
        layer(x)
    assert seen == ["linear1", "MultiheadAttention", "Doubled"] and untouched(layer, before)


def test_hooks_come_and_go_in_many_threads_while_the_module_is_called() -> None:
    net, x = made(), inputs().detach()
    before, plain = state(net), net(x)

    def look(result: Any) -> None: ...

    def change(number: int) -> None:
        for turn in range(60):
            with weave(net, "first" if turn % 2 else "*", post=look, backward=look_back, priority=number * 10):
                if turn % 3 == 0:
                    assert torch.equal(net(x), plain)

    def look_back(grad_input: Any) -> None: ...

    def call(_: int) -> None:
        for _ in range(200):
            assert torch.equal(net(x), plain)

    at_once(*[partial(change, number) for number in range(3)], *[partial(call, number) for number in range(2)])
    assert untouched(net, before) and torch.equal(net(x), plain)


# Memory


def test_a_woven_module_dies_with_its_hooks() -> None:
    def use() -> Any:
        net = made()
        weave(net, "first", post=lambda result: result + net.second.bias.sum(), backward=lambda: None)
        net(inputs())
        return weakref.ref(net), weakref.ref(net.first)

    refs = use()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_a_handle_does_not_keep_a_module_alive() -> None:
    net = made()
    weaving = weave(net, "*", post=lambda: None, backward=lambda: None)
    seen = weakref.ref(net.first)
    del net
    gc.collect()
    assert seen() is None and weaving.mounts == ()
    weaving.remove()


def test_importing_the_library_does_not_import_torch() -> None:
    import subprocess

    code = (
        "import sys, aspecthook\n"
        "with aspecthook.weave('json:dumps', post=lambda: None): pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# What is refused


@pytest.mark.parametrize(
    ("cls", "names", "kinds", "error", "said"),
    [
        (Net, "frist", {"post": print}, WeaveError, "'frist' chooses no module of Net; did you mean 'first'?"),
        (Net, "zzz*", {"post": print}, WeaveError, "'zzz*' chooses no module of Net; there are first, second"),
        (Net, nn.Conv2d, {"post": print}, WeaveError, "'Conv2d' chooses no module of Net; there are Linear"),
        (
            Net,
            "first, !*",
            {"post": print},
            WeaveError,
            "of Net chooses nothing: take something out of what '!' excludes",
        ),
        (Net, 3, {"post": print}, WeaveError, "3 names no modules"),
        (Deep, "blocks", {"post": print}, WeaveError, "blocks (ModuleList) cannot be woven: it has no forward"),
        (Deep, ["*", "blocks"], {"post": print}, WeaveError, "blocks (ModuleList) cannot be woven: it has no forward"),
        (Net, "first", {}, WeaveError, "of type Net; name them, as in weave(target, post=hook)"),
        (Net, None, {"backward": 3}, WeaveError, "backward=3 is not callable"),
        (Net, None, {"bakward": print}, WeaveError, "did you mean 'backward'?"),
        (Net, "*", {"post": lambda x: None}, HookSignatureError, "first (Linear) offers self, input, module, name"),
        (
            Net,
            "*",
            {"where": lambda module: False, "post": print},
            WeaveError,
            "`where` refuses all 2 of what it chooses",
        ),
    ],
)
def test_refused_and_nothing_is_woven(
    cls: Any, names: Any, kinds: dict[str, Any], error: type[Exception], said: str
) -> None:
    net = made(cls)
    before = state(net)
    with pytest.raises(error) as caught:
        weave(net, names, **kinds)
    assert said in str(caught.value) and untouched(net, before)


class Odd(nn.Module):
    """Its forward is no Python function."""

    forward = partial(print)


def scripted() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(nn.Sequential(nn.Linear(4, 4)))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: weave(Odd(), post=print), WeaveError, "its forward is of type partial, and no Python function; weave"),
        (lambda: weave(print, "x", post=print), WeaveError, "'x' is for modules and tensors of PyTorch, and "),
        (lambda: weave("json:dumps", backward=print), WeaveError, "backward= is for modules and tensors"),
        (lambda: weave(scripted(), post=print), WeaveError, "it runs TorchScript"),
        (lambda: weave(scripted(), "0", post=print), WeaveError, "it runs TorchScript"),
        (
            lambda: weave(nn.MultiheadAttention(8, 2), "out_proj", post=print),
            WeaveError,
            "uses its weights and never calls it; weave the MultiheadAttention",
        ),
    ],
)
def test_a_target_without_a_place_for_the_hook_is_refused(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value)


def test_a_change_that_a_signal_handler_makes_in_the_middle_of_another_is_kept() -> None:
    # A handler that called the module linked the hooks as they were, and one that was being removed ran on.
    x, ran = inputs(), list[str]()

    def work(net: Net) -> None:
        with weave(net, "first", pre=partial(ran.append, "mine"), name="mine"):
            net(x)
        net(x)

    def act(net: Net) -> None:
        theirs.append(weave(net, "first", pre=partial(ran.append, "theirs"), name="theirs"))
        net(x)

    theirs: list[Any] = []
    work(made())
    struck = 0
    for strike_with in strikes(partial(work, made())):
        net = made()
        with entering(strike_with(partial(act, net))):
            work(net)
        ran.clear()
        net(x)
        assert ran == ["theirs"] * len(theirs)
        while theirs:
            struck += 1
            theirs.pop().remove()
        ran.clear()
        net(x)
        assert not ran
    assert struck > 100


def test_hooks_are_given_the_module_by_a_forward_that_takes_it_among_its_arguments() -> None:
    # They were given the tuple of all arguments.
    class Free(nn.Module):
        def forward(*args: Any, scale: int = 1) -> Any:
            return args[1] * scale

    class Decorated(nn.Module):
        @torch.no_grad()
        def forward(self, x: Any) -> Any:
            return x

    for module in (Free(), Decorated()):
        seen: list[object] = []

        def note(module: object, name: str, seen: list[object] = seen) -> None:
            seen.extend((module, name))

        with weave(module, pre=note, always=note):
            module(torch.ones(1))
        assert seen == [module, "", module, ""]
