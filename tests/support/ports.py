"""Free ports, in blocks: a Ray head needs a dozen of its own, known before it starts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Below the ephemeral range, so that no outgoing connection takes a port of a block between the
# look and the use; above Ray's defaults; and not 23000-23999, where Ray Client servers live.
FIRST, LAST = 12_000, 22_900
BLOCK = 100

# Held until this process ends, so that two test runs at once never share a block.
_held: list[int] = []
_singles: list[int] = []


def a_block() -> range:
    """`BLOCK` consecutive ports that are free and that no other test run will take."""
    starts = list(range(FIRST, LAST - BLOCK, BLOCK))
    random.shuffle(starts)
    for start in starts:
        ports = range(start, start + BLOCK)
        if _lock(start):
            if all(is_free(port) for port in ports):
                return ports
            os.close(_held.pop())
    raise RuntimeError(f"no {BLOCK} free ports in a row between {FIRST} and {LAST}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: what is merely in TIME_WAIT may be bound again.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def a_port() -> int:
    """One free port, from a block that this run keeps for single ones."""
    while True:
        if not _singles:
            _singles.extend(a_block())
        port = _singles.pop()
        if is_free(port):
            return port


def _lock(start: int) -> bool:
    directory = Path(tempfile.gettempdir()) / "ray-multicluster-e2e-ports"
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o777)
    descriptor = os.open(directory / f"{start}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    _held.append(descriptor)
    return True
