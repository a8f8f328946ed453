"""HTTP/1.1 on asyncio streams, only as much as a load generator needs.

It shares two cores with the program it measures, so it must be cheap: a general client library
would take more time than the control plane does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

TIMEOUT = 60.0
# The other side closes connections that are idle for longer.
KEPT = 5.0


class Wire:
    """The connections to one server. Each is used by one caller at a time, and kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[float, _Connection]] = []

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer, parsed if it is JSON."""
        connection = self._kept() or await _Connection.open(self._port)
        try:
            await connection.send(method, path, body)
            status, answer = await asyncio.wait_for(connection.answer(), TIMEOUT)
        except BaseException:
            # It is unknown how much of the answer is still to come.
            connection.close()
            raise
        self._idle.append((time.perf_counter(), connection))
        with contextlib.suppress(ValueError):
            return status, json.loads(answer)
        return status, answer

    @contextlib.asynccontextmanager
    async def follow(self, path: str) -> AsyncIterator[tuple[int, AsyncIterator[dict[str, str]]]]:
        """Status and the Server-Sent Events that follow, on a connection of their own."""
        connection = await _Connection.open(self._port)
        try:
            await connection.send("GET", path, None)
            status, _ = await connection.head()
            yield status, connection.events()
        finally:
            connection.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()

    def _kept(self) -> _Connection | None:
        """The connection used last, if that was recent; otherwise all others are older still."""
        if self._idle and time.perf_counter() - self._idle[-1][0] < KEPT:
            return self._idle.pop()[1]
        self.close()
        return None


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int):
        self._reader, self._writer = reader, writer
        self._host = f"127.0.0.1:{port}"

    @staticmethod
    async def open(port: int) -> _Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        return _Connection(reader, writer, port)

    def close(self) -> None:
        self._writer.close()

    async def send(self, method: str, path: str, body: Any) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(content)}\r\n"
        )
        kind = "Content-Type: application/json\r\n" if content else ""
        self._writer.write(f"{head}{kind}\r\n".encode() + content)
        await self._writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = (line.partition(":") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): text.strip() for name, _, text in fields}

    async def answer(self) -> tuple[int, bytes]:
        status, fields = await self.head()
        if "chunked" in fields.get("transfer-encoding", ""):
            return status, b"".join([chunk async for chunk in self._chunks()])
        return status, await self._reader.readexactly(int(fields.get("content-length", "0")))

    async def events(self) -> AsyncIterator[dict[str, str]]:
        """Each with its fields, until the stream ends."""
        rest = b""
        async for chunk in self._chunks():
            *blocks, rest = (rest + chunk).split(b"\n\n")
            for block in blocks:
                pairs = (line.partition(": ") for line in block.decode().splitlines())
                if fields := {name: text for name, _, text in pairs if name}:
                    yield fields

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)
