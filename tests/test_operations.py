"""Actions of operators: clusters in and out of service, reload, health, metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.jobs import unique_id
from support.plane import MakePlane, Plane, is_healthy, lonely
from support.pool import HOMES, Pool
from support.ray_cluster import Clusters, where
from support.sse import EventStream
from support.waiting import wait_until


def submit(plane: Plane, entrypoint: str = "true", **fields: Any) -> str:
    body = {"entrypoint": entrypoint, "id": unique_id("ops"), **fields}
    return plane.post("/v1/jobs", body)["id"]


def wait_state(plane: Plane, job_id: str, state: str) -> None:
    wait_until(lambda: plane.native_job(job_id)["state"] == state, f"{job_id} is {state}", 90)


def test_clusters_are_listed_with_facts_from_ray(plane: Plane) -> None:
    assert [cluster["name"] for cluster in plane.clusters()] == ["centos", "mac"]
    centos = plane.cluster("centos")
    assert is_healthy(centos)
    assert centos["source"] == "file"
    assert centos["breaker"]["state"] == "closed"
    assert centos["tags"] == ["linux", "x86_64"]
    assert centos["ray_version"] == "2.60.0"
    assert centos["nodes"] == 1
    assert centos["home_dir"] == HOMES["centos"].rstrip("/")
    # The exact name of a custom resource: one of Ray's own endpoints would say linuxOnly.
    total = str(centos["total"])
    assert "linux_only" in total
    assert 0 <= centos["logical"]["cpu"] <= 1
    assert 0 < centos["physical"]["memory"] <= 1
    pool = plane.get("/v1/pool")
    assert (pool["clusters"], pool["available"], pool["nodes"]) == (2, 2, 2)


def test_a_cordoned_cluster_takes_nothing_new_and_says_why(
    plane: Plane, clusters: Clusters
) -> None:
    runs = submit(plane, "sleep 300", preferred_cluster="mac")
    wait_state(plane, runs, "running")
    cordoned = plane.post("/v1/clusters/mac/cordon", {"note": "kernel update"})
    assert cordoned["cordoned"] == "kernel update"
    waits = submit(plane, "true", preferred_cluster="mac", required=True)
    verdicts = plane.get(f"/v1/jobs/{waits}/explain")["clusters"]
    assert {"mac": "cordoned: kernel update"}.items() <= {
        verdict["cluster"]: verdict["text"] for verdict in verdicts
    }.items()
    elsewhere = submit(plane, "true", preferred_cluster="mac")
    wait_state(plane, elsewhere, "succeeded")
    assert where(clusters, elsewhere) == ["centos"]
    assert plane.native_job(runs)["state"] == "running", "what runs there goes on"

    with EventStream(f"{plane.address}/v1/events") as events:
        assert plane.post("/v1/clusters/mac/drain", {"note": "kernel update"})["draining"] is True
        plane.post(f"/v1/jobs/{runs}/stop")
        events.wait_for(type="cluster", cluster="mac", change="drained", timeout=60)
    opened = plane.post("/v1/clusters/mac/uncordon")
    assert "cordoned" not in opened
    assert opened["draining"] is False
    wait_state(plane, waits, "succeeded")
    assert where(clusters, waits) == ["mac"]


def test_a_check_brings_fresh_facts_at_once(make_plane: MakePlane) -> None:
    plane = make_plane(poll_interval="60s", snapshot_max_age="5m")
    before = plane.cluster("mac")["snapshot_at"]
    assert plane.request("POST", "/v1/clusters/mac/check").status_code == 202
    wait_until(lambda: plane.cluster("mac")["snapshot_at"] > before, "facts are newer", timeout=10)


def test_a_cluster_is_registered_and_removed_over_the_api(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    def centos_only(pool: Pool) -> None:
        pool.clusters = [pool["centos"]]

    plane = make_plane(centos_only)
    waits = submit(plane, "true", entrypoint_resources={"mac_only": 1})
    mac = clusters["mac"]
    body = {"name": "late", "head_address": mac.head_address, "dashboard": mac.dashboard}
    body["token"] = mac.token
    answer = plane.request("POST", "/v1/clusters", json={**body, "tags": ["macos"]})
    assert answer.status_code == 201, answer.text
    assert answer.json()["source"] == "api"
    again = plane.request("POST", "/v1/clusters", json=body)
    assert (again.status_code, again.json()["code"]) == (409, "duplicate_cluster")
    wait_state(plane, waits, "succeeded")
    assert where(clusters, waits) == ["mac"]
    # It survives a restart, and a reload of a file that never had it.
    plane.restart()
    plane.post("/v1/config/reload")
    plane.wait_healthy("centos", "late")
    assert plane.request("DELETE", "/v1/clusters/late").json()["removed"] is True
    assert plane.request("GET", "/v1/clusters/late").status_code == 404


def test_a_changed_file_is_put_into_force_and_a_broken_one_is_not(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    plane = make_plane()
    plane.pool["mac"]["tags"] = ["macos", "arm64", "fresh"]
    plane.pool.scheduler["submission_interval"] = "1s"
    plane.pool.write(plane.config)
    wait_until(lambda: "fresh" in plane.cluster("mac")["tags"], "the new tag is there", timeout=20)
    settings = {item["name"]: item["value"] for item in plane.get("/v1/settings")["items"]}
    assert settings["submission_interval"] == "1s"

    good = plane.config.read_text()
    plane.config.write_text(good.replace("resource", "resourze").replace("tags:", "tagz:"))
    answer = plane.request("POST", "/v1/config/reload")
    assert answer.status_code == 422
    assert answer.json()["code"] == "bad_config"
    assert "tagz" in answer.json()["message"]
    assert "fresh" in plane.cluster("mac")["tags"]

    # A cluster that leaves the file while it has work is removed when that has ended.
    job_id = submit(plane, "sleep 300", preferred_cluster="mac")
    wait_state(plane, job_id, "running")
    document = yaml.safe_load(good)
    document["clusters"] = [c for c in document["clusters"] if c["name"] == "centos"]
    plane.config.write_text(yaml.safe_dump(document))
    assert plane.post("/v1/config/reload")["clusters"] == 1
    assert plane.cluster("mac")["leaving"] is True
    assert plane.native_job(job_id)["state"] == "running"
    plane.post(f"/v1/jobs/{job_id}/stop")
    wait_until(
        lambda: plane.request("GET", "/v1/clusters/mac").status_code == 404, "mac is gone", 60
    )
    assert clusters["mac"].is_usable(), "nothing was done to the cluster itself"


def test_a_secret_of_jobs_is_read_again_when_its_file_changes(
    make_plane: MakePlane, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the first one")

    def from_a_file(pool: Pool) -> None:
        for cluster in pool.clusters:
            cluster["runtime_env"]["env_vars"]["KEY"] = {"file": str(secret)}

    plane = make_plane(from_a_file)
    for text in ("the first one", "the second one"):
        secret.write_text(text)

        def in_force(text: str = text) -> bool:
            given = plane.get("/v1/clusters/mac/connection")["runtime_env"]["env_vars"]
            return given["KEY"] == text

        wait_until(in_force, f"jobs get {text}", timeout=20)
        job_id = submit(plane, "sh -c 'echo KEY is ${#KEY} long'", preferred_cluster="mac")
        wait_state(plane, job_id, "succeeded")
        assert f"KEY is {len(text)} long" in plane.get(f"/v1/jobs/{job_id}/logs")["text"]


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain", "check"])
def test_an_unknown_cluster_is_a_404_that_names_the_known_ones(plane: Plane, verb: str) -> None:
    answer = plane.request("POST", f"/v1/clusters/windows/{verb}")
    assert answer.status_code == 404
    assert answer.json()["code"] == "unknown_cluster"
    assert "centos" in answer.json()["hint"]


def test_health_and_metrics_are_for_machines(plane: Plane) -> None:
    assert plane.request("GET", "/healthz").status_code == 200
    assert plane.request("GET", "/readyz").status_code == 200
    wait_state(plane, submit(plane), "succeeded")
    answer = plane.request("GET", "/metrics")
    assert answer.status_code == 200
    for part in ('cluster="centos"', 'cluster="mac"', "utilization", "queue", "decision", "commit"):
        assert part in answer.text, part


def test_log_lines_are_json_for_those_who_ask(tmp_path: Path) -> None:
    plane = lonely(tmp_path, {"RAY_MULTICLUSTER_LOG_FORMAT": "json"}).start()
    try:
        wait_until(lambda: "unhealthy" in plane.log.read_text(), "the cluster is found to be away")
    finally:
        plane.close()
    lines = [json.loads(line) for line in plane.log.read_text().splitlines()]
    assert all({"timestamp", "level", "target", "message"} <= line.keys() for line in lines)
    changes = [(line["cluster"], line["change"]) for line in lines if "change" in line]
    assert changes[:2] == [("away", "registered"), ("away", "unhealthy")]


def test_a_config_that_cannot_work_is_told_with_its_line_and_nothing_starts(
    clusters: Clusters, tmp_path: Path
) -> None:
    pool = Pool(list(clusters.values()), {"submission_intervall": "40s"})
    pool["mac"]["dashboard"] = "127.0.0.1:8265"
    plane = Plane(tmp_path / "plane", pool)
    with pytest.raises(AssertionError) as failed:
        plane.start(timeout=15)
    plane.close()
    told = str(failed.value)
    assert "did you mean submission_interval?" in told
    assert "http:// is missing" in told
    assert re.search(r"cluster\.yaml:\d+:\d+", told)


def test_two_control_planes_never_share_a_state_directory(make_plane: MakePlane) -> None:
    """Two that dispatch from one store would run jobs twice."""
    plane = make_plane()
    second = Plane(plane.directory.parent / "second", Pool([], {}))
    second.pool = plane.pool
    second.state = plane.state
    with pytest.raises(AssertionError, match="did not get ready"):
        second.start(timeout=15)
    second.close()
    assert plane.request("GET", "/healthz").status_code == 200
