"""Several Ray clusters in one program, behind the plain `ray` functions.

Importing this does not import Ray: that happens with the first connection.
"""

from __future__ import annotations

from .connections import ClusterAddress, Connection, Connections
from .done import when_done

__all__ = ["ClusterAddress", "Connection", "Connections", "ray_version", "when_done"]


def ray_version() -> str:
    """The version of Ray in this program."""
    from .internals import ray

    return str(ray.__version__)
