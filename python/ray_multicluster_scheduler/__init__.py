"""One front door to many Ray clusters.

    import ray_multicluster_scheduler as rms

    with rms.initialize_scheduler_environment("cluster.yaml"):
        job = rms.submit_job("python train.py", resource_requirements={"CPU": 2})
        rms.wait_for_all_jobs([job])

Every function here is a method of the :class:`Scheduler` that `initialize_scheduler_environment`
returns, and uses this program's. Ray is imported when a task or an actor is submitted, and not
before.
"""

from __future__ import annotations

from . import errors
from ._calls import (
    get_actor_status,
    get_job_info,
    get_job_logs,
    get_job_status,
    get_task_result,
    get_task_status,
    list_clusters,
    list_jobs,
    policies,
    register_policy,
    stop_job,
    submit_actor,
    submit_actor_async,
    submit_job,
    submit_task,
    submit_task_async,
    submit_tasks,
    submit_tasks_async,
    tail_job_logs,
    try_policy,
    unregister_policy,
    wait_for_all_jobs,
)
from ._context import JobContext, cluster_context, current_cluster, current_context
from ._jobs.info import JobInfo
from ._jobs.interrupts import graceful_shutdown_on_keyboard_interrupt
from ._plane.wire import Cluster
from ._policies import Policy, PolicyTrial, TriedWork
from ._ray.address import get_job_submission_client_cluster_info  # noqa: F401 (for Ray)
from ._scheduler import (
    Scheduler,
    Submission,
    current_scheduler,
    initialize_scheduler_environment,
)
from ._version import __version__
from .errors import *  # noqa: F403

__all__ = [
    "Cluster",
    "JobContext",
    "JobInfo",
    "Policy",
    "PolicyTrial",
    "Scheduler",
    "Submission",
    "TriedWork",
    "__version__",
    "cluster_context",
    "current_cluster",
    "current_context",
    "current_scheduler",
    "errors",
    "get_actor_status",
    "get_job_info",
    "get_job_logs",
    "get_job_status",
    "get_task_result",
    "get_task_status",
    "graceful_shutdown_on_keyboard_interrupt",
    "initialize_scheduler_environment",
    "list_clusters",
    "list_jobs",
    "policies",
    "register_policy",
    "stop_job",
    "submit_actor",
    "submit_actor_async",
    "submit_job",
    "submit_task",
    "submit_task_async",
    "submit_tasks",
    "submit_tasks_async",
    "tail_job_logs",
    "try_policy",
    "unregister_policy",
    "wait_for_all_jobs",
    *errors.__all__,
]
