"""What a scheduled job submits, with the SDK that the control plane gave it."""

from __future__ import annotations

import json
from typing import Any

from support.jobs import unique_id, wait_for_all
from support.plane import MakePlane, Plane
from support.pool import Pool
from support.program import PROGRAMS

FLAVOURS = {"centos": "linux", "mac": "darwin"}


def a_plane_that_jobs_can_reach(make_plane: MakePlane) -> Plane:
    def inject(pool: Pool) -> None:
        for cluster in pool.clusters:
            cluster["inject_sdk"] = True

    # The job itself has to wait for this long; what it submits has not.
    plane = make_plane(inject, submission_interval="300s")
    for cluster in plane.pool.clusters:
        cluster["plane_address"] = plane.address
    plane.pool.write(plane.config)
    plane.post("/v1/config/reload")
    return plane


def found_by(plane: Plane, job: str) -> dict[str, Any]:
    text = plane.get(f"/v1/jobs/{job}/logs")["text"]
    (line,) = [line for line in text.splitlines() if line.startswith("found: ")]
    return json.loads(line[len("found: ") :])


def test_what_a_job_submits_stays_on_its_cluster(make_plane: MakePlane) -> None:
    plane = a_plane_that_jobs_can_reach(make_plane)
    job = unique_id("inside")
    entrypoint = f"python {PROGRAMS / 'inside.py'}"
    plane.post("/v1/jobs", {"id": job, "entrypoint": entrypoint, "preferred_cluster": "centos"})
    wait_for_all(plane.client, [job], timeout=150)
    assert plane.native_job(job)["state"] == "succeeded", plane.get(f"/v1/jobs/{job}/logs")["text"]
    found = found_by(plane, job)
    assert (found["job"], found["cluster"]) == (job, "centos")
    assert found["tasks"] == ["linux"] * 6
    assert found["batch"] == ["linux"] * 3
    assert found["actor"] == "linux"
    assert found["taken"] == "centos"
    assert found["nested"] == ["linux", "linux"]
    assert found["sub_job_cluster"] == "centos"
    assert found["mixed"] == ["darwin", "linux"], "another cluster, if it says so"
