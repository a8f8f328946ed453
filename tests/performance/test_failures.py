"""A load without answers is reported: otherwise a broken server would look fine."""

from __future__ import annotations

import asyncio
import contextlib

from .load import Load, Shape
from .wire import Wire

SHAPE = Shape(seconds=0.3, submits=40, watchers=0)
KINDS = {"submit", "watch: first event", *SHAPE.asked}


def test_every_no_is_noted() -> None:
    assert asyncio.run(failures_of_a_load(is_open=True)) == {kind: {"503"} for kind in KINDS}


def test_every_call_that_breaks_off_is_noted() -> None:
    failures = asyncio.run(failures_of_a_load(is_open=False))
    assert failures == {kind: {"ConnectionRefusedError"} for kind in KINDS}


async def failures_of_a_load(*, is_open: bool) -> dict[str, set[str]]:
    """By kind of call, with a server that refuses everything, or without a server."""
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    wire = Wire(server.sockets[0].getsockname()[1])
    if not is_open:
        server.close()
    load = Load(wire, SHAPE)
    load.recent.append("asked-about")
    await load.run()
    wire.close()
    server.close()
    return {kind: set(statuses) for kind, statuses in load.meter.errors().items()}


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    writer.close()
