"""The methods of this program's :class:`Scheduler` as functions."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Callable, TypeVar

from ._scheduler import Scheduler, current_scheduler

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")
R = TypeVar("R")


def _of_current(method: Callable[Concatenate[Scheduler, P], R]) -> Callable[P, R]:
    """The method's own signature and docstring, without `self`."""
    name = method.__name__

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        found: R = getattr(current_scheduler(), name)(*args, **kwargs)
        return found

    # Pickle finds functions by this name, in this module.
    call.__module__, call.__qualname__ = __name__, name
    signature = inspect.signature(method)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=list(signature.parameters.values())[1:]
    )
    return call


submit_job = _of_current(Scheduler.submit_job)
get_job_status = _of_current(Scheduler.get_job_status)
get_job_info = _of_current(Scheduler.get_job_info)
get_job_logs = _of_current(Scheduler.get_job_logs)
tail_job_logs = _of_current(Scheduler.tail_job_logs)
list_jobs = _of_current(Scheduler.list_jobs)
stop_job = _of_current(Scheduler.stop_job)
wait_for_all_jobs = _of_current(Scheduler.wait_for_all_jobs)
submit_task = _of_current(Scheduler.submit_task)
submit_task_async = _of_current(Scheduler.submit_task_async)
submit_tasks = _of_current(Scheduler.submit_tasks)
submit_tasks_async = _of_current(Scheduler.submit_tasks_async)
submit_actor = _of_current(Scheduler.submit_actor)
submit_actor_async = _of_current(Scheduler.submit_actor_async)
get_task_result = _of_current(Scheduler.get_task_result)
get_task_status = _of_current(Scheduler.get_task_status)
get_actor_status = _of_current(Scheduler.get_actor_status)
list_clusters = _of_current(Scheduler.list_clusters)
policies = _of_current(Scheduler.policies)
register_policy = _of_current(Scheduler.register_policy)
unregister_policy = _of_current(Scheduler.unregister_policy)
try_policy = _of_current(Scheduler.try_policy)
