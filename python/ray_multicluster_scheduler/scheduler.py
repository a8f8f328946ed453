"""The internals of the earlier prototype are gone: importing one says what to use instead.

The control plane does their work now. There are no modules below this one; it looks like a package
so that ``import ray_multicluster_scheduler.scheduler.queue.task_queue`` arrives here.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn

#: The modules that were below, by the prototype's folders: the names in use, and their
#: replacements.
GONE = {
    "lifecycle": (
        ("TaskLifecycleManager",),
        "`initialize_scheduler_environment()`: it returns the scheduler, with `start()`, `stop()`, "
        "`submit_task` and `submit_job`",
    ),
    "monitor": (
        ("ClusterMonitor",),
        "`list_clusters()`; `AdminAPI().get_cluster_status()` gives what `get_all_cluster_info()` "
        "gave",
    ),
    "health": (
        ("HealthChecker", "MetricsAggregator"),
        "`AdminAPI().get_health_status()`, or `health` and `breaker` of each in `list_clusters()`",
    ),
    "cluster": (
        ("ClusterManager", "ClusterRegistry"),
        "`list_clusters()`, or `ConfigManager(path).get_cluster_configs()`",
    ),
    "queue": (
        ("TaskQueue", "BackpressureController"),
        "`ray-multicluster queue`, or `AdminAPI().get_queue_status()`; a full queue is a "
        "`QueueFullError`",
    ),
    "policy": (
        ("PolicyEngine", "ScoreBasedPolicy", "ClusterSubmissionHistory"),
        "`policies:` in cluster.yaml; the 40-second rule is `submission_interval` there",
    ),
    "connection": (
        ("RayClientPool", "JobClientPool", "ConnectionLifecycleManager"),
        "nothing: the first task or actor opens the connection to its cluster, and jobs need none",
    ),
    "scheduler_core": (
        ("Dispatcher", "ResultCollector"),
        "`submit_task`, `submit_actor` and `submit_job`; results come by `ray.get(ref)` or "
        "`get_task_result(id)`",
    ),
}

#: For names that are not in the table.
OTHERWISE = "`ray_multicluster_scheduler`, which has all public calls"

__path__: list[str] = []


def _gone(name: str) -> NoReturn:
    below = name[len(__name__) + 1 :]
    instead = next(
        (text for folder, (names, text) in GONE.items() if below == folder or below in names),
        OTHERWISE,
    )
    raise ModuleNotFoundError(
        f"{name} was inside the earlier prototype and is gone: the control plane does its work. "
        f"Use instead: {instead.replace('`', '')}. More in docs/migrating-from-the-prototype.md",
        name=name,
    )


class _Gone(importlib.abc.MetaPathFinder):
    """Handles imports below this module, and no others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(__name__ + "."):
            _gone(fullname)
        return None


sys.meta_path.insert(0, _Gone())


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _gone(f"{__name__}.{name}")
