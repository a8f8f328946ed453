"""Jobs, as the earlier prototype had them.

Deprecated: the same names are in ``ray_multicluster_scheduler``. A `cluster_name` is no longer
needed and is ignored: an id means one job, wherever it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import (
    get_job_info,
    get_job_status,
    graceful_shutdown_on_keyboard_interrupt,
    stop_job,
    wait_for_all_jobs,
)
from ..._scheduler import Scheduler, current_scheduler, use_scheduler

__all__ = [
    "get_job_info",
    "get_job_status",
    "graceful_shutdown_on_keyboard_interrupt",
    "initialize_job_scheduler",
    "initialize_scheduler",
    "stop_job",
    "submit_job",
    "update_submitted_job_id",
    "wait_for_all_jobs",
]


def initialize_job_scheduler(lifecycle_manager: Scheduler) -> None:
    """Deprecated: ``initialize_scheduler_environment`` has done it."""
    use_scheduler(lifecycle_manager)


def initialize_scheduler(task_lifecycle_manager: Scheduler) -> None:
    """Deprecated: the same."""
    use_scheduler(task_lifecycle_manager)


def update_submitted_job_id(*ids: str) -> None:
    """Deprecated: nothing is left to do, because a job keeps the id that it was given."""


def submit_job(
    entrypoint: str,
    runtime_env: Mapping[str, Any] | None = None,
    job_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    submission_id: str | None = None,
    preferred_cluster: str | None = None,
    resource_requirements: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
) -> str:
    """Deprecated: use ``ray_multicluster_scheduler.submit_job``, which takes more."""
    return current_scheduler().submit_job(
        entrypoint,
        runtime_env,
        job_id,
        metadata,
        submission_id,
        preferred_cluster,
        resource_requirements,
        tags,
    )
