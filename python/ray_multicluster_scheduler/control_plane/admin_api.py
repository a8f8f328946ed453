"""How the pool is, as the earlier prototype told it.

Deprecated: ask the control plane, ``GET /v1/clusters``, ``/v1/queue`` and ``/v1/pool``.
"""

from __future__ import annotations

from typing import Any

from .._scheduler import Scheduler, current_scheduler

__all__ = ["AdminAPI"]


class AdminAPI:
    """Deprecated: each call asks the control plane in use, or the given scheduler's."""

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self._scheduler = scheduler

    def get_cluster_status(self) -> dict[str, dict[str, Any]]:
        """Everything about each cluster, by name."""
        return {cluster["name"]: cluster for cluster in self._ask("/v1/clusters")["items"]}

    def get_queue_status(self) -> dict[str, Any]:
        """How many wait, queue by queue."""
        return self._ask("/v1/queue")

    def get_health_status(self) -> dict[str, str]:
        """``healthy`` or what else each cluster is, by name."""
        clusters = self.get_cluster_status()
        return {name: cluster["health"]["state"] for name, cluster in clusters.items()}

    def get_scheduler_stats(self) -> dict[str, Any]:
        """All clusters as one: resources, live work, what waits."""
        return self._ask("/v1/pool")

    def _ask(self, path: str) -> Any:
        scheduler = current_scheduler() if self._scheduler is None else self._scheduler
        return scheduler.plane.get(path)
