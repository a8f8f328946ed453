"""Notices a cluster that has stopped answering, and ends the waiting for it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from .client import ClientConnection

#: So many questions in a row stay unanswered before a connection is given up.
MISSES = 3

#: How long a polite end may take before it is cut short.
CLOSE_TIMEOUT = 5.0


def watch(connection: ClientConnection, call_timeout: float) -> None:
    """From now on until the connection ends.

    Ray Client itself waits for minutes when a head hangs or its machine is gone. A head that has
    answered anything recently is not asked.
    """
    thread = threading.Thread(
        target=_watch,
        args=(connection, call_timeout / (MISSES + 2)),
        name=f"ray-multicluster-watch-{connection.name}",
        daemon=True,
    )
    thread.start()


def _watch(connection: ClientConnection, pause: float) -> None:
    worker, misses = connection.worker, 0
    rest = pause
    while not connection.ended.wait(rest):
        asked = time.monotonic()
        silent = asked - worker.heard
        if silent < pause:
            misses, rest = 0, pause - silent
            continue
        try:
            worker.ping_server(timeout=pause)
            worker.heard = time.monotonic()
        except (grpc.RpcError, ValueError, ConnectionError):
            # ValueError: Ray is just replacing the channel, trying to connect again.
            misses += 1
            if misses >= MISSES:
                connection.lose(f"it did not answer for {time.monotonic() - worker.heard:.0f} s")
        # One that refuses says so at once; it gets as much time as one that is silent.
        rest = max(0.0, pause - (time.monotonic() - asked))
    # A polite end waits for the cluster's answer, without a limit.
    if not connection.over.wait(CLOSE_TIMEOUT):
        connection.abort()
