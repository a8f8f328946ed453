"""A program of the earlier prototype, from top to bottom, on real clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray

from ray_multicluster_scheduler.app.client_api import (
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
from support.jobs import unique_id
from support.plane import MakePlane
from support.ray_cluster import Clusters, where
from support.waiting import PATIENCE, wait_until


@pytest.fixture
def initialised(make_plane: MakePlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plane = make_plane(resource_threshold=1.0)
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", plane.address)
    scheduler = initialize_scheduler_environment()
    scheduler.start()
    yield
    scheduler.stop()


def flavour(prefix: str, suffix: str = "") -> str:
    import os

    return prefix + os.environ["CLUSTER_FLAVOUR"] + suffix


class Counter:
    """An actor."""

    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, number: int) -> int:
        self.count += number
        return self.count


@pytest.mark.usefixtures("initialised")
def test_jobs_tasks_and_actors_of_the_prototypes_calls_work(clusters: Clusters) -> None:
    jobs = [
        submit_job(
            entrypoint=f"echo {name}",
            submission_id=unique_id(name),
            metadata={"index": name},
            resource_requirements={"CPU": 1},
            preferred_cluster=name,
        )
        for name in clusters
    ]

    task_id, ref = submit_task(
        func=flavour, args=("<",), kwargs={"suffix": ">"}, preferred_cluster="mac", name="look"
    )
    ClusterContextManager.set_current_cluster("centos")
    try:
        _, other = unified_submit_task(flavour, ("",))
    finally:
        ClusterContextManager.clear_current_cluster()
    assert ray.get([ref, other]) == ["<darwin>", "linux"]
    assert get_task_status(task_id) == "SUCCEEDED"
    assert get_task_result(task_id) == "<darwin>"

    actor_id, counter = submit_actor(
        actor_class=Counter,
        args=(5,),
        resource_requirements={"CPU": 1, "memory": "64MiB"},
        tags=["tradebot", "fund"],
        name=unique_id("counter"),
    )
    _, second = submit_actor_async(Counter, (10,))
    assert ray.get([counter.add.remote(1), second.add.remote(1)]) == [6, 11]
    assert ray.get(get_actor_result(actor_id).add.remote(1)) == 7
    assert get_actor_status(actor_id) == "ALIVE"
    ray.kill(counter)
    wait_until(lambda: get_actor_status(actor_id) == "DEAD", "the actor is dead")

    assert wait_for_all_jobs(jobs, check_interval=1, timeout=120 * PATIENCE) is True
    for name, job_id in zip(clusters, jobs):
        assert where(clusters, job_id) == [name]
        assert get_job_info(job_id, name).cluster == name
