"""The control plane beside direct Ray, in one run on the same cluster; part of `make bench`.

Adds its figures to target/bench/server.json under "ray": how long a submit takes to be answered,
and how long until the job runs, directly and through the plane.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["RAY_AUTH_MODE"] = "disabled"

from ray.job_submission import JobStatus, JobSubmissionClient

from support.plane import Plane
from support.pool import Pool
from support.ray_cluster import RayCluster, remove_abandoned
from support.waiting import wait_until

ROUNDS = int(os.environ.get("ROUNDS", "12"))
RESULTS = Path(__file__).parent.parent / "target" / "bench" / "server.json"
# How often both are asked whether the job runs yet.
LOOK = 0.02


def main() -> None:
    remove_abandoned()
    cluster = RayCluster("centos")
    with tempfile.TemporaryDirectory(prefix="multicluster-bench-") as directory:
        plane = Plane(Path(directory), Pool([cluster]))
        try:
            cluster.start()
            plane.start()
            plane.wait_healthy()
            direct = JobSubmissionClient(cluster.dashboard)
            # The first submission after a head start takes seconds: not ours to measure.
            measure(direct, "warm-direct")
            measure(plane.client, "warm-plane")
            both = {"direct": direct, "plane": plane.client}
            taken = {name: [] for name in both}
            for n in range(ROUNDS):
                # In turn, so that whatever else the machine does hits both alike.
                for name, client in both.items():
                    taken[name].append(measure(client, f"{name}-{n}"))
        finally:
            plane.close()
            cluster.remove()
    report(taken)


def measure(client: JobSubmissionClient, job: str) -> tuple[float, float]:
    """Seconds until the submit was answered, and until the job was seen running."""
    started = time.perf_counter()
    client.submit_job(entrypoint="sleep 1", submission_id=job)
    accepted = time.perf_counter() - started
    while client.get_job_status(job) == JobStatus.PENDING:
        time.sleep(LOOK)
    running = time.perf_counter() - started
    wait_until(lambda: client.get_job_status(job).is_terminal(), f"{job} has ended", 60)
    return accepted, running


def report(taken: dict[str, list[tuple[float, float]]]) -> None:
    figures: dict[str, object] = {"rounds": ROUNDS}
    for at, what in enumerate(["accept", "submit_to_running"]):
        medians = {name: statistics.median(t[at] for t in each) for name, each in taken.items()}
        figures[what] = {
            **{f"{name}_p50_ms": round(median * 1000, 1) for name, median in medians.items()},
            "plane_over_direct": round(medians["plane"] / medians["direct"], 3),
        }
    all_figures = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({**all_figures, "ray": figures}, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
