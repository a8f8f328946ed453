"""A proxy in front of one dashboard, like networks and load balancers on a bad day.

One request per connection, so that every request is treated by the mood of its moment. In most
moods most requests suffer and some do not: a cluster that never answers is another fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
import struct
import threading
from collections import Counter
from socket import SO_LINGER, SOL_SOCKET
from urllib.parse import urlsplit

from support import ports


class Mood(enum.Enum):
    KIND = "kind"
    DELAYS = "delays"
    DROPS = "drops"
    TRUNCATES = "truncates"
    DUPLICATES = "duplicates"
    #: Requests below /api/jobs/ wait until the mood changes. Others are answered.
    JOBS_HANG = "jobs hang"
    #: Requests below /api/jobs/ are carried out, but never answered. Others are answered.
    JOBS_UNANSWERED = "jobs unanswered"
    #: Bodies of requests arrive at 1 MB/s.
    SLOW_LINK = "slow link"


SLOW = 1_000_000

# Longer than the control plane waits for an answer (10 s): abandoned requests still arrive.
TOO_LATE = 12.0


class Proxy:
    """`url` is for cluster.yaml; `mood` may change at any time; `done` counts the actions."""

    def __init__(self, backend: str, seed: int) -> None:
        self._backend = (urlsplit(backend).hostname, urlsplit(backend).port)
        self._dice = random.Random(seed)
        self.mood = Mood.KIND
        self.done: Counter[str] = Counter()
        port = ports.a_port()
        self.url = f"http://127.0.0.1:{port}{urlsplit(backend).path}"
        # Keeps requests whose client has gone; they still arrive.
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", port)
        )
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._serving.add(task)
        try:
            request = await self._read_request(reader)
            if request:
                await self._pass_on(request, writer)
        except (OSError, asyncio.IncompleteReadError):
            # The dashboard or the client is away: the other side sees the connection end.
            _reset(writer)
        finally:
            writer.close()
            self._serving.discard(task)

    async def _pass_on(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        is_job = b"/api/jobs/" in request.partition(b"\r\n")[0]
        if is_job and self.mood in (Mood.JOBS_HANG, Mood.JOBS_UNANSWERED):
            await self._spoil_job(request, writer, self.mood)
            return
        mood = self.mood if self._dice.random() < 0.7 else Mood.KIND
        if mood is Mood.DROPS and self._dice.random() < 0.5:
            self.done["request lost"] += 1
            _reset(writer)
            return
        if mood is Mood.DELAYS:
            # Now and then a request arrives after its client has stopped waiting.
            late = self._dice.random() < 0.15
            self.done["delayed past the patience of the sender" if late else "delayed"] += 1
            await asyncio.sleep(TOO_LATE if late else self._dice.uniform(0.1, 3))
        answer = await self._ask(request)
        if mood is Mood.DROPS:
            self.done["answer lost"] += 1
            _reset(writer)
            return
        if mood is Mood.TRUNCATES:
            self.done["answer truncated"] += 1
            answer = answer[: self._dice.randrange(1, max(2, len(answer)))]
        if mood is Mood.DUPLICATES:
            self.done["request duplicated"] += 1
            await asyncio.sleep(self._dice.uniform(0, 0.5))
            second = await self._ask(request)
            # Either answer: to a submit, the second one says that the id is taken.
            answer = self._dice.choice([answer, second])
        writer.write(answer)
        with contextlib.suppress(OSError):
            await writer.drain()

    async def _spoil_job(self, request: bytes, writer: asyncio.StreamWriter, mood: Mood) -> None:
        self.done["held back" if mood is Mood.JOBS_HANG else "answer lost"] += 1
        while self.mood is Mood.JOBS_HANG:
            await asyncio.sleep(0.1)
        # By now its client may have stopped waiting.
        answer = await self._ask(request)
        if mood is Mood.JOBS_UNANSWERED:
            _reset(writer)
            return
        writer.write(answer)
        with contextlib.suppress(OSError):
            await writer.drain()

    async def _read_request(self, reader: asyncio.StreamReader) -> bytes:
        """Head and body, with `Connection: close` in place of its own such header."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""
        lines = head[:-4].split(b"\r\n")
        parts = [line.partition(b":") for line in lines[1:]]
        headers = {name.strip().lower(): value.strip() for name, _, value in parts}
        assert b"transfer-encoding" not in headers, "a body of unknown length is not for this proxy"
        body = await self._read_body(reader, int(headers.get(b"content-length", b"0")))
        kept = [line for line in lines if not line.lower().startswith(b"connection:")]
        return b"\r\n".join([*kept, b"Connection: close", b"", b""]) + body

    async def _read_body(self, reader: asyncio.StreamReader, length: int) -> bytes:
        if self.mood is not Mood.SLOW_LINK:
            return await reader.readexactly(length)
        body = b""
        while len(body) < length:
            body += await reader.readexactly(min(1 << 16, length - len(body)))
            await asyncio.sleep((1 << 16) / SLOW)
        self.done["slow"] += 1
        return body

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._backend)
        try:
            writer.write(request)
            await writer.drain()
            return await reader.read(-1)
        finally:
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends the connection with a reset: sent data may be lost, too."""
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
