"""Every accepted job runs exactly once: crashes, lost answers, and both together.

Each job appends its id to a file, so that what ran, and how often, does not depend on any report.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import requests

from support.jobs import appends, hints, unique_id, wait_for_all
from support.plane import MakePlane, Plane, is_healthy
from support.ray_cluster import Clusters
from support.waiting import wait_until

JOBS = 32
KILLS = 6


class Submitter(threading.Thread):
    """Submits job after job, like a careful caller: without an answer it repeats with the same
    id."""

    def __init__(self, plane: Plane, ids: list[str], file: Path) -> None:
        super().__init__(daemon=True)
        self.plane = plane
        self.ids = ids
        self.file = file
        self.accepted: list[str] = []
        self.repeated = 0
        self.refused: list[str] = []

    def run(self) -> None:
        for job_id in self.ids:
            body = {"submission_id": job_id, "entrypoint": appends(job_id, self.file)}
            while not self._submit(job_id, body):
                self.repeated += 1
                time.sleep(0.1)
            time.sleep(0.05)

    def _submit(self, job_id: str, body: dict[str, str]) -> bool:
        try:
            answer = self.plane.request("POST", "/api/jobs/", json=body, timeout=10)
        except requests.RequestException:
            return False
        if answer.status_code == 200 or "already exists" in answer.text:
            self.accepted.append(job_id)
        else:
            self.refused.append(f"{job_id}: {answer.status_code} {answer.text}")
        return True


def test_every_accepted_job_runs_exactly_once(make_plane: MakePlane, tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # pytest shows it if the test fails
    moments = random.Random(seed)
    plane = make_plane()
    file = tmp_path / "ran"
    ids = [unique_id("once") for _ in range(JOBS)]
    half = JOBS // 2
    submitters = [Submitter(plane, part, file) for part in (ids[:half], ids[half:])]
    for submitter in submitters:
        submitter.start()

    # Early kills hit accepts and dispatches, later ones the watching of running jobs.
    for _ in range(KILLS):
        time.sleep(moments.uniform(0.05, 2.5))
        plane.kill()
        plane.start()
    for submitter in submitters:
        submitter.join(60)
        assert not submitter.is_alive()
        assert submitter.refused == []
    accepted = [job_id for submitter in submitters for job_id in submitter.accepted]
    assert sorted(accepted) == sorted(ids)

    all_ran_once(plane, ids, file)


def test_what_was_on_its_way_to_a_cluster_that_hangs_runs_once(
    make_plane: MakePlane, mended: Clusters, tmp_path: Path
) -> None:
    """The requests wait in the sockets of the hung dashboard, which may still accept them when it
    wakes up, long after we gave up on them; and the control plane that sent them is gone by then.
    """
    plane = make_plane(dispatch_timeout="5s")
    file = tmp_path / "ran"
    mended["mac"].freeze()
    ids = [unique_id("lost") for _ in range(8)]
    for n, job_id in enumerate(ids):
        # Half of them require this cluster; the others may run anywhere.
        metadata = hints("mac", required=True) if n % 2 else None
        plane.client.submit_job(
            entrypoint=appends(job_id, file), submission_id=job_id, metadata=metadata
        )
    wait_until(lambda: not is_healthy(plane.cluster("mac")), "mac is unhealthy", timeout=60)
    on_the_way = [j for j in ids if plane.native_job(j).get("cluster") == "mac"]
    assert on_the_way, "some were sent before it was known to hang"
    plane.kill()
    plane.start()
    time.sleep(2)  # it asks about them, and gets no answer either
    mended["mac"].thaw()
    all_ran_once(plane, ids, file)


def all_ran_once(plane: Plane, ids: list[str], file: Path) -> None:
    jobs = wait_for_all(plane.client, ids)
    assert Counter(job.status.value for job in jobs.values()) == {"SUCCEEDED": len(ids)}
    # A job appends before it ends, but a wrong second run might come later: wait for that.
    wait_until(lambda: len(file.read_text().split()) >= len(ids), "all have left their line")
    time.sleep(3)
    assert Counter(file.read_text().split()) == dict.fromkeys(ids, 1)
