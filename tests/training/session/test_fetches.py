"""What a step knows, by name; what is fed to it; and that it costs nothing when nobody asks."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from aspecthook import HookAnswerError, HookOptionError, HookTypeError, hooks
from aspecthook.training import OptimizerHook, Runner, TrainingError
from aspecthook.training.session import MonitoredTrainingSession, SessionRunHook
from tests.training.kit import both, same, with_torch
from tests.training.session.kit import Fetch, Model, Trail, loader, plain, runner_of

NAMES = ["loss", "global_step", "lr", "param:3.bias", "grad:0.weight", "output:0", "output:", "iter", "epoch"]


def array(value: Any) -> Any:
    if hasattr(value, "detach"):
        return value.detach().numpy().copy()
    return np.array(getattr(value, "_value", value))


def held(runner: Runner, name: str, what: str) -> Any:
    found = getattr(runner.backend.parameters(runner.model)[name], what)
    return None if found is None else array(found)


def layer(runner: Runner, place: int) -> Any:
    return dict(runner.model.named_modules())[str(place)]


def watched(runner: Runner) -> list[dict[str, Any]]:
    """Write down, at each step and in another way, what fetches are to give."""
    rows: list[dict[str, Any]] = []

    def begin(step: int, iter: int, epoch: int, optimizer: Any) -> None:
        rows.append({"global_step": step, "iter": iter, "epoch": epoch, "lr": optimizer.param_groups[0]["lr"]})

    def loss(result: Any) -> None:
        rows[-1]["loss"] = float(result.item())

    def gradient(runner: Runner) -> None:
        rows[-1]["grad:0.weight"] = held(runner, "0.weight", "grad")

    def end(runner: Runner) -> None:
        rows[-1]["param:3.bias"] = held(runner, "3.bias", "data")
        rows[-1].setdefault("grad:0.weight")  # of a batch that completes no step of the optimizer

    hooks(runner.train_iter).pre(begin)
    hooks(runner.forward).post(loss, priority=100)
    hooks(runner.optimizer_step).pre(gradient, priority=100)
    hooks(runner.train_iter).post(end, priority=0)
    for place, name in ((layer(runner, 0), "output:0"), (runner.model, "output:")):

        def note(output: Any, name: str = name) -> None:
            rows[-1][name] = array(output)

        if runner.backend.name == "torch":
            place.register_forward_hook(lambda _module, _inputs, output, note=note: note(output))
        else:
            inner = place.forward
            place.forward = lambda x, inner=inner, note=note: (note(made := inner(x)), made)[1]
    return rows


@both
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("driven", [True, False])
def test_fetches_return_the_values_of_the_step(library: str, accumulate: int, driven: bool) -> None:
    runner = runner_of(library, accumulate=accumulate, hooks=[OptimizerHook({"max_norm": 0.01})])
    hooks(runner.forward).post(lambda result: result * 2)
    fetch = Fetch(NAMES)
    mine: list[Any] = []
    if driven:
        rows = watched(runner)
        with MonitoredTrainingSession(runner, loader(), hooks=[fetch]) as session:
            while not session.should_stop():
                mine.append(session.run(NAMES))
        assert same(mine, fetch.results)
    else:
        runner.register_hook(fetch)
        rows = watched(runner)
        runner.fit(loader())
    assert len(rows) == 12
    assert same(fetch.results, [[row[name] for name in NAMES] for row in rows])
    norms = [np.linalg.norm(row["grad:0.weight"]) for row in rows if row["grad:0.weight"] is not None]
    assert len(norms) == 12 // accumulate and max(norms) < 0.0101
    assert rows[-1]["global_step"] == (11 if accumulate == 1 else 3)


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    ("fetches", "results"),
    [
        ("loss", 3.0),
        (["loss", ("lr", "lr")], [3.0, (0.1, 0.1)]),
        ({"a": {"b": ["iter"]}, "c": "epoch"}, {"a": {"b": [0]}, "c": 0}),
        (Pair("loss", Pair(None, "lr")), Pair(3.0, Pair(None, 0.1))),
        ([], []),
        ({}, {}),
    ],
)
def test_results_have_the_shape_of_the_fetches(fetches: Any, results: Any) -> None:
    fetch = Fetch(fetches)
    with MonitoredTrainingSession(plain(hooks=[fetch]), [3.0]) as session:
        assert session.run(fetches) == results
    assert fetch.results == [results] and type(fetch.results[0]) is type(results)


def carried(runner: Runner) -> int:
    """Count what is on the stages and layers that fetches look at."""
    stages = sum(len(hooks(getattr(runner, name))) for name in ("forward", "optimizer_step"))
    if runner.backend.name == "torch":
        return stages + sum(len(module._forward_hooks) for module in runner.model.modules())
    from aspecthook._core.mount.point import mount_of

    forwards = {type(module).forward for _, module in runner.model.named_modules()}
    return stages + sum(mount_of(function) is not None for function in forwards)


@both
def test_nothing_is_on_stages_and_layers_when_nobody_fetches(library: str) -> None:
    runner = runner_of(library)
    seen: list[int] = []
    runner.register_hook(Fetch(["loss", "grad:0.bias", "output:3"], every=4))
    runner.register_hook(Fetch(["param:0.bias", "lr", "global_step"]))
    hooks(runner.train_iter).post(lambda runner: seen.append(carried(runner)))
    runner.fit(loader())
    assert seen == [3, 3, 0, 0] * 3
    assert carried(runner) == 0


@both
def test_after_the_last_step_its_values_can_still_be_read(library: str) -> None:
    read: list[Any] = []

    class AtTheEnd(Fetch):
        def end(self, session: Any) -> None:
            read.extend(session.run(["output:3", "loss", "output:0", "global_step"]))

    fetch = AtTheEnd(["output:3", "loss", "output:0"])
    runner_of(library, hooks=[fetch]).fit(loader())
    assert same(read, [*fetch.results[-1], 12])


@with_torch
def test_outputs_are_read_before_later_layers_change_them_in_place() -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 1))
    runner = Runner(
        model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), loss=torch.nn.functional.mse_loss, max_epochs=1
    )
    fetch = runner.register_hook(Fetch("output:0"))
    runner.fit([(torch.randn(64, 2), torch.zeros(64, 1))])
    assert (fetch.results[0] < 0).any()


@with_torch
def test_the_layers_of_a_compiled_model_are_refused() -> None:
    import torch

    runner = runner_of("torch")
    runner.model = torch.compile(runner.model, backend="eager")
    runner.register_hook(Fetch("output:0"))
    with pytest.raises(TrainingError, match="'output:0' cannot be fetched: OptimizedModule is compiled"):
        runner.fit(loader())


@pytest.mark.parametrize(
    ("fetches", "error", "says"),
    [
        ("los", HookOptionError, "'los', which .* of Sequential; the values are loss, .*; did you mean 'loss'"),
        (["loss", "0.weight"], HookOptionError, "did you mean 'param:0.weight'"),
        ("param:0.wieght", HookOptionError, "did you mean 'param:0.weight'"),
        ("output:5", HookOptionError, "did you mean 'output:[0-3]?'"),
        ({"a": 3}, HookTypeError, "fetches 3; fetch names"),
    ],
)
@both
def test_a_name_of_nothing_is_refused_before_the_step(
    library: str, fetches: Any, error: type[Exception], says: str
) -> None:
    runner = runner_of(library, hooks=[Fetch(fetches)])
    before = runner.backend.state(runner.model)
    with pytest.raises(error, match=f"the session hook Fetch fetches .*{says.replace('fetches 3;', '3;')}"):
        runner.fit(loader())
    assert same(runner.backend.state(runner.model), before) and runner.iter == 0
    with MonitoredTrainingSession(runner_of(library), loader()) as session:
        with pytest.raises(error, match="session.run fetches"):
            session.run(fetches)
        assert session.run("global_step") == 0  # it was no step, and the session goes on


def test_wrong_answers_of_before_run_are_refused() -> None:
    class Wrong(SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return ["loss"]

    runner = plain(hooks=[Wrong()])
    with pytest.raises(HookAnswerError, match="Wrong returned a list of 1 item; return SessionRunArgs"):
        runner.fit([1.0])


# Feeds


@pytest.mark.parametrize(
    ("batch", "feed", "becomes"),
    [
        ({"a": 1, "b": 2}, {"b": 5}, {"a": 1, "b": 5}),
        ((1, 2), {1: 5, 0: 4}, (4, 5)),
        ([1, 2, 3], {2: 5}, [1, 2, 5]),
        (Pair(1, 2), {1: 5}, Pair(1, 5)),
    ],
)
@pytest.mark.parametrize("by", ["hook", "caller"])
def test_feeds_replace_entries_of_the_batch(batch: Any, feed: Any, becomes: Any, by: str) -> None:
    seen: list[Any] = []

    class Sees(Model):
        def train_step(self, batch: Any, optimizer: Any) -> Any:
            seen.append(batch)
            return super().train_step(1.0, optimizer)

    with MonitoredTrainingSession(
        plain(Sees()), [batch] * 2, hooks=[Trail("hook", [], feed=feed)] if by == "hook" else []
    ) as session:
        for _ in range(2):
            session.run(feed=feed if by == "caller" else None)
    assert seen == [becomes] * 2 and type(seen[0]) is type(becomes)


def test_two_feeds_of_one_entry_are_refused() -> None:
    runner = plain(hooks=[Trail("hook", [], feed={0: number}) for number in (1.0, 2.0)])
    with pytest.raises(RuntimeError, match="Trail feeds 0, which the session hook Trail feeds too"):
        runner.fit([(1.0, 2.0)])


@pytest.mark.parametrize(
    ("batch", "feed", "says"),
    [
        ({"image": 1}, {"imgae": 2}, "feeds 'imgae', .* no such entry; it has: 'image'; did you mean 'image'"),
        ((1, 2), {2: 3}, "feeds 2, and the batch has no such entry; it has: 0, 1"),
        (1.0, {0: 3}, "it has: none"),
    ],
)
def test_an_entry_that_is_not_there_is_refused(batch: Any, feed: Any, says: str) -> None:
    runner = plain(hooks=[Trail("hook", [], feed=feed)])
    with pytest.raises(HookOptionError, match=says):
        runner.fit([batch])
    with MonitoredTrainingSession(plain(), [batch]) as session:
        with pytest.raises(HookOptionError, match=f"the caller of the step .*{says}"):
            session.run(feed=feed)
        assert session.should_stop()
