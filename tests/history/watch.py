"""Reads the jobs' states all the time, and asks why some of them wait."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import requests

from support.jobs import ENDED
from support.plane import Asked, Plane
from support.ray_cluster import Clusters, RayCluster
from support.waiting import wait_until

from .check import Violation, check
from .client import Client
from .record import History, Loss, Shown, Why, now

LIVE = "&state=queued,dispatching,pending,running,unknown"


class Watcher(threading.Thread):
    def __init__(self, plane: Asked, history: History, seed: int = 0) -> None:
        super().__init__(daemon=True)
        self._plane = plane
        self._history = history
        self._dice = random.Random(seed)
        self._over = threading.Event()
        self._losses: dict[str, Loss] = {}
        self.looks = 0

    def run(self) -> None:
        while not self._over.wait(1.0):
            # It is down, or not ready; other code measures for how long.
            with contextlib.suppress(requests.RequestException):
                # Now and then all of them: ended jobs must still be there, unchanged.
                self.look(everything=self.looks % 8 == 7)

    def stop(self) -> None:
        self._over.set()
        self.join(60)

    def verdict(self, clusters: Iterable[RayCluster] = ()) -> list[Violation]:
        """Stops, looks at everything once more, also on the clusters, and checks it."""
        self.stop()
        for cluster in clusters:
            self._history.found(cluster.name, cluster.submission_ids())
        return self.violations()

    def violations(self) -> list[Violation]:
        """Looks at everything once more, and checks all facts so far; every job has ended."""
        self.look(everything=True)
        return check(self._history.facts())

    def look(self, everything: bool) -> None:
        asked = now()
        accepted = {job.id for job in self._history.jobs() if job.accepted}
        items = {item["id"]: item for item in self._list("" if everything else LIVE)}
        answered = now()
        for item in items.values():
            self._history.show(_shown(item, asked, answered))
        missing = accepted - items.keys()
        if everything:
            for job_id in missing:
                self._history.show(Shown(job_id, asked, answered, None))
        else:
            # They have ended since the last look; the next look asks about the rest.
            for job_id in sorted(missing - self._history.final.keys())[:40]:
                self.look_at(job_id)
        live = [job_id for job_id, item in items.items() if item["ray_status"] not in ENDED]
        for job_id in self._dice.sample(live, min(6, len(live))):
            self._ask_why(job_id)
        self.looks += 1

    def look_at(self, job_id: str) -> None:
        asked = now()
        answer = self._plane.request("GET", f"/v1/jobs/{job_id}", timeout=10)
        if answer.status_code == 404:
            self._history.show(Shown(job_id, asked, now(), None))
        else:
            self._history.show(_shown(_json(answer), asked, now()))

    def read_log(self, job_id: str) -> None:
        """Over both APIs."""
        for path in (f"/v1/jobs/{job_id}/logs", f"/api/jobs/{job_id}/logs"):
            answer = self._plane.request("GET", path, timeout=15)
            self._history.log(job_id, answer.text)

    def head_killed(self, cluster: str) -> None:
        """Call it just before the head is killed: the jobs that are there have an excuse."""
        self._losses[cluster] = self._history.head_lost(cluster)
        self._note_jobs_there()

    def head_replaced(self, cluster: str) -> None:
        """Call it as soon as there is a new head. Jobs that are sent to it have no excuse."""
        self._note_jobs_there()
        self._losses.pop(cluster).until = now()

    def _note_jobs_there(self) -> None:
        def noted() -> bool:
            self.look(everything=False)
            return True

        # The control plane may be down as well.
        wait_until(noted, "the control plane lists its jobs", timeout=60)

    def _list(self, query: str) -> Iterable[dict[str, Any]]:
        cursor = ""
        while True:
            path = f"/v1/jobs?kind=job&limit=1000{query}{cursor}"
            page = _json(self._plane.request("GET", path, timeout=15))
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            cursor = f"&cursor={page['next_cursor']}"

    def _ask_why(self, job_id: str) -> None:
        why = _json(self._plane.request("GET", f"/v1/jobs/{job_id}/explain", timeout=15))
        to_ray = None
        if why["state"] in ("queued", "dispatching", "pending"):
            shown = _json(self._plane.request("GET", f"/api/jobs/{job_id}", timeout=15))
            to_ray = (shown["message"] or "") if shown["status"] == "PENDING" else None
        clusters = len(why["clusters"])
        self._history.explain(Why(job_id, why["state"], why["summary"], clusters, to_ray))


@contextlib.contextmanager
def watched(
    plane: Plane, directory: Path, clusters: Clusters, settle: float = 0.0
) -> Iterator[tuple[Client, Watcher]]:
    """A client whose jobs are watched; at the end all have ended, and no promise was broken."""
    history = History(directory / "ledger", clusters.values())
    client, watcher = Client(plane, history), Watcher(plane, history)
    watcher.start()
    try:
        yield client, watcher
        wait_until(lambda: not history.in_flight(), "all jobs have ended", timeout=180)
        # A wrong second run might come late.
        time.sleep(settle)
        assert watcher.verdict(clusters.values()) == []
        assert client.refused == []
    finally:
        watcher.stop()


def _shown(item: dict[str, Any], asked: float, answered: float) -> Shown:
    words = item["ray_status"], item["state"], item.get("cluster"), item.get("message") or ""
    return Shown(item["id"], asked, answered, *words)


def _json(answer: requests.Response) -> Any:
    answer.raise_for_status()
    return answer.json()
