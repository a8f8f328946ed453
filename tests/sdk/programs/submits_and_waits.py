"""A plain script: submits jobs, prints their ids, and waits for them.

    submits_and_waits.py [--decorated] ID:CPUS:ENTRYPOINT…

With `--decorated` it does not wait for jobs but sleeps, in a function that has
`graceful_shutdown_on_keyboard_interrupt`.
"""

from __future__ import annotations

import sys
import time

from ray_multicluster_scheduler import (
    graceful_shutdown_on_keyboard_interrupt,
    submit_job,
    wait_for_all_jobs,
)


def submit(job: str) -> str:
    job_id, cpus, entrypoint = job.split(":", 2)
    requirements = {"CPU": float(cpus)}
    return submit_job(
        entrypoint,
        submission_id=job_id,
        preferred_cluster="mac",
        resource_requirements=requirements,
    )


@graceful_shutdown_on_keyboard_interrupt
def decorated(jobs: list[str]) -> None:
    for job in jobs:
        submit(job)
    print("submitted", flush=True)
    time.sleep(600)


if sys.argv[1] == "--decorated":
    decorated(sys.argv[2:])
else:
    ids = [submit(job) for job in sys.argv[1:]]
    print("submitted", flush=True)
    wait_for_all_jobs(ids)
    print("all have succeeded")
