"""Watches all the time, and records violations.

| | |
| --- | --- |
| lost | an accepted job that is not there, or does not end |
| run twice | a job that began more often than once |
| wrong final | a final status that changed, or that the job's own lines contradict |
| no reason | a job that waits, or is on its way, and cannot say for what |
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import requests

from support.plane import Plane
from support.waiting import wait_until

from .workload import Job, Ledger

FINAL = {"SUCCEEDED", "FAILED", "STOPPED"}
LIVE = "queued,dispatching,pending,running,unknown"

LOST, TWICE, WRONG, NO_REASON = "lost", "run twice", "wrong final", "no reason"

# The message for a job whose head restarted: how it ended cannot be known any more.
HEAD_LOST = "restarted and no longer knows this job"


@dataclass(frozen=True)
class Violation:
    kind: str
    job: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.job}: {self.text}"


class Witness(threading.Thread):
    def __init__(self, plane: Plane, jobs: list[Job], ledger: Ledger, seed: int) -> None:
        super().__init__(daemon=True)
        self._plane = plane
        self._jobs = {job.id: job for job in jobs}
        self._ledger = ledger
        self._dice = random.Random(seed)
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.final: dict[str, str] = {}
        self.violations: list[Violation] = []
        #: Clusters whose head was killed and has not been replaced yet.
        self._headless: set[str] = set()
        #: (cluster, job): jobs that were on a cluster when its head was killed, or that were sent
        #: there before there was a new one.
        self._there: set[tuple[str, str]] = set()
        #: Ended as failed because their head was lost, according to the rules.
        self.head_lost: set[str] = set()
        self.looks = 0
        self.explained = 0

    def add(self, job: Job) -> None:
        with self._lock:
            self._jobs[job.id] = job

    def in_flight(self) -> list[str]:
        """Accepted, and not known to have ended."""
        with self._lock:
            return [i for i, job in self._jobs.items() if job.accepted and i not in self.final]

    def accepted_since(self, moment: float) -> list[str]:
        with self._lock:
            return [i for i, job in self._jobs.items() if (job.accepted or 0.0) > moment]

    def head_killed(self, cluster: str) -> None:
        """Call it just before the head is killed."""
        self._headless.add(cluster)
        self._note_jobs_there()

    def head_replaced(self, cluster: str) -> None:
        """Call it as soon as there is a new head. Jobs that are sent to it have no excuse."""
        self._note_jobs_there()
        self._headless.discard(cluster)

    def _note_jobs_there(self) -> None:
        def noted() -> bool:
            for shown in self._list(f"&state={LIVE}"):
                self._note_if_there(shown)
            return True

        # The control plane may be down as well.
        wait_until(noted, "the control plane lists its jobs", timeout=60)

    def _note_if_there(self, shown: dict[str, Any]) -> None:
        if shown["ray_status"] not in FINAL and shown.get("cluster") in self._headless:
            self._there.add((shown["cluster"], shown["id"]))

    def run(self) -> None:
        while not self._over.wait(1.0):
            try:
                # Now and then all of them: ended jobs must still be there, unchanged.
                self.look(everything=self.looks % 8 == 7)
            except requests.RequestException:
                continue  # It is down, or not ready; other code measures for how long.

    def look(self, everything: bool) -> None:
        accepted = {i for i, job in list(self._jobs.items()) if job.accepted}
        seen = {}
        for shown in self._list("" if everything else f"&state={LIVE}"):
            seen[shown["id"]] = shown
            self._note_if_there(shown)
            self._note(shown)
        missing = accepted - seen.keys()
        if everything:
            for job_id in missing:
                self._violate(LOST, job_id, "was accepted, and is not in the list")
        else:
            # They have ended since the last look; the next look asks about the rest.
            for job_id in sorted(missing - self.final.keys())[:40]:
                self._note(_json(self._plane.request("GET", f"/v1/jobs/{job_id}", timeout=10)))
        live = [i for i, shown in seen.items() if shown["ray_status"] not in FINAL]
        for job_id in self._dice.sample(live, min(6, len(live))):
            self._ask_why(job_id)
        self.looks += 1

    def close(self) -> None:
        """The final check: every accepted job has ended, and each began once."""
        self._over.set()
        self.join(60)
        self.look(everything=True)
        began, _ = self._ledger.read()
        for job_id, job in self._jobs.items():
            if job.accepted and job_id not in self.final:
                self._violate(LOST, job_id, "was accepted, and has not ended")
            if began[job_id] > 1:
                self._violate(TWICE, job_id, f"began {began[job_id]} times")

    def _list(self, query: str) -> Iterable[dict[str, Any]]:
        cursor = ""
        while True:
            page = _json(
                self._plane.request("GET", f"/v1/jobs?limit=1000{query}{cursor}", timeout=15)
            )
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            cursor = f"&cursor={page['next_cursor']}"

    def _note(self, shown: dict[str, Any]) -> None:
        job_id, status = shown["id"], shown["ray_status"]
        job = self._jobs.get(job_id)
        if job is None:
            self._violate(WRONG, job_id, "nobody submitted it")
            return
        was = self.final.get(job_id)
        if was is not None and was != status:
            self._violate(WRONG, job_id, f"was {was}, and is {status} now")
        if was is None and status in FINAL:
            with self._lock:
                self.final[job_id] = status
            self._judge(job, status, shown)

    def _judge(self, job: Job, status: str, shown: dict[str, Any]) -> None:
        """Does the status match the job's own record of its end?"""
        began, ended = self._ledger.read()
        message = shown.get("message") or ""
        was_there = (shown["cluster"], job.id) in self._there
        if status == "FAILED" and HEAD_LOST in message and was_there:
            self.head_lost.add(job.id)
        elif status != job.ends:
            self._violate(WRONG, job.id, f"{status} in place of {job.ends}: {message}")
        elif began[job.id] != 1 or (job.is_real and ended[job.id] != 1):
            lines = f"it began {began[job.id]} times and ended {ended[job.id]} times"
            self._violate(WRONG, job.id, f"{status}, and {lines}")

    def _ask_why(self, job_id: str) -> None:
        answer = self._plane.request("GET", f"/v1/jobs/{job_id}/explain", timeout=15)
        why = _json(answer)
        self.explained += 1
        if not why["summary"].strip():
            self._violate(NO_REASON, job_id, f"{why['state']} without a word")
        if why["state"] == "queued" and not why["clusters"]:
            self._violate(NO_REASON, job_id, "waits, and no cluster says why")
        if why["state"] in ("queued", "dispatching", "pending"):
            shown = _json(self._plane.request("GET", f"/api/jobs/{job_id}", timeout=15))
            if shown["status"] == "PENDING" and not shown["message"]:
                self._violate(NO_REASON, job_id, "pending without a message to Ray's clients")

    def _violate(self, kind: str, job_id: str, text: str) -> None:
        violation = Violation(kind, job_id, text)
        if violation not in self.violations:
            self.violations.append(violation)


def _json(answer: requests.Response) -> Any:
    answer.raise_for_status()
    return answer.json()
