"""Every accepted job runs exactly once: crashes, lost answers, and both together."""

from __future__ import annotations

import random
import time
from pathlib import Path

from history.watch import watched
from support.jobs import unique_id
from support.plane import MakePlane, is_healthy
from support.ray_cluster import Clusters
from support.waiting import wait_until

JOBS = 32
KILLS = 6


def test_every_accepted_job_runs_exactly_once(
    make_plane: MakePlane, clusters: Clusters, tmp_path: Path
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # pytest shows it if the test fails
    moments = random.Random(seed)
    plane = make_plane()
    with watched(plane, tmp_path, clusters, settle=3) as (client, _):
        jobs = [client.history.job(unique_id("once")) for _ in range(JOBS)]
        client.start(jobs, threads=2, pause=0.1)
        client.release()
        # Early kills hit accepts and dispatches, later ones the watching of running jobs.
        for _ in range(KILLS):
            time.sleep(moments.uniform(0.05, 2.5))
            plane.kill()
            plane.start()
        assert client.join(60)
        assert all(job.accepted for job in jobs)


def test_what_was_on_its_way_to_a_cluster_that_hangs_runs_once(
    make_plane: MakePlane, mended: Clusters, tmp_path: Path
) -> None:
    """The requests wait in the sockets of the hung dashboard, which may still accept them when it
    wakes up, long after we gave up on them; and the control plane that sent them is gone by then.
    """
    plane = make_plane(dispatch_timeout="5s")
    with watched(plane, tmp_path, mended, settle=3) as (client, _):
        mended["mac"].freeze()
        # Half of them require this cluster; the others may run anywhere.
        only = {"preferred_cluster": "mac", "required": True}
        ids = [client.run("lost", **(only if n % 2 else {})) for n in range(8)]
        wait_until(lambda: not is_healthy(plane.cluster("mac")), "mac is unhealthy", timeout=60)
        on_the_way = [j for j in ids if plane.native_job(j).get("cluster") == "mac"]
        assert on_the_way, "some were sent before it was known to hang"
        plane.kill()
        plane.start()
        time.sleep(2)  # it asks about them, and gets no answer either
        mended["mac"].thaw()
