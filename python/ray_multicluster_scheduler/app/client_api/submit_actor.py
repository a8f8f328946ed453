"""Actors, as the earlier prototype had them.

Deprecated: the same names are in ``ray_multicluster_scheduler``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import get_actor_status
from ..._keywords import also_as
from ..._scheduler import Scheduler, Submission, current_scheduler, use_scheduler
from ..._settings import ACTOR_READY_TIMEOUT
from .submit_task import get_current_cluster_context, set_current_cluster_context

__all__ = [
    "get_actor_result",
    "get_actor_status",
    "get_current_cluster_context",
    "initialize_actor_scheduler",
    "set_current_cluster_context",
    "submit_actor",
    "submit_actor_async",
]


def initialize_actor_scheduler(lifecycle_manager: Scheduler) -> None:
    """Deprecated: ``initialize_scheduler_environment`` has done it."""
    use_scheduler(lifecycle_manager)


@also_as("cls", "actor_class")
def submit_actor(
    actor_class: type,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    resource_requirements: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
    name: str = "",
    preferred_cluster: str | None = None,
    timeout: float | None = ACTOR_READY_TIMEOUT,
) -> tuple[str, Any]:
    """Deprecated: use ``ray_multicluster_scheduler.submit_actor``, which takes more."""
    return current_scheduler().submit_actor(
        actor_class,
        args,
        kwargs,
        resource_requirements,
        tags,
        name,
        preferred_cluster,
        timeout,
    )


@also_as("cls", "actor_class")
def submit_actor_async(
    actor_class: type,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    resource_requirements: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
    name: str = "",
    preferred_cluster: str | None = None,
) -> Submission:
    """Deprecated: a future of what `submit_actor` returns; unpacking it waits, as it always did."""
    return current_scheduler().submit_actor_async(
        actor_class, args, kwargs, resource_requirements, tags, name, preferred_cluster
    )


def get_actor_result(actor_id: str) -> Any:
    """Deprecated: the handle that `submit_actor` returned."""
    return current_scheduler().get_actor_handle(actor_id)
