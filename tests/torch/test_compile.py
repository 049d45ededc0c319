"""Hooks under torch.compile: compiled with the model where that can be, right in any case, noticed when they change."""

from __future__ import annotations

from typing import Any

import pytest

from aspecthook import Args, Return, WeaveWarning, weave
from aspecthook.torch import capture

from .nets import gone_through, inputs, made, nn, same, torch

pytestmark = [
    pytest.mark.torch,
    # Dynamo's own, where the graph breaks.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


@pytest.fixture(autouse=True)
def fresh() -> Any:
    """Compile anew in each test; and change as often as a test likes."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=64):
        yield
    torch._dynamo.reset()


def one_yield() -> Any:
    result = yield
    return result * 3


def note_state(call: Any) -> None:
    call.state["factor"] = 2.0


NOTED: list[Any] = []

# What can be one graph.
WHOLE: dict[str, dict[str, Any]] = {
    "post": {"post": lambda result: result * 2},
    "pre": {"pre": lambda args: Args(input=args[1] + 1)},
    "return": {"pre": lambda: Return(torch.ones(2, 5))},
    "around": {"around": lambda proceed: proceed() + 1},
    "around with arguments": {"around": lambda proceed, args: proceed(input=args[1] * 2)},
    "exception": {"exception": lambda exc: None},
    "always": {"always": lambda exc, result: None},
    "call": {"post": lambda call: call.result * call.arguments["input"].sum()},
    "state": {"pre": note_state, "post": lambda call, result: result * call.state["factor"]},
    "when": {"post": lambda result: result * 3, "when": lambda name: name == "first"},
    "isolated": {"post": lambda result: result * 4, "isolate": True},
    "several": {"pre": lambda: None, "post": [lambda result, by=by: result + by for by in range(3)]},
    "a row": {"post": [lambda result, by=by: result + by for by in range(30)]},
    "a list": {"post": lambda result, name: NOTED.append((name, result.detach()))},
}
# What is right with breaks in the graph.
BROKEN: dict[str, dict[str, Any]] = {
    "one yield": {"around": one_yield},
    "every": {"post": lambda result: result * 2, "every": 1},
    "backward": {"backward": lambda grad_input: grad_input[0] * 2},
    "backward pre": {"backward_pre": lambda grad_output: grad_output[0] * 2},
}
ALL = {**WHOLE, **BROKEN}


@pytest.mark.parametrize("case", WHOLE)
def test_hooks_are_compiled_into_one_graph(case: str) -> None:
    net, x = made(), inputs()
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    plain = gone_through(net, x)
    assert same(gone_through(compiled, x), plain)
    with weave(net, "first", **WHOLE[case]):
        want = gone_through(net, x)
        assert same(gone_through(compiled, x), want)  # compiled before it was woven
        torch._dynamo.reset()
        assert same(gone_through(torch.compile(net, backend="eager", fullgraph=True), x), want)
    assert same(gone_through(compiled, x), plain)


@pytest.mark.parametrize("case", BROKEN)
def test_graph_breaks_give_right_results(case: str) -> None:
    net, x = made(), inputs()
    compiled = torch.compile(net, backend="eager")
    plain = gone_through(net, x)
    assert same(gone_through(compiled, x), plain)
    with weave(net, "first", **BROKEN[case]):
        want = gone_through(net, x)
        assert not same(want, plain)
        assert same(gone_through(compiled, x), want)
    assert same(gone_through(compiled, x), plain)


@pytest.mark.parametrize("case", ["post", "around", "always", "backward"])
def test_hooks_on_the_model_itself_and_on_its_wrapper_act(case: str) -> None:
    net, x = made(), inputs()
    compiled = torch.compile(net, backend="eager")
    plain = gone_through(net, x)
    before = dict(vars(compiled))
    for target in (net, compiled):
        with weave(target, **ALL[case]):
            got = gone_through(compiled, x)
        with weave(net, **ALL[case]):
            assert same(got, gone_through(net, x))
        assert same(gone_through(compiled, x), plain)
    assert vars(compiled).keys() == before.keys() and all(vars(compiled)[key] is before[key] for key in before)


def test_a_module_compiled_in_place_runs_its_hooks() -> None:
    net, x = made(), inputs()
    plain = net(x)
    net.compile(backend="eager")
    assert torch.equal(net(x), plain)
    with weave(net, post=lambda result: result * 2), weave(net, "first", post=lambda result: result * 0):
        want = net.second(torch.relu(net.first(x))) * 2
        assert torch.equal(net(x), want)
    assert torch.equal(net(x), plain)


def test_every_change_of_a_chain_is_noticed() -> None:
    net, x = made(), inputs()
    compiled = torch.compile(net, backend="eager", fullgraph=True)

    def times(by: Any) -> Any:
        return lambda result: result * by

    def agrees() -> bool:
        return torch.equal(compiled(x), net(x))

    assert agrees()
    one = weave(net, "first", post=times(2.0))
    assert agrees()
    two = weave(net, "first", post=times(3.0))  # of the same shape, before it is another
    assert agrees()
    one.remove()
    assert agrees()
    two.pause()
    assert agrees()
    two.resume()
    assert agrees()
    two.remove()
    assert agrees()
    with weave(net, "first", post=times(3.5)):
        assert agrees()


def test_weaving_the_same_again_and_again_compiles_once() -> None:
    net, x = made(), inputs()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(net, backend=counter, fullgraph=True)

    def double(result: Any) -> Any:
        return result * 2

    for _ in range(5):
        compiled(x)
        with weave(net, "first", post=double):
            compiled(x)
    assert counter.frame_count == 2


@pytest.mark.parametrize("case", ["post", "pre", "around", "backward", "backward pre"])
def test_gradients_are_right_with_the_graph_of_the_backward_compiled(case: str) -> None:
    net, x = made(), inputs()
    with weave(net, "first", **ALL[case]):
        want = gone_through(net, x)
        got = gone_through(torch.compile(net, backend="aot_eager"), x)
    assert all(torch.allclose(a, b) for a, b in zip(got, want, strict=True))


def test_a_compiled_model_is_captured() -> None:
    net, x = made(), inputs()
    compiled = torch.compile(net, backend="aot_eager")
    compiled(x)
    with capture(net, nn.Linear, gradients=True) as want:
        gone_through(net, x)
    with capture(compiled, nn.Linear, gradients=True) as got:
        gone_through(compiled, x)
    for name in ("first", "second"):
        assert len(got[name].outputs) == 1
        assert torch.allclose(got[name].output, want[name].output)
        assert torch.allclose(got[name].gradient, want[name].gradient)


def test_hooks_are_in_exported_models() -> None:
    net, x = made(), inputs().detach()
    with weave(net, "first", post=lambda result: result * 2):
        want, exported = net(x), torch.export.export(net, (x,))
    assert torch.equal(exported.module()(x), want)


def test_hooks_on_a_class_warn_of_what_was_compiled_before_and_does_not_see_them() -> None:
    net, x = made(), inputs()
    torch._dynamo.utils.counters.clear()  # of the tests before
    weave(nn.Linear.forward, post=lambda: None).remove()  # nothing is compiled yet
    compiled = torch.compile(net, backend="eager")
    plain = compiled(x)
    for target in (nn.Linear.forward, "torch.nn.modules.linear:Linear.forward"):
        with pytest.warns(WeaveWarning, match=r"torch.compile does not see .*Linear.forward.*weave\(model, Linear\)"):
            weaving = weave(target, post=lambda result: result * 0)
        assert torch.equal(compiled(x), plain) and net(x).abs().sum() == 0
        weaving.remove()
    with weave("json:dumps", post=lambda: None):  # it has no class of modules
        pass
