"""Hooks of one class keep their own states when a run is resumed, by their names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aspecthook import AspecthookError, HookOptionError, HookTypeError
from aspecthook.training import CheckpointHook, EvalHook, Hook, Runner
from tests.training.kit import data, registered, run_of


class Counter(Hook):
    """Has a state, and an option in an attribute."""

    def __init__(self, by: Any) -> None:
        self._by = by
        self.count = 0

    def after_train_iter(self) -> None:
        self.count += 1

    def state_dict(self) -> dict[str, Any]:
        return {"by": repr(self._by), "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loaded = state["by"]


@given(st.permutations(range(3)), st.lists(st.sampled_from(["x", "y", None]), min_size=3, max_size=3))
def test_every_hook_has_its_own_state_in_any_order(order: list[int], names: list[str | None]) -> None:
    assume(names.count(None) < 2)

    def run(numbers: list[int]) -> tuple[Runner, dict[int, Counter]]:
        runner, hooks = run_of("numpy"), {number: Counter(number) for number in numbers}
        for number, hook in hooks.items():
            runner.register_hook(hook, name=names[number] and f"{names[number]} {number}")
        return runner, hooks

    state = run([0, 1, 2])[0].state_dict()
    runner, hooks = run(list(order))
    runner.restore(state, resume=True)
    assert {number: hook.loaded for number, hook in hooks.items()} == {0: "0", 1: "1", 2: "2"}


REFUSED = [
    (
        lambda: [(Counter(1), None), (Counter(2), None)],
        HookOptionError,
        "another Counter without a name",
    ),
    (lambda: [(EvalHook(data(2)), None), (EvalHook(data(2)), None)], HookOptionError, 'name="..."'),
    (lambda: [(Counter(1), "a"), (Counter(2), "a")], HookOptionError, "the name is taken; give another one"),
    (lambda: [(Counter(1), None), (Counter(2), "Counter")], HookOptionError, "taken"),
    (lambda: [(Counter(1), "")], HookTypeError, "not empty"),
    (lambda: [(Counter(1), 3)], HookTypeError, "a name is a string"),
    (lambda: [({"type": CheckpointHook, "name": 3}, None)], HookTypeError, "string"),
]


@pytest.mark.parametrize(("hooks", "error", "message"), REFUSED)
def test_a_hook_that_could_not_be_told_apart_is_refused(hooks: Any, error: type[AspecthookError], message: str) -> None:
    *others, (hook, name) = hooks()
    runner = run_of("numpy")
    for one, its in others:
        runner.register_hook(one, name=its)
    before = list(runner.hooks)
    with pytest.raises(error, match=message) as caught:
        runner.register_hook(hook, name=name)
    assert "\n" not in str(caught.value)
    assert runner.hooks == before


def test_hooks_without_a_state_need_no_names() -> None:
    class Silent(Hook):
        def before_run(self) -> None: ...

    hooks = [Silent(), Silent()]
    assert [hook for hook in registered(run_of("numpy"), hooks).hooks if hook in hooks] == hooks


def test_a_config_may_have_a_name_and_is_not_changed() -> None:
    config = {"type": "EMAHook", "name": "a", "priority": 20}
    for own, name in ((None, "a"), ("b", "b"), (None, "a")):
        runner = run_of("numpy")
        runner.register_hook(config, name=own)
        assert list(runner.state_dict()["hooks"]) == [name]


def test_a_removed_hook_leaves_its_name() -> None:
    runner = run_of("numpy")
    hook = runner.register_hook(Counter(1), name="a")
    runner.remove_hook(hook)
    runner.register_hook(Counter(1), name="a")
    runner.register_hook(hook)
    assert list(runner.state_dict()["hooks"]) == ["a", "Counter"]
