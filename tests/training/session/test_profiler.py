"""The session-run hook that writes timelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aspecthook import HookOptionError, hooks
from aspecthook.training import HOOKS
from aspecthook.training import ProfilerHook as StageProfiler
from aspecthook.training.session import ProfilerHook
from tests.training.kit import both, with_torch
from tests.training.session.kit import drive, fit, loader, plain, runner_of

ways = pytest.mark.parametrize("way", [drive, fit])
PARTS = ("forward", "backward", "optimizer_step")


def written(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return found


@ways
@pytest.mark.parametrize(
    ("steps", "every", "expected"), [(7, 2, (2, 4, 6)), (7, 3, (3, 6)), (3, 4, ()), (3, 1, (2, 3))]
)
def test_timelines_are_written_for_the_steps_that_tensorflow_writes_them_for(
    way: Any, steps: int, every: int, expected: tuple[int, ...], tmp_path: Path
) -> None:
    """TensorFlow does not profile the first step, whatever the interval."""
    way(plain(), [1.0] * steps, hooks=[ProfilerHook(every, output_dir=tmp_path / "out")])
    assert written(tmp_path / "out") == sorted(f"timeline-{step}.json" for step in expected)


@both
def test_a_timeline_has_the_parts_of_a_step_and_nothing_stays_hooked(library: str, tmp_path: Path) -> None:
    runner = runner_of(library)
    fit(runner, loader(), hooks=[ProfilerHook(2, output_dir=tmp_path)])
    names = {event.get("name", "") for event in events(tmp_path / "timeline-2.json")}
    wanted = {f"Runner.{part}" for part in PARTS} if library == "numpy" else {"aten::linear", "Optimizer.step#SGD.step"}
    assert wanted <= names
    assert not any(len(hooks(getattr(runner, part))) for part in PARTS)


@with_torch
@pytest.mark.parametrize("shown", [True, False])
def test_arrows_and_memory_are_shown_as_asked(shown: bool, tmp_path: Path) -> None:
    hook = ProfilerHook(2, output_dir=tmp_path, show_dataflow=shown, show_memory=shown)
    fit(runner_of("torch", max_epochs=1), loader(), hooks=[hook])
    found = events(tmp_path / "timeline-2.json")
    assert any(event["ph"] in "sf" for event in found) is shown
    assert any(event.get("name") == "[memory]" for event in found) is shown


@ways
def test_a_step_of_several_batches_has_one_timeline(way: Any, tmp_path: Path) -> None:
    way(runner_of(max_epochs=1, accumulate=2), loader(), hooks=[ProfilerHook(2, output_dir=tmp_path)])
    assert written(tmp_path) == ["timeline-2.json"]
    names = [event["name"] for event in events(tmp_path / "timeline-2.json") if event["ph"] == "X"]
    assert sorted(names) == sorted(f"Runner.{part}" for part in (*PARTS, "forward", "backward"))


@ways
@both
def test_a_step_that_fails_leaves_no_measurement(way: Any, library: str, tmp_path: Path) -> None:
    runner = runner_of(library)
    hook = ProfilerHook(2, output_dir=tmp_path)

    def fail(iter: int) -> None:
        if iter == 1:
            raise OSError("step 2")

    hooks(runner.optimizer_step).pre(fail)
    with pytest.raises(OSError, match="step 2"):
        way(runner, loader(), hooks=[hook])
    assert hook._save is None and written(tmp_path) == []
    assert [len(hooks(getattr(runner, part))) for part in PARTS] == [0, 0, 1]


def test_configs_tell_the_profilers_apart(tmp_path: Path) -> None:
    runner = plain()
    stages = runner.register_hook({"type": "ProfilerHook"})
    timeline = runner.register_hook({"type": "SessionProfilerHook", "save_steps": 1, "output_dir": str(tmp_path)})
    assert (type(stages), type(timeline)) == (StageProfiler, ProfilerHook)
    assert HOOKS["ProfilerHook"] is StageProfiler
    runner.fit([1.0, 2.0])
    assert written(tmp_path) == ["timeline-2.json"] and stages.profile.iterations == 2


@pytest.mark.parametrize("options", [{}, {"save_steps": 1, "save_secs": 1.0}, {"save_steps": 0}])
def test_a_timeline_needs_an_interval(options: Any) -> None:
    with pytest.raises(HookOptionError, match="ProfilerHook"):
        ProfilerHook(**options)
