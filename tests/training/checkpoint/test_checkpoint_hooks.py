"""When a run is checkpointed, which files are kept, which is the best; and that none of it depends on being killed."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aspecthook import HookOptionError, HookTypeError, hooks
from aspecthook.training import Hook, Runner, TrainingError
from aspecthook.training.checkpoint import load
from aspecthook.training.hooks._checkpoint import CheckpointHook, CheckpointLoaderHook
from tests.training.kit import Loss, Optimizer


class Given(Hook):
    """A model that computes nothing, and the hook that logs what a test has given."""

    priority = "HIGHEST"

    def __init__(self, scores: Sequence[object], losses: Sequence[object], stop_after: int | None) -> None:
        self.scores, self.losses, self.stop_after = scores, losses, stop_after

    def train_step(self, batch: int, optimizer: object) -> dict[str, Any]:
        return {"loss": Loss(1.0), "log_vars": {"loss": self.losses[batch] if self.losses else 1.0}}

    def val_step(self, batch: int, optimizer: object) -> dict[str, Any]:
        return {"log_vars": {}}

    def after_train_iter(self, runner: Runner) -> None:
        if runner.progress.iter == self.stop_after:
            runner.request_stop()

    def after_val_epoch(self, runner: Runner) -> None:
        runner.log(val_acc=self.scores[runner.epoch - 1])


def run(
    folder: Path | None,
    *hooks: Any,
    epochs: int = 0,
    length: int = 3,
    scores: Sequence[object] = (),
    losses: Sequence[object] = (),
    stop_after: int | None = None,
    logs: dict[str, Any] | None = None,
) -> Runner:
    """Make a run of so many epochs, whose validations have the scores, and fit it."""
    given = Given(scores, losses, stop_after)
    runner = Runner(given, optimizer=Optimizer(), work_dir=folder, max_epochs=epochs or len(scores))
    for hook in (given, *hooks):
        runner.register_hook(hook)
    runner.logs = dict(logs or {})
    runner.fit(list(range(length)), [0] if scores else None)
    return runner


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.safetensors"))


def files(*stems: object) -> list[str]:
    return sorted(f"{stem}.safetensors" for stem in stems)


# When


@pytest.mark.parametrize("interval", [0, 1, 2, 9])
def test_a_checkpoint_is_saved_every_so_many_epochs_and_at_the_end(interval: int, tmp_path: Path) -> None:
    saved: list[int] = []

    class Noted(Hook):
        def before_save_checkpoint(self, runner: Runner) -> None:
            saved.append(runner.iter // 3)

    run(tmp_path, CheckpointHook(interval), Noted(), epochs=5)
    assert saved == [epoch for epoch in range(1, 6) if interval and (epoch % interval == 0 or epoch == 5)]
    assert names(tmp_path) == files(*[f"epoch_{epoch}" for epoch in saved])


def test_a_run_that_stops_inside_an_epoch_leaves_a_checkpoint_of_that_iteration(tmp_path: Path) -> None:
    # An epoch that was not ended is none: its file would be taken for that of a whole one.
    run(tmp_path, CheckpointHook(), epochs=3, stop_after=5)
    assert names(tmp_path) == files("epoch_1", "iter_5")
    assert load(tmp_path / "iter_5.safetensors")["progress"]["inner_iter"] == 2


def test_the_optimizer_can_be_left_out_of_what_this_hook_saves_and_of_nothing_else(tmp_path: Path) -> None:
    runner = run(tmp_path, CheckpointHook(save_optimizer=False), epochs=1)
    assert load(tmp_path / "epoch_1.safetensors")["optimizer"] is None
    assert load(runner.save_checkpoint(tmp_path / "interrupted"))["optimizer"] is not None


# What is kept


def full_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let nothing be saved any more after so many checkpoints."""
    replaced, left = os.replace, [after]

    def replace(old: Any, new: Any) -> None:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= Path(new).suffix == ".safetensors"
        replaced(old, new)

    monkeypatch.setattr(os, "replace", replace)


def test_a_full_disk_leaves_all_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # mmengine 0.10.7 removes the old one first, and left none.
    hook = CheckpointHook(max_keep=1)
    with monkeypatch.context() as patch:
        full_disk(patch, after=2)
        with pytest.raises(TrainingError, match=r"epoch_3.safetensors could not be saved: No space left on device"):
            run(tmp_path, hook, epochs=4)
    assert names(tmp_path) == files("epoch_2")
    assert hook.state_dict()["last"]["files"] == files("epoch_2")


def test_a_best_score_whose_checkpoint_could_not_be_saved_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = CheckpointHook(0, save_best="acc")
    with monkeypatch.context() as patch:
        full_disk(patch, after=1)
        with pytest.raises(TrainingError, match="best_val_acc_epoch_2"):
            run(tmp_path, hook, scores=[1, 2])
    assert (hook.best, hook.best_score) == (tmp_path / "best_val_acc_epoch_1.safetensors", 1)
    assert names(tmp_path) == files("best_val_acc_epoch_1")


def test_a_checkpoint_that_cannot_be_removed_is_warned_of_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unlink = Path.unlink

    def refused_once(path: Path, missing_ok: bool = False) -> None:
        if not caplog.messages:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refused_once)
    run(tmp_path, CheckpointHook(max_keep=1), epochs=3)
    assert caplog.messages == [
        f"the old checkpoint {tmp_path / 'epoch_1.safetensors'} could not be removed: Operation not permitted"
    ]
    assert names(tmp_path) == files("epoch_3")


def test_only_checkpoints_are_removed(tmp_path: Path) -> None:
    hook = CheckpointHook(max_keep=1)
    runner = run(tmp_path, hook, epochs=1)
    (tmp_path / "epoch_1.safetensors").write_text("my thesis")
    runner.max_epochs = 2
    runner.fit([0, 1, 2])
    assert names(tmp_path) == files("epoch_1", "epoch_2")
    assert hook.state_dict()["last"]["files"] == files("epoch_2")


@pytest.mark.parametrize("name", ["../thesis", "/etc/thesis", "a/../../thesis", "", ".", 3])
def test_a_checkpoint_that_names_files_elsewhere_is_refused(name: object) -> None:
    for key in ("last", "best"):
        state = CheckpointHook().state_dict()
        state[key]["files"] = ["epoch_1.safetensors", name]
        with pytest.raises(TrainingError, match="which is outside its folder"):
            CheckpointHook().load_state_dict(state)


# The best

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("rule", "scores", "best"),
    [
        (None, [0.1, 0.3, 0.2], 2),
        ("less", [0.2, 0.1, 0.3], 2),
        (None, [-1.0, 0, -2.0], 2),  # 0 counts
        (None, [0], 1),
        (None, [0.5, 0.5], 1),  # what is as good is not better
        ("less", [0.5, 0.5], 1),
        (None, [NAN, 0.1, NAN], 2),
        ("less", [NAN, INF, 3], 3),
        (None, [-INF, NAN], None),
        (None, [True, 2, 3.5], 3),
    ],
)
def test_the_best_is_the_first_of_the_best(rule: Any, scores: list[float], best: int | None, tmp_path: Path) -> None:
    hook = CheckpointHook(0, save_best="acc", rule=rule)
    run(tmp_path, hook, scores=scores)
    expected = None if best is None else tmp_path / f"best_val_acc_epoch_{best}.safetensors"
    score = None if best is None else scores[best - 1]
    assert (hook.best, hook.best_score) == (expected, score)
    assert names(tmp_path) == ([] if expected is None else [expected.name])
    assert expected is None or load(expected)["hooks"]["CheckpointHook"]["best"]["mark"] == score


@pytest.mark.parametrize(
    ("save_best", "logs", "meant"),
    [
        ("val_acc", {"acc": 3}, "val_acc"),
        ("acc", {"acc": 3}, "val_acc"),  # a run that validates goes by that
        ("mAP", {"mAP": 3}, "mAP"),
        ("coco/mAP", {"coco/mAP": 3}, "coco_mAP"),
        ("auto", {}, "val_acc"),
    ],
)
def test_save_best_finds_the_score_by_its_short_name(
    save_best: str, logs: dict[str, Any], meant: str, tmp_path: Path
) -> None:
    run(tmp_path, CheckpointHook(0, save_best=save_best), scores=[1], logs=logs)
    assert names(tmp_path) == files(f"best_{meant}_epoch_1")


def test_a_score_that_was_not_logged_is_refused_with_the_nearest(tmp_path: Path) -> None:
    hook = CheckpointHook(save_best="accu", rule="greater")
    with pytest.raises(TrainingError) as caught:
        run(tmp_path, hook, scores=[1])
    assert str(caught.value) == (
        "CheckpointHook(save_best='accu'): the validation did not log this score; it logged val_acc; did you "
        "mean 'acc'?"
    )


def test_a_validation_before_the_run_does_not_count_for_the_best(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, CheckpointHook(save_best="val_acc"), epochs=1, logs={"val_acc": 9})
    assert names(tmp_path) == files("epoch_1")
    assert caplog.messages == [
        "CheckpointHook(save_best='val_acc'): no best checkpoint was saved, since there was no validation"
    ]


@pytest.mark.parametrize("score", ["good", None, [1, 2]])
def test_a_score_that_is_not_a_number_is_refused(score: object, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"by 'val_acc', which is .* in the logs; log a number"):
        run(tmp_path, CheckpointHook(save_best="acc"), scores=[score])


def test_a_rule_that_the_name_does_not_show_is_required_at_once() -> None:
    with pytest.raises(HookOptionError, match="the name 'f1' does not show .*; give rule="):
        CheckpointHook(save_best="f1")
    assert CheckpointHook(save_best="f1", rule="greater").best_score is None


def test_the_best_begins_anew_if_it_is_another_number_now(tmp_path: Path) -> None:
    run(tmp_path, CheckpointHook(save_best="acc"), scores=[5])
    state = load(tmp_path / "epoch_1.safetensors")["hooks"]["CheckpointHook"]
    for hook in (CheckpointHook(save_best="loss"), CheckpointHook()):
        hook.load_state_dict(state)
        assert (hook.best_score, hook.best) == (None, None)
        assert hook.state_dict()["last"]["files"] == files("epoch_1")
    hook = CheckpointHook(save_best="acc", out_dir=tmp_path)
    hook.load_state_dict(state)
    assert (hook.best_score, hook.best) == (5, tmp_path / "best_val_acc_epoch_1.safetensors")


# Options


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"interval": -1}, HookOptionError),
        ({"interval": "2"}, HookTypeError),
        ({"interval": True}, HookTypeError),
        ({"max_keep": 0}, HookOptionError),
        ({"max_keep": "all"}, HookTypeError),
        ({"save_best": True}, HookTypeError),
        ({"rule": "more"}, HookOptionError),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    (name,) = options
    with pytest.raises(error, match=rf"^CheckpointHook(: |\(){name}="):
        CheckpointHook(**options)


# Loading


def test_the_loader_hook_loads_a_file_before_the_run(tmp_path: Path) -> None:
    run(tmp_path, CheckpointHook(), epochs=2)
    runner = run(None, CheckpointLoaderHook(tmp_path / "epoch_1.safetensors"), epochs=1)
    assert runner.resumed and runner.iter == 3
    runner.max_epochs = 2
    hooks(runner.load_checkpoint).pre(lambda: 1 / 0)  # a second run does not load it again
    runner.fit([0, 1, 2])
    assert run(None, CheckpointLoaderHook(tmp_path), epochs=3).iter == 9


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_missing_checkpoint_is_refused_unless_optional(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "log.txt").touch()
    with pytest.raises(TrainingError, match=rf"there is no .*{name}; give another path, or missing_ok=True"):
        run(None, CheckpointLoaderHook(tmp_path / name), epochs=1)
    with caplog.at_level(logging.INFO):
        assert run(None, CheckpointLoaderHook(tmp_path / name, missing_ok=True), epochs=1).iter == 3
    assert caplog.messages[0].endswith(f"{tmp_path / name}; starting from scratch")
