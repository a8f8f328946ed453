"""The state of an actor."""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from ..errors import ClusterConnectionError
from . import internals

#: A running actor answers within this time, unless it is busy.
PATIENCE = 1.0

_PING, _RAN = "_multicluster_ping", "_multicluster_ran"


def state(handle: Any) -> str:
    """STARTING, ALIVE (also if it is busy) or DEAD."""
    known = handle.__dict__
    # A ping without an answer is used again: pings must not pile up at a busy actor.
    ping = known.pop(_PING, None) or internals.ping(handle)
    try:
        ray.get(ping, timeout=PATIENCE)
    except GetTimeoutError:
        known[_PING] = ping
        return "ALIVE" if _RAN in known else "STARTING"
    except (RayActorError, ClusterConnectionError):
        return "DEAD"
    known[_RAN] = True
    return "ALIVE"
