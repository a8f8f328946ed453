"""The facts about jobs.

All moments are those of the machine's clock, which the tests, the jobs and the fakes share. The
clock of the control plane is not used: chaos sets it wrong.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.jobs import ENDED
from support.ray_cluster import RayCluster


@dataclass
class Job:
    id: str
    entrypoint: str = ""
    #: How often it may run: more than once only with max_retries or on_cluster_loss.
    runs: int = 1
    #: Whether its entrypoint writes into the ledger.
    writes: bool = True
    #: More of its request, named as in /v1.
    request: dict[str, Any] = field(default_factory=dict)
    #: When its first request was made, and when the control plane accepted it. Before that,
    #: nothing was promised.
    asked: float | None = None
    accepted: float | None = None
    #: When somebody asked to stop it.
    stopped: float | None = None

    @property
    def cluster(self) -> str | None:
        return self.request.get("preferred_cluster")

    def native(self) -> dict[str, Any]:
        """The body of POST /v1/jobs."""
        return {"id": self.id, "entrypoint": self.entrypoint, **self.request}


@dataclass(frozen=True)
class Line:
    """Of the ledger: a job's own, or a fake's."""

    #: `sent` (created on a cluster; only fakes tell), `begin` or `end`.
    what: str
    cluster: str
    job: str
    at: float
    #: Of an end.
    exit_code: int | None = None


@dataclass(frozen=True)
class Shown:
    """A job, as one reader saw it."""

    job: str
    #: When the request left, and when the answer was there.
    asked: float
    answered: float
    #: Ray's word; None if the job was not there.
    status: str | None
    #: Our own word, which tells unknown from running.
    state: str = ""
    cluster: str | None = None
    message: str = ""

    @property
    def is_final(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class Why:
    """An explanation."""

    job: str
    state: str
    summary: str
    clusters: int
    #: The message that Ray's clients get, if they are shown PENDING.
    to_ray: str | None = None


@dataclass
class Loss:
    """A head that was killed, from just before until there was a new one."""

    cluster: str
    since: float
    until: float | None = None


@dataclass
class Facts:
    jobs: dict[str, Job] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    #: (cluster, job), as the clusters themselves list them at the end.
    found: set[tuple[str, str]] = field(default_factory=set)
    shown: list[Shown] = field(default_factory=list)
    whys: list[Why] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    #: Output of runs of others under ids of ours, and what was shown as the logs of our jobs.
    strangers: set[str] = field(default_factory=set)
    logs: list[tuple[str, str]] = field(default_factory=list)


class History:
    """Records facts, from any thread."""

    def __init__(self, ledger: Path, clusters: Iterable[RayCluster] = ()) -> None:
        self.ledger = ledger
        self.ledger.touch()
        # A job on a real cluster knows it by this address only.
        self._names = {cluster.gcs_address: cluster.name for cluster in clusters}
        self._facts = Facts()
        self._lock = threading.Lock()
        #: The final statuses shown so far.
        self.final: dict[str, str] = {}

    def job(
        self, job_id: str, body: str = "true", exit_code: int = 0, runs: int = 1, **request: Any
    ) -> Job:
        """A job that writes its begin and its end. A fake reads its duration and its exit code
        from the same shell command, and writes the lines in its place."""
        says = f'echo "{{}} $RAY_ADDRESS {job_id} $(date +%s.%N){{}}" >> {self.ledger}'
        begin, end = says.format("begin", ""), says.format("end", f" {exit_code}")
        job = Job(job_id, f"{begin}; {body}; {end}; exit {exit_code}", runs, request=request)
        return self.add(job)

    def add(self, job: Job) -> Job:
        with self._lock:
            self._facts.jobs[job.id] = job
        return job

    def jobs(self) -> list[Job]:
        with self._lock:
            return list(self._facts.jobs.values())

    def in_flight(self) -> list[str]:
        """Accepted, and not known to have ended."""
        return [job.id for job in self.jobs() if job.accepted and job.id not in self.final]

    def accepted_since(self, moment: float) -> list[str]:
        return [job.id for job in self.jobs() if (job.accepted or 0.0) > moment]

    def show(self, shown: Shown) -> None:
        with self._lock:
            self._facts.shown.append(shown)
            if shown.is_final and shown.job in self._facts.jobs:
                self.final.setdefault(shown.job, str(shown.status))

    def explain(self, why: Why) -> None:
        self._facts.whys.append(why)

    def found(self, cluster: str, runs: Iterable[str]) -> None:
        """The cluster itself lists these runs. Those of other tests are left out."""
        named = {self._job_of(run) for run in runs} & self._facts.jobs.keys()
        self._facts.found |= {(cluster, job) for job in named}

    def head_lost(self, cluster: str) -> Loss:
        loss = Loss(cluster, now())
        self._facts.losses.append(loss)
        return loss

    def stranger(self, text: str) -> None:
        """A run of somebody else writes this into its log."""
        self._facts.strangers.add(text)

    def log(self, job_id: str, text: str) -> None:
        self._facts.logs.append((job_id, text))

    def explained(self) -> int:
        return len(self._facts.whys)

    def began(self) -> Counter[str]:
        """How often each job has begun so far."""
        return Counter(line.job for line in self._lines() if line.what == "begin")

    def facts(self) -> Facts:
        with self._lock:
            self._facts.lines = self._lines()
            return self._facts

    def _lines(self) -> list[Line]:
        return [self._line(*line.split()) for line in self.ledger.read_text().splitlines()]

    def _line(self, what: str, cluster: str, run: str, at: str, *exit_code: str) -> Line:
        name, job = self._names.get(cluster, cluster), self._job_of(run)
        return Line(what, name, job, float(at), int(exit_code[0]) if exit_code else None)

    def _job_of(self, run: str) -> str:
        """On a cluster, a later attempt of a job has its own id."""
        return run if run in self._facts.jobs else re.sub(r"-a\d+$", "", run)


def now() -> float:
    return time.time()
