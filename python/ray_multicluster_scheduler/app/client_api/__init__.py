"""The earlier prototype's calls, under their old names.

Deprecated: everything here is in ``ray_multicluster_scheduler`` too, with more to say about it.
"""

from __future__ import annotations

import sys

from ... import graceful_shutdown_on_keyboard_interrupt
from .submit_actor import initialize_actor_scheduler, submit_actor
from .submit_job import (
    get_job_status,
    initialize_job_scheduler,
    stop_job,
    submit_job,
    wait_for_all_jobs,
)
from .submit_task import initialize_scheduler, submit_task
from .unified_scheduler import (
    UnifiedScheduler,
    get_unified_scheduler,
    initialize_scheduler_environment,
    unified_submit_actor,
    unified_submit_task,
)

__all__ = [
    "UnifiedScheduler",
    "get_job_status",
    "get_unified_scheduler",
    "graceful_shutdown_on_keyboard_interrupt",
    "initialize_actor_scheduler",
    "initialize_job_scheduler",
    "initialize_scheduler",
    "initialize_scheduler_environment",
    "stop_job",
    "submit_actor",
    "submit_job",
    "submit_task",
    "unified_submit_actor",
    "unified_submit_task",
    "wait_for_all_jobs",
]

# `client_api.submit_job` is a submodule and a function. Here the function won, so that is what
# `import ray_multicluster_scheduler.app.client_api.submit_job as m` gives too: hence each carries
# what its submodule has, and `m.submit_job`, `m.wait_for_all_jobs` are found either way.
for _function in (submit_actor, submit_job, submit_task):
    _module = sys.modules[f"{__name__}.{_function.__name__}"]
    vars(_function).update({_name: getattr(_module, _name) for _name in _module.__all__})
