"""Any hooks, in any order: the same numbers as PyTorch's own hooks in a hand-written loop, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import Args, weave

from .nets import gone_through, inputs, made, same, state, untouched

pytestmark = pytest.mark.torch

LAYERS = ("", "first", "second")
KINDS = ("pre", "post", "backward_pre", "backward", "grad")
# Exact in floating point, and none commutes with all others.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "double": lambda value: value * 2,
    "add": lambda value: value + 1,
    "negate": lambda value: -value,
    "clamp": lambda value: value.clamp(-1, 1),
    "look": lambda value: None,
}


class Row(NamedTuple):
    """One hook as data."""

    layer: str
    kind: str
    change: str
    priority: int


rows = st.lists(
    st.builds(
        Row,
        st.sampled_from(LAYERS),
        st.sampled_from(KINDS),
        st.sampled_from(sorted(CHANGES)),
        st.sampled_from([10, 50, 50, 90]),
    ),
    max_size=8,
)


def woven(model: Any, row: Row) -> Any:
    """Put a hook on by weaving."""
    change = CHANGES[row.change]

    def pre(args: Any) -> Any:
        changed = change(args[1])
        return None if changed is None else Args(**{"x" if not row.layer else "input": changed})

    def post(result: Any) -> Any:
        return change(result)

    def backward_pre(grad_output: Any) -> Any:
        return change(grad_output[0])

    def backward(grad_input: Any) -> Any:
        return change(grad_input[0])

    def grad(grad: Any) -> Any:
        return change(grad)

    names: Any = row.layer or None
    if row.kind == "grad":
        names = f"{row.layer or 'first'}.weight"
    return weave(model, names, **{row.kind: locals()[row.kind], "priority": row.priority})


def by_hand(found: list[Row]) -> Any:
    """Make a model with one of PyTorch's own hooks a kind and layer, which calls the changes in a loop."""
    model = made()

    def changes(kind: str, *layers: str) -> list[Any]:
        mine = [row for row in found if row.kind == kind and row.layer in layers]
        return [CHANGES[row.change] for row in sorted(mine, key=lambda row: row.priority)]

    for layer in LAYERS:
        module = model.get_submodule(layer)
        pre, post = _loop(changes("pre", layer)), _loop(changes("post", layer))
        back = changes("backward_pre", layer), changes("backward", layer)
        module.register_forward_hook(lambda _, args, out, post=post: post(out))
        if any(back):
            # What PyTorch's backward hooks are given is of the input behind its own pre hooks; ours are behind both.
            inner = module.forward
            module.forward = lambda x, inner=inner, pre=pre: inner(pre(x))
            before, after = map(_loop, back)
            module.register_full_backward_pre_hook(lambda _, grads, run=before: (run(grads[0]),))
            module.register_full_backward_hook(lambda _, grads, out, run=after: (run(grads[0]),))
        else:
            module.register_forward_pre_hook(lambda _, args, run=pre: (run(args[0]), *args[1:]))
    model.first.weight.register_hook(_loop(changes("grad", "", "first")))
    model.second.weight.register_hook(_loop(changes("grad", "second")))
    return model


def _loop(changes: list[Any]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for change in changes:
            changed = change(value)
            value = value if changed is None else changed
        return value

    return run


@settings(max_examples=80, deadline=None)
@given(rows, st.randoms(use_true_random=False))
def test_values_and_gradients_are_those_of_a_loop_and_removal_in_any_order_leaves_nothing(
    found: list[Row], random: Any
) -> None:
    model, x = made(), inputs()
    before, plain = state(model), gone_through(model, x)
    weavings = [woven(model, row) for row in found]
    assert same(gone_through(model, x), gone_through(by_hand(found), x))
    order = list(range(len(found)))
    random.shuffle(order)
    left = dict(enumerate(found))
    for place in order:
        weavings[place].remove()
        del left[place]
        if random.random() < 0.3:
            assert same(gone_through(model, x), gone_through(by_hand(list(left.values())), x))
    assert untouched(model, before) and same(gone_through(model, x), plain)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["weave", "remove", "theirs", "their end", "pause", "resume", "copy"]), max_size=10),
    st.randoms(use_true_random=False),
)
def test_nothing_is_left_whoever_else_hooks_the_module_meanwhile(steps: list[str], random: Any) -> None:
    """What is PyTorch's own goes by PyTorch's own handles; what is left then is what they alone would have left."""
    import copy

    model, x = made(), inputs()
    plain = gone_through(model, x)
    before = state(model)
    ours: list[Any] = []
    theirs: list[Any] = []
    for step in steps:
        if step == "weave":
            kind = random.choice(["pre", "post", "around", "backward", "backward_pre"])
            hook: Any = (lambda proceed: proceed()) if kind == "around" else (lambda: None)
            ours.append(weave(model, random.choice(["first", "*"]), **{kind: hook}))
        elif step == "theirs":
            register = random.choice(["register_forward_hook", "register_forward_pre_hook"])
            theirs.append(getattr(model.first, register)(lambda *_: None))
        elif step == "their end" and theirs:
            theirs.pop(random.randrange(len(theirs))).remove()
        elif step == "copy":
            assert same(gone_through(copy.deepcopy(model), x), plain)
        elif ours and step in ("pause", "resume"):
            getattr(random.choice(ours), step)()
        elif ours and step == "remove":
            ours.pop(random.randrange(len(ours))).remove()
        assert same(gone_through(model, x), plain)
    random.shuffle(ours)
    for one in (*ours, *theirs):
        one.remove()
    assert untouched(model, before)
