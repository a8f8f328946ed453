"""Under load and faults, no job is lost or runs twice, no final status is wrong, and every waiting
job has a reason.

`make test` runs it for about two minutes, `make chaos` with 1,000 jobs. `CHAOS_SEED` repeats the
faults of a run in their order, `CHAOS_JOBS` and `CHAOS_ROUNDS` set its size.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from chaos import report
from chaos.stage import staged
from chaos.storm import Storm
from chaos.workload import make
from support.plane import REPOSITORY
from support.ray_cluster import Clusters
from support.waiting import wait_until

JOBS = int(os.environ.get("CHAOS_JOBS", "150"))
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1"))
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(1_000_000))
# The page that gets the table. Without it, no file of the repository changes.
REPORT = Path(os.environ.get("CHAOS_REPORT") or REPOSITORY / "target/chaos/report.md")

# Jobs that are still queued after the last fault must have ended by then.
DRAINED_WITHIN = 90.0


@pytest.mark.timeout(3600)
def test_whatever_breaks_every_accepted_job_runs_once_and_ends_as_it_should(
    mended: Clusters, tmp_path: Path
) -> None:
    print(f"CHAOS_SEED={SEED}")
    began = time.monotonic()
    # More jobs than there are: none is forgotten.
    with staged(tmp_path, mended, SEED, retained=JOBS + JOBS // 2 + 100) as stage:
        history, client = stage.history, stage.client
        jobs = make(history, random.Random(SEED), JOBS, real=max(6, JOBS // 16))
        storm = Storm(stage, SEED)
        stage.start()
        client.start(jobs, threads=8, pause=2)

        storm.rage(ROUNDS)

        assert client.join(60), "all jobs are submitted by now"
        wait_until(lambda: not history.in_flight(), "everything has ended", DRAINED_WITHIN)
        # Waits, because a wrong second run might come late.
        time.sleep(3)
        found = stage.watcher.verdict(mended.values())

    text = report.render(storm, found, SEED, time.monotonic() - began)
    print(text)
    assert found == []
    assert client.refused == []
    assert all(job.accepted for job in jobs)
    assert history.explained() > 0
    assert client.repeated["503 cannot_write"] > 0, "clients get cannot_write while the disk fails"
    assert stage.keeper.restarts > 0
    assert "panicked" not in stage.plane.output()
    report.write(text, REPORT)
