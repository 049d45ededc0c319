"""Which modules of a model are meant: patterns, classes, several; wrappers are seen through."""

from __future__ import annotations

from typing import Any

import pytest

from aspecthook import weave

from .nets import Deep, made, nn, torch

pytestmark = pytest.mark.torch

ALL = ["conv_in", "blocks.0", "blocks.0.0", "blocks.0.1", "blocks.1", "blocks.1.0", "blocks.1.1", "head"]


def chosen(model: Any, names: Any, **options: Any) -> list[str]:
    """Return the names of what is woven, in the order of the model."""
    with weave(model, names, post=lambda: None, **options) as weaving:
        return [mount.owner().__aspecthook__.name for mount in weaving.mounts]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("head", ["head"]),
        ("*", ALL),
        ("*.0", ["blocks.0", "blocks.0.0", "blocks.1.0"]),
        ("blocks.[1].*", ["blocks.1.0", "blocks.1.1"]),
        ("head, conv_in", ["head", "conv_in"]),
        ("*, !*.0*, !head", ["conv_in", "blocks.1", "blocks.1.1"]),
        (nn.Conv2d, ["conv_in", "blocks.0.0", "blocks.1.0"]),
        ([nn.ReLU, "head"], ["blocks.0.1", "blocks.1.1", "head"]),
        ((nn.Conv2d, "!blocks.1.*"), ["conv_in", "blocks.0.0"]),
        ("tied, conv_in", ["tied"]),
    ],
)
def test_names_choose_modules(names: Any, wanted: list[str]) -> None:
    assert chosen(made(Deep), names) == wanted


def test_where_option_refuses_modules() -> None:
    assert chosen(made(Deep), "*", where=lambda module: isinstance(module, nn.ReLU)) == ["blocks.0.1", "blocks.1.1"]


def test_names_go_through_what_compiles() -> None:
    net = made(Deep)
    assert chosen(torch.compile(net, backend="eager"), "conv*, *.0.0") == ["conv_in", "blocks.0.0"]


def test_wrapper_inside_a_model_has_the_name_of_its_module() -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    net = nn.Sequential(checkpoint_wrapper(nn.Linear(2, 2)), nn.DataParallel(nn.Linear(2, 2)), nn.Linear(2, 2))
    net[2] = torch.compile(net[2], backend="eager")
    kinds: list[str] = []
    with weave(net, "*", post=lambda name, module: kinds.append(f"{name} {type(module).__name__}")) as weaving:
        assert len(weaving.mounts) == 3
        with torch.no_grad():
            net(torch.ones(1, 2))
    assert kinds == ["0 Linear", "1 Linear", "2 Linear"]


def test_a_module_that_is_called_module_keeps_its_name() -> None:
    net = nn.Sequential()
    net.add_module("module", nn.Linear(1, 1))
    assert chosen(net, "module") == ["module"]
