"""Logs: what an entry shows, whose line it names, and what is redacted."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import weave
from aspecthook.aspects import log, retry
from tests.aspects.conftest import Targets, run


class Handler(logging.Handler):
    """Keeps records, and their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.texts: list[str] = []
        self.emitted = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.texts.append(self.format(record))
        self.emitted.set()


class Logged(logging.Logger):
    """A logger that is nobody's child."""

    def __init__(self) -> None:
        super().__init__("shop")
        self.kept = Handler()
        self.addHandler(self.kept)


@pytest.fixture
def logger() -> Logged:
    return Logged()


def line_here() -> int:
    return sys._getframe(1).f_lineno


def login(user: str, password: str, **more: object) -> str:
    if user == "nobody":
        raise PermissionError(f"{password} is wrong")
    return f"welcome {user}"


def test_an_entry_has_arguments_result_and_duration(logger: Logged) -> None:
    with weave(login, aspect=log(logger)):
        login("ann", "secret", again=True)
    [record] = logger.kept.records
    assert record.levelname == "INFO" and record.name == "shop"
    text = "test_log:login(user='ann', password='secret', more={'again': True}) -> 'welcome ann' in "
    assert text in record.getMessage()


def test_a_failed_call_is_an_error_with_the_traceback_of_the_function(logger: Logged) -> None:
    with weave(login, aspect=log(logger, error_level="CRITICAL")), pytest.raises(PermissionError):
        login("nobody", "secret")
    [record], [text] = logger.kept.records, logger.kept.texts
    assert record.levelname == "CRITICAL"
    assert "password='secret', more={}) raised PermissionError('secret is wrong') in " in record.getMessage()
    assert text.count("File ") == 1 and text.endswith("PermissionError: secret is wrong")


LEVELS = st.sampled_from(["DEBUG", "INFO", "WARNING", "ERROR"])


@given(LEVELS, LEVELS, LEVELS, st.booleans(), st.booleans())
def test_a_call_is_logged_at_the_level_of_its_outcome_if_the_logger_has_that_level(
    enabled: str, level: str, error_level: str, fails: bool, is_adapter: bool
) -> None:
    logger = Logged()
    logger.setLevel(enabled)
    to = logging.LoggerAdapter(logger, {}) if is_adapter else logger
    with weave(login, aspect=log(to, level=level, error_level=error_level)), suppress(PermissionError):
        login("nobody" if fails else "ann", "secret")
    wanted = error_level if fails else level
    is_written = logging.getLevelNamesMapping()[wanted] >= logger.level
    assert [record.levelname for record in logger.kept.records] == [wanted] * is_written
    assert all("password='secret'" in text for text in logger.kept.texts)


def test_a_generator_that_is_left_early_has_not_failed(logger: Logged) -> None:
    def lines() -> Generator[int]:
        yield from (1, 2)

    with weave(lines, aspect=log(logger)):
        items = lines()
        next(items)
        items.close()
    assert [record.levelname for record in logger.kept.records] == ["INFO"]


def test_an_entry_names_the_line_of_the_caller_for_every_kind_of_function(logger: Logged) -> None:
    targets = Targets()

    async def awaits() -> int:
        await coroutine(1)
        return line_here() - 1

    async def iterates() -> int:
        async for _ in async_generator(1):
            pass
        return line_here() - 2

    function, coroutine, generator, async_generator = (row[0] for row in targets.all.values())
    lines: list[int] = []
    own_line = coroutine.__code__.co_firstlineno
    for target in function, coroutine, generator, async_generator:
        weave(target, aspect=log(logger))
    lines += [function(1) and line_here()]
    lines += [run(awaits())]
    for _ in generator(1):
        pass
    lines += [line_here() - 2]
    lines += [run(iterates())]
    lines += [own_line]  # an event loop is no caller
    run(coroutine(2))
    assert [record.lineno for record in logger.kept.records] == lines
    del logger.kept.records[-1:]
    assert {record.pathname for record in logger.kept.records} == {__file__}
    assert {record.funcName for record in logger.kept.records} == {
        "test_an_entry_names_the_line_of_the_caller_for_every_kind_of_function",
        "awaits",
        "iterates",
    }


def test_an_entry_names_the_line_of_the_caller_inside_other_aspects(logger: Logged) -> None:
    calls: list[int] = []

    def price(n: int) -> int:
        calls.append(n)
        if len(calls) < 2:
            raise ConnectionError
        return n

    with (
        weave(price, aspect=retry(sleep=lambda seconds: None)),
        weave(price, aspect=log(logger), after="retry"),
    ):
        price(1)
        line = line_here() - 1
    assert [(record.pathname, record.lineno) for record in logger.kept.records] == [(__file__, line)] * 2


SECRET = "pa$$w\\ord'✓"


def test_arguments_and_results_can_be_left_out(logger: Logged) -> None:
    with weave(login, aspect=log(logger, arguments=False, result=False)):
        login("ann", SECRET)
    [text] = logger.kept.texts
    assert "login(…) in " in text and "ann" not in text


def test_what_is_redacted_is_masked_in_an_error_also_where_arguments_are_left_out(logger: Logged) -> None:
    with weave(login, aspect=log(logger, arguments=False, redact="password")), pytest.raises(PermissionError):
        login("nobody", SECRET)
    assert "login(…)" in logger.kept.texts[0] and "is wrong" in logger.kept.texts[0]
    assert SECRET not in logger.kept.texts[0]


def test_an_adapter_adds_what_it_adds(logger: Logged) -> None:
    adapter = logging.LoggerAdapter(logger, {"request": 7})
    nested: Any = logging.LoggerAdapter(adapter, {})  # type: ignore[type-arg]
    for one in (adapter, nested):
        with weave(login, aspect=log(one)):
            login("ann", "x")
    record, _ = logger.kept.records
    assert record.request == 7 and record.pathname == __file__  # type: ignore[attr-defined]


def test_structlog_gets_events_with_fields(style: str) -> None:
    target, call = Targets().all[style]
    kept = structlog.testing.LogCapture()
    logger = structlog.wrap_logger(None, processors=[kept], wrapper_class=structlog.BoundLogger)
    with weave(target, aspect=log(logger, redact="token")):
        call(1)
    [entry] = kept.entries
    assert entry["event"] == "call" and entry["log_level"] == "info" and entry["arguments"] == {"n": "1"}
    assert entry["function"].endswith(target.__name__) and entry["pathname"] == str(
        Path(__file__).with_name("conftest.py")
    )
    assert 0 <= entry["duration"] < 600


def test_a_logger_that_fails_does_not_reach_the_program(caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        def info(self, event: str, **fields: object) -> None:
            raise OSError("no space left on device")

    with weave(login, aspect=log(Full())):
        assert login("ann", "x") == "welcome ann"
    [record] = caplog.records
    assert record.name == "aspecthook" and record.getMessage().endswith(":login: the entry of a call was lost")
