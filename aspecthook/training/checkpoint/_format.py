"""The checkpoint format: a tree of plain values and arrays in one safetensors file.

The tensors of the file are the arrays; its metadata hold the tree as JSON, where a dict with a single key that begins
with ``$`` stands for a value that JSON lacks. Loading a file never runs code from it, and takes no more memory than the
file has bytes on disk. Each tensor has a checksum, and so have the tree and the list of these: they find damage, but
not forgery, for which a key would be needed.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import stat
import struct
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from aspecthook._errors import brief, printable
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any

from ._files import allocate, replacing, write
from ._identity import identity_in, identity_of

if TYPE_CHECKING:
    from io import FileIO

    from numpy.typing import NDArray
    from xxhash import xxh3_128

    Arrays: TypeAlias = dict[str, NDArray[Any]]

AnyPath: TypeAlias = str | os.PathLike[str]
Json: TypeAlias = "str | float | list[Json] | dict[str, Json] | None"

_FORMAT, _VERSION = "aspecthook.checkpoint", 1
_SUFFIXES = (".safetensors", ".ckpt")  # of the files that a run saves
# The names of NumPy's types in safetensors.
_DTYPES = {
    "bool": "BOOL",
    **{f"int{size}": f"I{size}" for size in (8, 16, 32, 64)},
    **{f"uint{size}": f"U{size}" for size in (8, 16, 32, 64)},
    **{f"float{size}": f"F{size}" for size in (16, 32, 64)},
    "complex64": "C64",
}
_LONGEST = 25_000_000  # bytes of the header
_MOST = 1_000_000  # values in the tree: each may take a hundred times the memory of its text
_SPARSE = 16  # how many times as long as its data on disk a file may be: file systems compress
_DEEPEST = 100  # well below the recursion limits of Python and its `json`
_BLOCK = 1 << 20  # bytes that are written at a time
_EXACT = 2**53  # some readers of JSON round greater ints


def save(path: AnyPath, checkpoint: Mapping[str, object]) -> None:
    """Write a checkpoint atomically: readers, even after a crash, find the old file or the new one, never a part.

    Symlinks are followed, and missing folders are made.

    Args:
        path: The file.
        checkpoint: A tree of dicts, lists, tuples, strings, numbers, bools, None, and NumPy's arrays and scalars of the
            types that safetensors has. Keys may be strings, numbers, bools or None. `load` returns the same tree, bit
            for bit, with instances of subclasses as plain types and arrays in the byte order of the machine.

    Raises:
        TrainingError: A value cannot be saved (the message says where it is), or the file could not be written. A file
            that was there before is unchanged.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(f"{folder}/epoch_1.safetensors", {"epoch": 1, "weight": np.ones(2)})
        ...     load(f"{folder}/epoch_1.safetensors")
        {'epoch': 1, 'weight': array([1., 1.])}
    """
    write_packed(path, *packed(checkpoint))


def packed(checkpoint: Mapping[str, object]) -> tuple[str, Arrays]:
    """Return the tree of a checkpoint as text, and its arrays, which are not copied if they need not be."""
    arrays: Arrays = {}
    tree = _dumped(_frozen(dict(checkpoint), (), arrays))
    if (count := _values_in(tree)) > _MOST:
        raise TrainingError(
            f"without its arrays, this checkpoint has some {count} values, and {_MOST} are allowed; convert long lists "
            "of numbers to arrays"
        )
    return tree, arrays


def write_packed(path: AnyPath, tree: str, arrays: Arrays) -> None:
    """Write what `packed` has returned."""
    # The widest types first, so that each array is aligned.
    arrays = dict(sorted(arrays.items(), key=lambda row: -row[1].itemsize))
    # The header has the checksums, so it is written last; they have one length.
    begin = len(_header(sealed(tree, dict.fromkeys(arrays, _text_checksum())), arrays))
    try:
        with replacing(path) as file:
            allocate(file, begin + sum(array.nbytes for array in arrays.values()))
            file.seek(begin)
            sums = _written(file, arrays)
            file.seek(0)
            write(file, memoryview(_header(sealed(tree, sums), arrays)))
    except OSError as error:
        raise TrainingError(
            f"the checkpoint {os.fspath(path)} could not be saved: {error.strerror}; no partial file is left. Free "
            "some space, check the permissions, or give another path"
        ) from error


def _written(file: FileIO, arrays: Arrays) -> dict[str, str]:
    """Write arrays, and return their checksums.

    Both are of a copy in the processor's cache: another thread or process may be changing an array meanwhile, and the
    file would have another checksum than bytes.
    """
    import numpy as np

    sums: dict[str, str] = {}
    buffer = np.empty(_BLOCK, "u1")
    for name, array in arrays.items():
        made, data = _checksum_of(array), array.reshape(-1).view("u1")
        for begin in range(0, data.size, _BLOCK):
            block = buffer[: min(_BLOCK, data.size - begin)]
            block[:] = data[begin : begin + _BLOCK]
            made.update(block.data)
            write(file, block.data)
        sums[name] = made.hexdigest()
    return sums


def load(path: AnyPath, *, max_bytes: int | None = None) -> dict[str, Any]:  # Any: whatever was saved
    """Return the tree that was saved.

    Args:
        path: The file.
        max_bytes: The longest file that is read. If it is not given, a file that is mostly holes is refused.

    Raises:
        TrainingError: The file is missing or damaged, or is something else, such as a pickle. For a damaged one, the
            newest good checkpoint in its folder is named.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     load(file.name)
        Traceback (most recent call last):
          ...
        aspecthook.training.TrainingError: ... is empty; name another file
    """
    file = Path(path)
    try:
        with _opened(file, max_bytes) as (tree, tensors):
            return _thawed_root(tree, tensors)
    except _NoCheckpointError as error:
        raise TrainingError(f"{file} {error}{_good_one_beside(file) if error.ours else ''}") from error.__cause__


def newest(folder: AnyPath) -> Path | None:
    """Return the checkpoint of a folder that is furthest in its run; None if there is none, or no such folder.

    That is the one after the most iterations: times of files change when a folder is copied, or a clock is set back.
    They decide only between two after equally many iterations, and then the higher number in the name. Other files
    are ignored, and so are checkpoints that are damaged or cannot be read, with a warning in the log. If the folder is
    that of a run, checkpoints of other runs are ignored too.

    Raises:
        TrainingError: The folder is a file, or cannot be read; or what names its run is damaged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for epoch in (9, 10):
        ...         save(f"{folder}/epoch_{epoch}.safetensors", {"epoch": epoch})
        ...     newest(folder).name
        'epoch_10.safetensors'
    """
    return next(iter(_furthest_first(Path(folder), logging.getLogger("aspecthook.training"))), None)


def _furthest_first(folder: Path, logger: logging.Logger | None = None) -> list[Path]:
    """Return the checkpoints in a folder of its run; tell a logger about those that are ignored."""
    owner = identity_in(folder)
    found: list[tuple[int, Path]] = []
    for file in reversed(oldest_first(folder)):
        try:
            origin = _origin(file)
        except _NoCheckpointError as error:
            if error.ours and logger is not None:
                logger.warning("ignored: %s %s", file, error)
            continue
        if owner is None or origin.run in ("", owner):
            found.append((origin.iter, file))
        elif logger is not None:
            logger.info("ignored: %s is a checkpoint of another run", file)
    return [file for _, file in sorted(found, key=lambda one: one[0], reverse=True)]  # a stable sort: the newest first


class Origin(NamedTuple):
    """The run that has saved a checkpoint, "" if it names none, and after how many iterations, -1 if it has no run."""

    run: str
    iter: int


def _origin(path: Path) -> Origin:
    with _opened(path) as (text, _):
        try:
            tree: Any = json.loads(text)
        except (ValueError, RecursionError):  # `load` says what is wrong with it
            tree = {}
    progress: Any = tree.get("progress") if is_any(tree, dict) else None
    count: Any = progress.get("iter") if is_any(progress, dict) else None
    return Origin(identity_of(tree) or "", count if is_any(count, int) else -1)


def origin_of(path: Path) -> Origin | None:
    """Return where a checkpoint is from; None if it is not complete."""
    try:
        return _origin(path)
    except _NoCheckpointError:
        return None


def is_checkpoint(path: AnyPath) -> bool:
    """Whether a file is a complete checkpoint; only its header is read.

    Example:
        >>> is_checkpoint("nowhere.safetensors")
        False
    """
    return origin_of(Path(path)) is not None


def saved_by(path: Path) -> str | None:
    """Return the identity of the run that has saved a checkpoint; "" if it names none, None if it is not complete."""
    origin = origin_of(path)
    return None if origin is None else origin.run


# The tree


def _frozen(value: Any, place: tuple[object, ...], arrays: Arrays) -> Any:
    """Return a value as JSON; its arrays are added to `arrays`."""
    import numpy as np

    if len(place) > _DEEPEST:
        raise TrainingError(f"{_shown(place[:4])}… is nested more than {_DEEPEST} levels deep; does it contain itself?")
    if isinstance(value, np.generic) and not isinstance(value, str):  # its float64 is also a float, its str_ a str
        array = _little_endian(value, place)
        return {"$scalar": [array.dtype.name, array.tobytes().hex()]}
    if value is None or isinstance(value, (str, int, float)):
        return _frozen_plain(value)
    if isinstance(value, Mapping):
        return _frozen_dict(value, place, arrays)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        values = cast("list[Any]", value)
        rows = [_frozen(one, (*place, number), arrays) for number, one in enumerate(values)]
        return rows if isinstance(value, list) else {"$tuple": rows}
    if type(value) in (np.ndarray, np.memmap):  # no subclasses: a masked array would lose its mask
        name = _free_name(place, arrays)
        arrays[name] = _little_endian(value, place)
        return {"$array": name}
    raise TrainingError(
        f"{_shown(place)} is of the type {_type_name(value)}, {brief(value)}; a checkpoint can hold dicts, lists, "
        "tuples, strings, numbers, bools, None and NumPy's arrays; convert it, or leave it out"
    )


def _frozen_plain(value: str | float | None) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_EXACT < value < _EXACT else {"$int": hex(value)}
    return float(value) if isfinite(value) else {"$float": struct.pack(">d", value).hex()}


def _frozen_dict(value: Mapping[Any, Any], place: tuple[object, ...], arrays: Arrays) -> Any:
    rows = [(_frozen_key(key, place), _frozen(one, (*place, key), arrays)) for key, one in value.items()]
    if all(isinstance(key, str) and not key.startswith("$") for key, _ in rows):
        return dict(rows)
    return {"$items": rows}


def _frozen_key(key: object, place: tuple[object, ...]) -> Any:
    if key is not None and not isinstance(key, (str, int, float, bool)):
        raise TrainingError(
            f"{_shown(place)} has a key of the type {_type_name(key)}, {brief(key)}; the keys of a checkpoint are "
            "strings, numbers, bools or None; convert it"
        )
    return _frozen(key, place, {})


def _little_endian(value: Any, place: tuple[object, ...]) -> NDArray[Any]:
    """Return an array as the file has it: little-endian and contiguous."""
    import numpy as np

    if value.dtype.name not in _DTYPES:
        raise TrainingError(
            f"{_shown(place)} is an array of the type {value.dtype}; safetensors has {', '.join(_DTYPES)}; convert it "
            "with astype(), or keep its bytes with view()"
        )
    wanted = value.dtype.newbyteorder("<")
    # Without a type, since NumPy makes another array for one that is equal but not identical.
    return np.asarray(value, None if value.dtype == wanted else wanted, order="C")


def _free_name(place: tuple[object, ...], taken: Arrays) -> str:
    """Return a name for an array: its place in the tree, so that other programs can list the file."""
    name = ".".join(map(str, place)).encode("utf-8", "backslashreplace").decode()
    again = 1
    while (free := name if again == 1 else f"{name}~{again}") in taken or free == "__metadata__":
        again += 1
    return free


def _shown(place: tuple[object, ...]) -> str:
    return "checkpoint" + "".join(f"[{brief(key, 40)}]" for key in place)


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _thawed_root(text: str, tensors: Any) -> dict[str, Any]:
    try:
        tree: object = _thawed(json.loads(text), dict(_checked(tensors)))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, struct.error) as error:
        raise _damaged(brief(error)) from error
    if not isinstance(tree, dict):
        raise _damaged("its tree is not a dict")
    return tree  # pyright: ignore[reportUnknownVariableType]


def _checked(tensors: Any) -> Generator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a file, each after a check of its type and its checksum."""
    sums: dict[str, str] = json.loads(tensors.metadata()["checksums"])
    names = set(tensors.keys())
    if names != set(sums):
        raise _damaged(f"it has other tensors than checksums: {', '.join(sorted(names ^ set(sums)))}")
    for name in sorted(names):
        array = tensors.get_tensor(name)
        if array.dtype.name not in _DTYPES:  # the package ml_dtypes adds types such as bfloat16 to NumPy
            raise _damaged(f"it has arrays of the type {array.dtype}")
        if checksum(array) != sums[name]:
            raise _damaged(f"the tensor {brief(name)} does not have its checksum")
        yield name, array


def _thawed(value: Json, arrays: Arrays) -> Any:
    """Undo `_frozen`. Each array is removed from `arrays`, so that a forged file cannot use one twice."""
    if isinstance(value, list):
        return [_thawed(one, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    if not any(key.startswith("$") for key in value):
        return {key: _thawed(one, arrays) for key, one in value.items()}
    ((kind, given),) = value.items()
    return _THAWED[kind](given, arrays)


_THAWED: dict[str, Callable[[Any, Arrays], Any]] = {
    "$array": lambda name, arrays: arrays.pop(name),
    "$tuple": lambda rows, arrays: tuple(_thawed(rows, arrays)),
    "$items": lambda pairs, arrays: {_thawed(key, arrays): _thawed(one, arrays) for key, one in pairs},
    "$int": lambda digits, _: int(digits, 16),
    "$float": lambda digits, _: struct.unpack(">d", bytes.fromhex(digits))[0],
    "$scalar": lambda given, _: _scalar(*given),
}


def _scalar(name: str, digits: str) -> Any:
    import numpy as np

    if name not in _DTYPES:  # NumPy accepts other strings as types too
        raise KeyError(name)
    dtype = np.dtype(name)
    (value,) = np.frombuffer(bytes.fromhex(digits), dtype.newbyteorder("<")).astype(dtype)
    return value


# Reading


class _NoCheckpointError(Exception):
    """What is wrong with a file, and what to do; `ours` if it is, or may be, a checkpoint."""

    def __init__(self, text: str, *, ours: bool = False) -> None:
        super().__init__(printable(text))  # it may have names from the file
        self.ours = ours


def _damaged(why: str) -> _NoCheckpointError:
    return _NoCheckpointError(f"is cut short or damaged ({why}); load another, or copy it again", ours=True)


_PICKLE = (
    "is {}, which is not loaded, since loading a pickle runs the code in it. If you trust it, load it yourself and "
    "save its contents with aspecthook.training.checkpoint.save"
)
# The first bytes of files that users may take for checkpoints.
_STRANGERS = {
    b"PK\x03\x04": _PICKLE.format("a zip archive with a pickle, as torch.save makes them"),
    **{b"\x80" + bytes([number]): _PICKLE.format("a pickle") for number in range(2, 6)},
    b"\x89HDF": "is HDF5, as Keras saves models; save it with aspecthook.training.checkpoint.save",
    b"\x93NUMPY": "is a single array of NumPy; save it with aspecthook.training.checkpoint.save",
}


@contextmanager
def _opened(path: Path, max_bytes: int | None = None) -> Generator[tuple[str, Any]]:
    """Yield the tree of a checkpoint, as text, and the reader of its arrays."""
    from safetensors import SafetensorError, safe_open

    try:
        _look_at(path, max_bytes)
        # Not memory-mapped: if another program truncated the file, this one would die of SIGBUS.
        opened: Any = safe_open(path, framework="numpy", backend="pread")
        with opened as tensors:
            yield _tree_text(tensors.metadata() or {}), tensors
    except FileNotFoundError as error:
        raise _NoCheckpointError("does not exist; name another file") from error
    except OSError as error:
        raise _NoCheckpointError(f"cannot be read: {error.strerror}", ours=True) from error
    except SafetensorError as error:
        raise _damaged(str(error)) from error


def _look_at(path: Path, max_bytes: int | None) -> None:
    """Refuse a file that is not safetensors, or too long. A pipe is not opened, which would wait forever."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise _NoCheckpointError("is a folder; name a file, or use newest(folder)")
    if not stat.S_ISREG(status.st_mode):
        raise _NoCheckpointError("is not a regular file; name one")
    if status.st_size == 0:
        raise _NoCheckpointError("is empty; name another file", ours=path.suffix in _SUFFIXES)
    if max_bytes is not None and status.st_size > max_bytes:
        raise _NoCheckpointError(f"has {status.st_size} bytes, more than max_bytes={max_bytes}; allow more, if it may")
    with path.open("rb") as file:
        start, more = file.read(9), file.read(200)
        if max_bytes is None and _is_sparse(file.fileno(), status.st_size):
            raise _damaged(
                f"of its {status.st_size} bytes most are holes, as in a copy that is not complete; if they are not "
                "damage, load it with max_bytes="
            )
    length, header = int.from_bytes(start[:8], "little"), start[8:] + more
    # A text may have a brace there too: its first eight characters make a far greater number than any length.
    is_header = header.startswith(b"{") and (length < 2**32 or _FORMAT.encode() in header)
    if is_header and length > status.st_size - 8:
        raise _damaged(f"it has {status.st_size} bytes, and its header alone would have {length}")
    if is_header and length > _LONGEST:
        raise _damaged(f"its header has {length} bytes, and no checkpoint has more than {_LONGEST}")
    if is_header:
        return
    if _FORMAT.encode() in header:
        raise _damaged("its first bytes")
    for magic, text in _STRANGERS.items():
        if start.startswith(magic):
            raise _NoCheckpointError(text)
    raise _NoCheckpointError(f"is not a safetensors file (it begins with {start!r}); name another file")


def _is_sparse(number: int, size: int) -> bool:
    """Whether most of an open file are holes, for which a reader would take memory all the same."""
    if not hasattr(os, "SEEK_DATA"):
        return False
    place = data = 0
    try:
        while place < size and data * _SPARSE < size:
            place = os.lseek(number, place, os.SEEK_DATA)
            end = os.lseek(number, place, os.SEEK_HOLE)
            place, data = end, data + end - place
    except OSError as error:
        if error.errno != errno.ENXIO:  # it is ENXIO where only a hole is left
            return False
    return data * _SPARSE < size


def _tree_text(metadata: Mapping[str, str]) -> str:
    if metadata.get("format") != _FORMAT and metadata.keys() >= {"checksum", "checksums", "tree"}:
        raise _damaged("its header does not have its checksum")
    if metadata.get("format") != _FORMAT:
        raise _NoCheckpointError(
            "is a safetensors file, but not a checkpoint of aspecthook; if it has the arrays of a model, load them "
            "with safetensors.numpy.load_file"
        )
    version = metadata.get("version")
    if version != str(_VERSION):
        raise _NoCheckpointError(
            f"has version {version} of the format, and this aspecthook reads {_VERSION}; install a newer one"
        )
    tree = metadata.get("tree", "")
    if metadata.get("checksum") != _text_checksum(metadata.get("checksums", ""), tree):
        raise _damaged("its header does not have its checksum")
    if _values_in(tree) > _MOST:
        raise _damaged(f"its tree has more than {_MOST} values, which no checkpoint has")
    return tree


def oldest_first(folder: Path) -> list[Path]:
    """Return the files in a folder, without hidden ones."""
    try:
        return sorted((file for file in folder.iterdir() if not file.name.startswith(".")), key=_age)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TrainingError(f"{folder} cannot be searched for checkpoints: {error.strerror}") from error


def _age(file: Path) -> tuple[int, list[str | int]]:
    """Return a sort key: the time of writing, then the name, with numbers in it compared by value."""
    parts = re.split("([0-9]+)", file.name)
    try:
        time = file.stat().st_mtime_ns
    except OSError:  # removed meanwhile, or a dangling link
        time = 0
    return time, [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _good_one_beside(damaged: Path) -> str:
    """Return the end of a message: which checkpoint to load instead of a damaged one."""
    try:
        files = _furthest_first(damaged.parent)
    except TrainingError:
        return ""
    good = next((file for file in files if file != damaged and _is_good(file)), None)
    return "" if good is None else f". The newest good checkpoint in its folder is {good}"


def _is_good(file: Path) -> bool:
    """Whether everything in a checkpoint has its checksum."""
    try:
        with _opened(file) as (_, tensors):
            deque(_checked(tensors), 0)
    except (_NoCheckpointError, ValueError, TypeError, AttributeError):
        return False
    return True


# Checksums


def sealed(tree: str, checksums: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a file."""
    sums = _dumped(checksums)
    return {
        "format": _FORMAT,
        "version": str(_VERSION),
        "checksum": _text_checksum(sums, tree),
        "checksums": sums,
        "tree": tree,
    }


def checksum(array: NDArray[Any]) -> str:
    """Return the checksum of an array."""
    made = _checksum_of(array)
    made.update(array.reshape(-1).view("u1").data)
    return made.hexdigest()


def _checksum_of(array: NDArray[Any]) -> xxh3_128:
    """Return the checksum of an array before any of its bytes."""
    from xxhash import xxh3_128

    return xxh3_128(f"{array.dtype.name} {array.shape}".encode())


def _text_checksum(*texts: str) -> str:
    from xxhash import xxh3_128

    return xxh3_128("\0".join(texts).encode(errors="surrogatepass")).hexdigest()


def _values_in(tree: str) -> int:
    """Return how many values a text of JSON has at most."""
    return tree.count(",") + tree.count("[") + tree.count("{")


def _header(metadata: dict[str, str], arrays: Arrays) -> bytes:
    """Return the part of a safetensors file before the bytes of the arrays."""
    rows: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        rows[name] = {"dtype": _DTYPES[array.dtype.name], "shape": array.shape, "data_offsets": (begin, end)}
    text = _dumped(rows).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST:
        raise TrainingError(
            f"without its arrays, this checkpoint takes {len(text)} bytes, and {_LONGEST} are allowed; convert long "
            "lists of numbers to arrays"
        )
    return struct.pack("<Q", len(text)) + text


def _dumped(tree: object) -> str:
    return json.dumps(tree, separators=(",", ":"), allow_nan=False)
