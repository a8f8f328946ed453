"""A job through the control plane and directly on Ray, on the same cluster in the same run.

Three moments of each job, counted from the call of `submit_job`: the answer, the job's first line
(its own clock, taken inside the job) and the first status that is no longer PENDING.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ray.job_submission import JobStatus, JobSubmissionClient

from support.waiting import wait_until

# The job prints when its first line ran. It then lives long enough to be seen running.
ENTRYPOINT = "date +%s.%N; sleep 1"
# How often both sides are asked for the status.
LOOK = 0.02


class Moments(NamedTuple):
    """Seconds since the call of `submit_job`."""

    accepted: float
    first_line: float
    seen: float


def measure(
    direct: str,
    plane: str,
    rounds: int,
    before: Callable[[], object] = lambda: None,
    **reserved: float,
) -> dict[str, Any]:
    """`direct` is the address of a dashboard, `plane` that of a control plane above it.

    `before` is called before each job, which reserves `reserved`.
    """
    clients = {"direct": JobSubmissionClient(direct), "plane": JobSubmissionClient(plane)}
    taken: dict[str, list[Moments]] = {name: [] for name in clients}
    for name, client in clients.items():
        # The first submission after a head start takes seconds either way.
        one_job(client, f"warm-{name}")
    for n in range(rounds):
        # In turn, so that other load on the machine affects both alike.
        for name, client in clients.items():
            before()
            taken[name].append(one_job(client, f"{name}-{n}", **reserved))
    return {
        "rounds": rounds,
        **{what: beside(what, taken) for what in Moments._fields},
        **lag(taken),
    }


def one_job(client: JobSubmissionClient, job: str, **reserved: float) -> Moments:
    wall, started = time.time(), time.perf_counter()
    client.submit_job(entrypoint=ENTRYPOINT, submission_id=job, **reserved)
    accepted = time.perf_counter() - started
    while client.get_job_status(job) == JobStatus.PENDING:
        time.sleep(LOOK)
    seen = time.perf_counter() - started
    wait_until(lambda: client.get_job_status(job).is_terminal(), f"{job} has ended", 60)
    lines = client.get_job_logs(job).splitlines()
    first = next(float(line) for line in lines if line.replace(".", "").isdigit())
    return Moments(accepted, first - wall, seen)


def beside(what: str, taken: dict[str, list[Moments]]) -> dict[str, float]:
    medians = {
        name: statistics.median(getattr(m, what) for m in each) for name, each in taken.items()
    }
    return {
        **{f"{name}_p50_s": median for name, median in medians.items()},
        "ratio": medians["plane"] / medians["direct"],
    }


def lag(taken: dict[str, list[Moments]]) -> dict[str, float]:
    """How long after its first line the job is seen running."""
    return {
        f"{name}_seen_after_first_line_p50_s": statistics.median(
            m.seen - m.first_line for m in each
        )
        for name, each in taken.items()
    }
