"""Functions of the standard library woven where other modules have copies of them under names of their own."""

from __future__ import annotations

import copy
import inspect
import io
import json
import json.encoder
import pickle
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from json import dumps
from types import ModuleType
from typing import Any

import pytest

from aspecthook import Args, Return, hooks, weave

from .snapshot import no_trace_left


def test_crc32_is_seen_where_zipfile_has_a_copy_of_it() -> None:
    def pack() -> bytes:
        with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
            archive.writestr(zipfile.ZipInfo("tea"), b"green")
        return buffer.getvalue()

    plain, original, data = pack(), zlib.crc32, []
    with no_trace_left("zlib", "zipfile", "gzip"):
        with weave("zlib:crc32", pre=lambda args: data.append(bytes(args[0]))) as weaving:
            assert hooks(zipfile.crc32) is weaving.mounts[0]  # type: ignore[attr-defined]
            assert pack() == plain
            assert zlib.crc32(b"") == 0
        assert zipfile.crc32 is zlib.crc32 is original  # type: ignore[attr-defined]
    assert data == [b"green", b""]


def test_the_string_encoder_of_json_is_called_by_c_code_with_its_hooks() -> None:
    with no_trace_left("json", "_json"):
        with weave("json.encoder:encode_basestring_ascii", post=lambda result: result.upper()):
            assert json.dumps({"tea": ["green"]}) == '{"TEA": ["GREEN"]}'
            assert json.dumps("é") == '"\\U00E9"'
        assert json.dumps({"tea": ["green"]}) == '{"tea": ["green"]}'


@pytest.mark.parametrize(
    ("pointcut", "call"),
    [
        ("zlib:compress", lambda: zlib.compress(b"a")),
        ("math:hypot", lambda: __import__("math").hypot(3, 4)),
        ("struct:pack", lambda: __import__("struct").pack("<H", 3)),
        ("os:getpid", lambda: __import__("os").getpid()),
        ("unicodedata:normalize", lambda: __import__("unicodedata").normalize("NFC", "e\u0301")),
    ],
)
def test_a_c_function_answers_as_before_but_for_its_hooks(
    pointcut: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    module_name, _, name = pointcut.partition(":")
    module = pytest.importorskip(module_name)
    # What `inspect.signature` puts there as it reads the defaults of C functions must not stay.
    if not getattr(module, "__file__", "").endswith(".py"):
        monkeypatch.delitem(vars(module), "__builtins__", raising=False)
    with no_trace_left(module_name) as before:
        plain, expected, count = getattr(module, name), call(), []
        with weave(pointcut, pre=lambda: count.append(1), always=lambda: count.append(2)):
            woven = getattr(module, name)
            assert call() == expected
            assert before.looks() == []
            assert inspect.isbuiltin(woven) == inspect.isbuiltin(plain)
            assert (woven.__name__, woven.__doc__, woven == plain) == (plain.__name__, plain.__doc__, True)
            assert copy.copy(woven) is copy.deepcopy(woven) is woven
            assert pickle.loads(pickle.dumps(woven)) is woven  # by its name, and so with its hooks
        assert getattr(module, name) is plain
        assert call() == expected
    assert count == [1, 2]


# json, where other modules had imported its names before


@pytest.fixture
def importer() -> Iterator[ModuleType]:
    """A module that has imported the names long ago."""
    module = ModuleType("third_party_importer")
    sys.modules[module.__name__] = module
    try:
        exec("from json import dumps, loads as read\nTABLE = {'write': dumps}\nwrite = TABLE['write']", vars(module))
        yield module
    finally:
        del sys.modules[module.__name__]


def test_hooks_on_dumps_act_for_modules_that_had_imported_it(importer: ModuleType) -> None:
    with no_trace_left("json", importer.__name__):
        with weave("json:dumps", pre=lambda: Args(sort_keys=True)):
            for function in (json.dumps, dumps, importer.dumps, importer.TABLE["write"]):
                assert function({"b": 1, "a": 2}) == '{"a": 2, "b": 1}'
        assert importer.dumps({"b": 1, "a": 2}) == dumps({"b": 1, "a": 2}) == '{"b": 1, "a": 2}'


def test_a_subclass_hook_reaches_the_encoder_that_dumps_is_given() -> None:
    class Sets(json.JSONEncoder):
        def default(self, o: Any) -> Any:
            return super().default(o)

    with no_trace_left("json"):
        with weave("json.encoder:JSONEncoder.default", exception={TypeError: lambda o: Return(sorted(o))}):
            assert dumps({3, 1, 2}) == "[1, 2, 3]"
            assert dumps({2, 1}, cls=Sets) == "[1, 2]"  # by `super()`
        with pytest.raises(TypeError, match="not JSON serializable"):
            dumps({1}, cls=Sets)
