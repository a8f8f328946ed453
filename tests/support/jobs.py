"""Submitting jobs and waiting for them, through the Jobs API of Ray or of the plane."""

from __future__ import annotations

import shlex
import uuid
from pathlib import Path

from ray.job_submission import JobDetails, JobSubmissionClient

from .waiting import wait_until

ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}


def unique_id(name: str) -> str:
    """An id that no other test, and no earlier run on the same clusters, has used."""
    return f"{name}_{uuid.uuid4().hex[:10]}"


def hints(
    cluster: str | None = None,
    *,
    required: bool = False,
    tags: list[str] | None = None,
    priority: int | None = None,
    **more: str,
) -> dict[str, str]:
    """Placement hints in the form of job metadata."""
    given: dict[str, str] = {f"multicluster.{key}": value for key, value in more.items()}
    if cluster is not None:
        given["multicluster.preferred_cluster"] = cluster
    if required:
        given["multicluster.required"] = "true"
    if tags is not None:
        given["multicluster.tags"] = ",".join(tags)
    if priority is not None:
        given["multicluster.priority"] = str(priority)
    return given


def own_metadata(info: JobDetails) -> dict[str, str]:
    """The submitter's metadata. The plane adds the placement under its own prefix."""
    given = info.metadata or {}
    shown = ("multicluster.cluster", "multicluster.state", "multicluster.attempt")
    return {key: value for key, value in given.items() if key not in shown}


def appends(line: str, file: Path, then: str = "") -> str:
    """An entrypoint that appends one line to a file: what ran, and how often, can be counted."""
    command = f"echo {shlex.quote(line)} >> {shlex.quote(str(file))}"
    return f"{command}; {then}" if then else command


def wait_for(
    client: JobSubmissionClient, job_id: str, *wanted: str, timeout: float = 90
) -> JobDetails:
    """Waits until the job is in one of the wanted states; by default, ended."""
    states = set(wanted) or ENDED

    def look() -> JobDetails | None:
        info = client.get_job_info(job_id)
        if info.status in states:
            return info
        if info.status in ENDED:
            raise Ended(f"{job_id} is {info.status}: {info.message}")
        return None

    return wait_until(look, f"{job_id} is one of {sorted(states)}", timeout)


class Ended(BaseException):
    """Not an Exception: waiting for another state would be in vain."""


def wait_for_all(
    client: JobSubmissionClient, ids: list[str], timeout: float = 180
) -> dict[str, JobDetails]:
    """Waits until all have ended, with one list call at a time."""
    wanted = set(ids)

    def look() -> dict[str, JobDetails] | None:
        jobs = {job.submission_id: job for job in client.list_jobs() if job.submission_id in wanted}
        missing = [i for i in wanted if i not in jobs or jobs[i].status not in ENDED]
        return None if missing else jobs

    return wait_until(look, f"all {len(ids)} jobs have ended", timeout, every=0.5)
