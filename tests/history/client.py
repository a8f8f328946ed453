"""A careful client: without an answer, or with "later", it repeats with the same id."""

from __future__ import annotations

import math
import queue
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import requests

from support.jobs import unique_id
from support.plane import Asked

from .record import History, Job, now

# Answers that mean "later": the client asks again with the same id.
LATER = {429, 503, 507}
# How the message of `cannot_write` begins: for `/readyz` and for Ray's clients, which get no code.
CANNOT_WRITE = ("the state has not been writable for", "the disk of the state directory")


class Client:
    def __init__(self, plane: Asked, history: History) -> None:
        self._plane = plane
        self.history = history
        self._waiting: list[Job] = []
        self._released: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        #: How often there was no answer, or another than "accepted"; by kind.
        self.repeated: Counter[str] = Counter()
        #: Neither accepted nor "later": there should be none.
        self.refused: list[str] = []

    def run(self, name: str, body: str = "true", **more: Any) -> str:
        """Submits a job that writes its lines, and returns its id: see `History.job`."""
        return self.submit(self.history.job(unique_id(name), body, **more))

    def expect(self, name: str) -> str:
        """The id of a job that is about to be submitted in another way, and writes no lines."""
        job = self.history.add(Job(unique_id(name), writes=False))
        job.asked = now()
        return job.id

    def stop(self, job_id: str) -> None:
        job = next(job for job in self.history.jobs() if job.id == job_id)
        job.stopped = now()
        self._plane.post(f"/v1/jobs/{job_id}/stop")

    def submit(self, job: Job) -> str:
        # Both APIs lead to the same queue.
        by_ray = zlib.crc32(job.id.encode()) % 2 == 0
        path, body = ("/api/jobs/", _for_ray(job)) if by_ray else ("/v1/jobs", job.native())
        # It may be submitted once more, because its answer, or more, was lost.
        job.asked = job.asked or now()
        while True:
            said = self._post(path, body)
            if said == "accepted":
                job.accepted = now()
                return job.id
            if said.startswith("refused"):
                self.refused.append(f"{job.id}: {said}")
                return job.id
            self.repeated[said] += 1
            time.sleep(0.3)

    def start(self, jobs: Iterable[Job], threads: int, pause: float) -> None:
        """Submits jobs in the background, once they are released; each thread pauses up to this
        many seconds after each."""
        self._waiting = list(jobs)

        def run() -> None:
            while (job := self._released.get()) is not None:
                self.submit(job)
                time.sleep(random.uniform(0, pause))

        self._threads = [threading.Thread(target=run, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def release(self, parts: int = 1) -> None:
        """Releases one of this many parts of the rest."""
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

    def _post(self, path: str, body: dict[str, Any]) -> str:
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
            return f"{answer.status_code} {_code(answer)}"
        return f"refused: {answer.status_code} {answer.text}"


def _code(answer: requests.Response) -> str:
    """Ray's clients get a text, ours a code."""
    if answer.headers["content-type"] == "application/json":
        return str(answer.json()["code"])
    says_so = any(beginning in answer.text for beginning in CANNOT_WRITE)
    return "cannot_write" if says_so else "to Ray clients"


def _for_ray(job: Job) -> dict[str, Any]:
    """Ray's own fields as they are, ours as hints in the metadata."""
    body: dict[str, Any] = {"submission_id": job.id, "entrypoint": job.entrypoint, "metadata": {}}
    for name, value in job.request.items():
        if name == "runtime_env" or name.startswith("entrypoint_"):
            body[name] = value
        else:
            text = ",".join(value) if isinstance(value, list) else str(value).lower()
            body["metadata"][f"multicluster.{name}"] = text
    return body
