"""Many jobs at once for one head, and their effect on it."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import requests

from .plane import Plane
from .small_head import SmallHead

# A typical job, as far as its head is concerned: it connects, and lives for a while.
DRIVER = "python -c 'import ray, time; ray.init(); time.sleep({seconds})'"
MIB = 1 << 20


class Watch:
    """Polls the dashboard all the time, as users do: how long it takes, and how many run."""

    def __init__(self, head: SmallHead):
        self._head = head
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.seconds: list[float] = []
        self.unanswered = 0
        self.most_running = 0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._over.wait(2.0):
            started = time.monotonic()
            try:
                jobs = self._head.get("/api/jobs/", timeout=30)
            except requests.RequestException:
                self.unanswered += 1
                continue
            self.seconds.append(time.monotonic() - started)
            running = sum(job["status"] == "RUNNING" for job in jobs if job["submission_id"])
            self.most_running = max(self.most_running, running)


def send_directly(head: SmallHead, jobs: list[dict[str, Any]]) -> int:
    """All of them directly to Ray, as fast as it accepts them. Returns how many it accepted."""

    def post(job: dict[str, Any]) -> bool:
        try:
            return requests.post(f"{head.dashboard}/api/jobs/", json=job, timeout=120).ok
        except requests.RequestException:
            return False

    with ThreadPoolExecutor(16) as threads:
        return sum(threads.map(post, jobs))


def send_through(plane: Plane, jobs: list[dict[str, Any]]) -> int:
    """All of them to the control plane, in one request. Returns how many it accepted."""
    return plane.post("/v1/jobs/batch", {"jobs": jobs}, timeout=120)["accepted"]


def states_on(head: SmallHead) -> Counter[str]:
    return Counter(
        job["status"] for job in head.get("/api/jobs/", timeout=60) if job["submission_id"]
    )


def states_in(plane: Plane) -> Counter[str]:
    items = plane.get("/v1/jobs?limit=1000", timeout=60)["items"]
    return Counter(job["state"].upper() for job in items)


def measure(
    head: SmallHead, send: Callable[[], int], states: Callable[[], Counter[str]], timeout: float
) -> dict[str, Any]:
    """Sends, waits for the end of all or of the head, and returns the figures."""
    started = time.monotonic()
    seen: Counter[str] = Counter()
    with Watch(head) as watch:
        taken = send()
        sent = time.monotonic() - started
        while time.monotonic() - started < timeout and head.is_alive():
            with contextlib.suppress(requests.RequestException):
                seen = states()
            if seen["SUCCEEDED"] + seen["FAILED"] + seen["STOPPED"] >= taken:
                break
            time.sleep(2)
        took = time.monotonic() - started
    latency = sorted(watch.seconds) or [0.0]
    return {
        "taken": taken,
        "succeeded": seen["SUCCEEDED"],
        "failed": seen["FAILED"],
        "unfinished": taken - seen["SUCCEEDED"] - seen["FAILED"],
        "head_alive": head.is_alive(),
        "seconds_to_send": round(sent, 1),
        "seconds": round(took),
        "most_running": watch.most_running,
        "peak_mib": head.peak_bytes() // MIB,
        "killed_by_kernel": head.kills(),
        "list_p50_ms": round(statistics.median(latency) * 1000),
        "list_max_ms": round(latency[-1] * 1000),
        "list_unanswered": watch.unanswered,
    }
