"""Two clusters with tokens, each with another one: everything that goes through us, on real Ray."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from support import program
from support.jobs import unique_id, wait_for, wait_for_all
from support.plane import MakePlane, Plane, binary
from support.pool import Pool
from support.program import PROGRAMS
from support.ray_cli import RayCli
from support.ray_cluster import RayCluster, clean_environment
from support.waiting import wait_until

pytestmark = pytest.mark.ray_client

FLAVOURS = {"centos": "linux", "mac": "darwin"}


@pytest.fixture(scope="module")
def safe() -> Iterator[RayCluster]:
    """A `centos` that wants a token, in place of the one that all other tests use."""
    token = secrets.token_urlsafe(24)
    cluster = RayCluster("centos", resources={"linux_only": 4}, token=token)
    try:
        yield cluster.start()
    finally:
        cluster.remove()


@pytest.fixture
def plane(make_plane: MakePlane, safe: RayCluster, mac: RayCluster) -> Plane:
    def both_with_tokens(pool: Pool) -> None:
        pool.clusters = Pool([safe, mac]).clusters
        for cluster in pool.clusters:
            cluster["inject_sdk"] = True

    return make_plane(both_with_tokens)


def test_each_cluster_accepts_its_own_token_alone(safe: RayCluster, mac: RayCluster) -> None:
    def asked(cluster: RayCluster, headers: dict[str, str]) -> int:
        url = f"{cluster.dashboard}/api/jobs/"
        return requests.get(url, headers=headers, timeout=20).status_code

    for one, other in [(safe, mac), (mac, safe)]:
        said = [asked(one, headers) for headers in ({}, other.headers, one.headers)]
        assert said == [401, 403, 200]


def test_the_stock_command_line_and_client(plane: Plane, tmp_path: Path) -> None:
    """Submission with a package, the followed log, status, the whole log, and stop."""
    (tmp_path / "work").mkdir()
    script = "import os; print('packed,', 'on', os.environ['CLUSTER_FLAVOUR'])\n"
    (tmp_path / "work" / "main.py").write_text(script)
    cli = RayCli(plane.address, tmp_path)
    for cluster, flavour in FLAVOURS.items():
        job = unique_id("token")
        output = cli.job(
            "submit",
            "--submission-id",
            job,
            "--working-dir",
            str(tmp_path / "work"),
            "--metadata-json",
            json.dumps({"multicluster.preferred_cluster": cluster}),
            "--",
            "python",
            "main.py",
        ).ok()
        assert f"packed, on {flavour}" in output, "the log was followed"
        assert plane.native_job(job)["cluster"] == cluster
        assert f"packed, on {flavour}" in plane.client.get_job_logs(job)

        metadata = {"multicluster.preferred_cluster": cluster}
        long = plane.client.submit_job(
            entrypoint="sh -c 'echo begun; sleep 600'",
            metadata=metadata,
            submission_id=unique_id("long"),
        )
        asyncio.run(asyncio.wait_for(seen_in_log(plane, long, "begun"), 90))
        assert plane.client.stop_job(long)
        wait_for(plane.client, long, "STOPPED")


async def seen_in_log(plane: Plane, job: str, text: str) -> None:
    """The log as it is written, over a WebSocket."""
    async for lines in plane.client.tail_job_logs(job):
        if text in lines:
            return
    raise AssertionError("the log ended")


@pytest.mark.parametrize("name", ["tasks", "actors"])
def test_one_program_shows_each_cluster_its_own_token(
    plane: Plane, tmp_path: Path, name: str
) -> None:
    assert "all is well" in program.run(name, plane, tmp_path)


def test_a_job_on_one_cluster_uses_the_other(plane: Plane) -> None:
    """Its own token is in its environment; the other cluster's comes from the control plane."""
    job = unique_id("inside")
    entrypoint = f"python {PROGRAMS / 'inside.py'}"
    plane.post("/v1/jobs", {"id": job, "entrypoint": entrypoint, "preferred_cluster": "centos"})
    wait_for_all(plane.client, [job], timeout=150)
    text = plane.get(f"/v1/jobs/{job}/logs")["text"]
    assert plane.native_job(job)["state"] == "succeeded", text
    (line,) = [line for line in text.splitlines() if line.startswith("found: ")]
    found = json.loads(line.removeprefix("found: "))
    assert found["tasks"] == ["linux"] * 6
    assert found["sub_job_cluster"] == "centos"
    assert found["mixed"] == ["darwin", "linux"]


def cli(plane: Plane, *arguments: str) -> str:
    """What `ray-multicluster` says, without line breaks in the middle of a sentence."""
    done = subprocess.run(
        [str(binary()), *arguments],
        env={**clean_environment(plane.config.parent), "RAY_MULTICLUSTER_ADDRESS": plane.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return " ".join(done.stdout.split())


def health(plane: Plane, cluster: str) -> dict[str, Any]:
    return plane.get(f"/v1/clusters/{cluster}")["health"]


def test_a_refused_token_is_named_and_a_better_one_is_used_at_once(
    make_plane: MakePlane, mac: RayCluster, tmp_path: Path
) -> None:
    # A short path: `status` cuts long lines.
    file = mac.directory / "own"
    assert mac.token is not None
    file.write_text(mac.token)

    def from_that_file(pool: Pool) -> None:
        pool["mac"]["token_file"] = str(file)

    plane = make_plane(from_that_file)
    running = unique_id("running")
    body = {"entrypoint": "sleep 20", "preferred_cluster": "mac"}
    plane.post("/v1/jobs", {**body, "id": running})
    wait_until(lambda: plane.native_job(running)["state"] == "running", "it runs", 60)

    file.write_text("hunter2-hunter2")
    wait_until(lambda: health(plane, "mac")["state"] == "unauthorized", "mac refuses us", 30)
    refused = f"token_file {file} was refused: Forbidden: Invalid authentication token (HTTP 403)"
    assert health(plane, "mac")["error"] == refused
    waiting = plane.post("/v1/jobs", {**body, "entrypoint": "true", "required": True})["id"]
    why = plane.get(f"/v1/jobs/{waiting}/explain")
    assert f"unauthorized: {refused}" in json.dumps(why)
    for command in (["clusters"], ["clusters", "check", "mac"], ["why", waiting]):
        assert "unauthorized" in cli(plane, *command), command
    assert f"unauthorized: token_file {file} was refused" in cli(plane, "status")
    # A program that wants to connect gets what there is, and no more.
    shown = plane.get("/v1/clusters/mac/connection")["token"]
    assert shown == "hunter2-hunter2"

    os.replace(_written(tmp_path / "new", mac.token), file)
    wait_for_all(plane.client, [running, waiting], timeout=60)
    for job in (running, waiting):
        told = plane.native_job(job)
        assert (told["state"], told["attempts"]) == ("succeeded", 1)
    assert plane.get("/v1/clusters/mac/connection")["token"] == mac.token
    assert "hunter2" not in plane.output()
    assert mac.token not in plane.output()


def test_a_command_prints_the_token(make_plane: MakePlane, mac: RayCluster, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.write_text("#!/bin/sh\necho 'error: You must be logged in' >&2\nexit 1 # hunter2\n")
    locked.chmod(0o700)

    def from_a_command(pool: Pool) -> None:
        del pool["mac"]["token_file"]
        pool["mac"]["token_command"] = ["cat", str(mac.token_file)]
        # Relative to the folder of cluster.yaml.
        pool["centos"]["token_command"] = ["../../locked", "hunter2"]

    plane = make_plane(from_a_command, healthy=False)
    why = "token_command locked failed: exit code 1: error: You must be logged in"
    wait_until(lambda: health(plane, "centos").get("error") == why, "the command fails", 30)
    assert health(plane, "centos")["state"] == "unauthorized"
    answer = plane.request("GET", "/v1/clusters/centos/connection")
    assert (answer.status_code, answer.json()["code"]) == (502, "cluster_token")
    assert answer.json()["message"] == f"cluster centos: {why}"
    assert "hunter2" not in plane.output()
    wait_until(lambda: health(plane, "mac")["state"] == "healthy", "mac lets us in", 30)
    assert plane.get("/v1/clusters/mac/connection")["token"] == mac.token
    job = plane.post("/v1/jobs", {"entrypoint": "true", "preferred_cluster": "mac"})["id"]
    wait_for_all(plane.client, [job])
    assert plane.native_job(job)["state"] == "succeeded"


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
