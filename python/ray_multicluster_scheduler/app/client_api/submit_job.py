"""Jobs, as the earlier prototype had them.

Deprecated: the same names are in ``ray_multicluster_scheduler``. A `cluster_name` is not needed
any more and not looked at: an id means one job, wherever it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ... import graceful_shutdown_on_keyboard_interrupt
from ..._jobs.info import JobInfo
from ..._scheduler import Scheduler, current_scheduler

__all__ = [
    "get_job_info",
    "get_job_status",
    "graceful_shutdown_on_keyboard_interrupt",
    "initialize_job_scheduler",
    "stop_job",
    "submit_job",
    "wait_for_all_jobs",
]


def initialize_job_scheduler(lifecycle_manager: Scheduler) -> None:
    """Deprecated: ``initialize_scheduler_environment`` has done it."""
    lifecycle_manager.start()


def submit_job(
    entrypoint: str,
    runtime_env: Mapping[str, Any] | None = None,
    job_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    submission_id: str | None = None,
    preferred_cluster: str | None = None,
    resource_requirements: Mapping[str, Any] | None = None,
    tags: Iterable[str] | None = None,
) -> str:
    """Deprecated: use ``ray_multicluster_scheduler.submit_job``."""
    return current_scheduler().submit_job(
        entrypoint,
        runtime_env=runtime_env,
        job_id=job_id,
        metadata=metadata,
        submission_id=submission_id,
        preferred_cluster=preferred_cluster,
        resource_requirements=resource_requirements,
        tags=tags,
    )


def get_job_status(submission_id: str, cluster_name: str | None = None) -> str:
    """Deprecated: use ``ray_multicluster_scheduler.get_job_status``."""
    return current_scheduler().get_job_status(submission_id)


def get_job_info(submission_id: str, cluster_name: str | None = None) -> JobInfo:
    """Deprecated: use ``ray_multicluster_scheduler.get_job_info``."""
    return current_scheduler().get_job_info(submission_id)


def stop_job(submission_id: str, cluster_name: str | None = None) -> bool:
    """Deprecated: use ``ray_multicluster_scheduler.stop_job``."""
    return current_scheduler().stop_job(submission_id)


def wait_for_all_jobs(
    submission_ids: Iterable[str], check_interval: float = 5, timeout: float | None = None
) -> bool:
    """Deprecated: use ``ray_multicluster_scheduler.wait_for_all_jobs``."""
    return current_scheduler().wait_for_all_jobs(
        submission_ids, check_interval=check_interval, timeout=timeout
    )
