"""A job for which an empty cluster has to grow, through the control plane and directly on Ray."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import job_start
from support.elastic import ElasticCluster
from support.plane import Plane
from support.pool import Pool


def measure(cluster: ElasticCluster, rounds: int) -> dict[str, Any]:
    with plane_above(cluster) as plane:
        return job_start.measure(
            cluster.dashboard,
            plane.address,
            rounds,
            before=cluster.shrink,
            entrypoint_num_cpus=cluster.worker_cpus,
        )


@contextlib.contextmanager
def plane_above(cluster: ElasticCluster) -> Iterator[Plane]:
    pool = Pool([cluster])
    most = cluster.worker_cpus * cluster.max_workers
    pool[cluster.name]["elastic"] = {"max": {"CPU": most}, "node": {"CPU": cluster.worker_cpus}}
    with tempfile.TemporaryDirectory(prefix="multicluster-growth-") as directory:
        plane = Plane(Path(directory), pool)
        try:
            plane.start()
            plane.wait_healthy()
            yield plane
        finally:
            plane.close()


def alone(rounds: int) -> dict[str, Any]:
    """With a cluster of its own."""
    cluster = ElasticCluster("cloud", idle_timeout=5)
    try:
        cluster.start()
        return measure(cluster, rounds)
    finally:
        cluster.remove()
