"""`kill -9` of the control plane at random moments under load: every accepted job runs once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import requests

from support.jobs import appends, unique_id, wait_for_all
from support.plane import MakePlane, Plane
from support.waiting import wait_until

JOBS = 32
KILLS = 6


class Submitter(threading.Thread):
    """Submits job after job, as a careful caller does: no answer means to ask again by the id."""

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

    # Early ones hit the accepts and dispatches, later ones the watching of what runs.
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

    jobs = wait_for_all(plane.client, ids)
    assert Counter(job.status.value for job in jobs.values()) == {"SUCCEEDED": JOBS}
    # A job appends before it ends, but a second run would perhaps come later: let both settle.
    wait_until(lambda: len(file.read_text().split()) >= JOBS, "all have left their line")
    time.sleep(3)
    assert Counter(file.read_text().split()) == dict.fromkeys(ids, 1)
