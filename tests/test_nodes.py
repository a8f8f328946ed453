"""A cluster of several nodes: demands that must fit on one node, and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.jobs import wait_for
from support.plane import Plane
from support.pool import Pool
from support.ray_cluster import RayCluster
from support.waiting import wait_until

TOO_LARGE = "largest node has CPU 4, 6 requested on one node"


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[RayCluster]:
    """A head and a worker of 4 CPUs each; only the worker has a label."""
    cluster = RayCluster("two", num_cpus=4)
    try:
        cluster.start()
        cluster.add_node(4, labels={"zone": "cellar"})
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="module")
def plane(two_nodes: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    plane = Plane(tmp_path_factory.mktemp("plane"), Pool([two_nodes]))
    try:
        plane.start()
        plane.wait_healthy()
        wait_until(lambda: of(plane).get("nodes") == 2, "both nodes are seen")
        yield plane
    finally:
        plane.close()


def of(plane: Plane) -> dict[str, Any]:
    [cluster] = plane.get("/v1/clusters")["items"]
    return cluster


def why(plane: Plane, job: str) -> str:
    [verdict] = plane.get(f"/v1/jobs/{job}/explain")["clusters"]
    return verdict["text"]


def test_a_driver_that_reserves_more_than_a_node_has_is_never_sent_there(
    plane: Plane, two_nodes: RayCluster
) -> None:
    sent = plane.post("/v1/jobs", {"entrypoint": "true", "entrypoint_num_cpus": 6})
    notice = "needs CPU 6 on one node, but the largest node has 4; queued until a node grows"
    assert sent["notice"] == notice
    assert why(plane, sent["id"]) == TOO_LARGE
    # Waiting work blocks no other work.
    small = plane.post("/v1/jobs", {"entrypoint": "true", "entrypoint_num_cpus": 2})["id"]
    wait_for(plane.client, small, "SUCCEEDED")
    assert two_nodes.job(sent["id"]) is None
    plane.post(f"/v1/jobs/{sent['id']}/stop", {})


@pytest.mark.parametrize("kind", ["task", "actor"])
def test_a_task_and_an_actor_larger_than_every_node_wait_with_the_reason(
    plane: Plane, kind: str
) -> None:
    asked = plane.post("/v1/placements", {"kind": kind, "demand": {"CPU": 6}})
    assert asked["status"] == "queued"
    assert [verdict["text"] for verdict in asked["why"]["clusters"]] == [TOO_LARGE]


def test_a_job_that_needs_more_than_a_node_has_is_sent(plane: Plane) -> None:
    job = plane.post("/v1/jobs", {"entrypoint": "true", "needs": {"CPU": 6}})
    assert "notice" not in job
    wait_for(plane.client, job["id"], "SUCCEEDED")


def test_a_job_that_selects_its_node_by_labels_runs_where_one_matches(
    plane: Plane, two_nodes: RayCluster
) -> None:
    request = {"entrypoint": "true", "entrypoint_label_selector": {"zone": "in(cellar, attic)"}}
    job = plane.post("/v1/jobs", request)["id"]
    wait_for(plane.client, job, "SUCCEEDED")
    nodes = two_nodes.get("/api/v0/nodes")["data"]["result"]["result"]
    [worker] = [node["node_id"] for node in nodes if not node["is_head_node"]]
    ran = two_nodes.job(job)
    assert ran is not None
    assert ran["driver_node_id"] == worker
    request["entrypoint_label_selector"] = {"zone": "garden"}
    waits = plane.post("/v1/jobs", request)["id"]
    assert why(plane, waits) == "no node matches zone=garden"
    assert two_nodes.job(waits) is None


def test_a_task_that_selects_its_node_by_labels_waits_where_none_matches(plane: Plane) -> None:
    request = {"kind": "task", "demand": {"CPU": 1}, "label_selector": {"zone": "garden"}}
    waits = plane.post("/v1/placements", request)
    assert [verdict["text"] for verdict in waits["why"]["clusters"]] == [
        "no node matches zone=garden"
    ]
    request["label_selector"] = {"zone": "!garden"}
    assert plane.post("/v1/placements?wait=30s", request)["status"] == "granted"


def test_what_a_cluster_runs_on_is_known_and_can_be_asked_for(plane: Plane) -> None:
    assert of(plane)["os"] == "linux", "nobody tagged it"
    job = plane.post("/v1/jobs", {"entrypoint": "true", "os": "Linux"})["id"]
    wait_for(plane.client, job, "SUCCEEDED")
    waits = plane.post("/v1/jobs", {"entrypoint": "true", "os": "macos"})["id"]
    assert why(plane, waits) == "runs on linux, the work asks for macos"
