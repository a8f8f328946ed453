"""Clusters that die or hang, and a control plane that is stopped or restarted meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

from ray.job_submission import JobStatus

from history.watch import watched
from support import ports, processes
from support.jobs import hints, wait_for
from support.plane import MakePlane, is_healthy
from support.pool import Pool
from support.ray_cluster import Clusters, where
from support.waiting import holds_for, wait_until


def test_a_cluster_that_dies_with_jobs_on_it_and_comes_back(
    make_plane: MakePlane, mended: Clusters, tmp_path: Path
) -> None:
    """Its jobs are neither failed nor run twice; one that may run twice runs elsewhere."""
    plane = make_plane()
    client = plane.client
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "main.py").write_text("print('program was here')\n")
    packaged = {
        "entrypoint": "python main.py",
        "runtime_env": {"working_dir": str(tmp_path / "program")},
        "metadata": hints("mac"),
    }
    with watched(plane, tmp_path, mended) as (jobs, watcher):
        finished = client.submit_job(submission_id=jobs.expect("finished"), **packaged)
        wait_for(client, finished, "SUCCEEDED")
        log_before = wait_until(
            lambda: "program was here" in (t := client.get_job_logs(finished)) and t, "it has a log"
        )
        stays = jobs.run("stays", "sleep 600", preferred_cluster="mac")
        moves = jobs.run(
            "moves", "sleep 15", runs=2, preferred_cluster="mac", on_cluster_loss="requeue"
        )
        wait_for(client, stays, "RUNNING")
        wait_for(client, moves, "RUNNING")
        wait_until(lambda: jobs.history.began().keys() == {stays, moves}, "both have begun")

        watcher.head_killed("mac")
        mended["mac"].kill()
        wait_until(lambda: not is_healthy(plane.cluster("mac")), "mac is unhealthy", timeout=30)

        # Unknown is shown as running, with a message that says since when.
        def unreachable() -> bool:
            info = client.get_job_info(stays)
            assert info.status is JobStatus.RUNNING, info
            return "unreachable" in (info.message or "")

        wait_until(unreachable, "the job is unreachable", timeout=30)
        assert plane.native_job(stays)["state"] == "unknown"

        # Its log is served from the plane's own copy.
        assert client.get_job_logs(finished) == log_before
        assert client.get_job_status(finished) is JobStatus.SUCCEEDED

        # New work that merely prefers it goes elsewhere.
        jobs.run("elsewhere", preferred_cluster="mac")

        wait_for(client, moves, "SUCCEEDED", timeout=120)
        assert mended["centos"].job(f"{moves}-a2") is not None
        assert client.get_job_status(stays) is JobStatus.RUNNING

        mended["mac"].restart()
        watcher.head_replaced("mac")
        info = wait_for(client, stays, "FAILED", timeout=60)
        assert "restarted and no longer knows this job" in (info.message or "")
        assert jobs.history.began()[moves] == 2
        assert client.get_job_logs(finished) == log_before

        # The new head has none of the old one's packages.
        again = client.submit_job(submission_id=jobs.expect("again"), **packaged)
        wait_for(client, again, "SUCCEEDED")
        assert where(mended, again) == ["mac"]


def test_a_cluster_that_hangs_delays_nobody_else(
    make_plane: MakePlane, mended: Clusters, tmp_path: Path
) -> None:
    plane = make_plane()
    client = plane.client
    with watched(plane, tmp_path, mended) as (jobs, _):
        sleeper = jobs.run("sleeper", "sleep 8", preferred_cluster="mac")
        wait_for(client, sleeper, "RUNNING")

        def six_jobs(name: str) -> float:
            """Seconds until six jobs for centos were accepted and are on it."""
            began = time.monotonic()
            ids = [jobs.run(name, tags=["linux"]) for _ in range(6)]
            accepted = time.monotonic() - began
            assert accepted < 5, "accepting a job waits for no cluster"
            centos = mended["centos"]
            wait_until(lambda: set(ids) <= centos.submission_ids(), "all six are on centos", 60)
            return time.monotonic() - began

        normally = six_jobs("normal")
        mended["mac"].freeze()
        # From the first moment on, not only once it is known to hang.
        hanging = six_jobs("hanging")
        assert hanging < 3 * normally + 2, f"{hanging:.1f} s instead of {normally:.1f} s"

        wait_until(lambda: not is_healthy(plane.cluster("mac")), "mac is unhealthy", timeout=60)
        anywhere = jobs.run("anywhere")
        wait_for(client, anywhere, "SUCCEEDED")
        assert client.get_job_status(sleeper) is JobStatus.RUNNING

        mended["mac"].thaw()
        wait_for(client, sleeper, "SUCCEEDED", timeout=90)
        plane.wait_healthy()
        assert where(mended, anywhere) == ["centos"]


def test_an_unreachable_dashboard_is_unhealthy_and_no_other_address_is_tried(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    """The prototype tried 8265 on the same host, which belonged to another cluster."""
    closed = ports.a_port()

    def wrong_port(pool: Pool) -> None:
        # Its Ray Client address is right, and a healthy dashboard is on the same host.
        pool["mac"]["dashboard"] = f"http://127.0.0.1:{closed}"

    plane = make_plane(wrong_port, healthy=False)
    plane.wait_healthy("centos")
    job_id = plane.client.submit_job(entrypoint="true", metadata=hints("mac", required=True))
    allowed = {closed, int(clusters["centos"].dashboard.rpartition(":")[2])}
    seen: set[int] = set()

    def nothing_else() -> bool:
        seen.update(processes.remote_ports(plane.pid))
        return seen <= allowed and not is_healthy(plane.cluster("mac"))

    holds_for(nothing_else, 6, f"connections to {allowed} only", every=0.02)
    assert seen, "connections were seen at all"
    assert where(clusters, job_id) == []
    info = plane.client.get_job_info(job_id)
    assert info.status is JobStatus.PENDING
    assert "mac" in (info.message or "")


def test_a_stop_leaves_jobs_running_and_the_next_start_adopts_them(
    make_plane: MakePlane, clusters: Clusters, tmp_path: Path
) -> None:
    plane = make_plane()
    client, centos = plane.client, clusters["centos"]
    gate = tmp_path / "gate"
    wait = f"until test -e {gate}; do sleep 0.2; done"
    with watched(plane, tmp_path, clusters) as (jobs, _):
        long = jobs.run("long", wait, preferred_cluster="centos")
        short = jobs.run("short", "sleep 4", preferred_cluster="centos")
        queued = jobs.run("never", entrypoint_num_cpus=64)
        wait_for(client, long, "RUNNING")
        wait_for(client, short, "RUNNING")

        assert plane.stop() == 0
        assert (centos.job(long) or {})["status"] == "RUNNING"
        # This one ends while the control plane is down.
        wait_until(lambda: (centos.job(short) or {})["status"] == "SUCCEEDED", "the short one ends")
        assert (centos.job(long) or {})["status"] == "RUNNING"

        plane.start()
        wait_for(client, short, "SUCCEEDED")
        assert client.get_job_status(long) is JobStatus.RUNNING
        assert client.get_job_status(queued) is JobStatus.PENDING
        jobs.stop(queued)
        gate.touch()
        wait_for(client, long, "SUCCEEDED")
        assert queued not in jobs.history.began()


def test_jobs_that_were_stopped_while_queued_never_run(
    make_plane: MakePlane, clusters: Clusters, tmp_path: Path
) -> None:
    """Ray cannot stop a pending job; our own queue can, even across a crash."""
    plane = make_plane(execution_mode="serial")
    client = plane.client
    gate = tmp_path / "gate"
    only = {"preferred_cluster": "mac", "required": True}
    with watched(plane, tmp_path, clusters) as (jobs, _):
        first = jobs.run("first", f"until test -e {gate}; do sleep 0.2; done", **only)
        wait_for(client, first, "RUNNING")
        waiting = [jobs.run(f"job{n}", **only) for n in range(3)]
        jobs.stop(waiting[1])
        plane.kill()
        plane.start()
        assert client.get_job_status(waiting[1]) is JobStatus.STOPPED
        gate.touch()
        wait_for(client, waiting[2], "SUCCEEDED")
        assert list(jobs.history.began()) == [first, waiting[0], waiting[2]]
        assert where(clusters, waiting[1]) == []
