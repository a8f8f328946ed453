"""Jobs that record what they do, and clients that submit them as the docs advise.

The ledger is the jobs' own record: a job appends a line when it begins and one when it ends, and
the fakes record their runs. So what ran, and how often, does not depend on any report.
"""

from __future__ import annotations

import math
import queue
import random
import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import requests

from support.jobs import hints
from support.plane import Plane

# Answers that mean "later": the client asks again with the same id.
LATER = {429, 503, 507}


@dataclass
class Job:
    id: str
    entrypoint: str
    #: The required final state.
    ends: str
    tags: list[str] = field(default_factory=list)
    #: The only cluster that may run it.
    cluster: str | None = None
    #: Bytes of padding.
    padding: int = 0
    #: When the control plane accepted it. Before that, nothing was promised.
    accepted: float | None = None

    @property
    def is_real(self) -> bool:
        return "real" in self.tags


class Ledger:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()

    def entrypoint(self, job_id: str, seconds: float, exit_code: int) -> str:
        """A shell command that writes its lines; a fake reads its duration and exit code from
        it."""
        says = f'echo "{{}} {job_id} $$" >> {self.path}'
        return f"{says.format('begin')}; sleep {seconds}; {says.format('end')}; exit {exit_code}"

    def read(self) -> tuple[Counter[str], Counter[str]]:
        """How often each job began, and how often it reached its end (fakes do not record that)."""
        began: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        for line in self.path.read_text().splitlines():
            what, submission_id = line.split()[:2]
            # On a fake, the second attempt of a job has its own id.
            job_id = re.sub(r"-a\d+$", "", submission_id)
            (ended if what == "end" else began)[job_id] += 1
        return began, ended


def make(ledger: Ledger, dice: random.Random, count: int, real: int) -> list[Job]:
    """`count` jobs in a random order, `real` of them for real clusters; one in ten fails."""
    jobs = []
    for n in range(count):
        is_real = n < real
        exit_code = 3 if dice.random() < 0.1 else 0
        # On two cores a real cluster starts about one job per second.
        seconds = round(dice.uniform(1, 4) if is_real else dice.uniform(0.1, 6), 1)
        job_id = f"chaos-{'real' if is_real else 'fake'}-{n}"
        jobs.append(
            Job(
                job_id,
                ledger.entrypoint(job_id, seconds, exit_code),
                "FAILED" if exit_code else "SUCCEEDED",
                ["real" if is_real else "fake"],
            )
        )
    dice.shuffle(jobs)
    return jobs


class Clients:
    """Submit the released jobs. Without an answer, or with "later", they repeat with the same
    id."""

    def __init__(self, plane: Plane, jobs: Iterable[Job], threads: int = 8) -> None:
        self._plane = plane
        self._waiting = list(jobs)
        self._released: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        #: How often there was no answer, or another than "accepted"; by kind.
        self.repeated: Counter[str] = Counter()
        #: Neither accepted nor "later": there should be none.
        self.refused: list[str] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def release(self, parts: int) -> None:
        """Releases one of this many parts of the rest; they are submitted over the next seconds."""
        count = math.ceil(len(self._waiting) / parts)
        for job in self._waiting[:count]:
            self._released.put(job)
        del self._waiting[:count]

    def join(self, timeout: float) -> bool:
        """Whether all released jobs are submitted."""
        for _ in self._threads:
            self._released.put(None)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (job := self._released.get()) is not None:
            self.submit(job)
            time.sleep(random.uniform(0, 2))

    def submit(self, job: Job) -> None:
        # Both APIs lead to the same queue.
        by_ray = zlib.crc32(job.id.encode()) % 2 == 0
        while True:
            said = self._ask_ray(job) if by_ray else self._ask(job)
            if said == "accepted":
                job.accepted = time.monotonic()
                return
            if said.startswith("refused"):
                self.refused.append(f"{job.id}: {said}")
                return
            self.repeated[said] += 1
            time.sleep(0.3)

    def _ask(self, job: Job) -> str:
        body = {"id": job.id, "entrypoint": job.entrypoint, "tags": job.tags, **_padding(job)}
        if job.cluster is not None:
            body.update(preferred_cluster=job.cluster, required=True)
        return self._post("/v1/jobs", body)

    def _ask_ray(self, job: Job) -> str:
        metadata = hints(job.cluster, required=job.cluster is not None, tags=job.tags)
        body = {"submission_id": job.id, "entrypoint": job.entrypoint, "metadata": metadata}
        return self._post("/api/jobs/", {**body, **_padding(job)})

    def _post(self, path: str, body: dict[str, object]) -> str:
        try:
            answer = self._plane.request("POST", path, json=body, timeout=10)
        except requests.Timeout:
            return "no answer in time"
        except requests.RequestException:
            return "no connection"
        # For Ray's clients a taken id is an error: the id is ours, so the job has arrived.
        if answer.ok or "already exists" in answer.text:
            return "accepted"
        if answer.status_code in LATER:
            # Ray's clients get a text, ours a code.
            by_code = answer.headers["content-type"] == "application/json"
            return f"{answer.status_code} {answer.json()['code'] if by_code else 'to Ray clients'}"
        return f"refused: {answer.status_code} {answer.text}"


def _padding(job: Job) -> dict[str, object]:
    return {"runtime_env": {"env_vars": {"PADDING": "x" * job.padding}}} if job.padding else {}
