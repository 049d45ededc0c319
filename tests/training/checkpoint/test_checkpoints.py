"""Checkpoints: what is saved comes back, bit for bit; a file stands whole or not at all; no stranger is let in."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import resource
import stat
import struct
import threading
import zipfile
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from aspecthook.training import TrainingError
from aspecthook.training.checkpoint import load, newest, save
from aspecthook.training.checkpoint._format import sealed
from tests.threads import at_once

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8"]
OTHERS = ["c16", "S3", "U3", "O", "M8[s]", "m8[s]", "V2", "g", [("a", "f4")]]


def bits(value: Any) -> Any:
    """Return what two values share only if they are the same to the bit, types included."""
    if isinstance(value, np.ndarray):
        assert value.dtype.isnative
        return "array", value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return type(value).__name__, value.tobytes()
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, dict):
        return "dict", [(bits(key), bits(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [bits(one) for one in value]
    return type(value).__name__, value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "epoch_1.safetensors"


# What comes back

FLOATS = st.floats(allow_nan=False) | st.just(float("nan"))  # JSON has one NaN
TEXTS = st.text(st.characters(exclude_categories=()))  # surrogates too
PLAIN = st.none() | st.booleans() | st.integers() | st.integers(-(2**200), 2**200) | FLOATS | TEXTS
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays_of.arrays(np.dtype(dtype), arrays_of.array_shapes(min_dims=0, min_side=0, max_side=4))
)
SCALARS = ARRAYS.filter(lambda array: array.size).map(lambda array: array.reshape(-1)[0])
KEYS = TEXTS | st.sampled_from(["$array", "$", "a.b", "a", "__metadata__", ""]) | st.integers() | FLOATS | st.none()
TREES = st.recursive(
    PLAIN | ARRAYS | SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS | st.booleans(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(checkpoint=st.dictionaries(KEYS, TREES, max_size=5))
@example(checkpoint={"a": {"b": np.zeros(1)}, "a.b": np.ones(1), "__metadata__": np.ones(2)})
@example(checkpoint={"$tuple": [1], "deep": {"$array": "x", "other": 1}})
@example(checkpoint={"-0": -0.0, "nan": float("nan"), "inf": -float("inf")})
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_saved_tree_is_loaded_bit_for_bit(checkpoint: dict[Any, Any], path: Path) -> None:
    save(path, checkpoint)
    assert bits(load(path)) == bits(checkpoint)


LAYOUTS: list[Callable[[Any], Any]] = [
    lambda array: array,
    lambda array: array.T,
    lambda array: array[::-1],
    lambda array: array[:, ::2],
    lambda array: array[:, 1][::-1],
    lambda array: np.asfortranarray(array),
    lambda array: array.astype(array.dtype.newbyteorder(">"))[:, 1:].T,
    lambda array: np.broadcast_to(array[0], (5, array.shape[1])),
    lambda array: array.reshape(2, 2, 3)[:, 0],
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_any_memory_layout_are_saved(dtype: str, layout: Callable[[Any], Any], path: Path) -> None:
    # safetensors itself writes the memory that an array begins with, whatever its strides.
    array = layout(np.arange(12).reshape(4, 3).astype(dtype))
    array.flags.writeable = False
    save(path, {"array": array})
    back = load(path)["array"]
    assert np.array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")


class Level(IntEnum):
    LOW = 2


Point = namedtuple("Point", "x y")


def test_subclasses_come_back_as_their_plain_types(path: Path) -> None:
    save(path, {"a": OrderedDict(b=Level.LOW), "c": Point(1, 2), "d": np.str_("e"), "f": MappingProxyType({"g": True})})
    assert bits(load(path)) == bits({"a": {"b": 2}, "c": (1, 2), "d": "e", "f": {"g": True}})


def test_the_file_is_one_that_safetensors_reads_and_names_the_arrays_by_their_place(path: Path) -> None:
    save(path, {"model": {"conv.weight": np.ones((2, 3), "f4")}, "groups": [{"momentum": np.zeros(2)}]})
    with safetensors.safe_open(path, framework="numpy") as file:
        assert sorted(file.keys()) == ["groups.0.momentum", "model.conv.weight"]
        assert file.get_tensor("model.conv.weight").tolist() == [[1, 1, 1], [1, 1, 1]]
        metadata = file.metadata()
    tree = metadata["aspecthook.checkpoint.2"].split(" ", 2)[2]
    assert json.loads(tree)["model"] == {"conv.weight": {"$array": "model.conv.weight"}}


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        ({"hooks": {"Ema": [1, {2, 3}]}}, ["checkpoint['hooks']['Ema'][1] is {2, 3}; a checkpoint can hold dicts"]),
        ({"a": {"b": 1 + 2j}}, ["checkpoint['a']['b'] is (1+2j)"]),
        ({"a": b"x"}, ["checkpoint['a'] is b'x'"]),
        ({"a": threading.Lock()}, ["checkpoint['a'] is <_thread.lock object>"]),
        ({"a": {(1, 2): 3}}, ["checkpoint['a'] has the key (1, 2); the keys"]),
        ({"a": {np.int64(1): 3}}, ["checkpoint['a'] has the key <numpy.int64 object>"]),
        ({"a": np.ma.masked_array([1.0], [True])}, ["checkpoint['a'] is <numpy.ma.MaskedArray object>"]),
        *[({"a": [np.zeros(2, dtype)]}, ["checkpoint['a'][0]", "an array of the type"]) for dtype in OTHERS],
        ({"a": np.longdouble(1)}, ["checkpoint['a']", "an array of the type"]),
    ],
)
def test_a_value_that_cannot_be_saved_is_refused_with_its_place(
    checkpoint: dict[str, Any], said: list[str], path: Path
) -> None:
    save(path, {"old": True})
    with pytest.raises(TrainingError) as caught:
        save(path, checkpoint)
    assert [text for text in said if text not in str(caught.value)] == []
    assert load(path) == {"old": True}


def test_a_tree_that_contains_itself_is_refused(path: Path) -> None:
    tree: dict[str, Any] = {}
    tree["me"] = [tree]
    with pytest.raises(TrainingError, match="more than 100 levels deep; does it contain itself"):
        save(path, tree)


@pytest.mark.parametrize("wrap", [lambda one: {"a": one}, lambda one: [one], lambda one: (one,), lambda one: {1: one}])
def test_the_deepest_tree_that_is_saved_is_loaded(wrap: Callable[[Any], Any], path: Path) -> None:
    tree: Any = 1
    for _ in range(99):
        tree = wrap(tree)
    save(path, {"tree": tree})
    assert load(path) == {"tree": tree}


def test_values_replacing_the_arrays_may_not_take_more_than_safetensors_reads(path: Path) -> None:
    with pytest.raises(TrainingError, match="this checkpoint takes 1[0-9]* bytes, .* convert long lists of numbers"):
        save(path, {"text": "x" * 100_000_000})
    assert os.listdir(path.parent) == []


# Strangers


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_not_executed(protocol: int, path: Path, tmp_path: Path) -> None:
    bomb = tmp_path / "gone off"
    path.write_bytes(pickle.dumps({"model": Bomb(bomb)}, protocol))
    with pytest.raises(TrainingError, match=r"epoch_1.safetensors is (a pickle|not a safetensors file)"):
        load(path)
    assert not bomb.exists()
    pickle.loads(path.read_bytes())
    assert bomb.exists()  # it was live


def forged(tree: object = None) -> bytes:
    """Make a file with any tree, which `save` would not write."""
    from safetensors.numpy import save as saved

    arrays = {"a": np.zeros(2)}
    return bytes(saved(arrays, sealed(tree if isinstance(tree, str) else json.dumps(tree), arrays)))


def header(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


def zipped() -> bytes:
    from io import BytesIO

    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data.pkl", b"x")
    return file.getvalue()


STRANGERS = {
    "empty": (b"", "is empty; name another file"),
    "text": (b"epoch = 3\nlr = 0.1\n", "is not a safetensors file (it begins with b'epoch = 3')"),
    "zip": (zipped(), "is a pickle, or a zip archive with one"),
    "header beyond the end": (header(b"{}", 3), "is cut short or damaged"),
    "header that is no json": (header(b"{nothing}"), "is cut short or damaged"),
    "other safetensors": (header(b"{}"), "is a safetensors file, but not a checkpoint of this aspecthook"),
    "of another version": (
        header(b'{"__metadata__":{"aspecthook.checkpoint.1":""}}'),
        "is a safetensors file, but not a checkpoint of this aspecthook",
    ),
    "of another checksum": (
        header(b'{"__metadata__":{"aspecthook.checkpoint.2":"x y {}"}}'),
        "is cut short or damaged (its header does not have its checksum",
    ),
    "tree that is no json": (forged("{"), "is cut short or damaged"),
    "tree that is no dict": (forged([1]), "is cut short or damaged (its tree is not a dict)"),
    "array that is not there": (forged({"x": {"$array": "b"}}), "is cut short or damaged (KeyError('b'))"),
    "array twice": (forged([{"$array": "a"}, {"$array": "a"}]), "is cut short or damaged (KeyError('a'))"),
    "unknown kind": (forged({"x": {"$object": "os.system"}}), "is cut short or damaged (KeyError('$object'))"),
    "key that is none": (forged({"x": {"$items": [[[], 1]]}}), "is cut short or damaged"),
    "many digits": (forged('{"x": ' + "9" * 5000 + "}"), "is cut short or damaged"),
    "too deep": (forged('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}"), "is cut short or damaged"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_file_of_another_format_is_refused_by_its_name(name: str, path: Path) -> None:
    content, said = STRANGERS[name]
    path.write_bytes(content)
    with pytest.raises(TrainingError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path} {said}")
    assert ";" in str(caught.value) or "If you trust it" in str(caught.value)  # what to do


WHOLE = {"epoch": 3, "best": float("inf"), "groups": ({"lr": 0.1}, {1: None}), "w": np.arange(3.0), "b": np.int8(3)}


# Damage


def test_every_flipped_bit_and_every_truncation_is_found_and_named(tmp_path: Path) -> None:
    """A flipped bit in a tensor was loaded in silence."""
    made = np.random.Generator(np.random.PCG64(1))
    tree = {"model": {"weight": made.normal(size=(9, 9)), "bias": np.zeros(9, "f4")}, **WHOLE}
    good, bad = tmp_path / "epoch_1", tmp_path / "epoch_2"
    save(good, tree)
    whole = good.read_bytes()
    rng = random.Random(4)
    for number in range(200):
        if number % 2:
            place = rng.randrange(len(whole))
            flipped = bytes([whole[place] ^ 1 << rng.randrange(8)])
            bad.write_bytes(whole[:place] + flipped + whole[place + 1 :])
        else:
            bad.write_bytes(whole[: rng.randrange(1, len(whole))])
        with pytest.raises(TrainingError, match="epoch_2 is (cut|not a safetensors|a safetensors)") as caught:
            load(bad)
        if "damaged" in str(caught.value):
            assert str(caught.value).endswith(f"The newest good checkpoint in its folder is {good}")


def test_the_newest_good_checkpoint_is_offered(tmp_path: Path) -> None:
    for epoch in range(1, 5):
        save(tmp_path / f"epoch_{epoch}", {"w": np.full(100, float(epoch))})
        os.utime(tmp_path / f"epoch_{epoch}", (epoch, epoch))
    for epoch in (3, 4):
        file = tmp_path / f"epoch_{epoch}"
        file.write_bytes(file.read_bytes()[:-1] + b"!")
        os.utime(file, (epoch, epoch))
    with pytest.raises(TrainingError, match=r"epoch_4 is .*arrays do not have.*newest good .* is .*epoch_2$"):
        load(tmp_path / "epoch_4")


def test_a_path_that_is_not_a_regular_file_is_refused_and_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="nowhere does not exist; name another file") as caught:
        load(tmp_path / "nowhere")
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    with pytest.raises(TrainingError, match=r"is not a regular file; name one, or .* by newest\(folder\)"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TrainingError, match="pipe is not a regular file"):
        load(tmp_path / "pipe")
    for path, why in ((tmp_path, "could not be saved: Is a directory"), (tmp_path / "pipe", "is not a regular file")):
        with pytest.raises(TrainingError, match=why):
            save(path, {})
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(TrainingError, match="round cannot be read: "):
        load(tmp_path / "round")


def test_a_file_cut_short_while_it_is_read_is_refused(path: Path) -> None:
    # A mapped file would end the process with SIGBUS here.
    save(path, {"w": np.zeros(10_000)})

    opened = safetensors.safe_open

    def cut(*args: Any, **kwargs: Any) -> Any:
        reader = opened(*args, **kwargs)
        os.truncate(path, 1000)
        return reader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safetensors, "safe_open", cut)
        with pytest.raises(TrainingError, match="is cut short or damaged"):
            load(path)


# Whole or not at all


@contextmanager
def limited(what: int, most: int) -> Iterator[None]:
    before = resource.getrlimit(what)
    resource.setrlimit(what, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


NEW = {"epoch": 2, "model": {"weight": np.arange(40.0), "bias": np.ones(3, "i1")}}


def test_a_disk_that_is_full_at_any_byte_leaves_the_old_checkpoint(path: Path) -> None:
    save(path, NEW)
    size = path.stat().st_size
    save(path, {"epoch": 1})
    for length in range(size):
        # Python ignores the signal, and the kernel writes up to this byte and no further.
        with pytest.raises(TrainingError, match="File too large") as caught, limited(resource.RLIMIT_FSIZE, length):
            save(path, NEW)
        assert str(path) in str(caught.value) and load(path) == {"epoch": 1}
        assert os.listdir(path.parent) == [path.name]
    save(path, NEW)
    assert bits(load(path)) == bits(NEW)


# What a save asks of the system, in the order in which it does.


def test_the_file_is_synced_before_it_is_renamed_and_the_folder_after(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail: list[tuple[str, object]] = []
    fsync, replace = os.fsync, os.replace

    def synced(number: int) -> None:
        status = os.fstat(number)
        trail.append(("sync", status.st_ino))
        if stat.S_ISREG(status.st_mode):
            assert status.st_size > 300  # all is written
        fsync(number)

    def replaced(old: Any, new: Any) -> None:
        trail.append(("rename", os.stat(old).st_ino))
        replace(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", synced)
        patch.setattr(os, "replace", replaced)
        save(path, NEW)
    file, folder = path.stat().st_ino, path.parent.stat().st_ino
    assert trail == [("sync", file), ("rename", file), ("sync", folder)]


def test_concurrent_saves_to_one_file_leave_one_whole_checkpoint(path: Path) -> None:
    def saver(number: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(20):
                save(path, {"number": number, "w": np.full(500, number)})
                checkpoint = load(path)
                assert (checkpoint["w"] == checkpoint["number"]).all()

        return work

    at_once(*[saver(number) for number in range(4)])
    checkpoint = load(path)
    assert (checkpoint["w"] == checkpoint["number"]).all()
    assert os.listdir(path.parent) == [path.name]


# The newest


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 300)), min_size=1, max_size=6))
def test_newest_returns_the_checkpoint_after_the_most_iterations_whatever_its_time(runs: list[tuple[int, int]]) -> None:
    """Of a copied folder, or after a clock was set back, `--resume` continued an older one without a word."""
    with TemporaryDirectory() as folder:
        names = [f"file_{number}{'x' * (number % 3)}" for number in range(len(runs))]
        for name, (done, time) in zip(names, runs, strict=True):
            save(f"{folder}/{name}", {"progress": {"iter": done}})
            os.utime(f"{folder}/{name}", (time, time))
        furthest = max((*run, len(name), name) for name, run in zip(names, runs, strict=True))
        assert newest(folder) == Path(folder, furthest[-1])


def test_newest_ignores_other_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path / "epoch_1", {"epoch": 1})
    os.utime(tmp_path / "epoch_1", (100, 100))
    (tmp_path / "log.txt").write_text("epoch 2")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "nothing").symlink_to(tmp_path / "nowhere")
    (tmp_path / "model.safetensors").write_bytes(STRANGERS["other safetensors"][0])
    (tmp_path / "torch.pth").write_bytes(STRANGERS["zip"][0])
    save(tmp_path / ".saving-1", {"epoch": 3})
    os.mkfifo(tmp_path / "pipe")
    with caplog.at_level(logging.WARNING):
        assert newest(tmp_path) == tmp_path / "epoch_1"
    assert caplog.messages == []


def test_newest_warns_of_a_checkpoint_that_it_cannot_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2, 3):
        save(tmp_path / f"epoch_{number}.safetensors", {"progress": {"iter": number}})
    os.truncate(tmp_path / "epoch_2.safetensors", 0)
    os.truncate(tmp_path / "epoch_3.safetensors", 100)
    with caplog.at_level(logging.WARNING):
        assert newest(tmp_path) == tmp_path / "epoch_1.safetensors"
    empty, cut = sorted(caplog.messages)
    assert empty.startswith(f"ignored: {tmp_path / 'epoch_2.safetensors'} is empty")
    assert cut.startswith(f"ignored: {tmp_path / 'epoch_3.safetensors'} is cut short or damaged")


def test_newest_returns_none_without_a_checkpoint(tmp_path: Path) -> None:
    assert newest(tmp_path) is None
    assert newest(tmp_path / "nowhere") is None
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="file cannot be searched for checkpoints: Not a directory"):
        newest(tmp_path / "file")
