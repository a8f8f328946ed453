"""A small real head gets no more drivers than it can bear. `make head` is the long version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import burst, small_head
from support.plane import Plane
from support.pool import Pool
from support.small_head import SmallHead
from support.waiting import wait_until

JOBS = 15
GIB = 1 << 30

pytestmark = pytest.mark.skipif(
    not small_head.is_possible(),
    reason="needs root, unshare and cgroup v1 for memory",
)


@pytest.fixture(scope="module")
def head() -> Iterator[SmallHead]:
    head = SmallHead("small", 2 * GIB)
    try:
        yield head.start()
    finally:
        head.remove()


def make_plane(directory: Path, head: SmallHead, **scheduler: object) -> Plane:
    plane = Plane(directory, Pool([head], scheduler))
    plane.start()
    plane.wait_healthy()
    return plane


def test_a_burst_takes_no_more_memory_than_the_head_has_for_drivers(
    head: SmallHead, tmp_path: Path
) -> None:
    # A quarter of 2 GiB: five drivers.
    plane = make_plane(tmp_path, head, head_memory_share=0.25)
    try:
        limit = plane.cluster("small")["limits"]["max_drivers"]
        assert limit == 5
        # With ids: identical queued jobs would otherwise count as the same job.
        driver = burst.DRIVER.format(seconds=3)
        jobs = [{"id": f"burst-{n}", "entrypoint": driver} for n in range(JOBS)]
        figures = burst.measure(
            head,
            lambda: burst.send_through(plane, jobs),
            lambda: burst.states_in(plane),
            timeout=600,
        )
        assert figures["succeeded"] == JOBS, figures
        assert figures["head_alive"], figures
        assert figures["killed_by_kernel"] == 0, figures
        # Ray's own view: it would run them all at once if it were sent them.
        assert 1 <= figures["most_running"] <= limit, figures
    finally:
        plane.close()


def test_a_job_says_that_it_waits_for_the_heads_memory(head: SmallHead, tmp_path: Path) -> None:
    plane = make_plane(tmp_path, head, driver_memory="1GB", head_memory_share=0.5)
    try:
        jobs = [{"id": f"asleep-{n}", "entrypoint": "sleep 300"} for n in range(2)]
        assert burst.send_through(plane, jobs) == 2
        says = "runs 1 of at most 1 drivers on its head node"
        why = wait_until(lambda: waits_because(plane, "asleep-1", says), says)
        assert why["clusters"][0]["reason"] == "head_full"
        # The next test has the same head: no work of ours may be left on it.
        plane.post("/v1/jobs/asleep-1/stop")
        plane.post("/v1/jobs/asleep-0/stop")
        wait_until(lambda: burst.states_in(plane) == {"STOPPED": 2}, "both are stopped")
    finally:
        plane.close()


def waits_because(plane: Plane, job: str, says: str) -> dict[str, Any] | None:
    """Its explanation, once it says so: the underlying figures are some seconds old."""
    why = plane.get(f"/v1/jobs/{job}/explain")
    return why if says in why["summary"] else None


def test_ended_runs_are_cleaned_up_and_their_logs_stay(head: SmallHead, tmp_path: Path) -> None:
    plane = make_plane(tmp_path, head, clean_up_after="2s")
    try:
        plane.post("/v1/jobs", {"id": "swept", "entrypoint": "echo kept"})
        wait_until(lambda: plane.native_job("swept")["state"] == "succeeded", "it ran")
        wait_until(lambda: head.job("swept") is None, "Ray has forgotten it")
        assert plane.native_job("swept")["state"] == "succeeded"
        logs = plane.get("/v1/jobs/swept/logs")
        assert "kept" in str(logs)
    finally:
        plane.close()
