"""A task's retries on its cluster, and its way to another one when the first is lost.

The test kills `mac` when this program prints so.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest
import ray
from ray.exceptions import GetTimeoutError, WorkerCrashedError

import ray_multicluster_scheduler as rms
from support.waiting import PATIENCE, wait_until

#: Longer than any wait here.
LONG = 3600


def address() -> tuple[str, str | None]:
    return os.environ["CLUSTER_FLAVOUR"], os.environ.get("RAY_MULTICLUSTER_ADDRESS")


class Model:
    def address(self) -> tuple[str, str | None]:
        return address()


def crash_once(marker: str) -> str:
    if not os.path.exists(marker):
        Path(marker).touch()
        os._exit(1)
    return "at the second try"


def slow_on_mac(marker: str, number: int = 0) -> str:
    if os.environ["CLUSTER_FLAVOUR"] == "darwin":
        Path(marker).touch()
        time.sleep(LONG)
    return f"{number} on linux"


def what_runs_knows_where_its_cluster_reaches_the_control_plane() -> None:
    told = {"centos": ("linux", sys.argv[1]), "mac": ("darwin", sys.argv[2])}
    for cluster, found in told.items():
        _, ref = rms.submit_task(address, preferred_cluster=cluster)
        _, model = rms.submit_actor(Model, preferred_cluster=cluster)
        assert ray.get([ref, model.address.remote()]) == [found, found]


def a_task_that_crashed_is_tried_again_by_ray_as_often_as_it_may(home: Path) -> None:
    _, ref = rms.submit_task(crash_once, args=(str(home / "a"),), max_retries=1)
    future = rms.submit_task_async(crash_once, args=(str(home / "b"),), max_retries=1)
    assert ray.get([ref, future.result(60)[1]]) == ["at the second try"] * 2
    _, ref = rms.submit_task(crash_once, args=(str(home / "c"),), max_retries=0)
    with pytest.raises(WorkerCrashedError):
        ray.get(ref)


def a_task_whose_cluster_is_lost_is_followed_if_that_was_allowed(home: Path) -> None:
    def submit(number: int, **how: str) -> tuple[str, ray.ObjectRef]:
        marker = str(home / f"runs{number}")
        future = rms.submit_task_async(
            slow_on_mac, args=(marker, number), num_cpus=0.5, preferred_cluster="mac", **how
        )
        return future.result(60 * PATIENCE)

    by_ref, by_id, by_future, by_await = [submit(n, on_cluster_loss="requeue") for n in range(4)]
    kept = submit(4)
    wait_until(lambda: all((home / f"runs{n}").exists() for n in range(5)), "all run on mac", 60)
    with pytest.raises(GetTimeoutError):
        ray.get(by_ref[1], timeout=0.1)
    future = by_future[1].future()

    async def awaited() -> str:
        return await by_await[1]

    print("kill mac", flush=True)
    assert sys.stdin.readline() == "killed\n"
    assert asyncio.run(awaited()) == "3 on linux"
    assert future.result(120 * PATIENCE) == "2 on linux"
    assert ray.get(by_ref[1]) == "0 on linux"
    assert rms.get_task_result(by_id[0]) == "1 on linux"
    assert [rms.get_task_status(id) for id, _ in (by_ref, by_id)] == ["SUCCEEDED"] * 2
    with pytest.raises(rms.ClusterConnectionError, match="mac"):
        ray.get(kept[1])
    assert rms.get_task_status(kept[0]) == "FAILED"
    # Later submissions too.
    assert ray.get(submit(5)[1]) == "5 on linux"


if __name__ == "__main__":
    with rms.initialize_scheduler_environment(), tempfile.TemporaryDirectory() as folder:
        what_runs_knows_where_its_cluster_reaches_the_control_plane()
        a_task_that_crashed_is_tried_again_by_ray_as_often_as_it_may(Path(folder))
        a_task_whose_cluster_is_lost_is_followed_if_that_was_allowed(Path(folder))
    print("all is well", flush=True)
