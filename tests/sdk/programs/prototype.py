"""A program of the earlier prototype, from top to bottom."""

from __future__ import annotations

import os
import uuid

import ray

from ray_multicluster_scheduler.app.client_api import (
    graceful_shutdown_on_keyboard_interrupt,
    initialize_scheduler_environment,
    submit_actor,
    submit_job,
    submit_task,
    unified_submit_task,
    wait_for_all_jobs,
)
from ray_multicluster_scheduler.app.client_api.submit_actor import (
    get_actor_result,
    get_actor_status,
    submit_actor_async,
)
from ray_multicluster_scheduler.app.client_api.submit_job import get_job_info
from ray_multicluster_scheduler.app.client_api.submit_task import get_task_result, get_task_status
from ray_multicluster_scheduler.common.context_manager import ClusterContextManager
from support.waiting import PATIENCE, wait_until


def flavour(prefix: str, suffix: str = "") -> str:
    return prefix + os.environ["CLUSTER_FLAVOUR"] + suffix


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, number: int) -> int:
        self.count += number
        return self.count


@graceful_shutdown_on_keyboard_interrupt
def main() -> None:
    scheduler = initialize_scheduler_environment()
    scheduler.start()
    run = uuid.uuid4().hex[:10]
    jobs = {
        cluster: submit_job(
            entrypoint=f"echo {cluster}",
            submission_id=f"{cluster}_{run}",
            metadata={"index": cluster},
            resource_requirements={"CPU": 1},
            preferred_cluster=cluster,
        )
        for cluster in ("centos", "mac")
    }
    tasks()
    actors(run)
    assert wait_for_all_jobs(list(jobs.values()), check_interval=1, timeout=120 * PATIENCE) is True
    for cluster, job_id in jobs.items():
        assert get_job_info(job_id, cluster).cluster == cluster
    scheduler.stop()
    print("all is well", flush=True)


def tasks() -> None:
    task_id, ref = submit_task(
        func=flavour, args=("<",), kwargs={"suffix": ">"}, preferred_cluster="mac", name="look"
    )
    assert (type(task_id), isinstance(ref, ray.ObjectRef)) == (str, True)
    ClusterContextManager.set_current_cluster("centos")
    _, other = unified_submit_task(fn=flavour, args=("",))
    ClusterContextManager.clear_current_cluster()
    assert get_task_status(task_id) in {"RUNNING", "SUCCEEDED"}
    assert get_task_result(task_id) == "<darwin>"
    assert get_task_status(task_id) == "SUCCEEDED"
    assert ray.get([ref, other]) == ["<darwin>", "linux"]


def actors(run: str) -> None:
    actor_id, counter = submit_actor(
        actor_class=Counter,
        args=(5,),
        resource_requirements={"CPU": 1, "memory": 64 * 1024 * 1024},
        tags=["tradebot", "fund"],
        name=f"counter_{run}",
    )
    assert type(actor_id) is str
    # The prototype returned a dead handle for the second actor of a class.
    _, second = submit_actor_async(cls=Counter, args=(10,))
    assert ray.get([counter.add.remote(1), second.add.remote(1)]) == [6, 11]
    assert ray.get(get_actor_result(actor_id).add.remote(1)) == 7
    assert get_actor_status(actor_id) == "ALIVE"
    ray.kill(counter)
    wait_until(lambda: get_actor_status(actor_id) == "DEAD", "the actor is dead")


if __name__ == "__main__":
    main()
