"""Several owners on two real clusters: who gets how much, and who gives way to whom."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from support import tokens
from support.jobs import appends, hints, unique_id, wait_for, wait_for_all
from support.plane import MakePlane, Plane
from support.pool import Pool
from support.ray_cluster import Clusters, where
from support.waiting import PATIENCE, wait_until

# It counts to twenty, one step every half second, and goes on from its checkpoint. Asked to stop,
# it takes longer to write the checkpoint than the 3 s that Ray waits by default.
COUNTS = """
import pathlib, signal, sys, time

checkpoint, log = map(pathlib.Path, sys.argv[1:])
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
first = step

def save(*_):
    time.sleep(5)
    checkpoint.write_text(str(step))
    log.open("a").write(f"saved {step}\\n")
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
while step < 20:
    time.sleep(0.5)
    step += 1
log.open("a").write(f"counted from {first} to {step}\\n")
"""


def outcomes(plane: Plane, job: str) -> list[str]:
    return [attempt["outcome"] for attempt in plane.get(f"/v1/jobs/{job}")["history"]]


def test_a_preempted_job_saves_a_checkpoint_in_its_grace_and_goes_on_on_the_other_cluster(
    make_plane: MakePlane, clusters: Clusters, tmp_path: Path
) -> None:
    plane = make_plane(preempt_from=10, preempt_after="1s", resource_threshold=1.0)
    client = plane.client
    program, checkpoint, log = tmp_path / "counts.py", tmp_path / "checkpoint", tmp_path / "log"
    program.write_text(COUNTS)
    plane.post("/v1/clusters/centos/cordon", {"note": "jobs begin on mac"})
    keeps = client.submit_job(
        submission_id=unique_id("keeps"),
        entrypoint="sleep 20",
        metadata=hints("mac", required=True, needs="cpu=1"),
    )
    batch = client.submit_job(
        submission_id=unique_id("batch"),
        entrypoint=f"exec {sys.executable} {program} {checkpoint} {log}",
        metadata=hints(needs="cpu=3", preemptible="true", stop_grace="20s"),
    )
    wait_for(client, batch, "RUNNING")
    wait_for(client, keeps, "RUNNING")
    urgent = client.submit_job(
        submission_id=unique_id("urgent"),
        entrypoint=appends("ran", tmp_path / "urgent"),
        metadata=hints("mac", required=True, priority=10, needs="cpu=3"),
    )
    wait_until(log.exists, f"{batch} has saved its work", 60 * PATIENCE)
    plane.post("/v1/clusters/centos/uncordon")
    wait_for_all(client, [urgent, batch, keeps])
    saved, counted = log.read_text().splitlines()
    step = saved.removeprefix("saved ")
    assert 0 < int(step) < 20
    assert counted == f"counted from {step} to 20"
    assert (where(clusters, batch), where(clusters, f"{batch}-a2")) == (["mac"], ["centos"])
    assert outcomes(plane, batch) == ["preempted", "succeeded"]
    assert where(clusters, keeps) == ["mac"], "a job that is not preemptible is never touched"
    assert outcomes(plane, keeps) == ["succeeded"]


def test_two_owners_who_keep_the_pool_full_get_it_by_their_weights(make_plane: MakePlane) -> None:
    def change(pool: Pool) -> None:
        pool.shares = {"half_life": "5m", "owners": {"ann": {"weight": 3}}}

    plane = make_plane(change, resource_threshold=1.0)
    made = {name: tokens.create(plane, name, "submit") for name in ("bob", "ann")}
    admin = tokens.headers(tokens.create(plane, "ops", "admin"))

    def post(path: str, body: dict[str, Any], headers: dict[str, str]) -> None:
        answer = requests.post(plane.address + path, json=body, headers=headers, timeout=60)
        answer.raise_for_status()

    for cluster in ("centos", "mac"):
        post(f"/v1/clusters/{cluster}/cordon", {"note": "both submit first"}, admin)
    # Bob is first, and his jobs alone would fill the pool.
    for name, token in made.items():
        job = {"entrypoint": "sleep 5", "needs": {"CPU": 1}}
        jobs = [{**job, "id": f"{name}-{n}"} for n in range(40)]
        post("/v1/jobs/batch", {"jobs": jobs}, tokens.headers(token))
    for cluster in ("centos", "mac"):
        post(f"/v1/clusters/{cluster}/uncordon", {}, admin)

    def owners() -> dict[str, dict[str, Any]]:
        answer = requests.get(f"{plane.address}/v1/owners", headers=admin, timeout=30 * PATIENCE)
        answer.raise_for_status()
        return {row["name"]: row for row in answer.json()["items"]}

    # Eight run at a time.
    wait_until(
        lambda: sum(row["queued"] for row in owners().values()) <= 80 - 4 * 8,
        "the pool was filled four times",
        100 * PATIENCE,
    )
    now = owners()
    assert now["ann"]["had"] / now["bob"]["had"] == pytest.approx(3, rel=0.1), now
