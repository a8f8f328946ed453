"""One object for everything, as the earlier prototype had it.

Deprecated: ``ray_multicluster_scheduler.initialize_scheduler_environment`` returns the like.
"""

from __future__ import annotations

import functools
import os

from ..._scheduler import (
    Scheduler,
    attached,
    current_scheduler,
    initialize_scheduler_environment,
)
from .submit_actor import submit_actor
from .submit_job import submit_job
from .submit_task import submit_task

__all__ = [
    "UnifiedScheduler",
    "get_unified_scheduler",
    "initialize_scheduler_environment",
    "submit_actor",
    "submit_job",
    "submit_task",
    "unified_submit_actor",
    "unified_submit_task",
]

unified_submit_task = submit_task
unified_submit_actor = submit_actor


class UnifiedScheduler:
    """Deprecated: the scheduler of this program."""

    submit_task = staticmethod(submit_task)
    submit_job = staticmethod(submit_job)
    submit_actor = staticmethod(submit_actor)

    def initialize_environment(
        self, config_file_path: str | os.PathLike[str] | None = None
    ) -> Scheduler:
        """Deprecated: use ``ray_multicluster_scheduler.initialize_scheduler_environment``."""
        return initialize_scheduler_environment(config_file_path)

    def list_clusters(self) -> list[str]:
        """Their names. ``ray_multicluster_scheduler.list_clusters`` tells how each stands."""
        return [cluster["name"] for cluster in current_scheduler().list_clusters()]

    def cleanup(self) -> None:
        """Deprecated: use ``stop()`` of what `initialize_environment` returned."""
        scheduler = attached()
        if scheduler is not None:
            scheduler.stop()


@functools.cache
def get_unified_scheduler() -> UnifiedScheduler:
    """Deprecated: use ``ray_multicluster_scheduler.current_scheduler``."""
    return UnifiedScheduler()
