"""The clusters of a configuration, as the earlier prototype showed them.

Deprecated: use ``ray_multicluster_scheduler.list_clusters``.
"""

from __future__ import annotations

import copy
import os
from dataclasses import asdict
from typing import Any

from .._plane.wire import Cluster
from .._scheduler import Scheduler
from ..common.model import ClusterMetadata

__all__ = ["DEFAULT_CONFIG", "ConfigManager"]

#: Without a file there are no clusters.
DEFAULT_CONFIG: dict[str, Any] = {"clusters": []}


class ConfigManager:
    """Deprecated: reads nothing itself, but asks the control plane of that configuration."""

    DEFAULT_CONFIG = DEFAULT_CONFIG

    def __init__(self, config_file_path: str | os.PathLike[str] | None = None) -> None:
        self.config_file_path = config_file_path

    @property
    def config(self) -> dict[str, Any]:
        """The clusters in the shape of the file; secrets left out."""
        clusters = [asdict(cluster) for cluster in self.get_cluster_configs()]
        return {**copy.deepcopy(DEFAULT_CONFIG), "clusters": clusters}

    def get_cluster_configs(self) -> list[ClusterMetadata]:
        """Of each cluster, in the order of the file; secrets left out."""
        with Scheduler(self.config_file_path) as scheduler:
            return [metadata(cluster) for cluster in scheduler.list_clusters()]

    def get_cluster_config(self, name: str) -> ClusterMetadata | None:
        """Of one cluster; None if there is none of that name."""
        return next((one for one in self.get_cluster_configs() if one.name == name), None)


def metadata(cluster: Cluster) -> ClusterMetadata:
    """From what the control plane tells of a cluster."""
    return ClusterMetadata(
        name=cluster["name"],
        head_address=cluster["head_address"],
        dashboard=cluster["dashboard"],
        prefer=cluster["prefer"],
        weight=cluster["weight"],
        runtime_env=cluster["runtime_env"],
        tags=list(cluster["tags"]),
    )
