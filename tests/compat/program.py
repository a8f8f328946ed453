"""A user's program: a job with its folder, tasks and actors. Runs on any Ray that is supported."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import ray_multicluster_scheduler as rms


def where() -> str:
    return os.environ["RAY_MULTICLUSTER_CURRENT_CLUSTER"]


def double(n: int) -> int:
    return 2 * n


def fail() -> None:
    raise ValueError("on purpose")


class Counter:
    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, n: int) -> int:
        self.value += n
        return self.value


def job() -> None:
    """The job finds its folder and this SDK on the cluster, and submits work from there."""
    folder = Path(__file__).parent
    submitted = rms.submit_job("python program.py inside", runtime_env={"working_dir": str(folder)})
    rms.wait_for_all_jobs([submitted])
    log = rms.get_job_logs(submitted)
    assert "inside: all is well" in log, log
    assert rms.get_job_status(submitted) == "SUCCEEDED"


def work() -> None:
    """The same from outside, by Ray Client, and from inside a job, as a driver."""
    import ray

    _, ref = rms.submit_task(double, args=(1,), resource_requirements={"CPU": 2})
    assert ray.get(ref) == 2
    batch = rms.submit_tasks(double, range(20), num_cpus=0.1)
    assert ray.get([ref for _, ref in batch]) == [2 * n for n in range(20)]
    _, counter = rms.submit_actor(Counter, args=(40,), name=f"counter-{os.getpid()}")
    assert ray.get([counter.add.remote(1), counter.add.remote(1)]) == [41, 42]
    failed, ref = rms.submit_task(fail, max_retries=0)
    try:
        ray.get(ref)
    except ValueError:
        return
    raise AssertionError(f"{failed} did not fail")


def inside() -> None:
    import ray

    context: Any = rms.current_context()
    work()
    _, ref = rms.submit_task(where)
    assert ray.get(ref) == context.cluster
    print("inside: all is well", flush=True)


def mixed() -> None:
    """In a pool with several Rays, tasks go where they can run; other wishes are answered."""
    import ray

    own, other = sys.argv[2:]
    found = ray.get([ref for _, ref in rms.submit_tasks(lambda _: where(), range(8))])
    assert found == [own] * 8, found
    try:
        rms.submit_task(where, preferred_cluster=other, required=True, timeout=5)
    except rms.SchedulerError as error:
        print("answered:", error)


if __name__ == "__main__":
    part = sys.argv[1]
    with rms.initialize_scheduler_environment():
        {"job": job, "work": work, "inside": inside, "mixed": mixed}[part]()
    print("all is well")
