"""Notices a cluster that does not answer any more, and ends the waiting for it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from .client import ClientConnection

#: So many questions in a row stay unanswered before a connection is given up.
MISSES = 3


def watch(connection: ClientConnection, call_timeout: float) -> None:
    """From now on until the connection ends.

    Ray Client itself waits for minutes when a head hangs or its machine is gone. A head that
    answers anything at all, be it that a result is not there yet, is asked nothing.
    """
    thread = threading.Thread(
        target=_watch,
        args=(connection, call_timeout / (MISSES + 2)),
        name=f"ray-multicluster-watch-{connection.name}",
        daemon=True,
    )
    thread.start()


def _watch(connection: ClientConnection, pause: float) -> None:
    worker = connection.worker
    misses = 0
    while connection.alive():
        asked = time.monotonic()
        if asked - worker.heard < pause:
            misses = 0
            time.sleep(pause - (asked - worker.heard))
            continue
        try:
            worker.ping_server(timeout=pause)
            worker.heard = time.monotonic()
        except (grpc.RpcError, ValueError, ConnectionError) as error:
            # ValueError: Ray is just replacing the channel, trying to connect again.
            misses += 1
            if misses >= MISSES:
                connection.lose(f"it did not answer for {time.monotonic() - worker.heard:.0f} s")
                return
            del error
            # A connection that was refused says so at once; it gets its time all the same.
            time.sleep(max(0.0, pause - (time.monotonic() - asked)))
