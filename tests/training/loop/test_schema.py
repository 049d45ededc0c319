"""The state in a checkpoint is checked before anything of the run is changed by it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook.training import Runner, TrainingError
from aspecthook.training.checkpoint import load, save
from tests.training.kit import LIBRARIES, data, model_of, run_of

GONE = object()

# A place in the state, the value that is put there, and a word of the message.
WRONG = [
    (("model",), 3, "model"),
    (("model",), GONE, "not a checkpoint of a run"),
    (("model", "0.weight"), "text", "0.weight"),
    (("model", "0.weight"), np.zeros((4, 3), np.int8), "int8"),
    (("model", "0.weight"), np.zeros((4, 3), bool), "bool"),
    (("model", "0.weight"), np.zeros((3, 4), np.float32), "shape"),
    (("progress",), GONE, "progress"),
    (("progress",), [], "progress"),
    (("progress", "epoch"), -1_000_000_000, "epoch"),
    (("progress", "epoch"), 10**30, "epoch"),
    (
        ("progress", "epoch"),
        1.5,
        "progress['epoch'] in this checkpoint is 1.5, and not a number from 0 up; no run saves",
    ),
    (("progress", "iter"), True, "iter"),
    (("progress", "inner_iter"), GONE, "inner_iter"),
    (("optimizer",), [1], "optimizer"),
    (("optimizer", "type"), 3, "type"),
    (("optimizer", "state"), GONE, "state"),
    (("optimizer", "state", "state"), 3, "state"),
    (("optimizer", "state", "param_groups"), 3, "param_groups"),
    (("optimizer", "state", "param_groups", 0), {}, "param_groups"),
    (("optimizer", "state", "param_groups", 0, "lr"), None, "the optimizer's 'lr' in this checkpoint is None"),
    (("optimizer", "state", "param_groups", 0, "momentum"), "0.9", "of 3 characters, and not a number"),
    (("optimizer", "state", "param_groups", 0, "weight_decay"), {}, "and not a number"),
    (("gradients",), 3, "gradients"),
    (("gradients",), {"0.weight": "x"}, "gradients"),
    (
        ("gradients",),
        {"0.weight": np.zeros(9)},
        "gradients['0.weight'] in this checkpoint has the shape (9,), and the parameter",
    ),
    (("logs",), GONE, "logs"),
    (("logs",), {"loss": None}, "loss"),
    (("hooks",), GONE, "hooks"),
    (("hooks",), {"EMAHook": 3}, "EMAHook"),
    (("amp",), 3, "amp"),
    (("random",), GONE, "random"),
    (("random", "python", "state"), np.zeros(3, np.uint32), "random"),
    (("random", "python", "version"), 99, "random"),
    (("random", "numpy", "pos"), "x", "'random' in this checkpoint is not the state of the generators of "),
    (("random", "own"), {"bit_generator": "MT19937"}, "random"),
]


def put(tree: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        tree = tree[key]
    if value is GONE:
        del tree[place[-1]]
    else:
        tree[place[-1]] = value


def trained(library: str) -> Runner:
    runner = run_of(library)
    runner.fit(data(3))
    return runner


def frozen(runner: Runner) -> str:
    state = runner.state_dict()
    del state["meta"]["saved"]
    with np.printoptions(threshold=10**9):
        return repr(state)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_state_that_no_run_saves_is_refused_and_changes_nothing(library: str, tmp_path: Path) -> None:
    """It was a bare KeyError or TypeError, after a part of the state was restored; and int8 weights were taken."""
    good = load(trained(library).save_checkpoint(tmp_path / "good.ckpt"))
    runner = run_of(library)
    before = frozen(runner)
    for place, value, word in WRONG:
        bad = deepcopy(good)
        put(bad, place, value)
        save(tmp_path / "bad.ckpt", bad)
        with pytest.raises(TrainingError) as caught:
            runner.resume(tmp_path / "bad.ckpt")
        assert word in str(caught.value), (place, caught.value)
        assert frozen(runner) == before and not runner.resumed, place
    runner.resume(tmp_path / "good.ckpt")
    assert runner.epoch == 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_weights_of_another_precision_are_loaded(library: str, tmp_path: Path) -> None:
    good = load(trained(library).save_checkpoint(tmp_path / "good.ckpt"))
    wide = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in good["model"].items()
    }
    save(tmp_path / "wide.ckpt", {**good, "model": wide})
    runner = run_of(library)
    runner.resume(tmp_path / "wide.ckpt")
    narrow = runner.backend.state(runner.model)
    assert all(np.allclose(narrow[name], array) for name, array in wide.items())


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("betas", [(0.9, None), None, (0.9,)])
def test_betas_that_are_no_numbers_are_refused(betas: object, library: str) -> None:
    """A None in the groups of the optimizer was restored, and the first step failed."""
    if library == "torch":
        from torch.optim import Adam
    else:
        from aspecthook.training.numpy import Adam

    model = model_of(library)
    runner = run_of(library, model)
    runner.optimizer = Adam(model.parameters(), lr=0.1)
    state = runner.state_dict()
    runner.restore(deepcopy(state), resume=True)
    state["optimizer"]["state"]["param_groups"][0]["betas"] = betas
    with pytest.raises(TrainingError, match="the optimizer's 'betas' in this checkpoint is .*nothing was changed"):
        runner.restore(state, resume=True)
