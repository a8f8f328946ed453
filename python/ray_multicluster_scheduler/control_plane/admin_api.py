"""The state of the pool, as the earlier prototype showed it.

Deprecated: ask the control plane, ``GET /v1/clusters``, ``/v1/queue`` and ``/v1/pool``.
"""

from __future__ import annotations

from typing import Any

from .._plane.wire import Cluster
from .._scheduler import Scheduler, current_scheduler
from ..common.model import ResourceSnapshot
from .config import metadata

__all__ = ["AdminAPI"]

MIB = 1 << 20


class AdminAPI:
    """Deprecated: each call asks the control plane in use, or the given scheduler's.

    The prototype was given its own parts, which no longer exist; other arguments are ignored.
    """

    def __init__(self, *given: Any, **_named: Any) -> None:
        self._scheduler = next((one for one in given if isinstance(one, Scheduler)), None)

    def get_cluster_status(self) -> dict[str, dict[str, Any]]:
        """A `ClusterMetadata` and a `ResourceSnapshot` of each cluster, by its name."""
        return {
            cluster["name"]: {"metadata": metadata(cluster), "snapshot": _snapshot(cluster)}
            for cluster in self._ask("/v1/clusters")["items"]
        }

    def get_queue_status(self) -> dict[str, Any]:
        """How many jobs, tasks and actors wait, how many may in one queue, and if one is full."""
        queues = self._ask("/v1/queue")
        settings = self._ask("/v1/settings")["items"]
        return {
            "queue_size": queues["waiting"],
            "queue_max_size": next(int(s["value"]) for s in settings if s["name"] == "max_queue"),
            "is_empty": queues["waiting"] == 0,
            "is_full": any(queue["waiting"] >= queue["limit"] for queue in queues["items"]),
        }

    def get_health_status(self) -> dict[str, str]:
        """``HEALTHY`` or ``UNHEALTHY``, by the cluster's name."""
        return {
            cluster["name"]: "HEALTHY" if cluster["health"]["state"] == "healthy" else "UNHEALTHY"
            for cluster in self._ask("/v1/clusters")["items"]
        }

    def get_scheduler_stats(self) -> dict[str, Any]:
        """The three above in one."""
        clusters = self.get_cluster_status()
        return {
            "clusters": {"count": len(clusters), "details": clusters},
            "queue": self.get_queue_status(),
            "health": self.get_health_status(),
        }

    def _ask(self, path: str) -> Any:
        scheduler = current_scheduler() if self._scheduler is None else self._scheduler
        return scheduler.plane.get(path)


def _snapshot(cluster: Cluster) -> ResourceSnapshot:
    """All zero for a cluster that has not answered yet."""
    total, used = cluster.get("total") or {}, cluster.get("used") or {}
    cpus, memory = total.get("CPU", 0), total.get("memory", 0) / MIB
    cpus_used, memory_used = used.get("CPU", 0), used.get("memory", 0) / MIB
    return ResourceSnapshot(
        cluster_name=cluster["name"],
        cluster_cpu_usage_percent=100 * cpus_used / cpus if cpus else 0.0,
        cluster_mem_usage_percent=100 * memory_used / memory if memory else 0.0,
        cluster_cpu_used_cores=cpus_used,
        cluster_cpu_total_cores=cpus,
        cluster_mem_used_mb=memory_used,
        cluster_mem_total_mb=memory,
        cluster_mem_used_gib=memory_used / 1024,
        cluster_mem_total_gib=memory / 1024,
        node_count=cluster.get("nodes") or 0,
        timestamp=(cluster.get("snapshot_at") or 0) / 1000,
    )
