"""Training: what hooks cost in a step, ours and those of other trainers; and a whole run, beside a loop by hand.

What is timed of each trainer is said in `benchmarks.trainers` and `benchmarks.other_trainers`, what a run is in
`benchmarks.training_loops`. Trainers that are not installed are left out; ``make bench-training`` installs them all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from .other_trainers import AT_INTERVAL, BUSY, BY_HAND, IN_SESSION, LOOP, OVERRIDING_NOTHING, PROTOCOL, quietly
from .results import OURS, Contest, Goal
from .timing import Effort, race
from .trainers import FETCHING, IDLE, LONG, NONE, NOOP, SOME, Build, Rig, Work, hooks_of_ours, new_runner

NEEDED = ("numpy", "autograd", "safetensors")
PACKAGES = {
    "mmengine": "mmengine",
    "Keras": "keras",
    "ignite": "pytorch-ignite",
    "Lightning": "lightning",
    "HF Trainer": "transformers",
    "PyTorch": "torch",
    "NumPy": "numpy",
}


def training(effort: Effort) -> list[Contest]:
    """Time whole runs, while none of the others is loaded yet; then what hooks cost in a step."""
    if not all(map(find_spec, NEEDED)):
        return []
    # Before NumPy is loaded: where there is little to compute, threads mostly wait for each other.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    from .training_loops import loops

    runs = loops(effort)
    # Differences of two times are wanted, so the two are timed close together.
    return [*_hooks(effort._replace(rounds=2 * effort.rounds, sample=effort.sample / 4)), *runs]


def _hooks(effort: Effort) -> list[Contest]:
    what = f"{SOME} hooks before a step, {SOME} after it"
    busy = [Goal(OURS + style, 1.5, LOOP + style) for style in ("", LONG.name)]
    every = f"{OURS}, every="
    session = [Goal(OURS, 2.0, PROTOCOL)]
    contests = [
        _contest(f"{what}, no-op", BUSY, NOOP, effort, LOOP, busy),
        _contest(f"{what}, that override neither", OVERRIDING_NOTHING, IDLE, effort),
        _contest(f"{what}, not their turn", AT_INTERVAL, NOOP, effort, BY_HAND, [Goal(every, 1.5, BY_HAND)]),
        _contest("No hooks at all", OVERRIDING_NOTHING, NONE, effort),
        _contest(f"{SOME} session-run hooks, no-op", IN_SESSION, NOOP, effort, PROTOCOL, session),
        _contest(f"{SOME} session-run hooks that fetch the loss", IN_SESSION, FETCHING, effort, PROTOCOL, session),
    ]
    contests[1].facts["the step still has its own __code__"] = _is_untouched()
    return contests


def _contest(
    title: str, builds: dict[str, Build], work: Work, effort: Effort, against: str = "", goals: list[Goal] | None = None
) -> Contest:
    rigs = {name: rig for name, build in builds.items() if (rig := _rig(name, build, work)) is not None}
    return Contest("training", title, "µs", _times(rigs, effort), against, goals or [])


def _rig(name: str, build: Build, work: Work) -> Rig | None:
    try:
        with quietly():
            _check(name, build, work)
            return build(work)
    except ImportError as error:
        _leave_out(name.partition(",")[0], str(error))
        return None


@cache  # to say it once
def _leave_out(name: str, why: str) -> None:
    if name not in PACKAGES:
        raise ImportError(why)
    if _version(PACKAGES[name]):
        print(f"{name} is installed, and left out: {why}", file=sys.stderr)


def _check(name: str, build: Build, work: Work) -> None:
    """See that all hooks before the step run, and then all those after it; or none, if they have nothing to do."""
    told: list[str] = []
    words = [("before", work.before), ("after", work.after)]
    before, after = (body and f"told({word!r})" for word, body in words)
    rig = build(replace(work, before=before, after=after, names={"told": told.append}))
    exec(rig.statement, dict(rig.names))
    a_step = [word for word, body in words if body for _ in range(work.count)]
    if told != ([] if name in AT_INTERVAL else a_step * rig.steps):
        raise AssertionError(f"{name} told {told}")


def _times(rigs: dict[str, Rig], effort: Effort) -> dict[str, list[float]]:
    """Return what the hooks cost, round by round; a time below nothing is what the clock makes of nothing."""
    times = race([contender for name, rig in rigs.items() for contender in rig.contenders(name)], effort)
    for name, rig in rigs.items():
        if rig.without is not None:
            less = times[f"{name}, without hooks"]
            times[name] = [one - other for one, other in zip(times[name], less, strict=True)]
    return {name: times[name] for name in rigs}


def _is_untouched() -> bool:
    runner = new_runner()
    code = type(runner).train_iter.__code__
    for hook in hooks_of_ours(IDLE):
        runner.register_hook(hook)
    return type(runner).train_iter.__code__ is code


def trainers() -> Iterator[str]:
    """Name the versions of the trainers, and those that were left out."""
    if not all(map(find_spec, NEEDED)):
        yield "training is left out: it needs NumPy, autograd and safetensors; pip install 'aspecthook[train]'"
        return
    versions = {name: _version(package) for name, package in PACKAGES.items()}
    yield f"  with {', '.join(f'{name} {number}' for name, number in versions.items() if number)}"
    missing = [name for name, number in versions.items() if not number]
    if missing:
        yield f"  without {', '.join(missing)}, which are not installed"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
