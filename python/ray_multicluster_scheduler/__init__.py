"""One front door to many Ray clusters.

Inside a job that the control plane placed, :func:`current_context` says which job it
is, on which cluster it runs and where the control plane is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

__version__ = "0.1.0"
__all__ = ["JobContext", "current_context"]


@dataclass(frozen=True)
class JobContext:
    """What the control plane told the job it is running in."""

    job_id: str
    cluster: str
    attempt: int
    #: Where the control plane can be reached from this cluster, if it can.
    address: str | None


def current_context(env: Mapping[str, str] | None = None) -> JobContext | None:
    """The job this process runs in; ``None`` outside of any scheduled job."""
    env = os.environ if env is None else env
    job_id = env.get("RAY_MULTICLUSTER_JOB_ID")
    cluster = env.get("RAY_MULTICLUSTER_CURRENT_CLUSTER")
    if not job_id or not cluster:
        return None
    return JobContext(
        job_id=job_id,
        cluster=cluster,
        attempt=int(env.get("RAY_MULTICLUSTER_ATTEMPT", "1")),
        address=env.get("RAY_MULTICLUSTER_ADDRESS") or None,
    )
