"""Tasks from outside, by one program on two clusters."""

from __future__ import annotations

import os
import time

import pytest
import ray

import ray_multicluster_scheduler as rms
from support.waiting import wait_until

FLAVOURS = {"centos": "linux", "mac": "darwin"}
GIB = 1 << 30


def where() -> str:
    return os.environ["CLUSTER_FLAVOUR"]


def assigned() -> dict[str, float]:
    return ray.get_runtime_context().get_assigned_resources()


def add(a: int, b: int = 0) -> int:
    return a + b


@ray.remote(num_cpus=2, num_returns=2)
def two() -> tuple[dict[str, float], int]:
    return assigned(), 2


def fail() -> None:
    raise ValueError("on purpose")


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def live() -> int:
    return sum(cluster["live"] for cluster in rms.list_clusters())


def a_task_runs_where_it_was_asked_with_what_it_asked_for() -> None:
    for cluster, flavour in FLAVOURS.items():
        _, ref = rms.submit_task(where, preferred_cluster=cluster)
        assert ray.get(ref) == flavour, cluster
    needs = {"CPU": 2, "memory": "1GiB", "linux_only": 1}
    _, ref = rms.submit_task(assigned, resource_requirements=needs)
    assert ray.get(ref) == {"CPU": 2, "memory": GIB, "linux_only": 1}, ray.get(ref)
    _, ref = rms.submit_task(where, arch="aarch64")
    assert ray.get(ref) == "darwin", "its tags say arm64"
    _, ref = rms.submit_task(add, args=(1,), kwargs={"b": 2}, tags=["macos", "tradebot"])
    assert ray.get(ref) == 3


def what_ray_remote_decorated_keeps_its_options() -> None:
    _, (first, second) = rms.submit_task(two)
    assert ray.get(first)["CPU"] == 2
    assert ray.get(second) == 2


def errors_are_raised_as_by_ray() -> None:
    task, ref = rms.submit_task(fail, max_retries=0)
    with pytest.raises(ValueError, match="on purpose"):
        ray.get(ref)
    assert rms.get_task_status(task) == "FAILED"


def a_batch_keeps_its_order_and_uses_all_clusters() -> None:
    submitted = rms.submit_tasks(add, [(n, n) for n in range(40)], num_cpus=0.1)
    assert ray.get([ref for _, ref in submitted]) == [2 * n for n in range(40)]
    assert len({id for id, _ in submitted}) == 40
    flavours = ray.get([ref for _, ref in rms.submit_tasks(lambda _: where(), range(8))])
    assert set(flavours) == set(FLAVOURS.values()), flavours
    assert rms.submit_tasks(add, []) == []


def by_id() -> None:
    task, ref = rms.submit_task(sleep, args=(1.0,))
    assert rms.get_task_status(task) == "RUNNING"
    assert rms.get_task_result(task) == "slept"
    assert rms.get_task_status(task) == "SUCCEEDED"
    polled, _ = rms.submit_task(add, args=(1, 1))
    wait_until(lambda: rms.get_task_status(polled) == "SUCCEEDED", "it has ended", 30)
    assert rms.get_task_result(polled) == 2, "to ask how it stands takes nothing away"
    assert rms.submit_task(add, args=(1,), num_returns=0)[1] is None
    demanding = two.options(num_cpus=500, num_returns=1)
    with pytest.raises(rms.PlacementTimeoutError, match="500"):
        rms.submit_task(demanding, timeout=1)
    del ref
    with pytest.raises(rms.UnknownJobError) as caught:
        rms.get_task_status(task)
    assert task in str(caught.value)


def futures_do_not_wait() -> None:
    future = rms.submit_task_async(add, args=(2, 3))
    assert future.id.startswith("task-")
    id, ref = future.result(60)
    assert (id, ray.get(ref)) == (future.id, 5)
    with rms.cluster_context("mac"):
        future = rms.submit_task_async(where)
    assert ray.get(future.result(60)[1]) == "darwin"
    results = rms.submit_tasks_async(add, [1, 2]).result(60)
    assert ray.get([ref for _, ref in results]) == [1, 2]


def what_fits_nowhere_times_out_and_says_why() -> None:
    began = time.monotonic()
    with pytest.raises(rms.PlacementTimeoutError) as caught:
        rms.submit_task(where, resource_requirements={"CPU": 500}, timeout=1)
    assert "centos" in str(caught.value)
    assert "mac" in str(caught.value)
    assert time.monotonic() - began < 10
    with pytest.raises(rms.ConfigurationError) as caught:
        rms.submit_task(where, preferred_cluster="moc")
    assert "moc" in str(caught.value)
    assert "mac" in str(caught.value.hint)


def places_are_given_back() -> None:
    wait_until(lambda: live() == 0, "all places are given back", 30)
    # The result of this one is never fetched.
    kept = rms.submit_task(sleep, args=(0.5,))
    assert live() == 1
    wait_until(lambda: live() == 0, "a task that nobody asks about gives its place back", 30)
    del kept
    # More than fit at once: each waits for the placement of an earlier one.
    refs = [rms.submit_task(add, args=(n,), num_cpus=2)[1] for n in range(12)]
    assert ray.get(refs) == list(range(12))


if __name__ == "__main__":
    with rms.initialize_scheduler_environment():
        a_task_runs_where_it_was_asked_with_what_it_asked_for()
        what_ray_remote_decorated_keeps_its_options()
        errors_are_raised_as_by_ray()
        a_batch_keeps_its_order_and_uses_all_clusters()
        by_id()
        futures_do_not_wait()
        what_fits_nowhere_times_out_and_says_why()
        places_are_given_back()
    print("all is well")
