"""The setup: replicas on one database above fake clusters, careful clients, and a witness."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from chaos.fakes import Fake
from history.client import Client
from history.record import History, Job
from history.watch import Watcher
from support.jobs import ENDED, unique_id
from support.plane import expect_ok
from support.postgres import Database
from support.replicas import Replica, Replicas
from support.waiting import wait_until

# Quicker than the defaults: what is measured is the change of leader.
SCHEDULER: dict[str, Any] = {
    "submission_interval": "0s",
    "resource_threshold": 1,
    "poll_interval": "500ms",
    "breaker_cooldown": "2s",
}
CLUSTERS = ("east", "west")
# As much of the ledger's end as a new line is looked for in.
TAIL = 1 << 18


@dataclass(frozen=True)
class Probe:
    """A job of a test, timed from the fault."""

    job: str
    accepted: float
    sent: float

    def __str__(self) -> str:
        return f"accepted after {self.accepted:.2f} s, dispatched after {self.sent:.2f} s"


class Spared:
    """Takes requests by the first of these replicas that is up."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        replica = next((one for one in self._replicas if one.is_live), self._replicas[0])
        return replica.plane.request(method, path, **kwargs)

    def get(self, path: str, **kwargs: Any) -> Any:
        return expect_ok(self.request("GET", path, **kwargs))

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Any:
        return expect_ok(self.request("POST", path, json=body, **kwargs))


class Stage:
    def __init__(
        self,
        directory: Path,
        database: Database,
        count: int = 2,
        seed: int = 0,
        env: dict[str, str] | None = None,
        **scheduler: Any,
    ) -> None:
        self.dice = random.Random(seed)
        self.database = database
        self.history = History(directory / "ledger")
        self.fakes = {name: Fake(name, self.history.ledger) for name in CLUSTERS}
        entries = [
            {"name": name, "head_address": "127.0.0.1:1", "dashboard": fake.dashboard}
            for name, fake in self.fakes.items()
        ]
        settings = {**SCHEDULER, **scheduler}
        self.replicas = Replicas(
            directory / "replicas", database, entries, count, env, seed, **settings
        )
        # Both ask only what any replica answers.
        self.client = Client(self.replicas, self.history)
        self.watcher = Watcher(self.replicas, self.history, seed)

    def start(self) -> Stage:
        self.replicas.start()
        self.replicas.wait_healthy()
        self.watcher.start()
        return self

    def run(self, name: str = "job", body: str = "sleep 0.1", **request: Any) -> Job:
        """Submits a small job by any replica; returns once it is accepted."""
        job = self.history.job(unique_id(name), body, **request)
        self.client.submit(job)
        return job

    def probe(self, since: float, *by: Replica) -> Probe:
        """How long after this moment a job is accepted, by one of these replicas or by any, and
        sent to a cluster."""
        client = Client(Spared(by), self.history) if by else self.client
        job = self.history.job(unique_id("probe"))
        client.submit(job)
        assert job.accepted is not None, client.refused
        sent = wait_until(lambda: self.sent_at(job.id), "a job is sent", 60, every=0.02)
        return Probe(job.id, job.accepted - since, sent - since)

    def sent_at(self, job_id: str) -> float | None:
        """When a cluster got it."""
        with self.history.ledger.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL))
            text = file.read().decode(errors="replace")
        for line in text.splitlines():
            words = line.split()
            if len(words) >= 4 and words[0] == "sent" and words[2].startswith(job_id):
                return float(words[3])
        return None

    def wait_for_end(self, *jobs: Job, timeout: float = 60) -> None:
        def ended() -> bool:
            return all(self.replicas.native_job(job.id)["ray_status"] in ENDED for job in jobs)

        wait_until(ended, f"{len(jobs)} jobs have ended", timeout)

    def mend(self) -> None:
        """Ends every fault, and waits until all replicas agree on a leader."""
        for fake in self.fakes.values():
            if fake.has_ended():
                fake.restart()
        self.replicas.mend()
        self.replicas.wait_for_followers()

    def judge(self, timeout: float = 90) -> None:
        """All jobs have ended as promised so far."""
        self.mend()
        if not self.watcher.is_alive():
            self.watcher.look(everything=True)
        wait_until(lambda: not self.history.in_flight(), "all jobs have ended", timeout)
        # A wrong second run might come late.
        time.sleep(0.5)
        found = self.watcher.violations()
        assert not found, "\n".join(map(str, found))
        assert not self.client.refused, self.client.refused

    def close(self) -> None:
        if self.watcher.is_alive():
            self.watcher.stop()
        self.replicas.close()
        for fake in self.fakes.values():
            fake.kill()


@contextlib.contextmanager
def staged(
    directory: Path, database: Database, count: int = 2, seed: int = 0, **more: Any
) -> Iterator[Stage]:
    stage = Stage(directory, database, count, seed, **more)
    try:
        yield stage.start()
    finally:
        stage.close()
