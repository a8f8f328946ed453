"""A reverse proxy that authenticates, as oauth2-proxy does: it knows its users by a secret, and
names them in headers. It connects from 127.0.0.2, so that the control plane can tell it apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

SOURCE = "127.0.0.2"


@contextlib.contextmanager
def signing_on(port: int, users: dict[str, tuple[str, str]]) -> Iterator[str]:
    """The address of a proxy in front of this port. `users`: secret to name and groups."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to: asyncio.StreamWriter | None = None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            fields = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
            given = {name.lower(): value for name, value in fields}
            user = users.get(given.get("authorization", "").removeprefix("Bearer "))
            # The client's own are dropped, as a proxy must.
            dropped = ("x-forwarded-email", "x-forwarded-groups", "authorization")
            kept = [(name, value) for name, value in fields if name.lower() not in dropped]
            if user:
                kept += [("X-Forwarded-Email", user[0]), ("X-Forwarded-Groups", user[1])]
            if "upgrade" not in given:
                kept = [(name, value) for name, value in kept if name.lower() != "connection"]
                kept.append(("Connection", "close"))
            behind, to = await asyncio.open_connection("127.0.0.1", port, local_addr=(SOURCE, 0))
            head = "\r\n".join([first, *(f"{name}: {value}" for name, value in kept), "", ""])
            to.write(head.encode("latin-1"))
            relays = [relay(reader, to), relay(behind, writer)]
            tasks = [asyncio.ensure_future(each) for each in relays]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[1].done():
                await asyncio.wait([tasks[1]], timeout=60)
            tasks[0].cancel()
        for end in (to, writer):
            if end is not None:
                end.close()

    async def relay(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0), loop)
    try:
        yield f"http://127.0.0.1:{server.result(10).sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(server.result().close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
