"""asyncio's streams, tasks and time limits woven while they run over loopback."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from aspecthook import Return, weave

from .snapshot import no_trace_left


@asynccontextmanager
async def echo() -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    """A server that gives every line back in capitals, and a client of it."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        while line := await StreamReader.readline(reader):
            writer.write(line.upper())
            await writer.drain()
        writer.close()
        await writer.wait_closed()
        served.set()

    served = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        try:
            yield reader, writer
        finally:
            writer.close()
            await writer.wait_closed()
            await served.wait()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await main()

    asyncio.run(asyncio.sleep(0))  # asyncio makes its policy as it first runs
    with no_trace_left("asyncio"):
        asyncio.run(whole())


def test_hooks_on_a_coroutine_method_see_and_change_what_a_stream_reads() -> None:
    async def main() -> None:
        async with echo() as (reader, writer):
            with weave("asyncio.streams:StreamReader.readline", post=lambda result: result.replace(b"TEA", b"***")):
                assert inspect.iscoroutinefunction(StreamReader.readline)
                writer.write(b"green tea\n")
                # The server reads by the same method, before it makes capitals of it.
                assert await reader.readline() == b"GREEN ***\n"
            writer.write(b"green tea\n")
            assert await reader.readline() == b"GREEN TEA\n"

    run(main)


def test_a_time_limit_cuts_through_a_woven_method_and_its_always_hooks_run() -> None:
    ended: list[type[BaseException] | None] = []

    async def main() -> None:
        async with echo() as (reader, writer):
            handled = lambda exc: Return(b"")  # not for cancellation, which passes it by
            note = lambda exc: ended.append(type(exc) if exc else None)
            with weave("asyncio:StreamReader.readexactly", exception=handled, always=note):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await reader.readexactly(1)
                writer.write(b"x\n")
                assert await reader.readexactly(2) == b"X\n"

    run(main)
    assert ended == [asyncio.CancelledError, None]


def test_everything_public_in_asyncio_carries_hooks_and_works() -> None:
    async def work() -> list[object]:
        async with echo() as (reader, writer):
            writer.write(b"all\n")
            line = await reader.readline()
        queue: asyncio.Queue[int] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.put(1))
            got = group.create_task(queue.get())
        done, _ = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0, 5))])
        return [line, got.result(), done.pop().result(), await asyncio.wait_for(asyncio.to_thread(abs, -2), 5)]

    expected = asyncio.run(work())
    count: list[int] = []
    with no_trace_left("asyncio") as before, weave("asyncio.*:*", pre=lambda: count.append(1)):
        assert asyncio.run(work()) == expected == [b"ALL\n", 1, 5, 2]
        assert before.looks() == []
    assert count
