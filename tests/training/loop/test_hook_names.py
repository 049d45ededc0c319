"""Two hooks of one class keep their own states when a run is resumed, or the run is not resumed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import AspecthookError, HookOptionError, HookTypeError
from aspecthook.training import HOOKS, CheckpointHook, EvalHook, Hook, Runner, TrainingError
from aspecthook.training.keras import History
from tests.training.kit import both, data, registered, run_of


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


class Hidden(Counter):
    """Has an option that no attribute is named after."""

    inside: Any

    def __init__(self, step: Any) -> None:
        super().__init__(step)
        self.inside = Path, SimpleNamespace(step=self.__dict__.pop("_by"), seen={"a", "b"})
        self._by = 0


def saved(tmp_path: Path, *hooks: Any) -> Path:
    runner = registered(run_of("numpy"), hooks)
    runner.fit(data(3))
    return runner.save_checkpoint(tmp_path / "saved")


def resumed(path: Path, *hooks: Any) -> Runner:
    runner = registered(run_of("numpy"), hooks)
    runner.resume(path)
    return runner


def test_hooks_of_one_class_in_another_order_are_refused(tmp_path: Path) -> None:
    """Each was given the state of the other, without a word."""
    path = saved(tmp_path, Counter(1), Counter(2))
    hooks = [Counter(2), Counter(1)]
    with pytest.raises(TrainingError, match="class Counter .* another order .*'Counter', 'Counter 2'; nothing was cha"):
        resumed(path, *hooks)
    assert not any(hasattr(hook, "loaded") for hook in hooks)


def test_the_names_of_the_message_resume_the_run(tmp_path: Path) -> None:
    path = saved(tmp_path, Counter(1), Counter(2))
    second, first = Counter(2), Counter(1)
    runner = run_of("numpy")
    runner.register_hook(second, name="Counter 2")
    runner.register_hook(first, name="Counter")
    runner.resume(path)
    assert (first.loaded, second.loaded) == ("1", "2")


@pytest.mark.parametrize("numbers", [[2], [3, 4], [2, 1, 3], [3, 1, 2]])
def test_hooks_that_may_have_moved_are_refused(numbers: list[int], tmp_path: Path) -> None:
    path = saved(tmp_path, Counter(1), Counter(2))
    with pytest.raises(TrainingError, match="another order"):
        resumed(path, *map(Counter, numbers))


@pytest.mark.parametrize("numbers", [[1, 2], [1], [1, 3], [3, 2], [1, 2, 3]])
def test_one_hook_may_have_other_options_and_hooks_may_be_added_at_the_end(numbers: list[int], tmp_path: Path) -> None:
    path = saved(tmp_path, Counter(1), Counter(2))
    hooks = [Counter(number) for number in numbers]
    resumed(path, *hooks)
    assert [getattr(hook, "loaded", None) for hook in hooks] == [["1", "2", None][at] for at in range(len(hooks))]


@both
def test_hooks_with_names_may_be_registered_in_any_order(library: str, tmp_path: Path) -> None:
    first, held_out = run_of(library, work_dir=tmp_path), [data(1, seed=3), data(1, seed=4)]

    def hook_of(name: str) -> EvalHook:
        return EvalHook(held_out["ab".index(name)], save_best="loss", out_dir=tmp_path / name)

    for name in "ab":
        first.register_hook(hook_of(name), name=name)
    first.fit(data(3))
    path = first.save_checkpoint(tmp_path / "saved")
    again = run_of(library, work_dir=tmp_path)
    hooks = {name: again.register_hook(hook_of(name), name=name) for name in "ba"}
    again.resume(path)
    assert {name: hook.best_score for name, hook in hooks.items()} == {
        name: hook.best_score for name, hook in zip("ab", first.hooks, strict=True)
    }
    assert hooks["a"].best_score != hooks["b"].best_score


def test_what_a_hook_does_to_its_options_is_no_other_order(tmp_path: Path) -> None:
    class Growing(Counter):
        def after_train_epoch(self) -> None:
            self._by = [*self._by, 0]

    path = saved(tmp_path, Growing([1]), Growing([2]))
    hooks = Growing([1]), Growing([2])
    resumed(path, *hooks)
    assert [hook.loaded for hook in hooks] == ["[1, 0, 0]", "[2, 0, 0]"]


@given(st.permutations(range(3)), st.lists(st.sampled_from(["x", "y", None]), min_size=3, max_size=3))
def test_every_hook_has_its_own_state_or_the_run_is_not_resumed(order: list[int], names: list[str | None]) -> None:
    def run(numbers: list[int]) -> tuple[Runner, dict[int, Counter]]:
        runner, hooks = run_of("numpy"), {number: Counter(number) for number in numbers}
        for number, hook in hooks.items():
            runner.register_hook(hook, name=names[number] and f"{names[number]} {number}")
        return runner, hooks

    state = run([0, 1, 2])[0].state_dict()
    runner, hooks = run(list(order))
    try:
        runner.restore(state, resume=True)
    except TrainingError:
        assert list(order) != [0, 1, 2]
    else:
        assert {number: hook.loaded for number, hook in hooks.items()} == {0: "0", 1: "1", 2: "2"}


REFUSED = [
    (lambda: [(Hidden(len), None), (Hidden(len), None)], HookOptionError, "another Hidden .* as far as they can be"),
    (lambda: [(Counter(len), None), (Counter(len), None)], HookOptionError, "another Counter"),
    (lambda: [(EvalHook(data(2)), None), (EvalHook(data(2)), None)], HookOptionError, 'name="..."'),
    (lambda: [(Counter(1), "a"), (Counter(2), "a")], HookOptionError, "the name is taken; give another one"),
    (lambda: [(Counter(1), None), (Counter(2), "Counter")], HookOptionError, "taken"),
    (lambda: [(Counter(1), "")], HookOptionError, "the name is empty"),
    (lambda: [(Counter(1), 3)], HookTypeError, "string"),
    (lambda: [({"type": CheckpointHook, "name": 3}, None)], HookTypeError, "string"),
]


@pytest.mark.parametrize(("hooks", "error", "message"), REFUSED)
def test_a_hook_that_could_not_be_told_apart_is_refused(hooks: Any, error: type[AspecthookError], message: str) -> None:
    *others, (hook, name) = hooks()
    runner = run_of("numpy")
    for one, its in others:
        runner.register_hook(one, name=its)
    before = [list(runner.hooks), runner.get_hook_info()]
    with pytest.raises(error, match=message) as caught:
        runner.register_hook(hook, name=name)
    assert "\n" not in str(caught.value)
    assert [runner.hooks, runner.get_hook_info()] == before


def test_hooks_that_are_told_apart_need_no_names(tmp_path: Path) -> None:
    class Silent(Hook):
        def before_run(self) -> None: ...

    hooks = [
        *(Silent(), Silent()),
        *(Hidden(1), Hidden(2)),
        *(History(), History()),  # they have no options, so either may have the state of the other
        *(CheckpointHook(out_dir=tmp_path / name) for name in "ab"),
        *(EvalHook(data(1), save_best=name) for name in ("loss", "acc")),
        *(EvalHook(data(size), interval=3) for size in (2, 3)),
    ]
    assert [hook for hook in registered(run_of("numpy"), hooks).hooks if hook in hooks] == hooks


def test_a_config_names_its_hook() -> None:
    runner = run_of("numpy")
    runner.register_training_hooks(
        custom_hooks=[{"type": "EvalHook", "loader": [], "name": name} for name in "ab"], timer_config=None
    )
    assert list(runner.state_dict()["hooks"]) == ["a", "b"]


def test_a_constructor_that_takes_a_name_gets_it() -> None:
    class Named(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        def before_run(self) -> None: ...

    hook = run_of("numpy").register_hook({"type": Named, "name": "mine"})
    assert hook.name == "mine"
    assert HOOKS.takes({"type": Named}, "name")


def test_a_removed_hook_leaves_its_name() -> None:
    runner = run_of("numpy")
    hook = runner.register_hook(Counter(1), name="a")
    runner.remove_hook(hook)
    runner.register_hook(Counter(1), name="a")
    runner.register_hook(hook)
    assert list(runner.state_dict()["hooks"]) == ["a", "Counter"]
