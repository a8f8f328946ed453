"""Tasks, as the earlier prototype had them.

Deprecated: the same names are in ``ray_multicluster_scheduler``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ... import get_task_result, get_task_status
from ..._context import choose_cluster, current_cluster
from ..._keywords import also_as
from ..._scheduler import Scheduler, current_scheduler, use_scheduler

__all__ = [
    "get_current_cluster_context",
    "get_task_result",
    "get_task_status",
    "initialize_scheduler",
    "set_current_cluster_context",
    "submit_task",
]


def initialize_scheduler(lifecycle_manager: Scheduler) -> None:
    """Deprecated: ``initialize_scheduler_environment`` has done it."""
    use_scheduler(lifecycle_manager)


@also_as("fn", "func")
def submit_task(
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    resource_requirements: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
    name: str = "",
    preferred_cluster: str | None = None,
) -> tuple[str, Any]:
    """Deprecated: use ``ray_multicluster_scheduler.submit_task``, which takes more."""
    return current_scheduler().submit_task(
        func, args, kwargs, resource_requirements, tags, name, preferred_cluster
    )


def get_current_cluster_context() -> str | None:
    """Deprecated: where work of this thread goes if the call does not say."""
    return current_cluster()


def set_current_cluster_context(cluster_name: str | None) -> None:
    """Deprecated: use ``with ray_multicluster_scheduler.cluster_context(cluster_name):``."""
    choose_cluster(cluster_name)
