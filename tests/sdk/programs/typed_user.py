"""A user's program, for the type checker: tests/sdk/test_typed.py. It is never run."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import ray_multicluster_scheduler as rms
from ray_multicluster_scheduler.app.client_api import submit_job as prototype_submit_job
from ray_multicluster_scheduler.app.client_api import wait_for_all_jobs


class Counter:
    def add(self, n: int) -> int:
        return n


def square(x: int) -> int:
    return x * x


@rms.graceful_shutdown_on_keyboard_interrupt
def main(names: list[str]) -> int:
    with rms.initialize_scheduler_environment("cluster.yaml") as scheduler:
        everything(scheduler)
    return len(names)


@rms.graceful_shutdown_on_keyboard_interrupt()
def other_main() -> None:
    main(["a"])


def jobs() -> None:
    job: str = rms.submit_job("python train.py")
    again: str = rms.submit_job(
        entrypoint="python train.py",
        runtime_env={"working_dir": "."},
        resource_requirements={"CPU": 2, "memory": "4GiB"},
        tags=["linux"],
        required=True,
        preferred_cluster="mac",
        arch="arm64",
    )
    is_done: bool = rms.wait_for_all_jobs([job, again], check_interval=1, timeout=60.0)
    wait_for_all_jobs(prototype_submit_job("true"))
    status: str = rms.get_job_status(job)
    info: rms.JobInfo = rms.get_job_info(job)
    where: str | None = info.cluster
    ids: list[str] = [each.id for each in rms.list_jobs(state="RUNNING", limit=5)]
    text: str = rms.get_job_logs(job, lines=10)
    for piece in rms.tail_job_logs(job):
        text += piece
    stopped: bool = rms.stop_job(job)
    print(is_done, status, where, ids, text, stopped)


def tasks() -> None:
    task_id, ref = rms.submit_task(square, args=(3,), num_returns=1, timeout=5)
    known: str = task_id
    result: Any = rms.get_task_result(known, timeout=3)
    later: rms.Submission = rms.submit_task_async(square, args=(3,), name="square")
    submitted: tuple[str, Any] = later.result(timeout=5)
    many: list[tuple[str, Any]] = rms.submit_tasks(square, [1, 2, 3], tags=["linux"])
    all_later: Future[list[tuple[str, Any]]] = rms.submit_tasks_async(square, [1, 2, 3])
    print(ref, result, submitted, many, all_later.result(), rms.get_task_status(known))


def actors() -> None:
    actor_id, handle = rms.submit_actor(Counter, name="counter", timeout=30, max_restarts=1)
    later = rms.submit_actor_async(Counter, preferred_cluster="mac")
    id, other = later.result()
    print(handle, other, id, later.id.upper(), rms.get_actor_status(actor_id).lower())


def clusters() -> dict[str, float]:
    with rms.cluster_context("mac"):
        context: rms.JobContext | None = rms.current_context()
    if context is not None and context.job_id is not None:
        print(context.job_id, context.cluster, rms.current_cluster())
    found: list[rms.Cluster] = rms.list_clusters()
    healthy = [one["name"] for one in found if one["health"]["state"] == "healthy"]
    print(healthy, found[0].get("nodes"))
    return {one["name"]: one.get("free", {}).get("CPU", 0) for one in found}


def policies() -> None:
    policy: rms.Policy = rms.register_policy("night", "free_cpu / total_cpu", weight=2)
    trial: rms.PolicyTrial = rms.try_policy("night", remove=True, decisions=10)
    moved = [(item.now, item.then) for item in trial.items if item.differs]
    rms.unregister_policy(policy.name)
    print(moved, [each.weight for each in rms.policies()])


def everything(scheduler: rms.Scheduler) -> None:
    try:
        jobs()
        tasks()
        actors()
        clusters()
        policies()
        scheduler.wait_for_all_jobs(scheduler.submit_job("true"))
    except rms.JobFailedError as error:
        print(error.job_id, error.status, error.last_lines, error.hint)
    except rms.PlacementTimeoutError as error:
        code: str | None = error.code
        print(code, error.cluster)
    except (rms.QueueFullError, rms.errors.ConfigurationError) as error:
        print(error.message)


def mistakes() -> None:
    """Each is an error that the type checker must find."""
    rms.submit_job(3)  # expect: arg-type
    rms.submit_job("true", priority="high")  # expect: arg-type
    rms.submit_job("true", no_such_option=1)  # expect: call-arg
    rms.wait_for_all_jobs()  # expect: call-arg
    print(rms.get_job_info("job").no_such_field)  # expect: attr-defined
    print(rms.list_clusters()[0]["no_such_field"])  # expect: misc
    rms.stop_job("job").upper()  # expect: attr-defined
    rms.submit_task(square, args=3)  # expect: arg-type


if __name__ == "__main__":
    main([])
