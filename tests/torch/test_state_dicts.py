"""Hooks on state dicts, as they are made and as they are loaded."""

from __future__ import annotations

from typing import Any

import pytest

from aspecthook import HookAnswerError, weave

from .nets import made, state, torch, untouched

pytestmark = pytest.mark.torch


def test_hooks_see_and_change_what_is_made() -> None:
    net = made()
    before, keys = state(net), list(net.state_dict())
    seen: list[Any] = []

    def half(state_dict: Any, prefix: str, module: Any, local_metadata: Any) -> None:
        assert module is net.first and local_metadata["version"] == 1
        state_dict[prefix + "weight"] = state_dict[prefix + "weight"].half()
        del state_dict[prefix + "bias"]

    with weave(
        net,
        "first",
        state_dict_pre=lambda name, prefix, keep_vars: seen.append((name, prefix, keep_vars)),
        state_dict_post=half,
    ):
        found = net.state_dict()
        assert list(net.first.state_dict(prefix="x.")) == ["x.weight"]
    assert list(found) == [key for key in keys if key != "first.bias"] and found["first.weight"].dtype is torch.float16
    assert seen == [("first", "first.", False), ("first", "x.", False)]
    assert list(net.state_dict()) == keys and untouched(net, before)


def test_hooks_see_and_change_what_is_loaded() -> None:
    net, other = made(), made()
    before = state(net)
    saved = {name.replace("first.weight", "first.kernel"): value + 1 for name, value in other.state_dict().items()}
    seen: list[Any] = []

    def rename(state_dict: Any, prefix: str, strict: bool) -> None:
        assert strict
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")

    def note(name: str, incompatible_keys: Any) -> None:
        seen.append((name, incompatible_keys.missing_keys, incompatible_keys.unexpected_keys))

    with weave(net, "first", load_state_dict_pre=rename, load_state_dict_post=note):
        net.load_state_dict(saved)
    assert torch.equal(net.first.weight, saved["first.kernel"]) and seen == [("first", [], [])]
    assert untouched(net, before)
    with pytest.raises(RuntimeError, match="Missing key"):
        net.load_state_dict(saved)


@pytest.mark.parametrize("kind", ["state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"])
def test_an_answer_is_refused(kind: str) -> None:
    net = made()
    with (
        weave(net, "first", **{kind: lambda: {"a": 1}}),
        pytest.raises(
            HookAnswerError,
            match=rf"first \(Linear\), {kind}: {kind} hook .* answered a dict of 1 key; it must answer None",
        ),
    ):
        net.load_state_dict(net.state_dict())
