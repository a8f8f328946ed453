"""Where a job goes and when, on two real clusters, by the hints of Ray's unchanged client.

Which cluster ran a job is read from that cluster, never from the control plane.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ray.job_submission import JobStatus, JobSubmissionClient

from support import processes
from support.jobs import appends, hints, unique_id, wait_for, wait_for_all
from support.plane import MakePlane, Plane
from support.pool import Pool
from support.ray_cluster import Clusters, RayCluster, where
from support.waiting import holds_for, wait_until


def message_of(client: JobSubmissionClient, job_id: str, *words: str) -> str:
    """The message of a queued job, once it has all these words."""

    def look() -> str | None:
        info = client.get_job_info(job_id)
        assert info.status is JobStatus.PENDING, info
        text = info.message or ""
        return text if all(word in text for word in words) else None

    return wait_until(look, f"{job_id} says {words}", timeout=20)


def stopped(client: JobSubmissionClient, job_id: str) -> None:
    """A queued job is stopped at once, and never reaches a cluster."""
    assert client.stop_job(job_id) is True
    wait_for(client, job_id, "STOPPED", timeout=5)


@pytest.mark.parametrize("name", ["centos", "mac"])
def test_the_preferred_cluster_gets_the_job(plane: Plane, clusters: Clusters, name: str) -> None:
    job_id = plane.client.submit_job(entrypoint="true", metadata=hints(name))
    wait_for(plane.client, job_id, "SUCCEEDED")
    assert where(clusters, job_id) == [name]


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (["linux"], "centos"),
        (["macos", "arm64"], "mac"),
        # No cluster carries `tradebot`: a label, and no filter.
        (["tradebot", "x86_64"], "centos"),
    ],
)
def test_tags_choose_the_cluster(
    plane: Plane, clusters: Clusters, tags: list[str], name: str
) -> None:
    job_id = plane.client.submit_job(entrypoint="true", metadata=hints(tags=tags))
    wait_for(plane.client, job_id, "SUCCEEDED")
    assert where(clusters, job_id) == [name]


def test_an_unknown_cluster_is_refused_and_the_known_ones_are_named(plane: Plane) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)windows.*centos.*mac"):
        plane.client.submit_job(entrypoint="true", metadata=hints("windows"))


def test_tags_that_no_one_cluster_carries_wait_and_say_so(plane: Plane, clusters: Clusters) -> None:
    client = plane.client
    job_id = client.submit_job(entrypoint="true", metadata=hints(tags=["linux", "macos"]))
    message = message_of(client, job_id, "centos: missing tags: macos")
    assert "mac: missing tags: linux" in message
    stopped(client, job_id)
    assert where(clusters, job_id) == []


def test_a_demand_larger_than_every_cluster_waits_and_says_so(plane: Plane) -> None:
    job_id = plane.client.submit_job(entrypoint="true", entrypoint_num_cpus=64)
    message_of(plane.client, job_id, "too small: CPU 64 requested, 4 in total")
    stopped(plane.client, job_id)


def test_a_burst_is_spread_over_both_clusters(plane: Plane, clusters: Clusters) -> None:
    """Two CPUs each: no cluster of four can hold a third, and Ray would let it wait forever."""
    ids = [
        plane.client.submit_job(entrypoint=f"sleep 4.{n}", entrypoint_num_cpus=2) for n in range(4)
    ]
    wait_for_all(plane.client, ids)
    ran_on = [name for job_id in ids for name in where(clusters, job_id)]
    assert sorted(ran_on) == ["centos", "centos", "mac", "mac"]


def test_a_busy_cluster_holds_back_who_prefers_it_and_nobody_else(
    plane: Plane, clusters: Clusters
) -> None:
    client = plane.client
    large = client.submit_job(
        entrypoint="sleep 300", entrypoint_num_cpus=3, metadata=hints("centos")
    )
    wait_for(client, large, "RUNNING")
    waits = client.submit_job(entrypoint="echo patient", metadata=hints("centos"))
    message_of(client, waits, "centos: busy: CPU 75 % in use, limit 70 %")
    free = client.submit_job(entrypoint="echo anywhere")
    wait_for(client, free, "SUCCEEDED")
    assert where(clusters, free) == ["mac"]
    assert client.get_job_status(waits) is JobStatus.PENDING
    assert where(clusters, waits) == [], "the queue is ours: Ray cannot stop what is pending there"
    client.stop_job(large)
    wait_for(client, waits, "SUCCEEDED")
    assert where(clusters, waits) == ["centos"]


def test_higher_priority_goes_first(make_plane: MakePlane, tmp_path: Path) -> None:
    client = make_plane(execution_mode="serial").client
    order = tmp_path / "order"
    gate = tmp_path / "gate"
    first = client.submit_job(
        entrypoint=f"until test -e {gate}; do sleep 0.2; done", metadata=hints("mac")
    )
    wait_for(client, first, "RUNNING")
    ids = [first]
    for priority in (0, 5, 9):
        metadata = hints("mac", priority=priority)
        entrypoint = appends(f"priority {priority}", order)
        ids.append(client.submit_job(entrypoint=entrypoint, metadata=metadata))
    message_of(client, ids[1], "mac: runs 1 of at most 1 top-level jobs")
    gate.touch()
    wait_for_all(client, ids)
    assert order.read_text().splitlines() == ["priority 9", "priority 5", "priority 0"]


def test_the_submission_interval_holds_over_a_crash(
    make_plane: MakePlane, centos: RayCluster
) -> None:
    interval = 8
    plane = make_plane(submission_interval=f"{interval}s")
    client = plane.client
    metadata = hints("centos", required=True)
    first = client.submit_job(entrypoint="true", metadata=metadata, submission_id=unique_id("a"))
    wait_until(lambda: centos.job(first), "the first is on the cluster")
    plane.kill()
    plane.start()
    second = client.submit_job(entrypoint="true", metadata=metadata, submission_id=unique_id("b"))
    message_of(client, second, "centos: next submission allowed in")
    wait_for_all(client, [first, second])
    submitted = [job["start_time"] for job in map(centos.job, (first, second)) if job]
    # Ray records when a request came in; ours left a little before.
    assert submitted[1] - submitted[0] >= interval * 1000 - 250


def test_no_ray_client_server_appears_because_of_us(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    """A `specific-server` costs 115 MB and a Ray Client connection each; jobs need none."""

    def client_servers() -> list[str]:
        lines = [processes.command_line(p) for c in clusters.values() for p in c.pids]
        return [line for line in lines if "ray.util.client.server" in line]

    # `ray start` itself runs one proxy per head, which only forwards.
    before = client_servers()
    assert len(before) == len(clusters)
    assert not any("specific-server" in line for line in before)
    client = make_plane().client
    ids = [client.submit_job(entrypoint=f"echo {n}") for n in range(20)]
    holds_for(lambda: client_servers() == before, 5, "no other client server while jobs start")
    jobs = wait_for_all(client, ids)
    assert {job.status for job in jobs.values()} == {JobStatus.SUCCEEDED}
    assert {name for job_id in ids for name in where(clusters, job_id)} == set(clusters)
    assert client_servers() == before


def test_a_cluster_that_is_wanted_more_gets_the_work(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    def mac_first(pool: Pool) -> None:
        pool["mac"].update(prefer=True, weight=5.0)

    client = make_plane(mac_first).client
    ids = [client.submit_job(entrypoint=f"echo {n}") for n in range(3)]
    wait_for_all(client, ids)
    assert [where(clusters, job_id) for job_id in ids] == [["mac"]] * 3
