"""An aspect that has nothing to do changes no call: not what it returns, yields, is sent, raises, or when."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from aspecthook import weave
from aspecthook.aspects import Aspect, limited, log, span, timed, timeout

SILENT = logging.Logger("silent")
SILENT.addHandler(logging.NullHandler())

ASPECTS: dict[str, Callable[[], Aspect]] = {
    "limited": lambda: limited(10**6),
    "log": lambda: log(SILENT, redact="n"),
    "span": lambda: span(arguments=True, tracer=TracerProvider().get_tracer("tests")),
    "timed": lambda: timed(),
}
# Not of every kind of function.
FOR_ASYNC: dict[str, Callable[[], Aspect]] = {"timeout": lambda: timeout(1000)}


steps = st.lists(st.sampled_from(["next", "send", "throw", "close"]), max_size=6)
outcomes = st.sampled_from(["returns", "raises", "catches"])


def generator(outcome: str, trail: list[object]) -> Generator[int, Any, str]:
    try:
        for number in range(3):
            try:
                trail.append((yield number))
            except KeyError as error:
                if outcome != "catches":
                    raise
                trail.append(error.args)
        if outcome == "raises":
            raise ValueError("bad")
        return "end"
    finally:
        trail.append("finally")


async def async_generator(outcome: str, trail: list[object]) -> AsyncGenerator[int, Any]:
    inner = generator(outcome, trail)
    item = next(inner, None)
    while item is not None:
        await asyncio.sleep(0)
        try:
            sent = yield item
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:
            step: Callable[[], int] = lambda error=error: inner.throw(error)
        else:
            step = lambda sent=sent: inner.send(sent)
        try:
            item = step()
        except StopIteration:
            return


def seen(step: Callable[[], object]) -> object:
    try:
        return step()
    except BaseException as error:
        return (type(error), error.args)


def drive(stream: Generator[Any, Any, Any], script: list[str]) -> list[object]:
    moves: dict[str, Callable[[], object]] = {
        "next": lambda: next(stream),
        "send": lambda: stream.send(7),
        "throw": lambda: stream.throw(KeyError("thrown")),
        "close": lambda: stream.close(),
    }
    return [seen(moves[move]) for move in [*script, "close"]]


async def adrive(stream: AsyncGenerator[Any, Any], script: list[str]) -> list[object]:
    moves: dict[str, Callable[[], Any]] = {
        "next": lambda: anext(stream),
        "send": lambda: stream.asend(7),
        "throw": lambda: stream.athrow(KeyError("thrown")),
        "close": lambda: stream.aclose(),
    }
    found: list[object] = []
    for move in [*script, "close"]:
        try:
            found.append(await moves[move]())
        except BaseException as error:
            found.append((type(error), error.args))
    return found


@pytest.mark.parametrize("name", ASPECTS)
@given(script=steps, outcome=outcomes)
def test_a_generator_runs_as_it_does_without_the_aspect(name: str, script: list[str], outcome: str) -> None:
    plain: list[object] = []
    expected = drive(generator(outcome, plain), script)
    trail: list[object] = []
    with weave(generator, aspect=ASPECTS[name]()):
        assert drive(generator(outcome, trail), script) == expected
    assert trail == plain


@pytest.mark.parametrize("name", [*ASPECTS, "timeout"])
@given(script=steps, outcome=outcomes)
def test_an_async_generator_runs_as_it_does_without_the_aspect(name: str, script: list[str], outcome: str) -> None:
    async def both() -> None:
        plain: list[object] = []
        expected = await adrive(async_generator(outcome, plain), script)
        trail: list[object] = []
        with weave(async_generator, aspect=(ASPECTS | FOR_ASYNC)[name]()):
            assert await adrive(async_generator(outcome, trail), script) == expected
        assert trail == plain

    asyncio.run(both())
