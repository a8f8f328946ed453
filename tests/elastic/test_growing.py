"""Clusters that grow, through the control plane."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth
from support import program
from support.elastic import ElasticCluster
from support.plane import Plane
from support.pool import Pool
from support.ray_cluster import RayCluster
from support.sse import EventStream
from support.waiting import wait_until

# Two workers of two CPUs, beside a head without any.
ELASTIC = {"max": {"CPU": 4}, "node": {"CPU": 2}, "within": "2m"}
# Two actors that live at the same time, so one node cannot have both.
TWO_ACTORS = """
import ray
ray.init()
@ray.remote(num_cpus=2)
class Here:
    def node(self): return ray.get_runtime_context().get_node_id()
actors = [Here.remote() for _ in range(2)]
print(len(set(ray.get([actor.node.remote() for actor in actors]))), 'nodes')
"""


def a_plane(directory: Path, clusters: list[RayCluster], **elastic: Any) -> Plane:
    pool = Pool(clusters, {"resource_threshold": 1.0})
    pool["cloud"]["elastic"] = {**ELASTIC, **elastic}
    plane = Plane(directory, pool)
    plane.start()
    plane.wait_healthy()
    return plane


@pytest.fixture
def plane(elastic: ElasticCluster, tmp_path: Path) -> Iterator[Plane]:
    """Only the cluster that grows; nobody has used it."""
    plane = a_plane(tmp_path / "plane", [elastic])
    yield plane
    plane.close()


def state(plane: Plane, job: str) -> str:
    return plane.native_job(job)["state"]


def why(plane: Plane, job: str) -> str:
    return plane.get(f"/v1/jobs/{job}/explain")["summary"]


def metric(plane: Plane, name: str) -> float:
    line = f'multicluster_cluster_{name}{{cluster="cloud"}} '
    [value] = [
        each for each in plane.request("GET", "/metrics").text.splitlines() if each.startswith(line)
    ]
    return float(value.removeprefix(line))


def finished(plane: Plane, job: str) -> None:
    wait_until(lambda: state(plane, job) == "succeeded", f"{job} has run", timeout=90)


def test_a_reservation_makes_an_empty_cluster_grow_and_the_next_job_waits_for_nothing(
    plane: Plane, elastic: ElasticCluster
) -> None:
    assert elastic.workers() == []
    plane.post("/v1/jobs", {"id": "first", "entrypoint": "sleep 1", "entrypoint_num_cpus": 2})
    wait_until(
        lambda: "waiting for 1 more node" in why(plane, "first"), "it says what it waits for"
    )
    assert metric(plane, "waiting_for_nodes") == 1
    assert metric(plane, "can_add_nodes") == 2
    wait_until(lambda: metric(plane, "nodes_pending") == 1, "its autoscaler says what comes")
    # What needs no node is not held back by what does.
    plane.post("/v1/jobs", {"id": "free", "entrypoint": "true"})
    finished(plane, "free")
    finished(plane, "first")
    [worker] = elastic.workers()
    assert worker["resources_total"]["CPU"] == 2
    wait_until(lambda: plane.cluster("cloud")["free"].get("CPU") == 2, "it is free again")
    plane.post("/v1/jobs", {"id": "second", "entrypoint": "true", "entrypoint_num_cpus": 2})
    decided = plane.get("/v1/jobs/second/decisions")["items"][0]["clusters"]
    finished(plane, "second")
    assert "grows_by" not in decided[0], "the node was there"
    wait_until(lambda: not elastic.workers(), "the idle worker is gone", timeout=60)


def test_the_needs_of_a_job_make_it_grow(plane: Plane) -> None:
    entrypoint = f'python -c "{TWO_ACTORS}"'
    plane.post("/v1/jobs", {"id": "needs", "entrypoint": entrypoint, "needs": {"CPU": 4}})
    decided = plane.get("/v1/jobs/needs/decisions")["items"][0]["clusters"]
    assert decided[0]["grows_by"] == 2, decided
    finished(plane, "needs")
    assert "2 nodes" in plane.get("/v1/jobs/needs/logs")["text"]


def test_growth_is_measured_beside_ray_alone(elastic: ElasticCluster) -> None:
    assert growth.measure(elastic, rounds=1)["first_line"]["ratio"] > 0


@pytest.mark.ray_client
def test_a_task_and_an_actor_make_it_grow(plane: Plane, tmp_path: Path) -> None:
    assert "both ran" in program.run("grows", plane, tmp_path)


def test_a_cluster_with_room_comes_first_and_one_that_does_not_grow_is_found_out(
    elastic: ElasticCluster, centos: RayCluster, tmp_path: Path
) -> None:
    plane = a_plane(tmp_path / "plane", [elastic, centos], within="8s")
    ran = tmp_path / "ran"
    try:
        plane.post("/v1/jobs", {"id": "resident", "entrypoint": "true", "entrypoint_num_cpus": 2})
        finished(plane, "resident")
        assert plane.native_job("resident")["cluster"] == "centos"
        assert elastic.workers() == []

        plane.post("/v1/clusters/centos/cordon", {"note": "disk"})
        elastic.fail_launches("InsufficientInstanceCapacity")
        entrypoint = f"echo ran >> {ran}"
        with EventStream(f"{plane.address}/v1/events") as events:
            body = {"id": "moved", "entrypoint": entrypoint, "entrypoint_num_cpus": 2}
            plane.post("/v1/jobs", body)
            events.wait_for(type="cluster", cluster="cloud", change="not_grown", timeout=60)
        wait_until(lambda: state(plane, "moved") == "queued", "it is taken back", timeout=90)
        said = why(plane, "moved")
        assert "did not: CPU 2 requested, 0 reached" in said, said
        assert "InsufficientInstanceCapacity" in said, said
        assert metric(plane, "stuck") == 1
        plane.post("/v1/clusters/centos/uncordon")
        finished(plane, "moved")
        assert plane.native_job("moved")["cluster"] == "centos"
        elastic.fail_launches(None)
        time.sleep(3)
        assert ran.read_text() == "ran\n", "once, and not again where it had waited"
    finally:
        elastic.fail_launches(None)
        plane.close()
