"""json, logging and concurrent.futures woven, where other modules had imported the names before."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import StringIO
from json import dumps
from logging import getLogger
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from aspecthook import Args, Return, hooks, weave

from .snapshot import no_trace_left

FUTURES = ("concurrent",)


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


# json


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


# logging


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, StringIO]]:
    """A logger of a name of its own, and what it has written."""
    written = StringIO()
    logger = getLogger("aspecthook.tests.third_party")
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield logger, written
    finally:
        logger.propagate = True
        logger.removeHandler(handler)
        handler.close()
        del logging.Logger.manager.loggerDict[logger.name]


def test_a_weaving_and_a_mock_on_the_same_logger_come_off_in_either_order(
    log: tuple[logging.Logger, StringIO],
) -> None:
    logger, written = log
    for first in ("weaving", "mock"):
        with no_trace_left("logging"):
            said: list[str] = []
            weaving = weave("logging:Logger.info", pre=lambda msg: said.append(msg))
            patch = mock.patch.object(logging.Logger, "info")
            patched = patch.start()
            try:
                logger.info("to the mock")
                patched.assert_called_once_with("to the mock")
                if first == "weaving":
                    weaving.remove()
            finally:
                patch.stop()
            logger.info("to the logger")
            assert said == (["to the logger"] if first == "mock" else [])
            weaving.remove()
            assert weaving.state == "removed"
    assert written.getvalue() == ""


# concurrent.futures


def test_an_around_hook_wraps_the_work_in_the_worker_threads() -> None:
    import threading

    names: set[str] = set()

    def note() -> Iterator[None]:
        names.add(threading.current_thread().name)
        yield

    with no_trace_left(*FUTURES), ThreadPoolExecutor(1, thread_name_prefix="worker") as pool:
        with weave("concurrent.futures.thread:_WorkItem.run", around=note):
            assert list(pool.map(abs, [-1, -2])) == [1, 2]
        assert pool.submit(abs, -3).result() == 3
    assert names == {"worker_0"}


def test_every_public_class_of_the_package_carries_hooks_and_works() -> None:
    count: list[int] = []
    with no_trace_left(*FUTURES), weave("concurrent.futures.*:*", pre=lambda: count.append(1)) as weaving:
        assert any(mount is hooks(Future.set_result) for mount in weaving.mounts)
        with ThreadPoolExecutor(2) as pool:
            done = concurrent.futures.as_completed([pool.submit(abs, -number) for number in range(5)])
            assert sorted(future.result() for future in done) == [0, 1, 2, 3, 4]
    assert count
