"""A job, as the earlier prototype described it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

__all__ = ["JobDescription"]


@dataclass
class JobDescription:
    """Deprecated: ``ray_multicluster_scheduler.get_job_info`` tells of a job that was submitted."""

    job_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    entrypoint: str = ""
    runtime_env: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    submission_id: str | None = None
    preferred_cluster: str | None = None
    resource_requirements: dict[str, float] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    scheduling_status: str = "PENDING"
