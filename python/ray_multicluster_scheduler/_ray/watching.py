"""Detects a cluster that has stopped answering, and ends the waits for it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from .client import ClientConnection

#: How many requests in a row may stay unanswered before a connection is given up.
MISSES = 3

#: How long a graceful close may take before it is cut short.
CLOSE_TIMEOUT = 5.0


def watch(connection: ClientConnection, call_timeout: float) -> None:
    """Watches the connection until it ends.

    Ray Client itself waits for minutes if a head hangs or its machine is gone. A head that has
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
            # ValueError: Ray is just replacing the channel while reconnecting.
            misses += 1
            if misses >= MISSES:
                connection.lose(f"it did not answer for {time.monotonic() - worker.heard:.0f} s")
        # A head that refuses answers at once; it gets as much time as a silent one.
        rest = max(0.0, pause - (time.monotonic() - asked))
    # A graceful close waits for the cluster's answer, without a limit.
    if not connection.over.wait(CLOSE_TIMEOUT):
        connection.abort()
