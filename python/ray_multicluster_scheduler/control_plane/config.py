"""The clusters of a configuration, as the earlier prototype told them.

Deprecated: use ``ray_multicluster_scheduler.list_clusters``.
"""

from __future__ import annotations

import os
from typing import Any

from .._scheduler import Scheduler

__all__ = ["ConfigManager"]


class ConfigManager:
    """Deprecated: reads nothing itself, but asks the control plane of that configuration."""

    def __init__(self, config_file_path: str | os.PathLike[str] | None = None) -> None:
        self.config_file_path = config_file_path

    def get_cluster_configs(self) -> list[dict[str, Any]]:
        """Name, addresses, tags, weight, runtime_env and more of each; secrets left out."""
        with Scheduler(self.config_file_path) as scheduler:
            return scheduler.list_clusters()
