"""The earlier prototype's records: plain data for programs that build or read them.

Deprecated: nothing here is sent anywhere. Clusters are shown by
``ray_multicluster_scheduler.list_clusters``, jobs by ``get_job_info``.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from .job_description import JobDescription

__all__ = [
    "ClusterMetadata",
    "JobDescription",
    "ResourceSnapshot",
    "SchedulingDecision",
    "TaskDescription",
]


@dataclass
class TaskDescription:
    """A task or an actor."""

    task_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    name: str = ""
    func_or_class: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    resource_requirements: dict[str, float] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    is_actor: bool = False
    preferred_cluster: str | None = None
    is_top_level_task: bool = True
    runtime_env: dict[str, Any] | None = None


@dataclass
class ClusterMetadata:
    """A cluster as its configuration describes it."""

    name: str
    head_address: str
    dashboard: str
    prefer: bool = False
    weight: float = 1.0
    runtime_env: dict[str, Any] | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class ResourceSnapshot:
    """The resources of a cluster, and how much of them Ray has allocated."""

    cluster_name: str
    cluster_cpu_usage_percent: float = 0.0
    cluster_mem_usage_percent: float = 0.0
    cluster_cpu_used_cores: float = 0.0
    cluster_cpu_total_cores: float = 0.0
    cluster_mem_used_mb: float = 0.0
    cluster_mem_total_mb: float = 0.0
    cluster_mem_used_gib: float = 0.0
    cluster_mem_total_gib: float = 0.0
    node_count: int = 0
    #: Seconds since 1970; 0 for a cluster that has not answered yet.
    timestamp: float = 0.0
    node_stats: dict[str, Any] | None = None


@dataclass
class SchedulingDecision:
    """The cluster that a task was sent to, and why."""

    task_id: str
    cluster_name: str
    reason: str = ""
