"""What becomes of hooks when a woven module is copied, saved, replicated, traced or compiled by others."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from aspecthook import WeaveError, weave

from .nets import Net, gone_through, inputs, made, nn, same, state, torch, untouched

pytestmark = pytest.mark.torch

EVERYTHING: dict[str, Any] = {
    "pre": lambda: None,
    "post": lambda result: result * 2,
    "backward_pre": lambda: None,
    "backward": lambda grad_input: grad_input[0] * 2,
}


def shallow(module: Any) -> dict[str, Any]:
    """Return what is in a module, with how many callbacks it has of each sort."""
    return {word: len(value) if isinstance(value, dict) else type(value) for word, value in vars(module).items()}


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, copy.copy, lambda module: pickle.loads(pickle.dumps(module))],
    ids=["deepcopy", "copy", "pickle"],
)
@pytest.mark.parametrize(
    ("net", "name", "names"),
    [(made(), "first", "*"), (nn.TransformerEncoderLayer(4, 2, 5, batch_first=True).eval(), "linear1", "linear1")],
    ids=["net", "encoder"],
)
def test_hooks_do_not_travel(net: Any, name: str, names: str, copied: Any) -> None:
    x, original = inputs(), net.get_submodule(name)
    plain, bare = gone_through(net, x), copied(original)
    before, inside = state(net), shallow(bare)
    weaving = weave(net, names, **EVERYTHING)
    woven = gone_through(net, x)
    twin = copied(original)
    assert shallow(twin) == inside
    assert torch.equal(twin(x), bare(x)) and same(gone_through(net, x), woven)  # the original keeps them
    weaving.remove()
    assert untouched(net, before) and same(gone_through(net, x), plain) and not same(woven, plain)


def test_a_module_with_a_state_of_its_own_keeps_it() -> None:
    class Own(Net):
        def __getstate__(self) -> Any:
            return {**self.__dict__, "note": "mine"}

    net = made(Own)
    with weave(net, post=lambda: None):
        twin = copy.deepcopy(net)
    assert twin.note == "mine" and "forward" not in vars(twin) and "__aspecthook__" not in vars(twin)


def test_data_parallel_is_refused_while_a_module_is_woven() -> None:
    net = made()
    with (
        weave(net, "first", post=lambda result: result * 2),
        pytest.raises(WeaveError, match=r"first \(Linear\) cannot be replicated by DataParallel while it is woven"),
    ):
        net.first._replicate_for_data_parallel()
    assert net.first._replicate_for_data_parallel() is not net.first


def test_a_traced_graph_is_copied_without_hooks_and_made_anew_with_them() -> None:
    net, x = made(), inputs()
    graph = torch.fx.symbolic_trace(net)
    plain = graph(x)
    with weave(graph, post=lambda result: result * 2):
        assert torch.equal(graph(x), plain * 2)
        graph.recompile()
        assert torch.equal(graph(x), plain * 2)
        twin = copy.deepcopy(graph)
    assert torch.equal(twin(x), plain) and torch.equal(graph(x), plain)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kinds", [{"post": lambda: None}, {"backward": lambda: None}], ids=["post", "backward"])
def test_scripting_is_refused_while_woven(kinds: dict[str, Any]) -> None:
    net = nn.Sequential(nn.Linear(4, 4))
    before = state(net)
    with (
        weave(net, "0", **kinds),
        pytest.raises(WeaveError, match=r"0 \(Linear\) cannot be compiled by torch.jit.script"),
    ):
        torch.jit.script(net)
    assert untouched(net, before)
    torch.jit.script(net)


def test_functional_calls_run_the_hooks() -> None:
    net, x = made(), inputs().detach()
    parameters = {name: torch.zeros_like(value) for name, value in net.named_parameters()}
    with weave(net, "first", post=lambda result: result + 1):
        assert torch.equal(torch.func.functional_call(net, parameters, (x,)), torch.zeros(2, 3))
        each = torch.func.vmap(lambda row: torch.func.functional_call(net, dict(net.named_parameters()), (row,)))
        assert torch.allclose(each(x), net(x))
