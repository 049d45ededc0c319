"""C functions of the standard library woven where Python modules have copies of them under names of their own."""

from __future__ import annotations

import bisect
import copy
import fnmatch
import functools
import hashlib
import hmac
import inspect
import io
import json
import json.encoder
import pickle
import queue
import random
import time
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from aspecthook import Args, Return, WeaveError, hooks, weave

from .snapshot import no_trace_left, proxies


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


def test_a_hook_on_crc32_makes_zipfile_call_a_good_archive_bad() -> None:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("tea", b"green")
    with no_trace_left("zlib", "zipfile"), zipfile.ZipFile(buffer) as archive:
        with weave("zlib:crc32", post=lambda result: result ^ 1), pytest.raises(zipfile.BadZipFile, match="CRC"):
            archive.read("tea")
        assert archive.read("tea") == b"green"


def test_bisect_is_seen_where_random_has_it_under_another_name() -> None:
    sizes: list[int] = []
    plain = random.Random(3).choices("abc", [1, 2, 3], k=4)
    with no_trace_left("bisect", "_bisect", "random"):
        with weave("bisect:bisect_right", pre=lambda a: sizes.append(len(a))):
            assert hooks(random._bisect) is hooks(bisect.bisect)  # type: ignore[attr-defined]
            assert random.Random(3).choices("abc", [1, 2, 3], k=4) == plain
        assert random.Random(3).choices("abc", [1, 2, 3], k=4) == plain
    assert sizes == [3] * 4


def test_heap_functions_are_seen_where_queue_has_imported_them() -> None:
    pushed: list[object] = []
    with no_trace_left("heapq", "_heapq", "queue"):
        line: queue.PriorityQueue[int] = queue.PriorityQueue()
        with weave("heapq:heappush", pre=lambda args: pushed.append(args[1])):
            line.put(3)
            line.put(1)
        line.put(2)
        assert [line.get() for _ in range(3)] == [1, 2, 3]
    assert pushed == [3, 1]


def test_the_string_encoder_of_json_is_called_by_c_code_with_its_hooks() -> None:
    with no_trace_left("json", "_json"):
        with weave("json.encoder:encode_basestring_ascii", post=lambda result: result.upper()):
            assert json.dumps({"tea": ["green"]}) == '{"TEA": ["GREEN"]}'
            assert json.dumps("é") == '"\\U00E9"'
        assert json.dumps({"tea": ["green"]}) == '{"tea": ["green"]}'


def test_hashes_are_counted_through_hashlib_and_hmac() -> None:
    expected = hashlib.sha256(b"tea").hexdigest(), hmac.new(b"k", b"tea", "sha256").hexdigest()
    count: list[int] = []
    with no_trace_left("hashlib", "_hashlib", "hmac"):
        with weave("hashlib:sha256", always=lambda: count.append(1)):
            assert hashlib.sha256(b"tea").hexdigest() == expected[0]
            assert hmac.new(b"k", b"tea", hashlib.sha256).hexdigest() == expected[1]
        assert hashlib.sha256(b"tea").hexdigest() == expected[0]
    assert count


def test_a_clock_is_stopped_for_every_module_that_has_imported_it() -> None:
    with no_trace_left("time", "queue", "threading", "sched"):
        with weave("time:monotonic", post=lambda: Return(5.0)) as weaving:
            assert time.monotonic() == 5.0
            assert hooks(queue.time) is weaving.mounts[0]  # type: ignore[attr-defined]
            assert queue.time() == 5.0  # type: ignore[attr-defined]
        assert time.monotonic() != 5.0


def test_a_cached_function_keeps_its_cache_and_its_methods() -> None:
    cached: Any = fnmatch._compile_pattern  # type: ignore[attr-defined]
    calls: list[str] = []
    with no_trace_left("fnmatch"):
        with weave("fnmatch:_compile_pattern", pre=lambda pat: calls.append(pat)):
            assert fnmatch.filter(["a.py", "b.txt"], "*.py") == ["a.py"]
            hits = fnmatch._compile_pattern.cache_info().hits  # type: ignore[attr-defined]
            assert fnmatch.fnmatchcase("b.py", "*.py")
            assert fnmatch._compile_pattern.cache_info().hits == hits + 1  # type: ignore[attr-defined]
        assert fnmatch._compile_pattern is cached  # type: ignore[attr-defined]
    assert calls == ["*.py", "*.py"]


def test_a_partial_of_a_c_function_made_before_is_not_reached_and_one_in_a_module_is() -> None:
    plain = zlib.crc32
    early = functools.partial(plain, b"tea")
    with no_trace_left("zlib"), weave("zlib:crc32", post=lambda: Return(7)):
        assert early() == plain(b"tea") != 7  # nobody but the partial knows what it holds
        assert functools.partial(zlib.crc32, b"tea")() == 7


@pytest.mark.parametrize(
    ("pointcut", "call"),
    [
        ("zlib:crc32", lambda: zlib.crc32(b"a")),
        ("zlib:compress", lambda: zlib.compress(b"a")),
        ("bisect:insort_right", lambda: bisect.insort_right([1], 2)),
        ("math:hypot", lambda: __import__("math").hypot(3, 4)),
        ("math:gcd", lambda: __import__("math").gcd(4, 6)),
        ("binascii:hexlify", lambda: __import__("binascii").hexlify(b"a", "-")),
        ("struct:pack", lambda: __import__("struct").pack("<H", 3)),
        ("_operator:index", lambda: __import__("operator").index(3)),
        ("functools:reduce", lambda: functools.reduce(max, [1, 3, 2])),
        ("itertools:repeat", None),
        ("os:getpid", lambda: __import__("os").getpid()),
        ("time:gmtime", lambda: time.gmtime(0)),
        ("sys:intern", lambda: __import__("sys").intern("tea")),
        ("unicodedata:normalize", lambda: __import__("unicodedata").normalize("NFC", "e\u0301")),
        ("errno:errorcode", None),
    ],
)
def test_a_c_function_answers_as_before_but_for_its_hooks(
    pointcut: str, call: Callable[[], object] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module_name, _, name = pointcut.partition(":")
    module = pytest.importorskip(module_name)
    # What `inspect.signature` puts there as it reads the defaults of C functions must not stay.
    if not getattr(module, "__file__", "").endswith(".py"):
        monkeypatch.delitem(vars(module), "__builtins__", raising=False)
    with no_trace_left(module_name) as before:
        if call is None:
            with pytest.raises(WeaveError):
                weave(pointcut, pre=lambda: None)
            return
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


def test_an_argument_of_a_c_function_is_replaced() -> None:
    with no_trace_left("zlib"):
        expected = zlib.compress(b"tea" * 99, 9)
        with weave("zlib:compress", pre=lambda: Args(level=9)):
            assert zlib.compress(b"tea" * 99) == expected
            assert zlib.compress(b"tea" * 99, level=0) == expected


def test_methods_of_immutable_c_types_are_refused_and_say_what_to_weave() -> None:
    with no_trace_left("decimal", "datetime"):
        for pointcut in ("builtins:str.upper", "builtins:dict.get", "datetime:datetime.utcnow", "io:BytesIO.read"):
            with pytest.raises(WeaveError, match="immutable C type .* weave a subclass"):
                weave(pointcut, pre=lambda: None)
    assert proxies() == []
