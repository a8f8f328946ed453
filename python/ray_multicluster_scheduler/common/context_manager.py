"""This thread's cluster, as the earlier prototype said it.

Deprecated: use ``with ray_multicluster_scheduler.cluster_context(name):``.
"""

from __future__ import annotations

from .._context import choose_cluster, current_cluster

__all__ = ["ClusterContextManager"]


class ClusterContextManager:
    """Deprecated: of the thread that calls, not of an object."""

    @staticmethod
    def set_current_cluster(cluster_name: str | None) -> None:
        """Work of this thread goes to this cluster, unless a call names another."""
        choose_cluster(cluster_name)

    @staticmethod
    def get_current_cluster() -> str | None:
        """The cluster of this thread; inside a scheduled job, its own cluster."""
        return current_cluster()

    @staticmethod
    def clear_current_cluster() -> None:
        """Undoes `set_current_cluster`."""
        choose_cluster(None)
