"""A port in front of a server, whose bytes can be held back, lost, or stopped at a certain point.

Between a replica and PostgreSQL, or a replica and a cluster. Every replica has wires of its own, so
that the network fails for one of them only.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET

from . import ports

# The message with which the leader ends each transaction, and what only its connection sends.
COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
FENCE = b"multicluster.fence("
# What the server answers to it.
COMMITTED = b"COMMIT\x00"
# How a job is sent to a cluster.
SUBMIT = b"POST /api/jobs/"

_STEP = 0.01
_SIZE = 1 << 16


class Mode(enum.Enum):
    PASS = "pass"
    #: Connections are reset, new ones too.
    CUT = "cut"
    #: Nothing arrives, and nobody is told. What was on its way arrives once bytes pass again, as
    #: after a partition of a network.
    SWALLOW = "swallow"
    SWALLOW_REQUESTS = "swallow requests"
    SWALLOW_ANSWERS = "swallow answers"


class Point(enum.Enum):
    """Where a trigger stops what it is armed for."""

    #: All before it has arrived, it has not.
    BEFORE = "before"
    #: Half of what was sent together with it has arrived.
    INSIDE = "inside"
    #: It has arrived and was carried out. The answer has not come back.
    UNANSWERED = "unanswered"
    #: The answer has just come back.
    ANSWERED = "answered"
    #: As `UNANSWERED`, but the connection breaks instead of waiting.
    LOST = "answer lost"


@dataclass
class Trigger:
    """Does something once, when certain bytes come by; then the connection waits for `release`."""

    pattern: bytes
    point: Point
    action: Callable[[], object]
    #: Only on connections that have sent this before, or with it.
    among: bytes = b""
    #: How the answer is recognised; empty: whatever comes next.
    answer: bytes = b""
    happened: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    at: float = 0.0

    def release(self) -> None:
        self._released.set()

    def fire(self) -> None:
        self.at = time.time()
        self.action()
        self.happened.set()

    async def hold(self) -> None:
        while not self._released.is_set():
            await asyncio.sleep(_STEP)


def nothing() -> None:
    """For triggers that only hold."""


class Wire:
    """`address` is HOST:PORT; `mode` may change at any time."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.address = f"127.0.0.1:{ports.a_port()}"
        self._mode = Mode.PASS
        self._trigger: Trigger | None = None
        self._open: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        host, _, port = self.address.rpartition(":")
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, host, int(port), limit=_SIZE)
        )
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.CUT:
            self.reset()

    def reset(self) -> None:
        """Breaks every connection; new ones are not affected."""

        async def reset() -> None:
            for pair in list(self._open):
                pair.reset()

        asyncio.run_coroutine_threadsafe(reset(), self._loop).result(10)

    def refuse(self) -> None:
        """As `CUT`, for a trigger's action: it runs in the thread of the connections."""
        self._mode = Mode.CUT
        for pair in list(self._open):
            pair.reset()

    def arm(self, trigger: Trigger) -> Trigger:
        self._trigger = trigger
        return trigger

    def at_commit(self, point: Point, action: Callable[[], object] = nothing) -> Trigger:
        """When the leader commits the next time."""
        return self.arm(Trigger(COMMIT, point, action, among=FENCE, answer=COMMITTED))

    def at_submit(self, point: Point, action: Callable[[], object] = nothing) -> Trigger:
        """When a job is sent to the cluster the next time."""
        return self.arm(Trigger(SUBMIT, point, action))

    def disarm(self) -> None:
        if self._trigger is not None:
            self._trigger.release()
        self._trigger = None

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self.disarm()
        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._tasks.add(task)
        try:
            # Until then, it is as if the connection were not there.
            while self._mode in (Mode.SWALLOW, Mode.SWALLOW_REQUESTS):
                await asyncio.sleep(_STEP)
            if self._mode is Mode.CUT:
                _reset(writer)
                return
            host, _, port = self.backend.rpartition(":")
            to_server = await asyncio.open_connection(host, int(port), limit=_SIZE)
            pair = _Pair(self, (reader, writer), to_server)
            self._open.add(pair)
            try:
                await pair.serve()
            finally:
                self._open.discard(pair)
        except (OSError, asyncio.CancelledError):
            # Only `close` cancels; the task ends as it should then.
            _reset(writer)
        finally:
            writer.close()
            self._tasks.discard(task)

    def _take(self, pattern_in: bytes, sent: bytes) -> Trigger | None:
        """The trigger, if these bytes pull it."""
        trigger = self._trigger
        if trigger is None or trigger.pattern not in pattern_in or trigger.among not in sent:
            return None
        self._trigger = None
        return trigger


End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Pair:
    """One connection."""

    def __init__(self, wire: Wire, client: End, server: End) -> None:
        self._wire = wire
        self._client, self._server = client, server
        #: The end of what the client has sent, for patterns in two pieces.
        self._sent = b""
        #: It has come by, and its answer has not.
        self._awaited: Trigger | None = None
        self._answered = b""

    async def serve(self) -> None:
        both = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._answers())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            for _, writer in (self._client, self._server):
                writer.close()

    def reset(self) -> None:
        _reset(self._client[1])
        _reset(self._server[1])

    async def _requests(self) -> None:
        (reader, _), (_, writer) = self._client, self._server
        while some := await reader.read(_SIZE):
            await self._wait_while(Mode.SWALLOW, Mode.SWALLOW_REQUESTS)
            # The fence may be far ahead of its COMMIT.
            self._sent = (self._sent + some)[-(_SIZE * 4) :]
            trigger = self._wire._take(some, self._sent)
            if trigger is not None:
                some = await self._stop_at(trigger, some, writer)
            await _write(writer, some)
        await self._wait_while(Mode.SWALLOW, Mode.SWALLOW_REQUESTS)
        writer.write_eof()

    async def _stop_at(self, trigger: Trigger, some: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Returns what is still to be passed on."""
        place = some.index(trigger.pattern)
        if trigger.point not in (Point.BEFORE, Point.INSIDE):
            self._awaited = trigger
            self._answered = b""
            return some
        first = place if trigger.point is Point.BEFORE else max(1, place // 2)
        if first:
            await _write(writer, some[:first])
        trigger.fire()
        await trigger.hold()
        return some[first:]

    async def _answers(self) -> None:
        (_, writer), (reader, _) = self._client, self._server
        while some := await reader.read(_SIZE):
            await self._wait_while(Mode.SWALLOW, Mode.SWALLOW_ANSWERS)
            trigger = self._awaited
            self._answered = self._answered[-64:] + some
            if trigger is None or trigger.answer not in self._answered:
                await _write(writer, some)
                continue
            self._awaited = None
            if trigger.point is Point.LOST:
                self.reset()
                trigger.fire()
                return
            if trigger.point is Point.ANSWERED:
                await _write(writer, some)
            trigger.fire()
            if trigger.point is Point.UNANSWERED:
                await trigger.hold()
                await _write(writer, some)
        await self._wait_while(Mode.SWALLOW, Mode.SWALLOW_ANSWERS)
        # The server has ended the connection.
        writer.close()
        raise ConnectionResetError

    async def _wait_while(self, *modes: Mode) -> None:
        while self._wire.mode in modes:
            await asyncio.sleep(_STEP)


async def _write(writer: asyncio.StreamWriter, some: bytes) -> None:
    writer.write(some)
    await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(RuntimeError):
        writer.transport.abort()
