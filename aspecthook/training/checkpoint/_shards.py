"""The tensors that are divided among ranks: each rank writes and reads its own shards of them.

PyTorch's distributed checkpoint does that, with safetensors files in a folder beside the checkpoint. The checkpoint
names the folder, its files with their checksums, and where each tensor belongs. It is written last, so that it is
complete if it is there. A kill before that leaves a folder that no checkpoint names, and that `remove_shards` removes.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from glob import escape
from importlib import import_module
from math import prod
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import all_gather, broadcast, process_group
from aspecthook.training.backends._state import is_any, is_sharded
from aspecthook.training.loop._run import Run

from ._format import SHARDS, names_shards, oldest_first, shards_of

# Any, in what follows: tensors of PyTorch, which need not be installed, and the values of checkpoints.
Place: TypeAlias = tuple[Any, ...]


def write_shards(path: Path, checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Write what is sharded, and return the checkpoint without it; if something is, all ranks call this together."""
    found = dict(_sharded(checkpoint, ()))
    if not found:
        return checkpoint
    leader = _rank_and_ranks()[0] == 0
    if leader:
        remove_shards(path)
    folder = path.with_name(f"{path.stem}{SHARDS}{broadcast(token_hex(4))}")
    tensors = {".".join(map(str, place)): tensor for place, tensor in found.items()}
    dcp: Any = import_module("torch.distributed.checkpoint")
    try:
        with _clear_errors(f"the shards of the checkpoint {path} could not be saved"):
            dcp.save(tensors, storage_writer=dcp.HuggingFaceStorageWriter(folder, save_distributed=True))
        files = _checksums(folder, broadcast(sorted(os.listdir(folder)) if leader else []))
    except BaseException:
        if leader:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    rows = {
        name: {"place": list(place), "shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
        for (place, tensor), name in zip(found.items(), tensors, strict=True)
    }
    return {**_without(checkpoint), "shards": {"folder": folder.name, "files": files, "tensors": rows}}


def read_shards(path: Path, checkpoint: dict[str, Any], run: Run, *, resume: bool) -> dict[str, Any]:
    """Put what is sharded back into a checkpoint: divided as the run has it, or whole; all ranks call this together."""
    if "shards" not in checkpoint:
        return checkpoint
    torch: Any = import_module("torch")
    with _clear_errors(f"the shards of the checkpoint {path} could not be loaded"):
        shards = checkpoint.pop("shards")
        folder = path.with_name(_checked_name(shards["folder"]))
        _check_files(folder, shards["files"])
        layout = _layout(run)
        tensors: dict[str, Any] = {}
        for name, row in shards["tensors"].items():
            place, shape, dtype = row["place"], tuple(row["shape"]), getattr(torch, row["dtype"])
            if resume or place[0] == "model":
                like = layout(place)
                if like is None or not is_sharded(like) or tuple(like.shape) != shape:
                    _check_size(folder, prod(shape) * dtype.itemsize)
                    like = torch.empty(shape, dtype=dtype, device="meta")
                device = like.device if is_sharded(like) else "cpu"
                tensors[name] = torch.empty_like(like, dtype=dtype, device=device)
        dcp: Any = import_module("torch.distributed.checkpoint")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there is a single process
            dcp.load(tensors, storage_reader=dcp.HuggingFaceStorageReader(folder), no_dist=process_group() is None)
        for name, tensor in tensors.items():
            *outer, last = shards["tensors"][name]["place"]
            holder: Any = checkpoint
            for key in outer:
                holder = holder[key]
            holder[last] = tensor if is_sharded(tensor) else run.backend.to_array(tensor)
    return checkpoint


def remove_shards(path: Path) -> None:
    """Remove the folders that were written for a checkpoint, and that no checkpoint beside it names."""
    found = list(path.parent.glob(f"{escape(path.stem)}{SHARDS}*"))
    used = [shards_of(file) for file in oldest_first(path.parent)] if found else []
    for folder in found:
        if folder.name not in used:
            shutil.rmtree(folder, ignore_errors=True)


def _sharded(value: Any, place: Place) -> Generator[tuple[Place, Any]]:
    """Yield the places of what is sharded in a tree, and the tensors."""
    if is_any(value, Mapping):
        for key, one in value.items():
            yield from _sharded(one, (*place, key))
    elif is_any(value, list):
        for number, one in enumerate(value):
            yield from _sharded(one, (*place, number))
    elif is_sharded(value):
        yield place, value


def _without(value: Any) -> Any:
    """Return a tree with None in place of what is sharded."""
    if is_any(value, Mapping):
        return {key: _without(one) for key, one in value.items()}
    if is_any(value, list):
        return [_without(one) for one in value]
    return None if is_sharded(value) else value


def _layout(run: Run) -> Callable[[list[Any]], Any]:
    """Return a function that returns the tensor of a run which a place in a checkpoint is divided like, if any."""
    tensors = run.backend.tensors(run.model)
    groups: list[Any] = [] if run.optimizer is None else run.optimizer.param_groups
    parameters = dict(enumerate(parameter for group in groups for parameter in group["params"]))

    def like(place: list[Any]) -> Any:
        if place[:3] == ["optimizer", "state", "state"]:
            return parameters.get(place[3])
        return tensors.get(place[-1])

    return like


def _checked_name(name: object) -> str:
    if not names_shards(name):
        raise TrainingError(f"its folder of shards is {brief(name)}, which no run writes; load another checkpoint")
    return name


def _check_files(folder: Path, files: Mapping[str, str]) -> None:
    """Raise, on all ranks, if a file is missing or damaged, or was added."""
    names = sorted(files)
    found = _checksums(folder, names)
    here = {name for name in os.listdir(folder) if name.endswith(".safetensors")} if folder.is_dir() else set[str]()
    wrong = [name for name in sorted(here | set(names)) if found.get(name, "") != files.get(name)]
    if wrong:
        raise TrainingError(
            f"in {folder}, these files are missing, damaged, or not of this checkpoint: {', '.join(wrong)}; copy the "
            "folder again, or load another checkpoint"
        )


def _checksums(folder: Path, names: list[str]) -> dict[str, str]:
    """Return the checksums of files, "" for one that cannot be read; each rank reads some of them."""
    from xxhash import xxh3_128

    rank, ranks = _rank_and_ranks()
    sums: dict[str, str] = {}
    for name in names[rank::ranks]:
        made, sums[name] = xxh3_128(), ""
        try:
            with (folder / Path(name).name).open("rb") as file:
                while block := file.read(1 << 20):
                    made.update(block)
            sums[name] = made.hexdigest()
        except OSError:
            pass
    return {name: one for share in all_gather(sums) for name, one in share.items()}


def _check_size(folder: Path, size: int) -> None:
    if size > sum(file.stat().st_size for file in folder.iterdir()):
        raise TrainingError(f"it names tensors of {size} bytes, which is more than its files have; load another one")


def _rank_and_ranks() -> tuple[int, int]:
    group = process_group()
    return (0, 1) if group is None else (group.get_rank(), group.get_world_size())


@contextmanager
def _clear_errors(what: str) -> Generator[None]:
    """Raise a `TrainingError` for what PyTorch and a malformed checkpoint raise."""
    try:
        yield
    except (OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, TrainingError):
            raise
        raise TrainingError(f"{what}: {brief(error)}") from error
    except BaseException as error:
        # What a rank has raised, for all of them; it is not an Exception.
        if type(error).__name__ != "CheckpointException":
            raise
        raise TrainingError(f"{what}: {brief(error)}") from error
