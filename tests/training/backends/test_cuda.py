"""Training on a GPU; skipped where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aspecthook.training import CheckpointHook
from tests.training.kit import run_of, same, state, with_torch


def batches() -> list[Any]:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 3, generator=generator), torch.randn(8, 2, generator=generator)) for _ in range(4)]


@with_torch
@pytest.mark.parametrize("amp", [False, True])
def test_a_run_on_a_gpu_is_resumed_bit_for_bit(amp: bool, tmp_path: Path) -> None:
    data = batches()
    whole = run_of("torch", hooks=[CheckpointHook(3, by_epoch=False)], amp=amp, work_dir=tmp_path, device="cuda:0")
    whole.fit(data)
    assert {parameter.device.type for parameter in whole.model.parameters()} == {"cuda"}
    again = run_of("torch", amp=amp, device="cuda:0")
    again.resume(tmp_path / "iter_3.safetensors")
    again.fit(data)
    assert same(state(whole), state(again))
    if amp:
        assert whole.amp.state_dict() == again.amp.state_dict() != {}
