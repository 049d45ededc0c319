"""The checkpoint format: a tree of plain values and arrays in one safetensors file.

The tensors of the file are the arrays. Its metadata are one text: a checksum of the rest of the text, a checksum of the
tensors, and the tree as JSON, where a dict with a single key that begins with ``$`` stands for a value that JSON lacks.
Loading a file never runs code from it. The checksums find damage; to find forgery, a secret key would be needed.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from aspecthook._errors import brief, printable
from aspecthook.training._errors import TrainingError

from ._files import replacing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays: TypeAlias = dict[str, NDArray[Any]]

AnyPath: TypeAlias = str | os.PathLike[str]

_FORMAT = "aspecthook.checkpoint.2"  # the key of the text in the metadata, with the version of the format
_SUFFIXES = (".safetensors", ".ckpt")  # of the files that a run saves
# The types of NumPy that safetensors has too.
_DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64".split()  # noqa: SIM905
)
_LONGEST = 25_000_000  # characters of the tree; safetensors reads no header of more than 100 MB
_DEEPEST = 100  # well below the recursion limits of Python and its `json`


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
        >>> from aspecthook.training.checkpoint import load
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(f"{folder}/epoch_1.safetensors", {"epoch": 1, "weight": np.ones(2)})
        ...     load(f"{folder}/epoch_1.safetensors")
        {'epoch': 1, 'weight': array([1., 1.])}
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]  # its `PathLike` is of nothing

    arrays: Arrays = {}
    tree = json.dumps(_frozen(dict(checkpoint), (), arrays), separators=(",", ":"))
    if len(tree) > _LONGEST:
        raise TrainingError(
            f"without its arrays, this checkpoint takes {len(tree)} bytes, and {_LONGEST} are allowed; convert long "
            "lists of numbers to arrays"
        )
    try:
        with replacing(path) as temporary:
            save_file(arrays, temporary, sealed(tree, arrays))
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            f"the checkpoint {os.fspath(path)} could not be saved: {getattr(error, 'strerror', error)}; no partial "
            "file is left. Free some space, check the permissions, or give another path"
        ) from error


def sealed(tree: str, arrays: Arrays) -> dict[str, str]:
    """Return the metadata of a file."""
    rest = f"{_checksum_of(arrays)} {tree}"
    return {_FORMAT: f"{_checksum(rest.encode())} {rest}"}


def _checksum_of(arrays: Arrays) -> str:
    """Return the checksum of the names, types, shapes and bytes of arrays."""
    parts: list[bytes | memoryview] = []
    for name, array in sorted(arrays.items()):
        parts += [f"{name} {array.dtype.name} {array.shape}".encode(), array.reshape(-1).view("u1").data]
    return _checksum(*parts)


def _checksum(*parts: bytes | memoryview) -> str:
    from xxhash import xxh3_128

    made = xxh3_128()
    for part in parts:
        made.update(part)
    return made.hexdigest()


# The tree


def _frozen(value: Any, place: tuple[object, ...], arrays: Arrays) -> Any:
    """Return a value as JSON; its arrays are added to `arrays`."""
    import numpy as np

    if len(place) > _DEEPEST:
        raise TrainingError(f"{_shown(place[:4])}… is nested more than {_DEEPEST} levels deep; does it contain itself?")
    # No subclasses of arrays: a masked one would lose its mask. NumPy's `str_` is a string.
    is_scalar = issubclass(type(value), np.generic) and not isinstance(value, str)
    if is_scalar or type(value) in (np.ndarray, np.memmap):
        name = _free_name(place, arrays)
        arrays[name] = _little_endian(value, place)
        return {"$scalar" if is_scalar else "$array": name}
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return _frozen_dict(value, place, arrays)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        values = cast("list[Any]", value)
        rows = [_frozen(one, (*place, number), arrays) for number, one in enumerate(values)]
        return rows if isinstance(value, list) else {"$tuple": rows}
    raise TrainingError(
        f"{_shown(place)} is {brief(value)}; a checkpoint can hold dicts, lists, tuples, strings, numbers, bools, None "
        "and NumPy's arrays; convert it, or leave it out"
    )


def _frozen_dict(value: Mapping[Any, Any], place: tuple[object, ...], arrays: Arrays) -> Any:
    for key in value:
        if key is not None and not isinstance(key, (str, int, float)):
            raise TrainingError(
                f"{_shown(place)} has the key {brief(key)}; the keys of a checkpoint are strings, numbers, bools or "
                "None; convert it"
            )
    rows = [(key, _frozen(one, (*place, key), arrays)) for key, one in value.items()]
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return dict(rows)
    return {"$items": rows}


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


def read(path: Path) -> dict[str, Any]:
    """Return the tree in a file, or raise what is wrong with it."""
    with opened(path) as (sums, text, file):
        try:
            arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if _checksum_of(arrays) != sums:
                raise _damaged("its arrays do not have their checksum")
            tree: object = json.loads(text, object_hook=lambda row: _thawed(row, arrays))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            raise _damaged(brief(error)) from error
    if not isinstance(tree, dict):
        raise _damaged("its tree is not a dict")
    return cast("dict[str, Any]", tree)


def _thawed(row: dict[str, Any], arrays: Arrays) -> Any:
    """Undo `_frozen` for one dict. Arrays are removed from `arrays`, so that a forged file cannot use one twice."""
    if len(row) != 1 or not (kind := next(iter(row))).startswith("$"):
        return row
    value = row[kind]
    if kind == "$array":
        return arrays.pop(value)
    if kind == "$scalar":
        return arrays.pop(value)[()]
    if kind == "$tuple":
        return tuple(value)
    if kind == "$items":
        return dict(value)
    raise KeyError(kind)


# Reading


class NoCheckpointError(Exception):
    """The message says what is wrong with a file, and what to do; `ours` if it may be a damaged checkpoint."""

    def __init__(self, text: str, *, ours: bool = False) -> None:
        super().__init__(printable(text))  # it may have names from the file
        self.ours = ours


def _damaged(why: str) -> NoCheckpointError:
    return NoCheckpointError(f"is cut short or damaged ({why}); load another, or copy it again", ours=True)


@contextmanager
def opened(path: Path) -> Generator[tuple[str, str, Any]]:
    """Yield the checksum of the arrays of a checkpoint, its tree as text, and the reader of the arrays."""
    from safetensors import SafetensorError, safe_open

    try:
        _check_kind(path)
        # Not memory-mapped: if another program truncated the file, this one would die of SIGBUS.
        reader: Any = safe_open(path, framework="numpy", backend="pread")
        with reader as file:
            yield *_unsealed(file.metadata() or {}), file
    except FileNotFoundError as error:
        raise NoCheckpointError("does not exist; name another file") from error
    except OSError as error:
        raise NoCheckpointError(f"cannot be read: {error.strerror}", ours=True) from error
    except SafetensorError as error:
        raise _damaged(str(error)) from error


def _check_kind(path: Path) -> None:
    """Refuse a file that is not safetensors. A pipe is not opened, which would wait forever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise NoCheckpointError("is not a regular file; name one, or find one in a folder by newest(folder)")
    with path.open("rb") as file:
        start = file.read(9)
    if start.startswith(b"PK\x03\x04") or (start[:1] == b"\x80" and start[1:2] in b"\2\3\4\5" and start[8:] != b"{"):
        raise NoCheckpointError(
            "is a pickle, or a zip archive with one, as torch.save makes them, which is not loaded, since loading a "
            "pickle runs the code in it. If you trust it, load it yourself and save its contents with "
            "aspecthook.training.checkpoint.save"
        )
    if start[8:] != b"{":
        what = f"is not a safetensors file (it begins with {start!r})" if start else "is empty"
        raise NoCheckpointError(f"{what}; name another file", ours=path.suffix in _SUFFIXES)


def _unsealed(metadata: Mapping[str, str]) -> tuple[str, str]:
    """Return the checksum of the arrays, and the tree."""
    if _FORMAT not in metadata:
        raise NoCheckpointError(
            "is a safetensors file, but not a checkpoint of this aspecthook; if it has the arrays of a model, load "
            "them with safetensors.numpy.load_file"
        )
    checksum, _, rest = metadata[_FORMAT].partition(" ")
    if checksum != _checksum(rest.encode()):
        raise _damaged("its header does not have its checksum")
    sums, _, tree = rest.partition(" ")
    return sums, tree
