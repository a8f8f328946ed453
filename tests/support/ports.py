"""Free ports of this test run."""

from __future__ import annotations

from ray_multicluster_scheduler._sandbox import ports

# Kept until this process ends, so that two test runs at once never share a block.
_held: list[ports.Block] = []
_singles: list[int] = []


def a_block() -> ports.Block:
    """Consecutive free ports that no other test run or sandbox will take."""
    _held.append(ports.claim())
    return _held[-1]


def a_port() -> int:
    """One free port, from a block that this run keeps for single ones."""
    while True:
        if not _singles:
            _singles.extend(a_block().ports)
        port = _singles.pop()
        if ports.is_free(port):
            return port
